//! Synchronization with spec: download, checkpoint, accept, reset. Follows the kubelet's `syncConfigSource` (`pkg/kubelet/kubeletconfig/configsync.go`, 1.21), except that a missing
//! NodeConfig changes nothing.

use jiff::Timestamp;

use super::activation::ActivationCause;
use super::backoff::{after, jittered};
use super::status::decided;
use super::{MachineState, StepBuilder, UnderWay, kubelet_messages};
use crate::events::{ConfigCheck, Effect, FetchError, Fetched, NeedsDrain, NodeHealth};
use crate::ledger::{AssignmentFailure, FailureKind, Phase};
use nodecfg_contract::nodeconfig::{NodeConfig, SYNCED};
use nodecfg_contract::{ConfigMapSource, ConfigSource, error_text};

/// Reason why the agent did not accept spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyncProblem {
    /// Reason of the condition `Synced`.
    pub(super) reason: String,
    /// Text after `failed to sync: ` in `status.config.error`.
    pub(super) error: String,
    /// Reason in full.
    pub(super) message: String,
}

impl SyncProblem {
    /// Problem for a disk error.
    pub(super) fn storage(message: &str) -> Self {
        Self::new(kubelet_messages::STORAGE_FAILED, error_text::INTERNAL, message)
    }

    fn new(reason: &str, error: &str, message: &str) -> Self {
        Self { reason: reason.to_owned(), error: error.to_owned(), message: message.to_owned() }
    }

    fn of(error: &FetchError) -> Self {
        match error {
            FetchError::Missing(why) | FetchError::Forbidden(why) | FetchError::Unreachable(why) => {
                Self::new("DownloadFailed", error_text::DOWNLOAD, why)
            }
            FetchError::OtherContent(why) => Self::new("OtherContent", kubelet_messages::OTHER_CONTENT, why),
            FetchError::NeedsDrain(refusal) => Self::needs_drain(refusal),
        }
    }

    fn needs_drain(refusal: &NeedsDrain) -> Self {
        let error = format!("{}{}", error_text::NEEDS_DRAIN_PREFIX, refusal.field);
        Self::new("NeedsDrain", &error, &refusal.message)
    }
}

impl MachineState {
    /// Records the NodeConfig. A changed spec is synchronized at once, without backoff.
    pub(super) fn record_node_config(&mut self, wanted: Option<&NodeConfig>) {
        let volatile = &mut self.volatile;
        volatile.joining.record_node_config(volatile.node_config.as_ref(), wanted);
        if let Some(new) = wanted {
            let first = volatile.node_config.is_none();
            if volatile.node_config.as_ref().map(|wanted| &wanted.spec) != Some(&new.spec) {
                volatile.sync.backoff.clear();
                volatile.sync.due = None;
            }
            if first && volatile.report.current.is_none() {
                volatile.sync.problem = previous_sync_problem(new);
                volatile.report.current = Some(decided(&new.status));
            }
            if volatile.report.pending.is_none() {
                volatile.report.server_status = Some(new.status.clone());
            }
        }
        volatile.node_config = wanted.cloned();
    }

    /// ConfigMap that spec names.
    fn wanted_map(&self) -> Option<&ConfigMapSource> {
        self.volatile.node_config.as_ref()?.spec.config_source.as_ref()?.config_map.as_deref()
    }

    /// Reports whether spec names the ConfigMap of this download, with this placement.
    fn is_wanted(&self, fetched: &Fetched) -> bool {
        let wanted = self.volatile.node_config.as_ref().and_then(|wanted| wanted.spec.config_source.as_ref());
        wanted.is_some_and(|wanted| wanted.names_same(&fetched.download.source))
            && fetched.placement == self.wanted_placement()
    }

    /// Starts the next step toward spec: a reset, or a download if one is due. Does nothing during a restart of the
    /// kubelet.
    pub(super) fn synchronize(&mut self, builder: &mut StepBuilder) {
        if self.volatile.activation.under_way {
            return;
        }
        let Some(wanted) = &self.volatile.node_config else { return };
        let generation = wanted.metadata.generation;
        match &wanted.spec.config_source {
            None => self.compare_local(generation, builder),
            Some(source) if source.config_map.is_none() => {
                let message = "spec.configSource names no ConfigMap";
                self.volatile.sync.problem = Some(SyncProblem::new("InvalidSource", error_text::ALL_NIL, message));
                self.volatile.sync.generation = Some(generation);
            }
            Some(source) => {
                let accepted = self.ledger.assigned.as_ref().is_some_and(|assigned| assigned.names_same(source));
                if accepted && self.volatile.sync.due.is_some() {
                    self.volatile.sync.generation = Some(generation);
                }
                self.fetch(builder);
            }
        }
    }

