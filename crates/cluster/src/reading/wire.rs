//! Decoding of Kubernetes objects: contains only the fields that nodecfg reads. Decoding skips all other fields, so a
//! Node of 50 kB becomes some hundred bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::items::ItemSplitter;
use crate::connection::transport::{Decode, LARGEST_OBJECT, MOST_OBJECTS, within};
use kubelet_config::capacity::{Capacity, PodRange};
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::labels::{
    COMMIT_ANNOTATION, CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, FLEET_LABEL, PLACEMENT_ANNOTATION,
};
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_contract::{ConfigSource, ConfigStatus, KubeletVersion, Placement, UnreadableField};
use nodecfg_observed::drain::{CONDITION_REASON, DRAIN_ANNOTATION, DRAIN_TAINT};
use nodecfg_observed::{
    CreationTime, DrainMark, ExtendedResources, Maintainer, ManagedConfigMap, Node, Obstacle, Readiness, maintainer,
};

/// Labels of Nodes to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelKeys {
    /// All labels.
    All,
    /// Labels that a selector contains.
    Only(BTreeSet<String>),
}

impl LabelKeys {
    fn filter(&self, mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
        if let Self::Only(keys) = self {
            labels.retain(|key, _| keys.contains(key));
        }
        labels
    }
}

/// The parts of meta/v1 ObjectMeta that are read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The namespace; unset for cluster-scoped objects.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The uid.
    #[serde(default)]
    pub uid: String,
    /// Version of the object, opaque.
    #[serde(default)]
    pub resource_version: Option<String>,
    /// The labels.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// The annotations.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Creation time.
    #[serde(default)]
    pub creation_timestamp: Option<Timestamp>,
    /// Set while the object is being deleted.
    #[serde(default)]
    pub deletion_timestamp: Option<IgnoredAny>,
}

/// The parts of a Node's metadata that are read.
#[derive(Debug, Deserialize)]
pub(crate) struct NodeMeta {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) annotations: Option<MaintenanceAnnotations>,
    #[serde(default, rename = "creationTimestamp", deserialize_with = "creation_time")]
    pub(crate) created: Option<CreationTime>,
    #[serde(default, rename = "deletionTimestamp")]
    pub(crate) deletion_timestamp: Option<IgnoredAny>,
}

/// Annotations by which nodecfg and other programs claim a Node. Other annotations may be long.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct MaintenanceAnnotations {
    #[serde(rename = "nodecfg.dev/drain")]
    drain: Option<String>,
    #[serde(rename = "weave.works/kured-reboot-in-progress")]
    kured: Option<String>,
    #[serde(rename = "machineconfiguration.openshift.io/desiredDrain")]
    desired_drain: Option<String>,
    #[serde(rename = "machineconfiguration.openshift.io/lastAppliedDrain")]
    last_applied_drain: Option<String>,
}

impl MaintenanceAnnotations {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            DRAIN_ANNOTATION => self.drain.as_deref(),
            maintainer::KURED => self.kured.as_deref(),
            maintainer::DESIRED_DRAIN => self.desired_drain.as_deref(),
            maintainer::LAST_APPLIED_DRAIN => self.last_applied_drain.as_deref(),
            _ => None,
        }
    }
}

/// core/v1 Taint.
#[derive(Debug, Deserialize)]
pub(crate) struct WireTaint {
    #[serde(default)]
    key: String,
}

/// core/v1 Node.
#[derive(Debug, Deserialize)]
pub struct WireNode {
    pub(crate) metadata: NodeMeta,
    #[serde(default)]
    pub(crate) spec: Option<WireNodeSpec>,
    #[serde(default)]
    pub(crate) status: Option<WireNodeStatus>,
    /// First field that could not be decoded, if any; see [`salvage`](super::salvage).
    #[serde(skip)]
    pub(crate) unreadable: Option<UnreadableField>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireNodeSpec {
    #[serde(default)]
    pub(crate) config_source: Option<ConfigSource>,
    #[serde(default, rename = "podCIDR")]
    pub(crate) pod_cidr: Option<String>,
    #[serde(default)]
    pub(crate) unschedulable: Option<bool>,
    #[serde(default)]
    pub(crate) taints: Option<Vec<WireTaint>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireNodeStatus {
    #[serde(default)]
    pub(crate) config: Option<ConfigStatus>,
    #[serde(default)]
    pub(crate) conditions: Option<Vec<WireCondition>>,
    #[serde(default)]
    pub(crate) node_info: Option<WireNodeInfo>,
    #[serde(default)]
    pub(crate) capacity: Option<WireCapacity>,
    #[serde(default)]
    pub(crate) allocatable: Option<BTreeMap<String, String>>,
}

/// The parts of core/v1 ResourceList that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct WireCapacity {
    #[serde(default)]
    cpu: Option<String>,
    #[serde(default)]
    memory: Option<String>,
    #[serde(default)]
    ephemeral_storage: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WireCondition {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default, rename = "lastHeartbeatTime", deserialize_with = "time")]
    heartbeat: Option<Timestamp>,
    #[serde(default, rename = "lastTransitionTime", deserialize_with = "time")]
    since: Option<Timestamp>,
}

