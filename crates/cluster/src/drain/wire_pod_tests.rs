//! Tests of decoding pods and budgets.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn pod(metadata: Value, spec: Value, status: Value) -> Pod {
    let mut object = json!({"metadata": {"namespace": "web", "name": "a-0", "uid": "u"}, "spec": {"nodeName": "n1"}});
    for (part, more) in [("metadata", metadata), ("spec", spec), ("status", status)] {
        for (key, value) in more.as_object().into_iter().flatten() {
            object[part][key] = value.clone();
        }
    }
    read_pod(object.to_string().as_bytes()).expect("a pod").expect("bound")
}

fn bare() -> Pod {
    pod(json!({}), json!({}), json!({}))
}

#[test]
fn reads_a_pod_as_the_api_server_sends_it() {
    let metadata = json!({"labels": {"app": "a"}, "managedFields": [{}], "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"other": "x", "kubernetes.io/config.mirror": "hash"},
        "ownerReferences": [{"kind": "Node", "name": "n1"}, {"kind": "ReplicaSet", "name": "a", "controller": true}]});
    let spec = json!({"priority": 7, "initContainers": null,
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
            {"name": "b", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}],
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "c", "ephemeral": {"volumeClaimTemplate": {}}}, {"name": "d", "projected": {}}],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}]});
    let read = pod(metadata, spec, json!({"phase": "Succeeded", "qosClass": "Guaranteed"}));
    let controller = Some(Controller { kind: "ReplicaSet".to_owned(), name: "a".to_owned() });
    assert_eq!(
        read,
        Pod {
            labels: [("app".to_owned(), "a".to_owned())].into(),
            controller,
            mirror: true,
            finished: true,
            deleting: true,
            priority: 7,
            empty_dir: true,
            claims: 2,
            exclusive_cpus: true,
            ..bare()
        }
    );
}

#[test]
fn pod_without_a_node_is_dropped() {
    for spec in [json!({}), json!({"nodeName": null}), json!({"nodeName": ""}), json!({"nodeName": "Not valid"})] {
        let object = json!({"metadata": {"namespace": "web", "name": "a-0", "uid": "u"}, "spec": spec});
        assert_eq!(read_pod(object.to_string().as_bytes()).expect("a pod"), None);
    }
}

/// A pod of unknown phase may still run: its node has not reported for a while.
#[test]
fn pod_is_finished_when_its_containers_have_ended() {
    for (phase, finished) in
        [("Pending", false), ("Running", false), ("Succeeded", true), ("Failed", true), ("Unknown", false)]
    {
        assert_eq!(pod(json!({}), json!({}), json!({"phase": phase})).finished, finished, "{phase}");
    }
}

#[test]
fn exclusive_cpus_need_guaranteed_pods_and_whole_cpus() {
    for (class, cpu, exclusive) in [
        ("Guaranteed", "2", true),
        ("Guaranteed", "2000m", true),
        ("Guaranteed", "2.5", false),
        ("Guaranteed", "0", false),
        ("Guaranteed", "unreadable", false),
        ("Burstable", "2", false),
    ] {
        let containers = json!([{"resources": {}}, {"resources": {"requests": {"cpu": cpu}}}]);
        for field in ["containers", "initContainers"] {
            let read = pod(json!({}), json!({field: containers}), json!({"qosClass": class}));
            assert_eq!(read.exclusive_cpus, exclusive, "{class} {cpu} {field}");
        }
    }
}