    /// Reports whether the local configuration is both the assignment and the last known good.
    fn is_reset(&self) -> bool {
        self.ledger.assigned.is_none() && self.ledger.last_known_good.is_none()
    }

    /// Handles a spec without configuration: the change to the local configuration must not disrupt running pods more
    /// than spec allows.
    fn compare_local(&mut self, generation: i64, builder: &mut StepBuilder) {
        let is_reset = self.is_reset();
        let sync = &mut self.volatile.sync;
        if is_reset {
            sync.problem = None;
            sync.generation = Some(generation);
        } else if sync.under_way == UnderWay::Nothing && !sync.backoff.waits(builder.now) {
            sync.under_way = UnderWay::Comparing;
            builder.step.effects.push(Effect::CompareLocal);
        }
    }

    /// Handles the comparison with the local configuration.
    pub(super) fn handle_compared(&mut self, result: &Result<(), NeedsDrain>, builder: &mut StepBuilder) {
        let Some(wanted) = &self.volatile.node_config else { return };
        let generation = wanted.metadata.generation;
        let outdated = wanted.spec.config_source.is_some();
        match result {
            _ if outdated || self.volatile.activation.under_way || self.is_save_blocked(builder.now) => {}
            Err(refusal) => self.sync_failed(SyncProblem::needs_drain(refusal), builder.now),
            Ok(()) => {
                self.reset_to_local(builder);
                self.volatile.sync.backoff.clear();
                self.volatile.sync.problem = None;
                self.volatile.sync.generation = Some(generation);
            }
        }
    }

    fn fetch(&mut self, builder: &mut StepBuilder) {
        let sync = &self.volatile.sync;
        let idle = sync.under_way == UnderWay::Nothing;
        if !idle || sync.backoff.waits(builder.now) || sync.due.is_some_and(|due| due > builder.now) {
            return;
        }
        if let Some(source) = self.wanted_map().cloned() {
            self.volatile.sync.under_way = UnderWay::Fetching;
            builder.step.effects.push(Effect::Fetch(source));
        }
    }