/// Time that a kubelet writes. Kubernetes accepts years that [`Timestamp`] cannot represent.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let unreadable = |_| D::Error::custom(format_args!("{text:?} is not a time in the supported range"));
    text.parse().map(Some).map_err(unreadable)
}

/// Time for display only. One that [`Timestamp`] cannot represent counts as missing.
pub(crate) fn shown_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// Creation time, which the API server writes. An unknown one blocks no node.
fn creation_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CreationTime>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.as_deref().and_then(CreationTime::parse))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireNodeInfo {
    #[serde(default)]
    kubelet_version: String,
}

impl WireNode {
    /// Time of the kubelet's last update of the Ready condition.
    pub fn heartbeat(&self) -> Option<Timestamp> {
        let mut conditions = self.status.as_ref()?.conditions.iter().flatten();
        conditions.find(|condition| condition.kind == "Ready")?.heartbeat
    }

    /// Node with the labels `keys`. `None` for an invalid name, which no API server sends.
    pub fn into_node(self, keys: &LabelKeys) -> Option<Node> {
        let (spec, status) = (self.spec.unwrap_or_default(), self.status.unwrap_or_default());
        let kubelet_version = status.node_info.and_then(|info| KubeletVersion::parse(&info.kubelet_version));
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.kind == "Ready");
        let labels = self.metadata.labels.unwrap_or_default();
        let annotations = self.metadata.annotations.unwrap_or_default();
        let capacity = status.capacity.unwrap_or_default();
        let taints = || spec.taints.iter().flatten().map(|taint| taint.key.as_str());
        let claims = |condition: &&WireCondition| condition.status == "True" && condition.reason != CONDITION_REASON;
        let of_others = conditions.iter().filter(claims).map(|condition| condition.kind.as_str());
        let label = |key: &str| labels.get(key).map(String::as_str);
        let maintainer = Maintainer::of(taints(), of_others, label, |key| annotations.get(key));
        let drain_mark = DrainMark::read(taints().any(|key| key == DRAIN_TAINT), annotations.get(DRAIN_ANNOTATION));
        Some(Node {
            name: NodeName::new(self.metadata.name).ok()?,
            uid: self.metadata.uid,
            created: self.metadata.created,
            assigned_before: false,
            labels: Arc::new(keys.filter(labels)),
            kubelet_version,
            pod_range: spec.pod_cidr.as_deref().and_then(PodRange::parse),
            capacity: Capacity::parse(
                capacity.cpu.as_deref(),
                capacity.memory.as_deref(),
                capacity.ephemeral_storage.as_deref(),
            ),
            extended_resources: ExtendedResources::read(
                status.allocatable.iter().flatten().map(|(name, amount)| (name.as_str(), amount.as_str())),
            ),
            ready: match ready.map(|condition| condition.status.as_str()) {
                Some("True") => Readiness::Ready,
                Some("False") => Readiness::NotReady,
                _ => Readiness::Unknown,
            },
            ready_since: ready.and_then(|condition| condition.since),
            status_since: None,
            trial_ends: None,
            own_values: None,
            proof: None,
            deleting: self.metadata.deletion_timestamp.is_some(),
            cordoned: spec.unschedulable.unwrap_or_default(),
            maintainer,
            drain_mark: drain_mark.map(Box::new),
            source: spec.config_source,
            obstacle: match self.unreadable {
                Some(field) => Some(Obstacle::Unreadable(field)),
                None => Obstacle::of_kubelet(kubelet_version, status.config.is_some()),
            },
            status: status.config.unwrap_or_default(),
            content: None,
        })
    }
}

