//! Arguments that select a repository and its revision, and the loading of that revision.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tracing::Instrument as _;

use super::failure::CommandError;
use super::git_args::{GitArgs, SnapshotSource};
use super::signers_args::SignersArgs;
use super::status_area::StatusArea;
use super::terminal::Terminal;
use crate::repository::OpenOptions;
use crate::telemetry::spans;
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Strictness};
use nodecfg_contract::names::CommitId;
use nodecfg_planning::desired::{Built, Checks, Desired, Kubelets, build};
use nodecfg_planning::snapshot::Snapshot;

/// Arguments that select a repository.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct RepositoryArgs {
    /// Read this repository: a folder in a git repository, https://host/path, ssh://user@host/path, user@host:path or
    /// file:///path.
    #[arg(value_name = "REPO", default_value = ".")]
    pub(super) path: PathBuf,
    /// Read this branch, tag or commit instead of HEAD, without uncommitted changes.
    #[arg(long, value_name = "REV", env = "NODECFG_REV", conflicts_with = "worktree")]
    pub(super) rev: Option<String>,
    /// Read the working tree, including uncommitted changes.
    #[arg(long)]
    pub(super) worktree: bool,
    /// Report what kubelets silently drop or misread (unknown fields, duplicate keys, ambiguous values) as warnings
    /// instead of errors.
    #[arg(long)]
    pub(super) lenient: bool,
    #[command(flatten)]
    pub(super) git: GitArgs,
    #[command(flatten)]
    pub(super) signers: SignersArgs,
}

/// A repository without errors.
pub(super) struct Loaded {
    pub(super) desired: Desired,
    pub(super) snapshot: Snapshot,
    /// Warnings and notes.
    pub(super) findings: Vec<Finding>,
    /// The arguments that name these files.
    pub(super) arguments: RepositoryArgs,
}

impl Loaded {
    /// Records the fleet and the commit for metrics and traces.
    pub(super) fn record(&self, terminal: &mut Terminal) {
        terminal.record.read(&self.desired.fleet, self.desired.commit.as_ref());
    }
}

impl RepositoryArgs {
    /// HEAD of this repository.
    pub(super) fn of(path: &Path) -> Self {
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
    async fn snapshot(&self, progress: Option<&StatusArea>) -> Result<Snapshot, CommandError> {
        SnapshotSource { signers: self.signers.read()?, ..self.source() }.snapshot(progress).await
    }

    /// Commit of the revision of a local repository. `None` if only reading the files tells it.
    pub(super) async fn commit(&self) -> Result<Option<CommitId>, CommandError> {
        self.source().commit().await
    }

    /// Reads the files of the revision again. `None` if they are those of `last`, which are then not validated again.
    ///
    /// # Errors
    /// As [`load`](Self::load). The files may then differ from `last`.
    pub(super) async fn reload(&self, last: Option<&Snapshot>) -> Result<Option<Loaded>, CommandError> {
        let snapshot = self.snapshot(None).await?;
        if last == Some(&snapshot) { Ok(None) } else { self.loaded(snapshot).map(Some) }
    }

    /// Whether the repository is on a git server.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.source().remote(), Ok(Some(_)))
    }

    /// The files to read, without a signature check.
    fn source(&self) -> SnapshotSource<'_> {
        let (revision, worktree) = (self.rev.as_deref(), self.worktree);
        SnapshotSource { repository: &self.path, revision, worktree, git: &self.git, signers: None }
    }

    /// The folder that file paths in messages start from, or the address of a remote repository.
    pub(super) fn root(&self) -> String {
        self.source().root()
    }

    /// The local clone whose history is read.
    pub(super) fn history_options(&self) -> Result<OpenOptions, CommandError> {
        if let Some(address) = self.source().remote()? {
            return Err(CommandError::usage(
                format!("history requires a clone, and {address} is on a server"),
                "clone the repository and name its folder",
            ));
        }
        if self.worktree {
            return Err(CommandError::usage(
                "--worktree reads uncommitted files, which have no history",
                "omit --worktree",
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

    /// How nodecfg treats findings that kubelets ignore.
    pub(super) fn gate(&self) -> Strictness {
        if self.lenient { Strictness::Lenient } else { Strictness::Strict }
    }

    /// The arguments that name these files again. The revision is the given one: if a branch has moved, its files
    /// are others.
    pub(super) fn arguments(&self) -> Vec<String> {
        let path = Some(&self.path).filter(|path| *path != Path::new("."));
        let mut words: Vec<String> = path.map(|path| path.to_string_lossy().into_owned()).into_iter().collect();
        words.extend(self.rev.iter().flat_map(|revision| ["--rev".to_owned(), revision.clone()]));
        words.extend(self.git.folder.iter().flat_map(|folder| ["--path".to_owned(), folder.as_str().to_owned()]));
        words.extend(self.worktree.then(|| "--worktree".to_owned()));
        words
    }

    /// The `nodecfg validate` command that reports the findings of these files for the kubelets `minors`.
    pub(super) fn validate_command(&self, minors: &BTreeSet<Minor>) -> String {
        let mut words = vec!["nodecfg".to_owned(), "validate".to_owned()];
        words.extend(self.arguments());
        words.extend(self.lenient.then(|| "--lenient".to_owned()));
        let command =
            shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| "nodecfg validate".to_owned());
        if minors.is_empty() {
            return command;
        }
        let minors: Vec<String> = minors.iter().map(ToString::to_string).collect();
        format!("{command} --kubernetes-version {}", minors.join(","))
    }

    /// Reads the revision and builds its desired state. Any error finding fails, with all findings.
    pub(super) async fn load(&self, terminal: &mut Terminal) -> Result<Loaded, CommandError> {
        let reading = async { self.loaded(self.snapshot(terminal.progress()).await?) };
        reading.instrument(spans::stage("load")).await
    }

    /// Reads another revision of the same folder to compare with. Its signature is not checked.
    pub(super) async fn load_revision(&self, revision: &str, terminal: &mut Terminal) -> Result<Loaded, CommandError> {
        let signers = SignersArgs::default();
        let other = Self { rev: Some(revision.to_owned()), worktree: false, signers, ..self.clone() };
        other.load(terminal).await
    }

    /// Reads the files of another revision of the same folder to roll out. It must be signed like this one.
    pub(super) async fn load_signed(&self, revision: &str, terminal: &mut Terminal) -> Result<Snapshot, CommandError> {
        let other = Self { rev: Some(revision.to_owned()), worktree: false, ..self.clone() };
        other.snapshot(terminal.progress()).await
    }

    fn loaded(&self, snapshot: Snapshot) -> Result<Loaded, CommandError> {
        let Built { desired, findings, .. } =
            build(&snapshot, &Checks { gate: self.gate(), kubelets: Kubelets::OfNodes });
        match desired {
            Some(desired) => Ok(Loaded { desired, snapshot, findings, arguments: self.clone() }),
            None => Err(CommandError::Invalid { findings, snapshot: Box::new(snapshot) }),
        }
    }
}

/// Parses a supported Kubernetes version: `1.36`, `v1.36.2`.
pub(super) fn parse_kubernetes_version(text: &str) -> Result<Minor, String> {
    Minor::parse_known(text.trim())
}
