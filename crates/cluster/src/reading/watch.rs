//! Watch of all Nodes with their assignments, with one request per resource and none per Node.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::ready;
use futures::{Stream, StreamExt as _, stream};

use super::binding::Binding;
use super::follow::{Change, Following, WATCH, follow};
use super::list::Collection;
use super::node_join::{JoinedWatch, NodeEvent};
use super::reader::ClusterReader;
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use nodecfg_contract::names::NodeName;
use nodecfg_observed::{ListVersions, Node, NodeConfigState};

impl ClusterReader {
    /// Follows all Nodes with their assignments, from the versions of the lists that `known` was read from. The
    /// stream ends with its first error: an outage longer than the reader's patience, or a refusal by the server.
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
        let decoder = self.decoder.clone();
        let nodes = following(Resource::Nodes, Some(&versions.nodes));
        let nodes = follow(&self.transport, nodes, move |item| decoder.node(item));
        if self.binding == Binding::Node {
            return nodes.map(|change| Ok(to_event(change?))).left_stream();
        }
        let configs = following(Resource::NodeConfigs, versions.node_configs.as_ref().map(|listed| &listed.version));
        let decoder = self.decoder.clone();
        let configs = follow(&self.transport, configs, move |item| decoder.node_config(item));
        let both = stream::select(
            nodes.map(|change| change.map(EitherChange::Node)),
            configs.map(|change| change.map(EitherChange::Config)),
        );
        let transport = self.transport.clone();
        let events = both.scan(JoinedWatch::of(known, versions.node_configs.as_ref()), move |joined, change| {
            let now = transport.server_time();
            let event = match change {
                Ok(EitherChange::Node(change)) => joined.node(change, now).map(Ok),
                Ok(EitherChange::Config(change)) => joined.config(change, now).map(Ok),
                Err(error) => Some(Err(error)),
            };
            ready(Some(event))
        });
        events.filter_map(ready).right_stream()
    }
}

/// Change of one of the two resources.
#[expect(clippy::large_enum_variant, reason = "only one exists at a time")]
enum EitherChange {
    Node(Change<Node>),
    Config(Change<(NodeName, Arc<NodeConfigState>)>),
}

fn to_event(change: Change<Node>) -> NodeEvent {
    match change {
        Change::Upsert(node) => NodeEvent::Upsert(Box::new(node)),
        Change::Deleted(node) => NodeEvent::Deleted(node.name),
        Change::Relisted(nodes) => NodeEvent::Relisted(nodes),
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod wire_tests;
