//! Small fleets and clusters for tests of planning and rollouts.

#![expect(missing_docs, reason = "each is a value named after what it is")]
#![expect(clippy::unwrap_used, reason = "what the tests write is well formed")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::{Options, Scope};
use kubelet_config::capacity::Capacity;
use kubelet_config::document::Document;
use kubelet_config::finding::{Place, Strictness};
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::{
    CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, FLEET_LABEL, MANAGED_BY_LABEL, MANAGER, POOL_LABEL,
};
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_contract::{ConfigSource, ConfigStatus, ContentHash, KUBELET_KEY, KubeletVersion, Placement};
use nodecfg_fleet::schedule::Exclusion;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Canary, Checks, Desired, NodeShare, Pool, PoolTarget, Rendered, RolloutPolicy, build};
use nodecfg_observed::{
    ConfigMapKey, ListVersions, ManagedConfigMap, Node, NodeContent, Observed, Obstacle, Pause, Readiness,
};

pub fn fleet() -> FleetName {
    FleetName::new("fleet").unwrap()
}

pub fn namespace() -> NamespaceName {
    NamespaceName::new("kube-system").unwrap()
}

pub fn options() -> Options {
    Options {
        namespace: namespace(),
        take_over: false,
        allow_empty: false,
        gate: Strictness::Strict,
        despite_pause: BTreeSet::new(),
        scope: Scope::Everything,
    }
}

pub fn node_name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn pool_name(name: &str) -> PoolName {
    PoolName::new(name).unwrap()
}

/// A configuration with this `maxPods`, rendered for a pool.
pub fn rendered(pool: &str, max_pods: u32) -> Rendered {
    rendered_of(pool, &format!("maxPods: {max_pods}"))
}

/// A configuration with these fields, rendered for a pool.
pub fn rendered_of(pool: &str, fields: &str) -> Rendered {
    let text = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{fields}\n");
    let path = format!("pools/{pool}/kubelet.yaml");
    let document = Document::parse(&path, &text).document.unwrap();
    let canonical = document.canonical();
    let hash = ContentHash::of(canonical.as_bytes());
    Rendered { document, canonical, hash, config_map: format!("fleet-{pool}-{}", hash.short()), path }
}

pub fn policy(max_unavailable: u32) -> RolloutPolicy {
    RolloutPolicy { max_unavailable: NodeShare::Count(max_unavailable), ..RolloutPolicy::default() }
}

/// An exclusion that starts this many seconds after 1970, of this many seconds.
#[must_use]
pub fn exclusion(from: i64, length: i64) -> Exclusion {
    let at = |second| Timestamp::from_second(second).unwrap();
    Exclusion { from: at(from), to: at(from + length), reason: "freeze".to_owned() }
}

pub fn canary(nodes: u32, soak_seconds: u64) -> Option<Canary> {
    Some(Canary { nodes, soak: Duration::from_secs(soak_seconds) })
}

/// A pool that selects the nodes labeled with its name.
pub fn pool(name: &str, max_pods: u32, policy: RolloutPolicy) -> Pool {
    Pool {
        name: pool_name(name),
        selector: LabelSelector::of_label(POOL_LABEL, name),
        named: None,
        priority: 0,
        policy,
        targets: PoolTarget::Config(Box::new(rendered(name, max_pods))).into(),
        placement: None,
        own: None,
        require_nodes: None,
        kubelets: Vec::new(),
        place: Place::whole_file(format!("pools/{name}/pool.yaml")),
        files: BTreeSet::new(),
    }
}

/// The pool with reservations by the size of its nodes: `reserve` is `spec.kubelet.reserve`.
pub fn sized(pool: Pool, reserve: &str) -> Pool {
    let name = &pool.name;
    let file = format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  kubelet:\n    reserve: {reserve}\n"
    );
    let fleet = "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\n";
    let (pool_path, kubelet_path) = (format!("pools/{name}/pool.yaml"), format!("pools/{name}/kubelet.yaml"));
    let kubelet = &pool.rendered().unwrap().canonical;
    let files =
        [("nodecfg.yaml", fleet), (pool_path.as_str(), file.as_str()), (kubelet_path.as_str(), kubelet.as_str())];
    let built = build(&Snapshot::of_texts(files), &Checks::default());
    let read = built.desired.unwrap().pools.remove(name).unwrap();
    Pool { targets: read.targets, ..pool }
}

/// The node with this capacity.
#[must_use]
pub fn of_capacity(node: Node, cpu: &str, memory: &str) -> Node {
    Node { capacity: Capacity::parse(Some(cpu), Some(memory), Some("100Gi")), ..node }
}

pub fn desired(pools: impl IntoIterator<Item = Pool>) -> Desired {
    Desired {
        max_unavailable: None,
        pool_pointers: false,
        paused: false,
        fleet: fleet(),
        namespace: None,
        commit: None,
        uncommitted: 0,
        pools: pools.into_iter().map(|pool| (pool.name.clone(), pool)).collect(),
    }
}

/// A Ready node of a pool on its local configuration.
pub fn node(name: &str, pool: &str) -> Node {
    Node {
        uid: format!("uid-{name}"),
        labels: Arc::new(BTreeMap::from([(POOL_LABEL.to_owned(), pool.to_owned())])),
        kubelet_version: KubeletVersion::parse("v1.21.14"),
        ready: Readiness::Ready,
        obstacle: None,
        ..Node::named(node_name(name))
    }
}

