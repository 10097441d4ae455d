//! Status of PodDisruptionBudgets, as the disruption controller computes it (`pkg/controller/disruption`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::facts::{Amount, BudgetStatus, Pod, PodBudget};

/// Real time after which an eviction without a deletion counts no longer (`DeletionTimeout`), at speed 1.
pub(super) const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Computes the status. `scale` returns the desired number of pods of a controller. Evictions until `expired` without a
/// deletion are forgotten.
pub(super) fn status<'a>(
    budget: &PodBudget,
    pods: impl Iterator<Item = &'a Pod>,
    scale: impl Fn(&str) -> Option<usize>,
    expired: Timestamp,
) -> BudgetStatus {
    let pods: Vec<&Pod> = pods.filter(|pod| budget.covers(pod)).collect();
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unknown = 0;
    for pod in &pods {
        match pod.owner().and_then(|owner| Some((owner, scale(owner)?))) {
            Some((owner, replicas)) => {
                owners.insert(owner, replicas);
            }
            None => unknown += 1,
        }
    }
    let scaled = owners.values().sum::<usize>() + unknown;
    let (expected, desired) = match (budget.max_unavailable, budget.min_available) {
        (Some(limit), _) => (scaled, scaled.saturating_sub(of(limit, scaled))),
        (None, Some(Amount::Pods(needed))) => (pods.len(), needed),
        (None, Some(share)) => (scaled, of(share, scaled)),
        (None, None) => (pods.len(), 0),
    };
    let evicted = |pod: &Pod| {
        let at = budget.status.disrupted_pods.get(&pod.meta.name)?;
        let recent = at.parse::<Timestamp>().is_ok_and(|at| at > expired);
        (recent && !pod.deleting()).then(|| (pod.meta.name.clone(), at.clone()))
    };
    let disrupted: BTreeMap<String, String> = pods.iter().filter_map(|pod| evicted(pod)).collect();
    let healthy = |pod: &&&Pod| pod.ready && !pod.deleting() && !disrupted.contains_key(&pod.meta.name);
    let current = pods.iter().filter(healthy).count();
    let allowed = if expected == 0 { 0 } else { current.saturating_sub(desired) };
    BudgetStatus {
        observed_generation: budget.meta.generation,
        disrupted_pods: disrupted,
        disruptions_allowed: i64::try_from(allowed).unwrap_or(i64::MAX),
        current_healthy: current,
        desired_healthy: desired,
        expected_pods: expected,
    }
}

/// Number of pods of an amount; percentages are rounded up.
fn of(amount: Amount, pods: usize) -> usize {
    match amount {
        Amount::Pods(pods) => pods,
        Amount::Percent(percent) => (pods * usize::try_from(percent).unwrap_or(usize::MAX)).div_ceil(100),
    }
}

/// Writes a status into an object, except its conditions.
pub(super) fn write(budget: &mut Value, status: &BudgetStatus) {
    let conditions = budget.pointer("/status/conditions").cloned();
    let mut new = json!({
        "observedGeneration": status.observed_generation,
        "disruptionsAllowed": status.disruptions_allowed,
        "currentHealthy": status.current_healthy,
        "desiredHealthy": status.desired_healthy,
        "expectedPods": status.expected_pods,
    });
    if let Some(new) = new.as_object_mut() {
        if !status.disrupted_pods.is_empty() {
            new.insert("disruptedPods".to_owned(), json!(status.disrupted_pods));
        }
        new.extend(conditions.map(|conditions| ("conditions".to_owned(), conditions)));
    }
    if let Some(budget) = budget.as_object_mut() {
        budget.insert("status".to_owned(), new);
    }
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
        Pod::read(pod.to_string().as_bytes()).unwrap()
    }

    fn computed(spec: &Value, disrupted: &Value, pods: &[Pod]) -> BudgetStatus {
        let mut spec = spec.clone();
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        let budget = json!({
            "metadata": {"namespace": "a", "name": "b", "resourceVersion": "1", "generation": 3},
            "spec": spec,
            "status": {"disruptedPods": disrupted},
        });
        let budget = PodBudget::read(budget.to_string().as_bytes()).unwrap();
        let scale = |owner: &str| (owner == "set").then_some(5);
        status(&budget, pods.iter(), scale, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    fn numbers(spec: &Value, pods: &[Pod]) -> (usize, usize, usize, i64) {
        let status = computed(spec, &json!({}), pods);
        (status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed)
    }

    #[test]
    fn limits_follow_the_disruption_controller() {
        let four: Vec<Pod> =
            (0..4).map(|pod_number| pod(&format!("p{pod_number}"), "set", pod_number > 0, false)).collect();
        assert_eq!(numbers(&json!({"minAvailable": 2}), &four), (4, 2, 3, 1));
        assert_eq!(numbers(&json!({"minAvailable": "50%"}), &four), (5, 3, 3, 0));
        assert_eq!(numbers(&json!({"maxUnavailable": 3}), &four), (5, 2, 3, 1));
        assert_eq!(numbers(&json!({"maxUnavailable": "30%"}), &four), (5, 3, 3, 0));
        assert_eq!(numbers(&json!({"maxUnavailable": 9}), &four), (5, 0, 3, 3));
        assert_eq!(numbers(&json!({"minAvailable": 0}), &[]), (0, 0, 0, 0));
        assert_eq!(numbers(&json!({"maxUnavailable": 1}), &[pod("p", "", true, false)]), (1, 0, 1, 1));
    }

    #[test]
    fn deleted_and_evicted_pods_are_not_healthy() {
        let pods =
            [pod("a", "", true, true), pod("b", "", true, false), pod("c", "", true, false), pod("d", "", true, false)];
        let disrupted = json!({
            "a": "2026-01-01T00:05:00Z", "b": "2026-01-01T00:05:00Z", "c": "2025-12-31T00:00:00Z", "gone": "2026-01-01T00:05:00Z",
        });
        let status = computed(&json!({"minAvailable": 1}), &disrupted, &pods);
        assert_eq!((status.current_healthy, status.disruptions_allowed, status.observed_generation), (2, 1, 3));
        assert_eq!(status.disrupted_pods.keys().collect::<Vec<_>>(), ["b"]);
    }
}
