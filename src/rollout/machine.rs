//! The rollout's state machine: told what happens and when, it says what to do next.
//!
//! Pools are rolled out side by side, each within its own budget. The machine does no IO and reads no clock, so that every
//! order of events can be tried in a test.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use json_patch::Patch;

use super::pool::PoolRun;
use super::progress::Progress;
use super::{Outcome, StopReason};
use crate::names::{NodeName, PoolName};
use crate::observed::Node;
use crate::plan::{Decision, Plan};

/// How a plan is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Whether nodes are assigned. If not, the machine only watches them converge (`verify`).
    pub assign: bool,
    /// Whether a failed node is pointed back at what it had before.
    pub rollback_on_failure: bool,
    /// A time limit that replaces each pool's own, if given.
    pub timeout: Option<Duration>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The rollout may begin: the ConfigMaps are there and the watch stands.
    Start,
    /// A node, as the watch shows it.
    Observed(Node),
    /// A node left the cluster.
    Gone(NodeName),
    /// A node was assigned.
    Assigned(NodeName),
    /// A node was not assigned, since somebody had changed it; this is what planning says of it now. `None`: it is gone.
    Changed(NodeName, Option<(Node, Decision)>),
    /// A node was not assigned: the server's words.
    Refused(NodeName, String),
    /// The patch of a node was not sent after all: nothing is known of it to the server.
    Withdrawn(NodeName),
    /// A node was pointed back, or (with the server's words) was not.
    RolledBack(NodeName, Result<(), String>),
    /// Time passed.
    Tick,
    /// No further node shall be started.
    Stop(StopReason),
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Send this patch for this node. Answered by [`Input::Assigned`], [`Input::Changed`] or [`Input::Refused`].
    Assign(NodeName, Patch),
    /// Send this patch for this node. Answered by [`Input::RolledBack`].
    RollBack(NodeName, Patch),
    /// Tell the user.
    Tell(Progress),
}

/// A rollout in progress.
#[derive(Debug)]
pub struct Machine {
    pools: BTreeMap<PoolName, PoolRun>,
    pool_of: BTreeMap<NodeName, PoolName>,
    timers: Timers,
}

/// When a node or a pool wants to be looked at again.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Timestamp, PoolName, Option<usize>)>);

impl Timers {
    pub(super) fn wake(&mut self, at: Timestamp, pool: &PoolName, node: Option<usize>) {
        self.0.insert((at, pool.clone(), node));
    }
}

impl Machine {
    /// Makes the machine for a plan.
    #[must_use]
    pub fn new(plan: &Plan, mode: Mode) -> Self {
        let pools: BTreeMap<PoolName, PoolRun> =
            plan.pools.iter().map(|pool| (pool.name.clone(), PoolRun::new(pool, mode))).collect();
        let pool_of = pools
            .iter()
            .flat_map(|(name, pool)| pool.node_names().map(move |node| (node.clone(), name.clone())))
            .collect();
        Self { pools, pool_of, timers: Timers::default() }
    }

    /// Takes what happened, answers with what to do.
    pub fn step(&mut self, input: Input, now: Timestamp) -> Vec<Command> {
        let mut commands = Vec::new();
        match input {
            Input::Start => self.each(now, &mut commands, PoolRun::start),
            Input::Stop(reason) => self.each(now, &mut commands, |pool, context| pool.stop(&reason, context)),
            Input::Tick => self.tick(now, &mut commands),
            Input::Observed(node) => {
                self.on(&node.name, now, &mut commands, |pool, index, context| pool.observed(index, &node, context));
            }
            Input::Gone(node) => {
                self.on(&node, now, &mut commands, PoolRun::gone);
            }
            Input::Assigned(node) => self.on(&node, now, &mut commands, PoolRun::assigned),
            Input::Withdrawn(node) => self.on(&node, now, &mut commands, |pool, index, _| pool.withdrawn(index)),
            Input::Changed(node, None) => self.on(&node, now, &mut commands, PoolRun::gone),
            Input::Changed(node, Some((current, decision))) => {
                self.on(&node, now, &mut commands, |pool, index, context| {
                    pool.changed(index, &current, decision, context);
                });
            }
            Input::Refused(node, error) => {
                self.on(&node, now, &mut commands, |pool, index, context| pool.refused(index, error, context));
            }
            Input::RolledBack(node, result) => {
                self.on(&node, now, &mut commands, |pool, index, context| pool.rolled_back(index, result, context));
            }
        }
        commands
    }

    fn each(
        &mut self,
        now: Timestamp,
        commands: &mut Vec<Command>,
        mut act: impl FnMut(&mut PoolRun, &mut Context<'_>),
    ) {
        for pool in self.pools.values_mut() {
            act(pool, &mut Context { now, commands, timers: &mut self.timers });
        }
    }

    fn on(
        &mut self,
        node: &NodeName,
        now: Timestamp,
        commands: &mut Vec<Command>,
        act: impl FnOnce(&mut PoolRun, usize, &mut Context<'_>),
    ) {
        // Nodes of no pool, and nodes that joined after the plan was made, are no business of this rollout.
        let Some(pool) = self.pool_of.get(node).and_then(|pool| self.pools.get_mut(pool)) else { return };
        let Some(index) = pool.index_of(node) else { return };
        act(pool, index, &mut Context { now, commands, timers: &mut self.timers });
    }

    fn tick(&mut self, now: Timestamp, commands: &mut Vec<Command>) {
        while let Some((at, name, node)) = self.timers.0.first().cloned() {
            if at > now {
                break;
            }
            self.timers.0.pop_first();
            if let Some(pool) = self.pools.get_mut(&name) {
                pool.woken(node, &mut Context { now, commands, timers: &mut self.timers });
            }
        }
    }

    /// When [`Input::Tick`] is next needed.
    #[must_use]
    pub fn next_tick(&self) -> Option<Timestamp> {
        self.timers.0.first().map(|(at, _, _)| *at)
    }

    /// Whether nothing more will be done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.pools.values().all(PoolRun::is_finished)
    }

    /// How it ended, or stands. `now` is only needed for nodes that are still on their way.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome { pools: self.pools.iter().map(|(name, pool)| (name.clone(), pool.outcome())).collect() }
    }

    /// How many nodes of a pool are unavailable, and how many may be; for tests of the invariant and for reports.
    #[must_use]
    pub fn budget_of(&self, pool: &PoolName) -> Option<(usize, usize)> {
        self.pools.get(pool).map(PoolRun::budget)
    }
}

/// What a pool needs while it handles one input.
pub(super) struct Context<'a> {
    pub(super) now: Timestamp,
    pub(super) commands: &'a mut Vec<Command>,
    pub(super) timers: &'a mut Timers,
}

impl Context<'_> {
    pub(super) fn tell(&mut self, progress: Progress) {
        self.commands.push(Command::Tell(progress));
    }
}
