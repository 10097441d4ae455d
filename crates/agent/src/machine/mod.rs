//! The agent as a pure state machine: events and the time in, effects out.
//!
//! The runtime calls [`step`] with every event, saves the ledger of the new state if that changed, and only then takes that
//! state and does what the step says; when the ledger cannot be saved, it calls [`not_saved`] instead. What is not in the
//! ledger is volatile, and is found out again after a restart. Each effect but an announcement has one answer, an event,
//! which always comes; the machine has at most one of each kind under way, and waits for the kubelet's restart before it takes
//! the next assignment.
//!
//! ```text
//! spec ──▶ Fetch ──▶ Checkpoint ──▶ taken ──▶ Activating ──▶ Trying ──▶ Settled      (sync, activation, trial)
//!                                     │  refused ▲    │ failed  │
//!                                     └──────────┴────┴─────────┘ to the last known good
//! ```
//!
//! Knows no clock, no disk, no client; its only randomness is the generator in its state.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::events::{ConfigCheck, Event, Fetched, Step};
use super::state::{Ledger, Phase, Settings};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};

mod activation;
mod backoff;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod silence;
mod status;
#[cfg(test)]
mod stories;
mod sync;
mod texts;
mod trial;
#[cfg(test)]
mod troubles;
#[cfg(test)]
mod world;

use activation::Activation;
use backoff::{Backoff, Chance, shifted};
use sync::SyncProblem;
use trial::Watch;

/// How long an agent that has nothing to say stays silent, and up to a fifth longer. A cluster of 15,000 nodes is written to some
/// four times a second for it.
const SILENCE: Duration = Duration::from_secs(60 * 60);

/// As much as this, or two probes, of the time between two steps counts as watched: when more has passed, the clock was set or
/// the machine slept. That some of it counts bounds a trial whose probes are slow.
const WATCHED: Duration = Duration::from_secs(10);

/// The agent between two events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineState {
    /// What survives the agent.
    pub ledger: Ledger,
    volatile: Volatile,
}

/// What does not survive the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Volatile {
    settings: Settings,
    chance: Chance,
    /// How long the API server goes without a report when there is no news.
    silence: Duration,
    /// The moments of the first and the last step.
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Whether the agent has looked at what is on disk.
    started: bool,
    /// What it saw there and has not acted upon yet.
    found: Option<Found>,
    /// The NodeConfig. `None`: nothing is known of it, or there is none.
    wanted: Option<NodeConfig>,
    sync: Sync,
    activation: Activation,
    watch: Watch,
    /// Why the ledger could not be saved, and when to try again.
    unsaved: Option<Unsaved>,
    report: Report,
}

/// What was on disk when the agent started.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    verdict: Option<ConfigCheck>,
    in_place: bool,
}

/// How far the ConfigMap is that spec names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sync {
    under_way: UnderWay,
    backoff: Backoff,
    /// When to look again at a ConfigMap that was taken. `None`: at once.
    due: Option<Timestamp>,
    problem: Option<SyncProblem>,
    /// The generation of spec that was dealt with, be it in vain.
    generation: Option<i64>,
}

impl Sync {
    /// What is being checkpointed.
    fn checkpoint(&self) -> Option<Box<Fetched>> {
        match &self.under_way {
            UnderWay::Checkpointing(fetched) => Some(fetched.clone()),
            UnderWay::Nothing | UnderWay::Fetching => None,
        }
    }
}

/// The one download at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum UnderWay {
    #[default]
    Nothing,
    Fetching,
    Checkpointing(Box<Fetched>),
}

/// A ledger that could not be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unsaved {
    reason: String,
    backoff: Backoff,
}

/// What the API server was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Report {
    /// What it has, as far as known.
    known: Option<NodeConfigStatus>,
    /// What is on its way to it.
    sent: Option<Box<NodeConfigStatus>>,
    /// What was last meant to be told. Stays while the kubelet is being restarted.
    shown: Option<NodeConfigStatus>,
    backoff: Backoff,
    /// When it last took a report of this agent.
    heard: Option<Timestamp>,
}

