//! Follows all Nodes with one watch for each resource that says something of them, until the reader of the stream has
//! enough. Asks nothing about single Nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::ready;
use futures::{Stream, StreamExt as _, stream};

use super::binding::Binding;
use super::carrier::{JoinedWatch, named};
use super::error::ClusterError;
use super::follow::{Change, Following, WATCH, follow};
use super::list::Collection;
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::wire::WireNode;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::NodeConfig;
use nodecfg_contract::observed::{ListVersions, Node};

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
    /// Follows all Nodes, with what is assigned to them, from the versions of the lists that `known` was read from. The
    /// stream ends with its first error, which comes when an outage outlasts the reader's patience or when the server
    /// refuses.
    pub fn watch_nodes(
        &self,
        known: &BTreeMap<NodeName, Node>,
        versions: &ListVersions,
    ) -> impl Stream<Item = Result<NodeEvent, ClusterError>> + Send + use<> {
        let following = |resource, version: Option<&String>| Following {
            collection: Collection::all(Operation::on_all(Verb::Watch, resource, None)),
            version: version.cloned(),
            watch: WATCH,
        };
        let keys = Arc::clone(&self.label_keys);
        let nodes = following(Resource::Nodes, Some(&versions.nodes));
        let nodes = follow(&self.transport, nodes, move |wire: WireNode| wire.into_node(&keys));
        if self.binding == Binding::Node {
            return nodes.map(|change| Ok(told(change?))).left_stream();
        }
        let configs = following(Resource::NodeConfigs, versions.carriers.as_ref().map(|listed| &listed.version));
        let configs = follow(&self.transport, configs, named);
        let both =
            stream::select(nodes.map(|change| change.map(Half::Node)), configs.map(|change| change.map(Half::Config)));
        let transport = self.transport.clone();
        let whole = both.scan(JoinedWatch::of(known, versions.carriers.as_ref()), move |halves, change| {
            let now = transport.server_time();
            let event = match change {
                Ok(Half::Node(change)) => halves.node(change, now).map(Ok),
                Ok(Half::Config(change)) => halves.config(change, now).map(Ok),
                Err(error) => Some(Err(error)),
            };
            ready(Some(event))
        });
        whole.filter_map(ready).right_stream()
    }
}

/// A change of one of the two resources.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Half {
    Node(Change<Node>),
    Config(Change<(NodeName, Arc<NodeConfig>)>),
}

fn told(change: Change<Node>) -> NodeEvent {
    match change {
        Change::Upsert(node) => NodeEvent::Upsert(Box::new(node)),
        Change::Deleted(node) => NodeEvent::Deleted(node.name),
        Change::Relisted(nodes) => NodeEvent::Relisted(nodes),
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod wire_tests;
