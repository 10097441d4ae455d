//! Lists of all Nodes with their assignments. Nodes and NodeConfigs are listed in parallel, because each list takes
//! seconds in a large cluster.
//!
//! Neither list is older than its request, but one may be newer than the other. A Node may miss a NodeConfig that was
//! created in between, or have one of its predecessor. The preconditions of the patches refuse a plan from such lists, and
//! the watch of a rollout corrects them. Commands that print a list once may show the older state.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::binding::Binding;
use super::list::{Collection, list};
use super::node_join::join_listed;
use super::reader::ClusterReader;
use super::salvage::read_node_config;
use super::streaming_list::stream_list;
use super::wire::WireNode;
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use nodecfg_contract::names::NodeName;
use nodecfg_observed::{AgentActivity, ListVersions, Node, NodeActivity, NodeConfigList, References};

/// Objects by name, and the version of their list.
type Listed<T> = (BTreeMap<NodeName, T>, String);

impl ClusterReader {
    /// Every Node with its assignment by name, and the versions of the lists. Reads the lists as streams, or in pages
    /// from a server without them.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
    pub async fn list_nodes(&self) -> Result<(BTreeMap<NodeName, Node>, ListVersions), ClusterError> {
        let (nodes, versions, _) = self.list_nodes_with_references().await?;
        Ok((nodes, versions))
    }

    /// Like [`list_nodes`](Self::list_nodes). With NodeConfigs, also returns the references of all Nodes and
    /// NodeConfigs, because a joined Node contains only those of its own NodeConfig.
    pub(crate) async fn list_nodes_with_references(
        &self,
    ) -> Result<(BTreeMap<NodeName, Node>, ListVersions, References), ClusterError> {
        let node = |item: &[u8]| Ok(self.decoder.node(item)?.map(|node| (node.name.clone(), node)));
        let node_config = |item: &[u8]| self.decoder.node_config(item);
        let (nodes, node_configs) =
            futures::join!(self.list_all(Resource::Nodes, node), self.list_node_configs(node_config));
        let (mut nodes, version) = nodes?;
        let node_configs = node_configs?.map(|(items, version)| NodeConfigList { version, items });
        let mut references = References::default();
        if let Some(listed) = &node_configs {
            nodes.values().for_each(|node| references.add(node.name.as_str(), node.sources()));
            listed.items.iter().for_each(|(name, config)| references.add(name.as_str(), config.sources()));
        }
        let now = self.server_time();
        nodes.values_mut().for_each(|node| join_listed(node, node_configs.as_ref(), now));
        Ok((nodes, ListVersions { nodes: version, node_configs }, references))
    }

    /// Like [`list_nodes`](Self::list_nodes), with the last heartbeat of each node and the state of its agent, for
    /// `doctor`.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
    pub async fn list_nodes_with_signs(
        &self,
    ) -> Result<(BTreeMap<NodeName, Node>, ListVersions, BTreeMap<NodeName, NodeActivity>), ClusterError> {
        let node = |item: &[u8]| {
            let wire = WireNode::read(item)?;
            let heartbeat = wire.heartbeat();
            Ok(self.decoder.share_node(wire).map(|node| (node.name.clone(), (node, heartbeat))))
        };
        let node_config = |item: &[u8]| {
            let config = read_node_config(item)?;
            let agent = config.status.agent.as_ref().map(AgentActivity::from);
            Ok(self.decoder.share_node_config(config).map(|(name, state)| (name, (state, agent))))
        };
        let (listed, node_configs) =
            futures::join!(self.list_all(Resource::Nodes, node), self.list_node_configs(node_config));
        let (listed, version) = listed?;
        let mut agents = BTreeMap::new();
        let node_configs = node_configs?.map(|(entries, version)| {
            let item = |(name, (state, agent)): (NodeName, _)| {
                agents.insert(name.clone(), agent);
                (name, state)
            };
            NodeConfigList { version, items: entries.into_iter().map(item).collect() }
        });
        let now = self.server_time();
        let (mut nodes, mut signs) = (BTreeMap::new(), BTreeMap::new());
        for (name, (mut node, heartbeat)) in listed {
            let agent = agents.remove(&name).flatten();
            join_listed(&mut node, node_configs.as_ref(), now);
            signs.insert(name.clone(), NodeActivity { heartbeat, agent });
            nodes.insert(name, node);
        }
        Ok((nodes, ListVersions { nodes: version, node_configs }, signs))
    }

    /// Every NodeConfig; `None` with the Node binding.
    async fn list_node_configs<T>(
        &self,
        keep: impl Fn(&[u8]) -> serde_json::Result<Option<(NodeName, T)>>,
    ) -> Result<Option<Listed<T>>, ClusterError> {
        if self.binding == Binding::Node {
            return Ok(None);
        }
        self.list_all(Resource::NodeConfigs, keep).await.map(Some)
    }

    /// All objects of a resource: as a stream if the server has them, else in pages.
    async fn list_all<T>(
        &self,
        resource: Resource,
        keep: impl Fn(&[u8]) -> serde_json::Result<Option<(NodeName, T)>>,
    ) -> Result<Listed<T>, ClusterError> {
        let all = Collection::all(Operation::on_all(Verb::List, resource, None));
        if self.streams_lists.load(Ordering::Relaxed) {
            match stream_list(&self.transport, &all, &keep).await {
                Ok(listed) => return Ok(listed),
                // Also a user without the right to watch. Pages have the retries and the errors of every request.
                Err(failure) => {
                    tracing::info!("cannot {} as a stream, reading pages: {}", all.operation, failure.summary());
                    self.streams_lists.store(false, Ordering::Relaxed);
                }
            }
        }
        let (items, version) = list(&self.transport, &all, "application/json", keep).await?;
        Ok((items.into_iter().collect(), version))
    }
}
