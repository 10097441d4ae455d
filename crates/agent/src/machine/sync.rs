//! From what spec says to what is taken as the assignment: download, checkpoint, take. As the kubelet's `syncConfigSource`
//! did (`pkg/kubelet/kubeletconfig/configsync.go`, 1.21), except that a NodeConfig that is gone is no instruction.

use jiff::Timestamp;

use super::activation::Cause;
use super::backoff::{after, jittered};
use super::{Found, MachineState, Turn, UnderWay, texts};
use crate::events::{ConfigCheck, Effect, FetchError, Fetched, NodeHealth};
use crate::state::{AssignmentFailure, FailureKind, Phase};
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus, SYNCED};
use nodecfg_contract::{ConfigMapSource, ConfigSource, error_text};

/// Why what spec says was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyncProblem {
    /// The reason of the condition `Synced`.
    pub(super) reason: String,
    /// What follows `failed to sync: ` in `status.config.error`.
    pub(super) error: String,
    /// The reason in full.
    pub(super) message: String,
}

impl SyncProblem {
    /// The node's disk refused.
    pub(super) fn storage(message: &str) -> Self {
        Self::new(texts::STORAGE_FAILED, error_text::INTERNAL, message)
    }

    fn new(reason: &str, error: &str, message: &str) -> Self {
        Self { reason: reason.to_owned(), error: error.to_owned(), message: message.to_owned() }
    }

    fn of(error: &FetchError) -> Self {
        match error {
            FetchError::Missing(why) | FetchError::Forbidden(why) | FetchError::Unreachable(why) => {
                Self::new("DownloadFailed", error_text::DOWNLOAD, why)
            }
            FetchError::HashDiffers(why) => Self::new("HashDiffers", texts::HASH_DIFFERS, why),
        }
    }
}

impl MachineState {
    /// Takes note of what the NodeConfig says.
    pub(super) fn see(&mut self, wanted: Option<&NodeConfig>) {
        let volatile = &mut self.volatile;
        if let Some(new) = wanted {
            let first = volatile.wanted.is_none();
            if volatile.wanted.as_ref().map(|wanted| &wanted.spec) != Some(&new.spec) {
                volatile.sync.backoff.clear();
                volatile.sync.due = None;
            }
            if first && volatile.report.shown.is_none() {
                volatile.sync.problem = left_behind(new);
                volatile.report.shown = Some(NodeConfigStatus { agent: None, ..new.status.clone() });
            }
            if volatile.report.sent.is_none() {
                volatile.report.known = Some(new.status.clone());
            }
        }
        volatile.wanted = wanted.cloned();
    }

    /// The ConfigMap that spec names.
    fn wanted_map(&self) -> Option<&ConfigMapSource> {
        self.volatile.wanted.as_ref()?.spec.config_source.as_ref()?.config_map.as_ref()
    }

    fn is_wanted(&self, source: &ConfigSource) -> bool {
        let wanted = self.volatile.wanted.as_ref().and_then(|wanted| wanted.spec.config_source.as_ref());
        wanted.is_some_and(|wanted| wanted.names_same(source))
    }

    /// Brings the assignment closer to what spec says.
    pub(super) fn synchronise(&mut self, turn: &mut Turn) {
        if self.volatile.activation.under_way {
            return;
        }
        let Some(wanted) = &self.volatile.wanted else { return };
        let generation = wanted.metadata.generation;
        match &wanted.spec.config_source {
            None => {
                self.reset(turn);
                self.volatile.sync.problem = None;
                self.volatile.sync.generation = Some(generation);
            }
            Some(source) if source.config_map.is_none() => {
                let message = "spec.configSource names no ConfigMap";
                self.volatile.sync.problem = Some(SyncProblem::new("InvalidSource", error_text::ALL_NIL, message));
                self.volatile.sync.generation = Some(generation);
            }
            Some(source) => {
                let taken = self.ledger.assigned.as_ref().is_some_and(|assigned| assigned.names_same(source));
                if taken && self.volatile.sync.due.is_some() {
                    self.volatile.sync.generation = Some(generation);
                }
                self.fetch(turn);
            }
        }
    }

    fn fetch(&mut self, turn: &mut Turn) {
        let sync = &self.volatile.sync;
        let idle = sync.under_way == UnderWay::Nothing;
        if !idle || sync.backoff.waits(turn.now) || sync.due.is_some_and(|due| due > turn.now) {
            return;
        }
        if let Some(source) = self.wanted_map().cloned() {
            self.volatile.sync.under_way = UnderWay::Fetching;
            turn.step.effects.push(Effect::Fetch(source));
        }
    }

