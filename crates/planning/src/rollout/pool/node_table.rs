//! The nodes of a pool while it is rolled out: where each is on its way, and how many are where. The counts are kept with
//! every change, so that no event costs a walk over all nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::judge::{Failure, Target, Waiting};
use crate::plan::{Action, LeftAlone, Step, Why};
use crate::rollout::End;
use crate::rollout::progress::NodeCounts;
use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{Assignment, ConfigSource};

/// Where a node is on its way.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// The plan leaves it alone.
    LeftAlone(Why),
    /// Its turn has not come.
    Pending,
    /// Its patch is on its way to the server.
    Assigning,
    /// It points at its target and is watched.
    Watching { since: Timestamp },
    /// It converged.
    Converged { seconds: f64 },
    /// It failed.
    Failed { failure: Failure, seconds: f64, rollback: Rollback },
    /// The server refused its patch.
    Refused { error: String },
    /// Somebody else changed it.
    Changed { to: Option<ConfigSource> },
    /// It left the cluster.
    Gone,
    /// It had not converged, and the patch that points it back is on its way to the server.
    Returning { since: Timestamp },
    /// It points again at what it had, since `pointed`, and is watched until it runs that.
    GoingBack { since: Timestamp, pointed: Timestamp },
    /// It runs again what it had.
    Returned { seconds: f64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rollback {
    No,
    Asked,
    /// It points again at what it had, and is watched until it runs that.
    Pointed {
        since: Timestamp,
    },
    /// It runs again what it had.
    Done,
    /// It points at what it had, and did not come back to it.
    Missed,
}

/// Which condition a node's start depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Unavailable,
    Canary,
    Rest,
}

#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) name: NodeName,
    pub(super) group: Group,
    pub(super) phase: Phase,
    pub(super) from: Option<ConfigSource>,
    /// What this rollout assigns to it, if it does.
    pub(super) assignment: Option<Assignment>,
    /// The error that it reports against its target already, when the plan saw one.
    pub(super) known_error: Option<String>,
    pub(super) was_ready: bool,
    /// Whether it is Ready, as last seen.
    pub(super) ready: bool,
    /// Whether it is available apart from what this rollout does to it, as last seen.
    pub(super) healthy: bool,
    /// Whether it could be pointed back at what it had.
    pub(super) can_return: bool,
    /// What pointing it back needs while it runs the target, when its pool does not allow that.
    pub(super) back_needs: Option<Class>,
    /// Whether it runs the target, as last seen. Unset: it was not seen since the plan was made.
    pub(super) runs_target: Option<bool>,
    /// Whether the watch showed it at what it had, and running that, since it was to be pointed back.
    pub(super) seen_back: bool,
    /// Whether it was told that it is not pointed back.
    pub(super) stays: bool,
    /// Whether the watch has shown it pointing at the target: only then does another source mean somebody else's change,
    /// and not an event from before the assignment.
    pub(super) seen_on_target: bool,
    pub(super) waiting: Waiting,
    pub(super) replans: u8,
    /// How often it lost, as a soaking canary, what made it converged.
    pub(super) relapses: u8,
}

impl NodeState {
    pub(super) fn in_flight(&self) -> bool {
        match &self.phase {
            Phase::Assigning | Phase::Watching { .. } | Phase::Returning { .. } | Phase::GoingBack { .. } => true,
            Phase::Failed { rollback, .. } => matches!(rollback, Rollback::Asked | Rollback::Pointed { .. }),
            _ => false,
        }
    }

    /// Whether it was down before, and has failed by not answering: that tells nothing about the configuration.
    pub(super) fn was_down(&self) -> bool {
        let silent = |failure: &Failure| matches!(failure, Failure::TimedOut { waiting: Waiting::NotAcknowledged });
        !self.was_ready && matches!(&self.phase, Phase::Failed { failure, .. } if silent(failure))
    }

    /// Whether this rollout has assigned it, and what it had before can be had again.
    pub(super) fn may_return(&self) -> bool {
        self.assignment.is_some() && self.can_return
    }

    /// What keeps it from being pointed back now: going back costs its pods nothing as long as it runs what it had.
    pub(super) fn held_by(&self) -> Option<Class> {
        self.back_needs.filter(|_| self.runs_target != Some(false))
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed { .. })
    }

    /// Invariant 4: not Ready, in transition, or failed.
    pub(super) fn unavailable(&self) -> bool {
        match &self.phase {
            Phase::Gone => false,
            Phase::Assigning | Phase::Watching { .. } | Phase::Failed { .. } => true,
            Phase::Returning { .. } | Phase::GoingBack { .. } => true,
            _ => !self.healthy,
        }
    }
}

impl NodeState {
    /// A node that the plan leaves alone.
    pub(super) fn left_alone(left: &LeftAlone, target: &Target) -> Self {
        Self {
            name: left.node.clone(),
            group: Group::Rest,
            phase: Phase::LeftAlone(left.why.clone()),
            from: match &left.why {
                Why::Converged => target.source().cloned(),
                Why::Adopted { source } | Why::Conflict { source, .. } => Some(source.clone()),
                _ => None,
            },
            assignment: None,
            known_error: None,
            was_ready: !left.unavailable,
            ready: !left.unavailable,
            healthy: !left.unavailable,
            can_return: false,
            back_needs: None,
            runs_target: None,
            seen_back: false,
            stays: false,
            seen_on_target: left.why == Why::Converged,
            waiting: Waiting::NotAssigned,
            replans: 0,
            relapses: 0,
        }
    }

