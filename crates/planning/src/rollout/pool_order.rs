//! Pools of a rollout among each other: which pool waits for which, and the limit of unavailable nodes of all pools.

use jiff::Timestamp;

use super::machine::Machine;
use super::pool::Turn;
use super::signals::{Command, Context};
use crate::instant::later;
use nodecfg_contract::names::PoolName;

/// What happens next to a pool that waits for others.
enum Next {
    /// Its turn has come.
    Begin,
    /// This pool ended without success.
    Hold(PoolName),
}

impl Machine {
    /// Starts or holds the pools whose predecessors have ended.
    pub(super) fn advance_order(&mut self, now: Timestamp, commands: &mut Vec<Command>) {
        while let Some((name, next)) = self.next_turn(now) {
            self.share_limit();
            let Some(pool) = self.pools.get_mut(&name) else { return };
            let mut context = Context { now, commands, timers: &mut self.timers };
            match next {
                Next::Begin => pool.begin_turn(&mut context),
                Next::Hold(first) => pool.hold_after(&first, &mut context),
            }
            pool.finish_step(&mut context);
        }
    }

    fn next_turn(&mut self, now: Timestamp) -> Option<(PoolName, Next)> {
        for (name, pool) in &self.pools {
            if pool.waits_for().is_empty() {
                continue;
            }
            let mut begins = now;
            let mut running = false;
            for first in pool.waits_for() {
                // A pool without nodes has nothing to wait for.
                let Some(other) = self.pools.get(first) else { continue };
                match other.turn() {
                    Turn::Ended => return Some((name.clone(), Next::Hold(first.clone()))),
                    Turn::Running => running = true,
                    Turn::Lost => {
                        // The soak time begins again once the node is back.
                        self.converged_since.remove(first);
                        let since = *self.lost_since.entry(first.clone()).or_insert(now);
                        let ends = later(since, other.time_limit());
                        if ends <= now {
                            return Some((name.clone(), Next::Hold(first.clone())));
                        }
                        self.timers.wake(ends, name, None);
                        running = true;
                    }
                    Turn::Converged => {
                        self.lost_since.remove(first);
                        let since = *self.converged_since.entry(first.clone()).or_insert(now);
                        if !pool.has_begun() {
                            begins = begins.max(later(since, other.soak_for_others()));
                        }
                    }
                }
            }
            if !running && begins <= now {
                return Some((name.clone(), Next::Begin));
            }
            if !running {
                self.timers.wake(begins, name, None);
            }
        }
        None
    }

    /// Tells each pool what the others use of the limit of all pools.
    pub(super) fn share_limit(&mut self) {
        let Some(limit) = self.limit else { return };
        let uses = self.pools.values().map(|pool| pool.use_of_limit());
        let (unavailable, in_flight) = uses.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        for pool in self.pools.values_mut() {
            let (own, own_in_flight) = pool.use_of_limit();
            pool.share(limit, unavailable - own, in_flight > own_in_flight);
        }
    }

    /// Lets the pools start nodes for which another pool has made room, in the order of their names.
    pub(super) fn use_room(&mut self, now: Timestamp, commands: &mut Vec<Command>) {
        if self.limit.is_none() {
            return;
        }
        let names: Vec<PoolName> = self.pools.keys().cloned().collect();
        for name in names {
            self.share_limit();
            let Some(pool) = self.pools.get_mut(&name) else { continue };
            let mut context = Context { now, commands, timers: &mut self.timers };
            pool.use_room(&mut context);
            pool.finish_step(&mut context);
        }
        self.share_limit();
    }
}
