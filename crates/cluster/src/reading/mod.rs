//! Reads and watches: Nodes joined with their NodeConfigs, ConfigMaps, and objects of any kind.

pub mod binding;
mod binding_check;
pub(crate) mod configz;
pub mod follow;
pub(crate) mod items;
pub mod list;
pub(crate) mod node_decoder;
pub(crate) mod node_join;
pub(crate) mod node_lists;
pub mod objects;
pub mod observe;
pub mod reader;
pub(crate) mod references;
pub(crate) mod salvage;
pub(crate) mod shared_values;
pub(crate) mod streaming_list;
pub mod watch;
mod whoami;
pub(crate) mod wire;
