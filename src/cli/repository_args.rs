//! Which repository, and which revision of it: the arguments that all commands share that read one.

use std::path::PathBuf;

use super::failure::Failure;
use crate::desired::{Built, Desired, build};
use crate::finding::Finding;
use crate::repository::{OpenOptions, Snapshot, open};

/// The repository to read.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RepositoryArgs {
    /// Directory of the configuration repository, or a folder within one.
    #[arg(value_name = "REPO", default_value = ".")]
    pub(super) path: PathBuf,
    /// Revision to read: a branch, tag or commit. Uncommitted changes are never part of it.
    #[arg(long, value_name = "REV", env = "NODECFG_REV", conflicts_with = "worktree")]
    pub(super) rev: Option<String>,
    /// Read the working tree as it is, uncommitted changes included.
    #[arg(long)]
    pub(super) worktree: bool,
}

/// A repository that was read and found good.
pub(super) struct Loaded {
    pub(super) desired: Desired,
    pub(super) snapshot: Snapshot,
    /// Warnings and notes.
    pub(super) findings: Vec<Finding>,
}

impl RepositoryArgs {
    /// Reads the files of the revision.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Failure> {
        let options = OpenOptions { path: self.path.clone(), revision: self.rev.clone(), worktree: self.worktree };
        open(&options).map_err(|error| Failure::Repository(Box::new(error)))
    }

    /// Reads the revision and builds what it asks for; any error finding is a failure that shows all findings.
    pub(super) fn load(&self) -> Result<Loaded, Failure> {
        let snapshot = self.snapshot()?;
        let Built { desired, findings } = build(&snapshot);
        match desired {
            Some(desired) => Ok(Loaded { desired, snapshot, findings }),
            None => Err(Failure::Invalid { findings, snapshot: Box::new(snapshot) }),
        }
    }
}

impl Loaded {
    /// The revision as people call it.
    pub(super) fn revision(&self) -> String {
        self.desired.commit.as_ref().map_or_else(|| "working tree".to_owned(), |commit| commit.short().to_owned())
    }
}
