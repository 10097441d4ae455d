//! Objects of the workloads: pods of controllers, states of pods, and volumes.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::facts::Set;
use crate::kubelets::requests::seconds;

/// Driver of all volumes.
const ATTACHER: &str = "csi.sandbox.nodecfg.dev";

/// Reference to a controller.
pub(super) fn controller(kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// Pod of a ReplicaSet or DaemonSet.
pub(super) fn pod_of(set: &Set, name: &str, node: Option<&str>) -> Value {
    let kind = if set.replicas.is_some() { "ReplicaSet" } else { "DaemonSet" };
    let mut spec = set.template.get("spec").cloned().unwrap_or_else(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        if set.replicas.is_none() {
            let tolerations: Vec<Value> = set
                .pod
                .tolerations
                .iter()
                .map(|toleration| {
                    let fields = [
                        ("key", &toleration.key),
                        ("operator", &toleration.operator),
                        ("value", &toleration.value),
                        ("effect", &toleration.effect),
                    ];
                    fields.into_iter().filter(|(_, text)| !text.is_empty()).map(|(k, v)| (k, v.clone())).collect()
                })
                .collect();
            spec.insert("tolerations".to_owned(), tolerations.into());
        }
        if let Some(node) = node {
            spec.insert("nodeName".to_owned(), node.into());
        }
    }
    let mut metadata = json!({
        "namespace": set.meta.namespace,
        "name": name,
        "generateName": format!("{}-", set.meta.name),
        "ownerReferences": controller(kind, &set.meta.name, &set.meta.uid),
    });
    for key in ["labels", "annotations"] {
        if let (Some(values), Some(metadata)) =
            (set.template.pointer(&format!("/metadata/{key}")), metadata.as_object_mut())
        {
            metadata.insert(key.to_owned(), values.clone());
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// A removed pod, to create it again: on its node if its kubelet does, otherwise unbound.
pub(super) fn again(json: &Bytes, same_node: bool) -> Option<Value> {
    let mut pod: Value = serde_json::from_slice(json).ok()?;
    pod.as_object_mut()?.shift_remove("status");
    let metadata = pod.get_mut("metadata")?.as_object_mut()?;
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
    ] {
        metadata.shift_remove(key);
    }
    if !same_node {
        pod.get_mut("spec")?.as_object_mut()?.shift_remove("nodeName");
    }
    Some(pod)
}

/// Sets the status of a running and ready pod. `number` gives it an address.
pub(super) fn run(pod: &mut Value, number: u64, now: Timestamp) {
    let time = seconds(now);
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": time});
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let statuses: Vec<Value> = containers
        .map(|container| {
            json!({
                "name": container.get("name"),
                "image": container.get("image"),
                "imageID": "",
                "ready": true,
                "started": true,
                "restartCount": 0,
                "state": {"running": {"startedAt": time}},
                "lastState": {},
            })
        })
        .collect();
    let address = format!("10.{}.{}.{}", 128 + (number >> 16) % 64, (number >> 8) % 256, number % 256);
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
    for (key, value) in [
        ("phase", json!("Running")),
        ("conditions", ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition).to_vec().into()),
        ("podIP", json!(address)),
        ("podIPs", json!([{"ip": address}])),
        ("startTime", json!(time)),
        ("containerStatuses", statuses.into()),
    ] {
        status.insert(key.to_owned(), value);
    }
}

/// Status of a ReplicaSet.
pub(super) fn set_status(replicas: usize, ready: usize, generation: i64) -> Value {
    json!({
        "replicas": replicas,
        "fullyLabeledReplicas": replicas,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": generation,
    })
}

/// Name of the VolumeAttachment of a claim on a node.
pub(super) fn attachment_name(namespace: &str, claim: &str, node: &str) -> String {
    let hash = blake3::hash(format!("{namespace}/{claim}/{node}").as_bytes()).to_hex();
    format!("csi-{hash}")
}

/// VolumeAttachment of a PersistentVolume on a node.
pub(super) fn attachment(name: &str, node: &str, volume: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {"attacher": ATTACHER, "nodeName": node, "source": {"persistentVolumeName": format!("pv-{volume}")}},
    })
}
