//! Trial of a restarted kubelet: probes its health, rolls back if it stays unhealthy, and promotes an assignment that
//! passes to the last known good.
//!
//! A kubelet is healthy if its `/healthz` answers, its Node is Ready, and its Lease was renewed after the restart.
//! The Node counts only if it was Ready before the restart, the Lease only if it existed. Both count only if the API
//! server answers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::backoff::{after, shifted, since};
use super::kubelet_messages::HealthProblem;
use super::{MachineState, StepBuilder, kubelet_messages};
use crate::events::{Effect, Health, NodeHealth};
use crate::host::ServiceReport;
use crate::host::problem::HealthzError;
use crate::ledger::{AssignmentFailure, FailureKind, Phase, Trial};
use kubelet_config::risk::StateFile;
use kubelet_config::startup_error::StartupError;

/// Number of times that `/healthz` stops answering at which the kubelet counts as crash looping.
const MAX_INTERRUPTIONS: u32 = 3;
/// Number of exits after which the kubelet counts as crash looping.
const MAX_EXITS: u32 = 3;
/// Minimum interval between queries of the API server while the kubelet is healthy; the kubelet renews its Lease
/// every 10 s too. Also the minimum probe interval for a kubelet that does not recover on the last known good.
const NODE_INTERVAL: Duration = Duration::from_secs(10);

/// Schedule and results of the probes of a restarted kubelet. A new agent process starts without them; [`Trial`] is
/// the persistent part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HealthWatch {
    /// Whether a probe is in progress.
    pub(super) under_way: bool,
    /// Whether the probe in progress began before the watch was reset, so that its result says nothing.
    is_outdated: bool,
    /// Whether the probe in progress queries the API server.
    checks_node: bool,
    /// Time of the next probe. `None` means at once.
    next: Option<Timestamp>,
    /// Time of the last query of the API server.
    node_checked_at: Option<Timestamp>,
    /// Whether `/healthz` answered the last probe.
    answered_last_probe: bool,
    /// Whether `/healthz` has answered since the restart.
    pub(super) answered_since_restart: bool,
    /// Health of the node by the last query of the API server. `None` if it did not answer.
    node: Option<NodeHealth>,
    /// Problem found by the last probe.
    pub(super) health_problem: Option<HealthProblem>,
    /// Exits of the kubelet that the service manager has counted: at the first report since the restart, and at the last.
    /// The count of systemd continues over a restart on request, so only the difference counts.
    restarts: Option<(u32, u32)>,
    /// Time of the last healthy probe since the restart.
    healthy_at: Option<Timestamp>,
    /// Last error of the kubelet since the last healthy probe, or since the restart.
    pub(super) last_error: Option<StartupError>,
    /// Whether the trial can end. On the last known good, the kubelet is healthy. On another target, it also was
    /// healthy for the whole trial period, and the API server has answered since.
    trial_done: bool,
    /// Whether the last comparison has found the file that the trial is about in place. `None`: the trial needs another
    /// comparison.
    pub(super) in_place: Option<bool>,
}

impl HealthWatch {
    /// Forgets everything but a probe in progress: after a restart of the kubelet, and at the end of a trial.
    pub(super) fn reset(&mut self) {
        *self = Self { under_way: self.under_way, is_outdated: self.under_way, ..Self::default() };
    }

    /// Ends the confirmation that the file is in place, which holds for one step.
    pub(super) fn end_confirmation(&mut self) {
        self.in_place = self.in_place.filter(|in_place| !in_place);
    }

    /// Ends the probe in progress if it is outdated. Returns whether it was.
    pub(super) fn end_outdated_probe(&mut self) -> bool {
        let was_outdated = std::mem::take(&mut self.is_outdated);
        self.under_way &= !was_outdated;
        was_outdated
    }

    pub(super) fn shift(&mut self, by: SignedDuration) {
        self.next = self.next.map(|next| shifted(next, by));
        self.healthy_at = self.healthy_at.map(|healthy| shifted(healthy, by));
        self.node_checked_at = self.node_checked_at.map(|asked| shifted(asked, by));
    }

    fn record_service(&mut self, report: &ServiceReport) {
        if let Some(now) = report.restarts {
            // A smaller count was started anew.
            let first = self.restarts.map_or(now, |(first, _)| first.min(now));
            self.restarts = Some((first, now));
        }
        if report.last_error.is_some() {
            self.last_error.clone_from(&report.last_error);
        }
    }

