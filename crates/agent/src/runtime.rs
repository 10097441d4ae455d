//! Steps the machine and keeps its word: the ledger is saved before anything is done that follows from it, checkpoints and the
//! kubelet's file are written here, and only what needs the kubelet or the API server goes out.
//!
//! Knows no clock, no client and no process; whoever drives it does what comes out, in that order, and brings the answers back.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::content;
use super::disk::Disk;
use super::events::{
    ActivationError, ConfigCheck, Download, Effect, Event, FetchError, Fetched, Health, NodeHealth, Step,
};
use super::host::Healthz;
use super::machine::{self, MachineState};
use super::placement::{Placement, PlacementError, Placer};
use super::state::{Ledger, Phase, Settings};
use super::store::{Payload, Store, StoreError};
use kubelet_config::risk::StateFile;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::observed::KubeletVersion;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

/// How many steps one event may lead to. Each answer that the runtime gives itself ends something, so they are few.
const MOST_STEPS: usize = 64;
/// When to try again what concerns nothing but the disk: to save what was acted upon already, to prune.
const TIDY_AGAIN: Duration = Duration::from_secs(60);

/// Where the agent keeps things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The agent's folder: what a kubelet 1.21 had as `--dynamic-config-dir`.
    pub folder: PathBuf,
    /// Where the kubelet reads its configuration.
    pub placement: Placement,
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What it knew cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing can be placed where it is told to.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

/// The agent without the world around it.
#[derive(Debug)]
pub struct AgentRuntime<D> {
    disk: D,
    store: Store,
    placer: Placer,
    state: MachineState,
    /// The ledger on disk. `None`: not known, because nothing was saved yet or saving failed.
    saved: Option<Ledger>,
    /// Whether there may be checkpoints that nothing names.
    unpruned: bool,
    /// The kubelet of this host, as it was last said.
    kubelet: Option<KubeletVersion>,
    /// Where a kubelet on this source answers, once found out.
    healthz: Option<(Option<ConfigSource>, Healthz)>,
}

impl<D: Disk> AgentRuntime<D> {
    /// An agent that goes on from what is on disk. Reads only: whatever it has to write comes with the first event.
    ///
    /// # Errors
    /// The store or the record of what was placed cannot be understood; what is to be replaced is no regular file.
    pub fn open(paths: &Paths, settings: Settings, disk: D, seed: u64) -> Result<Self, OpenError> {
        let store = Store::new(&paths.folder);
        let ledger = store.load(&disk)?;
        let on_local =
            ledger.assigned.is_none() && ledger.beyond.active.is_none() && ledger.beyond.phase == Phase::Settled;
        let placer = Placer::open(&disk, &paths.folder, paths.placement.clone(), on_local)?;
        let state = MachineState::resume(ledger, settings, seed);
        Ok(Self { disk, store, placer, state, saved: None, unpruned: false, kubelet: None, healthz: None })
    }

