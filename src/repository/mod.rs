//! The configuration repository as one set of files: a commit of a git repository here or on a server, or a folder.
//!
//! All give the same type. Reading never changes a repository: no checkout, no index; what is fetched from a server goes to a
//! cache of nodecfg's own (`remote`). What the files mean is
//! [`desired`](nodecfg_planning::desired)'s business; here they are names and text.

use std::path::PathBuf;
use std::sync::Arc;

use kubelet_config::finding::Finding;
use nodecfg_planning::snapshot::{MAX_FILE, Snapshot, SnapshotFile, Source, text};
use signature::Signers;

mod address;
mod error;
mod folder;
mod git;
pub mod history;
mod links;
mod program;
mod read_file;
pub mod remote;
pub mod signature;
mod subfolder;
#[cfg(test)]
mod tests;

pub use address::{Address, AddressError, RemoteAddress, Scheme};
pub use error::RepositoryError;
pub use program::{ProgramError, Programs, Stopper};
pub use read_file::read_file;
pub use subfolder::{Folder, FolderError};

/// The most files of one snapshot.
pub const MAX_FILES: usize = 50_000;
/// The most entries of any kind that are looked at on the way: files that nodecfg has no use for, and folders.
pub const MAX_ENTRIES: usize = 1_000_000;
/// The most bytes of all the files of one snapshot together.
pub const MAX_TOTAL: u64 = 256 << 20;

/// What to read.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The root of the configuration: a git repository, bare or not, a folder within one, or any folder.
    pub path: PathBuf,
    /// The folder of the configuration below it.
    pub folder: Folder,
    /// Which commit, as git spells revisions; default HEAD.
    pub revision: Option<String>,
    /// Read the files as they lie in the folder, committed or not.
    pub worktree: bool,
    /// Who must have signed the commit; unset: nobody need have.
    pub signers: Option<Arc<Signers>>,
}

/// Reads a repository.
///
/// # Errors
/// When there is nothing to read: no such folder, no such revision, no such folder in the revision, or too much of it.
pub fn open(options: &OpenOptions) -> Result<Snapshot, RepositoryError> {
    let root = git::root_of(options)?;
    let repository = git::discover(&root)?;
    if options.signers.is_some() && (options.worktree || repository.is_none()) {
        return Err(RepositoryError::NothingSigned { path: options.path.clone(), worktree: options.worktree });
    }
    match (repository, &options.revision, options.worktree) {
        (_, Some(revision), true) => Err(RepositoryError::RevisionOfWorktree { revision: revision.clone() }),
        (Some(repository), _, true) => {
            folder::read(&options.folder.below(&root)?, Source::WorkingTree, Some(&repository))
        }
        (None, None, _) => {
            let mut snapshot = folder::read(&options.folder.below(&root)?, Source::Folder, None)?;
            let message = format!("{} is in no git repository; its files are read as they are", options.path.display());
            snapshot.findings.push(Finding::note("not-in-git", message));
            Ok(snapshot)
        }
        (None, Some(revision), false) => {
            Err(RepositoryError::NotARepository { path: options.path.clone(), revision: revision.clone() })
        }
        (Some(repository), revision, false) => {
            let (folder, signers) = (options.folder.as_str(), options.signers.as_deref());
            git::read(&repository, &root, folder, revision.as_deref(), signers)
        }
    }
}
