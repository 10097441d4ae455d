//! Pool pointer: the ConfigMap with the configuration that new nodes of a pool start with. The reconciler moves it once
//! the canaries of the pool have held. `nodecfg-agent boot` reads it before the first start of a kubelet, by one request
//! for a fixed name. So the right to read it can name it.
//!
//! The data has the keys `configMap`, `contentHash`, `kubelet`, `placement` and `commit`. Pointers from before `placement`
//! lack it; the agent then writes no `spec.placement`, and combines the configurations as without that field.

use std::collections::BTreeMap;

use crate::config_map::{FetchedConfigMap, PoolConfig};
use crate::labels::{COMMIT_ANNOTATION, CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, PLACEMENT_ANNOTATION};
use crate::names::{FleetName, PoolName};
use crate::{ContentHash, KUBELET_KEY, Placement};

/// Key of the taint of a Node that registered without its pool's configuration. Cluster Autoscaler treats taints with
/// this prefix as temporary.
pub const STARTUP_TAINT: &str = "startup-taint.cluster-autoscaler.kubernetes.io/nodecfg";
/// Effect of the taint.
pub const STARTUP_TAINT_EFFECT: &str = "NoSchedule";

/// Key with the name of the ConfigMap that nodes are assigned, `<fleet>-<pool>-<hash>`.
const CONFIG_MAP_KEY: &str = "configMap";
/// Key with the versioned hash of the content.
const CONTENT_HASH_KEY: &str = "contentHash";
/// Key with the placement, `overlay` or `replace`. The hash does not cover it.
const PLACEMENT_KEY: &str = "placement";
/// Key with the commit of the configuration.
const COMMIT_KEY: &str = "commit";

/// Content of a pool pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPointer {
    /// Configuration of the pool. `None`: new nodes run their local configuration.
    pub config: Option<PoolConfig>,
    /// Commit of the configuration, as the repository names it. `None` for files without a commit.
    pub commit: Option<String>,
}

/// Reason why a ConfigMap is no valid pointer of a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// The labels name no or another manager, fleet or pool.
    #[error("it does not belong to pool {pool} of fleet {fleet}: its labels name another owner")]
    OtherOwner {
        /// The fleet.
        fleet: FleetName,
        /// The pool.
        pool: PoolName,
    },
    /// Some of the keys are missing.
    #[error("the key {0} is missing")]
    Incomplete(&'static str),
    /// The hash is not in the form of this version.
    #[error("contentHash is not a hash of the form v1:blake3:<64 hexadecimal digits>")]
    UnknownHash,
    /// The placement is none that this version knows.
    #[error("placement is neither overlay nor replace")]
    UnknownPlacement,
    /// The content has another hash.
    #[error("its content has the hash {found}, and contentHash is {wanted}")]
    OtherContent {
        /// Hash in the pointer.
        wanted: ContentHash,
        /// Hash of the content.
        found: ContentHash,
    },
    /// The name of the ConfigMap does not fit fleet, pool and hash.
    #[error("configMap is not the name of a ConfigMap of the pool with this content")]
    OtherName,
    /// The annotations, by which people find the content, do not fit it.
    #[error("its annotations record another hash, placement or commit than its content has")]
    OtherRecord,
    /// The data has a key that the reconciler does not write.
    #[error("it has the key {0}, which nodecfg does not write")]
    UnknownKey(String),
}

impl PoolPointer {
    /// Name of the pointer of a pool: `nodecfg-pool-<fleet>-<pool>`.
    #[must_use]
    pub fn name(fleet: &FleetName, pool: &PoolName) -> String {
        format!("nodecfg-pool-{fleet}-{pool}")
    }

    /// Name of the ConfigMap in the content of a pointer, which may be invalid.
    #[must_use]
    pub fn named_by(map: &FetchedConfigMap) -> Option<&str> {
        map.text(CONFIG_MAP_KEY)
    }

