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

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use nodecfg_contract::kubelet_values::OverriddenValue;
use nodecfg_contract::{Assignment, ConfigSource, ContentHash, Placement, error_text};
use nodecfg_observed::{ExtendedResources, Node, NodeContent, Obstacle, Proof, Readiness};

pub mod pods;
mod reasons;

pub use reasons::{ConvergenceFailure, Waiting};

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
        return Convergence::Waiting(Waiting::NotAcknowledged);
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
