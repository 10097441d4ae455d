//! Why a repository cannot be read at all. What is wrong with a single file of it is a finding.

use std::path::PathBuf;

/// A repository could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The path cannot be reached.
    #[error("cannot read {}: {source}; check the path and its permissions", path.display())]
    Unreadable {
        /// The path as given, or the file below it.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The path is a file.
    #[error("{} is not a folder; name the folder that holds nodecfg.yaml or pools/", path.display())]
    NotAFolder {
        /// The path as given.
        path: PathBuf,
    },
    /// A revision was asked for outside of git.
    #[error("cannot read revision {revision:?} of {}: it is in no git repository; leave out --rev to read the folder as it is", path.display())]
    NotARepository {
        /// The path as given.
        path: PathBuf,
        /// The revision as given.
        revision: String,
    },
    /// Both a revision and the working tree were asked for.
    #[error("cannot read both revision {revision:?} and the working tree; leave out --rev or --worktree")]
    RevisionOfWorktree {
        /// The revision as given.
        revision: String,
    },
    /// The repository has no commit on HEAD.
    #[error("the git repository {} has no commits on its current branch; commit something, name a branch with --rev, or pass --worktree", path.display())]
    NoCommits {
        /// The repository.
        path: PathBuf,
    },
    /// No commit has that name.
    #[error("the git repository {} has no revision {revision:?}; {hint}", path.display())]
    UnknownRevision {
        /// The repository.
        path: PathBuf,
        /// The revision as given.
        revision: String,
        /// What there is, or what to do.
        hint: String,
    },
    /// The commit has no such folder.
    #[error(
        "revision {revision} has no folder {folder:?}; commit it, choose another with --rev, or pass --worktree to read uncommitted files"
    )]
    NoSuchFolder {
        /// The revision.
        revision: String,
        /// The folder from the root of the repository.
        folder: String,
    },
    /// There are more files than nodecfg reads.
    #[error("{} holds too much: more than {files} YAML and JSON files, or more than {bytes} bytes of them; name the folder that holds the configuration", path.display())]
    TooLarge {
        /// The root.
        path: PathBuf,
        /// The bound on files.
        files: usize,
        /// The bound on bytes.
        bytes: u64,
    },
    /// The repository belongs to somebody else, and git therefore does not trust it.
    #[error("git does not trust the repository at {}, which belongs to another user; run: git config --global --add safe.directory {}", path.display(), path.display())]
    NotTrusted {
        /// The repository.
        path: PathBuf,
    },
    /// Git could not read the repository.
    #[error("cannot {operation} in the git repository {}: {}; check the repository with git fsck", path.display(), source.message())]
    Git {
        /// What was tried.
        operation: &'static str,
        /// The repository.
        path: PathBuf,
        /// What git says.
        source: git2::Error,
    },
}
