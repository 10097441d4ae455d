//! Status of PodDisruptionBudgets, as the disruption controller computes it (`pkg/controller/disruption`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubelet_config::values::unsigned;
use serde_json::{Map, Value, json};

use super::facts::{BudgetStatus, Pod, PodBudget};
use crate::api::time_text;

/// Computes the status of a budget. `pods` are those of its namespace; `scale` returns the desired number of pods of a
/// controller.
pub(super) fn status<'a>(
    budget: &PodBudget,
    pods: impl Iterator<Item = &'a Pod>,
    scale: impl Fn(&str) -> Option<usize>,
) -> BudgetStatus {
    let pods: Vec<&Pod> = pods.filter(|pod| budget.covers(pod)).collect();
    let owners: BTreeMap<&str, usize> =
        pods.iter().filter_map(|pod| pod.owner()).filter_map(|owner| Some((owner, scale(owner)?))).collect();
    let unowned = pods.iter().filter(|pod| pod.owner().is_none_or(|owner| !owners.contains_key(owner))).count();
    let scaled = owners.values().sum::<usize>() + unowned;
    let (expected, desired) = match (&budget.spec.max_unavailable, &budget.spec.min_available) {
        (Value::Null, needed @ Value::String(_)) => (scaled, amount(needed, scaled)),
        (Value::Null, needed) => (pods.len(), amount(needed, scaled)),
        (limit, _) => (scaled, scaled.saturating_sub(amount(limit, scaled))),
    };
    // An evicted pod counts as disrupted until its deletion is seen.
    let mut disrupted_pods = budget.status.disrupted_pods.clone();
    disrupted_pods.retain(|name, _| pods.iter().any(|pod| pod.metadata.name == *name && !pod.is_deleting()));
    let is_healthy =
        |pod: &&&Pod| pod.is_ready() && !pod.is_deleting() && !disrupted_pods.contains_key(&pod.metadata.name);
    let current_healthy = pods.iter().filter(is_healthy).count();
    BudgetStatus {
        observed_generation: budget.metadata.generation,
        disruptions_allowed: if expected == 0 { 0 } else { current_healthy.saturating_sub(desired) },
        current_healthy,
        desired_healthy: desired,
        expected_pods: expected,
        disrupted_pods,
    }
}

/// Merge patch from the present status to a new one.
pub(super) fn patch(present: &BudgetStatus, new: &BudgetStatus, now: Timestamp) -> Value {
    let settled = present.disrupted_pods.keys().map(|name| (name.clone(), Value::Null));
    let disrupted: Map<String, Value> = settled.chain(new.disrupted_pods.clone()).collect();
    let (allowed, reason) = match new.disruptions_allowed {
        0 => ("False", "InsufficientPods"),
        _ => ("True", "SufficientPods"),
    };
    json!({
        "observedGeneration": new.observed_generation,
        "disruptionsAllowed": new.disruptions_allowed,
        "currentHealthy": new.current_healthy,
        "desiredHealthy": new.desired_healthy,
        "expectedPods": new.expected_pods,
        "disruptedPods": if new.disrupted_pods.is_empty() { Value::Null } else { disrupted.into() },
        "conditions": [{
            "type": "DisruptionAllowed",
            "status": allowed,
            "reason": reason,
            "message": "",
            "observedGeneration": new.observed_generation,
            "lastTransitionTime": time_text(now),
        }],
    })
}

/// Number of pods that `minAvailable` or `maxUnavailable` means; percentages are rounded up.
fn amount(value: &Value, pods: usize) -> usize {
    let number = match value {
        Value::String(share) => share.strip_suffix('%').and_then(unsigned),
        number => number.as_u64(),
    };
    let number = number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
    if value.is_string() { pods.saturating_mul(number).div_ceil(100) } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, owner: &str, ready: bool, deleting: bool) -> Pod {
        let mut pod = json!({
            "metadata": {"namespace": "a", "name": name, "labels": {"app": "web"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        });
        if !owner.is_empty() {
            pod["metadata"]["ownerReferences"] = json!([{"uid": owner, "controller": true}]);
        }
        if deleting {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_value(pod).unwrap()
    }

    fn computed(spec: &Value, disrupted: &Value, pods: &[Pod]) -> BudgetStatus {
        let mut spec = spec.clone();
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        let budget = json!({
            "metadata": {"namespace": "a", "name": "b", "resourceVersion": "1", "generation": 3},
            "spec": spec,
            "status": {"disruptedPods": disrupted},
        });
        let scale = |owner: &str| (owner == "set").then_some(5);
        status(&serde_json::from_value(budget).unwrap(), pods.iter(), scale)
    }

    fn numbers(spec: &Value, pods: &[Pod]) -> [usize; 4] {
        let status = computed(spec, &json!({}), pods);
        [status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed]
    }

    #[test]
    fn limits_follow_the_disruption_controller() {
        let four: Vec<Pod> =
            (0..4).map(|pod_number| pod(&format!("p{pod_number}"), "set", pod_number > 0, false)).collect();
        assert_eq!(numbers(&json!({"minAvailable": 2}), &four), [4, 2, 3, 1]);
        assert_eq!(numbers(&json!({"minAvailable": "50%"}), &four), [5, 3, 3, 0]);
        assert_eq!(numbers(&json!({"maxUnavailable": 3}), &four), [5, 2, 3, 1]);
        assert_eq!(numbers(&json!({"maxUnavailable": "30%"}), &four), [5, 3, 3, 0]);
        assert_eq!(numbers(&json!({"maxUnavailable": 9}), &four), [5, 0, 3, 3]);
        assert_eq!(numbers(&json!({"minAvailable": 0}), &[]), [0, 0, 0, 0]);
        assert_eq!(numbers(&json!({"maxUnavailable": 1}), &[pod("p", "", true, false)]), [1, 0, 1, 1]);
    }

    #[test]
    fn deleted_and_evicted_pods_are_not_healthy() {
        let pods = [pod("a", "", true, true), pod("b", "", true, false), pod("c", "", true, false)];
        let at = "2026-01-01T00:05:00Z";
        let status = computed(&json!({"minAvailable": 1}), &json!({"a": at, "b": at, "gone": at}), &pods);
        assert_eq!((status.current_healthy, status.disruptions_allowed, status.observed_generation), (1, 0, 3));
        assert_eq!(status.disrupted_pods.keys().collect::<Vec<_>>(), ["b"]);
    }
}
