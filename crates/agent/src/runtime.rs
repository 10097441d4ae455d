//! Runtime of the agent (not the container runtime). Steps the state machine, saves the ledger before the effects of
//! a step, checks configurations, and writes checkpoints and the kubelet's file.
//!
//! Returns the effects that need the kubelet or the API server. The caller carries them out in order and passes the
//! results back. Must not use a clock, a client or a process.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use disk_check::Comparison;

use super::disk::Disk;
use super::events::{
    ActivationError, ConfigCheck, Download, Effect, Event, FetchError, Fetched, Health, NeedsDrain, NodeHealth, Step,
};
use super::host::preflight::Unmet;
use super::host::problem::HealthzError;
use super::host::process::{KubeletProcess, ProcessProblem};
use super::host::{Healthz, RestartError, ServiceReport, StateFiles, StateHandling};
use super::ledger::{Configuration, Ledger, Phase};
use super::machine::MachineState;
use super::placement::{Activation, Content, PlacementError, Placer, Reviewed};
use super::settings::Settings;
use super::store::{Payload, Store, StoreError};
use super::{content, machine};
use kubelet_config::risk::Class;
use kubelet_config::startup_error::{LastError, StartupError};
use kubelet_config::verdict::{HostCondition, HostNeed};
use nodecfg_contract::{ConfigSource, ContentHash, KubeletVersion, Placement};

#[cfg(test)]
mod adversary_tests;
#[cfg(test)]
mod content_tests;
mod disk_check;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod own_file_tests;
#[cfg(test)]
mod tests;

/// Limit of steps per event, as a safeguard. Each result that the runtime produces itself completes an effect, so few
/// are needed.
const MAX_STEPS: usize = 64;
/// Delay before retrying disk work that no effect waits for: saving a ledger and pruning.
const CLEAN_UP_RETRY: Duration = Duration::from_secs(60);

/// Locations that the agent reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The agent's folder (`--store-dir`). A kubelet 1.21 can use it as its `--dynamic-config-dir`.
    pub folder: PathBuf,
    /// How the kubelet gets its configuration.
    pub activation: Activation,
}

/// Reason why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The saved state is unreadable or has an unsupported format.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The activation cannot be used on this host, or its record is invalid.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

/// Text of a configuration, with its placement.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LoadedText {
    text: String,
    placement: Placement,
}

impl LoadedText {
    fn reviewed(&self) -> Reviewed<'_> {
        Reviewed { text: &self.text, placement: self.placement }
    }
}

/// The agent's state machine with its disk.
#[derive(Debug)]
pub struct AgentRuntime<D> {
    disk: D,
    store: Store,
    placer: Placer,
    state: MachineState,
    /// Ledger on disk. `None` if unknown: this process has not saved yet, or the last save failed.
    saved: Option<Ledger>,
    /// Whether pruning was requested and has not succeeded yet.
    prune_pending: bool,
    /// Last known version of the kubelet of this host.
    kubelet: Option<KubeletVersion>,
    /// Cached health endpoint of the kubelet, with the active source that it was read for.
    healthz: Option<(Option<ConfigSource>, Healthz)>,
    /// Where on the node the kubelet's log is.
    kubelet_log: &'static str,
    /// What the last report of this process says of the values that the kubelet runs.
    reported: Option<Comparison>,
    /// Start of the kubelet's process, and the files that it could read when this process first looked.
    first_read: Option<(i64, BTreeSet<String>)>,
}

impl<D: Disk> AgentRuntime<D> {
    /// Opens an agent that continues from the state on disk. Only reads; the first write comes with [`Self::start`].
    ///
    /// # Errors
    /// The saved state is unreadable or has an unsupported format, or the activation cannot be used.
    pub fn open(paths: &Paths, settings: Settings, disk: D, seed: u64) -> Result<Self, OpenError> {
        let store = Store::new(&paths.folder);
        let ledger = store.load(&disk)?;
        let on_local = ledger.assigned.is_none()
            && ledger.agent_state.active.is_none()
            && ledger.agent_state.phase == Phase::Settled;
        let placer = Placer::open(&disk, &paths.folder, paths.activation.clone(), on_local)?;
        let settings = Settings { default_placement: placer.default_placement(), ..settings };
        let state = MachineState::resume(ledger, settings, seed);
        let kubelet_log = settings.kubelet_log;
        Ok(Self {
            disk,
            store,
            placer,
            state,
            saved: None,
            prune_pending: false,
            kubelet: None,
            healthz: None,
            kubelet_log,
            reported: None,
            first_read: None,
        })
    }

