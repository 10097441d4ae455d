//! Whether a sync could do its work, and what keeps it from that: facts in, checks out.
//!
//! Every check has a stable code ([`codes`]), says what was seen and, where something is wrong, how to mend it. A check whose
//! facts could not be had says so and holds up no other. Pure: the facts are gathered at the rim, with requests that write
//! nothing, and time comes in with them. Of thousands of nodes a check keeps counts and a few names.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use nodecfg_contract::installation::Right;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName};
use nodecfg_contract::observed::{Observed, Orders, ServerVersion, Signs};
use nodecfg_planning::desired::Desired;
use nodecfg_planning::plan::{Plan, Problem, Why};

mod access;
pub mod codes;
mod config_maps;
pub mod definition;
mod fleet;
mod installation;
mod nodes;
#[cfg(test)]
mod tests;

/// How many names a check gives as examples.
const EXAMPLES: usize = 3;

/// What comes of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Verdict")]
pub enum CheckResult {
    /// A sync would not do its work.
    Problem,
    /// It would, and something is wrong or is about to be.
    Warning,
    /// Worth knowing.
    Note,
    /// It was not looked at, or could not be.
    Unknown,
    /// All is well.
    Ok,
}

/// How a sync would end over a problem, in the order in which it would come upon it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The repository cannot be read, or is invalid.
    BadRepository,
    /// The cluster cannot be reached, or refuses.
    Cluster,
    /// Somebody else holds the lock.
    Locked,
    /// The repository asks for what cannot be planned on this cluster.
    NoPlan,
    /// The cluster holds what nodecfg does not overwrite.
    InTheWay,
    /// Nodes are left out, or have failed already.
    LeftOut,
}

impl Ending {
    /// What that says of a sync.
    #[must_use]
    pub fn means(self) -> &'static str {
        match self {
            Self::BadRepository => "the repository cannot be read, or is invalid",
            Self::Cluster => "the cluster refuses, or cannot be reached",
            Self::Locked => "another sync holds the lock",
            Self::NoPlan => "the repository asks for what cannot be done on this cluster",
            Self::InTheWay => "the cluster holds what nodecfg does not overwrite",
            Self::LeftOut => "nodes are left out, or have failed",
        }
    }
}

/// One check and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its stable code, one of [`codes::CODES`].
    pub code: &'static str,
    /// What it is about, where there is more than one of it.
    pub subject: Option<String>,
    /// What came of it.
    pub verdict: CheckResult,
    /// What was seen, as a sentence without its full stop.
    pub seen: String,
    /// How to mend it, with the command where there is one.
    pub mend: Option<String>,
    /// How a sync would end over it; of problems alone.
    pub ending: Option<Ending>,
}

impl Check {
    fn new(code: &'static str, verdict: CheckResult, seen: impl Into<String>) -> Self {
        Self { code, subject: None, verdict, seen: seen.into(), mend: None, ending: None }
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

    fn problem(code: &'static str, ending: Ending, seen: impl Into<String>) -> Self {
        Self { ending: Some(ending), ..Self::new(code, CheckResult::Problem, seen) }
    }

    fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: Some(mend.into()).filter(|text| !text.is_empty()), ..self }
    }
}

/// Why a fact could not be had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unavailable {
    /// The code of the error, as in machine-readable reports.
    pub code: String,
    /// What happened.
    pub message: String,
    /// The way out.
    pub help: String,
}

/// Something that was asked for, or why it could not be had.
pub type Answer<T> = Result<T, Unavailable>;

/// The API server, as far as it shows before anything is asked of it that needs a right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: String,
    /// How it and the credentials were found.
    pub found: String,
    /// Its version.
    pub version: Answer<ServerVersion>,
    /// How far its clock is ahead of this machine's.
    pub ahead: SignedDuration,
    /// The moment of the check-up, by its clock.
    pub now: Timestamp,
}

/// What a right is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Every sync.
    Sync,
    /// This, and no other command of every day.
    Only(&'static str),
}

/// A right, and whether this user has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedRight {
    /// The right.
    pub right: Right,
    /// What it is needed for.
    pub purpose: Purpose,
    /// Whether it is given; unset when the server does not say.
    pub allowed: Answer<Option<bool>>,
}

/// Where the assignments are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Whether NodeConfigs carry them, which agents follow, and not the Nodes.
    pub agents: bool,
    /// How that is known.
    pub evidence: String,
}

/// The DaemonSet of the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pods {
    /// How many nodes shall have one.
    pub desired: u64,
    /// How many are ready.
    pub ready: u64,
}

