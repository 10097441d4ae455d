//! Activation: places the target, restarts the kubelet, and retries. Rolls back if the kubelet cannot be restarted on
//! an assignment.

use jiff::Timestamp;

use super::backoff::Backoff;
use super::{MachineState, StepBuilder, kubelet_messages};
use crate::events::{ActivationError, Effect, NodeHealth};
use crate::host::StateFiles;
use crate::ledger::{AssignmentFailure, FailureKind, Phase, Trial};
use kubelet_config::startup_error::StartupError;

/// Attempt to activate the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Activation {
    /// Whether the restart is in progress.
    pub(super) under_way: bool,
    pub(super) backoff: Backoff,
    /// Error of the last attempt.
    pub(super) problem: Option<ActivationError>,
}

/// Reason for activating another configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivationCause {
    /// The assignment or its config check changed.
    Assignment,
    /// The assignment failed its restart or its trial.
    Failure,
}

impl MachineState {
    /// Starts the activation of the target, and counts it if it is a rollback. Does nothing for a changed assignment
    /// whose target the kubelet already runs, unless a restart is pending.
    pub(super) fn start_activation(
        &mut self,
        cause: ActivationCause,
        node: Option<NodeHealth>,
        builder: &mut StepBuilder,
    ) {
        let before = self.health_before(node);
        let is_active = self.target_configuration() == self.ledger.active();
        let rolls_back = self.ledger.agent_state.failure.is_some();
        self.volatile.activation = Activation::default();
        match &self.ledger.agent_state.phase {
            Phase::Settled if is_active && cause == ActivationCause::Assignment => builder.step.prune = true,
            Phase::Trying(_) if is_active && cause == ActivationCause::Assignment => {}
            _ => {
                if rolls_back {
                    self.ledger.agent_state.rollbacks = self.ledger.agent_state.rollbacks.saturating_add(1);
                }
                self.ledger.agent_state.phase = Phase::Activating { before };
            }
        }
    }

    /// Requests the activation if one is pending.
    pub(super) fn activate(&mut self, builder: &mut StepBuilder) {
        let requested = matches!(self.ledger.agent_state.phase, Phase::Activating { .. });
        let activation = &self.volatile.activation;
        if requested
            && !activation.under_way
            && !activation.backoff.waits(builder.now)
            && self.volatile.disk_state.is_none()
        {
            let target = self.target().cloned();
            self.volatile.activation.under_way = true;
            builder.step.effects.push(Effect::Activate { target, state: StateFiles::default() });
        }
    }

    /// Time of the next attempt.
    pub(super) fn activation_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let requested = matches!(self.ledger.agent_state.phase, Phase::Activating { .. });
        let activation = &self.volatile.activation;
        (requested && !activation.under_way).then(|| activation.backoff.until().map_or(now, |until| until.max(now)))
    }

    /// Handles the result of an activation.
    pub(super) fn handle_activation(&mut self, result: &Result<(), ActivationError>, builder: &mut StepBuilder) {
        let Phase::Activating { before } = self.ledger.agent_state.phase else { return };
        match result {
            Ok(()) => self.start_trial(before, None, builder),
            Err(ActivationError::NotRestarted { reason, last_error }) if !self.targets_last_known_good() => {
                let (error, message) = kubelet_messages::not_restarted(reason, last_error.as_ref());
                self.roll_back(
                    AssignmentFailure { kind: FailureKind::Restart, was_healthy: false, error, message, kubelet: None },
                    builder,
                );
            }
            // Another restart would fail, too, until a person has deleted the file. The trial notices that.
            Err(ActivationError::NotRestarted { last_error: Some(error), .. }) if error.state_file().is_some() => {
                self.start_trial(before, Some(error.clone()), builder);
            }
            Err(problem) => {
                let volatile = &mut self.volatile;
                volatile.activation.problem = Some(problem.clone());
                volatile.activation.backoff.fail(&mut volatile.jitter, builder.now);
            }
        }
    }

    /// Starts the trial of the target after the restart of the kubelet.
    fn start_trial(&mut self, before: Option<NodeHealth>, error: Option<StartupError>, builder: &mut StepBuilder) {
        let target = self.target_configuration();
        let (source, placement) =
            (target.map(|target| target.source.clone()), target.and_then(|target| target.placement));
        let agent_state = &mut self.ledger.agent_state;
        (agent_state.active, agent_state.active_placement) = (source, placement);
        agent_state.restarts = agent_state.restarts.saturating_add(1);
        agent_state.phase = Phase::Trying(Trial { started: builder.now, before, ..Trial::default() });
        self.volatile.activation = Activation::default();
        self.volatile.watch.reset();
        self.volatile.watch.last_error = error;
        // The kubelet was restarted even if that cannot be saved, so the trial must start.
        builder.step.urgent = true;
    }

    /// Records the failure of the assignment and rolls back to the last known good.
    pub(super) fn roll_back(&mut self, failure: AssignmentFailure, builder: &mut StepBuilder) {
        let assigned = self.ledger.assigned.clone();
        let good = self.ledger.last_known_good.clone();
        builder.step.effects.push(Effect::Announce(kubelet_messages::rolled_back(
            assigned.as_ref(),
            good.as_ref(),
            &failure,
        )));
        self.ledger.agent_state.failure = Some(failure);
        self.start_activation(ActivationCause::Failure, None, builder);
        builder.step.urgent = true;
    }
}
