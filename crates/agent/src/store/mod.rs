//! What survives the agent, on disk: the ledger and the checkpoints.
//!
//! ```text
//! <dir>/store/meta/assigned                                  the kubelet's format: readable by a kubelet 1.21,
//! <dir>/store/meta/last-known-good                           and what one left is read
//! <dir>/store/checkpoints/<uid>/<resourceVersion>/<key>
//! <dir>/agent.json                                           what that format has no place for
//! ```
//!
//! Every file is replaced as a whole and durably. What cannot be read is an error, never "nothing there". Decides nothing.

use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::disk::durable::DiskError;
use super::events::Download;
use super::state::Ledger;
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

/// The kubelet's folders and files.
const STORE: &str = "store";
const META: &str = "meta";
const CHECKPOINTS: &str = "checkpoints";
const ASSIGNED: &str = "assigned";
const LAST_KNOWN_GOOD: &str = "last-known-good";
/// The agent's own.
const AGENT: &str = "agent.json";

/// Why the store cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A file that says what is assigned cannot be understood.
    #[error(
        "{} cannot be read: {problem}; restore it, or, to start afresh from the local configuration while the agent does not \
         run, copy what is in `local` of the agent's folder over the kubelet's --config file (with drop-ins: remove \
         nodecfg's), and then remove the agent's folder",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another version of nodecfg wrote it.
    #[error(
        "{} has format {format} where this nodecfg knows {known}: run the version of nodecfg that wrote it, or a later one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u64,
        /// The latest one that is known.
        known: u64,
    },
    /// A source that has no checkpoint: it is not resolved, or a name of it leads elsewhere.
    #[error("{0}")]
    Source(String),
    /// Something that does not belong there.
    #[error("{} is not what belongs there: remove it", .0.display())]
    InTheWay(PathBuf),
    /// More than a ConfigMap holds.
    #[error("{} holds more than a ConfigMap can: remove it", .0.display())]
    TooMuch(PathBuf),
    /// A key that is no text.
    #[error("{} is no UTF-8 text, which every value of a ConfigMap is", .0.display())]
    NoText(PathBuf),
    /// A checkpoint that is not there although the disk said it was written.
    #[error("{} does not hold what was written: the disk cannot be trusted", .0.display())]
    NotKept(PathBuf),
    /// A checkpoint that should be there.
    #[error("there is no checkpoint of {0}")]
    Missing(String),
}

/// The agent's folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Whether nothing is left to be made durable of what an agent before did, or a save that failed.
    settled: bool,
}

impl Store {
    /// The store in the agent's folder. Touches nothing.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), settled: false }
    }

    /// The ledger as it was saved last, or as a kubelet left it. Empty when there is none. Touches nothing.
    ///
    /// # Errors
    /// What cannot be read or understood.
    pub fn load(&self, disk: &dyn Disk) -> Result<Ledger, StoreError> {
        save::load(disk, &self.folder)
    }

    /// Saves the ledger, durably.
    ///
    /// # Errors
    /// What could not be written. Which ledger is on disk is not known then: it is this one or the one before.
    pub fn save(&mut self, disk: &dyn Disk, ledger: &Ledger) -> Result<(), StoreError> {
        let settled = std::mem::replace(&mut self.settled, false);
        save::save(disk, &self.folder, ledger, settled)?;
        self.settled = true;
        Ok(())
    }

    /// Keeps a download, durably and as a whole. One that is there already is compared and, where it differs, mended.
    ///
    /// # Errors
    /// What could not be written; names that cannot be those of files.
    pub fn keep(&self, disk: &dyn Disk, download: &Download) -> Result<(), StoreError> {
        self.checkpoints().keep(disk, download)
    }

    /// What the checkpoint of a source holds.
    ///
    /// # Errors
    /// What cannot be read; [`StoreError::Missing`] when there is none.
    pub fn checkpoint(&self, disk: &dyn Disk, source: &ConfigSource) -> Result<Payload, StoreError> {
        let found = self.checkpoints().load(disk, &resolved(source)?)?;
        found.ok_or_else(|| StoreError::Missing(source.to_string()))
    }

    /// Removes the checkpoints that the ledger does not name.
    ///
    /// # Errors
    /// What could not be removed; it does no harm.
    pub fn prune(&self, disk: &dyn Disk, ledger: &Ledger) -> Result<(), StoreError> {
        let named = [&ledger.assigned, &ledger.last_known_good, &ledger.beyond.active];
        let keep: Vec<&ConfigSource> = named.into_iter().flatten().collect();
        self.checkpoints().prune(disk, &keep)
    }

    fn checkpoints(&self) -> Checkpoints {
        Checkpoints { folder: self.folder.join(STORE).join(CHECKPOINTS) }
    }
}
