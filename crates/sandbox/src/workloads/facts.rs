//! Parts of objects that the model reads. Parsing skips the rest, which may be large.

use std::collections::BTreeMap;

use nodecfg_contract::label_selector::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::spec::MAX_PODS;
use kubelet_config::values::unsigned;

/// Annotation of a pod that a kubelet mirrors from a static pod (`kubernetes.io/config.mirror`).
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation of a pod that never ends.
pub(super) const HANGS: &str = "sandbox.nodecfg.dev/hangs";
/// Annotation of a pod that is created again under its name at once.
pub(super) const RETURNS: &str = "sandbox.nodecfg.dev/returns";
/// Annotation of a pod whose volumes stay attached.
pub(super) const KEEPS_VOLUMES: &str = "sandbox.nodecfg.dev/keeps-volumes";
/// Taint of a Node that is not Ready. Real clusters remove it when the Node is Ready; the sandbox has no node lifecycle
/// controller.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint that stands for `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Tolerations that the DaemonSet controller adds (`AddOrUpdateDaemonPodTolerations`): key and effect.
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Metadata of any object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub deletion_timestamp: Option<String>,
    pub deletion_grace_period_seconds: u64,
    pub owner_references: Vec<Owner>,
}

/// Owner of an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Owner {
    pub uid: String,
    pub controller: bool,
}

impl Meta {
    /// Key of the object within its resource.
    pub(super) fn key(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    fn has(&self, annotation: &str) -> bool {
        self.annotations.contains_key(annotation)
    }
}

/// Condition of an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

fn is_ready(conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| condition.r#type == "Ready" && condition.status == "True")
}

/// Toleration of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
}

/// Taint of a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

impl Toleration {
    /// Reports whether this tolerates a taint (core/v1 `ToleratesTaint`).
    fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && (self.operator == "Exists" || !self.key.is_empty() && self.value == taint.value)
    }
}

/// A pod.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    pub meta: Meta,
    pub key: String,
    /// Node of the pod; empty if unbound.
    pub node: String,
    pub selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
    /// Names of the claims of its volumes.
    pub claims: Vec<String>,
    pub pending: bool,
    pub finished: bool,
    pub ready: bool,
}

#[derive(Deserialize)]
struct PodObject {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    volumes: Vec<Volume>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    persistent_volume_claim: Option<Claim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    claim_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: String,
    conditions: Vec<Condition>,
}

impl Pod {
    pub(super) fn read(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok().map(Self::of)
    }

    fn of(PodObject { metadata, spec, status }: PodObject) -> Self {
        let claims = spec.volumes.into_iter().filter_map(|volume| volume.persistent_volume_claim);
        Self {
            key: metadata.key(),
            meta: metadata,
            node: spec.node_name,
            selector: spec.node_selector,
            tolerations: spec.tolerations,
            claims: claims.map(|claim| claim.claim_name).collect(),
            pending: matches!(status.phase.as_str(), "Pending" | ""),
            finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            ready: is_ready(&status.conditions),
        }
    }

    pub(super) fn deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Reports whether a controller counts the pod.
    pub(super) fn active(&self) -> bool {
        !self.deleting() && !self.finished
    }

    /// Uid of the controller.
    pub(super) fn owner(&self) -> Option<&str> {
        self.meta.owner_references.iter().find(|owner| owner.controller).map(|owner| owner.uid.as_str())
    }

    pub(super) fn hangs(&self) -> bool {
        self.meta.has(HANGS)
    }

    pub(super) fn keeps_volumes(&self) -> bool {
        self.meta.has(KEEPS_VOLUMES)
    }

    /// Reports whether the kubelet creates the pod again.
    pub(super) fn mirror(&self) -> bool {
        self.meta.has(MIRROR)
    }

    /// Reports whether the pod is created again under its name.
    pub(super) fn returns(&self) -> bool {
        self.mirror() || self.meta.has(RETURNS)
    }
}

/// A Node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub ready: bool,
    /// Maximum number of pods.
    pub capacity: usize,
}

#[derive(Deserialize)]
struct NodeObject {
    metadata: Meta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
    taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    conditions: Vec<Condition>,
    allocatable: BTreeMap<String, Value>,
}

