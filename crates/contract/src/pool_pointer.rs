//! Pool pointer: the ConfigMap with the configuration that new nodes of a pool start with. The reconciler moves it once
//! the canaries of the pool have held. `nodecfg-agent boot` reads it before the first start of a kubelet, by one request
//! for a fixed name. So the right to read it can name it.
//!
//! The data has the keys `configMap`, `contentHash`, `kubelet`, `placement` and `commit`. Pointers from before `placement`
//! lack it; the agent then writes no `spec.placement`, and combines the configurations as without that field.
//!
//! If the configuration follows from the size of a node, the first three have a suffix for each size, such as
//! `kubelet.cpu-4000m.memory-16Gi`, `configMap` has no name, and `roundTo` has the steps to which a node rounds its
//! capacity, such as `cpu-1000m.memory-1Gi`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::config_map::{FetchedConfigMap, PoolConfig};
use crate::labels::{COMMIT_ANNOTATION, CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, PLACEMENT_ANNOTATION};
use crate::names::{FleetName, PoolName};
use crate::{ContentHash, KUBELET_KEY, Placement};
use kubelet_config::capacity::{Capacity, Resource};

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
/// Text in the place of a name, if the configuration follows from the size of a node: agents from before sizes then find the
/// pointer incomplete. Without it, they would start new nodes with their local configuration.
const BY_SIZE: &str = "one for each size";
/// Key with the steps to which nodes round their capacities.
const ROUND_TO_KEY: &str = "roundTo";

