//! ConfigMaps with their content.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::labels::{FLEET_LABEL, MANAGED_BY_LABEL, MANAGER};
use crate::names::{CommitId, FleetName, NamespaceName, PoolName};
use crate::{ContentHash, Placement};

/// A ConfigMap with its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FetchedConfigMap {
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Name of the ConfigMap.
    pub name: String,
    /// Uid of the ConfigMap.
    pub uid: String,
    /// Resource version of the ConfigMap.
    #[serde(skip)]
    pub resource_version: String,
    /// Whether the API server refuses changes of its data.
    pub immutable: bool,
    /// Whether the ConfigMap is being deleted.
    pub deleting: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Text content by key.
    pub data: BTreeMap<String, String>,
    /// Keys of the binary content, which a kubelet reads as well.
    pub binary_keys: Vec<String>,
}

impl FetchedConfigMap {
    /// Text of one key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key).map(String::as_str)
    }

    /// Reports whether the labels name nodecfg as manager.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.labels.get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGER)
    }

    /// Fleet in the labels, if they name nodecfg as manager and the fleet is valid.
    #[must_use]
    pub fn fleet(&self) -> Option<FleetName> {
        FleetName::new(self.labels.get(FLEET_LABEL).filter(|_| self.is_managed())?.as_str()).ok()
    }

    /// Reports whether the ConfigMap contains only this key, with exactly this text.
    #[must_use]
    pub fn holds_exactly(&self, key: &str, text: &str) -> bool {
        self.binary_keys.is_empty() && self.data.len() == 1 && self.text(key) == Some(text)
    }
}

/// Configuration of a pool, as a ConfigMap contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Name of the ConfigMap that nodes are assigned: `<fleet>-<pool>-<hash>`.
    pub config_map: String,
    /// Hash of the content.
    pub hash: ContentHash,
    /// The KubeletConfiguration as canonical YAML. It may contain secrets: reports show `hash` instead.
    pub kubelet: String,
    /// How nodes combine it with their own. `None` in pool pointers from before this field.
    pub placement: Option<Placement>,
}

/// ConfigMap with the configuration of a pool, as the reconciler creates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfigMap {
    /// The configuration, with the name of the ConfigMap.
    pub config: PoolConfig,
    /// The namespace.
    pub namespace: NamespaceName,
    /// Fleet of the ConfigMap.
    pub fleet: FleetName,
    /// Pool of the ConfigMap.
    pub pool: PoolName,
    /// Commit that the configuration was rendered from; `None` for files without a commit.
    pub commit: Option<CommitId>,
    /// Path of the pool's `kubelet.yaml` in the repository, or of its `pool.yaml` if it has no own configuration.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_exactly_requires_one_key() {
        let mut map = FetchedConfigMap::default();
        map.data.insert("kubelet".to_owned(), "a: 1\n".to_owned());
        assert!(map.holds_exactly("kubelet", "a: 1\n"));
        assert!(!map.holds_exactly("kubelet", "a: 2\n"));
        assert!(!map.holds_exactly("other", "a: 1\n"));
        let mut binary = map.clone();
        binary.binary_keys.push("x".to_owned());
        assert!(!binary.holds_exactly("kubelet", "a: 1\n"));
        map.data.insert("x".to_owned(), String::new());
        assert!(!map.holds_exactly("kubelet", "a: 1\n"));
    }

    #[test]
    fn recognizes_managed_label() {
        let mut map = FetchedConfigMap::default();
        assert!(!map.is_managed());
        map.labels.insert(MANAGED_BY_LABEL.to_owned(), "helm".to_owned());
        assert!(!map.is_managed());
        map.labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGER.to_owned());
        assert!(map.is_managed());
    }
}
