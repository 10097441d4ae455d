//! Which resource carries the assignments of a cluster: its Nodes, or NodeConfigs beside them. One binding per cluster.
//!
//! Found out by a patch with `dryRun=All`, which goes through everything a patch goes through and stores nothing. From
//! here on the [`ClusterReader`] and the writer made of it know it, and nothing outside this layer needs to.

use std::fmt;

use http::Method;
use serde_json::json;

use super::error::ClusterError;
use super::list::{Collection, any};
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::transport::{Call, Whole};
use super::wire::{Anything, LabelKeys, WireMetadata, WireNode};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::ServerVersion;
use nodecfg_contract::{ConfigSource, KUBELET_KEY};

/// Where the contract lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Binding {
    /// In `v1/Node`: the kubelets themselves follow it (1.11 to 1.23), and the API server keeps the field (before 1.26).
    #[default]
    Node,
    /// In `nodecfg.dev/v1alpha1 NodeConfig`, one per Node: the node agents follow it.
    NodeConfig,
}

impl Binding {
    /// Where ConfigMaps go when nothing else is said: the Node authorizer lets a kubelet read what its own Node names,
    /// wherever that is; agents may read ConfigMaps of this one namespace.
    #[must_use]
    pub fn default_namespace(self) -> &'static str {
        match self {
            Self::Node => "kube-system",
            Self::NodeConfig => nodecfg_contract::installation::NAMESPACE,
        }
    }
}

/// Discovery of the group and version of NodeConfigs.
const NODE_CONFIGS_API: &str = "/apis/nodecfg.dev/v1alpha1";

/// What is known about the binding, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingCheck {
    /// What holds.
    pub binding: Binding,
    /// How it is known.
    pub evidence: BindingEvidence,
}

/// How it is known whether a server keeps `configSource`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindingEvidence {
    /// A dry-run patch of this Node came back with the field, or without it.
    DryRun(NodeName),
    /// There is no Node to patch, or the dry run was refused; the server's version decides.
    ServerVersion(String),
    /// There is no Node to patch, or the dry run was refused, and the version is unreadable: taken as kept until the first
    /// patch shows otherwise.
    Assumed(String),
}

impl fmt::Display for BindingEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DryRun(node) => write!(f, "shown by a dry-run patch of node {node}"),
            Self::ServerVersion(version) => write!(f, "as is known of API servers {version}"),
            Self::Assumed(version) => write!(f, "an assumption: nothing could be tried, and {version:?} is no version"),
        }
    }
}

impl ClusterReader {
    /// The same view, of a cluster whose assignments are carried so. `None`: finds out.
    ///
    /// A server that drops `Node.spec.configSource` leaves NodeConfigs. One that keeps it has the node binding, unless
    /// there are NodeConfigs too: then somebody once decided for them, and going on with the Nodes would leave two
    /// instructions for one kubelet. That is not guessed.
    ///
    /// # Errors
    /// `FeatureDropped` when Nodes were asked for and the server drops the field; `DefinitionMissing` when it is
    /// NodeConfigs and the server does not know them; `BindingUnclear`; every [`ClusterError`] of a request.
    pub async fn bound(self, wanted: Option<Binding>) -> Result<Self, ClusterError> {
        let binding = match wanted {
            Some(Binding::NodeConfig) => Binding::NodeConfig,
            Some(Binding::Node) => match self.check().await? {
                (BindingCheck { binding: Binding::NodeConfig, .. }, Some(node)) => {
                    let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
                    return Err(ClusterError::FeatureDropped { operation: Box::new(operation) });
                }
                // Nothing to drop it from.
                _ => Binding::Node,
            },
            None => self.check().await?.0.binding,
        };
        let operation = Operation::on_all(Verb::List, Resource::NodeConfigs, None);
        match (binding, wanted) {
            (Binding::NodeConfig, _) => {
                self.any_node_config(&operation).await?;
            }
            (Binding::Node, None) if self.knows_node_configs(&operation).await? => {
                match self.any_node_config(&operation).await {
                    Ok(false) => {}
                    Ok(true) => return Err(ClusterError::BindingUnclear { operation: Box::new(operation) }),
                    // Who may not see them has nothing to do with them.
                    Err(error @ ClusterError::Forbidden { .. }) => tracing::info!("{error}; Nodes it is"),
                    Err(error) => return Err(error),
                }
            }
            (Binding::Node, _) => {}
        }
        Ok(Self { binding, ..self })
    }