    /// A node that is to make its transition.
    pub(super) fn planned(step: &Step, group: Group) -> Self {
        let (assignment, waiting, known_error) = match &step.action {
            Action::Assign => (Some(step.assignment.clone()), None, None),
            Action::Await { waiting, error } => (None, waiting.clone(), error.clone()),
        };
        let awaited = assignment.is_none();
        let before = if awaited { Waiting::NotAcknowledged } else { Waiting::NotAssigned };
        Self {
            name: step.node.clone(),
            group,
            phase: Phase::Pending,
            from: step.assignment.from.clone(),
            assignment,
            known_error,
            was_ready: step.was_ready,
            ready: step.was_ready,
            healthy: step.available,
            can_return: step.can_return,
            back_needs: step.back_needs,
            runs_target: None,
            seen_back: false,
            stays: false,
            seen_on_target: awaited,
            waiting: waiting.unwrap_or(before),
            replans: 0,
            relapses: 0,
        }
    }

    /// How it ended, or stands, and after how many seconds.
    pub(super) fn end(&self) -> (End, Option<f64>) {
        match &self.phase {
            Phase::LeftAlone(why) => (End::LeftAlone { why: why.clone() }, None),
            Phase::Pending => (End::NotStarted, None),
            Phase::Assigning | Phase::Watching { .. } => (End::InFlight, None),
            Phase::Returning { .. } | Phase::GoingBack { .. } => (End::InFlight, None),
            Phase::Returned { seconds } => (End::RolledBack, Some(*seconds)),
            Phase::Converged { seconds } => (End::Converged, Some(*seconds)),
            Phase::Failed { failure, seconds, rollback } => {
                let rolled_back = matches!(rollback, Rollback::Done | Rollback::Missed);
                (End::Failed { failure: failure.clone(), rolled_back }, Some(*seconds))
            }
            Phase::Refused { error } => (End::Refused { error: error.clone() }, None),
            Phase::Changed { to } => (End::Changed { to: to.clone() }, None),
            Phase::Gone => (End::Gone, None),
        }
    }
}

/// All nodes of a pool, by number; the number of a node never changes.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    nodes: Vec<NodeState>,
    index: BTreeMap<NodeName, usize>,
    unavailable: usize,
    in_flight: usize,
    pending: usize,
    assigning: usize,
    shown: NodeCounts,
}

/// What a node adds to each count. The last four are what events show: a node that points at its target from the start
/// is in transition, one whose patch has not been answered is pending.
fn counts(node: &NodeState) -> [usize; 8] {
    let (pending, assigning) = (node.phase == Phase::Pending, node.phase == Phase::Assigning);
    let moves = matches!(node.phase, Phase::Watching { .. } | Phase::Returning { .. } | Phase::GoingBack { .. });
    let waits = node.assignment.is_some() && (pending || assigning);
    [
        node.unavailable(),
        node.in_flight(),
        pending,
        assigning,
        waits,
        moves || (pending && !waits),
        matches!(node.phase, Phase::Converged { .. }),
        matches!(node.phase, Phase::Failed { .. } | Phase::Refused { .. }),
    ]
    .map(usize::from)
}

impl NodeTable {
    /// Takes a node in, and numbers it.
    pub(super) fn add(&mut self, node: NodeState) -> usize {
        let number = self.nodes.len();
        self.count([0; 8], counts(&node));
        self.index.insert(node.name.clone(), number);
        self.nodes.push(node);
        number
    }

    /// Changes a node, keeping the counts true.
    pub(super) fn update(&mut self, number: usize, change: impl FnOnce(&mut NodeState)) {
        let Some(node) = self.nodes.get_mut(number) else { return };
        let before = counts(node);
        change(node);
        let after = counts(node);
        self.count(before, after);
    }

    fn count(&mut self, before: [usize; 8], after: [usize; 8]) {
        let NodeCounts { pending, in_flight, done, failed, .. } = &mut self.shown;
        let kept = [&mut self.unavailable, &mut self.in_flight, &mut self.pending, &mut self.assigning];
        let totals = kept.into_iter().chain([pending, in_flight, done, failed]);
        for (total, (before, after)) in totals.zip(before.into_iter().zip(after)) {
            *total = *total + after - before;
        }
    }

    /// Puts a node into a phase.
    pub(super) fn set(&mut self, number: usize, phase: Phase) {
        self.update(number, |node| node.phase = phase);
    }

    pub(super) fn get(&self, number: usize) -> Option<&NodeState> {
        self.nodes.get(number)
    }

    /// The node, if it is in just this phase.
    pub(super) fn in_phase(&self, number: usize, phase: &Phase) -> Option<&NodeState> {
        self.nodes.get(number).filter(|node| node.phase == *phase)
    }

    pub(super) fn number_of(&self, node: &NodeName) -> Option<usize> {
        self.index.get(node).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.index.keys()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeState> {
        self.nodes.iter()
    }

    /// The numbers of all nodes.
    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.nodes.len()
    }

    /// The nodes by name.
    pub(super) fn by_name(&self) -> impl Iterator<Item = &NodeState> {
        self.index.values().filter_map(|number| self.nodes.get(*number))
    }

    /// Where the nodes are that the plan has a step for; `steps` is their number.
    pub(super) fn counts(&self, steps: usize) -> NodeCounts {
        NodeCounts { left: steps.saturating_sub(self.shown.total()), ..self.shown }
    }

    pub(super) fn unavailable(&self) -> usize {
        self.unavailable
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn assigning(&self) -> usize {
        self.assigning
    }

    pub(super) fn pending(&self) -> usize {
        self.pending
    }
}
