//! State machine of a rollout: turns each event and its time into commands.
//!
//! Pools are rolled out in parallel, each within its own budget. The machine does no IO and reads no clock, so tests can try
//! every order of events.

use std::collections::{BTreeMap, BTreeSet};

use super::Outcome;
use super::outcome::PoolStart;
use super::pool::blockers::MayStart;
use super::pool::blockers::order::{Room, Standing};
use super::pool::{Id, Pool};
pub use super::signals::{Command, Input, Mode, Shown};
use crate::instant::{Instant, Now};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::hold::{Hold, HoldReason};
use nodecfg_plan::Plan;
use nodecfg_plan::drain::DrainFailure;

/// A run that follows its inputs.
pub trait StateMachine: Send {
    /// Handles one event and returns the commands that follow.
    fn step(&mut self, input: Input, now: Now) -> Vec<Command>;

    /// Nodes of the run that are not among these.
    fn missing(&self, present: &BTreeSet<NodeName>) -> Vec<NodeName>;

    /// Moment at which [`Input::Tick`] is needed next.
    fn next_tick(&self) -> Option<Instant>;

    /// Reports whether the run needs no further event.
    fn is_finished(&self) -> bool;

    /// Result of the run so far.
    fn outcome(&self) -> Outcome;
}

/// A rollout in progress.
#[derive(Debug)]
pub struct Machine {
    pools: BTreeMap<PoolName, Pool>,
    /// Pool and number of each node.
    nodes: BTreeMap<NodeName, (PoolName, Id)>,
    /// Times at which a pool needs a tick.
    timers: BTreeSet<(Instant, PoolName)>,
    /// Limit of unavailable nodes of all pools. `None`: each pool has its own limit only.
    limit: Option<usize>,
    usage: Usage,
    /// Whether `usage` changed since the pools last learned it.
    is_news: bool,
    /// Pools that wait for others.
    waiting: BTreeSet<PoolName>,
    earlier: EarlierPools,
    /// Whether a node was started in this run.
    baseline_ended: bool,
}

/// Nodes that use the limit of all pools, so that counting needs no iteration over all pools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    unavailable: usize,
    in_flight: usize,
}

impl Usage {
    fn of(pool: &Pool) -> Self {
        Self { unavailable: pool.budget().0, in_flight: pool.in_flight() }
    }

    fn replace(self, before: Self, after: Self) -> Self {
        Self {
            unavailable: self.unavailable + after.unavailable - before.unavailable,
            in_flight: self.in_flight + after.in_flight - before.in_flight,
        }
    }
}

impl Machine {
    /// Creates the machine for a plan.
    #[must_use]
    pub fn new(plan: &Plan, mode: Mode) -> Self {
        let pools: BTreeMap<PoolName, Pool> =
            plan.pools.iter().map(|pool| (pool.name.clone(), Pool::new(&plan.fleet, pool, mode))).collect();
        let nodes = pools.iter().flat_map(|(name, pool)| pool.ids().map(move |(node, id)| (node, (name, id))));
        let nodes = nodes.map(|(node, (name, id))| (node.clone(), (name.clone(), id))).collect();
        let usage = pools.values().fold(Usage::default(), |sum, pool| sum.replace(Usage::default(), Usage::of(pool)));
        let waits = plan.pools.iter().filter(|pool| !pool.policy.after.is_empty());
        Self {
            nodes,
            timers: BTreeSet::new(),
            limit: plan.budget(),
            usage,
            is_news: true,
            waiting: waits.map(|pool| pool.name.clone()).collect(),
            earlier: EarlierPools::default(),
            baseline_ended: false,
            pools,
        }
    }

    fn on_pools(&mut self, now: Now, commands: &mut Vec<Command>, mut act: impl FnMut(&mut Pool)) {
        let names: Vec<PoolName> = self.pools.keys().cloned().collect();
        names.iter().for_each(|name| self.on_pool(name, now, commands, &mut act));
    }

    fn on_node(&mut self, node: &NodeName, now: Now, commands: &mut Vec<Command>, act: impl FnOnce(&mut Pool, Id)) {
        // Ignores nodes of no pool and nodes that joined after the plan was made.
        let Some((name, id)) = self.nodes.get(node).cloned() else { return };
        self.on_pool(&name, now, commands, |pool| act(pool, id));
    }

    /// Changes a pool that knows what the others use of the limit, and updates this use and the pool's timer.
    fn on_pool(&mut self, name: &PoolName, now: Now, commands: &mut Vec<Command>, act: impl FnOnce(&mut Pool)) {
        let Some(pool) = self.pools.get_mut(name) else { return };
        let (before, ticked) = (Usage::of(pool), pool.next_tick());
        pool.share(room(self.limit, self.usage, before));
        commands.extend(pool.step(now, act));
        let (after, ticks) = (Usage::of(pool), pool.next_tick());
        self.usage = self.usage.replace(before, after);
        self.is_news |= after != before;
        if ticks != ticked {
            if let Some(at) = ticked {
                self.timers.remove(&(at, name.clone()));
            }
            self.timers.extend(ticks.map(|at| (at, name.clone())));
        }
    }

