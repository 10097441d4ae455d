//! The only definition of *converged* in nodecfg.
//!
//! [`evaluate`] compares what a node reports with what it should run. `sync`, `verify`, `status`, planning and the
//! sandbox's tests use it. It is a pure function: the caller passes the elapsed wait time.
//!
//! Behavior of a kubelet 1.21, from recordings:
//! - Status lags the assignment by 5 to 15 s. Until then it shows the *old* assignment and its error. An error counts
//!   against an assignment only once `status.config.assigned` names that assignment.
//! - `failed to sync: …` is reported while `assigned` still names the previous configuration. The kubelet retries, so
//!   this error counts as waiting.
//! - After a reset, `status.config` becomes empty.
//!
//! A node has converged only if its kubelet runs the reviewed values. An agent compares them ([`Proof`]). An unknown
//! result counts as converged.
//!
//! Reasons why a node has not converged: states that may end, and failures.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::drain::DrainFailure;
use jiff::Timestamp;
use nodecfg_contract::kubelet_values::OverriddenValue;
use nodecfg_contract::printable::one_line;
use nodecfg_contract::{Assignment, ConfigSource, ContentHash, Placement, UnreadableField, error_text};
use nodecfg_observed::{Age, ExtendedResources, MissingResource, Node, NodeContent, Obstacle, Proof, Readiness};
use pods::{LatePods, RefusedPods};
use serde::Serialize;

pub mod pods;

/// Trial of kubelets that follow `spec.configSource`: the fixed time after which an assignment without error becomes the
/// last known good (`configTrialDuration`, Kubernetes 1.11 to 1.23). Agents report the end of theirs.
pub const KUBELET_TRIAL: Duration = Duration::from_secs(10 * 60);

/// The configuration that a node should run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// The local configuration: no `configSource`.
    Local,
    /// The configuration that this source names.
    Source(#[schemars(with = "ConfigSource")] WantedSource),
}

/// A source, and what is known of its content. A name alone does not prove content: a ConfigMap can be deleted, and
/// created with other content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedSource {
    /// The source.
    #[serde(flatten)]
    pub source: ConfigSource,
    /// Hash of the content, which agents report. `None`: any content counts.
    #[serde(skip)]
    pub hash: Option<ContentHash>,
    /// Uid of the ConfigMap that exists now, which kubelets report. `None`: any ConfigMap of the name counts.
    #[serde(skip)]
    pub uid: Option<String>,
    /// How the node combines the content with its own configuration, which agents report. `None`: any placement counts.
    #[serde(skip)]
    pub placement: Option<Placement>,
    /// Fields that the node may run with another value than the content has. `None`: all.
    #[serde(skip)]
    pub may_override: Option<BTreeSet<String>>,
}

impl From<ConfigSource> for WantedSource {
    fn from(source: ConfigSource) -> Self {
        Self { source, hash: None, uid: None, placement: None, may_override: None }
    }
}

impl WantedSource {
    /// Reports whether a node that names this source as active has its content: an agent by the hash, a kubelet by the
    /// uid.
    fn is_content_of(&self, node: &Node) -> bool {
        match &node.content {
            Some(content) => self.hash.is_none() || content.active == self.hash,
            None => {
                let assigned = node.status.assigned.as_ref().and_then(|assigned| assigned.config_map.as_ref());
                self.uid.is_none() || assigned.is_some_and(|assigned| assigned.uid == self.uid)
            }
        }
    }

    /// The failure of a node that runs the content, if its kubelet runs other values.
    fn overridden_on(&self, node: &Node) -> Option<ConvergenceFailure> {
        let accepted = self.may_override.as_ref()?;
        let Some(Proof::Known { overridden, more, .. }) = node.proof.as_deref() else { return None };
        let is_refused = |value: &&OverriddenValue| !is_accepted(&value.field, accepted);
        let values: Vec<OverriddenValue> = overridden.iter().filter(is_refused).cloned().collect();
        // A list has a value of every field, so the values beyond it are of the same fields.
        let is_listed = !overridden.is_empty() && values.is_empty();
        (!values.is_empty() || (*more > 0 && !is_listed))
            .then_some(ConvergenceFailure::Overridden { values, more: *more })
    }
}

