//! First boot of a node: puts the configuration of its pool in place before the kubelet starts.
//!
//! Saves checkpoint and ledger, then places the configuration. So the next boot completes an interrupted boot. The ledger
//! has the trial of a kubelet that was just restarted: the agent rolls back to the local configuration if the kubelet
//! does not come up.
//!
//! Changes no node that an agent manages, and no node that has run pods: their configuration changes in rollouts. For
//! the same reason an agent discards an interrupted boot: the kubelet may have started since. Must not restart the
//! kubelet or write to the API server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::content;
use crate::disk::durable::DiskError;
use crate::disk::{Disk, durable};
use crate::events::{ConfigCheck, Download};
use crate::ledger::{AgentState, Ledger, Phase, Trial};
use crate::placement::{Content, PlacementError, Placer, Reviewed};
use crate::runtime::Paths;
use crate::store::{Store, StoreError};
use nodecfg_cluster::ClusterError;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::pool_pointer::PointerError;
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY, KubeletVersion, Placement};

pub mod offer;
#[cfg(test)]
mod offer_tests;
pub mod startup_taint;
#[cfg(test)]
mod startup_taint_tests;
#[cfg(test)]
mod tests;

use offer::Offer;

/// Folder of the pods in the kubelet's root directory. A kubelet makes a folder there for each pod.
const PODS: &str = "pods";

/// Reason why the configuration of the pool is not in place.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The agent's folder is damaged or cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kubelet's configuration cannot be read or replaced.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Another disk error.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The pool pointer could not be read.
    #[error(transparent)]
    Cluster(Box<ClusterError>),
    /// The pool pointer is not the one that the reconciler wrote.
    #[error("the pool pointer {name} is refused: {error}")]
    Pointer {
        /// Namespace and name of the ConfigMap.
        name: String,
        /// Reason.
        error: PointerError,
    },
    /// The file of an offline boot is missing or unreadable.
    #[error("the configuration in {} cannot be read: {problem}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file of an offline boot has another hash.
    #[error("the configuration in {} is refused: its content hash is {found}, and --content-hash is {wanted}", path.display())]
    OtherContent {
        /// Path of the file.
        path: PathBuf,
        /// Hash that was required.
        wanted: ContentHash,
        /// Hash of the file.
        found: ContentHash,
    },
    /// The kubelet would refuse the configuration.
    #[error("the kubelet would refuse the configuration of the pool: {0}")]
    Refused(String),
    /// The startup taint cannot be set.
    #[error("the startup taint cannot be set: {0}")]
    StartupTaint(String),
}

impl From<ClusterError> for BootError {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(Box::new(error))
    }
}

/// State of a node before its kubelet starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Situation {
    /// The agent manages the kubelet's configuration. `assigned`: it has an assignment.
    Owned {
        /// Whether the agent has an assignment.
        assigned: bool,
    },
    /// An earlier boot saved this ledger, and has not placed the configuration.
    Interrupted(Box<Ledger>),
    /// The kubelet has run pods, with the local configuration.
    HasPods,
    /// The node needs the configuration of its pool.
    New,
}

/// Node whose kubelet is about to start.
#[derive(Debug, Clone)]
pub struct Boot {
    /// The agent's folder, and how the kubelet gets its configuration.
    pub paths: Paths,
    /// The kubelet's root directory.
    pub root: PathBuf,
}

impl Boot {
    /// Reads the state of the node. Only reads.
    ///
    /// # Errors
    /// The agent's folder is damaged, or the kubelet's file or folder is missing or of the wrong kind.
    pub(crate) fn survey(&self, disk: &dyn Disk) -> Result<Situation, BootError> {
        let store = self.store();
        let ledger = store.load(disk)?;
        let assigned = ledger.assigned.is_some();
        let is_interrupted = ledger.is_seeded() && {
            let text = checkpoint(disk, &store, &ledger)?;
            let placer = self.placer(disk, false)?;
            !placer.is_in_place(disk, reviewed(&placer, &text, ledger.agent_state.placement))?
        };
        if !is_interrupted && (assigned || store.is_used(disk)?) {
            return Ok(Situation::Owned { assigned });
        }
        if !durable::list(disk, &self.root.join(PODS))?.is_empty() {
            return Ok(Situation::HasPods);
        }
        if is_interrupted {
            return Ok(Situation::Interrupted(Box::new(ledger)));
        }
        self.placer(disk, true)?;
        Ok(Situation::New)
    }