    /// Handles the start of the agent; must be called before any other event. `kubelet`: version installed on this
    /// host, if known.
    pub fn start(&mut self, kubelet: Option<KubeletVersion>, now: Timestamp) -> Step {
        self.kubelet = kubelet;
        self.handle(Event::Started(self.check_disk()), now)
    }

    /// What the host must have for the kubelet to start with a download. Empty if that is not known, or if the kubelet runs
    /// the download already. Each condition has a need. `kubelet`: version installed now, if known. `process`: the running
    /// kubelet.
    #[must_use]
    pub fn host_conditions(
        &mut self,
        result: &Result<Download, FetchError>,
        kubelet: Option<KubeletVersion>,
        process: Result<KubeletProcess, ProcessProblem>,
    ) -> Vec<HostCondition> {
        let (Ok(download), Some(kubelet)) = (result, kubelet.or(self.kubelet)) else { return Vec::new() };
        let placement = self.state.wanted_placement();
        let Ok(hash) = self.verify(download) else { return Vec::new() };
        let runs = self.runs(Some(&hash.to_string()), placement);
        let text = download.payload.get(config_key(&download.source)).filter(|_| !runs);
        let reviewed = text.map(|text| Reviewed { text, placement });
        let Some(Ok(to)) = reviewed.map(|reviewed| self.placer.effective(&self.disk, Some(reviewed), Some(kubelet)))
        else {
            return Vec::new();
        };
        let from = self.effective(self.state.ledger.active()).unwrap_or_default();
        let present = content::host_conditions(&from, kubelet);
        let mut set_aside = content::state_files(&from, &to);
        set_aside.extend(self.placer.found_text(&self.disk).iter().flat_map(|found| content::state_files(found, &to)));
        let has_other_root =
            process.as_ref().is_ok_and(|process| process.arguments.iter().any(|flag| flag.starts_with("--root-dir")));
        let above = self.fields_above(process);
        let is_asked = |condition: &HostCondition| {
            let Some(need) = &condition.need else { return false };
            let is_present = present.iter().any(|present| present.need.as_ref() == Some(need));
            let is_set_above = above.iter().flatten().any(|field| {
                let (one, other) = (field.as_str(), condition.field.as_str());
                one.starts_with(other) || other.starts_with(one)
            });
            match need {
                HostNeed::StateFile { file, .. } if has_other_root || set_aside.contains(file) => false,
                _ if is_set_above => false,
                // The kubelet runs with it, so the machine has it, whatever it looks like from here. A file can vanish, but
                // which one the kubelet reads is certain only if all that sets values is known.
                need => !is_present || (need.can_vanish() && above.is_some()),
            }
        };
        content::host_conditions(&to, kubelet).into_iter().filter(is_asked).collect()
    }

    /// Handles the result of [`Effect::Fetch`]. `node`: health of the node, if the API server answered. `kubelet`:
    /// version installed now, if known. `unmet`: conditions on the host that it does not meet.
    pub fn handle_fetch(
        &mut self,
        result: Result<Download, FetchError>,
        node: Option<NodeHealth>,
        kubelet: Option<KubeletVersion>,
        unmet: &[(HostCondition, Unmet)],
        now: Timestamp,
    ) -> Step {
        self.kubelet = kubelet.or(self.kubelet);
        let fetched = result.and_then(|download| {
            let hash = self.verify(&download)?.to_string();
            let download = Download { content_hash: Some(hash), ..download };
            let key = config_key(&download.source);
            let placement = self.state.wanted_placement();
            let mut config_check = self.check_payload(&download.payload, key, placement);
            if config_check == ConfigCheck::Accepted
                && let Some(kubelet) = self.kubelet.filter(|_| !unmet.is_empty())
            {
                let reviewed = download.payload.get(key).map(String::as_str).unwrap_or_default();
                let message = content::unmet(unmet, reviewed, kubelet);
                config_check = ConfigCheck::NotValid { message, kubelet: Some(kubelet.to_string()) };
            }
            let reviewed = download.payload.get(key).map(|text| Reviewed { text, placement });
            // A refused configuration is never activated, and the refusal is the better report.
            if config_check == ConfigCheck::Accepted && !self.runs(download.content_hash.as_deref(), placement) {
                self.check_disruption(reviewed).map_err(FetchError::NeedsDrain)?;
            }
            let is_same_text = self.is_text_of_active(reviewed);
            Ok(Box::new(Fetched { download, placement, is_same_text, config_check, node }))
        });
        self.handle(Event::Fetched(fetched), now)
    }

