//! Kubernetes API client: connecting, reading, watching, locking and writing. Must not plan, judge or print.
//!
//! Each folder uses only those before it:
//!
//! - [`connection`] finds the server and sends requests; [`connection::retry`] is the only retry policy.
//! - [`reading`]: [`ClusterReader`] has no method that changes the cluster. [`reading::watch`] follows Nodes.
//! - [`lock`] holds the lock that keeps a second sync out.
//! - [`writing`]: [`ClusterWriter`] requires that lock.
//! - [`drain`]: requests of a drain.

pub mod connection;
pub mod drain;
pub mod lock;
#[cfg(test)]
mod nodeconfig_tests;
pub mod reading;
#[cfg(test)]
mod sandbox_tests;
pub mod writing;

pub use connection::connect::ConnectError;
pub use connection::error::ClusterError;
pub use connection::operation::{Operation, Resource, Verb};
pub use drain::pods::PodEvent;
pub use lock::LockError;
pub use reading::binding::Binding;
pub use reading::configz::CONFIGZ_PATIENCE;
pub use reading::node_join::NodeEvent;
pub use reading::reader::{ClusterReader, LabelKeys, ReaderOptions};
pub use reading::wire::{IgnoredContent, Meta, WireConfigMap, WireNode};
pub use writing::pointer_writer::{PointerSpec, Replaced};
pub use writing::writer::ClusterWriter;
