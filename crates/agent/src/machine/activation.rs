//! From what the kubelet shall run to a kubelet that was restarted on it, and back to the last known good when that fails.

use jiff::Timestamp;

use super::backoff::Backoff;
use super::{MachineState, Turn, texts};
use crate::events::{ActivationError, Effect, NodeHealth};
use crate::state::{AssignmentFailure, FailureKind, Phase, Trial};
use nodecfg_contract::error_text;

/// The activation that the phase asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Activation {
    pub(super) under_way: bool,
    pub(super) backoff: Backoff,
    /// Why the last attempt failed.
    pub(super) problem: Option<ActivationError>,
}

/// Why the kubelet changes its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// There is another assignment, or another verdict on it.
    Assignment,
    /// The assignment failed.
    Failure,
}

impl MachineState {
    /// The kubelet goes to its target, unless it runs that already.
    pub(super) fn go(&mut self, cause: Cause, node: Option<NodeHealth>, turn: &mut Turn) {
        let before = self.before(node);
        let there = self.target() == self.ledger.beyond.active.as_ref();
        let falls = self.ledger.beyond.failure.is_some();
        self.volatile.activation = Activation::default();
        match &self.ledger.beyond.phase {
            Phase::Settled if there && cause == Cause::Assignment => turn.step.prune = true,
            Phase::Trying(_) if there && cause == Cause::Assignment => {}
            _ => {
                if falls {
                    self.ledger.beyond.rollbacks = self.ledger.beyond.rollbacks.saturating_add(1);
                }
                self.ledger.beyond.phase = Phase::Activating { before };
            }
        }
    }

    /// Puts the kubelet on its target when the phase says so.
    pub(super) fn activate(&mut self, turn: &mut Turn) {
        let asked = matches!(self.ledger.beyond.phase, Phase::Activating { .. });
        let activation = &self.volatile.activation;
        if asked && !activation.under_way && !activation.backoff.waits(turn.now) && self.volatile.found.is_none() {
            let target = self.target().cloned();
            self.volatile.activation.under_way = true;
            turn.step.effects.push(Effect::Activate { target, remove: Vec::new() });
        }
    }

    /// When to try again.
    pub(super) fn activation_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let asked = matches!(self.ledger.beyond.phase, Phase::Activating { .. });
        let activation = &self.volatile.activation;
        (asked && !activation.under_way).then(|| activation.backoff.until().map_or(now, |until| until.max(now)))
    }

    /// The answer to an activation.
    pub(super) fn activated(&mut self, result: &Result<(), ActivationError>, turn: &mut Turn) {
        let Phase::Activating { before } = self.ledger.beyond.phase else { return };
        match result {
            Ok(()) => {
                let target = self.target().cloned();
                let beyond = &mut self.ledger.beyond;
                beyond.active = target;
                beyond.restarts = beyond.restarts.saturating_add(1);
                beyond.phase = Phase::Trying(Trial { started: turn.now, before, ..Trial::default() });
                self.volatile.activation = Activation::default();
                self.volatile.watch.begin();
                // The kubelet was restarted, whether or not that can be saved: it must be watched.
                turn.step.urgent = true;
            }
            Err(ActivationError::NotRestarted(reason)) if self.target() != self.ledger.last_known_good.as_ref() => {
                let error = error_text::RESTART.to_owned();
                let message = format!("the kubelet could not be restarted: {reason}");
                self.fall_back(AssignmentFailure { kind: FailureKind::Restart, error, message, kubelet: None }, turn);
            }
            Err(problem) => {
                let volatile = &mut self.volatile;
                volatile.activation.problem = Some(problem.clone());
                volatile.activation.backoff.fail(&mut volatile.chance, turn.now);
            }
        }
    }

    /// The assignment failed: back to the last known good, at once.
    pub(super) fn fall_back(&mut self, failure: AssignmentFailure, turn: &mut Turn) {
        let assigned = self.ledger.assigned.clone();
        let good = self.ledger.last_known_good.clone();
        turn.step.effects.push(Effect::Announce(texts::rolled_back(assigned.as_ref(), good.as_ref(), &failure)));
        self.ledger.beyond.failure = Some(failure);
        self.go(Cause::Failure, None, turn);
        turn.step.urgent = true;
    }
}
