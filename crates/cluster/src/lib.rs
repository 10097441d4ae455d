//! Everything that talks to a Kubernetes API server, and nothing that decides what to say.
//!
//! [`connect`] finds the server, [`ClusterReader`] reads it, [`watch`] follows its Nodes, [`Lock`](lease) keeps a second
//! sync out, and [`ClusterWriter`] — which cannot be made without the lock — writes. One [`retry`] policy serves every
//! request. Nothing here plans, judges or prints, and a reader has no method that changes the cluster.

pub mod apply;
mod assignment_writer;
pub mod binding;
mod carrier;
pub mod checkup;
mod configz;
pub mod connect;
pub mod error;
mod failure;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod follow;
mod items;
pub mod lease;
pub mod list;
#[cfg(test)]
mod nodeconfig_tests;
pub mod observe;
pub mod operation;
pub mod permission;
mod proxy;
pub mod reader;
mod references;
pub mod retry;
#[cfg(test)]
mod sandbox_tests;
pub mod transport;
pub mod watch;
mod whoami;
mod wire;
pub mod writer;

pub use binding::Binding;
pub use connect::ConnectError;
pub use error::ClusterError;
pub use lease::LockError;
pub use operation::{Operation, Resource, Verb};
pub use reader::{ClusterReader, LabelKeys, ReaderOptions};
pub use watch::NodeEvent;
pub use wire::{Anything, Meta, WireConfigMap, WireNode};
pub use writer::ClusterWriter;