    /// Reads the pointer of a pool, and verifies the hash of its content.
    ///
    /// # Errors
    /// The ConfigMap belongs to another pool, or its content is not the one that the reconciler wrote.
    pub fn read(map: &FetchedConfigMap, fleet: &FleetName, pool: &PoolName) -> Result<Self, PointerError> {
        let is_of_pool = map.labels.get(CONFIG_MAP_POOL_LABEL).is_some_and(|label| label == pool.as_str());
        if map.fleet().as_ref() != Some(fleet) || !is_of_pool {
            return Err(PointerError::OtherOwner { fleet: fleet.clone(), pool: pool.clone() });
        }
        let commit = map.text(COMMIT_KEY).map(str::to_owned);
        let keys = [CONFIG_MAP_KEY, CONTENT_HASH_KEY, KUBELET_KEY];
        if keys.iter().all(|key| map.text(key).is_none()) {
            return Ok(Self { config: None, commit });
        }
        let text = |key: &'static str| map.text(key).ok_or(PointerError::Incomplete(key));
        let (config_map, kubelet) = (text(CONFIG_MAP_KEY)?.to_owned(), text(KUBELET_KEY)?.to_owned());
        let hash = ContentHash::parse(text(CONTENT_HASH_KEY)?).ok_or(PointerError::UnknownHash)?;
        let found = ContentHash::of(kubelet.as_bytes());
        if found != hash {
            return Err(PointerError::OtherContent { wanted: hash, found });
        }
        if ContentHash::short_in(&config_map, fleet, pool) != Some(hash.short().as_str()) {
            return Err(PointerError::OtherName);
        }
        let parse = |text| Placement::parse(text).ok_or(PointerError::UnknownPlacement);
        let placement = map.text(PLACEMENT_KEY).map(parse).transpose()?;
        Ok(Self { config: Some(PoolConfig { config_map, hash, kubelet, placement }), commit })
    }

    /// Reads the pointer of a pool as the reconciler writes it: also its annotations, and no other key. Agents need only the
    /// content.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and any other difference from what the reconciler writes.
    pub fn read_as_written(map: &FetchedConfigMap, fleet: &FleetName, pool: &PoolName) -> Result<Self, PointerError> {
        let pointer = Self::read(map, fleet, pool)?;
        let recorded = pointer.annotations();
        let records = |key: &&str| map.annotations.get(*key) == recorded.get(*key);
        if ![CONTENT_HASH_ANNOTATION, COMMIT_ANNOTATION, PLACEMENT_ANNOTATION].iter().all(records) {
            return Err(PointerError::OtherRecord);
        }
        let written = pointer.data();
        let mut other = map.data.keys().filter(|key| !written.contains_key(key.as_str())).chain(&map.binary_keys);
        match other.next() {
            Some(key) => Err(PointerError::UnknownKey(key.clone())),
            None => Ok(pointer),
        }
    }