    /// Whether there are NodeConfigs.
    async fn any_node_config(&self, operation: &Operation) -> Result<bool, ClusterError> {
        let collection = Collection::all(operation.clone());
        Ok(any(&self.transport, collection, |wire: WireMetadata| Some(wire)).await?.is_some())
    }

    /// Whether the server knows the resource. Asked of discovery, which everybody may read, so that clusters without it need
    /// no permission for it.
    pub(super) async fn knows_node_configs(&self, operation: &Operation) -> Result<bool, ClusterError> {
        let call = Call::new(Method::GET, NODE_CONFIGS_API.to_owned());
        match self.transport.call(operation, &call, Whole::<Anything>::new).await {
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

    /// Where the assignments of this cluster are.
    #[must_use]
    pub fn binding(&self) -> Binding {
        self.binding
    }

    /// What is known about the binding and how, whatever a user says that it is.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request.
    pub async fn evidence(&self) -> Result<BindingCheck, ClusterError> {
        Ok(self.check().await?.0)
    }

    /// Finds out whether the server keeps the field, with any Node there is.
    async fn check(&self) -> Result<(BindingCheck, Option<NodeName>), ClusterError> {
        // First, since whoever reaches a server at all may read it.
        let version = self.server_version().await?;
        let nodes = Collection::all(Operation::on_all(Verb::List, Resource::Nodes, None));
        let keep = |wire: WireMetadata| NodeName::new(wire.metadata.name).ok();
        let node = any(&self.transport, nodes, keep).await?;
        let check = match &node {
            Some(node) => self.check_binding(node, &version).await?,
            None => by_version(&version),
        };
        let field = if check.binding == Binding::Node { "kept" } else { "dropped" };
        tracing::info!("Node.spec.configSource is {field} by this API server, {}", check.evidence);
        Ok((check, node))
    }

    /// Patches a Node with a made-up source in a dry run and looks whether it comes back. API servers from 1.26 answer
    /// 200 and drop it. Where the dry run is refused (RBAC, an admission webhook without dry-run support, the Node gone),
    /// the version decides.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request but the refusals above.
    pub async fn check_binding(&self, node: &NodeName, version: &ServerVersion) -> Result<BindingCheck, ClusterError> {
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
        let probe = ConfigSource::config_map("kube-system", "nodecfg-binding-check", KUBELET_KEY);
        let body = json!({"spec": {"configSource": probe}}).to_string();
        let uri = format!("{}?dryRun=All&fieldManager=nodecfg", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/merge-patch+json", body);
        match self.transport.call(&operation, &call, Whole::<WireNode>::new).await {
            Ok(answer) => {
                let kept = answer.into_node(&LabelKeys::Only(Default::default())).and_then(|node| node.source);
                let binding =
                    if kept.is_some_and(|kept| kept.names_same(&probe)) { Binding::Node } else { Binding::NodeConfig };
                Ok(BindingCheck { binding, evidence: BindingEvidence::DryRun(node.clone()) })
            }
            Err(
                error @ (ClusterError::Forbidden { .. } | ClusterError::Invalid { .. } | ClusterError::NotFound { .. }),
            ) => {
                tracing::info!("{error}; what the server's version says has to do");
                Ok(by_version(version))
            }
            Err(error) => Err(error),
        }
    }
}

/// What the version of a server says about the binding.
#[must_use]
pub fn by_version(version: &ServerVersion) -> BindingCheck {
    let text = version.git_version.clone();
    match version.keeps_config_source() {
        Some(true) => BindingCheck { binding: Binding::Node, evidence: BindingEvidence::ServerVersion(text) },
        Some(false) => BindingCheck { binding: Binding::NodeConfig, evidence: BindingEvidence::ServerVersion(text) },
        None => BindingCheck { binding: Binding::Node, evidence: BindingEvidence::Assumed(text) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_decides_where_the_dry_run_may_not() {
        let check = |text: &str| by_version(&ServerVersion::read(text, "", ""));
        assert_eq!(check("v1.25.9").binding, Binding::Node);
        assert_eq!(check("v1.26.0").binding, Binding::NodeConfig);
        let unreadable = check("v0.0.0-master+$Format:%H$");
        assert_eq!(unreadable.binding, Binding::Node);
        assert!(matches!(unreadable.evidence, BindingEvidence::Assumed(_)));
    }
}
