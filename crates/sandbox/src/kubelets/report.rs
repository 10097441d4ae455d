//! What kubelets write to the API server: the status of their Nodes, Leases and Events.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};

use super::aftermath::Aftermath;
use crate::api::time_text;

/// Path of all Nodes.
pub(crate) const NODES: &str = "/api/v1/nodes";

/// The Ready condition of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// `True`.
    Yes,
    /// `False`, reported by the running kubelet.
    No,
    /// `Unknown`, set by the node lifecycle controller for a silent kubelet.
    Unknown,
}

/// Time after which the node lifecycle controller sets the readiness of a silent node to Unknown.
pub(crate) const NODE_GRACE: Duration = Duration::from_secs(40);
/// Time from the start to the first flap of the fault `flap`, and between flaps.
const FLAP: SignedDuration = SignedDuration::from_secs(20);

/// Readiness of a kubelet that flaps since a time, and the time of its next flap.
pub(crate) fn flapping(since: Timestamp, now: Timestamp) -> (Ready, Timestamp) {
    let flaps = i32::try_from(now.duration_since(since).as_secs() / FLAP.as_secs()).unwrap_or(i32::MAX - 1);
    (if flaps % 2 == 0 { Ready::Yes } else { Ready::No }, since + FLAP * (flaps + 1))
}

/// A write of a kubelet.
#[derive(Debug, Clone, PartialEq)]
pub enum KubeletWrite {
    /// Merge this into `status.config`; null removes a field.
    Config(Map<String, Value>),
    /// Report the Ready condition.
    Ready {
        /// Readiness to report.
        ready: Ready,
        /// Set if the readiness differs from the last report.
        changed: bool,
    },
    /// Renew the Lease.
    Renew,
    /// Emit an Event about the Node.
    Event {
        /// Reason in CamelCase.
        reason: &'static str,
        /// Message of the Event.
        message: String,
    },
    /// Report what the restart did to devices and pods.
    Aftermath(Aftermath),
}

type BuiltRequest = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

impl KubeletWrite {
    /// The Event of a start.
    pub(crate) fn started() -> Self {
        Self::Event { reason: "Starting", message: "Starting kubelet.".to_owned() }
    }

    /// Sends the write. `renewed` is the time of a renewal of the Lease, by the clock of the node.
    pub(crate) async fn send(
        &self,
        client: &Client,
        node: &str,
        uid: &str,
        renewed: Timestamp,
    ) -> Result<(), kube::Error> {
        let now = nodecfg_clock::now();
        match self {
            Self::Config(config) => send(client, patch_status(node, &json!({"config": config}))).await,
            Self::Ready { ready, changed } => send(client, patch_ready(node, *ready, *changed, now)).await,
            Self::Renew => send(client, apply_lease(node, uid, renewed)).await,
            Self::Event { reason, message } => send(client, post_event(node, reason, message, now)).await,
            Self::Aftermath(aftermath) => aftermath.report(client, node).await,
        }
    }
}

/// Sends a request whose answer does not matter.
pub(crate) async fn send(client: &Client, request: BuiltRequest) -> Result<(), kube::Error> {
    client.request_text(request.map_err(kube::Error::BuildRequest)?).await.map(|_| ())
}

/// `PATCH …/status` with a strategic merge, as the kubelet sends it.
pub(super) fn patch_status(node: &str, status: &Value) -> BuiltRequest {
    let patch = Patch::Strategic(json!({"status": status}));
    Request::new(NODES).patch_subresource("status", node, &PatchParams::default(), &patch)
}

/// Patch of the Ready condition; the merge key of conditions is `type`.
fn patch_ready(node: &str, ready: Ready, changed: bool, now: Timestamp) -> BuiltRequest {
    let (status, reason, message) = ready_condition(ready);
    let mut condition = json!({
        "type": "Ready", "status": status, "reason": reason, "message": message, "lastHeartbeatTime": time_text(now),
    });
    if changed && let Some(fields) = condition.as_object_mut() {
        fields.insert("lastTransitionTime".to_owned(), time_text(now).into());
    }
    patch_status(node, &json!({"conditions": [condition]}))
}

/// `POST` of an Event about a Node, with the content of the kubelet's recorder.
fn post_event(node: &str, reason: &str, message: &str, now: Timestamp) -> BuiltRequest {
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        // Real recorders use the same name format: object and time in nanoseconds.
        "metadata": {"name": format!("{node}.{:x}", now.as_nanosecond()), "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": node, "uid": node},
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": time_text(now),
        "lastTimestamp": time_text(now),
        "count": 1,
        "type": "Normal",
    });
    Request::new("/api/v1/namespaces/default/events").create(&PostParams::default(), event.to_string().into_bytes())
}

/// `PATCH` of a kubelet's Lease by server-side apply, which creates a missing Lease (KEP-589).
fn apply_lease(node: &str, uid: &str, now: Timestamp) -> BuiltRequest {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}],
        },
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": micro_time(now)},
    });
    let parameters = PatchParams::apply("kubelet").force();
    let leases = Request::new("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases");
    leases.patch(node, &parameters, &Patch::Apply(lease))
}

/// Status, reason and message of the Ready condition.
pub(crate) fn ready_condition(ready: Ready) -> (&'static str, &'static str, &'static str) {
    match ready {
        Ready::Yes => ("True", "KubeletReady", "kubelet is posting ready status"),
        Ready::No => ("False", "KubeletNotReady", "container runtime is down"),
        Ready::Unknown => ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
    }
}

/// Time in the format of Leases: RFC 3339 in UTC, with microseconds.
pub(crate) fn micro_time(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
