//! Fleet for the benchmarks: a repository with many pools, and a cluster with nodes in every state that planning
//! distinguishes. Consists of texts and plain values.

#![allow(dead_code, reason = "each benchmark uses its own part")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use kubelet_config::capacity::{Capacity, Resource};
use kubelet_config::finding::Strictness;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{ConfigSource, ConfigStatus, KubeletVersion};
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Checks, Desired, Pool, PoolTarget, Rendered, build};
use nodecfg_observed::{ConfigMapKey, ListVersions, ManagedConfigMap, Node, Observed, Readiness};
use nodecfg_plan::Options;

/// Name of the fleet.
pub const FLEET: &str = "bench";
/// Number of nodes of the performance targets.
pub const NODES: usize = 15_000;
/// Number of pools of the performance targets.
pub const POOLS: usize = 200;

const BASE: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true, cacheTTL: 2m}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 5m, cacheUnauthorizedTTL: 30s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10, fd00::10]
clusterDomain: cluster.local
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
serverTLSBootstrap: true
staticPodPath: /etc/kubernetes/manifests
maxPods: 110
evictionHard:
  memory.available: 200Mi
  nodefs.available: 10%
  nodefs.inodesFree: 5%
  imagefs.available: 15%
kubeReserved: {cpu: 100m, memory: 512Mi}
systemReserved: {cpu: 100m, memory: 256Mi}
featureGates: {RotateKubeletServerCertificate: true}
nodeStatusUpdateFrequency: 10s
nodeStatusReportFrequency: 5m
syncFrequency: 1m
imageMinimumGCAge: 2m
volumeStatsAggPeriod: 1m
runtimeRequestTimeout: 15m
serializeImagePulls: false
containerLogMaxSize: 20Mi
containerLogMaxFiles: 5
eventRecordQPS: 5
registryPullQPS: 10
";

/// Nodes and pools of the largest published Kubernetes clusters.
pub const LARGEST: (usize, usize) = (65_000, 500);

/// Sizes of the machines of each pool.
pub const SIZES: usize = 12;

/// Capacity of the machine with this number in its pool: one of [`SIZES`].
pub fn capacity(machine: usize) -> Capacity {
    let cores = 4 * (1 + machine % SIZES) as u64;
    let capacity = Capacity::default().with(Resource::Cpu, cores * 1000).with(Resource::Memory, (4 * cores) << 30);
    capacity.with(Resource::EphemeralStorage, 100 << 30)
}

/// Name of a pool.
pub fn pool_name(pool: usize) -> String {
    format!("pool-{pool:03}")
}

/// Names of the pools.
pub fn pool_names(pools: usize) -> Vec<PoolName> {
    (0..pools).map(|pool| PoolName::new(pool_name(pool)).unwrap()).collect()
}

/// Files of a repository by path: one base, and for each pool a pool file, a merge patch and a JSON patch. Every
/// fourth pool selects by expressions. `revision` changes the configuration of every pool. The
/// first configuration may differ from the local one in any field, without drains.
pub fn repository(pools: usize, revision: usize, max_unavailable: &str) -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([
        (
            "nodecfg.yaml".to_owned(),
            format!(
                "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata:\n  name: {FLEET}\nspec:\n  rollout:\n    \
                 maxUnavailable: {max_unavailable}\n    convergenceTimeout: 10m\n    allowDisruption: replace\n    \
                 drain: {{mode: accept}}\n"
            ),
        ),
        ("base/kubelet.yaml".to_owned(), BASE.to_owned()),
    ]);
    for pool in 0..pools {
        let name = pool_name(pool);
        let mut yaml = format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata:\n  name: {name}\nspec:\n  kubelet:\n    \
             base: ../../base/kubelet.yaml\n    patches: [merge.yaml, json.yaml]\n"
        );
        if pool % 4 == 0 {
            let _ = write!(
                yaml,
                "  nodeSelector:\n    matchExpressions:\n    - {{key: {POOL_LABEL}, operator: In, values: [{name}, \
                 {name}-b]}}\n    - {{key: example.com/draining, operator: DoesNotExist}}\n"
            );
        }
        let file = |file: &str| format!("pools/{name}/{file}");
        files.insert(file("pool.yaml"), yaml);
        files.insert(
            file("kubelet.yaml"),
            format!("maxPods: {}\nnodeLeaseDurationSeconds: {}\n", 20 + pool, 40 + revision),
        );
        files.insert(
            file("merge.yaml"),
            format!("kubeReserved:\n  memory: {}Mi\nimageGCHighThresholdPercent: 85\n", 512 + pool),
        );
        files.insert(
            file("json.yaml"),
            "- {op: test, path: /evictionHard/memory.available, value: 200Mi}\n- {op: replace, path: \
             /evictionHard/memory.available, value: 1Gi}\n"
                .to_owned(),
        );
    }
    files
}

/// The files of [`repository`], but each node reserves what its size needs.
pub fn repository_with_sizes(pools: usize, revision: usize) -> BTreeMap<String, String> {
    let mut files = repository(pools, revision, "10%");
    for (path, text) in &mut files {
        if path.ends_with("/pool.yaml") {
            *text = text.replace("    base:", "    reserve: {preset: gke}\n    base:");
        } else {
            let lines = text
                .split_inclusive('\n')
                .filter(|line| !line.starts_with("kubeReserved:") && !line.starts_with("  memory: "));
            *text = lines.collect();
        }
    }
    files
}

