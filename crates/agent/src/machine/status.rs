//! Status reports: `status.config`, conditions and heartbeats.
//!
//! `config` keeps its value while the kubelet restarts, as with the kubelet: an error counts against an assignment
//! only once `assigned` names it. A sync error shows at once. Conditions describe the present, except that Synced
//! keeps its value while the agent works on spec.

use jiff::Timestamp;

use super::backoff::{after, since};
use super::{MachineState, kubelet_messages};
use crate::events::{ActivationError, Effect};
use crate::ledger::{AssignmentFailure, FailureKind, Phase};
use crate::proof::Unproven;
use nodecfg_contract::nodeconfig::{
    ACTIVE, Condition, EFFECTIVE, EffectiveStatus, KNOWN_GOOD, NodeConfigStatus, ReportingAgent, SYNCED,
};
use nodecfg_contract::{ConfigStatus, error_text};

/// Version that the agent reports.
const VERSION: &str = env!("CARGO_PKG_VERSION");
pub(super) const TRUE: &str = "True";
pub(super) const FALSE: &str = "False";
pub(super) const UNKNOWN: &str = "Unknown";
/// Maximum number of overridden values in the message of a condition.
const MAX_IN_MESSAGE: usize = 3;

/// The state of a condition: its status, reason and message.
pub(super) type ConditionValue = (&'static str, String, String);

impl MachineState {
    /// Returns a report if the status differs from the server's or a heartbeat is due, and no report is in progress
    /// or delayed.
    pub(super) fn report_if_due(&mut self, now: Timestamp) -> Option<Effect> {
        self.volatile.node_config.as_ref()?;
        let status = self.status(now);
        self.volatile.report.current = Some(status.clone());
        let trial_ends_at = self.trial_end(now).map(rfc3339);
        let nothing_due = !self.has_changes() && self.next_heartbeat() > now;
        let report = &mut self.volatile.report;
        if report.pending.is_some() || report.backoff.waits(now) || nothing_due {
            return None;
        }
        let agent = ReportingAgent { version: VERSION.to_owned(), heard_at: rfc3339(now), trial_ends_at };
        let status = Box::new(NodeConfigStatus { agent: Some(agent), ..status });
        report.pending = Some(status.clone());
        report.is_outdated = false;
        Some(Effect::Report(status))
    }

    /// Records the result of a report.
    pub(super) fn handle_report(&mut self, result: &Result<(), String>, now: Timestamp) {
        let volatile = &mut self.volatile;
        let Some(sent) = volatile.report.pending.take() else { return };
        match result {
            Ok(()) => {
                volatile.report.backoff.clear();
                volatile.report.server_status = Some(*sent);
                volatile.report.acknowledged_at = Some(now);
            }
            // The report may have arrived in spite of the error.
            Err(_) => {
                volatile.report.backoff.fail(&mut volatile.jitter, now);
                volatile.report.server_status = None;
            }
        }
    }

    /// The condition Effective of a report: whether the kubelet runs every value of the configuration that it calls active.
    pub(crate) fn effective_condition(
        &self,
        found: &EffectiveStatus,
        unproven: Option<&Unproven>,
        report: &NodeConfigStatus,
        now: Timestamp,
    ) -> Option<Condition> {
        let EffectiveStatus { overridden, overridden_more, .. } = found;
        let value = match unproven {
            Some(unproven) => (UNKNOWN, unproven.reason().to_owned(), unproven.to_string()),
            None if overridden.is_empty() && *overridden_more == 0 => {
                (TRUE, EFFECTIVE.to_owned(), "the kubelet runs every reviewed value".to_owned())
            }
            None => {
                let values = overridden.iter().take(MAX_IN_MESSAGE).map(ToString::to_string);
                let listed = overridden.len().min(MAX_IN_MESSAGE);
                let hidden = u64::try_from(overridden.len().saturating_sub(listed)).unwrap_or_default();
                let more = match hidden.saturating_add(u64::from(*overridden_more)) {
                    0 => String::new(),
                    more => format!("; and {more} more"),
                };
                (FALSE, "Overridden".to_owned(), values.collect::<Vec<_>>().join("; ") + &more)
            }
        };
        let known = self.volatile.node_config.as_ref().map(|config| &config.status.conditions);
        let before = known.and_then(|conditions| conditions.iter().find(|condition| condition.kind == EFFECTIVE));
        condition(EFFECTIVE, Some(value), before, report.observed_generation, now)
    }

    /// Time of the next report or of the next attempt.
    pub(super) fn report_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let report = &self.volatile.report;
        self.volatile.node_config.as_ref()?;
        let due = if self.has_changes() { now } else { self.next_heartbeat() };
        report
            .pending
            .is_none()
            .then(|| [report.backoff.until(), Some(due)].into_iter().flatten().fold(now, Timestamp::max))
    }

    /// Reports whether the status differs from the server's. Heartbeats do not count.
    fn has_changes(&self) -> bool {
        let report = &self.volatile.report;
        match (&report.server_status, &report.current) {
            (Some(_), Some(_)) if report.is_outdated => true,
            (Some(known), Some(shown)) => {
                // A server with an older definition drops the placement.
                let is_dropped = known.placement.is_none() && report.acknowledged_at.is_some();
                let placement = if is_dropped { shown.placement } else { known.placement };
                NodeConfigStatus { placement, ..decided(known) } != *shown
            }
            (None, shown) => shown.is_some(),
            (Some(_), None) => true,
        }
    }

    /// Time of the next heartbeat. Based on the reports of this process, since a server with an older definition
    /// drops the field `agent`. Right after a start it is based on the server's status.
    fn next_heartbeat(&self) -> Timestamp {
        let report = &self.volatile.report;
        let last_heartbeat = || {
            let is_same = |agent: &&ReportingAgent| agent.version == VERSION;
            let agent = report.server_status.as_ref()?.agent.as_ref().filter(is_same)?;
            // A time in the future comes from a wrong clock and is ignored.
            agent.heard_at.parse().ok().filter(|time| self.volatile.last_step.is_some_and(|now| *time <= now))
        };
        report
            .acknowledged_at
            .or_else(last_heartbeat)
            .map_or(Timestamp::MIN, |time| after(time, self.volatile.heartbeat_interval))
    }

    /// Computes the current status.
    fn status(&self, now: Timestamp) -> NodeConfigStatus {
        let volatile = &self.volatile;
        let shown = volatile.report.current.as_ref();
        let previous = shown.filter(|shown| shown.config.is_some() && self.is_under_way(now));
        let agent_state = &self.ledger.agent_state;
        let default = volatile.settings.default_placement;
        let mut status = match previous {
            Some(previous) => NodeConfigStatus { conditions: Vec::new(), ..previous.clone() },
            None => NodeConfigStatus {
                config: Some(ConfigStatus {
                    assigned: self.ledger.assigned.clone(),
                    active: agent_state.active.clone(),
                    last_known_good: self.ledger.last_known_good.clone(),
                    error: None,
                }),
                observed_generation: volatile.sync.generation.or(shown.and_then(|shown| shown.observed_generation)),
                content_hash: agent_state
                    .active
                    .as_ref()
                    .and_then(|active| self.ledger.content_hash_of(active))
                    .cloned(),
                pool: agent_state.pool.clone(),
                placement: Some(self.ledger.active().and_then(|active| active.placement).unwrap_or(default)),
                effective: None,
                conditions: Vec::new(),
                agent: None,
            },
        };
        if let Some(config) = &mut status.config
            && (previous.is_none() || volatile.sync.problem.is_some())
        {
            config.error = self.config_error(now);
        }
        let values = [
            (SYNCED, self.synced_condition()),
            (ACTIVE, Some(self.active_condition(now))),
            (KNOWN_GOOD, Some(self.known_good_condition(now))),
        ];
        let generation = volatile.sync.generation.or(status.observed_generation);
        for (kind, value) in values {
            let before = shown.and_then(|shown| shown.conditions.iter().find(|condition| condition.kind == kind));
            status.conditions.extend(condition(kind, value, before, generation, now));
        }
        status
    }

    /// Reports whether the kubelet is being restarted on its target and nothing has failed so far. `config` then
    /// keeps its value.
    ///
    /// A failed trial or restart is reported before the rollback has finished. Otherwise the last known good would
    /// make the Node Ready while the status still calls the assignment active, which looks converged.
    fn is_under_way(&self, now: Timestamp) -> bool {
        let failed = self.ledger.agent_state.failure.as_ref();
        let ran = |failure: &AssignmentFailure| matches!(failure.kind, FailureKind::Trial | FailureKind::Restart);
        match &self.ledger.agent_state.phase {
            Phase::Settled => false,
            _ if failed.is_some_and(ran) => false,
            Phase::Activating { .. } => self.volatile.activation.problem.is_none(),
            Phase::Trying(trial) => {
                // On any other target the next failed probe ends the trial at this time.
                let late =
                    self.targets_last_known_good() && since(trial.started, now) > self.volatile.settings.health_timeout;
                !self.volatile.watch.answered_since_restart && trial.healthy_since.is_none() && !late
            }
        }
    }

    /// Value of `status.config.error`.
    pub(super) fn config_error(&self, now: Timestamp) -> Option<String> {
        let volatile = &self.volatile;
        if let Some(problem) = &volatile.sync.problem {
            return Some(format!("{}{}", error_text::SYNC_PREFIX, problem.error));
        }
        let good_fails = self.last_known_good_fails(now);
        if let Some(failure) = &self.ledger.agent_state.failure {
            let also = good_fails.then(|| kubelet_messages::good_fails_too(volatile.watch.state_file()));
            return Some(failure.error.clone() + &also.unwrap_or_default());
        }
        match &volatile.activation.problem {
            None => volatile.watch.stale_state_error().filter(|_| good_fails).map(kubelet_messages::not_started),
            Some(ActivationError::NotPlaced(_)) => Some(error_text::INTERNAL.to_owned()),
            Some(ActivationError::NotRequested(reason)) => Some(kubelet_messages::not_restarted(reason, None).0),
            Some(ActivationError::NotRestarted { reason, last_error }) => {
                Some(kubelet_messages::not_restarted(reason, last_error.as_ref()).0)
            }
        }
    }

    /// Condition Synced: whether the agent accepted spec. `None` while the agent works on spec; the previous
    /// condition then stays.
    fn synced_condition(&self) -> Option<ConditionValue> {
        let sync = &self.volatile.sync;
        if let Some(problem) = &sync.problem {
            return Some((FALSE, problem.reason.clone(), problem.message.clone()));
        }
        let wanted = self.volatile.node_config.as_ref()?;
        // The generation alone does not suffice: a NodeConfig that was deleted and created again restarts its
        // generations.
        let accepted = match (&self.ledger.assigned, &wanted.spec.config_source) {
            (Some(assigned), Some(wanted)) => assigned.names_same(wanted),
            (assigned, wanted) => assigned.is_none() && wanted.is_none(),
        };
        let message = format!("{} is assigned", kubelet_messages::named(wanted.spec.config_source.as_ref()));
        let placed =
            self.ledger.assigned.is_none() || self.ledger.agent_state.placement == Some(self.wanted_placement());
        (accepted && placed && sync.generation == Some(wanted.metadata.generation))
            .then(|| (TRUE, SYNCED.to_owned(), message))
    }

    /// Condition Active: whether the kubelet runs the assignment.
    fn active_condition(&self, now: Timestamp) -> ConditionValue {
        let agent_state = &self.ledger.agent_state;
        let target = kubelet_messages::named(self.target());
        let limit = self.volatile.settings.health_timeout;
        let progress = match &agent_state.phase {
            Phase::Settled => None,
            Phase::Activating { .. } => Some(match &self.volatile.activation.problem {
                None => ("Activating", restarting(&target)),
                Some(ActivationError::NotPlaced(why)) => {
                    (kubelet_messages::STORAGE_FAILED, format!("{target} could not be placed; retrying: {why}"))
                }
                Some(ActivationError::NotRequested(why) | ActivationError::NotRestarted { reason: why, .. }) => {
                    ("RestartFailed", format!("the kubelet could not be restarted on {target}; retrying: {why}"))
                }
            }),
            Phase::Trying(trial) => match &self.volatile.watch.health_problem {
                Some(health_problem)
                    if trial.healthy_since.is_some()
                        || since(trial.started, now) > limit
                        || self.last_known_good_fails(now) =>
                {
                    let problem = kubelet_messages::health_problem(health_problem);
                    let fix = self.volatile.watch.state_file().filter(|_| self.last_known_good_fails(now));
                    let fix = fix.map(|file| format!("; {}", kubelet_messages::state_file_fix(file)));
                    let fix = fix.unwrap_or_default();
                    Some(("Unhealthy", format!("the kubelet was restarted on {target}, and {problem}{fix}")))
                }
                _ if self.volatile.watch.answered_since_restart || trial.healthy_since.is_some() => None,
                _ => Some(("Activating", restarting(&target))),
            },
        };
        match (&agent_state.failure, progress) {
            (None, None) => (TRUE, ACTIVE.to_owned(), format!("the kubelet runs {target}")),
            (None, Some((reason, message))) => (FALSE, reason.to_owned(), message),
            (Some(failure), progress) => {
                let rest = progress.map_or_else(|| format!("the kubelet runs {target}"), |(_, message)| message);
                (FALSE, kubelet_messages::reason(failure.kind).to_owned(), format!("{}; {rest}", failure.message))
            }
        }
    }

    /// Condition KnownGood: whether the assignment is the last known good.
    fn known_good_condition(&self, now: Timestamp) -> ConditionValue {
        let agent_state = &self.ledger.agent_state;
        let assigned = kubelet_messages::named(self.ledger.assigned.as_ref());
        if let Some(unsaved) = self.volatile.save_failure.as_ref().filter(|unsaved| unsaved.backoff.waits(now)) {
            let message = format!("the agent's state could not be saved; retrying: {}", unsaved.reason);
            return (FALSE, kubelet_messages::STORAGE_FAILED.to_owned(), message);
        }
        match &agent_state.failure {
            Some(failure) => {
                let good = kubelet_messages::named(self.ledger.last_known_good.as_ref());
                let message = format!("{assigned} failed; the last known good is {good}");
                (FALSE, kubelet_messages::reason(failure.kind).to_owned(), message)
            }
            None if self.ledger.assignment() == self.ledger.good() => {
                let reason = if self.ledger.assigned.is_some() { KNOWN_GOOD } else { "Local" };
                (TRUE, reason.to_owned(), format!("{assigned} is the last known good"))
            }
            None => (FALSE, "OnTrial".to_owned(), format!("{assigned} is on trial")),
        }
    }
}

/// The part of a status that the machine decides. The rest depends on the host, or on the time.
pub(super) fn decided(status: &NodeConfigStatus) -> NodeConfigStatus {
    let mut decided = NodeConfigStatus { agent: None, effective: None, ..status.clone() };
    decided.conditions.retain(|condition| [SYNCED, ACTIVE, KNOWN_GOOD].contains(&condition.kind.as_str()));
    decided
}

/// RFC 3339 with whole seconds, the format of the API machinery.
fn rfc3339(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Message until the kubelet answers. Activation and trial use the same text, so that the status is written only
/// once.
fn restarting(target: &str) -> String {
    format!("the kubelet is being restarted on {target}")
}

/// Builds a condition. It keeps the transition time of the previous condition with the same status. If `value` is
/// `None`, the previous condition stays.
pub(super) fn condition(
    kind: &str,
    value: Option<ConditionValue>,
    before: Option<&Condition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Condition> {
    let Some((status, reason, message)) = value else { return before.cloned() };
    let since = before.filter(|before| before.status == status).map(|before| before.last_transition_time.clone());
    Some(Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason,
        message,
        last_transition_time: since.unwrap_or_else(|| rfc3339(now)),
        observed_generation: generation,
    })
}
