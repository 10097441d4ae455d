//! Persistent storage in the agent's folder, `<dir>`: the ledger and the checkpoints.
//!
//! ```text
//! <dir>/store/meta/assigned                                  the kubelet's format, shared with a kubelet 1.21
//! <dir>/store/meta/last-known-good                           likewise
//! <dir>/store/checkpoints/<uid>/<resourceVersion>/<key>      likewise
//! <dir>/agent.json                                           state that the kubelet's format lacks
//! ```
//!
//! Every file is replaced as a whole and durably. An unreadable file is an error, not an empty store. Must not make
//! decisions.

use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::disk::durable::{self, DiskError};
use super::events::Download;
use super::ledger::Ledger;
use nodecfg_contract::ConfigSource;

mod checkpoints;
mod inspect;
mod names;
mod save;
pub mod source;
#[cfg(test)]
mod tests;

pub use checkpoints::Payload;
pub use inspect::{CheckpointFile, CheckpointFolder, Description, inspect};

use checkpoints::{Checkpoints, resolved};

/// Folders and files of the kubelet's format.
const STORE: &str = "store";
const META: &str = "meta";
const CHECKPOINTS: &str = "checkpoints";
const ASSIGNED: &str = "assigned";
const LAST_KNOWN_GOOD: &str = "last-known-good";
/// State file of the agent.
const AGENT: &str = "agent.json";

/// Error of reading or writing the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Disk error.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A state file is invalid.
    #[error(
        "{} cannot be read: {problem}; restore the file. To start over with the local configuration instead, stop the \
         agent, copy the file `local` of its folder, if it exists, over the kubelet's --config file (drop-in mode: \
         remove 90-nodecfg.conf), and remove the folder",
        path.display()
    )]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the content.
        problem: String,
    },
    /// Another version of nodecfg wrote the file.
    #[error(
        "{} has format {format}; this nodecfg supports format {known}: run the version that wrote it, or a later one",
        path.display()
    )]
    UnsupportedFormat {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        format: u64,
        /// Latest known format.
        known: u64,
    },
    /// The source cannot have a checkpoint: it is unresolved or has an unsafe name.
    #[error("{0}")]
    Source(String),
    /// Another kind of file or folder exists at the path.
    #[error("{} has an unexpected file type: remove it", .0.display())]
    UnexpectedEntry(PathBuf),
    /// The checkpoint is larger than a ConfigMap can be, or has too many keys.
    #[error("{} is larger than a ConfigMap can be: remove it", .0.display())]
    TooLarge(PathBuf),
    /// The value of a key is not UTF-8.
    #[error("{} is not UTF-8 text, as every value of a ConfigMap must be", .0.display())]
    NotUtf8(PathBuf),
    /// The checkpoint differs from what was written, although the disk reported success.
    #[error("{} does not contain the written data: check the disk", .0.display())]
    NotPersisted(PathBuf),
    /// The checkpoint is missing.
    #[error("the checkpoint of {0} is missing")]
    Missing(String),
}

/// Store in the agent's folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Whether the last save of this process succeeded. Otherwise an earlier agent or a failed save may have left
    /// files that are not durable.
    synced: bool,
}

impl Store {
    /// Creates a store for the agent's folder, without disk access.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), synced: false }
    }

    /// Loads the ledger as last saved, or as a kubelet or a person changed its files. Empty if no file exists. Only
    /// reads.
    ///
    /// # Errors
    /// A file is unreadable or invalid.
    pub fn load(&self, disk: &dyn Disk) -> Result<Ledger, StoreError> {
        save::load(disk, &self.folder)
    }

    /// Reports whether an agent or a boot has saved its state here.
    ///
    /// # Errors
    /// An I/O error.
    pub fn is_used(&self, disk: &dyn Disk) -> Result<bool, StoreError> {
        Ok(durable::stat(disk, &self.folder.join(AGENT))?.is_some())
    }

    /// Saves the ledger durably.
    ///
    /// # Errors
    /// A file could not be read or written, or a source cannot have a checkpoint. The next load returns this ledger
    /// or the previous one.
    pub fn save(&mut self, disk: &dyn Disk, ledger: &Ledger) -> Result<(), StoreError> {
        let synced = std::mem::replace(&mut self.synced, false);
        save::save(disk, &self.folder, ledger, synced)?;
        self.synced = true;
        Ok(())
    }

    /// Saves a download durably and completely. Repairs an existing checkpoint that differs.
    ///
    /// # Errors
    /// A file could not be written, the source is unresolved, or a name is not safe as a file name.
    pub(crate) fn save_checkpoint(&self, disk: &dyn Disk, download: &Download) -> Result<(), StoreError> {
        self.checkpoints().save(disk, download)
    }

    /// Loads the checkpoint of a source.
    ///
    /// # Errors
    /// The source cannot have a checkpoint, or its checkpoint is unreadable or [missing](StoreError::Missing).
    pub fn load_checkpoint(&self, disk: &dyn Disk, source: &ConfigSource) -> Result<Payload, StoreError> {
        let found = self.checkpoints().load(disk, &resolved(source)?)?;
        found.ok_or_else(|| StoreError::Missing(source.to_string()))
    }

    /// Removes the checkpoints that the ledger does not name as assigned, last known good or active.
    ///
    /// # Errors
    /// A checkpoint could not be removed; the rest may stay, which does no harm.
    pub fn prune(&self, disk: &dyn Disk, ledger: &Ledger) -> Result<(), StoreError> {
        let named = [&ledger.assigned, &ledger.last_known_good, &ledger.agent_state.active];
        let keep: Vec<&ConfigSource> = named.into_iter().flatten().collect();
        self.checkpoints().prune(disk, &keep)
    }

    fn checkpoints(&self) -> Checkpoints {
        Checkpoints { folder: self.folder.join(STORE).join(CHECKPOINTS) }
    }
}