/// Content of a NodeConfig whose agent replaces the node's own configuration, as assigned.
pub fn replacing() -> NodeContent {
    let placement = Some(Placement::Replace);
    NodeContent { placement, active_placement: placement, reported: true, ..NodeContent::default() }
}

/// Label of the domains in tests.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// The node with this value of [`ZONE`], or without the label.
pub fn in_zone(mut node: Node, zone: Option<&str>) -> Node {
    Arc::make_mut(&mut node.labels).extend(zone.map(|zone| (ZONE.to_owned(), zone.to_owned())));
    node
}

/// The node with a kubelet of this version that follows configSource.
pub fn of_version(node: Node, version: &str) -> Node {
    let kubelet_version = KubeletVersion::parse(version);
    Node { kubelet_version, obstacle: Obstacle::of_kubelet(kubelet_version, true), ..node }
}

/// The source as a kubelet reports it after accepting it.
pub fn accepted(source: &ConfigSource) -> ConfigSource {
    let mut accepted = source.clone();
    if let Some(map) = accepted.config_map_mut() {
        map.uid = Some(format!("uid-{}", map.name));
        map.resource_version = Some("1".to_owned());
    }
    accepted
}

/// The node, pointing at `source` and running it, past its trial.
pub fn on(node: Node, source: &ConfigSource) -> Node {
    let mut node = on_trial(node, source);
    node.status.last_known_good = node.status.active.clone();
    node
}

/// The node, pointing at `source` and running it on trial, with the local configuration as its last known good.
pub fn on_trial(mut node: Node, source: &ConfigSource) -> Node {
    node.source = Some(source.clone());
    node.status =
        ConfigStatus { assigned: Some(accepted(source)), active: Some(accepted(source)), ..ConfigStatus::default() };
    node
}

/// The node, pointing at `source` and refusing it with `error`.
pub fn refusing(mut node: Node, source: &ConfigSource, error: &str) -> Node {
    node.source = Some(source.clone());
    node.status =
        ConfigStatus { assigned: Some(accepted(source)), error: Some(error.to_owned()), ..ConfigStatus::default() };
    node
}

/// Pause of a pool by ada.
pub fn pause(reason: &str) -> Pause {
    let (by, reason) = ("ada".to_owned(), reason.to_owned());
    Pause { by, at: Timestamp::UNIX_EPOCH, reason, whole_fleet: false, allowed: None }
}

pub fn source(name: &str) -> ConfigSource {
    ConfigSource::config_map("kube-system", name, KUBELET_KEY)
}

pub fn observed(nodes: impl IntoIterator<Item = Node>) -> Observed {
    Observed {
        nodes: nodes.into_iter().map(|node| (node.name.clone(), node)).collect(),
        versions: ListVersions { nodes: "1".to_owned(), node_configs: None },
        ..Observed::default()
    }
}

/// Adds the ConfigMap of the rendered content to the fleet.
pub fn with_config_map(observed: &mut Observed, pool: &str, rendered: &Rendered) {
    let key = ConfigMapKey { namespace: "kube-system".to_owned(), name: rendered.config_map.clone() };
    let managed = managed(&rendered.config_map, Some("fleet"), Some(pool), Some(&rendered.hash.to_string()));
    observed.config_maps.insert(key, managed);
}

/// Adds the pointer of a pool of the fleet, which names the rendered content.
pub fn with_pointer(observed: &mut Observed, pool: &str, rendered: &Rendered) {
    let config = PoolConfig {
        config_map: rendered.config_map.clone(),
        hash: rendered.hash,
        kubelet: rendered.canonical.clone(),
        placement: Some(observed.default_placement()),
    };
    with_pointer_to(observed, pool, &PoolPointer::to(Some(config), None));
}

/// Adds the pointer of a pool of the fleet with this content.
pub fn with_pointer_to(observed: &mut Observed, pool: &str, pointer: &PoolPointer) {
    let name = PoolPointer::name(&fleet(), &pool_name(pool));
    let key = ConfigMapKey { namespace: "kube-system".to_owned(), name: name.clone() };
    let annotations = pointer.annotations();
    let hash = annotations.get(CONTENT_HASH_ANNOTATION).map(String::as_str);
    observed.pointers.insert(key.clone(), managed(&name, Some("fleet"), Some(pool), hash));
    let labels = [(MANAGED_BY_LABEL, MANAGER), (FLEET_LABEL, "fleet"), (CONFIG_MAP_POOL_LABEL, pool)];
    let content = FetchedConfigMap {
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        resource_version: "1".to_owned(),
        annotations: annotations.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        data: pointer.data(),
        ..FetchedConfigMap::default()
    };
    observed.contents.insert(key, Some(content));
}

pub fn managed(name: &str, fleet: Option<&str>, pool: Option<&str>, hash: Option<&str>) -> ManagedConfigMap {
    ManagedConfigMap {
        namespace: "kube-system".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        fleet: fleet.map(|fleet| FleetName::new(fleet).unwrap()),
        pool: pool.map(pool_name),
        content_hash: hash.map(str::to_owned),
        commit: None,
        placement: None,
        created: None,
        deleting: false,
    }
}

/// The fetched content of a ConfigMap.
pub fn fetched(source: &ConfigSource, text: &str, immutable: bool) -> (ConfigMapKey, Option<FetchedConfigMap>) {
    let key = ConfigMapKey::of(source).unwrap();
    let map = FetchedConfigMap {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: format!("uid-{}", key.name),
        immutable,
        data: [("kubelet".to_owned(), text.to_owned())].into(),
        ..FetchedConfigMap::default()
    };
    (key, Some(map))
}
