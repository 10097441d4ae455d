//! Decoding of Nodes and NodeConfigs for lists and watches, to values that share what they have in common.

use std::sync::Arc;

use super::salvage::read_node_config;
use super::shared_values::SharedValues;
use super::wire::{LabelKeys, WireNode};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::NodeConfig;
use nodecfg_observed::{Node, NodeConfigState};

/// Decoder of the lists and watches of one reader. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct NodeDecoder {
    label_keys: Arc<LabelKeys>,
    shared: Arc<SharedValues>,
}

impl NodeDecoder {
    /// Decoder that keeps these labels.
    pub(crate) fn new(label_keys: LabelKeys) -> Self {
        Self { label_keys: Arc::new(label_keys), shared: Arc::default() }
    }

    /// Copy that keeps other labels.
    pub(crate) fn keeping(&self, label_keys: LabelKeys) -> Self {
        Self { label_keys: Arc::new(label_keys), shared: Arc::clone(&self.shared) }
    }

    /// Node from its JSON. `None` for an invalid name, which no API server sends.
    ///
    /// # Errors
    /// The JSON is no object with a name.
    pub(crate) fn node(&self, item: &[u8]) -> serde_json::Result<Option<Node>> {
        Ok(self.share_node(WireNode::read(item)?))
    }

    /// Node of a decoded object, or `None` for an invalid name.
    pub(crate) fn share_node(&self, wire: WireNode) -> Option<Node> {
        let mut node = wire.into_node(&self.label_keys)?;
        self.shared.share(&mut node);
        Some(node)
    }

    /// Name and state of a NodeConfig from its JSON. `None` for an invalid name.
    ///
    /// # Errors
    /// The JSON is no object with a name.
    pub(crate) fn node_config(&self, item: &[u8]) -> serde_json::Result<Option<(NodeName, Arc<NodeConfigState>)>> {
        Ok(self.share_node_config(read_node_config(item)?))
    }

    /// Name and state of a decoded NodeConfig, or `None` for an invalid name.
    pub(crate) fn share_node_config(&self, config: NodeConfig) -> Option<(NodeName, Arc<NodeConfigState>)> {
        let name = NodeName::new(config.metadata.name.as_str()).ok()?;
        let mut state = NodeConfigState::of(config);
        self.shared.share_sources(&mut state.source, state.status.as_mut());
        Some((name, Arc::new(state)))
    }
}