/// What is installed for agents. `None` was not looked for, since nobody needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Installed {
    /// The definition of NodeConfigs.
    pub definition: Option<Answer<Option<Value>>>,
    /// Whether the admission policy is there.
    pub policy: Option<Answer<bool>>,
    /// The agents' DaemonSet.
    pub pods: Option<Answer<Option<Pods>>>,
}

/// The lock of a fleet, and what is ordered of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Namespace and name of the Lease.
    pub lease: String,
    /// Who holds it; unset when nobody does.
    pub holder: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// When it expires unless it is renewed.
    pub expires: Option<Timestamp>,
    /// What people have ordered.
    pub orders: Result<Orders, String>,
}

/// A repository that was read and is valid.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Where it is, with the revision.
    pub shown: String,
    /// What it asks for.
    pub desired: Desired,
    /// How many warnings there are about it.
    pub warnings: usize,
    /// The plan that a sync would make of it; unset when the cluster could not be looked at.
    pub plan: Option<Result<Plan, Vec<Problem>>>,
}

/// Everything that was found out.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The version of this program.
    pub program: String,
    /// The namespace of ConfigMaps and locks.
    pub namespace: NamespaceName,
    /// The server, or why there is none.
    pub server: Answer<Server>,
    /// The rights that were asked about.
    pub rights: Vec<AskedRight>,
    /// Where the assignments are. `None`: it was not asked.
    pub bound: Option<Answer<Bound>>,
    /// What is installed for agents.
    pub installed: Installed,
    /// Nodes and ConfigMaps. `None`: they were not asked for.
    pub observed: Option<Answer<Observed>>,
    /// Why the ConfigMaps among them could not be listed.
    pub unlisted: Option<Unavailable>,
    /// ConfigMaps that nodes point at and that were not fetched: there were too many.
    pub unread: usize,
    /// Signs of life of the nodes.
    pub signs: BTreeMap<NodeName, Signs>,
    /// The locks of the fleets; `None` within: there is no Lease.
    pub locks: BTreeMap<FleetName, Answer<Option<Lock>>>,
    /// The repository. `None`: none was named.
    pub repository: Option<Answer<Repository>>,
}

impl Facts {
    /// The moment of the check-up; unset when no server was reached.
    fn now(&self) -> Option<Timestamp> {
        self.server.as_ref().ok().map(|server| server.now)
    }

    /// Whether agents follow the assignments, as far as known.
    fn has_agents(&self) -> bool {
        matches!(&self.bound, Some(Ok(Bound { agents: true, .. })))
    }

    fn observed(&self) -> Option<&Observed> {
        self.observed.as_ref()?.as_ref().ok()
    }

    fn plan(&self) -> Option<&Result<Plan, Vec<Problem>>> {
        self.repository.as_ref()?.as_ref().ok()?.plan.as_ref()
    }

    /// The nodes that a sync would leave out since nothing on them follows.
    fn left_out_by_their_half(&self) -> BTreeSet<&NodeName> {
        let of_half = |why: &Why| matches!(why, Why::NoDynamicConfig | Why::Unsupported { .. } | Why::AgentSilent);
        let pools = self.plan().and_then(|plan| plan.as_ref().ok()).map(|plan| plan.pools.iter());
        let left = pools.into_iter().flatten().flat_map(|pool| &pool.left_alone);
        left.filter(|left| of_half(&left.why)).map(|left| &left.node).collect()
    }
}

/// Makes every check. The worst come first, and those of one verdict in the order of [`codes::CODES`].
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    access::examine(facts, &mut checks);
    installation::examine(facts, &mut checks);
    nodes::examine(facts, &mut checks);
    fleet::examine(facts, &mut checks);
    config_maps::examine(facts, &mut checks);
    // What a plan knows to be a problem need not be told again as what nodes report.
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

/// How a sync would end, as far as these checks tell: `None` when it would do its work.
#[must_use]
pub fn ending(checks: &[Check]) -> Option<Ending> {
    checks.iter().filter_map(|check| check.ending).min()
}

/// `1 node`, `2 nodes`.
fn count(number: usize, singular: &str) -> String {
    if number == 1 { format!("1 {singular}") } else { format!("{number} {singular}s") }
}

/// Names of which a few are told: they are counted, not kept.
#[derive(Debug, Clone, Default)]
struct Few {
    number: usize,
    examples: Vec<String>,
}

impl Few {
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

    /// `a, b, c and 4 more`.
    fn named(&self) -> String {
        match self.number.saturating_sub(self.examples.len()) {
            0 => self.examples.join(", "),
            more => format!("{} and {more} more", self.examples.join(", ")),
        }
    }

    /// `7 nodes (a, b, c and 4 more)`.
    fn counted(&self, singular: &str) -> String {
        format!("{} ({})", count(self.number, singular), self.named())
    }
}