#[test]
fn tolerates_the_drain_as_the_scheduler_does() {
    let key = DRAIN_TAINT;
    for (toleration, tolerates) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "", "operator": "Exists", "effect": ""}), true),
        (json!({"operator": "Exists", "effect": "NoSchedule"}), true),
        (json!({"operator": "Exists", "effect": "NoExecute"}), false),
        (json!({"key": key, "operator": "Exists"}), true),
        (json!({"key": key, "value": "draining"}), true),
        (json!({"key": key, "operator": "Equal", "value": "draining", "effect": "NoSchedule"}), true),
        (json!({"key": key, "operator": "Equal", "value": "other"}), false),
        (json!({"key": key, "operator": "Gt", "value": "draining"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
    ] {
        let spec = json!({"tolerations": [{"key": "x", "operator": "Exists"}, toleration]});
        assert_eq!(pod(json!({}), spec, json!({})).tolerates_drain, tolerates, "{toleration}");
    }
}

#[test]
fn unreadable_field_leaves_a_pod_that_refuses_a_drain() {
    let owner = json!([{"kind": "ReplicaSet", "name": "a", "controller": true}]);
    for (metadata, spec, status) in [
        (json!({"ownerReferences": owner, "labels": 1}), json!({}), json!({})),
        (json!({"ownerReferences": owner}), json!({"priority": "high"}), json!({})),
        (json!({"ownerReferences": owner}), json!({"volumes": {}}), json!({})),
        (json!({"ownerReferences": owner}), json!({"tolerations": [1]}), json!({})),
        (json!({"ownerReferences": owner}), json!({"containers": [{"resources": 1}]}), json!({})),
        (json!({"ownerReferences": owner}), json!({}), json!({"phase": 1})),
        (json!({"ownerReferences": owner, "annotations": []}), json!({}), json!({"qosClass": []})),
    ] {
        let read = pod(metadata.clone(), spec.clone(), status.clone());
        assert_eq!(read, Pod { empty_dir: true, ready: true, ..bare() }, "{metadata} {spec} {status}");
    }
    for unnamed in [
        json!({"metadata": {"namespace": "web", "name": "a"}, "spec": {"nodeName": "n1"}}),
        json!({"metadata": {"namespace": "web", "name": "a", "uid": 1}, "spec": {"nodeName": "n1"}}),
        json!({"metadata": {"namespace": "web", "name": "a", "uid": "u"}, "spec": {"nodeName": 1}}),
    ] {
        read_pod(unnamed.to_string().as_bytes()).expect_err("a node must not look empty");
    }
}

#[test]
fn reads_a_budget_and_never_misses_an_unreadable_one() {
    let budget = |spec: Value, status: Value| {
        let object = json!({"metadata": {"namespace": "web", "name": "b"}, "spec": spec, "status": status});
        read_pod_budget(object.to_string().as_bytes()).expect("a budget")
    };
    let status = json!({"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3});
    let read = budget(json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}), status.clone());
    assert_eq!((read.allowed, read.healthy, read.required), (1, 3, 2));
    let labelled = |app: &str| Pod { labels: [("app".to_owned(), app.to_owned())].into(), ..bare() };
    assert!(read.covers(&labelled("a")) && !read.covers(&labelled("b")));
    assert!(!budget(json!({}), status.clone()).covers(&labelled("a")), "a missing selector selects no pod");
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "Newer"}]});
    let unreadable = budget(json!({"selector": selector}), status);
    assert!(unreadable.covers(&labelled("b")));
    assert_eq!(unreadable.allowed, 0);
    assert!(!unreadable.spares_unready);
}

#[test]
fn reads_what_evictions_of_pods_that_are_not_ready_depend_on() {
    let conditions =
        |status: &str| json!([{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": status}]);
    for (status, pending, ready) in [
        (json!({"phase": "Running", "conditions": conditions("True")}), false, true),
        (json!({"phase": "Running", "conditions": conditions("False")}), false, false),
        (json!({"phase": "Running", "conditions": conditions("Unknown")}), false, false),
        (json!({"phase": "Running", "conditions": null}), false, false),
        (json!({"phase": "Pending"}), true, false),
        (json!({"phase": "Running", "conditions": 1}), false, true),
    ] {
        let read = pod(json!({}), json!({}), status.clone());
        assert_eq!((read.pending, read.ready), (pending, ready), "{status}");
    }
    for (policy, spares_unready) in [
        (json!(null), false),
        (json!("IfHealthyBudget"), false),
        (json!("AlwaysAllow"), true),
        (json!("Newer"), false),
        (json!(1), false),
    ] {
        let budget =
            json!({"metadata": {"namespace": "web", "name": "b"}, "spec": {"unhealthyPodEvictionPolicy": policy}});
        let read = read_pod_budget(budget.to_string().as_bytes()).expect("a budget");
        assert_eq!(read.spares_unready, spares_unready, "{policy}");
    }
}

proptest! {
    #[test]
    fn keeps_every_pod_whose_identity_is_readable(part in 0..3_usize, key in "[a-zA-Z]{1,12}", value in "[\\[{]?[a-z0-9\":,]{0,6}[\\]}]?") {
        let value: Value = serde_json::from_str(&value).unwrap_or(json!(value));
        let known = ["labels", "annotations", "ownerReferences", "priority", "volumes", "containers", "phase", "qosClass", "conditions"];
        for key in known.into_iter().chain([key.as_str()]).filter(|key| *key != "nodeName") {
            let mut parts = [json!({}), json!({}), json!({})];
            parts[part] = json!({key: value});
            let [metadata, spec, status] = parts;
            let read = pod(metadata, spec, status);
            prop_assert_eq!(read.uid.as_str(), "u");
        }
    }
}

#[test]
fn refusal_by_the_kubelet_is_read_even_from_a_damaged_pod() {
    let message = "Pod was rejected: Resources cannot be allocated with Topology locality";
    let status = json!({"phase": "Failed", "reason": "TopologyAffinityError", "message": message});
    for metadata in [json!({}), json!({"labels": "none"})] {
        let rejection = pod(metadata, json!({}), status.clone()).rejection.expect("refused");
        assert_eq!((rejection.reason.as_str(), rejection.message.as_str()), ("TopologyAffinityError", message));
    }
    for status in [json!({"phase": "Failed", "reason": "Evicted"}), json!({"phase": "Failed", "reason": 7}), json!({})]
    {
        assert_eq!(pod(json!({}), json!({}), status).rejection, None);
    }
}
