//! Errors of reading a repository. Problems of a single file are findings instead.

use std::io;
use std::path::{Path, PathBuf};

use super::remote_error::RemoteError;
use super::signature::Unverified;
use super::text::unusable;
use super::{AddressError, LinkError, SnapshotFile};
use nodecfg_contract::names::CommitId;

/// Error of opening or reading a repository.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The path is unreadable.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The path as given, or the file below it.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A link leads out of the repository around the path.
    #[error("{} {source}", path.display())]
    Refused {
        /// The path as given.
        path: PathBuf,
        /// The reason.
        source: OpenError,
    },
    /// The path is a file.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The path as given.
        path: PathBuf,
    },
    /// A revision of a folder outside of git.
    #[error("cannot read revision {revision:?} of {}: the folder is not in a git repository", path.display())]
    NotARepository {
        /// The path as given.
        path: PathBuf,
        /// The revision as given.
        revision: String,
    },
    /// The history of a folder outside of git.
    #[error("{} has no history: it is not in a git repository", path.display())]
    NoHistory {
        /// The path as given.
        path: PathBuf,
    },
    /// Both a revision and the working tree.
    #[error("cannot read both revision {revision:?} and the working tree")]
    RevisionOfWorktree {
        /// The revision as given.
        revision: String,
    },
    /// HEAD has no commit.
    #[error("the git repository {} has no commits on its current branch", path.display())]
    NoCommits {
        /// The repository.
        path: PathBuf,
    },
    /// Unknown revision.
    #[error("the git repository {} has no revision {revision:?}", path.display())]
    UnknownRevision {
        /// The repository.
        path: PathBuf,
        /// The revision as given.
        revision: String,
        /// The known revisions, or how to fix the error.
        hint: String,
    },
    /// The commit lacks the folder.
    #[error("revision {revision} has no folder {folder:?}")]
    NoSuchFolder {
        /// The revision.
        revision: String,
        /// The folder from the root of the repository.
        folder: String,
    },
    /// The folder is in a submodule.
    #[error("revision {revision} has no folder {folder:?}: {submodule:?} is a submodule, which nodecfg does not read")]
    FolderInSubmodule {
        /// The revision.
        revision: String,
        /// The folder from the root of the repository.
        folder: String,
        /// The submodule.
        submodule: String,
    },
    /// A repository on a git server is unreadable.
    #[error("cannot read {address}: {source}")]
    Remote {
        /// The address without secrets.
        address: String,
        /// The cause.
        source: Box<RemoteError>,
    },
    /// Invalid address.
    #[error("{0}")]
    Address(#[from] AddressError),
    /// Too many or too large files.
    #[error("{} is too large: it has more than {files} YAML and JSON files or more than {bytes} bytes", path.display())]
    TooLarge {
        /// The root.
        path: PathBuf,
        /// The maximum number of files.
        files: usize,
        /// The maximum number of bytes.
        bytes: u64,
    },
    /// Git does not trust a repository of another user.
    #[error("git does not trust the repository at {}, which belongs to another user", path.display())]
    NotTrusted {
        /// The repository.
        path: PathBuf,
    },
    /// The commit is not the merge commit of another one.
    #[error("commit {commit} of {} is not the merge commit of {}", path.display(), merged.short())]
    NotTheMerge {
        /// The repository.
        path: PathBuf,
        /// The commit, shortened.
        commit: String,
        /// The commit that must be its second parent.
        merged: CommitId,
    },
    /// The clone lacks the first parent of a merge commit.
    #[error("the shallow clone {} lacks {}, the first parent of the merge commit", path.display(), parent.short())]
    NoFirstParent {
        /// The repository.
        path: PathBuf,
        /// The first parent.
        parent: CommitId,
    },
    /// A bare repository among the files of a checkout.
    #[error("{} is a bare git repository inside the checkout {}; nodecfg reads only the checkout", path.display(), checkout.display())]
    EmbeddedRepository {
        /// The bare repository.
        path: PathBuf,
        /// The top folder of the checkout.
        checkout: PathBuf,
    },
    /// Signature verification of files that may be uncommitted.
    #[error("cannot verify the signature of {}: {}", path.display(), nothing_signed(*worktree))]
    NothingSigned {
        /// The path as given.
        path: PathBuf,
        /// Whether the working tree was requested.
        worktree: bool,
    },
    /// The commit is not signed by an allowed signer.
    #[error("commit {commit} of {} is refused: {why}", path.display())]
    Unverified {
        /// The repository.
        path: PathBuf,
        /// The commit, shortened.
        commit: String,
        /// The reason.
        why: Box<Unverified>,
    },
    /// Git cannot read the repository.
    #[error("cannot {operation} in the git repository {}: {}", path.display(), source.message())]
    Git {
        /// The failed operation.
        operation: &'static str,
        /// The repository.
        path: PathBuf,
        /// The libgit2 error.
        source: git2::Error,
    },
}

