//! State machine of the agent; "machine" never means a host here. Pure functions: events and the time in, effects
//! out.
//!
//! The runtime calls [`step`] with every event and saves the ledger of the new state if it changed. It then adopts
//! the new state and carries out the step. If saving fails and the step is not urgent, it calls [`not_saved`]
//! instead.
//!
//! State outside the ledger is volatile; a restarted agent determines it again. Every effect except an announcement
//! and a discard is answered by exactly one event. At most one such effect of each kind is in progress. No assignment
//! is accepted while the kubelet restarts.
//!
//! ```text
//! spec ──▶ Fetch ──▶ Checkpoint ──▶ accept ─▶ Activating ──▶ Trying ──▶ Settled      (sync, activation, trial)
//!                                     │  refused ▲    │ failed  │
//!                                     └──────────┴────┴─────────┘ to the last known good
//! ```
//!
//! Must not use a clock, a disk or a client. Its only randomness is the generator in its state.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::events::{DiskCheck, Event, Fetched, Step};
use super::ledger::{Configuration, Ledger, Phase};
use super::settings::Settings;
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::Placement;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};

mod activation;
mod backoff;
mod disk_check;
#[cfg(test)]
mod failure_scenarios;
#[cfg(test)]
mod heartbeat_tests;
mod join;
#[cfg(test)]
mod join_scenarios;
mod kubelet_messages;
#[cfg(test)]
mod outdated_scenarios;
#[cfg(test)]
mod placement_scenarios;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod sim_harness;
#[cfg(test)]
mod sim_inputs;
#[cfg(test)]
mod sim_join;
mod status;
mod summary;
mod sync;
mod trial;

use activation::Activation;
use backoff::{Backoff, JitterRng, shifted};
use disk_check::DiskWatch;
use join::Joining;
use sync::SyncProblem;
use trial::HealthWatch;

/// Interval between reports when nothing has changed, plus up to a fifth. 15,000 nodes cause about four writes per
/// second.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Maximum time between two steps that counts for a trial, or two probe intervals if that is longer. The rest of a
/// larger gap does not count, since the clock was set or the host slept. Probes that take longer thus do not prolong
/// a trial forever.
const MAX_STEP_GAP: Duration = Duration::from_secs(10);

/// State of the agent between two events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineState {
    /// Persistent state.
    pub ledger: Ledger,
    volatile: Volatile,
}

/// State that a restarted agent determines again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Volatile {
    settings: Settings,
    jitter: JitterRng,
    /// Interval between reports when nothing has changed.
    heartbeat_interval: Duration,
    /// Times of the first and the last step.
    first_step: Option<Timestamp>,
    last_step: Option<Timestamp>,
    /// Whether the agent has read its disk.
    started: bool,
    /// Disk state found and not handled yet.
    disk_state: Option<DiskCheck>,
    disk_watch: DiskWatch,
    /// NodeConfig of the node, as last read. `None` if unknown or missing.
    node_config: Option<NodeConfig>,
    sync: Sync,
    activation: Activation,
    watch: HealthWatch,
    joining: Joining,
    /// Last failure to save the ledger, with the time of the next attempt.
    save_failure: Option<SaveFailure>,
    report: Report,
}

/// Progress of synchronizing the ConfigMap that spec names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sync {
    under_way: UnderWay,
    backoff: Backoff,
    /// Time to read an accepted ConfigMap again. `None` means at once.
    due: Option<Timestamp>,
    problem: Option<SyncProblem>,
    /// Generation of the last spec that was handled, successfully or not.
    generation: Option<i64>,
}

impl Sync {
    /// Download whose checkpoint is being saved.
    fn checkpoint(&self) -> Option<Box<Fetched>> {
        match &self.under_way {
            UnderWay::Checkpointing(fetched) => Some(fetched.clone()),
            UnderWay::Nothing | UnderWay::Comparing | UnderWay::Fetching => None,
        }
    }
}

