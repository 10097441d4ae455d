//! The configuration repository as one set of files: a commit of a git repository here or on a server, or a folder.
//!
//! All give the same type. Reading never changes a repository: no checkout, no index; what is fetched from a server goes to a
//! cache of nodecfg's own (`remote`). What the files mean is
//! [`desired`](crate::desired)'s business; here they are names and text.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::finding::Finding;
use crate::names::CommitId;
use signature::{Signer, Signers};

mod address;
mod error;
mod file;
mod folder;
mod git;
pub mod history;
mod links;
mod program;
pub mod remote;
pub mod signature;
mod subfolder;
#[cfg(test)]
mod tests;
mod text;

pub use address::{Address, AddressError, RemoteAddress, Scheme};
pub use error::RepositoryError;
pub use file::read_file;
pub use program::{ProgramError, Programs, Stopper};
pub use subfolder::{Folder, FolderError};
pub use text::is_candidate;

/// The most bytes of one file.
pub const MAX_FILE: u64 = 1 << 20;
/// The most files of one snapshot.
pub const MAX_FILES: usize = 50_000;
/// The most entries of any kind that are looked at on the way: files that nodecfg has no use for, and folders.
pub const MAX_ENTRIES: usize = 1_000_000;
/// The most bytes of all the files of one snapshot together.
pub const MAX_TOTAL: u64 = 256 << 20;

/// The files of one revision, or of a folder as it is.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The YAML and JSON files, by path from the root with `/` on every platform.
    pub files: BTreeMap<String, SnapshotFile>,
    /// The commit that was read; unset when the files came from a folder.
    pub commit: Option<CommitId>,
    /// Who signed it, where that was asked for.
    pub signer: Option<Signer>,
    /// Where the files came from.
    pub source: Source,
    /// What there is to say about the reading: uncommitted changes that are not used, say.
    pub findings: Vec<Finding>,
}

/// One file of a snapshot.
#[derive(Debug, Clone)]
pub enum SnapshotFile {
    /// Its text, without a byte order mark and with `\n` for line ends.
    Text(Arc<str>),
    /// It cannot be used, and this is why. The finding matters only when something asks for the file.
    Unusable(Box<Finding>),
}

/// Where the files of a snapshot came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A commit of a git repository.
    Commit,
    /// The working tree of a git repository, because it was asked for.
    WorkingTree,
    /// A folder outside of any git repository.
    Folder,
}

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

impl Snapshot {
    /// A snapshot of texts that are at hand, as if they lay in a folder.
    #[must_use]
    pub fn of_texts<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> Self {
        let files =
            files.into_iter().map(|(path, text)| (path.to_owned(), text::normalised(path, text.as_bytes()))).collect();
        Self { files, commit: None, signer: None, source: Source::Folder, findings: Vec::new() }
    }

    /// The text of a file, when there is one that can be used.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&Arc<str>> {
        match self.files.get(path)? {
            SnapshotFile::Text(text) => Some(text),
            SnapshotFile::Unusable(_) => None,
        }
    }
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
