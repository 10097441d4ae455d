//! Types of Dynamic Kubelet Configuration: desired state (`spec.configSource`) and actual state (`status.config`) of
//! a node.
//!
//! They equal core/v1 `NodeConfigSource` and `NodeConfigStatus` (KEP-281, Kubernetes 1.11 to 1.23). They are
//! independent of any client, because planning, the node agent and the sandbox use them.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ContentHash;
use crate::Placement;
use kubelet_config::risk::Class;

/// Key of the KubeletConfiguration in nodecfg's ConfigMaps.
pub const KUBELET_KEY: &str = "kubelet";

/// core/v1 `NodeConfigSource`: source of a node's configuration. The API server refuses a source without a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSource {
    // Shared by copies, because thousands of nodes name the same ConfigMap.
    /// ConfigMap of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<Arc<ConfigMapSource>>,
}

/// core/v1 `ConfigMapNodeConfigSource`: one key of one ConfigMap. `uid` and `resourceVersion` are forbidden in spec.
/// In status, the kubelet reports there which content it uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// Key within `data`.
    #[serde(default)]
    pub kubelet_config_key: String,
    /// Name of the ConfigMap.
    #[serde(default)]
    pub name: String,
    /// Namespace of the ConfigMap.
    #[serde(default)]
    pub namespace: String,
    /// Version of the used ConfigMap; status only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Uid of the used ConfigMap; status only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl ConfigMapSource {
    /// Description of the used content, as in the kubelet's Events.
    #[must_use]
    pub fn described(&self) -> String {
        format!(
            "/api/v1/namespaces/{}/configmaps/{}, UID: {}, ResourceVersion: {}, KubeletConfigKey: {}",
            self.namespace,
            self.name,
            self.uid.as_deref().unwrap_or_default(),
            self.resource_version.as_deref().unwrap_or_default(),
            self.kubelet_config_key
        )
    }
}

impl ConfigSource {
    /// Creates a source for a spec: one key of one ConfigMap, without a version.
    #[must_use]
    pub fn config_map(namespace: &str, name: &str, key: &str) -> Self {
        Self::from(ConfigMapSource {
            kubelet_config_key: key.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            resource_version: None,
            uid: None,
        })
    }

    /// The ConfigMap, to be changed for this source alone. `None` without a ConfigMap.
    pub fn config_map_mut(&mut self) -> Option<&mut ConfigMapSource> {
        self.config_map.as_mut().map(Arc::make_mut)
    }

    /// Reports whether both sources name the same key of the same ConfigMap, regardless of uid and version.
    #[must_use]
    pub fn names_same(&self, other: &Self) -> bool {
        match (&self.config_map, &other.config_map) {
            (Some(a), Some(b)) => {
                a.namespace == b.namespace && a.name == b.name && a.kubelet_config_key == b.kubelet_config_key
            }
            (None, None) => true,
            _ => false,
        }
    }
}

impl From<ConfigMapSource> for ConfigSource {
    fn from(map: ConfigMapSource) -> Self {
        Self { config_map: Some(Arc::new(map)) }
    }
}

impl fmt::Display for ConfigSource {
    /// `namespace/name`, followed by `:key` unless the key is [`KUBELET_KEY`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.config_map {
            None => f.write_str("(empty source)"),
            Some(source) => {
                write!(f, "{}/{}", source.namespace, source.name)?;
                if source.kubelet_config_key != KUBELET_KEY {
                    write!(f, ":{}", source.kubelet_config_key)?;
                }
                Ok(())
            }
        }
    }
}

/// One change of `spec.configSource`, with its precondition. Planning decides on it. Only `nodecfg-cluster`
/// determines the object and the patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// Uid of the Node. A recreated Node has another uid.
    pub uid: String,
    /// Required current source; `None` for the local configuration.
    pub from: Option<ConfigSource>,
    /// New source; `None` for the local configuration.
    pub to: Option<ConfigSource>,
    /// Hash of the content of `from`, if known. Only NodeConfigs have hashes and a highest disruption.
    #[serde(skip)]
    pub from_hash: Option<ContentHash>,
    /// Hash of the content of `to`; `None` for the local configuration.
    #[serde(skip)]
    pub to_hash: Option<ContentHash>,
    /// Required current `spec.placement`. Only NodeConfigs have placements.
    #[serde(skip)]
    pub from_placement: Option<Placement>,
    /// New placement; `None` for the local configuration.
    #[serde(skip)]
    pub to_placement: Option<Placement>,
    /// Placement that the agent follows now: without the required one, that which it reports.
    #[serde(skip)]
    pub present_placement: Option<Placement>,
    /// Highest disruption class that the node is prepared for.
    #[serde(skip)]
    pub max_disruption: Class,
}

