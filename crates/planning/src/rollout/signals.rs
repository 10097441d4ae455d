//! What the rollout's state machine is told and what it answers: the words between it and the rim.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::StopReason;
use super::progress::Event;
use crate::plan::Decision;
use nodecfg_contract::Assignment;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::observed::Node;

/// How a plan is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Whether nodes are assigned. If not, the machine only watches them converge (`verify`).
    pub assign: bool,
    /// Whether a node that somebody changes meanwhile is left as it is, rather than decided upon anew: the plan was reviewed, and
    /// what it would be assigned from was not.
    pub as_reviewed: bool,
    /// Whether a failed node is pointed back at what it had before.
    pub rollback_on_failure: bool,
    /// How many assignments of one pool may be on their way to the server at a time, at least 1. Whoever has to wait for
    /// that is looked at again before its turn comes.
    pub concurrency: usize,
    /// A time limit that replaces each pool's own, if given.
    pub timeout: Option<Duration>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The rollout may begin: the ConfigMaps are there and the watch stands.
    Start,
    /// A node, as the watch shows it.
    Observed(Box<Node>),
    /// The same of a node that is not its pool's any more: its labels have changed.
    Moved(Box<Node>),
    /// A node left the cluster.
    Gone(NodeName),
    /// A node was assigned.
    Assigned(NodeName),
    /// A node was not assigned, since somebody had changed it; this is what planning says of it now; no decision, if it is
    /// not its pool's any more. `None`: it is gone.
    Changed(NodeName, Option<Box<(Node, Option<Decision>)>>),
    /// A node was not assigned: the server's words.
    Refused(NodeName, String),
    /// The assignment of a node was not sent after all: nothing is known of it to the server.
    Withdrawn(NodeName),
    /// A node was pointed back, or (with the server's words) was not.
    RolledBack(NodeName, Result<(), String>),
    /// Time passed.
    Tick,
    /// No further node shall be started.
    Stop(StopReason),
    /// No further node of this pool shall be started.
    StopPool(PoolName, StopReason),
    /// No further node shall be started, and those that have not converged shall be pointed back at what they had, as far as
    /// they can return there.
    TakeBack(StopReason),
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Assign this to this node. Answered by [`Input::Assigned`], [`Input::Changed`] or [`Input::Refused`].
    Assign(NodeName, Assignment),
    /// Point this node back by this assignment. Answered by [`Input::RolledBack`].
    RollBack(NodeName, Assignment),
    /// Tell the user.
    Tell(Box<Event>),
}

/// When a node, by its number, or (`None`) a pool wants to be looked at again.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Timestamp, PoolName, Option<usize>)>);

impl Timers {
    pub(super) fn wake(&mut self, at: Timestamp, pool: &PoolName, node: Option<usize>) {
        self.0.insert((at, pool.clone(), node));
    }

    /// When the next time has come.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _, _)| *at)
    }

    /// Whose time has come, the earliest first; forgets it.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<(PoolName, Option<usize>)> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, pool, node)| (pool, node))
    }
}

/// What a pool needs while it handles one input.
pub(super) struct Context<'a> {
    pub(super) now: Timestamp,
    pub(super) commands: &'a mut Vec<Command>,
    pub(super) timers: &'a mut Timers,
}
