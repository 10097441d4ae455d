//! Which binding a cluster has.
//!
//! A patch with `dryRun=All` determines it: it passes all admission and stores nothing. Without a Node, or if the patch is
//! refused, the server version determines it.

use std::sync::Arc;

use http::Method;
use serde_json::json;

use super::binding::{Binding, BindingCheck, BindingEvidence, by_version};
use super::list::{Collection, any};
use super::reader::ClusterReader;
use super::wire::{IgnoredContent, LabelKeys, WireNode};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, One, whole};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{ConfigSource, KUBELET_KEY};
use nodecfg_observed::ServerVersion;

/// Discovery path of the group and version of NodeConfigs.
const NODE_CONFIGS_API: &str = "/apis/nodecfg.dev/v1alpha1";

impl ClusterReader {
    /// Copy with the binding `wanted`. `None`: determines the binding.
    ///
    /// A server that drops `Node.spec.configSource` gets the NodeConfig binding. A server that keeps the field gets
    /// the Node binding, unless NodeConfigs exist too. Using Nodes would then leave two instructions for one kubelet,
    /// so the result is an error.
    ///
    /// # Errors
    /// `FeatureDropped` when Nodes are requested and the server drops the field; `DefinitionMissing` when NodeConfigs
    /// are requested or detected and the server does not serve them; `BindingUnclear`; every [`ClusterError`] of a
    /// request.
    pub async fn with_binding(self, wanted: Option<Binding>) -> Result<Self, ClusterError> {
        // First, since every user who reaches a server may read the version.
        let version = self.server_version().await;
        let streams_lists = version.as_ref().is_ok_and(ServerVersion::streams_lists);
        let binding = match wanted {
            // The version only saves time then.
            Some(Binding::NodeConfig) => Binding::NodeConfig,
            Some(Binding::Node) => match self.check(&version?).await? {
                (BindingCheck { binding: Binding::NodeConfig, .. }, Some(node)) => {
                    let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
                    return Err(ClusterError::FeatureDropped { operation: Box::new(operation) });
                }
                // The server keeps the field, or no Node exists that could prove its loss.
                _ => Binding::Node,
            },
            None => self.check(&version?).await?.0.binding,
        };
        let operation = Operation::on_all(Verb::List, Resource::NodeConfigs, None);
        match (binding, wanted) {
            (Binding::NodeConfig, _) => {
                self.any_node_config(&operation).await?;
            }
            (Binding::Node, None) if self.serves_node_configs(&operation).await? => {
                match self.any_node_config(&operation).await {
                    Ok(false) => {}
                    Ok(true) => return Err(ClusterError::BindingUnclear { operation: Box::new(operation) }),
                    // A user who may not list NodeConfigs does not use them.
                    Err(error @ ClusterError::Forbidden { .. }) => tracing::info!("{error}; using the node binding"),
                    Err(error) => return Err(error),
                }
            }
            (Binding::Node, _) => {}
        }
        Ok(Self { binding, streams_lists: Arc::new(streams_lists.into()), ..self })
    }

    /// Reports whether any NodeConfig exists.
    async fn any_node_config(&self, operation: &Operation) -> Result<bool, ClusterError> {
        let collection = Collection::all(operation.clone());
        Ok(any(&self.transport, collection, |_| Ok(Some(()))).await?.is_some())
    }

    /// Reports whether the server serves NodeConfigs. A refused request counts as no. Reads discovery, which every
    /// user may read, so that clusters without NodeConfigs need no permission for them.
    pub(crate) async fn serves_node_configs(&self, operation: &Operation) -> Result<bool, ClusterError> {
        let call = Call::new(Method::GET, NODE_CONFIGS_API.to_owned());
        match self.transport.call(operation, &call, whole::<IgnoredContent>).await {
            Ok(_) => Ok(true),
            Err(
                ClusterError::DefinitionMissing { .. }
                | ClusterError::Forbidden { .. }
                | ClusterError::Invalid { .. }
                | ClusterError::Unexpected { .. },
            ) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Detected binding with its evidence, regardless of the user's choice.
    pub async fn evidence(&self) -> Result<BindingCheck, ClusterError> {
        Ok(self.check(&self.server_version().await?).await?.0)
    }

    /// Checks with the first listed Node whether the server keeps the field.
    async fn check(&self, version: &ServerVersion) -> Result<(BindingCheck, Option<NodeName>), ClusterError> {
        let nodes = Collection::all(Operation::on_all(Verb::List, Resource::Nodes, None));
        let keep = |item: &[u8]| {
            Ok(WireNode::read(item)?.into_node(&LabelKeys::Only(Default::default())).map(|node| node.name))
        };
        let node = any(&self.transport, nodes, keep).await?;
        let check = match &node {
            Some(node) => self.check_binding(node, version).await?,
            None => by_version(version),
        };
        let field = if check.binding == Binding::Node { "kept" } else { "dropped" };
        tracing::info!("Node.spec.configSource is {field} by this API server, {}", check.evidence);
        Ok((check, node))
    }

    /// Patches a Node with an invented source in a dry run and checks whether the response contains the source. API
    /// servers from 1.26 return 200 and drop it. Falls back to the server version when the dry run is refused: RBAC,
    /// an admission webhook without dry-run support, or a deleted Node.
    pub(crate) async fn check_binding(
        &self,
        node: &NodeName,
        version: &ServerVersion,
    ) -> Result<BindingCheck, ClusterError> {
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
        let probe = ConfigSource::config_map("kube-system", "nodecfg-binding-check", KUBELET_KEY);
        let body = json!({"spec": {"configSource": probe}}).to_string();
        let uri = format!("{}?dryRun=All&fieldManager=nodecfg", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/merge-patch+json", body);
        match self.transport.call(&operation, &call, || One::new(WireNode::read)).await {
            Ok(answer) => {
                let kept = answer.into_node(&LabelKeys::Only(Default::default())).and_then(|node| node.source);
                let binding =
                    if kept.is_some_and(|kept| kept.names_same(&probe)) { Binding::Node } else { Binding::NodeConfig };
                Ok(BindingCheck { binding, evidence: BindingEvidence::DryRun(node.clone()) })
            }
            Err(
                error @ (ClusterError::Forbidden { .. } | ClusterError::Invalid { .. } | ClusterError::NotFound { .. }),
            ) => {
                tracing::info!("{error}; falling back to the server version");
                Ok(by_version(version))
            }
            Err(error) => Err(error),
        }
    }
}
