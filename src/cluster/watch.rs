//! Follows all Nodes with one watch, until the reader of the stream has enough. Asks nothing about single Nodes.

use std::sync::Arc;

use futures::{Stream, StreamExt as _};

use super::error::ClusterError;
use super::follow::{Change, Following, WATCH, follow};
use super::list::Collection;
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::wire::WireNode;
use crate::names::NodeName;
use crate::observed::Node;

/// What happened to Nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// A Node appeared or changed; also sent for what is known already.
    Upsert(Box<Node>),
    /// A Node is gone.
    Deleted(NodeName),
    /// The watch had lost its place: these are all Nodes that there are now. A Node that is not among them is gone.
    Relisted(Vec<Node>),
}

impl ClusterReader {
    /// Follows all Nodes from the version of a list. The stream ends after its first error, which comes when an outage
    /// outlasts the reader's patience or when the server refuses.
    pub fn watch_nodes(
        &self,
        resource_version: &str,
    ) -> impl Stream<Item = Result<NodeEvent, ClusterError>> + Send + use<> {
        let following = Following {
            collection: Collection::all(Operation::on_all(Verb::Watch, Resource::Nodes, None)),
            version: Some(resource_version.to_owned()),
            watch: WATCH,
        };
        let keys = Arc::clone(&self.label_keys);
        let changes = follow(&self.transport, following, move |wire: WireNode| wire.into_node(&keys));
        changes.map(|change| {
            Ok(match change? {
                Change::Upsert(node) => NodeEvent::Upsert(Box::new(node)),
                Change::Deleted(node) => NodeEvent::Deleted(node.name),
                Change::Relisted(nodes) => NodeEvent::Relisted(nodes),
            })
        })
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod wire_tests;
