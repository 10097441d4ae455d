//! Why a repository cannot be read at all. What is wrong with a single file of it is a finding.

use std::path::PathBuf;

use super::AddressError;
use super::remote::RemoteError;
use super::signature::Unverified;

/// A repository could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The path cannot be reached.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The path as given, or the file below it.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The path is a file.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The path as given.
        path: PathBuf,
    },
    /// A revision was asked for outside of git.
    #[error("cannot read revision {revision:?} of {}: it is in no git repository", path.display())]
    NotARepository {
        /// The path as given.
        path: PathBuf,
        /// The revision as given.
        revision: String,
    },
    /// A history was asked for outside of git.
    #[error("{} is in no git repository, and so has no history", path.display())]
    NoHistory {
        /// The path as given.
        path: PathBuf,
    },
    /// Both a revision and the working tree were asked for.
    #[error("cannot read both revision {revision:?} and the working tree")]
    RevisionOfWorktree {
        /// The revision as given.
        revision: String,
    },
    /// The repository has no commit on HEAD.
    #[error("the git repository {} has no commits on its current branch", path.display())]
    NoCommits {
        /// The repository.
        path: PathBuf,
    },
    /// No commit has that name.
    #[error("the git repository {} has no revision {revision:?}", path.display())]
    UnknownRevision {
        /// The repository.
        path: PathBuf,
        /// The revision as given.
        revision: String,
        /// What there is, or what to do.
        hint: String,
    },
    /// The commit has no such folder.
    #[error("revision {revision} has no folder {folder:?}")]
    NoSuchFolder {
        /// The revision.
        revision: String,
        /// The folder from the root of the repository.
        folder: String,
    },
    /// The folder is not part of the repository.
    #[error(
        "revision {revision} has no folder {folder:?}: {submodule:?} is a submodule, which nodecfg does not read into"
    )]
    FolderInSubmodule {
        /// The revision.
        revision: String,
        /// The folder from the root of the repository.
        folder: String,
        /// The submodule.
        submodule: String,
    },
    /// A repository on a server cannot be read.
    #[error("cannot read {address}: {source}")]
    Remote {
        /// The address, as people may see it.
        address: String,
        /// Why.
        source: Box<RemoteError>,
    },
    /// The address of a repository cannot be used.
    #[error("{0}")]
    Address(#[from] AddressError),
    /// There are more files than nodecfg reads.
    #[error("{} holds too much: more than {files} YAML and JSON files, or more than {bytes} bytes of them", path.display())]
    TooLarge {
        /// The root.
        path: PathBuf,
        /// The bound on files.
        files: usize,
        /// The bound on bytes.
        bytes: u64,
    },
    /// The repository belongs to somebody else, and git therefore does not trust it.
    #[error("git does not trust the repository at {}, which belongs to another user", path.display())]
    NotTrusted {
        /// The repository.
        path: PathBuf,
    },
    /// Signed commits were asked for where files need not be committed.
    #[error("cannot verify who signed {}: {}", path.display(), if *worktree { "--worktree reads files that need not be committed" } else { "it is in no git repository" })]
    NothingSigned {
        /// The path as given.
        path: PathBuf,
        /// Whether the working tree was asked for.
        worktree: bool,
    },
    /// The commit is not signed by an allowed signer.
    #[error("commit {commit} of {} is refused: {why}", path.display())]
    Unverified {
        /// The repository.
        path: PathBuf,
        /// The commit, shortened.
        commit: String,
        /// Why.
        why: Box<Unverified>,
    },
    /// Git could not read the repository.
    #[error("cannot {operation} in the git repository {}: {}", path.display(), source.message())]
    Git {
        /// What was tried.
        operation: &'static str,
        /// The repository.
        path: PathBuf,
        /// What git says.
        source: git2::Error,
    },
}

impl RepositoryError {
    /// The way out.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable { .. } => "check the path and its permissions".to_owned(),
            Self::NotAFolder { .. } => "name the folder that holds nodecfg.yaml or pools/".to_owned(),
            Self::NotARepository { .. } => "leave out --rev to read the folder as it is".to_owned(),
            Self::NoHistory { .. } => "name a clone of the repository".to_owned(),
            Self::RevisionOfWorktree { .. } => "leave out --rev or --worktree".to_owned(),
            Self::NoCommits { .. } => "commit something, name a branch with --rev, or pass --worktree".to_owned(),
            Self::UnknownRevision { hint, .. } => hint.clone(),
            Self::NoSuchFolder { .. } => {
                "commit it, choose another with --rev, or pass --worktree to read uncommitted files".to_owned()
            }
            Self::FolderInSubmodule { submodule, .. } => {
                format!("name the repository of the submodule {submodule} itself")
            }
            Self::Remote { source, .. } => source.help(),
            Self::Address(error) => error.help().to_owned(),
            Self::TooLarge { .. } => {
                "name the folder that holds the configuration, with --path when it is within a repository".to_owned()
            }
            Self::NotTrusted { path } => format!("run: git config --global --add safe.directory {}", path.display()),
            Self::NothingSigned { worktree: true, .. } => "leave out --worktree or --verify-commits".to_owned(),
            Self::NothingSigned { .. } => "name a git repository, or leave out --verify-commits".to_owned(),
            Self::Unverified { why, .. } => why.help().to_owned(),
            Self::Git { .. } => "check the repository with git fsck".to_owned(),
        }
    }
}
