//! Comparison of the disk with the ledger, at start, now and then, and at the end of a trial: another program, such as
//! `kubeadm upgrade`, may write the kubelet's file.
//!
//! Then the agent, at start or by the schedule, activates the target again. Such a file is also a new own configuration of the node. An overlay has
//! another text over it, which has not passed a trial: the own configuration becomes the last known good.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::activation::ActivationCause;
use super::backoff::{after, jittered, shifted};
use super::sync::{check_failure, is_check_failure};
use super::{MachineState, StepBuilder};
use crate::events::{DiskCheck, Effect};
use crate::ledger::{Ledger, Phase};

/// Interval of comparisons, plus up to a fifth.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Schedule of the comparisons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DiskWatch {
    /// Whether a comparison is in progress.
    pub(super) under_way: bool,
    /// Time of the next one.
    due: Option<Timestamp>,
}

impl DiskWatch {
    pub(super) fn shift(&mut self, by: SignedDuration) {
        self.due = self.due.map(|due| shifted(due, by));
    }
}

impl MachineState {
    /// Records a comparison. One at the end of a trial only confirms the trial, and leaves any change to the next comparison
    /// of the schedule: a program that writes the file all the time must not cause more restarts.
    pub(super) fn record_disk_check(&mut self, found: &DiskCheck, now: Timestamp) {
        self.volatile.disk_watch.under_way = false;
        self.volatile.watch.in_place = Some(found.in_place && !found.good_changed);
        if !self.is_disk_check_due(now) {
            return;
        }
        self.schedule_disk_check(now);
        // An activation that began since changes the disk.
        let is_settled = !matches!(self.ledger.agent_state.phase, Phase::Activating { .. });
        if is_settled && *found != DiskCheck::UNCHANGED {
            self.volatile.disk_state = Some(found.clone());
        }
    }

    /// Schedules the next comparison.
    pub(super) fn schedule_disk_check(&mut self, now: Timestamp) {
        let volatile = &mut self.volatile;
        volatile.disk_watch.due = Some(after(now, jittered(INTERVAL, &mut volatile.jitter)));
    }

    fn is_disk_check_due(&self, now: Timestamp) -> bool {
        self.volatile.disk_watch.due.is_none_or(|due| due <= now)
    }

    /// Reports whether a comparison may find something: the agent has placed a configuration, or refused one, perhaps for
    /// a file of the node, or a trial cannot end without one. It places none now.
    fn watches_disk(&self) -> bool {
        let agent_state = &self.ledger.agent_state;
        let is_of_interest = match agent_state.phase {
            Phase::Activating { .. } => false,
            Phase::Trying(_) => true,
            Phase::Settled => {
                agent_state.active.is_some() || agent_state.failure.as_ref().is_some_and(is_check_failure)
            }
        };
        is_of_interest && !self.volatile.disk_watch.under_way
    }

    /// Requests a comparison when one is due.
    pub(super) fn check_disk(&mut self, builder: &mut StepBuilder) {
        if self.watches_disk() && self.is_disk_check_due(builder.now) {
            if self.ledger.agent_state.phase == Phase::Settled {
                builder.step.effects.push(Effect::Prove);
            }
            self.compare_disk(builder);
        }
    }

    /// Requests a comparison, unless one is in progress.
    pub(super) fn compare_disk(&mut self, builder: &mut StepBuilder) {
        if !std::mem::replace(&mut self.volatile.disk_watch.under_way, true) {
            builder.step.effects.push(Effect::CheckDisk);
        }
    }

    /// Time of the next comparison.
    pub(super) fn disk_check_wake(&self, now: Timestamp) -> Option<Timestamp> {
        self.watches_disk().then(|| self.volatile.disk_watch.due.map_or(now, |due| due.max(now)))
    }

    /// Applies the state of the disk. Repeats the config check of the assignment unless its trial failed, and activates
    /// again if the kubelet's file does not match. Discards an interrupted boot.
    pub(super) fn handle_disk_state(&mut self, builder: &mut StepBuilder) {
        if self.volatile.activation.under_way {
            return;
        }
        let Some(DiskCheck { config_check, in_place, good_changed }) = self.volatile.disk_state.take() else { return };
        let before = self.ledger.clone();
        let was_interrupted = !in_place && self.ledger.is_seeded();
        if was_interrupted {
            // The kubelet may have started with its local configuration since the boot, and run pods.
            self.ledger = Ledger::default();
        }
        if good_changed {
            self.forget_last_known_good();
        }
        let recheck = self.ledger.agent_state.failure.as_ref().is_none_or(is_check_failure);
        if let (Some(config_check), true) = (&config_check, recheck && self.ledger.assigned.is_some()) {
            let failure = check_failure(config_check);
            let changed = failure.is_some() != self.ledger.agent_state.failure.is_some();
            // An assignment that passes its config check now is accepted with a download, because only that compares it
            // with what the node runs.
            if failure.is_none() && changed {
                self.volatile.sync.due = None;
            }
            if failure.is_some() || self.ledger.assignment() == self.ledger.active() {
                self.ledger.agent_state.failure = failure;
                if changed {
                    self.start_activation(ActivationCause::Assignment, None, builder);
                }
            }
        }
        let must_activate = !in_place || good_changed;
        if must_activate && !was_interrupted && !matches!(self.ledger.agent_state.phase, Phase::Activating { .. }) {
            self.ledger.agent_state.phase = Phase::Activating { before: self.health_before(None) };
        }
        // Need not be saved first: a restarted agent finds the same disk state again.
        builder.step.urgent |= self.ledger != before;
        // While a phase is open, the previous configuration may still be needed.
        if self.ledger.agent_state.phase == Phase::Settled {
            builder.step.prune = true;
        }
    }

    /// Makes the node's own configuration the last known good.
    pub(super) fn forget_last_known_good(&mut self) {
        self.ledger.last_known_good = None;
        let agent_state = &mut self.ledger.agent_state;
        agent_state.last_known_good_hash = None;
        agent_state.last_known_good_placement = None;
        agent_state.last_known_good_text = None;
    }
}