    /// Completes an interrupted boot with its ledger.
    ///
    /// # Errors
    /// The checkpoint is unreadable, or a file could not be written.
    pub fn complete(&self, disk: &dyn Disk, ledger: &Ledger) -> Result<(), BootError> {
        let text = checkpoint(disk, &self.store(), ledger)?;
        let mut placer = self.placer(disk, false)?;
        let content = reviewed(&placer, &text, ledger.agent_state.placement);
        self.place(disk, &mut placer, content, None)
    }

    /// Checks an offer for the installed kubelet and puts it in place. `kubelet`: version, if known.
    ///
    /// # Errors
    /// The kubelet would refuse the content; nothing has changed. Or a file could not be read or written.
    pub fn install(
        &self,
        disk: &dyn Disk,
        offer: &Offer,
        pool: &PoolName,
        kubelet: Option<KubeletVersion>,
        now: Timestamp,
    ) -> Result<(), BootError> {
        let mut placer = self.placer(disk, true)?;
        let payload = BTreeMap::from([(KUBELET_KEY.to_owned(), offer.kubelet.clone())]);
        let placement = offer.placement.unwrap_or_else(|| placer.default_placement());
        placer.supports(placement)?;
        match content::check_config(&payload, KUBELET_KEY, &placer.underneath(disk, placement)?, kubelet) {
            ConfigCheck::Accepted => {}
            ConfigCheck::NotLoaded { message, .. }
            | ConfigCheck::NotValid { message, .. }
            | ConfigCheck::NotPlaceable { message } => return Err(BootError::Refused(message)),
        }
        let download = Download {
            source: offer.source.clone(),
            payload,
            immutable: false,
            content_hash: Some(offer.hash.to_string()),
            pool: Some(pool.to_string()),
        };
        let mut store = self.store();
        store.save_checkpoint(disk, &download)?;
        let content = Some(Reviewed { text: &offer.kubelet, placement });
        let placed = placer.digest(disk, content)?;
        store.save(disk, &seeded(download, placement, placed, now))?;
        self.place(disk, &mut placer, content, kubelet)
    }

    /// Puts a content in place. Removes state files of the kubelet that contradict it: no pod has used them, and the
    /// kubelet would not start with them.
    fn place(
        &self,
        disk: &dyn Disk,
        placer: &mut Placer,
        content: Content<'_>,
        kubelet: Option<KubeletVersion>,
    ) -> Result<(), BootError> {
        let (from, to) = (placer.effective(disk, None, kubelet)?, placer.effective(disk, content, kubelet)?);
        for file in content::state_files(&from, &to) {
            let path = self.root.join(file.as_str());
            if durable::stat(disk, &path)?.is_some() {
                disk.remove_file(&path).map_err(DiskError::at("remove", &path))?;
                tracing::info!(file = %path.display(), "removed a state file of the kubelet");
            }
        }
        Ok(placer.place(disk, content, Some(None), false).map(drop)?)
    }

    fn store(&self) -> Store {
        Store::new(&self.paths.folder)
    }

    fn placer(&self, disk: &dyn Disk, on_local: bool) -> Result<Placer, PlacementError> {
        Placer::open(disk, &self.paths.folder, self.paths.activation.clone(), on_local)
    }
}

/// A text with its placement in the ledger.
fn reviewed<'a>(placer: &Placer, text: &'a str, placement: Option<Placement>) -> Content<'a> {
    Some(Reviewed { text, placement: placement.unwrap_or_else(|| placer.default_placement()) })
}

/// Ledger of a node that starts with this assignment: the kubelet is about to run it, and is on trial.
fn seeded(download: Download, placement: Placement, placed_text: Option<String>, now: Timestamp) -> Ledger {
    let Download { source, content_hash, pool, immutable, .. } = download;
    let trial = Trial { started: now, ..Trial::default() };
    let agent_state = AgentState {
        phase: Phase::Trying(trial),
        active: Some(source.clone()),
        placement: Some(placement),
        active_placement: Some(placement),
        placed_text,
        content_hash,
        pool,
        immutable,
        booted: true,
        ..AgentState::default()
    };
    Ledger { assigned: Some(source), last_known_good: None, agent_state }
}

/// Content of the assignment.
fn checkpoint(disk: &dyn Disk, store: &Store, ledger: &Ledger) -> Result<String, StoreError> {
    let local = ConfigSource::default();
    let source = ledger.assigned.as_ref().unwrap_or(&local);
    let mut payload = store.load_checkpoint(disk, source)?;
    payload.remove(KUBELET_KEY).ok_or_else(|| StoreError::Missing(source.to_string()))
}
