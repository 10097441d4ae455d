//! Facts of a finished run: counts of nodes and failures per pool, and the result. Counts only: node names must not
//! become labels, so that metrics of large clusters stay small.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use nodecfg_contract::names::{CommitId, FleetName, PoolName};
use nodecfg_fleet::hold::HoldReason;
use nodecfg_observed::Observed;
use nodecfg_plan::state::State;
use nodecfg_plan::{Action, Plan, convergence};
use nodecfg_rollout::{End, Outcome};

/// Values of the label `state`, each with the states that it covers. Coarser than [`State`]: alerts depend on these
/// names.
pub const LABELS: [(&str, &[State]); 6] = [
    ("converged", &[State::Converged, State::Settled]),
    ("to_assign", &[State::NotStarted, State::Held, State::RolledBack]),
    ("waiting", &[State::InFlight]),
    ("failed", &[State::Failed]),
    // The next plan finds a conflict where another client changed a node, or a node to assign.
    ("blocked", &[State::Blocked, State::ChangedByOthers]),
    ("skipped", &[State::Skipped]),
];

/// Values of the label `reason` of held nodes.
pub const HOLD_REASONS: [&str; 5] = ["outside_windows", "too_little_time", "exclusion", "other_pool", "gate"];

fn hold_reason(why: &HoldReason) -> &'static str {
    let [outside_windows, too_little_time, exclusion, other_pool, gate] = HOLD_REASONS;
    match why {
        HoldReason::NoWindow => outside_windows,
        HoldReason::TooShort { .. } => too_little_time,
        HoldReason::Exclusion { .. } => exclusion,
        HoldReason::Pool { .. } => other_pool,
        HoldReason::Gate { .. } => gate,
    }
}

/// State of a node with a planned step.
fn planned(action: &Action) -> State {
    match action {
        Action::Assign => State::NotStarted,
        Action::Await { failure: Some(_), .. } => State::Failed,
        Action::Await { waiting: Some(_), .. } => State::InFlight,
        Action::Await { waiting: None, failure: None } => State::Converged,
    }
}

/// Kind of a node's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeFailure {
    /// The node reported an error for its assignment.
    Rejected,
    /// The node did not converge in time.
    TimedOut,
    /// The API server refused the assignment.
    Refused,
    /// Its pods were refused by the kubelet, or not Ready again in time.
    Pods,
}

impl NodeFailure {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Rejected, Self::TimedOut, Self::Refused, Self::Pods];

    /// Value of the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
            Self::Pods => "pods",
        }
    }

    fn of(end: &End) -> Option<Self> {
        match end {
            End::Failed { failure: convergence::ConvergenceFailure::Refused { .. }, .. } => Some(Self::Rejected),
            End::Failed {
                failure:
                    convergence::ConvergenceFailure::TimedOut { .. } | convergence::ConvergenceFailure::NoSync { .. },
                ..
            } => Some(Self::TimedOut),
            End::Failed {
                failure: convergence::ConvergenceFailure::PodsRefused(_) | convergence::ConvergenceFailure::PodsLost(_),
                ..
            } => Some(Self::Pods),
            End::Refused { .. } => Some(Self::Refused),
            _ => None,
        }
    }
}

/// Kind of failure that ended a run early. The kinds never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunFailure {
    /// The arguments contradict each other.
    Usage,
    /// The repository cannot be read.
    Repository,
    /// The repository has errors.
    Invalid,
    /// Repository and cluster allow no plan.
    NoPlan,
    /// A saved plan cannot be read, written or applied.
    PlanFile,
    /// The state changed after the plan was saved.
    StalePlan,
    /// No cluster is configured.
    NoCluster,
    /// The cluster refused a request or failed.
    Cluster,
    /// Another sync holds the lock, or it was lost.
    Locked,
    /// A signal interrupted the run.
    Interrupted,
    /// Any other failure.
    Internal,
}

impl RunFailure {
    /// All kinds.
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

    /// Value of the label.
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

/// Node counts of one pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// Number of nodes per state; a missing state has none.
    pub states: BTreeMap<State, usize>,
    /// Number of failures per kind; a missing kind has none.
    pub failures: BTreeMap<NodeFailure, usize>,
    /// Number of converged nodes on trial; `None` before the end of a rollout.
    pub on_trial: Option<usize>,
    /// Number of held nodes per reason; a missing reason holds none.
    pub held: BTreeMap<&'static str, usize>,
}

