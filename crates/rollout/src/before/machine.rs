//! State machine of a rollout: turns each event and its time into commands.
//!
//! Pools are rolled out in parallel, each within its own budget. The machine does no IO and reads no clock, so tests
//! can try every order of events.

use std::collections::BTreeMap;

use super::pool::PoolRun;
use super::pool_order::{EarlierPools, FleetLimit};
use super::signals::{Context, Timers};
use crate::Outcome;
use crate::forecast::PoolStart;
pub use crate::signals::{Command, Input, Mode};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_planning::drain::DrainFailure;
use nodecfg_planning::instant::{Instant, Now};
use nodecfg_planning::plan::Plan;

/// A rollout in progress.
#[derive(Debug)]
pub struct Machine {
    pub(super) pools: BTreeMap<PoolName, PoolRun>,
    pool_of: BTreeMap<NodeName, PoolName>,
    pub(super) timers: Timers,
    /// Whether a node was started in this run.
    started: bool,
    /// Limit of unavailable nodes of all pools, and its use.
    pub(super) limit: FleetLimit,
    /// Pools that others wait for.
    pub(super) earlier: EarlierPools,
}

impl Machine {
    /// Creates the machine for a plan.
    #[must_use]
    pub fn new(plan: &Plan, mode: Mode) -> Self {
        let pools: BTreeMap<PoolName, PoolRun> =
            plan.pools.iter().map(|pool| (pool.name.clone(), PoolRun::new(&plan.fleet, pool, mode))).collect();
        let pool_of = pools
            .iter()
            .flat_map(|(name, pool)| pool.node_names().map(move |node| (node.clone(), name.clone())))
            .collect();
        let limit = FleetLimit::new(plan.budget(), pools.values());
        Self { pools, pool_of, timers: Timers::default(), started: false, limit, earlier: EarlierPools::default() }
    }

