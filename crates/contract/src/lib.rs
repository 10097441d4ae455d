//! What the reconciler and the node agent agree on.
//!
//! [`ConfigSource`] and [`ConfigStatus`] are the shapes of Dynamic Kubelet Configuration, [`nodeconfig`] is the resource that
//! carries them, [`ContentHash`] names a configuration by its content, [`names`] has a checked type for each kind of name,
//! and [`observed`] is what planning needs to know of a cluster. Plain values: nothing here talks to a server.

mod config_source;
mod content_hash;
pub mod installation;
pub mod json_document;
pub mod names;
pub mod nodeconfig;
pub mod observed;
pub mod printable;

pub use config_source::*;
pub use content_hash::{ContentHash, digest};