impl Assignment {
    /// Placement that a return to `from` writes: the required one. If this change sets the first, what the agent did before.
    #[must_use]
    pub fn return_placement(&self) -> Option<Placement> {
        let before = self.present_placement.filter(|_| self.to_placement.is_some());
        self.from_placement.or(before).filter(|_| self.from.is_some())
    }

    /// Returns the change that undoes this one.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            to_placement: self.return_placement(),
            from: self.to,
            to: self.from,
            from_hash: self.to_hash,
            to_hash: self.from_hash,
            from_placement: self.to_placement,
            present_placement: self.to_placement,
            ..self
        }
    }
}

/// core/v1 `NodeConfigStatus`: state that the kubelet or agent reports. Without any field, the node runs its local
/// configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// Accepted assignment. With a real kubelet, it lags 5 to 15 s behind spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<ConfigSource>,
    /// Running configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ConfigSource>,
    /// Fallback configuration of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good: Option<ConfigSource>,
    /// Error of the assignment; see [`error_text`] for the texts of kubelets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ConfigStatus {
    /// All sources in the status.
    pub fn sources(&self) -> impl Iterator<Item = &ConfigSource> {
        [&self.assigned, &self.active, &self.last_known_good].into_iter().flatten()
    }

    /// The error, unless empty.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref().filter(|text| !text.is_empty())
    }
}

/// Error texts of kubelets 1.11 to 1.23 (`pkg/kubelet/kubeletconfig/status`) and of node agents.
pub mod error_text {
    /// Prefix of every error before the assignment is accepted; the kubelet retries.
    pub const SYNC_PREFIX: &str = "failed to sync: ";
    /// The ConfigMap could not be read: it is missing, access is denied, or the API server is unreachable.
    pub const DOWNLOAD: &str = "failed to download config, see Kubelet log for details";
    /// The content could not be decoded, or the key is missing.
    pub const LOAD: &str = "failed to load config, see Kubelet log for details";
    /// The kubelet's validation refused the content.
    pub const VALIDATE: &str = "failed to validate config, see Kubelet log for details";
    /// Prefix of node agents for a configuration that they cannot place on this node. The reason follows.
    pub const VALIDATE_PREFIX: &str = "failed to validate config: ";
    /// Any other error on the node.
    pub const INTERNAL: &str = "internal failure, see Kubelet log for details";
    /// Prefix of node agents for a kubelet that could not be restarted. A colon and the kubelet's last error may follow.
    pub const RESTART: &str = "failed to restart the kubelet, see condition Active for details";
    /// Prefix of node agents for a kubelet that did not stay healthy with a configuration.
    pub const TRIAL_PREFIX: &str = "failed trial: ";
    /// Text of node agents after an error whose rollback has not helped: the kubelet is not healthy on the last known good
    /// either. A colon and the cause may follow.
    pub const GOOD_FAILS_TOO: &str = "; the last known good fails, too";
    /// Prefix of node agents, after [`SYNC_PREFIX`], for a change that disrupts pods more than `spec.maxDisruption`
    /// allows. The node keeps its configuration. The field follows.
    pub const NEEDS_DRAIN_PREFIX: &str = "needs a drained node: ";
    /// `configSource` names no ConfigMap.
    pub const ALL_NIL: &str = "invalid NodeConfigSource, exactly one subfield must be non-nil, but all were nil";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_names_regardless_of_version() {
        let spec = ConfigSource::config_map("kube-system", "a", KUBELET_KEY);
        let mut status = spec.clone();
        if let Some(source) = status.config_map_mut() {
            source.uid = Some("u".to_owned());
            source.resource_version = Some("7".to_owned());
        }
        assert_ne!(spec, status);
        assert!(spec.names_same(&status));
        assert!(!spec.names_same(&ConfigSource::config_map("kube-system", "a", "other")));
        assert!(!spec.names_same(&ConfigSource::default()));
    }

    #[test]
    fn serializes_as_core_v1() {
        let source = ConfigSource::config_map("kube-system", "a", KUBELET_KEY);
        assert_eq!(
            serde_json::to_string(&source).expect("serializes"),
            r#"{"configMap":{"kubeletConfigKey":"kubelet","name":"a","namespace":"kube-system"}}"#
        );
        assert_eq!(serde_json::to_string(&ConfigStatus::default()).expect("serializes"), "{}");
    }
}
