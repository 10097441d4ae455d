//! What faults do to the devices and pods of a node when its kubelet has restarted.
//!
//! A new kubelet reports no extended resources until their device plugins have registered again, and decides again about
//! all pods of its node. It marks a refused pod as Failed (kubernetes, `pkg/kubelet/cm/devicemanager/manager.go`:
//! `GetCapacity`, and `pkg/kubelet/kubelet.go`: `rejectPod`, 1.36).

use std::ops::Add;
use std::time::Duration;

use super::fault::Fault;

/// Extended resource of nodes with a fault of devices.
pub(crate) const RESOURCE: &str = "nvidia.com/gpu";
/// Its amount.
pub(crate) const AMOUNT: u32 = 8;
/// Time from the start of the kubelet until slow device plugins have registered.
const REGISTRATION: Duration = Duration::from_secs(15);
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
