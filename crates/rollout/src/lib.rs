//! Rollout of a plan: its state machine, progress events and outcome.
//!
//! [`machine`] decides when a node starts, from the events that it receives and their times. The plan decides what
//! happens to each node. The caller carries out the commands: nothing here accesses a cluster or reads a clock.
//!
//! - [`evictions`]: evictions of a node whose change needs a drained node.
//! - [`instant`]: the two clocks of a rollout.
//! - [`judge`]: what the answers of gates mean.
//! - [`orders`]: orders of operators during a rollout.
//! - [`progress`]: events for the user.
//! - [`forecast`]: the start of a rollout, before it runs.
//! - [`witness`]: answers of the kubelets at its end.
//! - [`verify`]: the machine of a run that only watches.

pub mod evictions;
pub mod forecast;
pub mod instant;
mod intent;
pub mod judge;
pub mod machine;
pub mod orders;
mod outcome;
mod pool;
pub mod progress;
mod signals;
mod trials;
pub mod verify;
pub mod witness;

use machine::{Machine, Mode, StateMachine};
use nodecfg_plan::Plan;

pub use outcome::{BeforeAfter, DrainRecord, End, NodeOutcome, Outcome, PoolOutcome, PoolStart, Recovery, StopReason};

/// The machine of a mode: it rolls a plan out, or only watches its nodes.
#[must_use]
pub fn state_machine(plan: &Plan, mode: Mode) -> Box<dyn StateMachine> {
    match mode.assign {
        true => Box::new(Machine::new(plan, mode)),
        false => Box::new(verify::Verify::new(plan, &mode)),
    }
}