/// Content of a pool pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPointer {
    /// Steps to which a node rounds its capacity. Without any amount, all nodes have the same configuration.
    pub steps: Capacity,
    /// Configurations by size. Empty: new nodes run their local configuration.
    pub configs: BTreeMap<Capacity, PoolConfig>,
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
    /// The steps or a size are not in the form of this version.
    #[error("the key {0} names no size")]
    UnknownSize(String),
    /// The pointer has no configuration for nodes of this size.
    #[error("it has no configuration for nodes of the size {0}")]
    NoSize(Capacity),
    /// The capacity of the node is unknown, and its configuration follows from it.
    #[error("its configurations are for sizes of nodes, and the capacity of this node is unknown")]
    NoCapacity,
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

    /// Names of the ConfigMaps in the content of a pointer, which may be invalid.
    pub fn named_by(map: &FetchedConfigMap) -> impl Iterator<Item = &str> {
        let is_name = |key: &str| key.strip_prefix(CONFIG_MAP_KEY).is_some_and(is_suffix);
        map.data.iter().filter(move |(key, _)| is_name(key)).map(|(_, name)| name.as_str())
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
        let parse = |text| Placement::parse(text).ok_or(PointerError::UnknownPlacement);
        let placement = map.text(PLACEMENT_KEY).map(parse).transpose()?;
        let parse_steps = |text| size_in(text).ok_or_else(|| PointerError::UnknownSize(ROUND_TO_KEY.to_owned()));
        let steps = map.text(ROUND_TO_KEY).map(parse_steps).transpose()?.unwrap_or_default();
        let mut configs = BTreeMap::new();
        for key in map.data.keys() {
            let base = [CONFIG_MAP_KEY, CONTENT_HASH_KEY, KUBELET_KEY].into_iter();
            let Some(suffix) = base.filter_map(|base| key.strip_prefix(base)).find(|rest| is_suffix(rest)) else {
                continue;
            };
            if suffix.is_empty() && steps != Capacity::default() && map.text(key) == Some(BY_SIZE) {
                continue;
            }
            let size = match suffix.strip_prefix('.') {
                None => Capacity::default(),
                Some(text) => size_in(text).ok_or_else(|| PointerError::UnknownSize(key.clone()))?,
            };
            if size.rounded_up(steps) != Some(size) {
                return Err(PointerError::UnknownSize(key.clone()));
            }
            if let Entry::Vacant(free) = configs.entry(size) {
                free.insert(config(map, suffix, placement, fleet, pool)?);
            }
        }
        Ok(Self { steps, configs, commit })
    }

    /// A pointer to the only configuration of a pool. `None`: new nodes run their local configuration.
    #[must_use]
    pub fn to(config: Option<PoolConfig>, commit: Option<String>) -> Self {
        let configs = config.map(|config| (Capacity::default(), config)).into_iter().collect();
        Self { steps: Capacity::default(), configs, commit }
    }

    /// Reports whether new nodes run their local configuration.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.configs.is_empty() && self.steps == Capacity::default()
    }

    /// The configuration for a node of this capacity. `None`: its local configuration.
    ///
    /// # Errors
    /// The pointer has none for the size of the node.
    pub fn for_node(&self, capacity: Capacity) -> Result<Option<&PoolConfig>, PointerError> {
        if self.is_local() {
            return Ok(None);
        }
        let size = capacity.rounded_up(self.steps).ok_or(PointerError::NoCapacity)?;
        self.configs.get(&size).map(Some).ok_or(PointerError::NoSize(size))
    }

    /// Name of the ConfigMap of new nodes, or `3 sizes` if the nodes of each size have one. `None`: they run their local
    /// configuration.
    #[must_use]
    pub fn config_map(&self) -> Option<String> {
        match (self.only(), self.is_local()) {
            (Some(only), _) => Some(only.config_map.clone()),
            (None, true) => None,
            (None, false) => Some(match self.configs.len() {
                1 => "1 size".to_owned(),
                sizes => format!("{sizes} sizes"),
            }),
        }
    }

    /// The configuration, if all nodes have the same.
    #[must_use]
    pub fn only(&self) -> Option<&PoolConfig> {
        self.configs.get(&Capacity::default())
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
        let placement = self.configs.values().next().and_then(|config| config.placement);
        let data = self.data();
        let hashes = data.iter().filter(|(key, _)| key.starts_with(CONTENT_HASH_KEY)).map(|(_, hash)| hash.as_str());
        let hash = match hashes.collect::<Vec<_>>().as_slice() {
            [] => None,
            [only] => Some((*only).to_owned()),
            // One hash for the configurations of all sizes, in the order of their keys.
            several => Some(ContentHash::of(several.join("\n").as_bytes()).to_string()),
        };
        let records = [
            (CONTENT_HASH_ANNOTATION, hash),
            (PLACEMENT_ANNOTATION, placement.map(|placement| placement.to_string())),
            (COMMIT_ANNOTATION, self.commit.clone()),
        ];
        records.into_iter().filter_map(|(key, text)| Some((key, text?))).collect()
    }

    /// Data of the ConfigMap.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        let mut data = BTreeMap::new();
        for (size, config) in &self.configs {
            let suffix = if *size == Capacity::default() { String::new() } else { format!(".{}", text_of(*size)) };
            data.insert(format!("{CONFIG_MAP_KEY}{suffix}"), config.config_map.clone());
            data.insert(format!("{CONTENT_HASH_KEY}{suffix}"), config.hash.to_string());
            data.insert(format!("{KUBELET_KEY}{suffix}"), config.kubelet.clone());
            data.extend(config.placement.map(|placement| (PLACEMENT_KEY.to_owned(), placement.to_string())));
        }
        if self.steps != Capacity::default() {
            data.insert(ROUND_TO_KEY.to_owned(), text_of(self.steps));
            data.insert(CONFIG_MAP_KEY.to_owned(), BY_SIZE.to_owned());
        }
        data.extend(self.commit.clone().map(|commit| (COMMIT_KEY.to_owned(), commit)));
        data
    }
}

