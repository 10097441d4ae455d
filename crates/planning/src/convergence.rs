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

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use nodecfg_contract::observed::{ExtendedResources, Node, NodeSupport, Readiness};
use nodecfg_contract::{ConfigSource, ContentHash, error_text};

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
}

impl From<ConfigSource> for WantedSource {
    fn from(source: ConfigSource) -> Self {
        Self { source, hash: None, uid: None }
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
}

impl Target {
    /// Target of a source whose content may be any.
    #[must_use]
    pub fn named(source: Option<&ConfigSource>) -> Self {
        source.cloned().map_or(Self::Local, |source| Self::Source(source.into()))
    }

    /// What a node points at now, with the content that its assignment requires.
    #[must_use]
    pub fn present(node: &Node) -> Self {
        match &node.source {
            None => Self::Local,
            Some(source) => {
                let hash = node.content.and_then(|content| content.assigned);
                Self::Source(WantedSource { source: source.clone(), hash, uid: None })
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

    /// Reports whether `spec` names this target.
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
    if let NodeSupport::Unreadable(field) = &node.support {
        return Convergence::Waiting(Waiting::Unreadable(field.clone()));
    }
    if !target.is_named_by(node.source.as_ref()) {
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
        _ => Convergence::Converged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::ConfigStatus;
    use nodecfg_contract::names::NodeName;
    use nodecfg_contract::observed::NodeContent;

    fn spec(name: &str) -> ConfigSource {
        ConfigSource::config_map("kube-system", name, "kubelet")
    }

    /// A source as status names it, with uid and version.
    fn accepted(name: &str, version: &str) -> ConfigSource {
        let mut source = spec(name);
        if let Some(map) = source.config_map_mut() {
            map.uid = Some(format!("uid-of-{name}"));
            map.resource_version = Some(version.to_owned());
        }
        source
    }

    fn node(source: Option<ConfigSource>, status: ConfigStatus) -> Node {
        Node { source, status, ..Node::named(NodeName::new("n1").unwrap()) }
    }

    fn status(assigned: Option<&str>, active: Option<&str>, error: Option<&str>) -> ConfigStatus {
        ConfigStatus {
            assigned: assigned.map(|name| accepted(name, "1")),
            active: active.map(|name| accepted(name, "1")),
            last_known_good: None,
            error: error.map(str::to_owned),
        }
    }

    fn verdict(target: &str, status: ConfigStatus) -> Convergence {
        evaluate(&Target::Source(spec(target).into()), &node(Some(spec(target)), status), WaitContext::STATE_ONLY)
    }

    const REFUSED: &str = error_text::VALIDATE;

    #[test]
    fn requires_assigned_active_and_no_error() {
        assert_eq!(verdict("b", status(Some("b"), Some("b"), None)), Convergence::Converged);
        assert_eq!(verdict("b", status(Some("b"), Some("b"), Some(""))), Convergence::Converged);
        assert_eq!(verdict("b", status(Some("b"), Some("a"), None)), Convergence::Waiting(Waiting::Activating));
        assert_eq!(verdict("b", status(Some("b"), None, None)), Convergence::Waiting(Waiting::Activating));
    }

    #[test]
    fn converged_node_is_on_trial_until_its_target_is_the_last_known_good() {
        let target = Target::Source(spec("b").into());
        let with_good = |good: Option<&str>, status: ConfigStatus| {
            let last_known_good = good.map(|name| accepted(name, "1"));
            node(Some(spec("b")), ConfigStatus { last_known_good, ..status })
        };
        let converged = || status(Some("b"), Some("b"), None);
        for good in [None, Some("a")] {
            assert_eq!(trial(&target, &with_good(good, converged())), Some(Trial::default()));
        }
        assert_eq!(trial(&target, &with_good(Some("b"), converged())), None);
        // The ConfigMap was deleted and created again since.
        let mut recreated = with_good(Some("b"), converged());
        recreated.status.last_known_good = Some(accepted("b", "0"));
        assert!(trial(&target, &recreated).is_some());
        let failed = status(Some("b"), Some("a"), Some("failed trial: it died"));
        assert_eq!(trial(&target, &with_good(Some("a"), failed)), None);
        let failing = status(Some("b"), Some("b"), Some(REFUSED));
        assert_eq!(trial(&target, &with_good(Some("a"), failing)), None);
        assert_eq!(trial(&Target::Source(spec("c").into()), &with_good(None, converged())), None, "another target");
        assert_eq!(trial(&Target::Local, &node(None, ConfigStatus::default())), None);
        let returned = ConfigStatus { last_known_good: Some(accepted("a", "1")), ..ConfigStatus::default() };
        assert_eq!(trial(&Target::Local, &node(None, returned)), None, "the local configuration has no trial");
        let ends = Some(Timestamp::UNIX_EPOCH);
        let reported = Node { trial_ends: ends, ..with_good(None, converged()) };
        assert_eq!(trial(&target, &reported), Some(Trial { ends_at: ends }));
        assert_eq!(Trial::default().or_known(Some(Trial { ends_at: ends })), Trial { ends_at: ends });
    }

    #[test]
    fn rejects_older_version_of_the_config_map() {
        let mut observed = status(Some("b"), Some("b"), None);
        observed.active = Some(accepted("b", "0"));
        assert_eq!(verdict("b", observed), Convergence::Waiting(Waiting::Activating));
    }

    #[test]
    fn ignores_error_of_previous_assignment() {
        let waiting = Convergence::Waiting(Waiting::NotAcknowledged);
        assert_eq!(verdict("b", status(Some("a"), None, Some(REFUSED))), waiting);
        assert_eq!(verdict("b", status(None, None, None)), waiting);
    }

    #[test]
    fn fails_once_assigned_names_the_target() {
        assert_eq!(
            verdict("b", status(Some("b"), Some("a"), Some(REFUSED))),
            Convergence::Failed(ConvergenceFailure::Refused { error: REFUSED.to_owned() })
        );
    }

    #[test]
    fn waits_on_sync_errors() {
        let error = format!("{}{}", error_text::SYNC_PREFIX, error_text::DOWNLOAD);
        for assigned in [None, Some("a"), Some("b")] {
            assert_eq!(
                verdict("b", status(assigned, assigned, Some(&error))),
                Convergence::Waiting(Waiting::Syncing { error: error_text::DOWNLOAD.to_owned() })
            );
        }
    }

    #[test]
    fn times_out_with_waiting_reason() {
        let target = Target::Source(spec("b").into());
        let observed = node(Some(spec("b")), ConfigStatus::default());
        let wait = |seconds| WaitContext {
            was_ready: true,
            resources: None,
            waited: Duration::from_secs(seconds),
            timeout: Some(Duration::from_secs(10)),
        };
        assert_eq!(evaluate(&target, &observed, wait(9)), Convergence::Waiting(Waiting::NotAcknowledged));
        assert_eq!(
            evaluate(&target, &observed, wait(10)),
            Convergence::Failed(ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged })
        );
    }

    #[test]
    fn requires_readiness_if_node_was_ready() {
        let target = Target::Source(spec("b").into());
        let mut observed = node(Some(spec("b")), status(Some("b"), Some("b"), None));
        let wait = |was_ready| WaitContext { was_ready, ..WaitContext::STATE_ONLY };
        for ready in [Readiness::NotReady, Readiness::Unknown] {
            observed.ready = ready;
            assert_eq!(evaluate(&target, &observed, wait(true)), Convergence::Waiting(Waiting::NotReady));
            assert_eq!(evaluate(&target, &observed, wait(false)), Convergence::Converged);
        }
        observed.ready = Readiness::Ready;
        assert_eq!(evaluate(&target, &observed, wait(true)), Convergence::Converged);
    }

    #[test]
    fn requires_the_resources_of_before() {
        let target = Target::Source(spec("b").into());
        let before = ExtendedResources::from([("nvidia.com/gpu", 8), ("rdma/hca", 2)]);
        let state = |present: ExtendedResources, ready: Readiness, observed: ConfigStatus| {
            let node = Node { ready, extended_resources: present, ..node(Some(spec("b")), observed) };
            evaluate(
                &target,
                &node,
                WaitContext { was_ready: true, resources: Some(&before), ..WaitContext::STATE_ONLY },
            )
        };
        let converged = || status(Some("b"), Some("b"), None);
        let missing = |resource: &str, present, before| {
            Convergence::Waiting(Waiting::ResourceMissing { resource: resource.to_owned(), present, before })
        };
        let gpus = |number| ExtendedResources::from([("nvidia.com/gpu", number), ("rdma/hca", 2)]);
        assert_eq!(state(ExtendedResources::default(), Readiness::Ready, converged()), missing("nvidia.com/gpu", 0, 8));
        assert_eq!(state(gpus(7), Readiness::Ready, converged()), missing("nvidia.com/gpu", 7, 8));
        let half = ExtendedResources::from([("nvidia.com/gpu", 8), ("rdma/hca", 1)]);
        assert_eq!(state(half, Readiness::Ready, converged()), missing("rdma/hca", 1, 2));
        for number in [8, 9] {
            assert_eq!(state(gpus(number), Readiness::Ready, converged()), Convergence::Converged);
        }
        // What the node waits for before its devices is reported first.
        assert_eq!(state(gpus(0), Readiness::NotReady, converged()), Convergence::Waiting(Waiting::NotReady));
        let activating = status(Some("b"), Some("a"), None);
        assert_eq!(state(gpus(0), Readiness::Ready, activating), Convergence::Waiting(Waiting::Activating));
        let refused = status(Some("b"), Some("a"), Some(REFUSED));
        assert!(matches!(state(gpus(8), Readiness::Ready, refused), Convergence::Failed(_)));
        assert_eq!(
            missing("nvidia.com/gpu", 0, 8),
            Convergence::Waiting(Waiting::resource_missing(before.missing_from(&gpus(0)).unwrap()))
        );
        let late = WaitContext {
            was_ready: false,
            resources: Some(&before),
            waited: Duration::from_secs(10),
            timeout: Some(Duration::from_secs(10)),
        };
        let Convergence::Failed(failure) = evaluate(&target, &node(Some(spec("b")), converged()), late) else {
            panic!("the time limit has passed");
        };
        assert_eq!(failure.to_string(), "timed out: active, waiting for nvidia.com/gpu: 0 of 8 are back");
    }

    #[test]
    fn local_target_requires_empty_status() {
        let local = |observed: ConfigStatus| evaluate(&Target::Local, &node(None, observed), WaitContext::STATE_ONLY);
        assert_eq!(local(ConfigStatus::default()), Convergence::Converged);
        assert_eq!(local(status(Some("a"), Some("a"), None)), Convergence::Waiting(Waiting::NotAcknowledged));
        assert_eq!(local(status(None, Some("a"), None)), Convergence::Waiting(Waiting::Activating));
        assert_eq!(local(status(None, None, Some(REFUSED))), Convergence::Waiting(Waiting::NotAcknowledged));
    }

    #[test]
    fn reports_other_spec_as_not_assigned() {
        let observed = node(Some(spec("a")), status(Some("b"), Some("b"), None));
        assert_eq!(
            evaluate(&Target::Source(spec("b").into()), &observed, WaitContext::STATE_ONLY),
            Convergence::Waiting(Waiting::NotAssigned)
        );
        assert_eq!(
            evaluate(&Target::Local, &observed, WaitContext::STATE_ONLY),
            Convergence::Waiting(Waiting::NotAssigned)
        );
    }

    #[test]
    fn agent_must_report_the_wanted_content() {
        let hash = |text: &str| Some(ContentHash::of(text.as_bytes()));
        let wanted = WantedSource { hash: hash("good"), ..spec("b").into() };
        let state = |content: Option<NodeContent>, wanted: &WantedSource| {
            let node = Node { content, ..node(Some(spec("b")), status(Some("b"), Some("b"), None)) };
            evaluate(&Target::Source(wanted.clone()), &node, WaitContext::STATE_ONLY)
        };
        let reporting = |active| Some(NodeContent { active, ..NodeContent::default() });
        assert_eq!(state(reporting(hash("good")), &wanted), Convergence::Converged);
        for other in [hash("evil"), None] {
            assert_eq!(state(reporting(other), &wanted), Convergence::Waiting(Waiting::OtherContent));
        }
        assert_eq!(state(reporting(None), &spec("b").into()), Convergence::Converged, "any content counts");
        // A kubelet reports no hash, but the uid of the ConfigMap.
        assert_eq!(state(None, &wanted), Convergence::Converged);
        let with_uid = |uid: &str| WantedSource { uid: Some(uid.to_owned()), ..wanted.clone() };
        assert_eq!(state(None, &with_uid("uid-of-b")), Convergence::Converged);
        assert_eq!(state(None, &with_uid("recreated")), Convergence::Waiting(Waiting::OtherContent));
        // An agent adopts a ConfigMap that was created again, within the hour.
        assert_eq!(state(reporting(hash("good")), &with_uid("recreated")), Convergence::Converged);
    }

    #[test]
    fn refusal_without_drain_is_a_failure_of_the_present_assignment() {
        let error = format!("{}{}cpuManagerPolicy", error_text::SYNC_PREFIX, error_text::NEEDS_DRAIN_PREFIX);
        let expected = ConvergenceFailure::NotPrepared { error: "needs a drained node: cpuManagerPolicy".to_owned() };
        assert_eq!(verdict("b", status(Some("a"), Some("a"), Some(&error))), Convergence::Failed(expected));
    }
}
