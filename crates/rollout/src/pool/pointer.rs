//! Move of the pool's pointer, which names the configuration of new nodes: once the canaries have held, or without
//! canaries once a node has converged. A rollout that rolls back its converged nodes restores the pointer, also one that
//! was moved before its first assignment.

use super::Pool;
use super::rollback::Extent;
use super::table::Count;
use crate::progress::{Progress, StartGate};
use crate::signals::Command;
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_plan::{PointerMove, PointerTime};

/// Attempts to restore the pointer. Each of them is retried by the client for errors that pass.
const RESTORATIONS: u8 = 3;

/// Pointer of the pool during a rollout.
#[derive(Debug)]
pub(super) struct PointerRun {
    state: PointerState,
    /// Content before and after the move.
    contents: Option<(PoolPointer, PoolPointer)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointerState {
    /// It stays.
    Stays,
    /// It moves once the target is proven.
    Due,
    /// Its move was requested, or its restoration, for which this many further attempts are left.
    Sent { restores: bool, attempts: u8 },
    /// This rollout moved it, or its request failed and the answer may be lost. The number of attempts to restore it.
    Moved { attempts: u8 },
}

impl PointerRun {
    pub(super) fn new(planned: Option<&PointerMove>) -> Self {
        let Some(planned) = planned else { return Self { state: PointerState::Stays, contents: None } };
        let state = match planned.when {
            PointerTime::AfterCanaries => PointerState::Due,
            PointerTime::AtOnce => PointerState::Moved { attempts: RESTORATIONS },
        };
        // A pointer that was missing is not deleted again: nodes start with their local configuration either way.
        let before = planned.from.clone().unwrap_or_else(|| PoolPointer::to(None, None));
        Self { state, contents: Some((before, planned.to.clone())) }
    }
}

impl Pool {
    /// Requests the move of the pointer if the target is proven now, or its restoration if the pool returns.
    pub(super) fn advance_pointer(&mut self) {
        let Some((before, after)) = &self.pointer.contents else { return };
        let (pointer, sent) = match self.pointer.state {
            PointerState::Due if self.is_target_proven() => {
                (after.clone(), PointerState::Sent { restores: false, attempts: RESTORATIONS })
            }
            PointerState::Moved { attempts } if self.rollbacks.extent == Extent::All => {
                (before.clone(), PointerState::Sent { restores: true, attempts: attempts.saturating_sub(1) })
            }
            _ => return,
        };
        self.pointer.state = sent;
        self.commands.push(Command::MovePointer(self.policy.name.clone(), Box::new(pointer)));
    }

    /// Reports whether the pointer moves at the end of the soak of the canaries, which may be the last nodes.
    pub(super) fn pointer_awaits_soak(&self) -> bool {
        self.is_due_after_soak() && self.has_converged_nodes()
    }

    /// Reports whether the pointer was not moved, because a soak has not ended.
    pub(super) fn is_due_after_soak(&self) -> bool {
        matches!(self.gate, StartGate::Soaking { .. }) && self.pointer.state == PointerState::Due
    }

    /// Reports whether the canaries have held, or a node has converged in a pool without canaries. A canary that was not
    /// Ready before may open the gate, and be watched again until it is Ready.
    fn is_target_proven(&self) -> bool {
        self.gate.has_passed_canaries() && self.number(Count::CanariesLeft) == 0 && self.has_converged_nodes()
    }

    /// Reports whether nodes that the reconciler assigned have converged in this run, and stay on the target.
    fn has_converged_nodes(&self) -> bool {
        let runs = self.is_on && self.closed.stopped.is_none() && !self.rollbacks.is_on();
        runs && self.number(Count::Proven) > 0
    }

    /// Handles the answer to the move of the pointer. Reports a failed restoration with its last attempt.
    pub(crate) fn pointer_moved(&mut self, result: Result<(), String>) {
        let PointerState::Sent { restores, attempts } = self.pointer.state else { return };
        let is_repeated = restores && result.is_err() && attempts > 0;
        self.pointer.state =
            if restores && !is_repeated { PointerState::Stays } else { PointerState::Moved { attempts } };
        if is_repeated {
            return;
        }
        let contents = self.pointer.contents.as_ref();
        let target = contents.map(|(before, after)| if restores { before } else { after });
        let config_map = target.and_then(PoolPointer::config_map);
        self.report(match result {
            Ok(()) => Progress::PointerMoved { config_map },
            Err(error) => Progress::PointerNotMoved { config_map, error },
        });
    }
}