    /// Records a healthy probe. An earlier error explains no later failure.
    fn record_health(&mut self, now: Timestamp) {
        (self.healthy_at, self.last_error) = (Some(now), None);
    }

    /// Time from which errors count for a kubelet that was restarted at this time.
    fn errors_since(&self, restarted: Timestamp) -> Timestamp {
        self.healthy_at.map_or(restarted, |healthy| healthy.max(restarted))
    }

    /// State file with which the kubelet does not start, by its last error.
    pub(super) fn state_file(&self) -> Option<StateFile> {
        self.last_error.as_ref()?.state_file()
    }

    /// Last error of the kubelet if it is about a state file.
    pub(super) fn stale_state_error(&self) -> Option<&StartupError> {
        self.last_error.as_ref().filter(|_| self.state_file().is_some())
    }

    /// Number of exits of the kubelet since the first report.
    fn exits(&self) -> u32 {
        self.restarts.map_or(0, |(first, last)| last.saturating_sub(first))
    }
}

impl Trial {
    /// Adjusts all times after a change of the clock, or by time that was not observed.
    pub(super) fn shift(&mut self, by: SignedDuration) {
        self.started = shifted(self.started, by);
        self.healthy_since = self.healthy_since.map(|moment| shifted(moment, by));
        self.unhealthy_since = self.unhealthy_since.map(|moment| shifted(moment, by));
    }

    /// Continues a trial in a new agent process. The kubelet's health in between is unknown, and so is any clock
    /// change. The healthy and unhealthy periods start over.
    pub(super) fn resume(&mut self, now: Timestamp) {
        self.started = self.started.min(now);
        self.healthy_since = self.healthy_since.map(|_| now);
        self.unhealthy_since = self.unhealthy_since.map(|_| now);
    }

    /// Problem that these results of a probe show, if any.
    fn health_problem(&self, health: &Result<(), HealthzError>, node: Option<NodeHealth>) -> Option<HealthProblem> {
        if let Err(reason) = health {
            return Some(HealthProblem::Healthz(reason.clone()));
        }
        let (before, node) = (self.before?, node?);
        if before.ready && !node.ready {
            return Some(HealthProblem::NotReady);
        }
        (before.lease_renewed.is_some() && !node.is_renewed_after(self.started)).then_some(HealthProblem::NoLease)
    }
}

impl MachineState {
    /// Reports whether the target is the last known good. Its trial ends with the first healthy probe. If it is
    /// unhealthy, the agent keeps it, since no other configuration is left.
    pub(super) fn targets_last_known_good(&self) -> bool {
        self.target_configuration() == self.ledger.good()
    }

    /// Time at which the trial ends if the kubelet is healthy from now on. `None` outside of a trial, and on the last
    /// known good, which needs none.
    pub(super) fn trial_end(&self, now: Timestamp) -> Option<Timestamp> {
        let Phase::Trying(trial) = &self.ledger.agent_state.phase else { return None };
        let healthy_since = trial.healthy_since.filter(|_| trial.unhealthy_since.is_none()).unwrap_or(now);
        (!self.targets_last_known_good()).then(|| after(healthy_since, self.volatile.settings.trial_period))
    }

    /// Reports whether the last known good is unhealthy and no longer expected to become healthy by itself.
    pub(super) fn last_known_good_fails(&self, now: Timestamp) -> bool {
        let Phase::Trying(trial) = &self.ledger.agent_state.phase else { return false };
        let watch = &self.volatile.watch;
        let is_late = since(trial.started, now) > self.volatile.settings.health_timeout;
        self.targets_last_known_good()
            && watch.health_problem.is_some()
            && (is_late || watch.exits() >= MAX_EXITS || watch.state_file().is_some())
    }

