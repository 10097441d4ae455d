//! Scenarios and properties of the state machine of a rollout, without a cluster.

use nodecfg_contract::names::PoolName;
use nodecfg_planning::instant::{Instant, Now};
use nodecfg_planning::plan::Plan;
use nodecfg_rollout::Outcome;
use nodecfg_rollout::machine::{self, Command, Input, Mode, StateMachine};
use nodecfg_rollout::verify::Verify;

mod domain_oracle;
mod drain_properties;
mod drain_scenarios;
mod gate_properties;
mod pool_order;
mod properties;
mod scenarios;

/// The machine of a mode.
enum Machine {
    Rollout(Box<machine::Machine>),
    Verify(Box<Verify>),
}

impl Machine {
    fn new(plan: &Plan, mode: Mode) -> Self {
        match mode.assign {
            true => Self::Rollout(Box::new(machine::Machine::new(plan, mode))),
            false => Self::Verify(Box::new(Verify::new(plan, &mode))),
        }
    }

    fn any(&self) -> &dyn StateMachine {
        match self {
            Self::Rollout(machine) => &**machine,
            Self::Verify(verify) => &**verify,
        }
    }

    fn step(&mut self, input: Input, now: Now) -> Vec<Command> {
        match self {
            Self::Rollout(machine) => machine.step(input, now),
            Self::Verify(verify) => verify.step(input, now),
        }
    }

    fn next_tick(&self) -> Option<Instant> {
        self.any().next_tick()
    }

    fn is_finished(&self) -> bool {
        self.any().is_finished()
    }

    fn outcome(&self) -> Outcome {
        self.any().outcome()
    }

    fn budget_of(&self, pool: &PoolName) -> Option<(usize, usize)> {
        match self {
            Self::Rollout(machine) => machine.budget_of(pool),
            Self::Verify(_) => None,
        }
    }
}