/// Download or comparison in progress; at most one at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum UnderWay {
    #[default]
    Nothing,
    /// Comparison with the local configuration.
    Comparing,
    Fetching,
    Checkpointing(Box<Fetched>),
}

/// Failure to save the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SaveFailure {
    reason: String,
    backoff: Backoff,
}

/// Reports to the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Report {
    /// Status on the server, as far as known.
    server_status: Option<NodeConfigStatus>,
    /// Report that is being sent.
    pending: Option<Box<NodeConfigStatus>>,
    /// Latest computed status. `config` is kept while the kubelet restarts.
    current: Option<NodeConfigStatus>,
    backoff: Backoff,
    /// Whether what the kubelet runs has changed since the last report.
    is_outdated: bool,
    /// Time at which the server last accepted a report of this process.
    acknowledged_at: Option<Timestamp>,
}

impl MachineState {
    /// State of an agent that starts with this ledger, saved or empty. The first event must be [`Event::Started`].
    #[must_use]
    pub fn resume(mut ledger: Ledger, settings: Settings, seed: u64) -> Self {
        ledger.complete_placements(settings.default_placement);
        let volatile = Volatile {
            settings,
            jitter: JitterRng(seed),
            heartbeat_interval: backoff::jittered(HEARTBEAT_INTERVAL, &mut JitterRng(seed.rotate_left(32))),
            first_step: None,
            last_step: None,
            started: false,
            disk_state: None,
            disk_watch: DiskWatch::default(),
            node_config: None,
            sync: Sync::default(),
            activation: Activation::default(),
            watch: HealthWatch::default(),
            joining: Joining::default(),
            save_failure: None,
            report: Report::default(),
        };
        Self { ledger, volatile }
    }

    /// Value of `status.config.error` now, or after the restart in progress. For logs and metrics.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.config_error(self.volatile.last_step.unwrap_or(Timestamp::MIN))
    }

    /// Content hash that spec requires for this source. `None` if spec names another source or has no hash.
    #[must_use]
    pub(crate) fn required_hash(&self, source: &ConfigSource) -> Option<&str> {
        let spec = &self.volatile.node_config.as_ref()?.spec;
        spec.config_source.as_ref().filter(|wanted| wanted.names_same(source)).and(spec.content_hash.as_deref())
    }

    /// Highest disruption class that spec allows.
    #[must_use]
    pub fn max_disruption(&self) -> Class {
        self.volatile.node_config.as_ref().map_or(Class::Restart, |config| config.spec.max_disruption())
    }

    /// Placement that spec asks for, with its default.
    #[must_use]
    pub(crate) fn wanted_placement(&self) -> Placement {
        let wanted = self.volatile.node_config.as_ref().and_then(|config| config.spec.placement);
        wanted.unwrap_or(self.volatile.settings.default_placement)
    }

    /// Source of the configuration that the kubelet must run.
    #[must_use]
    pub fn target(&self) -> Option<&ConfigSource> {
        self.target_configuration().map(|target| target.source)
    }

    /// Configuration that the kubelet must run: the assignment, or the last known good if the assignment failed.
    #[must_use]
    pub(crate) fn target_configuration(&self) -> Option<Configuration<'_>> {
        match self.ledger.agent_state.failure {
            None => self.ledger.assignment(),
            Some(_) => self.ledger.good(),
        }
    }
}

/// Handles an event. The caller adopts the result only if the new ledger could be saved, or if the step is urgent.
#[must_use]
pub fn step(state: &MachineState, event: &Event, now: Timestamp) -> (MachineState, Step) {
    let mut next = state.clone();
    let checkpointed = next.volatile.sync.checkpoint();
    let event = next.receive(event, now);
    let mut builder = StepBuilder { now, step: Step::default() };
    next.handle(event, checkpointed, &mut builder);
    next.plan_effects(&mut builder);
    // The caller adopts this state only if its ledger is saved, or if it has nothing new to save.
    if !builder.step.urgent && (next.ledger != state.ledger || !next.is_save_blocked(now)) {
        next.volatile.save_failure = None;
    }
    let step = next.finish(builder);
    (next, step)
}