    /// When there is a reason to look at the ConfigMap again.
    pub(super) fn sync_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let sync = &self.volatile.sync;
        self.wanted_map()?;
        if sync.under_way != UnderWay::Nothing || self.volatile.activation.under_way {
            return None;
        }
        let earliest = [sync.backoff.until(), sync.due].into_iter().flatten().max();
        Some(earliest.map_or(now, |moment| moment.max(now)))
    }

    /// The answer to a download.
    pub(super) fn fetched(&mut self, result: &Result<Box<Fetched>, FetchError>, turn: &mut Turn) {
        match result {
            Err(error) => self.sync_failed(SyncProblem::of(error), turn.now),
            Ok(fetched) if !self.is_wanted(&fetched.download.source) => {}
            Ok(fetched) if self.is_same(fetched) => self.synced(turn.now),
            Ok(_) if self.volatile.activation.under_way || self.is_held(turn.now) => {}
            Ok(fetched) => {
                self.volatile.sync.under_way = UnderWay::Checkpointing(fetched.clone());
                turn.step.checkpoint = Some(Box::new(fetched.download.clone()));
            }
        }
    }

    /// The answer to a checkpoint.
    pub(super) fn checkpointed(&mut self, fetched: Option<Box<Fetched>>, result: &Result<(), String>, turn: &mut Turn) {
        let Some(fetched) = fetched else { return };
        match result {
            Err(reason) => self.sync_failed(SyncProblem::storage(reason), turn.now),
            Ok(()) if !self.is_wanted(&fetched.download.source) => {}
            Ok(()) if self.volatile.activation.under_way || self.is_held(turn.now) => {}
            Ok(()) if self.is_made_again(&fetched) => self.adopt(&fetched, turn),
            Ok(()) => self.take(&fetched, turn),
        }
    }

    /// Whether a download has another uid or version than what is assigned and runs, and the very same content: both hashes
    /// were checked against theirs.
    fn is_made_again(&self, fetched: &Fetched) -> bool {
        let Fetched { download, verdict, .. } = fetched;
        let beyond = &self.ledger.beyond;
        let named = self.ledger.assigned.as_ref().is_some_and(|assigned| assigned.names_same(&download.source));
        named
            && self.ledger.assigned == beyond.active
            && !matches!(beyond.phase, Phase::Activating { .. })
            && beyond.failure.is_none()
            && *verdict == ConfigCheck::Accepted
            && beyond.content_hash.is_some()
            && beyond.content_hash == download.content_hash
    }

    /// What runs has another source from now on. There is nothing to restart the kubelet for, nor to try anew: a ConfigMap
    /// that is restored from a backup on a whole fleet is no rollout.
    fn adopt(&mut self, fetched: &Fetched, turn: &mut Turn) {
        let download = &fetched.download;
        let source = Some(download.source.clone());
        if self.ledger.last_known_good == self.ledger.assigned {
            self.ledger.last_known_good.clone_from(&source);
        }
        self.ledger.assigned.clone_from(&source);
        let beyond = &mut self.ledger.beyond;
        beyond.active = source;
        beyond.pool.clone_from(&download.pool);
        beyond.immutable = download.immutable;
        if beyond.phase == Phase::Settled {
            turn.step.prune = true;
        }
        self.synced(turn.now);
    }

    /// Whether a download is what is assigned already: same uid, same version, same key. A ConfigMap that was immutable and
    /// is still holds the same data, whatever became of its labels. What could not be loaded and now can was damaged on
    /// disk, or the kubelet is another: it is taken anew.
    fn is_same(&self, fetched: &Fetched) -> bool {
        if self.ledger.beyond.failure.as_ref().is_some_and(by_verdict) && fetched.verdict == ConfigCheck::Accepted {
            return false;
        }
        let assigned = self.ledger.assigned.as_ref();
        let found = &fetched.download.source;
        let uid = |source: &ConfigSource| source.config_map.as_ref().and_then(|map| map.uid.clone());
        let frozen = self.ledger.beyond.immutable && fetched.download.immutable;
        assigned == Some(found)
            || (frozen && assigned.is_some_and(|a| a.names_same(found) && uid(a).is_some() && uid(a) == uid(found)))
    }

    /// Spec has been dealt with.
    fn synced(&mut self, now: Timestamp) {
        let settings = self.volatile.settings;
        let interval = if self.ledger.beyond.immutable { settings.resync_interval } else { settings.follow_interval };
        let next = after(now, jittered(interval, &mut self.volatile.chance));
        let generation = self.volatile.wanted.as_ref().map(|wanted| wanted.metadata.generation);
        let sync = &mut self.volatile.sync;
        sync.problem = None;
        sync.backoff.clear();
        sync.due = Some(next);
        sync.generation = generation;
    }

    /// Spec could not be dealt with; it will be tried again.
    pub(super) fn sync_failed(&mut self, problem: SyncProblem, now: Timestamp) {
        let volatile = &mut self.volatile;
        volatile.sync.problem = Some(problem);
        volatile.sync.backoff.fail(&mut volatile.chance, now);
        volatile.sync.due = None;
        volatile.sync.generation = volatile.wanted.as_ref().map(|wanted| wanted.metadata.generation);
    }

    /// A checkpoint becomes the assignment. One that the kubelet would refuse does so too, and the kubelet goes to its last
    /// known good.
    fn take(&mut self, fetched: &Fetched, turn: &mut Turn) {
        let Fetched { download, verdict, node } = fetched;
        self.ledger.assigned = Some(download.source.clone());
        let beyond = &mut self.ledger.beyond;
        beyond.failure = refusal(verdict);
        beyond.content_hash.clone_from(&download.content_hash);
        beyond.pool.clone_from(&download.pool);
        beyond.immutable = download.immutable;
        self.synced(turn.now);
        turn.step.effects.push(Effect::Announce(texts::changed(Some(&download.source))));
        self.go(Cause::Assignment, *node, turn);
    }

    /// Spec names no configuration: the local one is the assignment, and the last known good.
    fn reset(&mut self, turn: &mut Turn) {
        if self.ledger.assigned.is_none() && self.ledger.last_known_good.is_none() {
            return;
        }
        if self.ledger.assigned.take().is_some() {
            turn.step.effects.push(Effect::Announce(texts::changed(None)));
        }
        self.ledger.last_known_good = None;
        let beyond = &mut self.ledger.beyond;
        beyond.failure = None;
        beyond.content_hash = None;
        beyond.last_known_good_hash = None;
        beyond.pool = None;
        beyond.immutable = false;
        self.volatile.sync.due = None;
        self.go(Cause::Assignment, None, turn);
    }

    /// Goes on from what was on disk when the agent started.
    pub(super) fn act_on_found(&mut self, turn: &mut Turn) {
        if self.volatile.activation.under_way {
            return;
        }
        let Some(Found { verdict, in_place }) = self.volatile.found.take() else { return };
        let before = self.ledger.clone();
        let open = self.ledger.beyond.failure.as_ref().is_none_or(by_verdict);
        if let (Some(verdict), true) = (&verdict, open && self.ledger.assigned.is_some()) {
            let failure = refusal(verdict);
            let turned = failure.is_some() != self.ledger.beyond.failure.is_some();
            self.ledger.beyond.failure = failure;
            if turned {
                self.go(Cause::Assignment, None, turn);
            }
        }
        if !in_place && !matches!(self.ledger.beyond.phase, Phase::Activating { .. }) {
            self.ledger.beyond.phase = Phase::Activating { before: self.before(None) };
        }
        // An agent that is killed here finds the same again.
        turn.step.urgent |= self.ledger != before;
        // Until then, what the kubelet ran before is still asked for.
        if self.ledger.beyond.phase == Phase::Settled {
            turn.step.prune = true;
        }
    }

    /// How the node was before the kubelet was first touched for what is not settled yet.
    pub(super) fn before(&self, now: Option<NodeHealth>) -> Option<NodeHealth> {
        let earlier = match &self.ledger.beyond.phase {
            Phase::Settled => None,
            Phase::Activating { before } => *before,
            Phase::Trying(trial) => trial.before,
        };
        match (earlier, now) {
            (Some(earlier), Some(now)) => Some(NodeHealth {
                ready: earlier.ready || now.ready,
                lease_renewed: now.lease_renewed.or(earlier.lease_renewed),
            }),
            (one, other) => other.or(one),
        }
    }
}

