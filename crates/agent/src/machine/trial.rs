//! A kubelet that was restarted is watched: whether it becomes healthy, stays so, and has been long enough to be the last
//! known good.
//!
//! Healthy is a kubelet whose `/healthz` answers and, as far as that was so before and the API server says anything, whose
//! Node is Ready and whose Lease was renewed after the restart. Without the API server only `/healthz` counts.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::backoff::{after, shifted, since};
use super::{MachineState, Turn, texts};
use crate::events::{Effect, Health, NodeHealth};
use crate::state::{AssignmentFailure, FailureKind, Phase, Trial};

/// How often `/healthz` may stop answering: what stops more often is in a crash loop.
const LAPSES: u32 = 3;
/// How often the API server is asked during a trial, unless something depends on its answer: the kubelet renews its Lease
/// as often.
const NODE_INTERVAL: Duration = Duration::from_secs(10);

/// What is known of a kubelet that is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) under_way: bool,
    /// Whether the look that is under way asks the API server too.
    asks_node: bool,
    /// When to look next. `None`: at once.
    next: Option<Timestamp>,
    /// When the API server was asked last.
    asked: Option<Timestamp>,
    /// Whether `/healthz` answered when it was asked last.
    answers: bool,
    /// Whether it ever did since the restart.
    pub(super) answered: bool,
    /// What the API server said when it was asked last. `None`: nothing.
    node: Option<NodeHealth>,
    /// What is wrong, since the last look.
    pub(super) ailment: Option<HealthProblem>,
    /// Whether nothing is left to be seen.
    ripe: bool,
}

/// What keeps a kubelet from being healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HealthProblem {
    /// `/healthz` does not answer.
    Healthz(String),
    /// Its Node is not Ready.
    NotReady,
    /// Its Lease was not renewed.
    NoLease,
}

impl Watch {
    /// The kubelet was restarted.
    pub(super) fn begin(&mut self) {
        *self = Self { under_way: self.under_way, ..Self::default() };
    }

    pub(super) fn shift(&mut self, by: SignedDuration) {
        self.next = self.next.map(|next| shifted(next, by));
        self.asked = self.asked.map(|asked| shifted(asked, by));
    }
}

impl Trial {
    /// The clock was set by so much, or so much time was not watched.
    pub(super) fn shift(&mut self, by: SignedDuration) {
        self.started = shifted(self.started, by);
        self.healthy_since = self.healthy_since.map(|moment| shifted(moment, by));
        self.ailing_since = self.ailing_since.map(|moment| shifted(moment, by));
    }

    /// It goes on under another agent. Nobody knows how the kubelet was in between, nor whether the clock was set: being well
    /// and being unwell both begin anew.
    pub(super) fn resume(&mut self, now: Timestamp) {
        self.started = self.started.min(now);
        self.healthy_since = self.healthy_since.map(|_| now);
        self.ailing_since = self.ailing_since.map(|_| now);
    }

    fn ailment(&self, health: &Result<(), String>, node: Option<NodeHealth>) -> Option<HealthProblem> {
        if let Err(reason) = health {
            return Some(HealthProblem::Healthz(reason.clone()));
        }
        let (before, node) = (self.before?, node?);
        if before.ready && !node.ready {
            return Some(HealthProblem::NotReady);
        }
        let renewed = node.lease_renewed.is_some_and(|renewed| renewed > self.started);
        (before.lease_renewed.is_some() && !renewed).then_some(HealthProblem::NoLease)
    }
}

impl MachineState {
    /// Whether the kubelet is on what it falls back to: then there is nothing to try, and nothing to fall back to.
    pub(super) fn is_on_last_resort(&self) -> bool {
        self.target() == self.ledger.last_known_good.as_ref()
    }

    /// Looks at the kubelet when it is time.
    pub(super) fn probe(&mut self, turn: &mut Turn) {
        let Phase::Trying(trial) = &self.ledger.beyond.phase else { return };
        let settings = self.volatile.settings;
        let watch = &self.volatile.watch;
        if watch.under_way || watch.next.is_some_and(|next| next > turn.now) {
            return;
        }
        let open = trial.healthy_since.is_none() || trial.ailing_since.is_some();
        // Its confirmation at the end of a trial is asked for at once. A server that does not give it may be away from a whole
        // fleet: it is asked no more often than before.
        let end = trial.healthy_since.map(|healthy| after(healthy, settings.trial_period));
        let over = end.filter(|end| *end <= turn.now);
        let pause = NODE_INTERVAL.max(settings.probe_interval);
        let node = open
            || watch.asked.is_none_or(|asked| since(asked, turn.now) >= pause || over.is_some_and(|end| asked < end));
        // A kubelet that does not recover on what it falls back to is looked at less often: nothing is done about it.
        let lost = self.is_on_last_resort() && since(trial.started, turn.now) > settings.health_timeout;
        let interval = if lost { settings.probe_interval.max(NODE_INTERVAL) } else { settings.probe_interval };
        let watch = &mut self.volatile.watch;
        watch.under_way = true;
        watch.asks_node = node;
        watch.next = Some(after(turn.now, interval));
        if node {
            watch.asked = Some(turn.now);
        }
        turn.step.effects.push(Effect::Probe { node });
    }