/// Reports whether these fields contain a path: itself, or a field above it.
#[must_use]
pub fn is_accepted(path: &str, accepted: &BTreeSet<String>) -> bool {
    let below = |field: &String| path.strip_prefix(field.as_str());
    accepted.iter().filter_map(below).any(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Target {
    /// Target of a source whose content may be any.
    #[must_use]
    pub fn named(source: Option<&ConfigSource>) -> Self {
        source.cloned().map_or(Self::Local, |source| Self::Source(source.into()))
    }

    /// What a node points at now, with the content and the placement that its assignment requires.
    #[must_use]
    pub fn present(node: &Node) -> Self {
        match &node.source {
            None => Self::Local,
            Some(source) => {
                let content = node.content.unwrap_or_default();
                let (hash, placement) = (content.assigned, content.placement);
                Self::Source(WantedSource { hash, placement, ..WantedSource::from(source.clone()) })
            }
        }
    }

    /// What a node had before an assignment, to which a rollback returns it.
    #[must_use]
    pub fn before(assignment: &Assignment) -> Self {
        match assignment.from.clone() {
            None => Self::Local,
            Some(source) => {
                Self::Source(WantedSource { placement: assignment.return_placement(), ..WantedSource::from(source) })
            }
        }
    }

    /// The `spec.configSource` of this target.
    #[must_use]
    pub fn source(&self) -> Option<&ConfigSource> {
        match self {
            Self::Local => None,
            Self::Source(wanted) => Some(&wanted.source),
        }
    }

    /// Hash of the content; `None` for the local configuration, or if any content counts.
    #[must_use]
    pub fn hash(&self) -> Option<ContentHash> {
        match self {
            Self::Local => None,
            Self::Source(wanted) => wanted.hash,
        }
    }

    /// Placement; `None` for the local configuration, or if any placement counts.
    #[must_use]
    pub fn placement(&self) -> Option<Placement> {
        match self {
            Self::Local => None,
            Self::Source(wanted) => wanted.placement,
        }
    }

    /// Reports whether the node is assigned this target: the source with the placement.
    #[must_use]
    pub fn is_assigned_to(&self, node: &Node) -> bool {
        self.is_named_by(node.source.as_ref()) && self.is_placed_as(node, NodeContent::assigned_placement)
    }

    /// Reports whether the node runs the source of this target with the placement.
    #[must_use]
    pub fn is_active_on(&self, node: &Node) -> bool {
        self.is_named_by(node.status.active.as_ref()) && self.is_placed_as(node, |content| content.active_placement)
    }

    /// Kubelets that follow assignments themselves know no placement.
    fn is_placed_as(&self, node: &Node, placement: impl Fn(&NodeContent) -> Option<Placement>) -> bool {
        let Some(content) = &node.content else { return true };
        self.placement().is_none_or(|wanted| placement(content) == Some(wanted))
    }

    /// Reports whether `spec` names the source of this target.
    #[must_use]
    pub fn is_named_by(&self, spec: Option<&ConfigSource>) -> bool {
        match (self.source(), spec) {
            (None, None) => true,
            (Some(target), Some(source)) => target.names_same(source),
            _ => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local configuration"),
            Self::Source(wanted) => wanted.source.fmt(f),
        }
    }
}

/// Progress of a node towards its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "state", content = "reason")]
#[schemars(rename = "Verdict")]
pub enum Convergence {
    /// The node runs its target and reports no error.
    Converged,
    /// The node may converge without intervention.
    Waiting(Waiting),
    /// The node does not converge without intervention.
    Failed(ConvergenceFailure),
}

/// Conditions of the wait for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitContext<'a> {
    /// Whether the Node was Ready before the assignment. Only then must it become Ready again.
    pub was_ready: bool,
    /// Extended resources of the Node before the assignment, which must return. `None`: unknown, so nothing must.
    pub resources: Option<&'a ExtendedResources>,
    /// Time since the assignment.
    pub waited: Duration,
    /// Time limit. Without one, the result is never [`ConvergenceFailure::TimedOut`].
    pub timeout: Option<Duration>,
}

impl WaitContext<'_> {
    /// Evaluates the present state only: no time limit, readiness and resources ignored.
    pub const STATE_ONLY: Self = Self { was_ready: false, resources: None, waited: Duration::ZERO, timeout: None };
}