    /// Verifies a download against spec, or against the name of its ConfigMap and the present assignment.
    fn verify(&self, download: &Download) -> Result<ContentHash, FetchError> {
        let ledger = &self.state.ledger;
        let same = |assigned: &&ConfigSource| assigned.names_same(&download.source);
        let accepted = ledger.assigned.as_ref().filter(same).and(ledger.agent_state.content_hash.as_deref());
        content::verify(download, self.state.required_hash(&download.source), accepted)
    }

    /// Reports whether the kubelet runs this content with this placement. Its checkpoint may be damaged.
    fn runs(&self, content_hash: Option<&str>, placement: Placement) -> bool {
        let ledger = &self.state.ledger;
        let is_active = ledger.assigned.is_some() && ledger.assignment() == ledger.active();
        is_active
            && ledger.agent_state.active_placement == Some(placement)
            && ledger.agent_state.content_hash.as_deref() == content_hash
    }

    /// Reports whether the kubelet's configuration has the same text with this content as with the active one.
    fn is_text_of_active(&self, content: Content<'_>) -> bool {
        let Ok(active) = self.loaded(self.state.ledger.active()) else { return false };
        let digest = |content: Content<'_>| self.placer.digest(&self.disk, content).ok().flatten();
        let wanted = content.and_then(|content| digest(Some(content)));
        wanted.is_some() && wanted == digest(active.as_ref().map(LoadedText::reviewed))
    }

    /// Compares the running configuration with a content; `None` is the local configuration. The agent alone knows what
    /// the node really runs, so it has the last word on what happens to running pods.
    fn check_disruption(&self, content: Content<'_>) -> Result<(), NeedsDrain> {
        let allowed = self.state.max_disruption();
        let from = self.effective(self.state.ledger.active());
        let to = self.placer.effective(&self.disk, content, self.kubelet).map_err(|error| error.to_string());
        let (class, field) = match (from, to) {
            (Ok(from), Ok(to)) => match content::worst_change(&from, &to, self.kubelet) {
                Some((class, path)) => (class, content::public_path(&path, content.map(|content| content.text))),
                None => return Ok(()),
            },
            (Err(error), _) | (_, Err(error)) => (Class::Drain, format!("unknown change ({error})")),
        };
        if class <= allowed {
            return Ok(());
        }
        let message = format!(
            "the change of {field} {}, and spec.maxDisruption is {allowed}: the kubelet keeps its configuration",
            class.means()
        );
        Err(NeedsDrain { field, message })
    }

