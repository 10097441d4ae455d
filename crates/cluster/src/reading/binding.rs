//! Binding of a cluster: the resource that holds its assignments, either its Nodes or its NodeConfigs. A cluster has
//! one binding. Code outside this crate must not depend on it.

use std::fmt;

use nodecfg_contract::names::NodeName;
use nodecfg_observed::ServerVersion;

/// Resource that holds the assignments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Binding {
    /// `v1/Node`: kubelets 1.11 to 1.23 follow the field themselves, and API servers before 1.26 keep it.
    #[default]
    Node,
    /// `nodecfg.dev/v1alpha1 NodeConfig`, one per Node: the node agents follow it.
    NodeConfig,
}

impl Binding {
    /// Default namespace of ConfigMaps. The Node authorizer lets a kubelet read every ConfigMap that its Node names,
    /// in any namespace. Agents may read only the ConfigMaps of one namespace.
    #[must_use]
    pub fn default_namespace(self) -> &'static str {
        match self {
            Self::Node => "kube-system",
            Self::NodeConfig => nodecfg_contract::installation::NAMESPACE,
        }
    }
}

/// Binding with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingCheck {
    /// The binding.
    pub binding: Binding,
    /// The evidence.
    pub evidence: BindingEvidence,
}

/// Evidence for whether a server keeps `configSource`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindingEvidence {
    /// The result of a dry-run patch of this Node, with or without the field.
    DryRun(NodeName),
    /// The server version: no Node exists, or the server refused the dry run.
    ServerVersion(String),
    /// An assumption: no Node exists, or the server refused the dry run, and the version is unreadable. The field
    /// counts as kept until the first patch disproves it.
    Assumed(String),
}

impl fmt::Display for BindingEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DryRun(node) => write!(f, "shown by a dry-run patch of node {node}"),
            Self::ServerVersion(version) => write!(f, "derived from the API server version {version}"),
            Self::Assumed(version) => {
                write!(f, "assumed: the dry run failed and the version {version:?} is unreadable")
            }
        }
    }
}

/// Binding that follows from the server version.
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
    fn falls_back_to_the_server_version() {
        let check = |text: &str| by_version(&ServerVersion::read(text, "", ""));
        assert_eq!(check("v1.25.9").binding, Binding::Node);
        assert_eq!(check("v1.26.0").binding, Binding::NodeConfig);
        let unreadable = check("v0.0.0-master+$Format:%H$");
        assert_eq!(unreadable.binding, Binding::Node);
        assert!(matches!(unreadable.evidence, BindingEvidence::Assumed(_)));
    }
}
