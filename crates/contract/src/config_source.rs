//! The contract of Dynamic Kubelet Configuration between the reconciler and a node: what is wanted
//! (`spec.configSource`) and what is so (`status.config`).
//!
//! The shapes are those of core/v1 `NodeConfigSource` and `NodeConfigStatus` (KEP-281, Kubernetes 1.11 to 1.23). They are
//! kept here, apart from any client, because planning, judging, the node agent and the sandbox all speak them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The key under which nodecfg stores a KubeletConfiguration in a ConfigMap.
pub const KUBELET_KEY: &str = "kubelet";

/// core/v1 `NodeConfigSource`: where a node's configuration comes from. Without a ConfigMap it means nothing; the API
/// server refuses that form.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSource {
    /// The ConfigMap that holds the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
}

/// core/v1 `ConfigMapNodeConfigSource`: one key of one ConfigMap. `uid` and `resourceVersion` are set in status, where
/// the kubelet says which content it took, and are forbidden in spec.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// Key within `data`.
    #[serde(default)]
    pub kubelet_config_key: String,
    /// The ConfigMap's name.
    #[serde(default)]
    pub name: String,
    /// The ConfigMap's namespace.
    #[serde(default)]
    pub namespace: String,
    /// The version of the ConfigMap that was taken; status only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The uid of the ConfigMap that was taken; status only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl ConfigMapSource {
    /// The content that was taken, as the kubelet's Events describe it.
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
    /// A source as it is written into spec: one key of one ConfigMap, whichever its version.
    #[must_use]
    pub fn config_map(namespace: &str, name: &str, key: &str) -> Self {
        Self {
            config_map: Some(ConfigMapSource {
                kubelet_config_key: key.to_owned(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                resource_version: None,
                uid: None,
            }),
        }
    }

    /// Whether both name the same key of the same ConfigMap, whatever its uid and version.
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

impl fmt::Display for ConfigSource {
    /// `namespace/name`, followed by `:key` when the key is not nodecfg's own.
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

/// One change of `spec.configSource`, with its precondition. Planning decides on it; `nodecfg-cluster` alone knows which object it
/// is written to, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// The uid of the Node: a Node that was recreated under the same name is another node.
    pub uid: String,
    /// What the Node must point at for the change to be made; unset for the local configuration.
    pub from: Option<ConfigSource>,
    /// What it points at afterwards; unset for the local configuration.
    pub to: Option<ConfigSource>,
}

impl Assignment {
    /// The change that undoes this one.
    #[must_use]
    pub fn back(self) -> Self {
        Self { uid: self.uid, from: self.to, to: self.from }
    }
}

/// core/v1 `NodeConfigStatus`: what the node half of the contract reports. All absent means that the node runs the
/// configuration it was provisioned with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// What the node has taken as its assignment. Lags behind spec by 5 to 15 s on a real kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<ConfigSource>,
    /// What the kubelet runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ConfigSource>,
    /// What the node falls back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good: Option<ConfigSource>,
    /// What went wrong with the assignment; see [`error_text`] for the texts that kubelets use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ConfigStatus {
    /// Everything that it names.
    pub fn sources(&self) -> impl Iterator<Item = &ConfigSource> {
        [&self.assigned, &self.active, &self.last_known_good].into_iter().flatten()
    }

    /// The error, when there is one and it is not empty.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref().filter(|text| !text.is_empty())
    }
}

/// The error texts of the contract, as the kubelet 1.11 to 1.23 writes them (`pkg/kubelet/kubeletconfig/status`).
pub mod error_text {
    /// Begins every error met before the assignment was taken; the kubelet goes on trying.
    pub const SYNC_PREFIX: &str = "failed to sync: ";
    /// The ConfigMap could not be read: it is missing, or the node may not read it, or the API server is away.
    pub const DOWNLOAD: &str = "failed to download config, see Kubelet log for details";
    /// The content could not be decoded, or the key is missing.
    pub const LOAD: &str = "failed to load config, see Kubelet log for details";
    /// The content was decoded and refused by the kubelet's validation.
    pub const VALIDATE: &str = "failed to validate config, see Kubelet log for details";
    /// Whatever else went wrong on the node.
    pub const INTERNAL: &str = "internal failure, see Kubelet log for details";
    /// The kubelet could not be restarted. No kubelet ever said so of itself; node agents do.
    pub const RESTART: &str = "failed to restart the kubelet, see condition Active for details";
    /// Begins what node agents say of a kubelet that did not stay healthy with a configuration.
    pub const TRIAL_PREFIX: &str = "failed trial: ";
    /// `configSource` names no ConfigMap at all.
    pub const ALL_NIL: &str = "invalid NodeConfigSource, exactly one subfield must be non-nil, but all were nil";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_names_whatever_the_version() {
        let spec = ConfigSource::config_map("kube-system", "a", KUBELET_KEY);
        let mut status = spec.clone();
        if let Some(source) = &mut status.config_map {
            source.uid = Some("u".to_owned());
            source.resource_version = Some("7".to_owned());
        }
        assert_ne!(spec, status);
        assert!(spec.names_same(&status));
        assert!(!spec.names_same(&ConfigSource::config_map("kube-system", "a", "other")));
        assert!(!spec.names_same(&ConfigSource::default()));
    }

    #[test]
    fn shape_is_that_of_core_v1() {
        let source = ConfigSource::config_map("kube-system", "a", KUBELET_KEY);
        assert_eq!(
            serde_json::to_string(&source).expect("serialises"),
            r#"{"configMap":{"kubeletConfigKey":"kubelet","name":"a","namespace":"kube-system"}}"#
        );
        assert_eq!(serde_json::to_string(&ConfigStatus::default()).expect("serialises"), "{}");
    }
}
