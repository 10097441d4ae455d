//! Reasons why a node has not converged: states that may end, and failures.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::pods::{LatePods, RefusedPods};
use crate::drain::DrainFailure;
use nodecfg_contract::kubelet_values::OverriddenValue;
use nodecfg_contract::printable::one_line;
use nodecfg_contract::{Placement, UnreadableField};
use nodecfg_observed::{Age, MissingResource};

/// Why a node has not converged yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Waiting {
    /// `spec.configSource` names another source.
    NotAssigned,
    /// The node never had a configuration for longer than `verify --new-nodes-within` allows.
    #[serde(rename_all = "camelCase")]
    NeverAssigned {
        /// Creation time of the Node.
        joined: Timestamp,
        /// Age of the Node in seconds.
        age_seconds: u64,
    },
    /// `status.config` still shows the previous assignment.
    NotAcknowledged,
    /// The node cannot fetch its assignment and retries.
    Syncing {
        /// Error text of the kubelet, without its prefix.
        error: String,
    },
    /// The kubelet accepted the assignment but does not run it yet.
    Activating,
    /// The node reports other content of the same name.
    OtherContent,
    /// The agent reports another placement of the same content, or none.
    OtherPlacement {
        /// The placement that it reports; unset if it does not know placements.
        #[serde(skip_serializing_if = "Option::is_none")]
        reported: Option<Placement>,
    },
    /// The kubelet runs the assignment. The Node was Ready before and is not Ready yet.
    NotReady,
    /// The pods of the node are evicted before its assignment. Only a rollout reports this, and the next three.
    Draining {
        /// Number of pods that are left; unset while they are unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        pods: Option<usize>,
        /// A pod that a PodDisruptionBudget protects, and the answer of the API server.
        #[serde(skip_serializing_if = "Option::is_none")]
        blocked: Option<String>,
    },
    /// The pods are gone, and volumes are still attached to the node.
    Detaching {
        /// Number of volumes that must be detached.
        volumes: usize,
    },
    /// The drained node converged and must stay Ready before new pods may start on it.
    Settling,
    /// The node has less of an extended resource than before its assignment: a device plugin has not registered with
    /// the new kubelet. Only a rollout reports this.
    ResourceMissing {
        /// Name of the resource.
        resource: String,
        /// Present amount that pods can use.
        present: u64,
        /// Amount before the assignment.
        before: u64,
    },
    /// The node converged, and its devices and pods are not checked yet. Only a rollout reports this, and the next.
    Checking,
    /// The node converged, and pods that were Ready before its assignment are not.
    PodsNotReady(LatePods),
    /// The node converged, and the trial of its configuration has not ended. Only a wait for trials reports this.
    OnTrial,
    /// A value of the Node or its NodeConfig is unreadable, so its state is unknown.
    Unreadable(UnreadableField),
}

