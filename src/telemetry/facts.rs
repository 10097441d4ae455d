//! What there is to know of a run when it has ended: where the nodes of each pool are, what failed, how it ended. Counts
//! only: no name of a node gets in here, so that a large cluster is no large metric.

use std::collections::BTreeMap;

use jiff::Timestamp;

use nodecfg_contract::names::{CommitId, FleetName, PoolName};
use nodecfg_planning::judge;
use nodecfg_planning::plan::{Action, Plan};
use nodecfg_planning::rollout::{End, Outcome};
use nodecfg_planning::state::State;

/// The values of the label `state`, each with the states that it stands for. Coarser than the order of severity: alerts
/// depend on these names.
pub const LABELS: [(&str, &[State]); 6] = [
    ("converged", &[State::Converged, State::Settled]),
    ("to_assign", &[State::NotStarted, State::RolledBack]),
    ("waiting", &[State::InFlight]),
    ("failed", &[State::Failed]),
    // The next plan finds a conflict where another client changed a node, or a node to assign.
    ("blocked", &[State::Blocked, State::Astray]),
    ("skipped", &[State::Skipped]),
];

/// Where the plan sees a node that it has a step for.
fn planned(action: &Action) -> State {
    match action {
        Action::Assign => State::NotStarted,
        Action::Await { error: Some(_), .. } => State::Failed,
        Action::Await { waiting: Some(_), .. } => State::InFlight,
        Action::Await { waiting: None, error: None } => State::Converged,
    }
}

/// How nodes fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeFailure {
    /// The node reports an error against what it was assigned.
    Rejected,
    /// It did not get there in time.
    TimedOut,
    /// The API server refused to assign it.
    Refused,
}

impl NodeFailure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rejected, Self::TimedOut, Self::Refused];

    /// The value of the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
        }
    }

    fn of(end: &End) -> Option<Self> {
        match end {
            End::Failed { failure: judge::Failure::Refused { .. }, .. } => Some(Self::Rejected),
            End::Failed { failure: judge::Failure::TimedOut { .. }, .. } => Some(Self::TimedOut),
            End::Refused { .. } => Some(Self::Refused),
            _ => None,
        }
    }
}

/// What ended a run before it was through with its nodes. There are few, and they never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunFailure {
    /// Arguments that make no sense together.
    Usage,
    /// The repository cannot be read.
    Repository,
    /// It can be read, and has errors.
    Invalid,
    /// Repository and cluster together allow no plan.
    NoPlan,
    /// A saved plan cannot be read, written or used.
    PlanFile,
    /// Something has changed since the plan was saved.
    StalePlan,
    /// No cluster to talk to.
    NoCluster,
    /// The cluster refused, or failed.
    Cluster,
    /// Another sync holds the lock, or it was lost.
    Locked,
    /// A signal.
    Interrupted,
    /// Something else.
    Internal,
}

impl RunFailure {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Usage,
        Self::Repository,
        Self::Invalid,
        Self::NoPlan,
        Self::PlanFile,
        Self::StalePlan,
        Self::NoCluster,
        Self::Cluster,
        Self::Locked,
        Self::Interrupted,
        Self::Internal,
    ];

    /// The value of the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Repository => "repository",
            Self::Invalid => "invalid",
            Self::NoPlan => "no-plan",
            Self::PlanFile => "plan-file",
            Self::StalePlan => "stale-plan",
            Self::NoCluster => "no-cluster",
            Self::Cluster => "cluster",
            Self::Locked => "locked",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }
}

/// The nodes of one pool, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// How many nodes are in each state; a state without nodes may be missing.
    pub states: BTreeMap<State, usize>,
    /// How many failed in each way; likewise.
    pub failures: BTreeMap<NodeFailure, usize>,
}

impl PoolFacts {
    fn add(&mut self, state: State) {
        *self.states.entry(state).or_default() += 1;
    }