/// Reports whether the rest of a key is empty, or the suffix of a size.
fn is_suffix(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

/// The configuration under the keys with this suffix.
fn config(
    map: &FetchedConfigMap,
    suffix: &str,
    placement: Option<Placement>,
    fleet: &FleetName,
    pool: &PoolName,
) -> Result<PoolConfig, PointerError> {
    let text = |key: &'static str| map.text(&format!("{key}{suffix}")).ok_or(PointerError::Incomplete(key));
    let (config_map, kubelet) = (text(CONFIG_MAP_KEY)?.to_owned(), text(KUBELET_KEY)?.to_owned());
    let hash = ContentHash::parse(text(CONTENT_HASH_KEY)?).ok_or(PointerError::UnknownHash)?;
    let found = ContentHash::of(kubelet.as_bytes());
    if found != hash {
        return Err(PointerError::OtherContent { wanted: hash, found });
    }
    if ContentHash::short_in(&config_map, fleet, pool) != Some(hash.short().as_str()) {
        return Err(PointerError::OtherName);
    }
    Ok(PoolConfig { config_map, hash, kubelet, placement })
}

/// A size as keys have it: `cpu-4000m.memory-16Gi`.
fn text_of(size: Capacity) -> String {
    let amounts = Resource::ALL.into_iter().filter_map(|resource| Some((resource, size.of(resource)?)));
    let texts: Vec<String> =
        amounts.map(|(resource, amount)| format!("{}-{}", resource.as_str(), resource.amount_text(amount))).collect();
    texts.join(".")
}

/// Reads a size. `None` for any other text than that of [`text_of`].
fn size_in(text: &str) -> Option<Capacity> {
    let mut size = Capacity::default();
    for part in text.split('.') {
        let (name, amount) = part.rsplit_once('-')?;
        let resource = Resource::ALL.into_iter().find(|resource| resource.as_str() == name)?;
        size = size.with(resource, resource.amount(amount)?);
    }
    (text_of(size) == text).then_some(size)
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
        PoolPointer::to(Some(config), Some("c".repeat(40)))
    }

    fn placed_as(placement: Placement) -> PoolPointer {
        let config = pointer().only().map(|config| PoolConfig { placement: Some(placement), ..config.clone() });
        PoolPointer::to(config, pointer().commit)
    }

    fn written(pointer: &PoolPointer) -> FetchedConfigMap {
        let labels = [(MANAGED_BY_LABEL, MANAGER), (FLEET_LABEL, "prod"), (CONFIG_MAP_POOL_LABEL, "gpu")];
        FetchedConfigMap {
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            annotations: pointer.annotations().into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            data: pointer.data(),
            ..FetchedConfigMap::default()
        }
    }

    fn read(map: &FetchedConfigMap) -> Result<PoolPointer, PointerError> {
        let (fleet, pool) = names();
        PoolPointer::read(map, &fleet, &pool)
    }

    #[test]
    fn reads_what_it_writes() {
        let local = PoolPointer::to(None, None);
        let placed = Placement::ALL.map(placed_as);
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
        let local = PoolPointer::to(None, None);
        let replacing = placed_as(Placement::Replace);
        for pointer in [pointer(), replacing, PoolPointer { commit: None, ..pointer() }, local.clone()] {
            assert_eq!(as_written(&written(&pointer)), Ok(pointer));
        }
        // Consistent data with another hash, as an agent accepts it.
        let kubelet = "maxPods: 65\n".to_owned();
        let hash = ContentHash::of(kubelet.as_bytes());
        let config = PoolConfig { config_map: format!("prod-gpu-{}", hash.short()), hash, kubelet, placement: None };
        let other = written(&PoolPointer::to(Some(config), pointer().commit));
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

    /// A pointer of a pool whose configuration follows from the size of a node.
    fn sized() -> PoolPointer {
        let size = |cpu, memory| Capacity::parse(Some(cpu), Some(memory), None);
        let configs = [size("4", "16Gi"), size("16", "64Gi"), size("2", "2000Mi")].map(|size| {
            let kubelet = format!("maxPods: {}\n", size.of(Resource::Cpu).unwrap());
            let hash = ContentHash::of(kubelet.as_bytes());
            let config_map = format!("prod-gpu-{}", hash.short());
            (size, PoolConfig { config_map, hash, kubelet, placement: Some(Placement::Overlay) })
        });
        PoolPointer { steps: size("1", "1000Mi"), configs: configs.into(), commit: None }.rounded()
    }

    impl PoolPointer {
        fn rounded(self) -> Self {
            let configs = self.configs.into_iter();
            let configs = configs.map(|(size, config)| (size.rounded_up(self.steps).unwrap(), config)).collect();
            Self { configs, ..self }
        }
    }

    #[test]
    fn pointer_of_sizes_has_a_configuration_for_each() {
        let (fleet, pool) = names();
        let pointer = sized();
        let keys: Vec<String> = pointer.data().into_keys().filter(|key| key.starts_with("kubelet")).collect();
        let wanted = ["16000m.memory-66000Mi", "2000m.memory-2000Mi", "4000m.memory-17000Mi"];
        assert_eq!(keys, wanted.map(|size| format!("kubelet.cpu-{size}")));
        assert_eq!(PoolPointer::read_as_written(&written(&pointer), &fleet, &pool), Ok(pointer.clone()));
        let of = |cpu, memory| pointer.for_node(Capacity::parse(Some(cpu), Some(memory), Some("9Gi")));
        assert_eq!(of("4", "16300Mi").unwrap().unwrap().kubelet, "maxPods: 4000\n");
        assert_eq!(of("4", "18Gi"), Err(PointerError::NoSize(Capacity::parse(Some("4"), Some("19000Mi"), None))));
        assert_eq!(pointer.for_node(Capacity::default()), Err(PointerError::NoCapacity));
        assert_eq!((pointer.config_map().as_deref(), pointer.only()), (Some("3 sizes"), None));
        // Any capacity has the only configuration of a pool without sizes.
        assert_eq!(self::pointer().for_node(Capacity::default()), Ok(self::pointer().only()));
        // An agent from before sizes finds some keys, and not all: it refuses the pointer.
        assert_eq!((pointer.data().contains_key("configMap"), pointer.data().contains_key("kubelet")), (true, false));
    }

    #[test]
    fn rejects_changed_sizes() {
        let (fleet, pool) = names();
        let read_with = |change: &dyn Fn(&mut BTreeMap<String, String>)| {
            let mut map = written(&sized());
            change(&mut map.data);
            PoolPointer::read_as_written(&map, &fleet, &pool)
        };
        let key = "kubelet.cpu-4000m.memory-17000Mi";
        let changed = read_with(&|data| drop(data.insert(key.to_owned(), "maxPods: 1\n".to_owned())));
        assert!(matches!(changed, Err(PointerError::OtherContent { .. })), "{changed:?}");
        assert_eq!(read_with(&|data| drop(data.remove(key))), Err(PointerError::Incomplete("kubelet")));
        for bad in ["kubelet.cpu-4", "kubelet.cpu-4000m.memory-16001Mi", "kubelet.gpu-1", "kubelet."] {
            let added = read_with(&|data| drop(data.insert(bad.to_owned(), "maxPods: 1\n".to_owned())));
            assert_eq!(added, Err(PointerError::UnknownSize(bad.to_owned())), "{bad}");
        }
        let steps = read_with(&|data| drop(data.insert("roundTo".to_owned(), "memory".to_owned())));
        assert_eq!(steps, Err(PointerError::UnknownSize("roundTo".to_owned())));
        let without = read_with(&|data| drop(data.remove("roundTo")));
        assert_eq!(without, Err(PointerError::Incomplete("kubelet")));
        // The content of one size under the key of another.
        let swapped = read_with(&|data| {
            for base in ["kubelet", "contentHash", "configMap"] {
                let [a, b] =
                    ["cpu-4000m.memory-17000Mi", "cpu-2000m.memory-2000Mi"].map(|size| format!("{base}.{size}"));
                let (of_a, of_b) = (data[&a].clone(), data[&b].clone());
                data.extend([(a, of_b), (b, of_a)]);
            }
        });
        assert_eq!(swapped, Err(PointerError::OtherRecord));
    }
}
