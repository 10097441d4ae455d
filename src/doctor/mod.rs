//! Checks of `nodecfg doctor`: whether a sync could succeed, and what prevents that. Facts in, checks out.
//!
//! Every check has a stable code ([`codes`]), reports an observation and, for a fault, its fix. A check without its
//! facts reports that and does not affect other checks. Pure: the caller gathers the facts by requests that write
//! nothing, and provides the time. Checks keep counts and a few names, never all names of nodes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use nodecfg_contract::installation::Right;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName};
use nodecfg_fleet::Desired;
use nodecfg_observed::{NodeActivity, Observed, Obstacle, Orders, ServerVersion};
use nodecfg_plan::{Plan, Problem, Why};

mod access;
pub mod codes;
mod config_maps;
pub mod definition;
mod drains;
#[cfg(test)]
mod fixtures;
mod fleet;
mod installation;
mod nodes;
mod pointers;
mod policies;
#[cfg(test)]
mod tests;

/// Number of names that a check prints as examples.
const EXAMPLES: usize = 3;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Verdict")]
pub enum CheckResult {
    /// A sync would fail.
    Problem,
    /// A sync would succeed, but something is wrong or soon will be.
    Warning,
    /// An observation for information.
    Note,
    /// Not checked, or not checkable.
    Unknown,
    /// No fault.
    Ok,
}

/// Failure of a sync that a problem would cause, in the order in which a sync would encounter them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncFailure {
    /// The repository is unreadable or invalid.
    BadRepository,
    /// The cluster is unreachable or refuses a request.
    Cluster,
    /// Another sync holds the lock.
    Locked,
    /// The repository requests something that this cluster cannot satisfy.
    NoPlan,
    /// The cluster contains an object that nodecfg does not overwrite.
    InTheWay,
    /// Nodes are skipped or have failed.
    LeftOut,
}

impl SyncFailure {
    /// Description of the failure.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::BadRepository => "the repository is unreadable or invalid",
            Self::Cluster => "the cluster is unreachable or refuses a request",
            Self::Locked => "another sync holds the lock",
            Self::NoPlan => "the repository requests something that this cluster cannot satisfy",
            Self::InTheWay => "the cluster contains an object that nodecfg does not overwrite",
            Self::LeftOut => "nodes are skipped or have failed",
        }
    }
}

/// Check with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Stable code, one of [`codes::CODES`].
    pub code: &'static str,
    /// Subject, for codes with several checks.
    pub subject: Option<String>,
    /// Result of the check.
    pub verdict: CheckResult,
    /// Observation, as a sentence without a period.
    pub seen: String,
    /// Fix, with a command if possible.
    pub fix: Option<String>,
    /// Failure that a problem would cause; set only for problems.
    pub failure: Option<SyncFailure>,
}

impl Check {
    fn new(code: &'static str, verdict: CheckResult, seen: impl Into<String>) -> Self {
        Self { code, subject: None, verdict, seen: seen.into(), fix: None, failure: None }
    }

    fn ok(code: &'static str, seen: impl Into<String>) -> Self {
        Self::new(code, CheckResult::Ok, seen)
    }

    fn note(code: &'static str, seen: impl Into<String>) -> Self {
        Self::new(code, CheckResult::Note, seen)
    }

    fn warning(code: &'static str, seen: impl Into<String>) -> Self {
        Self::new(code, CheckResult::Warning, seen)
    }

    fn unknown(code: &'static str, why: impl Into<String>) -> Self {
        Self::new(code, CheckResult::Unknown, why)
    }

    fn problem(code: &'static str, failure: SyncFailure, seen: impl Into<String>) -> Self {
        Self { failure: Some(failure), ..Self::new(code, CheckResult::Problem, seen) }
    }

    fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()).filter(|text| !text.is_empty()), ..self }
    }
}

/// Check of a missing fact that no sync needs.
fn not_checked(code: &'static str, cause: &Unavailable) -> Check {
    Check::unknown(code, format!("not checked: {}; no sync needs it", cause.message))
}