    /// Handles any event except the result of a download, of a restart, or of a probe. Returns the remaining effects, in order, and the wake time.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Step {
        let mut remaining = Step::default();
        let mut events = VecDeque::from([event]);
        for _ in 0..MAX_STEPS {
            let Some(event) = events.pop_front() else { break };
            let (mut next, mut step) = machine::step(&self.state, &event, now);
            if let Err(error) = self.save(&next.ledger) {
                if next.ledger != self.state.ledger && !step.urgent {
                    (next, step) = machine::not_saved(&self.state, &event, &error.to_string(), now);
                } else {
                    tracing::warn!(%error, "cannot save the agent's state; continuing and retrying");
                }
            }
            if let Some(good) = &next.ledger.last_known_good
                && next.ledger.good() != self.state.ledger.good()
            {
                tracing::info!("{good} is the last known good now");
            }
            self.state = next;
            self.prune_pending |= step.prune;
            remaining.wake = step.wake;
            if let Some(download) = step.checkpoint {
                let result = self.store.save_checkpoint(&self.disk, &download).map_err(|error| error.to_string());
                events.push_back(Event::Checkpointed(result));
            }
            for effect in step.effects {
                match self.prepare(effect) {
                    ControlFlow::Continue(effect) => remaining.effects.push(effect),
                    ControlFlow::Break(answer) => events.push_back(answer),
                }
            }
        }
        let was_pending = self.prune_pending;
        let clean = self.clean_up();
        if was_pending && clean && self.state.ledger.agent_state.phase == Phase::Settled {
            remaining.effects.push(Effect::DiscardStateFiles);
        }
        if !clean {
            let again = now.checked_add(CLEAN_UP_RETRY).unwrap_or(Timestamp::MAX);
            remaining.wake = Some(remaining.wake.map_or(again, |wake| wake.min(again)));
        }
        remaining
    }

    /// Handles the result of [`Effect::Activate`]. `last_error`: last error of a kubelet that was not restarted.
    ///
    /// Without a restart, no trial watches the target. It leaves the disk until the next attempt, since a reboot would start
    /// the kubelet on it.
    pub(crate) fn handle_restart(
        &mut self,
        result: Result<(), RestartError>,
        last_error: Option<&LastError>,
        now: Timestamp,
    ) -> Step {
        if matches!(result, Err(RestartError::NotRequested(_)))
            && let Err(error) = self.put_back_last_known_good()
        {
            tracing::warn!(error, "cannot put back the last known good until the next attempt to restart the kubelet");
        }
        let result = result.map_err(|error| match error {
            RestartError::NotRequested(reason) => ActivationError::NotRequested(reason),
            RestartError::Failed(reason) => {
                let last_error = last_error.map(|error| self.explain(error, self.state.target_configuration()));
                ActivationError::NotRestarted { reason, last_error }
            }
        });
        self.handle(Event::Activated(result), now)
    }

    /// Handles the result of [`Effect::Probe`].
    pub(crate) fn handle_probe(
        &mut self,
        kubelet: Result<(), HealthzError>,
        node: Option<NodeHealth>,
        service: &ServiceReport<LastError>,
        now: Timestamp,
    ) -> Step {
        let active = self.state.ledger.active();
        let last_error = service.last_error.as_ref().map(|error| self.explain(error, active));
        let service = ServiceReport { restarts: service.restarts, last_error };
        self.handle(Event::Probed(Health { kubelet, node, service }), now)
    }

    /// Explains the last error of the kubelet: only this process knows the configuration.
    fn explain(&self, error: &LastError, configuration: Option<Configuration<'_>>) -> StartupError {
        let reviewed = self.loaded(configuration).ok().flatten().map(|loaded| loaded.text);
        let effective = self.effective(configuration).ok();
        content::explain(error, effective.as_deref(), reviewed.as_deref(), self.kubelet_log)
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// The machine's state.
    #[must_use]
    pub fn state(&self) -> &MachineState {
        &self.state
    }

    /// The disk.
    #[must_use]
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Saves the ledger, unless the disk already holds it.
    fn save(&mut self, ledger: &Ledger) -> Result<(), StoreError> {
        if self.saved.as_ref() == Some(ledger) {
            return Ok(());
        }
        self.saved = None;
        self.store.save(&self.disk, ledger)?;
        self.saved = Some(ledger.clone());
        Ok(())
    }

    /// Carries out the disk part of an effect. Returns the effect for the caller, or the event that answers it.
    fn prepare(&mut self, effect: Effect) -> ControlFlow<Event, Effect> {
        match effect {
            Effect::CompareLocal => ControlFlow::Break(Event::LocalCompared(self.check_disruption(None))),
            Effect::CheckDisk => ControlFlow::Break(Event::DiskChecked(self.recheck_disk())),
            Effect::Activate { target, .. } => match self.place() {
                Ok(state) => ControlFlow::Continue(Effect::Activate { target, state }),
                Err(reason) => ControlFlow::Break(Event::Activated(Err(ActivationError::NotPlaced(reason)))),
            },
            // A local configuration may disable `/healthz`. Such a kubelet cannot be probed and counts as healthy: no
            // other configuration is left to roll back to.
            Effect::Probe { .. } if self.healthz().port == 0 => {
                let health = Health { kubelet: Ok(()), node: None, service: ServiceReport::default() };
                ControlFlow::Break(Event::Probed(health))
            }
            effect => ControlFlow::Continue(effect),
        }
    }

    /// Prunes if due. Returns false if the ledger is unsaved or pruning failed. Both must be retried soon, since a
    /// power failure could lose a ledger that the agent has already acted on.
    fn clean_up(&mut self) -> bool {
        // Checkpoints that an unsaved ledger may still name are kept.
        if self.saved.is_some() && self.prune_pending {
            match self.prune() {
                Ok(()) => self.prune_pending = false,
                Err(error) => tracing::warn!(%error, "cannot remove files that are no longer needed"),
            }
        }
        self.saved.is_some() && !self.prune_pending
    }

    /// Removes the checkpoints that the ledger does not name, and the copy of the own configuration if the kubelet runs it.
    fn prune(&mut self) -> Result<(), StoreError> {
        let ledger = &self.state.ledger;
        self.store.prune(&self.disk, ledger)?;
        if ledger.agent_state.phase == Phase::Settled && ledger.active().is_none() {
            self.placer.remove_kept(&self.disk)?;
        }
        Ok(())
    }

    /// Places the target for the kubelet, and prepares the last known good for a rollback. Returns the state files that
    /// contradict the change.
    fn place(&mut self) -> Result<StateFiles, String> {
        self.healthz = None;
        let ledger = &self.state.ledger;
        let target = self.state.target_configuration();
        let rollback = ledger.agent_state.failure.is_some();
        let handling = match &ledger.agent_state.failure {
            None => StateHandling::SetAside,
            Some(failure) if failure.was_healthy => StateHandling::Remove,
            Some(_) => StateHandling::PutBack,
        };
        // The checkpoint may have changed on disk, so it is checked again. During a rollback a refused checkpoint is
        // still better than the failed assignment, since the kubelet ran it before.
        match target.map(|target| (target.source, self.check_checkpoint(target))) {
            Some((source, ConfigCheck::NotValid { message, .. } | ConfigCheck::NotPlaceable { message }))
                if rollback =>
            {
                tracing::warn!("rolling back to {source}, which would be refused now: {message}");
            }
            Some((source, ConfigCheck::NotLoaded { message, .. } | ConfigCheck::NotValid { message, .. })) => {
                return Err(format!("the kubelet would refuse the checkpoint of {source}: {message}"));
            }
            Some((source, ConfigCheck::NotPlaceable { message })) => {
                return Err(format!("{source} cannot be placed: {message}"));
            }
            Some((_, ConfigCheck::Accepted)) | None => {}
        }
        let content = self.loaded(target)?;
        let good = ledger.good();
        // A trial must not begin without a prepared rollback.
        let fallback = if rollback || target == good {
            None
        } else {
            let not_prepared = |error| format!("the last known good cannot be prepared for a rollback: {error}");
            Some(self.loaded(good).map_err(not_prepared)?)
        };
        let from = self.effective(ledger.active());
        let to = self.effective(target);
        // The kubelet may have started on the failed configuration, or on that of another program, and written state files.
        let failed = rollback.then(|| self.effective(ledger.assignment()).ok()).flatten();
        let other = self.placer.found_text(&self.disk);
        let content = content.as_ref().map(LoadedText::reviewed);
        let fallback = fallback.as_ref().map(|fallback| fallback.as_ref().map(LoadedText::reviewed));
        let placed = self.placer.place(&self.disk, content, fallback, rollback).map_err(|error| error.to_string())?;
        self.state.ledger.agent_state.placed_text = placed;
        match (from, to) {
            (Ok(from), Ok(to)) => {
                let mut files = content::state_files(&from, &to);
                files.extend(failed.iter().chain(&other).flat_map(|failed| content::state_files(failed, &to)));
                files.sort_unstable();
                files.dedup();
                Ok(StateFiles { files, handling })
            }
            (Err(error), _) | (_, Err(error)) => {
                tracing::warn!(error, "keeping the kubelet's state files: its current configuration is unknown");
                Ok(StateFiles::default())
            }
        }
    }

    /// Places the last known good, unless the disk already has it.
    fn put_back_last_known_good(&mut self) -> Result<(), String> {
        let good = self.loaded(self.state.ledger.good())?;
        let content = good.as_ref().map(LoadedText::reviewed);
        let is_in_place = self.placer.is_in_place(&self.disk, content).map_err(|error| error.to_string())?;
        if !is_in_place {
            self.healthz = None;
            self.placer.place(&self.disk, content, None, true).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Text of a configuration, from its checkpoint. `None` is the local configuration.
    fn loaded(&self, configuration: Option<Configuration<'_>>) -> Result<Option<LoadedText>, String> {
        let Some(Configuration { source, placement }) = configuration else { return Ok(None) };
        let mut payload = self.load_verified(source)?;
        let key = config_key(source);
        let text = payload.remove(key).ok_or_else(|| format!("{source} has no key {key:?}"))?;
        Ok(Some(LoadedText { text, placement: placement.unwrap_or_else(|| self.placer.default_placement()) }))
    }

    /// Loads a checkpoint and verifies its content hash.
    fn load_verified(&self, source: &ConfigSource) -> Result<Payload, String> {
        let payload = self.store.load_checkpoint(&self.disk, source).map_err(|error| error.to_string())?;
        let accepted = self.state.ledger.content_hash_of(source);
        let text = payload.get(config_key(source));
        if text.zip(accepted).is_some_and(|(text, accepted)| !content::has_hash(text, accepted)) {
            return Err(format!(
                "the checkpoint of {source} was changed: its content has another hash than the assignment"
            ));
        }
        Ok(payload)
    }

    /// Configuration that the kubelet loads, merged with the node's own for an overlay.
    fn effective(&self, configuration: Option<Configuration<'_>>) -> Result<String, String> {
        let content = self.loaded(configuration)?;
        let content = content.as_ref().map(LoadedText::reviewed);
        self.placer.effective(&self.disk, content, self.kubelet).map_err(|error| error.to_string())
    }

    /// Health endpoint of the kubelet; the default one if the configuration is unreadable. Cached, since every probe
    /// needs the endpoint, and reading it takes several file reads.
    pub fn healthz(&mut self) -> Healthz {
        let active = &self.state.ledger.agent_state.active;
        if let Some((source, healthz)) = &self.healthz
            && source == active
        {
            return healthz.clone();
        }
        let found = self.effective(self.state.ledger.active());
        let healthz = content::healthz(found.as_deref().unwrap_or_default());
        if found.is_ok() {
            self.healthz = Some((active.clone(), healthz.clone()));
        }
        healthz
    }

    fn check_checkpoint(&self, configuration: Configuration<'_>) -> ConfigCheck {
        let Configuration { source, placement } = configuration;
        let placement = placement.unwrap_or_else(|| self.placer.default_placement());
        match self.load_verified(source) {
            Ok(payload) => self.check_payload(&payload, config_key(source), placement),
            Err(message) => {
                ConfigCheck::NotLoaded { message, kubelet: self.kubelet.map(|version| version.to_string()) }
            }
        }
    }

    fn check_payload(&self, payload: &Payload, key: &str, placement: Placement) -> ConfigCheck {
        let supported = self.placer.supports(placement);
        let underneath = match supported.and_then(|()| self.placer.underneath(&self.disk, placement)) {
            Ok(underneath) => underneath,
            Err(error) => return ConfigCheck::NotPlaceable { message: error.to_string() },
        };
        content::check_config(payload, key, &underneath, self.kubelet)
    }
}

fn config_key(source: &ConfigSource) -> &str {
    source.config_map.as_ref().map(|map| map.kubelet_config_key.as_str()).unwrap_or_default()
}
