//! Gates: no node starts and no soak ends while a gate of that step does not pass, by a definition of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Step;
use crate::properties::events::Says;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::gates::Moment;
use nodecfg_plan::PoolPlan;
use nodecfg_rollout::instant::Instant;
use nodecfg_rollout::machine::Command;
use nodecfg_rollout::progress::Progress;

/// All gates have the same question.
#[derive(Default)]
pub(in crate::properties) struct GateOracle {
    /// The latest answer and its time.
    answer: Option<(Instant, Says)>,
    /// Pools of which a node started.
    started: BTreeSet<PoolName>,
}

impl GateOracle {
    pub(in crate::properties) fn answered(&mut self, at: Instant, says: Says) {
        self.answer = Some((at, says));
    }

    pub(super) fn check(&mut self, command: &Command, step: &Step) {
        if let Some(name) = step.started(command) {
            let pool = step.pool_of(name);
            let moment = if self.started.insert(pool.name.clone()) { Moment::Start } else { Moment::Node };
            let has_passed = self.passes(pool, moment, step);
            assert!(has_passed, "{name} starts although its gate is {:?}\n{step}", self.answer);
            // The first node also waits for an answer that it could be compared with.
            let is_guarded = pool.policy.gates.iter().any(|gate| !gate.at.is_empty() && !gate.is_of_nodes());
            assert!(!is_guarded || self.answer.is_some(), "{name} starts before the first answer\n{step}");
        }
        if let Command::Report(event) = command
            && matches!(event.progress, Progress::Soaked)
        {
            let pool = step.pool(event.pool.as_ref().unwrap());
            let has_passed = self.passes(pool, Moment::Soak, step);
            assert!(has_passed, "the soak ends although its gate is {:?}\n{step}", self.answer);
        }
    }

    /// Reports whether the gates of a pool pass for this step: the latest answer passes, and is at most two intervals
    /// old.
    fn passes(&self, pool: &PoolPlan, moment: Moment, step: &Step) -> bool {
        let limit = step.mode.gates.map_or(Duration::ZERO, |interval| 2 * interval);
        let is_fresh = |at: Instant| step.machine.now.instant.since(at) <= limit;
        let passes = self.answer.is_some_and(|(at, says)| says == Says::Passes && is_fresh(at));
        passes || pool.policy.gates.iter().all(|gate| gate.is_of_nodes() || !gate.at.contains(&moment))
    }
}
