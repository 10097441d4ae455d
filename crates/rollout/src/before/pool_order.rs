//! Pools of a rollout among each other: which pool waits for which, and the limit of unavailable nodes of all pools.

use std::collections::BTreeMap;

use super::machine::Machine;
use super::pool::{PoolRun, Turn};
use super::signals::{Command, Context};
use nodecfg_contract::names::PoolName;
use nodecfg_planning::instant::{Instant, Now};

/// What happens next to a pool that waits for others.
enum Next {
    /// Its turn has come.
    Begin,
    /// This pool ended without success.
    Hold(PoolName),
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

/// Pools that others wait for.
#[derive(Debug, Default)]
pub(super) struct EarlierPools {
    /// Times since which they have converged.
    converged_since: BTreeMap<PoolName, Instant>,
    /// Times since which they have a node that converged and is not Ready any more.
    lost_since: BTreeMap<PoolName, Instant>,
}

impl EarlierPools {
    fn wait(&mut self, name: &PoolName, pool: &PoolRun, now: Instant) -> Wait {
        match pool.turn() {
            Turn::Ended => Wait::Ended,
            Turn::Running => Wait::Running { ends: None },
            Turn::Lost => {
                // The soak time begins again once the node is back.
                self.converged_since.remove(name);
                let since = *self.lost_since.entry(name.clone()).or_insert(now);
                let ends = since.after(pool.time_limit());
                if ends <= now { Wait::Ended } else { Wait::Running { ends: Some(ends) } }
            }
            Turn::Converged => {
                self.lost_since.remove(name);
                let since = *self.converged_since.entry(name.clone()).or_insert(now);
                Wait::Soaking { until: since.after(pool.soak_for_others()) }
            }
        }
    }
}

/// Limit of unavailable nodes of all pools, and the numbers of nodes that use it. Every change of a pool goes through
/// [`FleetLimit::change`], so that counting needs no iteration over all pools.
#[derive(Debug)]
pub(super) struct FleetLimit {
    /// `None`: each pool has its own limit only.
    limit: Option<usize>,
    unavailable: usize,
    in_flight: usize,
    /// Whether the numbers changed since the pools last learned them.
    is_news: bool,
}

impl FleetLimit {
    pub(super) fn new<'a>(limit: Option<usize>, pools: impl Iterator<Item = &'a PoolRun>) -> Self {
        let uses = pools.map(PoolRun::use_of_limit);
        let (unavailable, in_flight) = uses.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Self { limit, unavailable, in_flight, is_news: true }
    }

    /// Changes a pool that knows the use of the limit, and updates this use.
    pub(super) fn change(
        &mut self,
        pool: &mut PoolRun,
        context: &mut Context<'_>,
        act: impl FnOnce(&mut PoolRun, &mut Context<'_>),
    ) {
        self.share(pool);
        let before = pool.use_of_limit();
        act(pool, context);
        pool.finish_step(context);
        let after = pool.use_of_limit();
        self.unavailable = self.unavailable + after.0 - before.0;
        self.in_flight = self.in_flight + after.1 - before.1;
        self.is_news |= after != before;
    }

    /// Tells a pool what the others use of the limit.
    fn share(&self, pool: &mut PoolRun) {
        let Some(limit) = self.limit else { return };
        let (unavailable, in_flight) = pool.use_of_limit();
        pool.share(limit, self.unavailable - unavailable, self.in_flight > in_flight);
    }

    /// Number of unavailable nodes of all pools.
    pub(super) fn unavailable(&self) -> usize {
        self.unavailable
    }
}

impl Machine {
    /// Starts or holds the pools whose predecessors have ended.
    pub(super) fn advance_order(&mut self, now: Now, commands: &mut Vec<Command>) {
        while let Some((name, next)) = self.next_turn(now.instant) {
            self.on_pool(&name, now, commands, |pool, context| match next {
                Next::Begin => pool.begin_turn(context),
                Next::Hold(first) => pool.hold_after(&first, context),
            });
        }
    }

    fn next_turn(&mut self, now: Instant) -> Option<(PoolName, Next)> {
        for (name, pool) in self.pools.iter().filter(|(_, pool)| !pool.waits_for().is_empty()) {
            // `None`: an earlier pool has not converged.
            let mut begins = Some(now);
            for first in pool.waits_for() {
                // A pool without nodes has nothing to wait for.
                let Some(other) = self.pools.get(first) else { continue };
                match self.earlier.wait(first, other, now) {
                    Wait::Ended => return Some((name.clone(), Next::Hold(first.clone()))),
                    Wait::Running { ends } => {
                        ends.into_iter().for_each(|ends| self.timers.wake(ends, name, None));
                        begins = None;
                    }
                    Wait::Soaking { until } if !pool.has_begun() => begins = begins.map(|begins| begins.max(until)),
                    Wait::Soaking { .. } => {}
                }
            }
            match begins {
                Some(begins) if begins <= now => return Some((name.clone(), Next::Begin)),
                Some(begins) => self.timers.wake(begins, name, None),
                None => {}
            }
        }
        None
    }

    /// Lets the pools start nodes for which another pool has made room, in the order of their names.
    pub(super) fn use_room(&mut self, now: Now, commands: &mut Vec<Command>) {
        if self.limit.limit.is_none() || !std::mem::take(&mut self.limit.is_news) {
            return;
        }
        let mut context = Context::new(now, commands, &mut self.timers);
        for pool in self.pools.values_mut() {
            self.limit.share(pool);
            if pool.awaits_room() {
                self.limit.change(pool, &mut context, PoolRun::use_room);
            }
        }
    }
}