    /// Time of the next read of the ConfigMap, or of the next attempt of a reset. `None` if spec asks for neither, or
    /// while a read, a comparison or a restart is in progress.
    pub(super) fn sync_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let sync = &self.volatile.sync;
        let is_done = match &self.volatile.node_config.as_ref()?.spec.config_source {
            None => self.is_reset(),
            Some(source) => source.config_map.is_none(),
        };
        if is_done || sync.under_way != UnderWay::Nothing || self.volatile.activation.under_way {
            return None;
        }
        let earliest = [sync.backoff.until(), sync.due].into_iter().flatten().max();
        Some(earliest.map_or(now, |moment| moment.max(now)))
    }

    /// Handles the result of a download.
    pub(super) fn handle_fetch(&mut self, result: &Result<Box<Fetched>, FetchError>, builder: &mut StepBuilder) {
        match result {
            Err(error) => self.sync_failed(SyncProblem::of(error), builder.now),
            Ok(fetched) if !self.is_wanted(fetched) => {}
            Ok(fetched) if self.is_same(fetched) => {
                // Another reason may have taken the place of the first.
                if let Some(failure) =
                    self.ledger.agent_state.failure.as_mut().filter(|failure| is_check_failure(failure))
                    && let Some(now) = check_failure(&fetched.config_check)
                {
                    *failure = now;
                }
                self.synced(builder.now);
            }
            Ok(_) if self.volatile.activation.under_way || self.is_save_blocked(builder.now) => {}
            Ok(fetched) => {
                self.volatile.sync.under_way = UnderWay::Checkpointing(fetched.clone());
                builder.step.checkpoint = Some(Box::new(fetched.download.clone()));
            }
        }
    }

    /// Handles the result of a checkpoint.
    pub(super) fn handle_checkpoint(
        &mut self,
        fetched: Option<Box<Fetched>>,
        result: &Result<(), String>,
        builder: &mut StepBuilder,
    ) {
        let Some(fetched) = fetched else { return };
        match result {
            Err(reason) => self.sync_failed(SyncProblem::storage(reason), builder.now),
            Ok(()) if !self.is_wanted(&fetched) => {}
            Ok(()) if self.volatile.activation.under_way || self.is_save_blocked(builder.now) => {}
            Ok(()) if self.is_unchanged(&fetched) => self.adopt(&fetched, builder),
            Ok(()) => self.accept_assignment(&fetched, builder),
        }
    }

    /// Reports whether a download has the content of the running assignment, under another uid or resourceVersion, or
    /// with another placement that makes the same text of it. The content hashes are compared; both were verified.
    fn is_unchanged(&self, fetched: &Fetched) -> bool {
        let Fetched { download, placement, is_same_text, config_check, .. } = fetched;
        let agent_state = &self.ledger.agent_state;
        let named = self.ledger.assigned.as_ref().is_some_and(|assigned| assigned.names_same(&download.source));
        named
            && self.ledger.assignment() == self.ledger.active()
            && (agent_state.placement == Some(*placement) || *is_same_text)
            && !matches!(agent_state.phase, Phase::Activating { .. })
            && agent_state.failure.is_none()
            && *config_check == ConfigCheck::Accepted
            && agent_state.content_hash.is_some()
            && agent_state.content_hash == download.content_hash
    }

    /// Adopts the recreated ConfigMap or the placement without a restart, and without a new trial. Restoring ConfigMaps
    /// from a backup across a fleet must not cause a rollout.
    fn adopt(&mut self, fetched: &Fetched, builder: &mut StepBuilder) {
        let download = &fetched.download;
        let source = Some(download.source.clone());
        let is_good = self.ledger.good() == self.ledger.assignment();
        let agent_state = &mut self.ledger.agent_state;
        if is_good {
            self.ledger.last_known_good.clone_from(&source);
            agent_state.last_known_good_placement = Some(fetched.placement);
        }
        self.ledger.assigned.clone_from(&source);
        (agent_state.placement, agent_state.active_placement) = (Some(fetched.placement), Some(fetched.placement));
        agent_state.active = source;
        agent_state.pool.clone_from(&download.pool);
        agent_state.immutable = download.immutable;
        if agent_state.phase == Phase::Settled {
            builder.step.prune = true;
        }
        self.synced(builder.now);
    }

    /// Reports whether a download is already assigned: the same placement and the same source, or the same uid if both are immutable, since
    /// only metadata can change then.
    ///
    /// An assignment that failed its config check and passes it now is accepted again: its checkpoint was damaged, or
    /// the kubelet changed.
    fn is_same(&self, fetched: &Fetched) -> bool {
        if self.ledger.agent_state.failure.as_ref().is_some_and(is_check_failure)
            && fetched.config_check == ConfigCheck::Accepted
        {
            return false;
        }
        if self.ledger.agent_state.placement != Some(fetched.placement) {
            return false;
        }
        let assigned = self.ledger.assigned.as_ref();
        let found = &fetched.download.source;
        let uid = |source: &ConfigSource| source.config_map.as_ref().and_then(|map| map.uid.clone());
        let frozen = self.ledger.agent_state.immutable && fetched.download.immutable;
        assigned == Some(found)
            || (frozen && assigned.is_some_and(|a| a.names_same(found) && uid(a).is_some() && uid(a) == uid(found)))
    }

    /// Records that spec is accepted, and schedules the next read of the ConfigMap.
    fn synced(&mut self, now: Timestamp) {
        let settings = self.volatile.settings;
        let interval =
            if self.ledger.agent_state.immutable { settings.resync_interval } else { settings.follow_interval };
        let next = after(now, jittered(interval, &mut self.volatile.jitter));
        let generation = self.volatile.node_config.as_ref().map(|wanted| wanted.metadata.generation);
        let sync = &mut self.volatile.sync;
        sync.problem = None;
        sync.backoff.clear();
        sync.due = Some(next);
        sync.generation = generation;
    }

    /// Records that spec could not be handled; the agent retries.
    pub(super) fn sync_failed(&mut self, problem: SyncProblem, now: Timestamp) {
        let volatile = &mut self.volatile;
        volatile.sync.problem = Some(problem);
        volatile.sync.backoff.fail(&mut volatile.jitter, now);
        volatile.sync.due = None;
        volatile.sync.generation = volatile.node_config.as_ref().map(|wanted| wanted.metadata.generation);
    }

    /// Makes a checkpoint the assignment and starts its activation, or a rollback if the kubelet would refuse it.
    fn accept_assignment(&mut self, fetched: &Fetched, builder: &mut StepBuilder) {
        let Fetched { download, placement, config_check, node, .. } = fetched;
        self.ledger.assigned = Some(download.source.clone());
        let agent_state = &mut self.ledger.agent_state;
        agent_state.placement = Some(*placement);
        agent_state.failure = check_failure(config_check);
        agent_state.content_hash.clone_from(&download.content_hash);
        agent_state.pool.clone_from(&download.pool);
        agent_state.immutable = download.immutable;
        self.synced(builder.now);
        if let Some(failure) = &self.ledger.agent_state.failure {
            let refused = kubelet_messages::refused(&download.source, failure);
            builder.step.effects.push(Effect::Announce(refused));
        }
        self.start_activation(ActivationCause::Assignment, *node, builder);
        self.announce_change(builder);
    }

    /// Announces the restart of an activation that has begun. The kubelet may run the target already.
    fn announce_change(&self, builder: &mut StepBuilder) {
        if matches!(self.ledger.agent_state.phase, Phase::Activating { .. }) {
            builder.step.effects.push(Effect::Announce(kubelet_messages::changed(self.target())));
        }
    }

    /// Handles a spec without configuration: the local configuration becomes the assignment and the last known good.
    /// Does nothing if it already is both.
    fn reset_to_local(&mut self, builder: &mut StepBuilder) {
        if self.is_reset() {
            return;
        }
        self.ledger.assigned = None;
        self.forget_last_known_good();
        let agent_state = &mut self.ledger.agent_state;
        agent_state.failure = None;
        agent_state.placement = None;
        agent_state.content_hash = None;
        agent_state.pool = None;
        agent_state.immutable = false;
        self.volatile.sync.due = None;
        self.start_activation(ActivationCause::Assignment, None, builder);
        self.announce_change(builder);
    }

    /// Health of the node before the first restart since the node was settled, combined with the health now: Ready if
    /// it was Ready at either time.
    pub(super) fn health_before(&self, now: Option<NodeHealth>) -> Option<NodeHealth> {
        let previous = match &self.ledger.agent_state.phase {
            Phase::Settled => None,
            Phase::Activating { before } => *before,
            Phase::Trying(trial) => trial.before,
        };
        match (previous, now) {
            (Some(previous), Some(now)) => Some(NodeHealth {
                ready: previous.ready || now.ready,
                lease_renewed: now.lease_renewed.or(previous.lease_renewed),
            }),
            (one, other) => other.or(one),
        }
    }
}