/// meta/v1 PartialObjectMetadata.
#[derive(Debug, Deserialize)]
pub struct WireMetadata {
    pub metadata: Meta,
}

impl WireMetadata {
    pub(crate) fn into_managed(self) -> ManagedConfigMap {
        let meta = self.metadata;
        let mut labels = meta.labels.unwrap_or_default();
        let mut annotations = meta.annotations.unwrap_or_default();
        ManagedConfigMap {
            namespace: meta.namespace.unwrap_or_default(),
            name: meta.name,
            uid: meta.uid,
            resource_version: meta.resource_version.unwrap_or_default(),
            fleet: labels.remove(FLEET_LABEL).and_then(|name| FleetName::new(name).ok()),
            pool: labels.remove(CONFIG_MAP_POOL_LABEL).and_then(|name| PoolName::new(name).ok()),
            content_hash: annotations.remove(CONTENT_HASH_ANNOTATION),
            commit: annotations.remove(COMMIT_ANNOTATION),
            placement: annotations.remove(PLACEMENT_ANNOTATION).as_deref().and_then(Placement::parse),
            created: meta.creation_timestamp,
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}

/// core/v1 ConfigMap.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireConfigMap {
    /// The metadata.
    pub metadata: Meta,
    /// True if the server rejects changes of the data.
    #[serde(default)]
    pub immutable: Option<bool>,
    /// Text content by key.
    #[serde(default)]
    pub data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, IgnoredAny>>,
}

impl WireConfigMap {
    /// The ConfigMap as planning uses it.
    pub fn into_fetched(self) -> FetchedConfigMap {
        FetchedConfigMap {
            namespace: self.metadata.namespace.unwrap_or_default(),
            name: self.metadata.name,
            uid: self.metadata.uid,
            resource_version: self.metadata.resource_version.unwrap_or_default(),
            immutable: self.immutable.unwrap_or_default(),
            deleting: self.metadata.deletion_timestamp.is_some(),
            labels: self.metadata.labels.unwrap_or_default(),
            annotations: self.metadata.annotations.unwrap_or_default(),
            data: self.data.unwrap_or_default(),
            binary_keys: self.binary_data.unwrap_or_default().into_keys().collect(),
        }
    }
}

/// Response of `/version`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireVersion {
    #[serde(default)]
    pub git_version: String,
    #[serde(default)]
    pub major: String,
    #[serde(default)]
    pub minor: String,
}

/// Response whose content is ignored.
#[derive(Debug, Deserialize)]
pub struct IgnoredContent {}

/// meta/v1 ListMeta of one page.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    #[serde(default)]
    pub resource_version: Option<String>,
    #[serde(default, rename = "continue")]
    pub next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Envelope {
    metadata: ListMeta,
}

/// Size of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageSize {
    /// Number of its objects, including those that were not kept.
    pub objects: usize,
    /// Bytes of its objects.
    pub bytes: usize,
}

/// What was kept of a page.
#[derive(Debug)]
pub struct PageContent<T> {
    /// The kept objects.
    pub items: Vec<T>,
    /// Size of the page.
    pub size: PageSize,
    /// Version of the list, and its continuation.
    pub meta: ListMeta,
}

/// Decoder of one page of a list. Passes the JSON of each arriving item to `keep`, and keeps what that returns.
pub struct Page<T, F> {
    splitter: ItemSplitter,
    keep: F,
    items: Vec<T>,
    size: PageSize,
}

impl<T, F: Fn(&[u8]) -> serde_json::Result<Option<T>>> Page<T, F> {
    pub fn new(keep: F) -> Self {
        Self { splitter: ItemSplitter::new(), keep, items: Vec::new(), size: PageSize::default() }
    }
}

impl<T, F: Fn(&[u8]) -> serde_json::Result<Option<T>>> Decode for Page<T, F> {
    type Out = PageContent<T>;

    fn chunk(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        let (keep, items, size) = (&self.keep, &mut self.items, &mut self.size);
        self.splitter.push(bytes, |item| {
            size.objects += 1;
            size.bytes += item.len();
            items.extend(keep(item)?);
            Ok::<(), serde_json::Error>(())
        })?;
        within(self.size.objects, MOST_OBJECTS)?;
        within(self.splitter.kept(), LARGEST_OBJECT)
    }

