//! Data types shared by the reconciler and the node agent.
//!
//! - [`ConfigSource`] and [`ConfigStatus`]: types of Dynamic Kubelet Configuration.
//! - [`nodeconfig`]: the resource that contains them.
//! - [`KubeletVersion`]: version of a kubelet.
//! - [`ContentHash`]: name of a configuration by its content.
//! - [`config_map`]: ConfigMaps with their content.
//! - [`distinct`]: equal values kept once.
//! - [`label_selector`]: selectors of nodes and pods.
//! - [`kubelet_values`]: values of a kubelet in reports.
//! - [`labels`]: labels and annotations of nodecfg.
//! - [`names`]: a checked type for each kind of name.
//! - [`natural_order`]: order of names for people.
//! - [`installation`]: names and defaults of an installation.
//! - [`json_document`]: header of JSON documents.
//! - [`ObjectRef`]: an object of any kind.
//! - [`Placement`]: how a configuration and the own one of a node are combined.
//! - [`pool_pointer`]: ConfigMap with the configuration of new nodes.
//! - [`printable`]: sanitizing of external texts for display.
//!
//! This crate must not contact a server.

pub mod config_map;
mod config_source;
mod content_hash;
pub mod distinct;
pub mod installation;
pub mod json_document;
pub mod kubelet_values;
pub mod label_selector;
pub mod labels;
pub mod names;
pub mod natural_order;
pub mod nodeconfig;
mod object_ref;
mod placement;
pub mod pool_pointer;
pub mod printable;
mod unreadable;
mod version;

pub use config_source::*;
pub use content_hash::{ContentHash, digest};
pub use object_ref::{ObjectId, ObjectRef};
pub use placement::Placement;
pub use unreadable::UnreadableField;
pub use version::KubeletVersion;
