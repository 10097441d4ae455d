//! Which repository, and which revision of it: the arguments that all commands share that read one.

use std::path::PathBuf;

use tracing::Instrument as _;

use super::failure::CommandError;
use super::git_args::{GitArgs, Which};
use super::signers_args::SignersArgs;
use super::terminal::Terminal;
use crate::repository::OpenOptions;
use crate::telemetry::spans;
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Strictness};
use nodecfg_planning::desired::{Built, Checks, Desired, Kubelets, build};
use nodecfg_planning::snapshot::Snapshot;

/// The repository to read.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RepositoryArgs {
    /// The repository: a folder in git or within it, https://host/path, ssh://user@host/path, user@host:path or file:///path.
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
    #[command(flatten)]
    pub(super) git: GitArgs,
    #[command(flatten)]
    pub(super) signers: SignersArgs,
}

/// A repository that was read and found good.
pub(super) struct Loaded {
    pub(super) desired: Desired,
    pub(super) snapshot: Snapshot,
    /// Warnings and notes.
    pub(super) findings: Vec<Finding>,
}

impl RepositoryArgs {
    /// What is at HEAD of this repository.
    pub(super) fn of(path: &std::path::Path) -> Self {
        Self {
            path: path.to_owned(),
            rev: None,
            worktree: false,
            lenient: false,
            git: GitArgs::default(),
            signers: SignersArgs::default(),
        }
    }

    /// Reads the files of the revision.
    async fn snapshot(&self, terminal: &mut Terminal) -> Result<Snapshot, CommandError> {
        Which { signers: self.signers.read()?, ..self.which() }.snapshot(terminal).await
    }

    /// Which files, whoever signed them.
    fn which(&self) -> Which<'_> {
        let (revision, worktree) = (self.rev.as_deref(), self.worktree);
        Which { repository: &self.path, revision, worktree, git: &self.git, signers: None }
    }

    /// The folder on this machine that files are named from; the address where there is none.
    pub(super) fn root(&self) -> String {
        self.which().root()
    }

    /// What to walk for its history: a clone on this machine.
    pub(super) fn history_options(&self) -> Result<OpenOptions, CommandError> {
        if let Some(address) = self.which().remote()? {
            return Err(CommandError::usage(
                format!("the history of a pool is read from a clone, and {address} is on a server"),
                "clone it, and name the folder; `nodecfg rollback --to REV` needs no history",
            ));
        }
        if self.worktree {
            return Err(CommandError::usage(
                "--worktree is about files that need not be committed, and a history is made of commits",
                "leave it out",
            ));
        }
        Ok(OpenOptions {
            path: self.path.clone(),
            folder: self.git.folder.clone().unwrap_or_default(),
            revision: self.rev.clone(),
            worktree: false,
            signers: None,
        })
    }

    /// How strict nodecfg is beyond the kubelet.
    pub(super) fn gate(&self) -> Strictness {
        if self.lenient { Strictness::Lenient } else { Strictness::Strict }
    }

    /// Reads the revision and builds what it asks for; any error finding is a failure that shows all findings.
    pub(super) async fn load(&self, terminal: &mut Terminal) -> Result<Loaded, CommandError> {
        let reading = async { self.loaded(self.snapshot(terminal).await?) };
        reading.instrument(spans::stage("load")).await
    }

    /// The same of another revision of the same folder, whoever signed it: it is compared with, not rolled out.
    pub(super) async fn load_revision(&self, revision: &str, terminal: &mut Terminal) -> Result<Loaded, CommandError> {
        let signers = SignersArgs::default();
        let other = Self { rev: Some(revision.to_owned()), worktree: false, signers, ..self.clone() };
        other.load(terminal).await
    }

    /// The files of another revision of the same folder, signed as this one must be: it is rolled out in its place.
    pub(super) async fn load_signed(&self, revision: &str, terminal: &mut Terminal) -> Result<Snapshot, CommandError> {
        let other = Self { rev: Some(revision.to_owned()), worktree: false, ..self.clone() };
        other.snapshot(terminal).await
    }

    fn loaded(&self, snapshot: Snapshot) -> Result<Loaded, CommandError> {
        let Built { desired, findings, .. } =
            build(&snapshot, &Checks { gate: self.gate(), kubelets: Kubelets::OfNodes });
        match desired {
            Some(desired) => Ok(Loaded { desired, snapshot, findings }),
            None => Err(CommandError::Invalid { findings, snapshot: Box::new(snapshot) }),
        }
    }
}

/// A Kubernetes version that configurations can be checked for: `1.36`, `v1.36.2`.
pub(super) fn parse_kubernetes_version(text: &str) -> Result<Minor, String> {
    Minor::parse_known(text.trim())
}
