//! Move of the pool's pointer, which names the configuration of new nodes: once the canaries have held, or without
//! canaries once a node has converged. A rollout that rolls back its converged nodes restores the pointer.

use super::PoolRun;
use crate::plan::{PointerMove, PointerTime};
use crate::rollout::progress::Progress;
use crate::rollout::signals::{Command, Context};
use nodecfg_contract::pool_pointer::PoolPointer;

/// Pointer of the pool during a rollout.
#[derive(Debug)]
pub(super) struct PointerRun {
    state: PointerState,
    /// Content before and after the move.
    contents: Option<(PoolPointer, PoolPointer)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointerState {
    /// It stays, or another attempt to move it is made by the next run.
    Stays,
    /// It moves once the target is proven.
    Due,
    /// Its move, or its restoration, was requested.
    Sent { restores: bool },
    /// This rollout moved it.
    Moved,
}

impl PointerRun {
    pub(super) fn new(planned: Option<&PointerMove>) -> Self {
        let Some(planned) = planned.filter(|planned| planned.when == PointerTime::AfterCanaries) else {
            return Self { state: PointerState::Stays, contents: None };
        };
        // A pointer that was missing is not deleted again: nodes start with their local configuration either way.
        let before = planned.from.clone().unwrap_or(PoolPointer { config: None, commit: None });
        Self { state: PointerState::Due, contents: Some((before, planned.to.clone())) }
    }
}

impl PoolRun {
    /// Requests the move of the pointer if the target is proven now, or its restoration if the pool returns.
    pub(super) fn advance_pointer(&mut self, context: &mut Context<'_>) {
        let Some((before, after)) = &self.pointer.contents else { return };
        let (pointer, restores) = match self.pointer.state {
            PointerState::Due if self.is_target_proven() => (after.clone(), false),
            PointerState::Moved if self.is_returning => (before.clone(), true),
            _ => return,
        };
        self.pointer.state = PointerState::Sent { restores };
        context.commands.push(Command::MovePointer(self.name.clone(), Box::new(pointer)));
    }

    /// Reports whether the canaries have held, or a node has converged in a pool without canaries. A canary that was not
    /// Ready before may open the gate, and be watched again until it is Ready.
    fn is_target_proven(&self) -> bool {
        let runs = self.started && self.mode.assign && self.stopped.is_none() && !self.rolling_back;
        let held = self.gate.has_passed_canaries() && self.canaries_left() == 0;
        runs && held && self.nodes.counts(self.steps).done > 0
    }

    /// Handles the answer to the move of the pointer.
    pub(in crate::rollout) fn pointer_moved(&mut self, result: Result<(), String>, context: &mut Context<'_>) {
        let PointerState::Sent { restores } = self.pointer.state else { return };
        let (pool, is_moved) = (self.name.clone(), result.is_ok() && !restores);
        self.pointer.state = if is_moved { PointerState::Moved } else { PointerState::Stays };
        let contents = self.pointer.contents.as_ref();
        let target = contents.map(|(before, after)| if restores { before } else { after });
        let config_map = target.and_then(|pointer| Some(pointer.config.as_ref()?.config_map.clone()));
        self.report(
            match result {
                Ok(()) => Progress::PointerMoved { pool, config_map },
                Err(error) => Progress::PointerNotMoved { pool, config_map, error },
            },
            context,
        );
    }
}