/// Reason for a missing fact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unavailable {
    /// Code of the error, as in machine-readable reports.
    pub code: String,
    /// Error message.
    pub message: String,
    /// Fix for the user.
    pub help: String,
}

/// Requested fact, or the reason why it is missing.
pub type Fact<T> = Result<T, Unavailable>;

/// API server, from requests that need no permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Address.
    pub address: String,
    /// Source of the address and the credentials.
    pub found: String,
    /// Version.
    pub version: Fact<ServerVersion>,
    /// How far its clock is ahead of the clock of this machine. Negative: behind.
    pub ahead: SignedDuration,
    /// Time of the checks by its clock.
    pub now: Timestamp,
}

/// Purpose of a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Every sync.
    Sync,
    /// Only this command, which is not part of daily use.
    Only(&'static str),
}

/// Right, and whether this user has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedRight {
    /// The right.
    pub right: Right,
    /// Purpose of the right.
    pub purpose: Purpose,
    /// True if the user has the right; unset when the server does not answer.
    pub allowed: Fact<Option<bool>>,
}

/// Detected binding of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectedBinding {
    /// True if NodeConfigs, which agents follow, hold the assignments instead of Nodes.
    pub agents: bool,
    /// Evidence for the binding.
    pub evidence: String,
}

/// Pods of the agents' DaemonSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pods {
    /// Number of nodes that should have one.
    pub desired: u64,
    /// Number of ready pods.
    pub ready: u64,
}

/// An admission policy and its binding, if they exist.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstalledPolicy {
    /// The policy.
    pub policy: Option<Value>,
    /// Its binding, without which it has no effect.
    pub binding: Option<Value>,
}

/// Installed objects for agents.
#[derive(Debug, Clone, PartialEq)]
pub struct Installed {
    /// The definition of NodeConfigs.
    pub definition: Fact<Option<Value>>,
    /// The policy that limits each agent to the status of its own node.
    pub own_status: Fact<InstalledPolicy>,
    /// The policy that limits agents in pods to two changes of their own Nodes: the startup taint and one condition.
    pub own_node: Fact<InstalledPolicy>,
    /// The policy that lists the writers of ConfigMaps in the namespace.
    pub config_maps: Fact<InstalledPolicy>,
    /// DaemonSet of the agents.
    pub pods: Fact<Option<Pods>>,
}

/// Lock of a fleet, with its orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Namespace and name of the Lease.
    pub lease: String,
    /// Holder; unset when the lock is free.
    pub holder: Option<String>,
    /// Time of the acquisition.
    pub since: Option<Timestamp>,
    /// Time of the expiry, unless renewed.
    pub expires: Option<Timestamp>,
    /// Orders of the fleet.
    pub orders: Result<Orders, String>,
}

/// Readable and valid repository.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Location, with the revision.
    pub shown: String,
    /// Desired state.
    pub desired: Desired,
    /// Number of warnings.
    pub warnings: usize,
    /// Plan that a sync would make; unset when the cluster was not readable.
    pub plan: Option<Result<Plan, Vec<Problem>>>,
}

/// All gathered facts.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Version of this program.
    pub program: String,
    /// Namespace of ConfigMaps and locks.
    pub namespace: NamespaceName,
    /// The server.
    pub server: Fact<Server>,
    /// Checked rights.
    pub rights: Vec<CheckedRight>,
    /// Whether the admission of the cluster lets this user create ConfigMaps, or its refusal. `None`: not checked, because
    /// the user has no right to create them.
    pub admission: Option<Fact<()>>,
    /// Detected binding. `None`: not checked.
    pub bound: Option<Fact<DetectedBinding>>,
    /// Installed objects for agents. `None`: not checked, because agents are not used.
    pub installed: Option<Installed>,
    /// Nodes and ConfigMaps. `None`: not requested.
    pub observed: Option<Fact<Observed>>,
    /// Reason why the ConfigMaps could not be listed.
    pub unlisted: Option<Unavailable>,
    /// Number of assigned ConfigMaps that were not fetched: too many.
    pub unread: usize,
    /// Heartbeats of the nodes and their agents.
    pub signs: BTreeMap<NodeName, NodeActivity>,
    /// Locks of the fleets; `None` for a missing Lease.
    pub locks: BTreeMap<FleetName, Fact<Option<Lock>>>,
    /// The repository. `None`: none was given.
    pub repository: Option<Fact<Repository>>,
}