    /// How many nodes each value of the label `state` has.
    #[must_use]
    pub fn labelled(&self) -> [(&'static str, usize); 6] {
        LABELS.map(|(label, states)| (label, states.iter().filter_map(|state| self.states.get(state)).sum()))
    }
}

/// What the cluster's nodes are like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// By pool.
    pub pools: BTreeMap<PoolName, PoolFacts>,
    /// How many nodes no pool selects.
    pub unpooled: usize,
}

impl Nodes {
    /// As the plan sees them.
    #[must_use]
    pub fn planned(plan: &Plan) -> Self {
        let mut nodes = Self { unpooled: plan.unpooled.len(), ..Self::default() };
        for pool in &plan.pools {
            let facts = nodes.pools.entry(pool.name.clone()).or_default();
            for step in pool.steps() {
                let state = planned(&step.action);
                facts.add(state);
                if state == State::Failed {
                    *facts.failures.entry(NodeFailure::Rejected).or_default() += 1;
                }
            }
            for left in &pool.left_alone {
                facts.add(left.why.state());
            }
        }
        nodes
    }

    /// As a rollout, or the watching of one, has left them.
    #[must_use]
    pub fn ended(&self, outcome: &Outcome) -> Self {
        let mut nodes = Self { unpooled: self.unpooled, ..Self::default() };
        for (pool, ended) in &outcome.pools {
            let facts = nodes.pools.entry(pool.clone()).or_default();
            for node in &ended.nodes {
                facts.add(node.end.state());
                if let Some(failure) = NodeFailure::of(&node.end) {
                    *facts.failures.entry(failure).or_default() += 1;
                }
            }
        }
        nodes
    }
}

/// What is noted down of a run while it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The fleet, once the repository has been read.
    pub fleet: Option<FleetName>,
    /// The commit, likewise; unset for a working tree.
    pub commit: Option<CommitId>,
    /// The nodes, once there is a plan.
    pub nodes: Option<Nodes>,
    /// What kind of failure ended the run, if one did.
    pub failure: Option<RunFailure>,
}

impl Record {
    /// The repository was read.
    pub fn read(&mut self, fleet: &FleetName, commit: Option<&CommitId>) {
        (self.fleet, self.commit) = (Some(fleet.clone()), commit.cloned());
    }

    /// There is a plan.
    pub fn planned(&mut self, plan: &Plan) {
        self.nodes = Some(Nodes::planned(plan));
    }

    /// It has been carried out, or as far as that went.
    pub fn ended(&mut self, outcome: &Outcome) {
        self.nodes = Some(self.nodes.take().unwrap_or_default().ended(outcome));
    }
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The command: `sync`, `verify`, `diff`, or `dry-run` for a sync that was to write nothing.
    pub command: &'static str,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Its exit code.
    pub exit: u8,
    /// What was noted down.
    pub record: Record,
    /// What the run before says, where that is known.
    pub before: Option<Before>,
}

/// What is carried over from the run before.
#[derive(Debug, Clone, PartialEq)]
pub struct Before {
    /// Its fleet. Empty: not known.
    pub fleet: String,
    /// When the last one that succeeded ended, in seconds since 1970.
    pub last_success: Option<f64>,
}

impl Eq for Before {}

impl Run {
    /// Whether the command did what it is for. A diff that finds changes does.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.exit == 0 || (self.command == "diff" && self.exit == 1)
    }

    /// The fleet: of a repository that could not be read it is the one of the run before. Empty: not known.
    #[must_use]
    pub fn fleet(&self) -> &str {
        match (&self.record.fleet, &self.before) {
            (Some(fleet), _) => fleet.as_str(),
            (None, Some(before)) => &before.fleet,
            (None, None) => "",
        }
    }

    /// When a run last succeeded, in seconds since 1970. Another fleet's runs do not count.
    #[must_use]
    pub fn last_success(&self) -> Option<f64> {
        if self.succeeded() {
            return Some(seconds(self.ended));
        }
        let before = self.before.as_ref().filter(|before| before.fleet == self.fleet())?;
        before.last_success
    }
}

/// Seconds since 1970, to the millisecond.
#[must_use]
pub fn seconds(time: Timestamp) -> f64 {
    time.as_millisecond() as f64 / 1000.0
}
