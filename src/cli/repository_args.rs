//! Which repository, and which revision of it: the arguments that all commands share that read one.

use std::path::PathBuf;

use super::failure::Failure;
use crate::desired::{Built, Checks, Desired, Kubelets, build};
use crate::finding::{Finding, Gate};
use crate::kubelet::Minor;
use crate::repository::{OpenOptions, Snapshot, open};

/// The repository to read.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RepositoryArgs {
    /// Folder of the configuration: a git repository, or a folder within one.
    #[arg(value_name = "REPO", default_value = ".")]
    pub(super) path: PathBuf,
    /// Branch, tag or commit to read, instead of HEAD. Uncommitted changes are never part of it.
    #[arg(long, value_name = "REV", env = "NODECFG_REV", conflicts_with = "worktree")]
    pub(super) rev: Option<String>,
    /// Read the files as they lie in the folder, uncommitted changes included.
    #[arg(long)]
    pub(super) worktree: bool,
    /// Only warn of what the kubelet would drop or misread without a word: unknown fields, duplicate keys, ambiguous values.
    #[arg(long)]
    pub(super) lenient: bool,
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
        open_repository(&options)
    }

    /// How strict nodecfg is beyond the kubelet.
    pub(super) fn gate(&self) -> Gate {
        if self.lenient { Gate::Lenient } else { Gate::Strict }
    }

    /// Reads the revision and builds what it asks for; any error finding is a failure that shows all findings.
    pub(super) fn load(&self) -> Result<Loaded, Failure> {
        let snapshot = self.snapshot()?;
        let Built { desired, findings, .. } =
            build(&snapshot, &Checks { gate: self.gate(), kubelets: Kubelets::OfNodes });
        match desired {
            Some(desired) => Ok(Loaded { desired, snapshot, findings }),
            None => Err(Failure::Invalid { findings, snapshot: Box::new(snapshot) }),
        }
    }
}

/// Reads the files of a revision.
pub(super) fn open_repository(options: &OpenOptions) -> Result<Snapshot, Failure> {
    open(options).map_err(|error| Failure::Repository(Box::new(error)))
}

/// A Kubernetes version that configurations can be checked for: `1.36`, `v1.36.2`.
pub(super) fn parse_kubernetes_version(text: &str) -> Result<Minor, String> {
    Minor::parse_known(text.trim())
}