impl PoolFacts {
    fn add(&mut self, state: State) {
        *self.states.entry(state).or_default() += 1;
    }

    /// Number of nodes per value of the label `state`.
    #[must_use]
    pub fn labelled(&self) -> [(&'static str, usize); 6] {
        LABELS.map(|(label, states)| (label, states.iter().filter_map(|state| self.states.get(state)).sum()))
    }
}

/// Node counts of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Counts per pool.
    pub pools: BTreeMap<PoolName, PoolFacts>,
    /// Number of nodes that no pool selects.
    pub unpooled: usize,
    /// Number of nodes with the mark of a drain when the cluster was read.
    pub marked: usize,
}

impl Nodes {
    /// Counts before a plan is executed.
    #[must_use]
    pub fn planned(plan: &Plan, observed: &Observed) -> Self {
        let marked = observed.nodes.values().filter(|node| node.drain_mark.is_some()).count();
        let mut nodes = Self { unpooled: plan.unpooled.len(), marked, ..Self::default() };
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

    /// Counts after a rollout or its verification.
    #[must_use]
    pub fn ended(&self, outcome: &Outcome) -> Self {
        let mut nodes = Self { unpooled: self.unpooled, marked: self.marked, ..Self::default() };
        for (pool, ended) in &outcome.pools {
            let facts = nodes.pools.entry(pool.clone()).or_default();
            if let Some(hold) = &ended.held {
                let held = ended.nodes.iter().filter(|node| node.end.state() == State::Held).count();
                facts.held.insert(hold_reason(&hold.why), held);
            }
            for node in &ended.nodes {
                facts.add(node.end.state());
                *facts.on_trial.get_or_insert_default() += usize::from(node.trial.is_some());
                if let Some(failure) = NodeFailure::of(&node.end) {
                    *facts.failures.entry(failure).or_default() += 1;
                }
            }
        }
        nodes
    }
}

/// Record of a run in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// Fleet, after the repository was read.
    pub fleet: Option<FleetName>,
    /// Commit, after the repository was read; unset for a working tree.
    pub commit: Option<CommitId>,
    /// Node counts, after the plan was made.
    pub nodes: Option<Nodes>,
    /// Kind of failure that ended the run, if any.
    pub failure: Option<RunFailure>,
}

impl RunRecord {
    /// Records the repository.
    pub fn read(&mut self, fleet: &FleetName, commit: Option<&CommitId>) {
        (self.fleet, self.commit) = (Some(fleet.clone()), commit.cloned());
    }

    /// Records a plan and the cluster that it is for.
    pub fn planned(&mut self, plan: &Plan, observed: &Observed) {
        self.nodes = Some(Nodes::planned(plan, observed));
    }

    /// Records an outcome, possibly a partial one.
    pub fn ended(&mut self, outcome: &Outcome) {
        self.nodes = Some(self.nodes.take().unwrap_or_default().ended(outcome));
    }
}

/// Finished run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Command: `sync`, `verify`, `diff`, one of them with `-limited` for a run of some nodes, or `dry-run` for a sync
    /// without writes.
    pub command: &'static str,
    /// Duration by a clock that never steps.
    pub took: Duration,
    /// End time.
    pub ended: Timestamp,
    /// Exit code.
    pub exit: u8,
    /// Record of the run.
    pub record: RunRecord,
    /// Values of the previous run, if known.
    pub before: Option<PreviousRun>,
}

/// Values carried over from the previous run.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviousRun {
    /// Fleet; empty when unknown.
    pub fleet: String,
    /// End of the last successful run, in seconds since 1970.
    pub last_success: Option<f64>,
}

impl Eq for PreviousRun {}

impl Run {
    /// Reports whether the command succeeded. A diff that finds changes succeeds.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.exit == 0 || (self.command.starts_with("diff") && self.exit == 1)
    }

    /// Fleet of the run, or of the previous run when the repository is unreadable. Empty when unknown.
    #[must_use]
    pub fn fleet(&self) -> &str {
        match (&self.record.fleet, &self.before) {
            (Some(fleet), _) => fleet.as_str(),
            (None, Some(before)) => &before.fleet,
            (None, None) => "",
        }
    }

    /// End of the last successful run of the same fleet, in seconds since 1970.
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