    /// Requests a probe when one is due.
    pub(super) fn probe(&mut self, builder: &mut StepBuilder) {
        let Phase::Trying(trial) = &self.ledger.agent_state.phase else { return };
        let settings = self.volatile.settings;
        let watch = &self.volatile.watch;
        if watch.under_way || watch.next.is_some_and(|next| next > builder.now) {
            return;
        }
        let undecided = trial.healthy_since.is_none() || trial.unhealthy_since.is_some();
        // At the end of the trial period, one probe queries the API server at once for its confirmation. Later probes
        // keep the usual interval: if the API server is down, a whole fleet may be waiting for it.
        let end = trial.healthy_since.map(|healthy| after(healthy, settings.trial_period));
        let over = end.filter(|end| *end <= builder.now);
        let node_interval = NODE_INTERVAL.max(settings.probe_interval);
        let node = undecided
            || watch
                .node_checked_at
                .is_none_or(|asked| since(asked, builder.now) >= node_interval || over.is_some_and(|end| asked < end));
        // On the last known good, an unhealthy kubelet is probed less often, since no other configuration is left to
        // try.
        let unrecovered = self.targets_last_known_good() && since(trial.started, builder.now) > settings.health_timeout;
        let interval = if unrecovered { settings.probe_interval.max(NODE_INTERVAL) } else { settings.probe_interval };
        let watch = &mut self.volatile.watch;
        watch.under_way = true;
        watch.checks_node = node;
        watch.next = Some(after(builder.now, interval));
        if node {
            watch.node_checked_at = Some(builder.now);
        }
        let errors_since = watch.errors_since(trial.started);
        builder.step.effects.push(Effect::Probe { node, since: trial.started, errors_since });
    }