impl MachineState {
    /// An agent that starts with this ledger, saved or empty. The first event is [`Event::Started`].
    #[must_use]
    pub fn resume(ledger: Ledger, settings: Settings, seed: u64) -> Self {
        let volatile = Volatile {
            settings,
            chance: Chance(seed),
            silence: backoff::jittered(SILENCE, &mut Chance(seed.rotate_left(32))),
            first: None,
            last: None,
            started: false,
            found: None,
            wanted: None,
            sync: Sync::default(),
            activation: Activation::default(),
            watch: Watch::default(),
            unsaved: None,
            report: Report::default(),
        };
        Self { ledger, volatile }
    }

    /// What `status.config.error` says, or will say once the kubelet was restarted; for logs and metrics.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.config_error()
    }

    /// What the kubelet is to run: the assignment, or the last known good when that failed.
    #[must_use]
    pub fn target(&self) -> Option<&ConfigSource> {
        match self.ledger.beyond.failure {
            None => self.ledger.assigned.as_ref(),
            Some(_) => self.ledger.last_known_good.as_ref(),
        }
    }
}

/// What comes of an event at this moment. Holds once the ledger is saved; a step that is urgent holds all the same.
#[must_use]
pub fn step(state: &MachineState, event: &Event, now: Timestamp) -> (MachineState, Step) {
    let mut next = state.clone();
    let checkpointed = next.volatile.sync.checkpoint();
    let event = next.hear(event, now);
    let mut turn = Turn { now, step: Step::default() };
    next.apply(event, checkpointed, &mut turn);
    next.decide(&mut turn);
    // The ledger is saved then, or there is nothing left that would have to be.
    if !turn.step.urgent && (next.ledger != state.ledger || !next.is_held(now)) {
        next.volatile.unsaved = None;
    }
    let step = next.finish(turn);
    (next, step)
}

/// What comes of an event when the ledger that [`step`] made of it cannot be saved and the step is not urgent: the state has
/// seen what happened, and tries again later to act upon it.
#[must_use]
pub fn not_saved(state: &MachineState, event: &Event, reason: &str, now: Timestamp) -> (MachineState, Step) {
    let lost = step(state, event, now).0.ledger;
    let mut next = state.clone();
    next.hear(event, now);
    let mut backoff = next.volatile.unsaved.take().map(|unsaved| unsaved.backoff).unwrap_or_default();
    backoff.fail(&mut next.volatile.chance, now);
    next.volatile.unsaved = Some(Unsaved { reason: reason.to_owned(), backoff });
    if lost.assigned != state.ledger.assigned {
        next.sync_failed(SyncProblem::storage(reason), now);
    }
    let mut turn = Turn { now, step: Step::default() };
    next.decide(&mut turn);
    let step = next.finish(turn);
    (next, step)
}

/// A step in the making.
struct Turn {
    now: Timestamp,
    step: Step,
}

