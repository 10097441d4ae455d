//! Data types shared by the reconciler and the node agent.
//!
//! - [`ConfigSource`] and [`ConfigStatus`]: types of Dynamic Kubelet Configuration.
//! - [`nodeconfig`]: the resource that contains them.
//! - [`ContentHash`]: name of a configuration by its content.
//! - [`distinct`]: equal values kept once.
//! - [`label_selector`]: selectors of nodes and pods.
//! - [`names`]: a checked type for each kind of name.
//! - [`natural_order`]: order of names for people.
//! - [`observed`]: observed state of a cluster.
//! - [`installation`]: names and defaults of an installation.
//! - [`json_document`]: header of JSON documents.
//! - [`Placement`]: how a configuration and the own one of a node are combined.
//! - [`pool_pointer`]: ConfigMap with the configuration of new nodes.
//! - [`printable`]: sanitizing of external texts for display.
//!
//! This crate must not contact a server.

mod config_source;
mod content_hash;
pub mod distinct;
pub mod installation;
pub mod json_document;
pub mod label_selector;
pub mod names;
pub mod natural_order;
pub mod nodeconfig;
pub mod observed;
mod placement;
pub mod pool_pointer;
pub mod printable;

pub use config_source::*;
pub use content_hash::{ContentHash, digest};
pub use placement::Placement;