    fn finish(self) -> Result<Self::Out, serde_json::Error> {
        let envelope: Envelope = serde_json::from_slice(&self.splitter.into_envelope())?;
        Ok(PageContent { items: self.items, size: self.size, meta: envelope.metadata })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(json: serde_json::Value) -> Node {
        let wire: WireNode = serde_json::from_value(json).expect("a node");
        let keys = LabelKeys::Only(BTreeSet::from(["pool".to_owned()]));
        wire.into_node(&keys).expect("named")
    }

    #[test]
    fn node_keeps_the_fields_for_planning() {
        let node = node(serde_json::json!({
            "metadata": {"name": "n1", "uid": "u", "labels": {"pool": "a", "other": "b"}, "managedFields": [{}]},
            "spec": {"podCIDR": "10.4.2.0/25", "configSource": {"configMap": {"name": "c", "namespace": "kube-system", "kubeletConfigKey": "kubelet"}}},
            "status": {
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.21.14-eks-1"},
                "images": [{"names": ["x"], "sizeBytes": 1}],
                "config": {"error": "e"},
            },
        }));
        assert_eq!(*node.labels, BTreeMap::from([("pool".to_owned(), "a".to_owned())]));
        assert_eq!(node.ready, Readiness::Ready);
        assert_eq!(node.kubelet_version.map(|v| v.to_string()).as_deref(), Some("v1.21.14"));
        assert_eq!(node.source, Some(ConfigSource::config_map("kube-system", "c", "kubelet")));
        assert_eq!(node.pod_range.map(PodRange::pods), Some(126));
        assert_eq!(node.status.error(), Some("e"));
        assert!(!node.deleting && !node.cordoned && node.maintainer.is_none());
    }

    #[test]
    fn node_shows_its_cordon_and_its_maintainer() {
        let annotation = "machineconfiguration.openshift.io/desiredDrain";
        let node = |spec: serde_json::Value| {
            let annotations = serde_json::json!({"other": "x", annotation: "drain-a"});
            node(serde_json::json!({"metadata": {"name": "n1", "annotations": annotations}, "spec": spec}))
        };
        let cordoned = node(serde_json::json!({"unschedulable": true}));
        assert_eq!((cordoned.cordoned, cordoned.maintainer), (true, Some(Maintainer::MachineConfigOperator)));
        let tainted = node(serde_json::json!({"taints": [{"key": "medik8s.io/drain", "effect": "NoSchedule"}]}));
        assert_eq!((tainted.cordoned, tainted.maintainer), (false, Some(Maintainer::NodeMaintenanceOperator)));
        let shuts_down = |status: &str| {
            let ready = serde_json::json!({"type": "Ready", "status": "True"});
            let shutdown = serde_json::json!({"type": "GracefulNodeShutdownInProgress", "status": status});
            let read = serde_json::json!({"metadata": {"name": "n1"}, "status": {"conditions": [ready, shutdown]}});
            self::node(read).maintainer
        };
        assert_eq!(shuts_down("True"), Some(Maintainer::GracefulNodeShutdownInProgress));
        assert_eq!((shuts_down("False"), shuts_down("Unknown")), (None, None));
        // The fields have the names of the constants.
        for key in [maintainer::KURED, maintainer::DESIRED_DRAIN, maintainer::LAST_APPLIED_DRAIN] {
            let read: MaintenanceAnnotations =
                serde_json::from_value(serde_json::json!({key: "x"})).expect("annotations");
            assert_eq!(read.get(key), Some("x"));
        }
    }

    #[test]
    fn node_without_status_is_unknown() {
        let node = node(
            serde_json::json!({"metadata": {"name": "n1", "labels": null, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": null, "nodeInfo": {"kubeletVersion": ""}}}),
        );
        assert_eq!((node.ready, node.kubelet_version, node.deleting), (Readiness::Unknown, None, true));
        assert_eq!(node.status, ConfigStatus::default());
    }

    #[test]
    fn reads_a_recorded_node() {
        // A Node as API server 1.21 stores it, with an empty status.
        let node = node(serde_json::json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"creationTimestamp": "2026-11-20T13:53:24Z", "name": "rn1", "resourceVersion": "621", "uid": "7dff"},
            "spec": {"taints": [{"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}]},
            "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {"kubeletVersion": ""}}}));
        let created = node.created.map(|created| created.timestamp().to_string());
        assert_eq!(created.as_deref(), Some("2026-11-20T13:53:24Z"));
        assert_eq!(node.new_since().map(|since| since.to_string()), created);
        assert_eq!((node.source, node.pod_range), (None, None));
    }
}
