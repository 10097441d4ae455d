//! Live display of a running rollout at the bottom of a terminal: pools, nodes in transition, the last failure, the
//! remaining time.
//!
//! [`LiveProgress`] consumes events; [`view`](LiveProgress::view) renders lines. Time and terminal size are
//! parameters.

use std::collections::BTreeMap;

use jiff::Timestamp;

use self::pool::Pool;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::Plan;
use nodecfg_rollout::machine::Mode;
use nodecfg_rollout::progress::{Event, Progress};

mod estimate;
mod pool;
mod view;

/// State of a running rollout.
#[derive(Debug, Clone)]
pub struct LiveProgress {
    start: Timestamp,
    pools: Vec<Pool>,
    index_of: BTreeMap<PoolName, usize>,
    last_failure: Option<LastFailure>,
}

/// The most recent failure.
#[derive(Debug, Clone)]
struct LastFailure {
    pool: PoolName,
    node: NodeName,
    /// The message of the node or the API server.
    message: String,
    at: Timestamp,
}

impl LiveProgress {
    /// The state before the first event.
    #[must_use]
    pub fn new(plan: &Plan, mode: &Mode, start: Timestamp) -> Self {
        let moving = plan.pools.iter().filter(|pool| pool.steps().next().is_some());
        let pools: Vec<Pool> = moving.map(|pool| Pool::new(pool, mode, start)).collect();
        let index_of = pools.iter().enumerate().map(|(index, pool)| (pool.name.clone(), index)).collect();
        Self { start, pools, index_of, last_failure: None }
    }

    /// Handles an event.
    pub fn apply(&mut self, now: Timestamp, event: &Event) {
        match &event.progress {
            Progress::Failed { failure } => self.failed(event, failure.to_string(), now),
            Progress::Refused { error } => self.failed(event, format!("refused by the API server: {error}"), now),
            _ => {}
        }
        let index = event.pool.as_ref().and_then(|pool| self.index_of.get(pool));
        if let (Some(pool), Some(state)) = (index.and_then(|index| self.pools.get_mut(*index)), &event.state) {
            pool.apply(now, event, state);
        }
    }

    fn failed(&mut self, event: &Event, message: String, at: Timestamp) {
        if let (Some(pool), Some(node)) = (event.pool.clone(), event.node.clone()) {
            self.last_failure = Some(LastFailure { pool, node, message, at });
        }
    }

    /// The number of pools with something to do.
    #[must_use]
    pub fn pools(&self) -> usize {
        self.pools.len()
    }

    /// The remaining time in seconds if no more nodes fail, and whether hanging nodes may take longer. `None` if
    /// unknown or finished.
    fn remaining(&self, now: Timestamp) -> Option<(f64, bool)> {
        let timed = self.pools.iter().fold((0, 0.0), |sum, pool| (sum.0 + pool.timed.0, sum.1 + pool.timed.1));
        let mean = pool::mean_of(timed);
        // Pools run in parallel: the slowest one determines the end.
        let (mut known, mut bound) = (0.0_f64, 0.0_f64);
        for pace in self.pools.iter().map(|pool| pool.pace(now, mean)) {
            match pace.remaining(now) {
                Some(remaining) => known = known.max(remaining),
                None => bound = bound.max(pace.at_most()?),
            }
        }
        for end in self.pools.iter().filter_map(|pool| pool.trials_end) {
            known = known.max(estimate::seconds(now, end));
        }
        (known > 0.0).then_some((known, bound > known))
    }
}
