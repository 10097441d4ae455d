//! Server-side behavior of pods, after `pkg/registry/core/pod/strategy.go`: defaults, first status and graceful
//! deletion.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::object::{set_field, set_metadata, text, time_text};

/// Seconds that a pod has to end by default.
const GRACE: i64 = 30;
/// Priorities of the built-in PriorityClasses.
const PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Completes a new pod: its status, the defaults of its spec, and its priority as the admission plugin Priority does.
pub(crate) fn complete(pod: &mut Value) {
    let status = json!({"phase": "Pending", "qosClass": qos_class(pod)});
    set_field(pod, "status", status);
    let class = text(pod, "/spec/priorityClassName");
    let priority = PRIORITIES.iter().find(|(name, _)| *name == class).map_or(0, |(_, priority)| *priority);
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for (key, default) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(GRACE)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("priority", json!(priority)),
    ] {
        spec.entry(key).or_insert(default);
    }
}

/// Quality of service class of a pod, from the CPU and memory of its containers (core/v1 helper `ComputePodQOS`).
fn qos_class(pod: &Value) -> &'static str {
    let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let (mut any, mut guaranteed) = (false, true);
    for container in list("/spec/containers").chain(list("/spec/initContainers")) {
        for resource in ["cpu", "memory"] {
            let limit = container.pointer(&format!("/resources/limits/{resource}"));
            // A missing request defaults to the limit.
            let request = container.pointer(&format!("/resources/requests/{resource}")).or(limit);
            any |= request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn seconds(pod: &Value, pointer: &str) -> Option<i64> {
    pod.pointer(pointer).and_then(Value::as_i64)
}

/// Reports whether all containers have ended.
pub(crate) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Seconds that a deleted pod has to end (`CheckGracefulDelete`). 0 removes the pod at once.
pub(crate) fn grace_period(pod: &Value, requested: Option<i64>) -> i64 {
    if text(pod, "/spec/nodeName").is_empty() || is_finished(pod) {
        return 0;
    }
    let grace = requested.or_else(|| seconds(pod, "/spec/terminationGracePeriodSeconds")).unwrap_or(0);
    if grace < 0 { 1 } else { grace }
}

/// Shortens the grace period of a terminating pod (apiserver `BeforeDelete`). Returns false if `grace` is not shorter.
pub(crate) fn shorten_grace(pod: &mut Value, grace: i64) -> bool {
    let present = seconds(pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    let Ok(ends) = text(pod, "/metadata/deletionTimestamp").parse::<Timestamp>() else { return false };
    if grace >= present {
        return false;
    }
    set_metadata(pod, "deletionTimestamp", time_text(later(ends, grace - present)));
    set_metadata(pod, "deletionGracePeriodSeconds", grace);
    true
}

/// A time `seconds` later; `time` itself if the result is out of range.
pub(crate) fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(time)
}

/// Reports whether the condition `Ready` is true.
pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_of_service_follows_requests_and_limits() {
        let class = |resources: &[Value]| {
            let containers: Vec<Value> = resources.iter().map(|resources| json!({"resources": resources})).collect();
            qos_class(&json!({"spec": {"containers": containers}}))
        };
        let full = json!({"limits": {"cpu": "2", "memory": "1Gi"}});
        assert_eq!(class(&[json!({})]), "BestEffort");
        assert_eq!(class(std::slice::from_ref(&full)), "Guaranteed");
        assert_eq!(class(&[full.clone(), json!({})]), "Burstable");
        assert_eq!(class(&[json!({"requests": {"cpu": "1"}})]), "Burstable");
        assert_eq!(class(&[json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}})]), "Burstable");
    }

    #[test]
    fn grace_period_applies_only_on_a_node() {
        let pod = |node: &str, phase: &str| json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
        assert_eq!(grace_period(&pod("n1", "Running"), None), 30);
        assert_eq!(grace_period(&pod("n1", "Running"), Some(5)), 5);
        assert_eq!(grace_period(&pod("n1", "Running"), Some(-1)), 1);
        assert_eq!(grace_period(&pod("", "Pending"), None), 0);
        assert_eq!(grace_period(&pod("n1", "Failed"), Some(30)), 0);
    }
}