fn nothing_signed(worktree: bool) -> &'static str {
    if worktree { "--worktree reads uncommitted files" } else { "the folder is not in a git repository" }
}

impl RepositoryError {
    /// How to fix the error.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable { .. } => "check the path and its permissions".to_owned(),
            Self::Refused { source: OpenError::Link { problem: LinkError::Outside, .. }, .. } => {
                "copy the folder into the repository, or name the folder that the link leads to".to_owned()
            }
            Self::Refused { source, .. } => source.help().to_owned(),
            Self::NotAFolder { .. } => "specify the folder that contains nodecfg.yaml or pools/".to_owned(),
            Self::NotARepository { .. } => "omit --rev to read the folder".to_owned(),
            Self::NoHistory { .. } => "specify a clone of the repository".to_owned(),
            Self::RevisionOfWorktree { .. } => "omit --rev or --worktree".to_owned(),
            Self::NoCommits { .. } => "create a commit, specify a branch with --rev, or use --worktree".to_owned(),
            Self::UnknownRevision { hint, .. } => hint.clone(),
            Self::NoSuchFolder { .. } => {
                "commit it, choose another revision with --rev, or read uncommitted files with --worktree".to_owned()
            }
            Self::FolderInSubmodule { submodule, .. } => {
                format!("specify the repository of the submodule {submodule}")
            }
            Self::Remote { source, .. } => source.help(),
            Self::Address(error) => error.help().to_owned(),
            Self::TooLarge { .. } => {
                "specify the folder of the configuration; within a repository use --path".to_owned()
            }
            Self::NotTrusted { path } => format!("run: git config --global --add safe.directory {}", path.display()),
            Self::NotTheMerge { .. } => {
                "name the revision to compare with (--against), or check out the merge commit: in GitHub Actions omit \
                 `ref` of actions/checkout"
                    .to_owned()
            }
            Self::NoFirstParent { .. } => {
                "run `git fetch --deepen=1`; in GitHub Actions set `fetch-depth: 2` for actions/checkout".to_owned()
            }
            Self::EmbeddedRepository { .. } => "move the bare repository out of the checkout".to_owned(),
            Self::NothingSigned { worktree: true, .. } => "omit --worktree or --verify-commits".to_owned(),
            Self::NothingSigned { .. } => "specify a git repository, or omit --verify-commits".to_owned(),
            Self::Unverified { why, .. } => why.help().to_owned(),
            Self::Git { .. } => "check the repository with git fsck".to_owned(),
        }
    }
}

/// Reason why a path below a folder is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A symbolic link on the way that is not followed.
    #[error("leads through a symbolic link to {target:?}, {}", problem.text())]
    Link {
        /// The target of the link.
        target: String,
        /// Why it is not followed.
        problem: LinkError,
    },
    /// A folder where a file is expected.
    #[error("is a folder")]
    Folder,
    /// A file where a folder is expected.
    #[error("is not a folder")]
    NotAFolder,
    /// A device, a pipe or a socket.
    #[error("is neither a file nor a folder")]
    Special,
    /// The system cannot open the path.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for OpenError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Io(error) => error,
            error => Self::other(format!("it {error}")),
        }
    }
}

impl OpenError {
    /// How to fix the error.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Link { problem, .. } => problem.help(),
            Self::Folder => "name a file",
            Self::NotAFolder => "name a folder",
            Self::Special => "replace it with a file",
            Self::Io(_) => "check the path and its permissions",
        }
    }

    /// The error for a folder of a repository.
    pub(super) fn of(self, path: &Path) -> RepositoryError {
        match self {
            Self::Io(source) => RepositoryError::Unreadable { path: path.to_owned(), source },
            Self::Folder | Self::NotAFolder | Self::Special => RepositoryError::NotAFolder { path: path.to_owned() },
            Self::Link { .. } => RepositoryError::Refused { path: path.to_owned(), source: self },
        }
    }

    /// The file as an unusable one. Messages name it `name`.
    pub(super) fn unusable(&self, name: &str) -> SnapshotFile {
        let code = match self {
            Self::Link { .. } => "bad-link",
            Self::Folder | Self::NotAFolder | Self::Special => "not-a-file",
            Self::Io(_) => "unreadable-file",
        };
        unusable(name, code, format!("{name} {self}"), self.help())
    }
}
