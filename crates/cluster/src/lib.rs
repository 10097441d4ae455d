//! Kubernetes API client: connecting, reading, watching, locking and writing. Must not plan, judge or print.
//!
//! [`connect`] finds the server. [`ClusterReader`] reads and has no method that changes the cluster. [`watch`]
//! follows Nodes. [`lease`] holds the lock that keeps a second sync out. [`ClusterWriter`] writes and requires that
//! lock. [`retry`] is the only retry policy.

pub mod apply;
mod assignment_writer;
pub mod binding;
mod configz;
pub mod connect;
pub mod diagnostics;
mod drain_mark;
#[cfg(test)]
mod drain_sandbox_tests;
pub mod error;
mod evict;
mod failure;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod follow;
#[cfg(test)]
mod hostile_tests;
mod items;
pub mod lease;
pub mod list;
mod node_decoder;
mod node_join;
mod node_lists;
#[cfg(test)]
mod nodeconfig_tests;
pub mod objects;
pub mod observe;
pub mod operation;
pub mod permission;
mod pods;
mod pointer_writer;
mod proxy;
pub mod reader;
mod references;
pub mod retry;
mod salvage;
#[cfg(test)]
mod sandbox_tests;
mod shared_values;
mod streaming_list;
pub mod transport;
pub mod watch;
mod whoami;
mod wire;
mod wire_pod;
pub mod writer;

pub use binding::Binding;
pub use configz::CONFIGZ_PATIENCE;
pub use connect::ConnectError;
pub use error::ClusterError;
pub use lease::LockError;
pub use operation::{Operation, Resource, Verb};
pub use pods::PodEvent;
pub use pointer_writer::{PointerSpec, Replaced};
pub use reader::{ClusterReader, LabelKeys, ReaderOptions};
pub use watch::NodeEvent;
pub use wire::{IgnoredContent, Meta, WireConfigMap, WireNode};
pub use writer::ClusterWriter;