    /// When to look again.
    pub(super) fn probe_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let watch = &self.volatile.watch;
        let watched = matches!(self.ledger.beyond.phase, Phase::Trying(_)) && !watch.under_way;
        watched.then(|| watch.next.map_or(now, |next| next.max(now)))
    }

    /// Takes note of what was seen.
    pub(super) fn look(&mut self, health: &Health, now: Timestamp) {
        let settings = self.volatile.settings;
        let last_resort = self.is_on_last_resort();
        let watch = &mut self.volatile.watch;
        watch.under_way = false;
        let Phase::Trying(trial) = &self.ledger.beyond.phase else { return };
        // A node that was not asked about is as it was.
        if watch.asks_node {
            watch.node = health.node;
        }
        watch.ailment = trial.ailment(&health.kubelet, watch.node);
        watch.answered |= health.kubelet.is_ok() || trial.healthy_since.is_some();
        let healthy = watch.ailment.is_none();
        let over = trial.ailing_since.is_none()
            && trial.healthy_since.is_some_and(|healthy| since(healthy, now) >= settings.trial_period);
        // What the API server confirmed once it need not confirm again, when the promotion could not be saved.
        let confirmed = watch.ripe || health.node.is_some();
        watch.ripe = healthy && (last_resort || (over && confirmed));
    }

    /// The answer to a look.
    pub(super) fn probed(&mut self, health: &Health, turn: &mut Turn) {
        let now = turn.now;
        let last_resort = self.is_on_last_resort();
        let Phase::Trying(trial) = &mut self.ledger.beyond.phase else { return };
        let before = trial.clone();
        let watch = &mut self.volatile.watch;
        if watch.ripe {
            return;
        }
        let answers = health.kubelet.is_ok();
        if watch.answers && !answers {
            trial.lapses = trial.lapses.saturating_add(1);
        }
        watch.answers = answers;
        match (&watch.ailment, trial.healthy_since) {
            (None, None) => trial.healthy_since = Some(now),
            (None, Some(_)) if trial.ailing_since.take().is_some() => trial.healthy_since = Some(now),
            (Some(_), Some(_)) if trial.ailing_since.is_none() => trial.ailing_since = Some(now),
            _ => {}
        }
        // What was seen counts, whether or not it can be saved.
        turn.step.urgent = *trial != before;
        let (trial, ailment) = (trial.clone(), watch.ailment.clone());
        if let Some(failure) = self.failure(&trial, ailment.as_ref(), now).filter(|_| !last_resort) {
            self.fall_back(failure, turn);
        }
    }

    fn failure(&self, trial: &Trial, ailment: Option<&HealthProblem>, now: Timestamp) -> Option<AssignmentFailure> {
        let ailment = ailment?;
        let limit = self.volatile.settings.health_timeout;
        // Where the host was started anew, the kubelet was too and gets its time again; but not for ever.
        let resumed = self.volatile.first.filter(|first| since(trial.started, *first) < limit.saturating_mul(10));
        let started = resumed.map_or(trial.started, |resumed| resumed.max(trial.started));
        let (error, message) = if trial.lapses >= LAPSES {
            texts::crash_loop(trial.lapses, ailment)
        } else if trial.healthy_since.is_none() && since(started, now) > limit {
            texts::never_healthy(limit, ailment)
        } else if trial.ailing_since.is_some_and(|ailing| since(ailing, now) > limit) {
            texts::no_longer_healthy(limit, ailment)
        } else {
            return None;
        };
        Some(AssignmentFailure { kind: FailureKind::Trial, error, message, kubelet: None })
    }

    /// Ends what is watched, when nothing is left to be seen: the assignment becomes the last known good.
    pub(super) fn conclude(&mut self, turn: &mut Turn) {
        if !self.volatile.watch.ripe || !matches!(self.ledger.beyond.phase, Phase::Trying(_)) {
            return;
        }
        if self.ledger.beyond.failure.is_none() && self.ledger.last_known_good != self.ledger.assigned {
            self.ledger.last_known_good = self.ledger.assigned.clone();
            self.ledger.beyond.last_known_good_hash = self.ledger.beyond.content_hash.clone();
        }
        self.ledger.beyond.phase = Phase::Settled;
        self.volatile.watch.begin();
        turn.step.prune = true;
    }
}