impl MachineState {
    /// Takes note of the time and of what happened. An answer that nobody waits for says nothing of what is under way.
    fn hear<'event>(&mut self, event: &'event Event, now: Timestamp) -> &'event Event {
        self.keep_time(now);
        let event = if self.awaits(event) { event } else { &Event::Tick };
        self.absorb(event, now);
        event
    }

    /// Takes note of what happened, in what is volatile only: it has happened whether or not the ledger can be saved.
    fn absorb(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::Started { verdict, in_place } => {
                self.volatile.started = true;
                self.volatile.found = Some(Found { verdict: verdict.clone(), in_place: *in_place });
            }
            Event::Seen(wanted) => self.see(wanted.as_deref()),
            Event::Fetched(_) | Event::Checkpointed(_) => self.volatile.sync.under_way = UnderWay::Nothing,
            Event::Activated(_) => self.volatile.activation.under_way = false,
            Event::Probed(health) => self.look(health, now),
            Event::Reported(result) => self.reported(result, now),
            Event::Tick => {}
        }
    }

    /// Whether an event is news, or the answer to something that is under way.
    fn awaits(&self, event: &Event) -> bool {
        let volatile = &self.volatile;
        match event {
            Event::Fetched(_) => volatile.sync.under_way == UnderWay::Fetching,
            Event::Checkpointed(_) => matches!(volatile.sync.under_way, UnderWay::Checkpointing(_)),
            Event::Activated(_) => volatile.activation.under_way,
            Event::Probed(_) => volatile.watch.under_way,
            Event::Reported(_) => volatile.report.sent.is_some(),
            Event::Started { .. } | Event::Seen(_) | Event::Tick => true,
        }
    }

    /// Acts upon what happened.
    fn apply(&mut self, event: &Event, checkpointed: Option<Box<Fetched>>, turn: &mut Turn) {
        match event {
            Event::Fetched(result) => self.fetched(result, turn),
            Event::Checkpointed(result) => self.checkpointed(checkpointed, result, turn),
            Event::Activated(result) => self.activated(result, turn),
            Event::Probed(health) => self.probed(health, turn),
            _ => {}
        }
    }

    /// Does what is to be done now, whatever has happened. An urgent step does nothing that has to be saved first; what
    /// else there is to do follows at once in the next.
    fn decide(&mut self, turn: &mut Turn) {
        if !self.volatile.started {
            return;
        }
        self.act_on_found(turn);
        if !turn.step.urgent && !self.is_held(turn.now) {
            self.conclude(turn);
            self.synchronise(turn);
        }
        self.activate(turn);
        self.probe(turn);
    }

    fn finish(&mut self, turn: Turn) -> Step {
        let Turn { now, mut step } = turn;
        if self.volatile.started {
            step.effects.extend(self.tell(now));
        }
        step.wake = self.wake(now, step.urgent);
        step
    }

    /// Whether nothing may be attempted that has to be saved: it could not be a moment ago.
    fn is_held(&self, now: Timestamp) -> bool {
        self.volatile.unsaved.as_ref().is_some_and(|unsaved| unsaved.backoff.waits(now))
    }

    fn wake(&self, now: Timestamp, urgent: bool) -> Option<Timestamp> {
        let volatile = &self.volatile;
        if !volatile.started {
            return None;
        }
        let held = volatile.unsaved.as_ref().and_then(|unsaved| unsaved.backoff.until()).filter(|until| *until > now);
        // What an urgent step left undone.
        let rest = urgent.then_some(now);
        let sync = if held.is_none() { self.sync_wake(now) } else { None };
        let wakes = [held, rest, sync, self.activation_wake(now), self.probe_wake(now), self.report_wake(now)];
        wakes.into_iter().flatten().min()
    }

    /// The clock may be set, and the machine may sleep: what has passed is what was watched.
    fn keep_time(&mut self, now: Timestamp) {
        let Some(last) = self.volatile.last.replace(now) else {
            self.volatile.first = Some(now);
            if let Phase::Trying(trial) = &mut self.ledger.beyond.phase {
                trial.resume(now);
            }
            return;
        };
        let passed = now.duration_since(last);
        if passed.is_negative() {
            return self.shift(passed);
        }
        let watched = WATCHED.max(self.volatile.settings.probe_interval.saturating_mul(2));
        let unwatched = backoff::since(last, now).saturating_sub(watched);
        if let (Phase::Trying(trial), Ok(unwatched)) = (&mut self.ledger.beyond.phase, unwatched.try_into()) {
            trial.shift(unwatched);
        }
    }

    /// The clock was set by so much.
    fn shift(&mut self, by: SignedDuration) {
        let volatile = &mut self.volatile;
        volatile.first = volatile.first.map(|first| shifted(first, by));
        volatile.sync.backoff.shift(by);
        volatile.sync.due = volatile.sync.due.map(|due| shifted(due, by));
        volatile.activation.backoff.shift(by);
        volatile.watch.shift(by);
        volatile.report.backoff.shift(by);
        volatile.report.heard = volatile.report.heard.map(|heard| shifted(heard, by));
        if let Some(unsaved) = &mut volatile.unsaved {
            unsaved.backoff.shift(by);
        }
        if let Phase::Trying(trial) = &mut self.ledger.beyond.phase {
            trial.shift(by);
        }
    }
}