/// Whether a verdict was all that stood against it.
fn by_verdict(failure: &AssignmentFailure) -> bool {
    matches!(failure.kind, FailureKind::Load | FailureKind::Validate)
}

/// The failure that a verdict amounts to.
fn refusal(verdict: &ConfigCheck) -> Option<AssignmentFailure> {
    let (kind, error, message, kubelet) = match verdict {
        ConfigCheck::Accepted => return None,
        ConfigCheck::NotLoaded { message, kubelet } => (FailureKind::Load, error_text::LOAD, message, kubelet),
        ConfigCheck::NotValid { message, kubelet } => (FailureKind::Validate, error_text::VALIDATE, message, kubelet),
    };
    Some(AssignmentFailure { kind, error: error.to_owned(), message: message.clone(), kubelet: kubelet.clone() })
}

/// The sync error that an agent before this one left in status. It stands until the first download of this one: otherwise it
/// would be gone for a moment with every start.
fn left_behind(wanted: &NodeConfig) -> Option<SyncProblem> {
    let error = wanted.status.config.as_ref()?.error()?.strip_prefix(error_text::SYNC_PREFIX)?;
    let condition = wanted.status.conditions.iter().find(|condition| condition.kind == SYNCED)?;
    (wanted.status.observed_generation == Some(wanted.metadata.generation))
        .then(|| SyncProblem::new(&condition.reason, error, &condition.message))
}