impl Facts {
    /// Time of the checks; unset without a server.
    fn now(&self) -> Option<Timestamp> {
        self.server.as_ref().ok().map(|server| server.now)
    }

    /// Reports whether agents are known to follow the assignments.
    fn has_agents(&self) -> bool {
        matches!(&self.bound, Some(Ok(DetectedBinding { agents: true, .. })))
    }

    fn observed(&self) -> Option<&Observed> {
        self.observed.as_ref()?.as_ref().ok()
    }

    fn plan(&self) -> Option<&Result<Plan, Vec<Problem>>> {
        self.repository.as_ref()?.as_ref().ok()?.plan.as_ref()
    }

    /// Nodes that a sync would skip because nothing follows their assignment.
    fn nodes_without_support(&self) -> BTreeSet<&NodeName> {
        let is_unsupported = |why: &Why| {
            matches!(
                why,
                Why::AgentOutdated
                    | Why::Obstacle(
                        Obstacle::NoDynamicConfig
                            | Obstacle::Unsupported { .. }
                            | Obstacle::AgentSilent
                            | Obstacle::Unreadable(_)
                    )
            )
        };
        let pools = self.plan().and_then(|plan| plan.as_ref().ok()).map(|plan| plan.pools.iter());
        let left = pools.into_iter().flatten().flat_map(|pool| &pool.left_alone);
        left.filter(|left| is_unsupported(&left.why)).map(|left| &left.node).collect()
    }
}

/// Runs every check. Returns the worst results first, and equal results in the order of [`codes::CODES`]. Drops
/// warnings about errors of nodes that a problem from the plan repeats.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    access::examine(facts, &mut checks);
    installation::examine(facts, &mut checks);
    nodes::examine(facts, &mut checks);
    drains::examine(facts, &mut checks);
    fleet::examine(facts, &mut checks);
    config_maps::examine(facts, &mut checks);
    pointers::examine(facts, &mut checks);
    // A problem from the plan replaces the warning from the nodes' reports of the same error.
    let known: BTreeSet<Option<String>> = checks
        .iter()
        .filter(|check| check.code == "node-failed" && check.verdict == CheckResult::Problem)
        .map(|check| check.subject.clone())
        .collect();
    checks.retain(|check| {
        check.code != "node-failed" || check.verdict == CheckResult::Problem || !known.contains(&check.subject)
    });
    let place = |check: &Check| codes::CODES.iter().position(|known| known.code == check.code);
    checks.sort_by(|a, b| (a.verdict, place(a), &a.subject).cmp(&(b.verdict, place(b), &b.subject)));
    checks
}

/// First failure that a sync would encounter. `None`: the sync would succeed.
#[must_use]
pub fn failure(checks: &[Check]) -> Option<SyncFailure> {
    checks.iter().filter_map(|check| check.failure).min()
}

/// Prints `1 node`, `2 nodes`.
fn count(number: usize, singular: &str) -> String {
    if number == 1 { format!("1 {singular}") } else { format!("{number} {singular}s") }
}

/// Count of names with a few examples.
#[derive(Debug, Clone, Default)]
struct NameSample {
    number: usize,
    examples: Vec<String>,
}

impl NameSample {
    fn add(&mut self, name: impl ToString) {
        self.number += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(name.to_string());
        }
    }

    fn of<T: ToString>(names: impl IntoIterator<Item = T>) -> Self {
        let mut some = Self::default();
        names.into_iter().for_each(|name| some.add(name));
        some
    }

    /// Prints `a, b, c and 4 more`.
    fn named(&self) -> String {
        match self.number.saturating_sub(self.examples.len()) {
            0 => self.examples.join(", "),
            more => format!("{} and {more} more", self.examples.join(", ")),
        }
    }

    /// Prints `7 nodes (a, b, c and 4 more)`.
    fn counted(&self, singular: &str) -> String {
        format!("{} ({})", count(self.number, singular), self.named())
    }
}