impl Node {
    pub(super) fn read(json: &[u8]) -> Option<Self> {
        let NodeObject { metadata, spec, status } = serde_json::from_slice(json).ok()?;
        let ready = is_ready(&status.conditions);
        let mut taints = spec.taints;
        taints.retain(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
        taints.retain(|taint| !(ready && taint.key == NOT_READY));
        let implied = [(spec.unschedulable, UNSCHEDULABLE), (!ready, NOT_READY)];
        for (_, key) in implied.into_iter().filter(|(applies, _)| *applies) {
            taints.push(Taint { key: key.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() });
        }
        let capacity = status.allocatable.get("pods").and_then(Value::as_str).and_then(|pods| pods.parse().ok());
        let capacity = capacity.unwrap_or(usize::from(MAX_PODS));
        Some(Self { name: metadata.name, labels: metadata.labels, taints, ready, capacity })
    }

    /// Reports whether new pods with this selector and these tolerations may start here.
    pub(super) fn admits(&self, selector: &BTreeMap<String, String>, tolerations: &[Toleration]) -> bool {
        selector.iter().all(|(key, value)| self.labels.get(key) == Some(value))
            && self.taints.iter().all(|taint| tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }
}

/// A ReplicaSet or DaemonSet.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub meta: Meta,
    /// Desired number of pods; `None` for a DaemonSet.
    pub replicas: Option<usize>,
    /// Reported numbers of pods and ready pods.
    pub reported: (usize, usize),
    pub observed: i64,
    pub template: Value,
    /// A pod of the set that is not created yet.
    pub pod: Pod,
}

#[derive(Deserialize)]
struct SetObject {
    metadata: Meta,
    spec: SetSpec,
    #[serde(default)]
    status: SetStatus,
}

#[derive(Deserialize)]
struct SetSpec {
    replicas: Option<usize>,
    #[serde(default)]
    template: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SetStatus {
    replicas: usize,
    ready_replicas: usize,
    observed_generation: i64,
}

impl Set {
    pub(super) fn read(json: &[u8], daemons: bool) -> Option<Self> {
        let SetObject { metadata, spec, status } = serde_json::from_slice(json).ok()?;
        let mut pod = Pod::of(serde_json::from_value(spec.template.clone()).ok()?);
        pod.meta.namespace.clone_from(&metadata.namespace);
        pod.meta.owner_references = vec![Owner { uid: metadata.uid.clone(), controller: true }];
        if daemons {
            pod.tolerations.extend(daemon_tolerations());
        }
        Some(Self {
            meta: metadata,
            replicas: (!daemons).then_some(spec.replicas.unwrap_or(1)),
            reported: (status.replicas, status.ready_replicas),
            observed: status.observed_generation,
            template: spec.template,
            pod,
        })
    }
}

/// Tolerations that each pod of a DaemonSet has.
fn daemon_tolerations() -> impl Iterator<Item = Toleration> {
    DAEMON_TOLERATIONS.into_iter().map(|(key, effect)| Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        effect: effect.to_owned(),
        value: String::new(),
    })
}

/// Value of `minAvailable` or `maxUnavailable`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Amount {
    Pods(usize),
    Percent(u32),
}

/// Status of a budget.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetStatus {
    pub observed_generation: i64,
    pub disrupted_pods: BTreeMap<String, String>,
    pub disruptions_allowed: i64,
    pub current_healthy: usize,
    pub desired_healthy: usize,
    pub expected_pods: usize,
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone)]
pub(super) struct PodBudget {
    pub meta: Meta,
    pub revision: u64,
    pub selector: Option<LabelSelector>,
    pub min_available: Option<Amount>,
    pub max_unavailable: Option<Amount>,
    pub status: BudgetStatus,
}

#[derive(Deserialize)]
struct BudgetObject {
    metadata: Meta,
    #[serde(default)]
    spec: BudgetSpec,
    #[serde(default)]
    status: BudgetStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BudgetSpec {
    selector: Value,
    min_available: Value,
    max_unavailable: Value,
}

impl PodBudget {
    pub(super) fn read(json: &[u8]) -> Option<Self> {
        let BudgetObject { metadata, spec, status } = serde_json::from_slice(json).ok()?;
        let selector = Some(spec.selector).filter(|selector| !selector.is_null());
        Some(Self {
            revision: metadata.resource_version.parse().ok()?,
            meta: metadata,
            selector: selector.and_then(|selector| serde_json::from_value(selector).ok()),
            min_available: amount(&spec.min_available),
            max_unavailable: amount(&spec.max_unavailable),
            status,
        })
    }

    pub(super) fn covers(&self, pod: &Pod) -> bool {
        self.meta.namespace == pod.meta.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.meta.labels))
    }
}

fn amount(value: &Value) -> Option<Amount> {
    match value {
        Value::String(share) => {
            let share = unsigned(share.strip_suffix('%')?)?;
            u32::try_from(share).ok().map(Amount::Percent)
        }
        number => number.as_u64().and_then(|number| usize::try_from(number).ok()).map(Amount::Pods),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(ready: &str, unschedulable: bool, taints: &Value) -> Node {
        let node = json!({
            "metadata": {"name": "n1", "labels": {"zone": "a"}},
            "spec": {"unschedulable": unschedulable, "taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"pods": "30"}},
        });
        Node::read(node.to_string().as_bytes()).unwrap()
    }

    fn tolerations(list: &Value) -> Vec<Toleration> {
        serde_json::from_value(list.clone()).unwrap()
    }

    #[test]
    fn taints_and_cordons_keep_pods_away() {
        let none = BTreeMap::new();
        let not_ready = json!([{"key": NOT_READY, "effect": "NoSchedule"}]);
        let tainted = json!([{"key": "gpu", "value": "x", "effect": "NoSchedule"}]);
        let preferred = json!([{"key": "gpu", "effect": "PreferNoSchedule"}]);
        let all = tolerations(&json!([{"operator": "Exists"}]));
        let gpu = tolerations(&json!([{"key": "gpu", "operator": "Equal", "value": "x"}]));
        let other = tolerations(
            &json!([{"key": "gpu", "value": "y"}, {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]),
        );
        let cordon = tolerations(&json!([{"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}]));
        for (node, tolerations, admits) in [
            (node("True", false, &not_ready), &[][..], true),
            (node("False", false, &json!([])), &[][..], false),
            (node("True", false, &preferred), &[][..], true),
            (node("True", false, &tainted), &[][..], false),
            (node("True", false, &tainted), &gpu[..], true),
            (node("True", false, &tainted), &other[..], false),
            (node("True", true, &json!([])), &[][..], false),
            (node("True", true, &json!([])), &cordon[..], true),
            (node("False", true, &tainted), &all[..], true),
        ] {
            assert_eq!(node.admits(&none, tolerations), admits, "{node:?} {tolerations:?}");
        }
        let zone = |zone: &str| BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
        let node = node("True", false, &json!([]));
        assert!(node.admits(&zone("a"), &[]) && !node.admits(&zone("b"), &[]));
        assert_eq!(node.capacity, 30);
    }
}
