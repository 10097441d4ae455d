//! What the agent reports. While the kubelet is being restarted, `config` stays as it was, as it did with the kubelet: an
//! error counts against an assignment only once `assigned` names it. Conditions are always of the moment.

use jiff::Timestamp;

use super::backoff::{after, since};
use super::{MachineState, texts};
use crate::events::{ActivationError, Effect};
use crate::state::{AssignmentFailure, FailureKind, Phase};
use nodecfg_contract::nodeconfig::{ACTIVE, Condition, KNOWN_GOOD, NodeConfigStatus, ReportingAgent, SYNCED};
use nodecfg_contract::{ConfigStatus, error_text};

/// What the agent says it is.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const TRUE: &str = "True";
const FALSE: &str = "False";

/// The state of a condition: its status, reason and message.
type ConditionValue = (&'static str, String, String);

impl MachineState {
    /// Reports, when there is something else to say than the API server has.
    pub(super) fn tell(&mut self, now: Timestamp) -> Option<Effect> {
        self.volatile.wanted.as_ref()?;
        let status = self.status(now);
        self.volatile.report.shown = Some(status.clone());
        let quiet = !self.has_news() && self.breaks_silence() > now;
        let report = &mut self.volatile.report;
        if report.sent.is_some() || report.backoff.waits(now) || quiet {
            return None;
        }
        let agent = ReportingAgent { version: VERSION.to_owned(), heard_at: written(now) };
        let status = Box::new(NodeConfigStatus { agent: Some(agent), ..status });
        report.sent = Some(status.clone());
        Some(Effect::Report(status))
    }

    /// Takes note of what became of a report.
    pub(super) fn reported(&mut self, result: &Result<(), String>, now: Timestamp) {
        let volatile = &mut self.volatile;
        let Some(sent) = volatile.report.sent.take() else { return };
        match result {
            Ok(()) => {
                volatile.report.backoff.clear();
                volatile.report.known = Some(*sent);
                volatile.report.heard = Some(now);
            }
            // It may have arrived all the same.
            Err(_) => {
                volatile.report.backoff.fail(&mut volatile.chance, now);
                volatile.report.known = None;
            }
        }
    }

    /// When to report, or to try again to.
    pub(super) fn report_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let report = &self.volatile.report;
        self.volatile.wanted.as_ref()?;
        let due = if self.has_news() { now } else { self.breaks_silence() };
        report
            .sent
            .is_none()
            .then(|| [report.backoff.until(), Some(due)].into_iter().flatten().fold(now, Timestamp::max))
    }

    /// Whether there is something else to say than the API server has; that the agent is alive is no news.
    fn has_news(&self) -> bool {
        let report = &self.volatile.report;
        match (&report.known, &report.shown) {
            (Some(known), Some(shown)) => NodeConfigStatus { agent: None, ..known.clone() } != *shown,
            (None, shown) => shown.is_some(),
            (Some(_), None) => true,
        }
    }

    /// When the API server is to be told again that this agent is alive. It is judged by what was told in this life, since an
    /// API server with an older definition of NodeConfigs forgets it at once; after a start, by what the server has.
    fn breaks_silence(&self) -> Timestamp {
        let report = &self.volatile.report;
        let told = || {
            let agent = report.known.as_ref()?.agent.as_ref().filter(|agent| agent.version == VERSION)?;
            // A moment to come is from a clock that was wrong.
            agent.heard_at.parse().ok().filter(|heard| self.volatile.last.is_some_and(|now| *heard <= now))
        };
        report.heard.or_else(told).map_or(Timestamp::MIN, |heard| after(heard, self.volatile.silence))
    }

    /// What there is to say.
    fn status(&self, now: Timestamp) -> NodeConfigStatus {
        let volatile = &self.volatile;
        let shown = volatile.report.shown.as_ref();
        let earlier = shown.filter(|shown| shown.config.is_some() && self.is_under_way(now));
        let beyond = &self.ledger.beyond;
        let mut status = match earlier {
            Some(earlier) => NodeConfigStatus { conditions: Vec::new(), ..earlier.clone() },
            None => NodeConfigStatus {
                config: Some(ConfigStatus {
                    assigned: self.ledger.assigned.clone(),
                    active: beyond.active.clone(),
                    last_known_good: self.ledger.last_known_good.clone(),
                    error: None,
                }),
                observed_generation: volatile.sync.generation.or(shown.and_then(|shown| shown.observed_generation)),
                content_hash: beyond.active.as_ref().and_then(|active| self.ledger.content_hash_of(active)).cloned(),
                pool: beyond.pool.clone(),
                conditions: Vec::new(),
                agent: None,
            },
        };
        if let Some(config) = &mut status.config
            && (earlier.is_none() || volatile.sync.problem.is_some())
        {
            config.error = self.config_error();
        }
        let held = [
            (SYNCED, self.synced_condition()),
            (ACTIVE, Some(self.active_condition(now))),
            (KNOWN_GOOD, Some(self.known_good_condition(now))),
        ];
        let generation = volatile.sync.generation.or(status.observed_generation);
        for (kind, held) in held {
            let before = shown.and_then(|shown| shown.conditions.iter().find(|condition| condition.kind == kind));
            status.conditions.extend(condition(kind, held, before, generation, now));
        }
        status
    }

    /// Whether the kubelet is on its way to what is assigned, and nothing went wrong so far.
    ///
    /// A kubelet that does not get well on an assignment is told of before anything is done about it: on its last known good
    /// it makes its Node Ready, and with the assignment still called active that would look converged.
    fn is_under_way(&self, now: Timestamp) -> bool {
        let failed = self.ledger.beyond.failure.as_ref();
        let ran = |failure: &AssignmentFailure| matches!(failure.kind, FailureKind::Trial | FailureKind::Restart);
        match &self.ledger.beyond.phase {
            Phase::Settled => false,
            _ if failed.is_some_and(ran) => false,
            Phase::Activating { .. } => self.volatile.activation.problem.is_none(),
            Phase::Trying(trial) => {
                // On anything else the next look ends the trial.
                let late =
                    self.is_on_last_resort() && since(trial.started, now) > self.volatile.settings.health_timeout;
                !self.volatile.watch.answered && trial.healthy_since.is_none() && !late
            }
        }
    }

    /// What `status.config.error` is to say.
    pub(super) fn config_error(&self) -> Option<String> {
        let volatile = &self.volatile;
        if let Some(problem) = &volatile.sync.problem {
            return Some(format!("{}{}", error_text::SYNC_PREFIX, problem.error));
        }
        if let Some(failure) = &self.ledger.beyond.failure {
            return Some(failure.error.clone());
        }
        match &volatile.activation.problem {
            None => None,
            Some(ActivationError::NotPlaced(_) | ActivationError::NotAsked(_)) => Some(error_text::INTERNAL.to_owned()),
            Some(ActivationError::NotRestarted(_)) => Some(error_text::RESTART.to_owned()),
        }
    }

    /// Whether the agent took what spec says. `None`: it is at it, and what was said before stands.
    fn synced_condition(&self) -> Option<ConditionValue> {
        let sync = &self.volatile.sync;
        if let Some(problem) = &sync.problem {
            return Some((FALSE, problem.reason.clone(), problem.message.clone()));
        }
        let wanted = self.volatile.wanted.as_ref()?;
        // A NodeConfig that was deleted and made again counts its generations anew.
        let taken = match (&self.ledger.assigned, &wanted.spec.config_source) {
            (Some(assigned), Some(wanted)) => assigned.names_same(wanted),
            (assigned, wanted) => assigned.is_none() && wanted.is_none(),
        };
        let message = format!("{} is assigned", texts::named(wanted.spec.config_source.as_ref()));
        (taken && sync.generation == Some(wanted.metadata.generation)).then(|| (TRUE, SYNCED.to_owned(), message))
    }

    /// Whether the kubelet runs what is assigned.
    fn active_condition(&self, now: Timestamp) -> ConditionValue {
        let beyond = &self.ledger.beyond;
        let target = texts::named(self.target());
        let limit = self.volatile.settings.health_timeout;
        let now_what = match &beyond.phase {
            Phase::Settled => None,
            Phase::Activating { .. } => Some(match &self.volatile.activation.problem {
                None => ("Activating", restarting(&target)),
                Some(ActivationError::NotPlaced(why)) => {
                    (texts::STORAGE_FAILED, format!("{target} could not be put in place, will be tried again: {why}"))
                }
                Some(ActivationError::NotAsked(why) | ActivationError::NotRestarted(why)) => (
                    "RestartFailed",
                    format!("the kubelet could not be restarted on {target}, will be tried again: {why}"),
                ),
            }),
            Phase::Trying(trial) => match &self.volatile.watch.ailment {
                Some(ailment) if trial.healthy_since.is_some() || since(trial.started, now) > limit => Some((
                    "Unhealthy",
                    format!("the kubelet was restarted on {target}, and {}", texts::ailment(ailment)),
                )),
                _ if self.volatile.watch.answered || trial.healthy_since.is_some() => None,
                _ => Some(("Activating", restarting(&target))),
            },
        };
        match (&beyond.failure, now_what) {
            (None, None) => (TRUE, ACTIVE.to_owned(), format!("the kubelet runs {target}")),
            (None, Some((reason, message))) => (FALSE, reason.to_owned(), message),
            (Some(failure), now_what) => {
                let rest = now_what.map_or_else(|| format!("the kubelet runs {target}"), |(_, message)| message);
                (FALSE, texts::reason(failure.kind).to_owned(), format!("{}; {rest}", failure.message))
            }
        }
    }

    /// Whether what is assigned is the last known good.
    fn known_good_condition(&self, now: Timestamp) -> ConditionValue {
        let beyond = &self.ledger.beyond;
        let assigned = texts::named(self.ledger.assigned.as_ref());
        if let Some(unsaved) = self.volatile.unsaved.as_ref().filter(|unsaved| unsaved.backoff.waits(now)) {
            let message = format!("the agent's state could not be saved, will be tried again: {}", unsaved.reason);
            return (FALSE, texts::STORAGE_FAILED.to_owned(), message);
        }
        match &beyond.failure {
            Some(failure) => {
                let good = texts::named(self.ledger.last_known_good.as_ref());
                let message = format!("{assigned} failed; the last known good is {good}");
                (FALSE, texts::reason(failure.kind).to_owned(), message)
            }
            None if self.ledger.assigned == self.ledger.last_known_good => {
                let reason = if self.ledger.assigned.is_some() { KNOWN_GOOD } else { "Local" };
                (TRUE, reason.to_owned(), format!("{assigned} is the last known good"))
            }
            None => (FALSE, "OnTrial".to_owned(), format!("{assigned} is on trial")),
        }
    }
}

/// RFC 3339 in whole seconds, as the API machinery writes moments.
fn written(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The same until the kubelet answers: it is one report.
fn restarting(target: &str) -> String {
    format!("the kubelet is being restarted on {target}")
}

/// A condition; its time is that of the one before, when that had the same status. `held` is `None` when nothing new can be
/// said yet.
fn condition(
    kind: &str,
    held: Option<ConditionValue>,
    before: Option<&Condition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Condition> {
    let Some((status, reason, message)) = held else { return before.cloned() };
    let since = before.filter(|before| before.status == status).map(|before| before.last_transition_time.clone());
    Some(Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason,
        message,
        last_transition_time: since.unwrap_or_else(|| written(now)),
        observed_generation: generation,
    })
}
