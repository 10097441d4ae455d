//! Status of PodDisruptionBudgets, as the disruption controller computes it (`pkg/controller/disruption`).

use std::collections::BTreeMap;

use kubelet_config::values::unsigned;
use serde_json::{Map, Value, json};

use super::facts::{Pod, PodBudget};

/// Computes the status of a budget, without conditions. `pods` are those of its namespace; `scale` returns the desired
/// number of pods of a controller.
pub(super) fn status<'a>(
    budget: &PodBudget,
    pods: impl Iterator<Item = &'a Pod>,
    scale: impl Fn(&str) -> Option<usize>,
) -> Map<String, Value> {
    let pods: Vec<&Pod> = pods.filter(|pod| budget.covers(pod)).collect();
    let owners: BTreeMap<&str, usize> =
        pods.iter().filter_map(|pod| pod.owner()).filter_map(|owner| Some((owner, scale(owner)?))).collect();
    let unowned = pods.iter().filter(|pod| pod.owner().is_none_or(|owner| !owners.contains_key(owner))).count();
    let scaled = owners.values().sum::<usize>() + unowned;
    let amount = |field: &str| budget.object.pointer(&format!("/spec/{field}")).and_then(|value| amount(value, scaled));
    let is_share = budget.object.pointer("/spec/minAvailable").is_some_and(Value::is_string);
    let (expected, desired) = match (amount("maxUnavailable"), amount("minAvailable")) {
        (Some(limit), _) => (scaled, scaled.saturating_sub(limit)),
        (None, Some(needed)) if is_share => (scaled, needed),
        (None, needed) => (pods.len(), needed.unwrap_or(0)),
    };
    let evicted = budget.object.pointer("/status/disruptedPods").and_then(Value::as_object);
    let is_evicted = |pod: &&&Pod| evicted.is_some_and(|evicted| evicted.contains_key(&pod.metadata.name));
    let current = pods.iter().filter(|pod| pod.is_ready() && !pod.is_deleting() && !is_evicted(pod)).count();
    let allowed = if expected == 0 { 0 } else { current.saturating_sub(desired) };
    let mut status = Map::new();
    for (field, number) in [
        ("disruptionsAllowed", allowed),
        ("currentHealthy", current),
        ("desiredHealthy", desired),
        ("expectedPods", expected),
    ] {
        status.insert(field.to_owned(), number.into());
    }
    status.insert("observedGeneration".to_owned(), budget.metadata.generation.into());
    // An evicted pod counts until its deletion is seen.
    let waits = pods.iter().filter(|pod| !pod.is_deleting()).filter_map(|pod| {
        let name = &pod.metadata.name;
        Some((name.clone(), evicted?.get(name)?.clone()))
    });
    let waits: Map<String, Value> = waits.collect();
    if !waits.is_empty() {
        status.insert("disruptedPods".to_owned(), json!(waits));
    }
    status
}

/// Returns the budget with a status and its present conditions. `None` if it has this status.
pub(super) fn with_status(budget: &Value, mut status: Map<String, Value>) -> Option<Value> {
    let mut present = budget.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let conditions = present.shift_remove("conditions");
    if present == status {
        return None;
    }
    status.extend(conditions.map(|conditions| ("conditions".to_owned(), conditions)));
    let mut budget = budget.clone();
    budget.as_object_mut()?.insert("status".to_owned(), status.into());
    Some(budget)
}

/// Number of pods that `minAvailable` or `maxUnavailable` means; percentages are rounded up.
fn amount(value: &Value, pods: usize) -> Option<usize> {
    match value {
        Value::String(share) => {
            let percent = usize::try_from(unsigned(share.strip_suffix('%')?)?).ok()?;
            Some(pods.saturating_mul(percent).div_ceil(100))
        }
        number => usize::try_from(number.as_u64()?).ok(),
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
        serde_json::from_value(pod).unwrap()
    }

    fn computed(spec: &Value, disrupted: &Value, pods: &[Pod]) -> Value {
        let mut spec = spec.clone();
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        let budget = json!({
            "metadata": {"namespace": "a", "name": "b", "resourceVersion": "1", "generation": 3},
            "spec": spec,
            "status": {"disruptedPods": disrupted},
        });
        let scale = |owner: &str| (owner == "set").then_some(5);
        status(&PodBudget::from(budget), pods.iter(), scale).into()
    }

    fn numbers(spec: &Value, pods: &[Pod]) -> [u64; 4] {
        let status = computed(spec, &json!({}), pods);
        ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
            .map(|field| status[field].as_u64().unwrap())
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
        let expected = json!({
            "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 3,
            "observedGeneration": 3, "disruptedPods": {"b": at},
        });
        assert_eq!(status, expected);
    }
}