impl Waiting {
    /// The wait for an extended resource.
    #[must_use]
    pub fn resource_missing(missing: MissingResource) -> Self {
        let MissingResource { name: resource, present, before } = missing;
        Self::ResourceMissing { resource, present, before }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAssigned => f.write_str("not assigned"),
            Self::NeverAssigned { age_seconds, .. } => {
                let age = Age::from(Duration::from_secs(*age_seconds));
                write!(f, "joined {age} ago, and never had its pool's configuration; run `nodecfg sync`")
            }
            Self::NotAcknowledged => f.write_str("not acknowledged yet"),
            Self::Syncing { error } => write!(f, "failed to sync, retrying: {}", one_line(error)),
            Self::Activating => f.write_str("assigned, not active yet"),
            Self::OtherContent => f.write_str("reports other content of the same name"),
            Self::OtherPlacement { reported: Some(placement) } => {
                write!(f, "active, but still with the placement {placement}")
            }
            Self::OtherPlacement { reported: None } => {
                f.write_str("active, but its agent reports no placement; upgrade nodecfg-agent")
            }
            Self::NotReady => f.write_str("active, Node not Ready yet"),
            Self::Draining { pods: None, .. } => f.write_str("draining"),
            Self::Draining { pods: Some(pods), blocked } => {
                let plural = if *pods == 1 { "" } else { "s" };
                write!(f, "draining, {pods} pod{plural} left")?;
                blocked.as_ref().map_or(Ok(()), |blocked| write!(f, "; blocked: {}", one_line(blocked)))
            }
            Self::Detaching { volumes } => {
                let plural = if *volumes == 1 { "" } else { "s" };
                write!(f, "drained, {volumes} volume{plural} still attached")
            }
            Self::Settling => f.write_str("active, settling before new pods may start"),
            Self::ResourceMissing { resource, present, before } => {
                write!(f, "active, waiting for {}: {present} of {before} are back", one_line(resource))
            }
            Self::Checking => f.write_str("active, its devices and pods are checked"),
            Self::PodsNotReady(late) => write!(f, "active, {late}"),
            Self::OnTrial => f.write_str("active, still on trial"),
            Self::Unreadable(field) => field.fmt(f),
        }
    }
}

/// Reason why a node does not converge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
#[schemars(rename = "Failure")]
pub enum ConvergenceFailure {
    /// The node accepted the assignment and reports this error against it.
    Refused {
        /// Error text of the kubelet.
        error: String,
    },
    /// The agent refuses the change with running pods, and keeps the present configuration.
    NotPrepared {
        /// Error text of the agent, with the field.
        error: String,
    },
    /// The node runs the assignment, and something that its kubelet reads later overrides values of it.
    Overridden {
        /// The overridden values, without those that the pool accepts.
        values: Vec<OverriddenValue>,
        /// Number of further overridden values, which the agent does not list.
        more: u32,
    },
    /// The time limit of the pool passed.
    TimedOut {
        /// The state that the node was still waiting in.
        waiting: Waiting,
    },
    /// The node is not assigned, and no sync runs that could assign it. Only `verify` reports this.
    NoSync {
        /// The state of the node.
        waiting: Waiting,
    },
    /// The kubelet refused pods after its restart. Only a rollout reports this, and the next two.
    PodsRefused(RefusedPods),
    /// Pods that were Ready before the assignment were not Ready again in time.
    PodsLost(LatePods),
    /// The node was not drained, or lost the mark of its drain.
    #[serde(rename = "notDrained")]
    Drain {
        /// The failure of the drain.
        #[serde(flatten)]
        failure: DrainFailure,
    },
}

impl ConvergenceFailure {
    /// Reports whether the configuration may be the cause, so that another one may help the node. Not if something
    /// overrides its values, or if only its trial takes too long: the node runs the target and is Ready.
    #[must_use]
    pub fn may_be_the_configuration(&self) -> bool {
        !matches!(self, Self::Overridden { .. } | Self::TimedOut { waiting: Waiting::OnTrial })
    }
}

impl fmt::Display for ConvergenceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { error } | Self::NotPrepared { error } => f.write_str(&one_line(error)),
            Self::Overridden { values, more } => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                f.write_str(&values.join("; "))?;
                match (values.is_empty(), more) {
                    (_, 0) => Ok(()),
                    (true, more) => {
                        write!(f, "the kubelet overrides {more} reviewed values that its agent does not list")
                    }
                    (false, more) => write!(f, "; and {more} more"),
                }
            }
            Self::TimedOut { waiting } => write!(f, "timed out: {waiting}"),
            // Its text names the command, too.
            Self::NoSync { waiting: waiting @ Waiting::NeverAssigned { .. } } => waiting.fmt(f),
            Self::NoSync { waiting } => write!(f, "{waiting}, and no sync runs; run `nodecfg sync`"),
            Self::PodsRefused(refused) => refused.fmt(f),
            Self::PodsLost(late) => late.fmt(f),
            Self::Drain { failure } => failure.fmt(f),
        }
    }
}