/// Returns the progress of `node` towards `target`.
#[must_use]
pub fn evaluate(target: &Target, node: &Node, wait: WaitContext<'_>) -> Convergence {
    let waiting = match config_state(target, node) {
        Convergence::Converged if wait.was_ready && node.ready != Readiness::Ready => Waiting::NotReady,
        Convergence::Converged => match wait.resources.and_then(|before| before.missing_from(&node.extended_resources))
        {
            Some(missing) => Waiting::resource_missing(missing),
            None => return Convergence::Converged,
        },
        Convergence::Waiting(waiting) => waiting,
        failed @ Convergence::Failed(_) => return failed,
    };
    match wait.timeout {
        Some(timeout) if wait.waited >= timeout => Convergence::Failed(ConvergenceFailure::TimedOut { waiting }),
        _ => Convergence::Waiting(waiting),
    }
}

/// Trial of a converged node: it runs its target, which is not its last known good yet. If the trial fails, the node
/// rolls back by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    /// Expected end of the trial, if known. Agents report it by their clock. Kubelets report none: it is known only to
    /// a run that observed the activation, as the latest possible time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
}

impl Trial {
    /// The trial with the end that was known before, unless the node reports one.
    #[must_use]
    pub fn or_known(self, before: Option<Self>) -> Self {
        Self { ends_at: self.ends_at.or(before.and_then(|before| before.ends_at)) }
    }
}

/// Returns the trial of a node that has converged to `target`, regardless of readiness. `None` if the node has not
/// converged, or if its configuration passed its trial. The local configuration has no trial.
#[must_use]
pub fn trial(target: &Target, node: &Node) -> Option<Trial> {
    let status = &node.status;
    let passed = status.active.is_none() || status.active == status.last_known_good;
    (!passed && config_state(target, node) == Convergence::Converged).then_some(Trial { ends_at: node.trial_ends })
}

/// Progress of the configuration alone, without readiness and time.
fn config_state(target: &Target, node: &Node) -> Convergence {
    // Before anything else: the source and the status may be the unreadable values.
    if let Some(Obstacle::Unreadable(field)) = &node.obstacle {
        return Convergence::Waiting(Waiting::Unreadable(field.clone()));
    }
    // An agent that reports no placement is not known to follow one.
    let is_known = node.content.is_some_and(|content| content.assigned_placement().is_some());
    let is_elsewhere = is_known && !target.is_assigned_to(node);
    if !target.is_named_by(node.source.as_ref()) || is_elsewhere {
        return Convergence::Waiting(Waiting::NotAssigned);
    }
    let status = &node.status;
    if let Some(error) = status.error().and_then(|error| error.strip_prefix(error_text::SYNC_PREFIX)) {
        let error = error.to_owned();
        if error.starts_with(error_text::NEEDS_DRAIN_PREFIX) {
            return Convergence::Failed(ConvergenceFailure::NotPrepared { error });
        }
        return Convergence::Waiting(Waiting::Syncing { error });
    }
    if !target.is_named_by(status.assigned.as_ref()) {
        // The error shown belongs to the previous assignment.
        let is_handled = node.content.is_some_and(|content| content.handled);
        return Convergence::Waiting(if is_handled { Waiting::Activating } else { Waiting::NotAcknowledged });
    }
    if let Some(error) = status.error() {
        return match target {
            Target::Source(_) => Convergence::Failed(ConvergenceFailure::Refused { error: error.to_owned() }),
            // Without an assignment, the error belongs to the previous one.
            Target::Local => Convergence::Waiting(Waiting::NotAcknowledged),
        };
    }
    // Uid and resourceVersion are compared too: the active content must be the assigned content.
    if status.active != status.assigned {
        return Convergence::Waiting(Waiting::Activating);
    }
    match target {
        Target::Source(wanted) if !wanted.is_content_of(node) => Convergence::Waiting(Waiting::OtherContent),
        _ if !target.is_active_on(node) => {
            let reported = node.content.and_then(|content| content.active_placement);
            Convergence::Waiting(Waiting::OtherPlacement { reported })
        }
        Target::Source(wanted) => wanted.overridden_on(node).map_or(Convergence::Converged, Convergence::Failed),
        Target::Local => Convergence::Converged,
    }
}

#[cfg(test)]
mod tests;

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
    pub(crate) fn resource_missing(missing: MissingResource) -> Self {
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
