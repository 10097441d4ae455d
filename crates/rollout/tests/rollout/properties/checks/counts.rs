//! Counts of events, and ends of nodes.

use std::collections::BTreeMap;

use super::Step;
use nodecfg_contract::names::PoolName;
use nodecfg_plan::state::State;
use nodecfg_rollout::End;
use nodecfg_rollout::machine::Command;
use nodecfg_rollout::progress::{NodeCounts, Progress};

/// Counts of the latest event of each pool.
#[derive(Default)]
pub(super) struct CountCheck(BTreeMap<PoolName, NodeCounts>);

impl CountCheck {
    /// The counts of an event cover every step of the plan. A node fails once.
    pub(super) fn check(&mut self, command: &Command, step: &Step) {
        let Command::Report(event) = command else { return };
        let (pool, state) = (event.pool.as_ref().unwrap(), event.state.as_ref().unwrap());
        assert_eq!(state.counts.total(), step.pool(pool).steps().count(), "{event:?}");
        self.0.insert(pool.clone(), state.counts);
        if let (Progress::Failed { failure }, Some(node)) = (&event.progress, &event.node) {
            assert!(!step.cluster.failures.contains_key(node), "{node} failed twice: {failure}\n{step}");
        }
    }

    /// The outcome agrees with the latest event of each pool. A pool is held exactly if it has held nodes.
    pub(super) fn check_end(&self, step: &Step) {
        for (name, pool) in &step.machine.outcome().pools {
            let held = pool.nodes.iter().any(|node| node.end == End::Held);
            assert_eq!(held, pool.held.is_some(), "{pool:?}\n{step}");
            let ended = |state| pool.nodes.iter().filter(|node| node.end.state() == state).count();
            let counts = self.0.get(name).copied().unwrap_or_default();
            let expected = [counts.done, counts.failed];
            assert_eq!([State::Converged, State::Failed].map(ended), expected, "{pool:?}\n{step}");
        }
    }
}