    fn tick(&mut self, now: Now, commands: &mut Vec<Command>) {
        let due = self.timers.iter().take_while(|(at, _)| *at <= now.instant);
        let due: BTreeSet<PoolName> = due.map(|(_, name)| name.clone()).collect();
        due.iter().for_each(|name| self.on_pool(name, now, commands, Pool::tick));
    }

    /// Lets the pools start nodes for which another pool has made room, in the order of their names.
    fn share_room(&mut self, now: Now, commands: &mut Vec<Command>) {
        while self.limit.is_some() && std::mem::take(&mut self.is_news) {
            let (limit, usage) = (self.limit, self.usage);
            let needs_room = |pool: &mut Pool| pool.share(room(limit, usage, Usage::of(pool)));
            let concerned = self.pools.iter_mut().filter_map(|(name, pool)| needs_room(pool).then(|| name.clone()));
            for name in concerned.collect::<Vec<PoolName>>() {
                self.on_pool(&name, now, commands, |_| ());
            }
        }
    }

    /// Tells the pools that wait for others whether their turn has come, until that tells none anything new.
    fn advance_order(&mut self, now: Now, commands: &mut Vec<Command>) {
        loop {
            let Self { pools, earlier, waiting, .. } = self;
            let news = |name: &PoolName| {
                let pool = pools.get(name)?;
                let turn = turn_of(pool, pools, earlier, now.instant)?;
                (*pool.told() != turn).then(|| (name.clone(), turn))
            };
            let news: Vec<(PoolName, MayStart)> = waiting.iter().filter_map(news).collect();
            if news.is_empty() {
                return;
            }
            for (name, turn) in news {
                if turn == MayStart::Yes {
                    self.waiting.remove(&name);
                }
                self.on_pool(&name, now, commands, |pool| pool.tell(turn));
            }
        }
    }

    /// Whether each pool starts nodes, waits, is held or stops, right after [`Input::Start`].
    pub(super) fn starts(&self) -> BTreeMap<PoolName, PoolStart> {
        self.pools.iter().map(|(name, pool)| (name.clone(), pool.pool_start())).collect()
    }

    /// Number of unavailable nodes of all pools, which the limit of the fleet counts.
    #[must_use]
    pub fn unavailable(&self) -> usize {
        self.usage.unavailable
    }

    /// Number of unavailable nodes of a pool and its budget, for tests of the invariant and for reports.
    #[must_use]
    pub fn budget_of(&self, pool: &PoolName) -> Option<(usize, usize)> {
        self.pools.get(pool).map(Pool::budget)
    }
}

impl StateMachine for Machine {
    fn step(&mut self, input: Input, now: Now) -> Vec<Command> {
        let mut commands = Vec::new();
        let out = &mut commands;
        match input {
            Input::Start => self.on_pools(now, out, Pool::start),
            Input::Stop(reason) => self.on_pools(now, out, |pool| pool.stop(&reason)),
            Input::RollBackAll(reason) => self.on_pools(now, out, |pool| pool.roll_back_all(&reason)),
            Input::Gate(asked) => self.on_pools(now, out, |pool| pool.gate_answered(&asked)),
            Input::StopPool(name, reason) => self.on_pool(&name, now, out, |pool| pool.stop(&reason)),
            Input::PointerMoved(name, result) => self.on_pool(&name, now, out, |pool| pool.pointer_moved(result)),
            Input::PermitAnswered(node, answers) => {
                self.on_node(&node, now, out, |pool, id| pool.permit_answered(id, &answers));
            }
            Input::NoSync { .. } => {}
            Input::Tick => self.tick(now, out),
            Input::Observed(node) => self.on_node(&node.name, now, out, |pool, id| pool.observed(id, &node)),
            Input::Unselected(node) => self.on_node(&node.name, now, out, |pool, id| pool.unselected(id, &node)),
            Input::Gone(node) | Input::Changed(node, None) => self.on_node(&node, now, out, Pool::gone),
            Input::Assigned(node) => self.on_node(&node, now, out, Pool::assigned),
            Input::Withdrawn(node) => self.on_node(&node, now, out, Pool::withdrawn),
            Input::Refused(node, error) => self.on_node(&node, now, out, |pool, id| pool.refused(id, error)),
            Input::Changed(node, Some(update)) => {
                let (seen, decision) = *update;
                self.on_node(&node, now, out, |pool, id| pool.changed(id, &seen, decision));
            }
            Input::Marked(node, result) => self.on_node(&node, now, out, |pool, id| pool.marked(id, result)),
            Input::PerhapsMarked(node, error) => {
                self.on_node(&node, now, out, |pool, id| pool.perhaps_marked(id, error))
            }
            Input::Claimed(node, by) => self.on_node(&node, now, out, |pool, id| pool.claimed(id, by)),
            Input::PodsListed(node, pods) => self.on_node(&node, now, out, |pool, id| pool.pods_listed(id, pods)),
            Input::Pods(node, change) => self.on_node(&node, now, out, |pool, id| pool.pods_changed(id, change)),
            Input::PodsUnknown(node, error) => {
                let failure = DrainFailure::Request { error };
                self.on_node(&node, now, out, |pool, id| pool.drain_failed(id, failure));
            }
            Input::Evicted(node, uid, answer) => {
                self.on_node(&node, now, out, |pool, id| pool.evicted(id, &uid, answer))
            }
            Input::Volumes(node, count) => self.on_node(&node, now, out, |pool, id| pool.volumes_counted(id, count)),
            Input::PodDeleted(node, uid, result) => {
                self.on_node(&node, now, out, |pool, id| pool.pod_deleted(id, &uid, result));
            }
            Input::Released(node, result) => self.on_node(&node, now, out, |pool, id| pool.released(id, result)),
            Input::RolledBack(node, result) => self.on_node(&node, now, out, |pool, id| pool.rolled_back(id, result)),
        }
        self.share_room(now, out);
        self.advance_order(now, out);
        if !self.baseline_ended && self.pools.values().any(Pool::has_started) {
            self.baseline_ended = true;
            self.pools.values_mut().for_each(Pool::end_baseline);
        }
        commands
    }

