//! Scenarios and properties of the state machine of a rollout, without a cluster.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use nodecfg_contract::names::PoolName;
use nodecfg_plan::Plan;
use nodecfg_plan::fixtures::pause;
use nodecfg_rollout::instant::{Instant, Now};
use nodecfg_rollout::machine::{Command, Input, Mode, StateMachine};
use nodecfg_rollout::verify::Verify;
use nodecfg_rollout::{Outcome, StopReason, machine};

mod properties;
mod scenario;
mod scenarios;

fn aborted() -> StopReason {
    StopReason::Aborted { by: "ada".to_owned(), reason: None }
}

fn paused() -> StopReason {
    StopReason::Paused(pause("disks"))
}

/// A machine and its clocks, which tests drive.
struct Machine {
    runs: Runs,
    now: Now,
}

/// The machine of a mode.
enum Runs {
    Rollout(Box<machine::Machine>),
    Verify(Box<Verify>),
}

impl Machine {
    fn new(plan: &Plan, mode: Mode) -> Self {
        let runs = match mode.assign {
            true => Runs::Rollout(Box::new(machine::Machine::new(plan, mode))),
            false => Runs::Verify(Box::new(Verify::new(plan, &mode))),
        };
        Self { runs, now: Now::START }
    }

    fn any(&self) -> &dyn StateMachine {
        match &self.runs {
            Runs::Rollout(machine) => &**machine,
            Runs::Verify(verify) => &**verify,
        }
    }

    fn step(&mut self, input: Input) -> Vec<Command> {
        match &mut self.runs {
            Runs::Rollout(machine) => machine.step(input, self.now),
            Runs::Verify(verify) => verify.step(input, self.now),
        }
    }

    fn step_at(&mut self, input: Input, now: Now) -> Vec<Command> {
        self.now = now;
        self.step(input)
    }

    fn next_tick(&self) -> Option<Instant> {
        self.any().next_tick()
    }

    /// Lets time pass until the machine asks for a tick, at most until `end`. Returns whether it asks.
    fn advance(&mut self, end: Now) -> bool {
        let due = self.next_tick().filter(|at| *at <= end.instant);
        self.now = self.now.at(due.map_or(end.instant, |at| at.max(self.now.instant)));
        due.is_some()
    }

    fn is_finished(&self) -> bool {
        self.any().is_finished()
    }

    fn outcome(&self) -> Outcome {
        self.any().outcome()
    }

    fn budget_of(&self, pool: &PoolName) -> Option<(usize, usize)> {
        match &self.runs {
            Runs::Rollout(machine) => machine.budget_of(pool),
            Runs::Verify(_) => None,
        }
    }
}