    /// Handles one event and returns the commands that follow.
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Command> {
        let mut commands = Vec::new();
        match input {
            Input::Start => self.for_each_pool(now, &mut commands, PoolRun::start),
            Input::Stop(reason) => self.for_each_pool(now, &mut commands, |pool, context| pool.stop(&reason, context)),
            Input::StopPool(name, reason) => {
                self.on_pool(&name, now, &mut commands, |pool, context| pool.stop(&reason, context));
            }
            Input::RollBackAll(reason) => {
                self.for_each_pool(now, &mut commands, |pool, context| pool.roll_back_all(&reason, context))
            }
            Input::PointerMoved(name, result) => {
                self.on_pool(&name, now, &mut commands, |pool, context| pool.pointer_moved(result, context));
            }
            Input::Gate(asked) => {
                self.for_each_pool(now, &mut commands, |pool, context| pool.gate_answered(&asked, context));
            }
            Input::NoSync { joining } => {
                self.for_each_pool(now, &mut commands, |pool, context| pool.no_sync_runs(joining, context));
            }
            Input::Tick => self.tick(now, &mut commands),
            Input::Observed(node) => {
                self.on_node(&node.name, now, &mut commands, |pool, index, context| {
                    pool.observed(index, &node, context)
                });
            }
            Input::Unselected(node) => {
                self.on_node(&node.name, now, &mut commands, |pool, index, context| {
                    pool.unselected(index, &node, context)
                });
            }
            Input::Gone(node) => {
                self.on_node(&node, now, &mut commands, PoolRun::gone);
            }
            Input::Assigned(node) => self.on_node(&node, now, &mut commands, PoolRun::assigned),
            Input::Withdrawn(node) => self.on_node(&node, now, &mut commands, |pool, index, _| pool.withdrawn(index)),
            Input::Changed(node, None) => self.on_node(&node, now, &mut commands, PoolRun::gone),
            Input::Changed(node, Some(update)) => {
                let (current, decision) = *update;
                self.on_node(&node, now, &mut commands, |pool, index, context| {
                    pool.changed(index, &current, decision, context);
                });
            }
            Input::Marked(node, result) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| pool.marked(index, result, context));
            }
            Input::PerhapsMarked(node, error) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| {
                    pool.perhaps_marked(index, error, context);
                });
            }
            Input::PodsListed(node, pods) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| pool.pods_listed(index, pods, context));
            }
            Input::Pods(node, change) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| {
                    pool.pods_changed(index, change, context);
                });
            }
            Input::PodsUnknown(node, error) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| {
                    pool.drain_failed(index, DrainFailure::Request { error }, context);
                });
            }
            Input::Evicted(node, uid, answer) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| {
                    pool.evicted(index, &uid, answer, context);
                });
            }
            Input::Volumes(node, count) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| {
                    pool.volumes_counted(index, count, context);
                });
            }
            Input::PodDeleted(node, uid, result) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| {
                    pool.pod_deleted(index, &uid, result, context);
                });
            }
            Input::Released(node, result) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| pool.released(index, result, context));
            }
            Input::Refused(node, error) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| pool.refused(index, error, context));
            }
            Input::RolledBack(node, result) => {
                self.on_node(&node, now, &mut commands, |pool, index, context| {
                    pool.rolled_back(index, result, context)
                });
            }
        }
        self.use_room(now, &mut commands);
        self.advance_order(now, &mut commands);
        if !self.started && self.pools.values().any(PoolRun::has_started) {
            self.started = true;
            self.pools.values_mut().for_each(PoolRun::end_baseline);
        }
        commands
    }

    fn for_each_pool(
        &mut self,
        now: Now,
        commands: &mut Vec<Command>,
        mut act: impl FnMut(&mut PoolRun, &mut Context<'_>),
    ) {
        let mut context = Context::new(now, commands, &mut self.timers);
        for pool in self.pools.values_mut() {
            self.limit.change(pool, &mut context, &mut act);
        }
    }

    pub(super) fn on_pool(
        &mut self,
        name: &PoolName,
        now: Now,
        commands: &mut Vec<Command>,
        act: impl FnOnce(&mut PoolRun, &mut Context<'_>),
    ) {
        let Some(pool) = self.pools.get_mut(name) else { return };
        self.limit.change(pool, &mut Context::new(now, commands, &mut self.timers), act);
    }

    fn on_node(
        &mut self,
        node: &NodeName,
        now: Now,
        commands: &mut Vec<Command>,
        act: impl FnOnce(&mut PoolRun, usize, &mut Context<'_>),
    ) {
        // Ignores nodes of no pool and nodes that joined after the plan was made.
        let Some(pool) = self.pool_of.get(node).and_then(|pool| self.pools.get_mut(pool)) else { return };
        let Some(index) = pool.index_of(node) else { return };
        let mut context = Context::new(now, commands, &mut self.timers);
        self.limit.change(pool, &mut context, |pool, context| act(pool, index, context));
    }

    fn tick(&mut self, now: Now, commands: &mut Vec<Command>) {
        while let Some((name, node)) = self.timers.due(now.instant) {
            self.on_pool(&name, now, commands, |pool, context| pool.timer_fired(node, context));
        }
    }

    /// All nodes of all pools, including those that the plan leaves unchanged.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.pool_of.keys()
    }

    /// Moment at which [`Input::Tick`] is needed next.
    #[must_use]
    pub fn next_tick(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Reports whether the rollout needs no further event.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.pools.values().all(PoolRun::is_finished)
    }

    /// Whether each pool starts nodes, waits, is held or stops, right after [`Input::Start`].
    pub(super) fn starts(&self) -> BTreeMap<PoolName, PoolStart> {
        self.pools.iter().map(|(name, pool)| (name.clone(), pool.pool_start())).collect()
    }

    /// Result of the rollout so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome { pools: self.pools.iter().map(|(name, pool)| (name.clone(), pool.outcome())).collect() }
    }

    /// Number of unavailable nodes of all pools, which the limit of the fleet counts.
    #[must_use]
    pub fn unavailable(&self) -> usize {
        self.limit.unavailable()
    }

    /// Number of unavailable nodes of a pool and its budget, for tests of the invariant and for reports.
    #[must_use]
    pub fn budget_of(&self, pool: &PoolName) -> Option<(usize, usize)> {
        self.pools.get(pool).map(PoolRun::budget)
    }
}
