//! Reads a configuration repository as a snapshot of files, from a git commit, a git server or a folder.
//!
//! Reading never changes a repository: no checkout, no index. Downloads go to nodecfg's own cache (`remote`). This
//! module handles names and texts only; [`desired`](nodecfg_fleet) interprets them.

use std::path::PathBuf;
use std::sync::Arc;

use kubelet_config::finding::Finding;
use nodecfg_contract::names::CommitId;
use nodecfg_fleet::snapshot::{MAX_FILE, Snapshot, SnapshotFile, Source, text};
use signature::Signers;

mod address;
mod confined;
mod enclosing;
mod error;
mod folder;
mod git;
pub mod history;
mod links;
mod merge;
mod program;
mod read_file;
pub mod remote;
mod remote_error;
mod revisions;
pub mod signature;
mod subfolder;
#[cfg(test)]
mod tests;

pub use address::{Address, AddressError, RemoteAddress, Scheme};
pub use enclosing::{Enclosing, cleaned};
pub use error::{OpenError, RepositoryError};
pub use links::LinkError;
pub use merge::merged_into;
pub use program::{ProgramError, Programs, Stopper};
pub use read_file::read_file;
pub use remote_error::RemoteError;
pub use revisions::revisions;
pub use subfolder::{Folder, FolderError};

/// The maximum number of files in a snapshot.
pub const MAX_FILES: usize = 50_000;
/// The maximum number of visited entries, including folders and files of other types.
pub const MAX_ENTRIES: usize = 1_000_000;
/// The maximum total size of a snapshot, in bytes.
pub const MAX_TOTAL: u64 = 256 << 20;

/// The repository and revision to read.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The root: a git repository (bare or not), a folder within one, or any folder.
    pub path: PathBuf,
    /// The folder of the configuration below the root.
    pub folder: Folder,
    /// The revision in git syntax. Default: HEAD.
    pub revision: Option<String>,
    /// Whether to read the files of the folder instead of a commit.
    pub worktree: bool,
    /// The allowed signers of the commit. Unset: signatures are not verified.
    pub signers: Option<Arc<Signers>>,
    /// A folder that links below it do not leave, like those of a repository: the checkout of a job.
    pub checkout: Option<PathBuf>,
}

/// Commit of the revision, without reading its files. `None` if the files are not those of a commit.
///
/// # Errors
/// When the folder or the revision is missing or unreadable.
pub fn resolve(options: &OpenOptions) -> Result<Option<CommitId>, RepositoryError> {
    let root = git::root_of(options)?;
    match git::discover(&root)? {
        Some(repository) if !options.worktree => git::resolve(&repository, &root, options.revision.as_deref()),
        _ => Ok(None),
    }
}

/// Reads a repository.
///
/// # Errors
/// When the options contradict each other, the folder or revision is missing or unreadable, the content is too large,
/// or the signature is not by an allowed signer.
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
            let message = format!("{} is not in a git repository; reading its files", options.path.display());
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
