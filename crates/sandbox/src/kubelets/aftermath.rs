//! What faults do to the devices and pods of a node when its kubelet has restarted.
//!
//! A new kubelet reports no extended resources until their device plugins have registered again, and decides again about
//! all pods of its node. It marks a refused pod as Failed (kubernetes, `pkg/kubelet/cm/devicemanager/manager.go`:
//! `GetCapacity`, and `pkg/kubelet/kubelet.go`: `rejectPod`, 1.36).

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams};
use serde_json::json;

use super::fault::Fault;
use super::report::{patch_status, send};
use crate::watch;
use crate::workloads::facts::Pod;

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
pub(crate) struct GoneDevices(Option<Option<Timestamp>>);

impl GoneDevices {
    /// Returns the effect of a restart of the kubelet.
    pub(crate) fn restarted(&mut self, fault: Option<&Fault>, now: Timestamp) -> Option<Aftermath> {
        let fault = fault?;
        self.0 = fault.has_devices().then(|| (*fault == Fault::SlowDevices).then(|| now + REGISTRATION));
        fault.aftermath()
    }

    /// Handles a new fault. Gone devices return without one of devices that never return.
    pub(crate) fn fault_changed(&mut self, fault: Option<&Fault>, now: Timestamp) {
        if self.0.is_some() {
            self.0 = Some((fault != Some(&Fault::LostDevices)).then_some(now));
        }
    }

    /// Returns the effect when the devices return.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<Aftermath> {
        self.wake().filter(|at| *at <= now)?;
        self.0 = None;
        Some(Aftermath::DevicesBack)
    }

    /// Time at which the devices return.
    pub(crate) fn wake(&self) -> Option<Timestamp> {
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

impl Aftermath {
    /// Carries out the effect in the API server.
    pub(super) async fn report(self, client: &Client, node: &str) -> Result<(), kube::Error> {
        let devices = |amount: u32| {
            let amounts = json!({RESOURCE: amount.to_string()});
            patch_status(node, &json!({"capacity": amounts, "allocatable": amounts}))
        };
        let (status, pods) = match self {
            Self::DevicesGone => return send(client, devices(0)).await,
            Self::DevicesBack => return send(client, devices(AMOUNT)).await,
            Self::PodRefused => {
                let status = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": MESSAGE,
                    "conditions": [], "containerStatuses": []});
                (status, 1)
            }
            Self::PodsUnready => {
                let condition = |kind: &str| json!({"type": kind, "status": "False", "reason": "ContainersNotReady"});
                let conditions = ["Ready", "ContainersReady"].map(condition);
                (json!({"conditions": conditions}), usize::MAX)
            }
        };
        let (listed, _) = watch::list::<Pod>(client, "/api/v1/pods").await?;
        let ready = listed.into_iter().filter(|pod| pod.spec.node_name == node && pod.is_ready()).take(pods);
        for Pod { metadata, .. } in ready {
            let path = format!("/api/v1/namespaces/{}/pods", metadata.namespace);
            let patch = Patch::Merge(json!({"status": status}));
            let request = Request::new(path);
            let request = request.patch_subresource("status", &metadata.name, &PatchParams::default(), &patch);
            send(client, request).await?;
        }
        Ok(())
    }
}