/// Handles an event whose ledger from [`step`] could not be saved. Must not be used for an urgent step. The new state
/// records the event, keeps the previous ledger and retries later.
#[must_use]
pub fn not_saved(state: &MachineState, event: &Event, reason: &str, now: Timestamp) -> (MachineState, Step) {
    let unsaved = step(state, event, now).0.ledger;
    let mut next = state.clone();
    next.receive(event, now);
    let mut backoff = next.volatile.save_failure.take().map(|failure| failure.backoff).unwrap_or_default();
    backoff.fail(&mut next.volatile.jitter, now);
    next.volatile.save_failure = Some(SaveFailure { reason: reason.to_owned(), backoff });
    if unsaved.assignment() != state.ledger.assignment() {
        next.sync_failed(SyncProblem::storage(reason), now);
    }
    let mut builder = StepBuilder { now, step: Step::default() };
    next.plan_effects(&mut builder);
    let step = next.finish(builder);
    (next, step)
}

/// Step under construction.
struct StepBuilder {
    now: Timestamp,
    step: Step,
}

impl MachineState {
    /// Records the time and the event. Returns the event to handle: a tick instead of an unexpected answer, which
    /// thus does not affect the effect in progress, or of the result of a probe that began before a restart.
    fn receive<'event>(&mut self, event: &'event Event, now: Timestamp) -> &'event Event {
        self.track_time(now);
        let is_outdated = matches!(event, Event::Probed(_)) && self.volatile.watch.end_outdated_probe();
        let event = if self.is_expected(event) && !is_outdated { event } else { &Event::Tick };
        self.record(event, now);
        event
    }

    /// Records an event in volatile state only, since the event has happened even if the ledger cannot be saved.
    fn record(&mut self, event: &Event, now: Timestamp) {
        self.volatile.watch.end_confirmation();
        match event {
            Event::Started(found) => {
                self.volatile.started = true;
                self.volatile.disk_state = Some(found.clone());
                self.schedule_disk_check(now);
            }
            Event::DiskChecked(found) => self.record_disk_check(found, now),
            Event::Drifted => self.volatile.report.is_outdated = true,
            Event::NodeConfigRead(wanted) => self.record_node_config(wanted.as_deref()),
            Event::Fetched(_) | Event::Checkpointed(_) | Event::LocalCompared(_) => {
                self.volatile.sync.under_way = UnderWay::Nothing
            }
            Event::Activated(_) => self.volatile.activation.under_way = false,
            Event::Probed(health) => self.record_probe(health, now),
            Event::Reported(result) => self.handle_report(result, now),
            Event::Joined(answer) => self.record_join(answer, now),
            Event::Tick => {}
        }
    }

    /// Reports whether an event is an input from outside, or answers an effect in progress.
    fn is_expected(&self, event: &Event) -> bool {
        let volatile = &self.volatile;
        match event {
            Event::Fetched(_) => volatile.sync.under_way == UnderWay::Fetching,
            Event::LocalCompared(_) => volatile.sync.under_way == UnderWay::Comparing,
            Event::Checkpointed(_) => matches!(volatile.sync.under_way, UnderWay::Checkpointing(_)),
            Event::Activated(_) => volatile.activation.under_way,
            Event::Probed(_) => volatile.watch.under_way,
            Event::Reported(_) => volatile.report.pending.is_some(),
            Event::Joined(answer) => volatile.joining.expects(answer),
            Event::DiskChecked(_) => volatile.disk_watch.under_way,
            Event::Started(_) | Event::NodeConfigRead(_) | Event::Drifted | Event::Tick => true,
        }
    }

    /// Handles the results of effects.
    fn handle(&mut self, event: &Event, checkpointed: Option<Box<Fetched>>, builder: &mut StepBuilder) {
        match event {
            Event::Fetched(result) => self.handle_fetch(result, builder),
            Event::Checkpointed(result) => self.handle_checkpoint(checkpointed, result, builder),
            Event::LocalCompared(result) => self.handle_compared(result, builder),
            Event::Activated(result) => self.handle_activation(result, builder),
            Event::Probed(health) => self.handle_probe(health, builder),
            Event::Joined(answer) => self.handle_join(answer, builder),
            _ => {}
        }
    }

    /// Plans what is due now, independently of the event. An urgent step plans no change of the ledger that must be
    /// saved first. The next step, which follows at once, plans the rest.
    fn plan_effects(&mut self, builder: &mut StepBuilder) {
        if !self.volatile.started {
            return;
        }
        self.handle_disk_state(builder);
        if !builder.step.urgent && !self.is_save_blocked(builder.now) {
            self.finish_trial(builder);
            self.end_boot();
            self.synchronize(builder);
        }
        self.activate(builder);
        self.check_disk(builder);
        self.probe(builder);
        self.join(builder);
    }

    fn finish(&mut self, builder: StepBuilder) -> Step {
        let StepBuilder { now, mut step } = builder;
        if self.volatile.started {
            step.effects.extend(self.report_if_due(now));
        }
        step.wake = self.wake(now, step.urgent);
        step
    }

    /// Reports whether to hold back changes of the ledger, because the last save failed.
    fn is_save_blocked(&self, now: Timestamp) -> bool {
        self.volatile.save_failure.as_ref().is_some_and(|failure| failure.backoff.waits(now))
    }

    fn wake(&self, now: Timestamp, urgent: bool) -> Option<Timestamp> {
        let volatile = &self.volatile;
        if !volatile.started {
            return None;
        }
        let held =
            volatile.save_failure.as_ref().and_then(|failure| failure.backoff.until()).filter(|until| *until > now);
        // The next step plans what this urgent step skipped.
        let rest = urgent.then_some(now);
        let sync = if held.is_none() { self.sync_wake(now) } else { None };
        let (activation, probe) = (self.activation_wake(now), self.probe_wake(now));
        let (report, join, disk) = (self.report_wake(now), self.join_wake(now), self.disk_check_wake(now));
        let wakes = [held, rest, sync, activation, probe, report, join, disk];
        wakes.into_iter().flatten().min()
    }

    /// Adjusts times after a clock change or a suspended host: only observed time counts. At the first step, resumes
    /// a trial of the previous agent process.
    fn track_time(&mut self, now: Timestamp) {
        let Some(last) = self.volatile.last_step.replace(now) else {
            self.volatile.first_step = Some(now);
            if let Phase::Trying(trial) = &mut self.ledger.agent_state.phase {
                trial.resume(now);
            }
            return;
        };
        let passed = now.duration_since(last);
        if passed.is_negative() {
            return self.shift(passed);
        }
        let watched = MAX_STEP_GAP.max(self.volatile.settings.probe_interval.saturating_mul(2));
        let unwatched = backoff::since(last, now).saturating_sub(watched);
        if let (Phase::Trying(trial), Ok(unwatched)) = (&mut self.ledger.agent_state.phase, unwatched.try_into()) {
            trial.shift(unwatched);
        }
    }

    /// Adjusts all times after a change of the clock.
    fn shift(&mut self, by: SignedDuration) {
        let volatile = &mut self.volatile;
        volatile.first_step = volatile.first_step.map(|first| shifted(first, by));
        volatile.disk_watch.shift(by);
        volatile.sync.backoff.shift(by);
        volatile.sync.due = volatile.sync.due.map(|due| shifted(due, by));
        volatile.activation.backoff.shift(by);
        volatile.watch.shift(by);
        volatile.joining.backoff.shift(by);
        volatile.joining.taint_backoff.shift(by);
        volatile.report.backoff.shift(by);
        volatile.report.acknowledged_at = volatile.report.acknowledged_at.map(|time| shifted(time, by));
        if let Some(failure) = &mut volatile.save_failure {
            failure.backoff.shift(by);
        }
        if let Phase::Trying(trial) = &mut self.ledger.agent_state.phase {
            trial.shift(by);
        }
    }
}
