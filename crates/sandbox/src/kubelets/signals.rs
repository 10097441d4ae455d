//! Inputs and outputs of a simulated kubelet.

use std::ops::Add;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::aftermath::Aftermath;
use super::fault::Fault;
use super::verdict::ConfigProblem;
use nodecfg_contract::ConfigMapSource;

/// Simulated time since the start of the simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// `spec.configSource` of the Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SpecSource {
    /// Absent: the local configuration.
    #[default]
    Local,
    /// Present without a ConfigMap, which API servers refuse.
    Empty,
    /// One key of a ConfigMap.
    ConfigMap(Arc<ConfigMapSource>),
}

/// Result of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Download {
    /// The ConfigMap exists. The source has its uid and resourceVersion; the verdict is on the requested key.
    Found(Arc<ConfigMapSource>, Result<(), ConfigProblem>),
    /// The ConfigMap is missing, or the node may not read it.
    Missing,
    /// The API server is unreachable.
    Unreachable,
}

/// Event that a kubelet handles.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The Node appeared or changed.
    Node(SpecSource),
    /// Result of [`Output::Fetch`].
    Fetched(Download),
    /// The ConfigMap in spec was created, changed or deleted.
    ConfigMapChanged,
    /// The time of [`Output::WakeAt`] was reached.
    Timer,
    /// A status write was lost.
    StatusLost,
    /// The fault was set or removed.
    Fault(Option<Fault>),
}

/// Request of a kubelet to its driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Download this key and return the result as [`Input::Fetched`].
    Fetch(Arc<ConfigMapSource>),
    /// Merge this into `status.config`; null removes a field.
    PatchConfig(Map<String, Value>),
    /// Report the Ready condition.
    Ready {
        /// Readiness to report.
        ready: Ready,
        /// Set if the readiness differs from the last report; unset for a heartbeat.
        changed: bool,
    },
    /// Report what the restart did to devices and pods.
    Aftermath(Aftermath),
    /// Emit an Event about the Node.
    Event {
        /// Reason in CamelCase.
        reason: &'static str,
        /// Message of the Event.
        message: String,
    },
    /// Send [`Input::Timer`] at this time. Replaces an earlier wake-up.
    WakeAt(Moment),
}

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