    /// The first event: the agent has looked at what is on disk. `kubelet`: the version that is installed on this host.
    pub fn start(&mut self, kubelet: Option<KubeletVersion>, now: Timestamp) -> Step {
        self.kubelet = kubelet;
        let ledger = &self.state.ledger;
        // A judgement that was made for a kubelet that is known is not overturned by one for a kubelet that is not.
        let judged = |verdict: &ConfigCheck| kubelet.is_some() || matches!(verdict, ConfigCheck::NotLoaded { .. });
        let verdict = ledger.assigned.as_ref().map(|assigned| self.judge_checkpoint(assigned)).filter(judged);
        let in_place = match self.content(ledger.beyond.active.as_ref()) {
            Ok(active) => self.placer.is_in_place(&self.disk, active.as_deref()).unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot tell whether the kubelet's configuration is in place");
                // Not touched then when it is the node's own; otherwise placing it tells what is wrong.
                active.is_none()
            }),
            Err(_) => false,
        };
        self.take(Event::Started { verdict, in_place }, now)
    }

    /// The answer to [`Effect::Fetch`]. `node`: how the node is, as far as the API server says.
    pub fn fetched(
        &mut self,
        result: Result<Download, FetchError>,
        node: Option<NodeHealth>,
        kubelet: Option<KubeletVersion>,
        now: Timestamp,
    ) -> Step {
        self.kubelet = kubelet.or(self.kubelet);
        let fetched = result.and_then(|download| {
            let key = key(&download.source);
            content::check_hash(&download.payload, key, download.content_hash.as_deref())?;
            let verdict = self.judge(&download.payload, key);
            Ok(Box::new(Fetched { download, verdict, node }))
        });
        self.take(Event::Fetched(fetched), now)
    }

    /// Any other event. What is left of the step to do are its effects, in this order, and its wake.
    pub fn take(&mut self, event: Event, now: Timestamp) -> Step {
        let mut left = Step::default();
        let mut events = VecDeque::from([event]);
        for _ in 0..MOST_STEPS {
            let Some(event) = events.pop_front() else { break };
            let (mut next, mut step) = machine::step(&self.state, &event, now);
            if let Err(error) = self.save(&next.ledger) {
                if next.ledger != self.state.ledger && !step.urgent {
                    (next, step) = machine::not_saved(&self.state, &event, &error.to_string(), now);
                } else {
                    tracing::warn!(%error, "cannot save what the agent knows; it goes on and tries again");
                }
            }
            self.state = next;
            self.unpruned |= step.prune;
            left.wake = step.wake;
            if let Some(download) = step.checkpoint {
                let kept = self.store.keep(&self.disk, &download).map_err(|error| error.to_string());
                events.push_back(Event::Checkpointed(kept));
            }
            for effect in step.effects {
                match self.prepare(effect) {
                    Ok(effect) => left.effects.push(effect),
                    Err(answer) => events.push_back(answer),
                }
            }
        }
        if !self.tidy() {
            let again = now.checked_add(TIDY_AGAIN).unwrap_or(Timestamp::MAX);
            left.wake = Some(left.wake.map_or(again, |wake| wake.min(again)));
        }
        left
    }

    /// What the agent knows.
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

    /// Brings the ledger on disk up to date.
    fn save(&mut self, ledger: &Ledger) -> Result<(), StoreError> {
        if self.saved.as_ref() == Some(ledger) {
            return Ok(());
        }
        self.saved = None;
        self.store.save(&self.disk, ledger)?;
        self.saved = Some(ledger.clone());
        Ok(())
    }

    /// Does of an effect what concerns the disk. Gives what is left of it to do, or the answer.
    fn prepare(&mut self, effect: Effect) -> Result<Effect, Event> {
        match effect {
            Effect::Activate { target, .. } => match self.place(target.as_ref()) {
                Ok(remove) => Ok(Effect::Activate { target, remove }),
                Err(reason) => Err(Event::Activated(Err(ActivationError::NotPlaced(reason)))),
            },
            // A configuration of the node's own may do without: there is nothing to ask, and nothing to fall back to.
            Effect::Probe { .. } if self.healthz().port == 0 => {
                Err(Event::Probed(Health { kubelet: Ok(()), node: None }))
            }
            effect => Ok(effect),
        }
    }

    /// Prunes when that is due. Gives whether the disk is as it should be: otherwise nobody may come to look for long, and
    /// what was acted upon might be lost in a power failure then.
    fn tidy(&mut self) -> bool {
        // What a ledger on disk may still name is left.
        if self.saved.is_some() && self.unpruned {
            match self.store.prune(&self.disk, &self.state.ledger) {
                Ok(()) => self.unpruned = false,
                Err(error) => tracing::warn!(%error, "old checkpoints remain"),
            }
        }
        self.saved.is_some() && !self.unpruned
    }

    /// Puts a target in place. Gives the state files that the kubelet would not start with.
    fn place(&mut self, target: Option<&ConfigSource>) -> Result<Vec<StateFile>, String> {
        self.healthz = None;
        let ledger = &self.state.ledger;
        let hurry = ledger.beyond.failure.is_some();
        // What is on disk may have changed since it was taken: whatever it is, a kubelet that refuses it does not get it. But
        // what ran once is better than what has failed, whatever is thought of it by now.
        match target.map(|source| (source, self.judge_checkpoint(source))) {
            Some((source, ConfigCheck::NotValid { message, .. })) if hurry => {
                tracing::warn!("falling back to {source}, which the kubelet would refuse by now: {message}");
            }
            Some((source, ConfigCheck::NotLoaded { message, .. } | ConfigCheck::NotValid { message, .. })) => {
                return Err(format!("the kubelet would refuse the checkpoint of {source}: {message}"));
            }
            Some((_, ConfigCheck::Accepted)) | None => {}
        }
        let content = self.content(target)?;
        let good = ledger.last_known_good.as_ref();
        // Before a trial begins, its end is made ready.
        let ready = if hurry || target == good {
            None
        } else {
            let unready = |error| format!("the last known good cannot be made ready to fall back to: {error}");
            Some(self.content(good).map_err(unready)?)
        };
        let from = self.effective(ledger.beyond.active.as_ref());
        // A kubelet may have started on what failed before anybody could see it.
        let failed = hurry.then(|| self.effective(ledger.assigned.as_ref()).ok()).flatten();
        let text = |error: PlacementError| error.to_string();
        let ready = ready.as_ref().map(Option::as_deref);
        self.placer.place(&self.disk, content.as_deref(), ready, hurry).map_err(text)?;
        match (from, self.effective(target)) {
            (Ok(from), Ok(to)) => {
                let mut files = content::state_files(&from, &to);
                files.extend(failed.iter().flat_map(|failed| content::state_files(failed, &to)));
                files.sort_unstable();
                files.dedup();
                Ok(files)
            }
            (Err(error), _) | (_, Err(error)) => {
                tracing::warn!(error, "no state file of the kubelet is removed: it is not known what it runs");
                Ok(Vec::new())
            }
        }
    }

    /// The text of a source, as it was checkpointed. `None` is the local configuration.
    fn content(&self, source: Option<&ConfigSource>) -> Result<Option<String>, String> {
        let Some(source) = source else { return Ok(None) };
        let mut payload = self.load(source)?;
        let key = key(source);
        payload.remove(key).map(Some).ok_or_else(|| format!("{source} has no key {key:?}"))
    }

    /// A checkpoint, with the hash that was said of it.
    fn load(&self, source: &ConfigSource) -> Result<Payload, String> {
        let payload = self.store.checkpoint(&self.disk, source).map_err(|error| error.to_string())?;
        match content::check_hash(&payload, key(source), self.state.ledger.content_hash_of(source).map(String::as_str))
        {
            Err(FetchError::HashDiffers(why)) => Err(format!("the checkpoint of {source} was changed: {why}")),
            _ => Ok(payload),
        }
    }

    /// The configuration of a kubelet that runs this source.
    fn effective(&self, source: Option<&ConfigSource>) -> Result<String, String> {
        let content = self.content(source)?;
        self.placer.effective(&self.disk, content.as_deref()).map_err(|error| error.to_string())
    }

    /// Where the kubelet answers. Looked up once, since a trial asks every second.
    pub fn healthz(&mut self) -> Healthz {
        let active = &self.state.ledger.beyond.active;
        if let Some((source, healthz)) = &self.healthz
            && source == active
        {
            return healthz.clone();
        }
        let found = self.effective(active.as_ref());
        let healthz = content::healthz(found.as_deref().unwrap_or_default());
        if found.is_ok() {
            self.healthz = Some((active.clone(), healthz.clone()));
        }
        healthz
    }

    fn judge_checkpoint(&self, source: &ConfigSource) -> ConfigCheck {
        match self.load(source) {
            Ok(payload) => self.judge(&payload, key(source)),
            Err(message) => {
                ConfigCheck::NotLoaded { message, kubelet: self.kubelet.map(|version| version.to_string()) }
            }
        }
    }

    fn judge(&self, payload: &Payload, key: &str) -> ConfigCheck {
        let underneath = self.placer.underneath(&self.disk).unwrap_or_else(|error| {
            tracing::warn!(%error, "judging without what the kubelet has underneath");
            Vec::new()
        });
        content::judge(payload, key, &underneath, self.kubelet)
    }
}

fn key(source: &ConfigSource) -> &str {
    source.config_map.as_ref().map(|map| map.kubelet_config_key.as_str()).unwrap_or_default()
}