/// Reports whether the failure comes from the config check alone.
pub(super) fn is_check_failure(failure: &AssignmentFailure) -> bool {
    matches!(failure.kind, FailureKind::Load | FailureKind::Validate)
}

/// Failure of an assignment with this config check. `None` if it was accepted.
pub(super) fn check_failure(config_check: &ConfigCheck) -> Option<AssignmentFailure> {
    let (kind, error, message, kubelet) = match config_check {
        ConfigCheck::Accepted => return None,
        ConfigCheck::NotLoaded { message, kubelet } => (FailureKind::Load, error_text::LOAD, message, kubelet),
        ConfigCheck::NotValid { message, kubelet } => (FailureKind::Validate, error_text::VALIDATE, message, kubelet),
        ConfigCheck::NotPlaceable { message } => {
            let error = format!("{}{message}", error_text::VALIDATE_PREFIX);
            let (kind, message) = (FailureKind::Validate, message.clone());
            return Some(AssignmentFailure { kind, was_healthy: false, error, message, kubelet: None });
        }
    };
    let (error, message, kubelet) = (error.to_owned(), message.clone(), kubelet.clone());
    Some(AssignmentFailure { kind, was_healthy: false, error, message, kubelet })
}

/// Sync error that the previous agent process left in the status. Keeping it until the first download avoids a short
/// gap after every start.
fn previous_sync_problem(wanted: &NodeConfig) -> Option<SyncProblem> {
    let error = wanted.status.config.as_ref()?.error()?.strip_prefix(error_text::SYNC_PREFIX)?;
    let condition = wanted.status.conditions.iter().find(|condition| condition.kind == SYNCED)?;
    (wanted.status.observed_generation == Some(wanted.metadata.generation))
        .then(|| SyncProblem::new(&condition.reason, error, &condition.message))
}