    /// Time of the next probe. `None` outside of a trial and during a probe.
    pub(super) fn probe_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let watch = &self.volatile.watch;
        let watched = matches!(self.ledger.agent_state.phase, Phase::Trying(_)) && !watch.under_way;
        watched.then(|| watch.next.map_or(now, |next| next.max(now)))
    }

    /// Records the result of a probe in volatile state, which stays even if the ledger cannot be saved.
    pub(super) fn record_probe(&mut self, health: &Health, now: Timestamp) {
        let settings = self.volatile.settings;
        let on_last_known_good = self.targets_last_known_good();
        let watch = &mut self.volatile.watch;
        watch.under_way = false;
        watch.record_service(&health.service);
        let Phase::Trying(trial) = &self.ledger.agent_state.phase else { return };
        // Without a query, the previous answer stays valid.
        if watch.checks_node {
            watch.node = health.node;
        }
        watch.health_problem = trial.health_problem(&health.kubelet, watch.node);
        watch.answered_since_restart |= health.kubelet.is_ok() || trial.healthy_since.is_some();
        let healthy = watch.health_problem.is_none();
        if healthy {
            watch.record_health(now);
        }
        let over = trial.unhealthy_since.is_none()
            && trial.healthy_since.is_some_and(|healthy| since(healthy, now) >= settings.trial_period);
        // An earlier answer of the API server still counts if the agent could not save the promotion then.
        let confirmed = watch.trial_done || health.node.is_some();
        watch.trial_done = healthy && (on_last_known_good || (over && confirmed));
    }

    /// Updates the trial in the ledger with the result of a probe, and rolls back if the trial failed.
    pub(super) fn handle_probe(&mut self, health: &Health, builder: &mut StepBuilder) {
        let now = builder.now;
        let on_last_known_good = self.targets_last_known_good();
        let Phase::Trying(trial) = &mut self.ledger.agent_state.phase else { return };
        let before = trial.clone();
        let watch = &mut self.volatile.watch;
        if watch.trial_done {
            return;
        }
        let answers = health.kubelet.is_ok();
        if watch.answered_last_probe && !answers {
            trial.interruptions = trial.interruptions.saturating_add(1);
        }
        watch.answered_last_probe = answers;
        match (&watch.health_problem, trial.healthy_since) {
            (None, None) => trial.healthy_since = Some(now),
            (None, Some(_)) if trial.unhealthy_since.take().is_some() => trial.healthy_since = Some(now),
            (Some(_), Some(_)) if trial.unhealthy_since.is_none() => trial.unhealthy_since = Some(now),
            _ => {}
        }
        // The times of this probe must count even if the ledger cannot be saved.
        builder.step.urgent = *trial != before;
        let (trial, health_problem) = (trial.clone(), watch.health_problem.clone());
        if let Some(failure) = self.failure(&trial, health_problem.as_ref(), now).filter(|_| !on_last_known_good) {
            self.roll_back(failure, builder);
        }
    }

    fn failure(
        &self,
        trial: &Trial,
        health_problem: Option<&HealthProblem>,
        now: Timestamp,
    ) -> Option<AssignmentFailure> {
        let health_problem = health_problem?;
        let limit = self.volatile.settings.health_timeout;
        // A new agent process may mean a reboot, which restarts the kubelet too. The health timeout then starts
        // again, up to ten timeouts after the recorded restart.
        let resumed = self.volatile.first_step.filter(|first| since(trial.started, *first) < limit.saturating_mul(10));
        let started = resumed.map_or(trial.started, |resumed| resumed.max(trial.started));
        let watch = &self.volatile.watch;
        let (error, message) = if watch.exits() >= MAX_EXITS {
            kubelet_messages::exited(watch.exits())
        } else if trial.interruptions >= MAX_INTERRUPTIONS {
            kubelet_messages::crash_loop(trial.interruptions, health_problem)
        } else if trial.healthy_since.is_none() && since(started, now) > limit {
            kubelet_messages::never_healthy(limit, health_problem)
        } else if trial.unhealthy_since.is_some_and(|unhealthy| since(unhealthy, now) > limit) {
            kubelet_messages::no_longer_healthy(limit, health_problem)
        } else {
            return None;
        };
        let (error, message) = kubelet_messages::with_last_error((error, message), watch.last_error.as_ref());
        let was_healthy = trial.healthy_since.is_some();
        Some(AssignmentFailure { kind: FailureKind::Trial, was_healthy, error, message, kubelet: None })
    }

    /// Ends a trial once `trial_done` is set and its file is in place: the kubelet may run what another program has written.
    /// Unless the assignment failed before, it becomes the last known good.
    pub(super) fn finish_trial(&mut self, builder: &mut StepBuilder) {
        if !self.volatile.watch.trial_done || !matches!(self.ledger.agent_state.phase, Phase::Trying(_)) {
            return;
        }
        match self.volatile.watch.in_place {
            Some(true) => {}
            // The next comparison of the schedule activates the target again, with another trial.
            Some(false) => return,
            None => return self.compare_disk(builder),
        }
        let agent_state = &mut self.ledger.agent_state;
        if agent_state.failure.is_none() {
            self.ledger.last_known_good.clone_from(&self.ledger.assigned);
            agent_state.last_known_good_placement = agent_state.placement;
            agent_state.last_known_good_hash.clone_from(&agent_state.content_hash);
            agent_state.last_known_good_text =
                agent_state.placed_text.clone().filter(|_| self.ledger.assigned.is_some());
        }
        self.ledger.agent_state.phase = Phase::Settled;
        self.volatile.watch.reset();
        builder.step.prune = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubelet_config::startup_error::LastError;

    #[test]
    fn counts_exits_since_the_first_report() {
        let mut watch = HealthWatch::default();
        let mut exits = |restarts: Option<u32>| {
            watch.record_service(&ServiceReport { restarts, last_error: None });
            watch.exits()
        };
        // A missing count changes nothing. A count that was reset, as by a reboot, begins at its new value.
        let counts = [None, Some(7), Some(8), None, Some(9), Some(1), Some(3)];
        assert_eq!(counts.map(&mut exits), [0, 0, 1, 1, 2, 0, 2]);
    }

    #[test]
    fn keeps_last_error_until_the_next_healthy_probe_or_restart() {
        let mut watch = HealthWatch::default();
        let error = |log| Some(LastError::in_log(log)?.explain(None, None, "journalctl"));
        let (first, second) = (error("Error: unknown scope: x"), error("Error: invalid taint: x"));
        assert_ne!(first, second);
        for last_error in [first, second.clone(), None] {
            watch.record_service(&ServiceReport { restarts: None, last_error });
        }
        assert_eq!(watch.last_error, second);
        let at = |second| Timestamp::from_second(second).expect("a time");
        assert_eq!(watch.errors_since(at(7)), at(7));
        watch.record_health(at(9));
        assert_eq!((watch.errors_since(at(7)), watch.last_error.clone()), (at(9), None));
        watch.last_error = second;
        watch.reset();
        assert_eq!((watch.last_error.clone(), watch.restarts, watch.healthy_at), (None, None, None));
        assert!(!watch.end_outdated_probe(), "no probe was in progress");
    }

    #[test]
    fn probe_in_progress_is_outdated_by_a_reset() {
        let mut watch = HealthWatch { under_way: true, ..HealthWatch::default() };
        watch.reset();
        assert!(watch.under_way && watch.end_outdated_probe());
        assert_eq!(watch, HealthWatch::default());
    }
}