    /// Annotations of the ConfigMap.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<&'static str, String> {
        let config = self.config.as_ref();
        let records = [
            (CONTENT_HASH_ANNOTATION, config.map(|config| config.hash.to_string())),
            (PLACEMENT_ANNOTATION, config.and_then(|config| config.placement).map(|placement| placement.to_string())),
            (COMMIT_ANNOTATION, self.commit.clone()),
        ];
        records.into_iter().filter_map(|(key, text)| Some((key, text?))).collect()
    }

    /// Data of the ConfigMap.
    #[must_use]
    pub fn data(&self) -> BTreeMap<&'static str, String> {
        let config = self.config.iter().flat_map(|config| {
            let placement = config.placement.map(|placement| (PLACEMENT_KEY, placement.to_string()));
            let content = [
                (CONFIG_MAP_KEY, config.config_map.clone()),
                (CONTENT_HASH_KEY, config.hash.to_string()),
                (KUBELET_KEY, config.kubelet.clone()),
            ];
            content.into_iter().chain(placement)
        });
        config.chain(self.commit.clone().map(|commit| (COMMIT_KEY, commit))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{FLEET_LABEL, MANAGED_BY_LABEL, MANAGER};

    fn names() -> (FleetName, PoolName) {
        (FleetName::new("prod").unwrap(), PoolName::new("gpu").unwrap())
    }

    fn pointer() -> PoolPointer {
        let kubelet = "maxPods: 64\n".to_owned();
        let hash = ContentHash::of(kubelet.as_bytes());
        let config = PoolConfig { config_map: format!("prod-gpu-{}", hash.short()), hash, kubelet, placement: None };
        PoolPointer { config: Some(config), commit: Some("c".repeat(40)) }
    }

    fn written(pointer: &PoolPointer) -> FetchedConfigMap {
        let labels = [(MANAGED_BY_LABEL, MANAGER), (FLEET_LABEL, "prod"), (CONFIG_MAP_POOL_LABEL, "gpu")];
        FetchedConfigMap {
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            annotations: pointer.annotations().into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            data: pointer.data().into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            ..FetchedConfigMap::default()
        }
    }

    fn read(map: &FetchedConfigMap) -> Result<PoolPointer, PointerError> {
        let (fleet, pool) = names();
        PoolPointer::read(map, &fleet, &pool)
    }

    #[test]
    fn reads_what_it_writes() {
        let local = PoolPointer { config: None, commit: None };
        let placed = Placement::ALL.map(|placement| PoolPointer {
            config: pointer().config.map(|config| PoolConfig { placement: Some(placement), ..config }),
            ..pointer()
        });
        for pointer in [pointer(), PoolPointer { commit: None, ..pointer() }, local].into_iter().chain(placed) {
            assert_eq!(read(&written(&pointer)), Ok(pointer));
        }
        let (fleet, pool) = names();
        assert_eq!(PoolPointer::name(&fleet, &pool), "nodecfg-pool-prod-gpu");
    }

    /// The names of two pools of different fleets can be equal.
    #[test]
    fn rejects_pointer_of_another_owner() {
        for (label, value) in [(FLEET_LABEL, "prod-gpu"), (CONFIG_MAP_POOL_LABEL, "cpu"), (MANAGED_BY_LABEL, "helm")] {
            let mut map = written(&pointer());
            map.labels.insert(label.to_owned(), value.to_owned());
            let (fleet, pool) = names();
            assert_eq!(read(&map), Err(PointerError::OtherOwner { fleet, pool }), "{label}");
        }
    }

    #[test]
    fn rejects_changed_content() {
        let mut map = written(&pointer());
        map.data.insert("kubelet".to_owned(), "maxPods: 65\n".to_owned());
        assert!(matches!(read(&map), Err(PointerError::OtherContent { .. })));
        map.data.insert("contentHash".to_owned(), ContentHash::of(b"maxPods: 65\n").to_string());
        assert_eq!(read(&map), Err(PointerError::OtherName));
        map.data.insert("contentHash".to_owned(), "v2:x".to_owned());
        assert_eq!(read(&map), Err(PointerError::UnknownHash));
        let mut placed = written(&pointer());
        placed.data.insert("placement".to_owned(), "merge".to_owned());
        assert_eq!(read(&placed), Err(PointerError::UnknownPlacement));
        for key in ["configMap", "contentHash", "kubelet"] {
            let mut map = written(&pointer());
            map.data.remove(key);
            assert_eq!(read(&map), Err(PointerError::Incomplete(key)));
        }
    }

    /// A reconciler that trusts an annotation would not see other data.
    #[test]
    fn reads_as_written_only_what_the_reconciler_writes() {
        let (fleet, pool) = names();
        let as_written = |map: &FetchedConfigMap| PoolPointer::read_as_written(map, &fleet, &pool);
        let local = PoolPointer { config: None, commit: None };
        let replacing = pointer().config.map(|config| PoolConfig { placement: Some(Placement::Replace), ..config });
        let replacing = PoolPointer { config: replacing, ..pointer() };
        for pointer in [pointer(), replacing, PoolPointer { commit: None, ..pointer() }, local.clone()] {
            assert_eq!(as_written(&written(&pointer)), Ok(pointer));
        }
        // Consistent data with another hash, as an agent accepts it.
        let kubelet = "maxPods: 65\n".to_owned();
        let hash = ContentHash::of(kubelet.as_bytes());
        let config = PoolConfig { config_map: format!("prod-gpu-{}", hash.short()), hash, kubelet, placement: None };
        let other = written(&PoolPointer { config: Some(config), commit: pointer().commit });
        let forged = FetchedConfigMap { annotations: written(&pointer()).annotations, ..other };
        assert!(read(&forged).is_ok());
        assert_eq!(as_written(&forged), Err(PointerError::OtherRecord));
        let unrecorded = FetchedConfigMap { annotations: BTreeMap::new(), ..written(&pointer()) };
        assert_eq!(as_written(&unrecorded), Err(PointerError::OtherRecord));
        let emptied = FetchedConfigMap { data: BTreeMap::new(), ..written(&pointer()) };
        assert_eq!(as_written(&emptied), Err(PointerError::OtherRecord));
        let mut recommitted = written(&pointer());
        recommitted.data.insert("commit".to_owned(), "d".repeat(40));
        assert_eq!(as_written(&recommitted), Err(PointerError::OtherRecord));
        let mut placed = written(&pointer());
        placed.data.insert("placement".to_owned(), "replace".to_owned());
        assert!(read(&placed).is_ok());
        assert_eq!(as_written(&placed), Err(PointerError::OtherRecord));
        let mut more = written(&pointer());
        more.data.insert("x".to_owned(), String::new());
        assert_eq!(as_written(&more), Err(PointerError::UnknownKey("x".to_owned())));
        let binary = FetchedConfigMap { binary_keys: vec!["y".to_owned()], ..written(&local) };
        assert_eq!(as_written(&binary), Err(PointerError::UnknownKey("y".to_owned())));
    }
}
