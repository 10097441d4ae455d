//! Nodes that are not assigned, in a run that only watches (`verify`). Nodes that joined recently and never had a
//! configuration end as new with `--new-nodes-within`. Others are waited for while a sync may assign them.

use std::time::Duration;

use jiff::Timestamp;

use super::PoolRun;
use super::node_state::Phase;
use crate::before::signals::Context;
use nodecfg_contract::observed::{Age, Node};
use nodecfg_planning::convergence::{ConvergenceFailure, Target, Waiting};

/// Whether nodes that are not assigned are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unassigned {
    /// A sync may assign them.
    Awaited,
    /// No sync runs. A node that has just joined may assign itself.
    Joining,
    /// No sync runs, and no node assigns itself.
    Failed,
}

impl Unassigned {
    /// Reports whether waiting may help a node that is not assigned. `age` is that of a node that never had a
    /// configuration. A node that has not assigned itself within `limit` does not join.
    fn may_end(self, age: Option<Duration>, limit: Duration) -> bool {
        match self {
            Self::Awaited => true,
            Self::Joining => age.is_some_and(|age| age < limit),
            Self::Failed => false,
        }
    }
}

impl PoolRun {
    /// Creation time of a new node, if `--new-nodes-within` accepts it. Remembers the other new nodes.
    pub(super) fn joined_recently(&mut self, number: usize, seen: &Node, now: Timestamp) -> Option<Timestamp> {
        if self.mode.assign {
            return None;
        }
        let joined = seen.new_since().filter(|_| matches!(self.target, Target::Source(_)));
        let Some(joined) = joined else {
            self.new_nodes.remove(&number);
            return None;
        };
        if self.mode.new_nodes_within.is_some_and(|within| Age::between(joined, now).duration() < within) {
            return Some(joined);
        }
        self.new_nodes.insert(number, joined);
        None
    }

    /// Reports whether waiting may help a watched node that is not assigned.
    pub(super) fn awaits_assignment(&self, number: usize, now: Timestamp) -> bool {
        let age = self.new_nodes.get(&number).map(|joined| Age::between(*joined, now).duration());
        self.unassigned.may_end(age, self.timeout)
    }

    /// Fails the watched nodes that are not assigned: no sync runs. Has no effect on a run that assigns nodes.
    pub(crate) fn no_sync_runs(&mut self, joining: bool, context: &mut Context<'_>) {
        if self.mode.assign {
            return;
        }
        self.unassigned = if joining { Unassigned::Joining } else { Unassigned::Failed };
        for number in self.nodes.numbers() {
            let Some(node) = self.nodes.get(number) else { continue };
            if let (&Phase::Watching { since }, Waiting::NotAssigned) = (&node.phase, &node.waiting)
                && !self.awaits_assignment(number, context.time)
            {
                let failure = ConvergenceFailure::NoSync { waiting: Waiting::NotAssigned };
                self.fail(number, failure, context.now.since(since), context);
            }
        }
    }

    /// Failure of a node. With `--new-nodes-within`, the failure of a new node that was not assigned states its age.
    pub(super) fn failure_of_new_node(
        &self,
        number: usize,
        failure: ConvergenceFailure,
        now: Timestamp,
    ) -> ConvergenceFailure {
        let joined = self.new_nodes.get(&number).filter(|_| self.mode.new_nodes_within.is_some());
        let never = |joined: &Timestamp| {
            let age_seconds = Age::between(*joined, now).duration().as_secs();
            Waiting::NeverAssigned { joined: *joined, age_seconds }
        };
        match (failure, joined) {
            (ConvergenceFailure::TimedOut { waiting: Waiting::NotAssigned }, Some(joined)) => {
                ConvergenceFailure::TimedOut { waiting: never(joined) }
            }
            (ConvergenceFailure::NoSync { .. }, Some(joined)) => ConvergenceFailure::NoSync { waiting: never(joined) },
            (failure, _) => failure,
        }
    }
}
