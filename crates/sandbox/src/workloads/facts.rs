//! Parts of objects that the controller reads. Parsing skips the rest, which may be large.

use std::collections::BTreeMap;

use nodecfg_contract::label_selector::LabelSelector;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::watch::Object;

/// Annotation of a pod that never ends.
pub(super) const HANGS: &str = "sandbox.nodecfg.dev/hangs";
/// Taint of a Node that is not Ready. Real clusters remove it when the Node is Ready; the sandbox has no node lifecycle
/// controller.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint that stands for `spec.unschedulable`.
pub(super) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition of an object.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
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
struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

/// Taint of a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
    value: String,
    effect: String,
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
pub(crate) type Pod = Object<PodSpec, PodStatus>;
/// A Node.
pub(super) type Node = Object<NodeSpec, NodeStatus>;
/// A ReplicaSet or DaemonSet.
pub(super) type Set = Object<SetSpec, SetStatus>;
/// A PodDisruptionBudget.
pub(super) type PodBudget = Object<BudgetSpec, BudgetStatus>;

/// Spec of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    /// Node of the pod; empty without one.
    pub node_name: String,
    pub containers: Vec<Container>,
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
}

/// Container of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    pub name: String,
    pub image: String,
}

/// Status of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    phase: String,
    conditions: Vec<Condition>,
}

impl Pod {
    /// Reports whether the pod waits for its kubelet to start it.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.status.phase.as_str(), "Pending" | "") && !self.is_deleting()
    }

    /// Reports whether the kubelet of a deleted pod ends it.
    pub(super) fn is_ending(&self) -> bool {
        self.is_deleting() && !self.metadata.annotations.contains_key(HANGS)
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn is_ready(&self) -> bool {
        is_ready(&self.status.conditions)
    }

    /// Reports whether a controller counts the pod.
    pub(super) fn is_active(&self) -> bool {
        !self.is_deleting() && !matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Uid of the controller.
    pub(super) fn owner(&self) -> Option<&str> {
        self.metadata.owner_references.iter().find(|owner| owner.controller).map(|owner| owner.uid.as_str())
    }
}

/// Spec of a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    unschedulable: bool,
    taints: Vec<Taint>,
}

/// Status of a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    conditions: Vec<Condition>,
}

impl Node {
    pub(crate) fn is_ready(&self) -> bool {
        is_ready(&self.status.conditions)
    }

    /// Reports whether a new pod may start here.
    pub(super) fn admits(&self, pod: &Pod) -> bool {
        let cordon = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
        let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        let taints = self.spec.taints.iter().filter(keeps_away).filter(|taint| taint.key != NOT_READY);
        let tolerated = |taint| pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        self.is_ready()
            && pod.spec.node_selector.iter().all(|(key, value)| self.metadata.labels.get(key) == Some(value))
            && taints.chain(self.spec.unschedulable.then_some(&cordon)).all(tolerated)
    }
}

/// Spec of a ReplicaSet or DaemonSet.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct SetSpec {
    /// Desired number of pods. A DaemonSet has none.
    pub replicas: Option<usize>,
    pub template: Value,
}

/// Status of a ReplicaSet.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SetStatus {
    pub replicas: usize,
    pub ready_replicas: usize,
    pub observed_generation: i64,
}

/// Spec of a PodDisruptionBudget.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetSpec {
    /// Without a selector, a budget covers no pod.
    pub selector: Option<LabelSelector>,
    pub min_available: Value,
    pub max_unavailable: Value,
}

/// Status of a PodDisruptionBudget.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BudgetStatus {
    pub observed_generation: i64,
    pub disruptions_allowed: usize,
    pub current_healthy: usize,
    pub desired_healthy: usize,
    pub expected_pods: usize,
    /// Times of the evictions whose deletions the controller has not seen, by pod.
    pub disrupted_pods: BTreeMap<String, Value>,
}

impl PodBudget {
    pub(super) fn covers(&self, pod: &Pod) -> bool {
        self.spec.selector.as_ref().is_some_and(|selector| selector.matches(&pod.metadata.labels))
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
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        serde_json::from_value(node).unwrap()
    }

    fn pod(tolerations: &Value, zone: Option<&str>) -> Pod {
        let selector = zone.map_or_else(|| json!({}), |zone| json!({"zone": zone}));
        serde_json::from_value(json!({"spec": {"tolerations": tolerations, "nodeSelector": selector}})).unwrap()
    }

    #[test]
    fn taints_and_cordons_keep_pods_away() {
        let none = json!([]);
        let not_ready = json!([{"key": NOT_READY, "effect": "NoSchedule"}]);
        let tainted = json!([{"key": "gpu", "value": "x", "effect": "NoSchedule"}]);
        let preferred = json!([{"key": "gpu", "effect": "PreferNoSchedule"}]);
        let all = json!([{"operator": "Exists"}]);
        let gpu = json!([{"key": "gpu", "operator": "Equal", "value": "x"}]);
        let other = json!([{"key": "gpu", "value": "y"}, {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]);
        let cordon = json!([{"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}]);
        for (node, tolerations, admits) in [
            (node("True", false, &not_ready), &none, true),
            (node("False", false, &none), &all, false),
            (node("True", false, &preferred), &none, true),
            (node("True", false, &tainted), &none, false),
            (node("True", false, &tainted), &gpu, true),
            (node("True", false, &tainted), &other, false),
            (node("True", true, &none), &none, false),
            (node("True", true, &none), &cordon, true),
            (node("True", true, &tainted), &all, true),
        ] {
            assert_eq!(node.admits(&pod(tolerations, None)), admits, "{node:?} {tolerations:?}");
        }
        let node = node("True", false, &none);
        assert!(node.admits(&pod(&none, Some("a"))) && !node.admits(&pod(&none, Some("b"))));
    }
}
