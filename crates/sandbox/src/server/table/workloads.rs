//! Columns and cells of pods, ReplicaSets, PodDisruptionBudgets and VolumeAttachments.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::field::{at, items, text};
use super::{Column, creation_age};

pub(super) fn pod_columns() -> Vec<Column> {
    let column = Column::new;
    vec![
        Column::name(),
        column("Ready", "string", 0, "Number of ready containers, and of all."),
        column("Status", "string", 0, "State of the pod, in a word."),
        column("Restarts", "string", 0, "Number of restarts of containers."),
        Column::age(),
        column("IP", "string", 1, "Address of the pod."),
        column("Node", "string", 1, "Node of the pod."),
        column("Nominated Node", "string", 1, "Node that the scheduler frees for the pod."),
        column("Readiness Gates", "string", 1, "Number of true conditions of readiness gates, and of all."),
    ]
}

pub(super) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let statuses = items(pod, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| at(status, "/ready") == true).count();
    let restarts: i64 = statuses.iter().filter_map(|status| at(status, "/restartCount").as_i64()).sum();
    let known = |pointer: &str| match text(pod, pointer) {
        "" => Value::from("<none>"),
        found => found.into(),
    };
    vec![
        text(pod, "/metadata/name").into(),
        format!("{ready}/{}", items(pod, "/spec/containers").len()).into(),
        pod_state(pod).into(),
        restarts.to_string().into(),
        creation_age(pod, now),
        known("/status/podIP"),
        known("/spec/nodeName"),
        known("/status/nominatedNodeName"),
        "<none>".into(),
    ]
}

/// State of a pod (`printPod`), without the reasons of containers.
fn pod_state(pod: &Value) -> &str {
    let reason = text(pod, "/status/reason");
    match (at(pod, "/metadata/deletionTimestamp").is_null(), reason) {
        (false, "NodeLost") => "Unknown",
        (false, _) if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") => "Terminating",
        (_, "") => text(pod, "/status/phase"),
        (_, reason) => reason,
    }
}

pub(super) fn replica_set_columns() -> Vec<Column> {
    let column = Column::new;
    vec![
        Column::name(),
        column("Desired", "integer", 0, "Desired number of pods."),
        column("Current", "integer", 0, "Number of pods."),
        column("Ready", "integer", 0, "Number of ready pods."),
        Column::age(),
        column("Containers", "string", 1, "Names of the containers."),
        column("Images", "string", 1, "Images of the containers."),
        column("Selector", "string", 1, "Labels of the pods."),
    ]
}

pub(super) fn replica_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let number = |pointer: &str| json!(at(set, pointer).as_i64().unwrap_or(0));
    let containers = |field: &str| {
        let all = items(set, "/spec/template/spec/containers").iter().map(|container| text(container, field));
        all.collect::<Vec<_>>().join(",")
    };
    let labels = at(set, "/spec/selector/matchLabels").as_object().into_iter().flatten();
    let selector: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    vec![
        text(set, "/metadata/name").into(),
        number("/spec/replicas"),
        number("/status/replicas"),
        number("/status/readyReplicas"),
        creation_age(set, now),
        containers("/name").into(),
        containers("/image").into(),
        selector.join(",").into(),
    ]
}

pub(super) fn budget_columns() -> Vec<Column> {
    let column = Column::new;
    vec![
        Column::name(),
        column("Min Available", "string", 0, "Number or percentage of pods that must stay available."),
        column("Max Unavailable", "string", 0, "Number or percentage of pods that may be unavailable."),
        column("Allowed Disruptions", "integer", 0, "Number of pods that may be evicted now."),
        Column::age(),
    ]
}

pub(super) fn budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let limit = |pointer: &str| match at(budget, pointer) {
        Value::Null => "N/A".to_owned(),
        Value::String(share) => share.clone(),
        number => number.to_string(),
    };
    vec![
        text(budget, "/metadata/name").into(),
        limit("/spec/minAvailable").into(),
        limit("/spec/maxUnavailable").into(),
        json!(at(budget, "/status/disruptionsAllowed").as_i64().unwrap_or(0)),
        creation_age(budget, now),
    ]
}

pub(super) fn attachment_columns() -> Vec<Column> {
    let column = Column::new;
    vec![
        Column::name(),
        column("Attacher", "string", 0, "Driver that attaches the volume."),
        column("PV", "string", 0, "PersistentVolume of the volume."),
        column("Node", "string", 0, "Node of the volume."),
        column("Attached", "boolean", 0, "Whether the volume is attached."),
        Column::age(),
    ]
}

pub(super) fn attachment(attachment: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        text(attachment, "/metadata/name").into(),
        text(attachment, "/spec/attacher").into(),
        text(attachment, "/spec/source/persistentVolumeName").into(),
        text(attachment, "/spec/nodeName").into(),
        (at(attachment, "/status/attached") == true).into(),
        creation_age(attachment, now),
    ]
}
