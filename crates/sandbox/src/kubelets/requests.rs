//! Requests of the simulated kubelets to the API server, for Nodes, ConfigMaps, Leases and Events, and the parts of
//! the objects that they read. This module decides nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::signals::Ready;
use crate::watch::{Meta, Object};
use nodecfg_contract::{ConfigSource, ConfigStatus};

/// Path of all Nodes.
pub(crate) const NODES: &str = "/api/v1/nodes";
/// Path of the ConfigMaps of all namespaces.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/configmaps";

/// Parts of a Node that a kubelet reads.
pub(crate) type Node = Object<NodeSpec, NodeStatus>;

/// A watched ConfigMap without content; a kubelet downloads the content when needed.
pub(crate) type ConfigMapMeta = Object<NoPart, NoPart>;

/// Spec or status that is not read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct NoPart {}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSpec {
    pub config_source: Option<ConfigSource>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatus {
    pub config: Option<ConfigStatus>,
    pub node_info: NodeInfo,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeInfo {
    pub kubelet_version: String,
}

/// A ConfigMap with its text.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ConfigMap {
    pub metadata: Meta,
    #[serde(default)]
    pub data: BTreeMap<String, String>,
}

type BuiltRequest = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// `GET` of one ConfigMap.
pub(crate) fn get_config_map(namespace: &str, name: &str) -> BuiltRequest {
    Request::new(format!("/api/v1/namespaces/{namespace}/configmaps")).get(name, &GetParams::default())
}

/// `PATCH …/status` with a strategic merge of `status.config`, as the kubelet sends it.
pub(crate) fn patch_config(node: &str, config: &Map<String, Value>) -> BuiltRequest {
    patch_status(node, &json!({"status": {"config": config}}))
}

/// `PATCH …/status` with the Ready condition; the merge key of conditions is `type`.
pub(crate) fn patch_ready(node: &str, ready: Ready, changed: bool, now: Timestamp) -> BuiltRequest {
    let (status, reason, message) = ready_condition(ready);
    let mut condition = json!({
        "type": "Ready", "status": status, "reason": reason, "message": message, "lastHeartbeatTime": seconds(now),
    });
    if changed && let Some(fields) = condition.as_object_mut() {
        fields.insert("lastTransitionTime".to_owned(), seconds(now).into());
    }
    patch_status(node, &json!({"status": {"conditions": [condition]}}))
}

fn patch_status(node: &str, patch: &Value) -> BuiltRequest {
    Request::new(NODES).patch_subresource("status", node, &PatchParams::default(), &Patch::Strategic(patch))
}

/// `POST` of an Event about a Node, with the content of the kubelet's recorder.
pub(crate) fn post_event(node: &str, reason: &str, message: &str, now: Timestamp) -> BuiltRequest {
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        // Real recorders use the same name format: object and time in nanoseconds.
        "metadata": {"name": format!("{node}.{:x}", now.as_nanosecond()), "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": node, "uid": node},
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": seconds(now),
        "lastTimestamp": seconds(now),
        "count": 1,
        "type": "Normal",
    });
    Request::new("/api/v1/namespaces/default/events").create(&PostParams::default(), event.to_string().into_bytes())
}

/// Time in the format of Leases: RFC 3339 in UTC, with microseconds.
pub(crate) fn micro_time(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// `PATCH` of a kubelet's Lease by server-side apply, which creates a missing Lease (KEP-589).
pub(crate) fn put_lease(node: &str, uid: &str, now: Timestamp) -> BuiltRequest {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}],
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": 40,
            "renewTime": micro_time(now),
        },
    });
    let parameters = PatchParams { field_manager: Some("kubelet".to_owned()), force: true, ..PatchParams::default() };
    Request::new("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").patch(
        node,
        &parameters,
        &Patch::Apply(lease),
    )
}

/// Status, reason and message of the Ready condition.
pub(crate) fn ready_condition(ready: Ready) -> (&'static str, &'static str, &'static str) {
    match ready {
        Ready::Yes => ("True", "KubeletReady", "kubelet is posting ready status"),
        Ready::No => ("False", "KubeletNotReady", "container runtime is down"),
        Ready::Unknown => ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
    }
}

/// Time in the format of Kubernetes: RFC 3339 in UTC, whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