/// Snapshot of the files.
pub fn snapshot(files: &BTreeMap<String, String>) -> Snapshot {
    Snapshot::of_texts(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

/// Desired state of [`repository`].
pub fn desired(pools: usize, revision: usize) -> Desired {
    desired_of(&repository(pools, revision, "10%"))
}

/// Desired state of these files.
pub fn desired_of(files: &BTreeMap<String, String>) -> Desired {
    let built = build(&snapshot(files), &Checks::default());
    built.desired.unwrap_or_else(|| panic!("the benchmark's repository is wrong: {:?}", built.findings))
}

/// Namespace of the ConfigMaps.
pub fn namespace() -> NamespaceName {
    NamespaceName::new("kube-system").unwrap()
}

/// Options of the planner.
pub fn options() -> Options {
    Options {
        namespace: namespace(),
        take_over: false,
        allow_empty: false,
        gate: Strictness::Strict,
        despite_pause: BTreeSet::new(),
        scope: nodecfg_plan::Scope::Everything,
    }
}

/// Source as reported by a kubelet that loaded it.
pub fn loaded(source: &ConfigSource) -> ConfigSource {
    let mut loaded = source.clone();
    if let Some(map) = loaded.config_map_mut() {
        map.uid = Some(format!("uid-of-{}", map.name));
        map.resource_version = Some("1".to_owned());
    }
    loaded
}

/// Node with `source` assigned and running.
pub fn running(mut node: Node, source: &ConfigSource) -> Node {
    let loaded = loaded(source);
    node.source = Some(source.clone());
    node.status = ConfigStatus {
        assigned: Some(loaded.clone()),
        active: Some(loaded.clone()),
        last_known_good: Some(loaded),
        error: None,
    };
    node
}

/// Configurations of a pool by machine, for the first machine of each size.
fn configs(pool: &Pool) -> impl Iterator<Item = Arc<PoolTarget>> {
    (0..SIZES).map(|machine| pool.for_node(capacity(machine)).expect("each machine has a size").target)
}

/// The configuration of a target.
fn rendered(target: &PoolTarget) -> &Rendered {
    target.rendered().expect("every pool of the benchmark has a configuration")
}

/// Cluster of Ready nodes spread over the pools of `ran`, each running its pool's configuration. `None` means the
/// local configuration. One node in 50 is not Ready.
pub fn observed(nodes: usize, pools: usize, ran: Option<&Desired>) -> Observed {
    let sources = |pool: &Pool| configs(pool).map(|target| rendered(&target).source(&namespace())).collect();
    let sources: Option<Vec<Vec<ConfigSource>>> = ran.map(|ran| ran.pools.values().map(sources).collect());
    let mut observed =
        Observed { versions: ListVersions { nodes: "1".to_owned(), node_configs: None }, ..Observed::default() };
    // As decoded: nodes with the same labels share them.
    let label = |pool| Arc::new(BTreeMap::from([(POOL_LABEL.to_owned(), pool_name(pool))]));
    let labels: Vec<_> = (0..pools).map(label).collect();
    for index in 0..nodes {
        let pool = index % pools;
        let name = NodeName::new(format!("{}-{:05}.example.com", pool_name(pool), index / pools)).unwrap();
        let node = Node {
            uid: format!("00000000-0000-4000-8000-{index:012}"),
            labels: Arc::clone(&labels[pool]),
            kubelet_version: KubeletVersion::parse("v1.21.14"),
            capacity: capacity(index / pools),
            obstacle: None,
            ready: if index % 50 == 49 { Readiness::NotReady } else { Readiness::Ready },
            ..Node::named(name.clone())
        };
        let node = match sources.as_ref().and_then(|sources| sources.get(pool)) {
            Some(sources) => running(node, &sources[index / pools % SIZES]),
            None => node,
        };
        observed.nodes.insert(name, node);
    }
    if let Some(ran) = ran {
        add_config_maps(&mut observed, ran);
    }
    observed
}

/// Adds the ConfigMaps of a revision to the cluster, with metadata and content.
pub fn add_config_maps(observed: &mut Observed, ran: &Desired) {
    let targets = ran.pools.values().flat_map(|pool| configs(pool).map(move |target| (pool, target)));
    for (pool, target) in targets {
        let rendered = rendered(&target);
        let key = ConfigMapKey { namespace: namespace().to_string(), name: rendered.config_map.clone() };
        let managed = ManagedConfigMap {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: format!("uid-of-{}", key.name),
            resource_version: "1".to_owned(),
            fleet: FleetName::new(FLEET).ok(),
            pool: Some(pool.name.clone()),
            content_hash: Some(rendered.hash.to_string()),
            commit: None,
            placement: None,
            created: None,
            deleting: false,
        };
        let fetched = FetchedConfigMap {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: managed.uid.clone(),
            immutable: true,
            data: BTreeMap::from([("kubelet".to_owned(), rendered.canonical.clone())]),
            ..FetchedConfigMap::default()
        };
        observed.config_maps.insert(key.clone(), managed);
        observed.contents.insert(key, Some(fetched));
    }
}
