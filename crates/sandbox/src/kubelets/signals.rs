//! What goes into a simulated kubelet and what comes out of it.

use std::ops::Add;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::fault::Fault;
use super::verdict::Problem;
use nodecfg_contract::ConfigMapSource;

/// A moment of the simulated time: how long after the simulation began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// What `spec.configSource` of the Node says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Absent: the configuration that the node was provisioned with.
    #[default]
    Local,
    /// Present without a ConfigMap, which API servers refuse.
    Nothing,
    /// One key of a ConfigMap.
    ConfigMap(Arc<ConfigMapSource>),
}

/// How a download ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Download {
    /// The ConfigMap exists; the source has its uid and resourceVersion, and the verdict is that on the asked-for key.
    Found(Arc<ConfigMapSource>, Result<(), Problem>),
    /// There is none, or the node may not read it.
    Missing,
    /// The API server could not be asked.
    Unreachable,
}

/// What happens to a kubelet.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Its Node was seen, for the first time or changed.
    Node(Wanted),
    /// The answer to [`Output::Fetch`].
    Fetched(Download),
    /// The ConfigMap that spec names appeared, changed or went away.
    ConfigMapChanged,
    /// The moment of [`Output::WakeAt`] has come.
    Timer,
    /// A status that it wrote did not arrive.
    StatusLost,
    /// It begins to misbehave, or stops to.
    Fault(Option<Fault>),
}

/// What a kubelet asks its driver to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Download this key, and say how that ended with [`Input::Fetched`].
    Fetch(Arc<ConfigMapSource>),
    /// Merge this into `status.config`; null removes a field.
    PatchConfig(Map<String, Value>),
    /// Report the Ready condition.
    Ready {
        /// Its state.
        ready: Ready,
        /// Whether it differs from the last report; a heartbeat does not.
        changed: bool,
    },
    /// Emit an Event about the Node.
    Event {
        /// Its reason, in CamelCase.
        reason: &'static str,
        /// Its message.
        message: String,
    },
    /// Send [`Input::Timer`] at this moment. Replaces what was asked before.
    WakeAt(Moment),
}

/// The Ready condition of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// `True`.
    Yes,
    /// `False`: the kubelet runs and says so itself.
    No,
    /// `Unknown`: the kubelet has fallen silent, and the node lifecycle controller says so.
    Unknown,
}
