//! What faults do to the devices and pods of a node when its kubelet has restarted.
//!
//! A new kubelet reports no extended resources until their device plugins have registered again, and decides again about
//! all pods of its node. It marks a refused pod as Failed (kubernetes, `pkg/kubelet/cm/devicemanager/manager.go`:
//! `GetCapacity`, and `pkg/kubelet/kubelet.go`: `rejectPod`, 1.36).

use std::ops::Add;
use std::time::Duration;

use kube::Client;
use kube::core::Request;
use kube::core::params::{ListParams, Patch, PatchParams};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fault::Fault;
use super::requests::NODES;
use super::send::{ATTEMPTS, attempt};

/// Extended resource of nodes with a fault of devices.
pub(crate) const RESOURCE: &str = "nvidia.com/gpu";
/// Its amount.
pub(crate) const AMOUNT: u32 = 8;
/// Time from the start of the kubelet until slow device plugins have registered.
const REGISTRATION: Duration = Duration::from_secs(15);
/// Message of the kubelet for a pod whose devices are missing (`pkg/kubelet/cm/devicemanager/manager.go` and
/// `pkg/kubelet/cm/admission/errors.go`).
const MESSAGE: &str = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy \
                       devices nvidia.com/gpu, which is unexpected";

/// Effect of a restart, or of the time after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aftermath {
    /// The kubelet reports no devices.
    DevicesGone,
    /// The device plugins have registered.
    DevicesBack,
    /// The kubelet refuses a pod.
    PodRefused,
    /// No pod of the node is Ready.
    PodsUnready,
}

/// Devices of a node that are gone, with the time at which they return.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GoneDevices<T>(Option<Option<T>>);

impl<T: Copy + Ord + Add<Duration, Output = T>> GoneDevices<T> {
    /// Returns the effect of a restart of the kubelet.
    pub(crate) fn restarted(&mut self, fault: Option<&Fault>, now: T) -> Option<Aftermath> {
        let fault = fault?;
        self.0 = fault.has_devices().then(|| (*fault == Fault::SlowDevices).then(|| now + REGISTRATION));
        fault.aftermath()
    }

    /// Handles a new fault. Gone devices return without one of devices that never return.
    pub(crate) fn fault_changed(&mut self, fault: Option<&Fault>, now: T) {
        if self.0.is_some() {
            self.0 = Some((fault != Some(&Fault::LostDevices)).then_some(now));
        }
    }

    /// Returns the effect when the devices return.
    pub(crate) fn due(&mut self, now: T) -> Option<Aftermath> {
        self.wake().filter(|at| *at <= now)?;
        self.0 = None;
        Some(Aftermath::DevicesBack)
    }

    /// Time at which the devices return.
    pub(crate) fn wake(&self) -> Option<T> {
        self.0.flatten()
    }
}

impl Fault {
    /// Effect when the kubelet has restarted.
    fn aftermath(&self) -> Option<Aftermath> {
        match self {
            Self::SlowDevices | Self::LostDevices => Some(Aftermath::DevicesGone),
            Self::RefusesPod => Some(Aftermath::PodRefused),
            Self::UnreadyPods => Some(Aftermath::PodsUnready),
            _ => None,
        }
    }

    /// Reports whether the node has devices.
    pub(crate) fn has_devices(&self) -> bool {
        self.aftermath() == Some(Aftermath::DevicesGone)
    }
}

/// Carries out an effect in the API server.
pub(crate) async fn carry_out(client: &Client, node: &str, aftermath: Aftermath) -> Result<(), kube::Error> {
    match aftermath {
        Aftermath::DevicesGone => report_devices(client, node, 0).await,
        Aftermath::DevicesBack => report_devices(client, node, AMOUNT).await,
        Aftermath::PodRefused => {
            let status = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": MESSAGE,
                "conditions": [], "containerStatuses": []});
            let refused = ready_pods(client, node).await?.into_iter().min_by_key(Pod::place);
            report_pods(client, refused, &status).await
        }
        Aftermath::PodsUnready => {
            let condition = |kind: &str| json!({"type": kind, "status": "False", "reason": "ContainersNotReady"});
            let conditions = ["Ready", "ContainersReady"].map(condition);
            let status = json!({"conditions": conditions});
            report_pods(client, ready_pods(client, node).await?, &status).await
        }
    }
}

async fn report_devices(client: &Client, node: &str, amount: u32) -> Result<(), kube::Error> {
    let amounts = json!({RESOURCE: amount.to_string()});
    let patch = json!({"status": {"capacity": amounts, "allocatable": amounts}});
    let request =
        Request::new(NODES).patch_subresource("status", node, &PatchParams::default(), &Patch::Strategic(patch));
    attempt(client, request.map_err(kube::Error::BuildRequest)?, ATTEMPTS).await
}

#[derive(Deserialize)]
struct Pods {
    items: Vec<Pod>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Pod {
    fn place(&self) -> (String, String) {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }

    fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }
}

async fn ready_pods(client: &Client, node: &str) -> Result<Vec<Pod>, kube::Error> {
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let request = Request::new("/api/v1/pods").list(&params).map_err(kube::Error::BuildRequest)?;
    let pods: Pods = client.request(request).await?;
    Ok(pods.items.into_iter().filter(Pod::is_ready).collect())
}

async fn report_pods(client: &Client, pods: impl IntoIterator<Item = Pod>, status: &Value) -> Result<(), kube::Error> {
    for pod in pods {
        let (namespace, name) = pod.place();
        let patch = Patch::Merge(json!({"status": status}));
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"))
            .patch_subresource("status", &name, &PatchParams::default(), &patch)
            .map_err(kube::Error::BuildRequest)?;
        attempt(client, request, ATTEMPTS).await?;
    }
    Ok(())
}