    fn missing(&self, present: &BTreeSet<NodeName>) -> Vec<NodeName> {
        self.nodes.keys().filter(|node| !present.contains(*node)).cloned().collect()
    }

    fn next_tick(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn is_finished(&self) -> bool {
        self.pools.values().all(Pool::is_finished)
    }

    fn outcome(&self) -> Outcome {
        Outcome { pools: self.pools.iter().map(|(name, pool)| (name.clone(), pool.outcome())).collect() }
    }
}

/// Whether the turn of a pool has come. `None`: it waits for none.
fn turn_of(
    pool: &Pool,
    pools: &BTreeMap<PoolName, Pool>,
    earlier: &mut EarlierPools,
    now: Instant,
) -> Option<MayStart> {
    let mut begins = now;
    let mut turn = MayStart::Yes;
    for first in pool.waits_for()? {
        // A pool without nodes has nothing to wait for.
        let Some(other) = pools.get(first) else { continue };
        match earlier.wait(first, other, now) {
            Wait::Ended => {
                let why = HoldReason::Pool { pool: first.clone() };
                return Some(MayStart::Hold(Hold { why, next: None }));
            }
            Wait::Running { ends: None } if turn == MayStart::Yes => turn = MayStart::AfterOthers,
            Wait::Running { ends: None } => {}
            Wait::Running { ends: Some(ends) } => turn = MayStart::NotBefore(ends),
            Wait::Soaking { until } if !pool.has_begun() => begins = begins.max(until),
            Wait::Soaking { .. } => {}
        }
    }
    Some(if turn == MayStart::Yes && begins > now { MayStart::NotBefore(begins) } else { turn })
}

/// What the limit of all pools leaves to a pool that uses this part of it.
fn room(limit: Option<usize>, usage: Usage, own: Usage) -> Room {
    let (elsewhere, is_in_flight) = (usage.unavailable - own.unavailable, usage.in_flight > own.in_flight);
    if limit.is_some() { Room { limit, elsewhere, is_in_flight } } else { Room::default() }
}

/// What a pool means for those that wait for it.
enum Wait {
    /// They wait, at most until this time if it is known.
    Running { ends: Option<Instant> },
    /// They wait for the end of its soak.
    Soaking { until: Instant },
    /// They wait in vain.
    Ended,
}

/// Number of times that the time limit of a node and the soak of an earlier pool fit into the wait for it, from the moment at
/// which it first converged.
const MOST_WAITS: u32 = 4;

/// Pools that others wait for.
#[derive(Debug, Default)]
struct EarlierPools {
    /// Times at which they first converged.
    first_converged: BTreeMap<PoolName, Instant>,
    /// Times since which they have converged.
    converged_since: BTreeMap<PoolName, Instant>,
    /// Times since which they have a node that converged and is not Ready any more.
    lost_since: BTreeMap<PoolName, Instant>,
}

impl EarlierPools {
    fn wait(&mut self, name: &PoolName, pool: &Pool, now: Instant) -> Wait {
        match pool.standing() {
            Standing::Ended => Wait::Ended,
            Standing::Running => Wait::Running { ends: None },
            Standing::Lost => {
                // The soak time begins again once the node is back.
                self.converged_since.remove(name);
                let since = *self.lost_since.entry(name.clone()).or_insert(now);
                // A node that comes and goes must not keep the later pools waiting.
                let first = *self.first_converged.entry(name.clone()).or_insert(now);
                let all = first.after((pool.time_limit() + pool.soak_for_others()).saturating_mul(MOST_WAITS));
                let ends = since.after(pool.time_limit()).min(all);
                if ends <= now { Wait::Ended } else { Wait::Running { ends: Some(ends) } }
            }
            Standing::Converged => {
                self.lost_since.remove(name);
                self.first_converged.entry(name.clone()).or_insert(now);
                let since = *self.converged_since.entry(name.clone()).or_insert(now);
                Wait::Soaking { until: since.after(pool.soak_for_others()) }
            }
        }
    }
}
