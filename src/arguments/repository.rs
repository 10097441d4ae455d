//! Arguments that select a repository and its revision, and the loading of that revision.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::Instrument as _;

use crate::arguments::git::{GitArgs, with_git};
use crate::arguments::signers::SignersArgs;
use crate::repository::signature::Signers;
use crate::repository::{Address, Folder, OpenOptions, RemoteAddress, RepositoryError, open, resolve};
use crate::telemetry::spans;
use crate::terminal::environment;
use crate::terminal::failure::CommandError;
use crate::terminal::github_actions;
use crate::terminal::status_area::StatusArea;
use crate::terminal::streams::Terminal;
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Strictness};
use nodecfg_contract::names::CommitId;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Built, Checks, Desired, Draft, FLEET_FILE, Kubelets, POOLS_FOLDER, build, draft};

/// Variable of the revision to read, unless an option selects one.
const REVISION: &str = "NODECFG_REV";

/// Arguments of all commands that read a repository: which revision of it, and how.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RevisionArgs {
    /// Read this branch, tag or commit instead of HEAD or $NODECFG_REV. Uncommitted changes are not read.
    #[arg(long, value_name = "REV", conflicts_with = "worktree")]
    rev: Option<String>,
    /// Read the working tree, including uncommitted changes.
    #[arg(long)]
    pub(crate) worktree: bool,
    /// Report as warnings what kubelets silently drop or misread: unknown fields, duplicate keys, ambiguous values.
    #[arg(long)]
    pub(crate) lenient: bool,
    #[command(flatten)]
    pub(crate) git: GitArgs,
    #[command(flatten)]
    pub(crate) signers: SignersArgs,
}

impl RevisionArgs {
    /// The revision to read: that of the command line, or of $NODECFG_REV unless the command line selects the working
    /// tree.
    pub(crate) fn rev(&self) -> Option<String> {
        self.rev.clone().or_else(|| if self.worktree { None } else { environment::text(REVISION) })
    }

    /// The given options without effect on anything but a repository. A variable is none: it holds for all commands of
    /// a pipeline.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let options = [
            ("--rev", self.rev.is_some()),
            ("--worktree", self.worktree),
            ("--lenient", self.lenient),
            ("--path", self.git.folder.is_some()),
            ("--verify-commits", self.signers.are_given()),
        ];
        options.into_iter().filter_map(|(option, is_given)| is_given.then_some(option))
    }

    /// These arguments for a folder or address.
    pub(crate) fn of(&self, path: &Path) -> RepositoryArgs {
        RepositoryArgs { path: Some(path.to_owned()), revision: self.clone() }
    }

    /// How nodecfg treats findings that kubelets ignore.
    pub(crate) fn gate(&self) -> Strictness {
        if self.lenient { Strictness::Lenient } else { Strictness::Strict }
    }
}

/// Arguments that select a repository. Commands that need none remove the default, and some make REPO the option `--repo`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RepositoryArgs {
    /// Read this repository, a folder or an address on a git server: https://host/path, ssh://user@host/path,
    /// user@host:path or file:///path.
    #[arg(id = "repository", value_name = "REPO", default_value = ".")]
    path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) revision: RevisionArgs,
}

/// Arguments of commands that use the repository in the current folder, if it has one.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(mut_arg("repository", |repository| repository.default_value(None)))]
pub(crate) struct LocalRepositoryArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Read no repository, also in the folder of one.
    #[arg(long, conflicts_with_all = ["repository", "rev", "worktree", "lenient", "folder", "verify_commits"])]
    no_repo: bool,
}

impl LocalRepositoryArgs {
    /// The repository that the command line names, or the one in this folder.
    ///
    /// # Errors
    /// An option reads a repository, and none is named or here.
    pub(crate) fn chosen(&self) -> Result<Option<RepositoryArgs>, CommandError> {
        if self.no_repo {
            return Ok(None);
        }
        if !self.is_named() && self.is_here() {
            return Ok(Some(self.repository.clone()));
        }
        self.repository.named()
    }

    /// Reports whether the command line names a repository.
    pub(crate) fn is_named(&self) -> bool {
        self.repository.is_named()
    }

    /// Reports whether the working folder, with `--path`, looks like a repository of nodecfg.
    fn is_here(&self) -> bool {
        let folder = self.repository.revision.git.folder.as_ref();
        let folder = Path::new(folder.map_or(".", |folder| folder.as_str()));
        folder.join(FLEET_FILE).is_file() || folder.join(POOLS_FOLDER).is_dir()
    }
}

/// A repository without errors.
pub(crate) struct Loaded {
    pub(crate) desired: Desired,
    pub(crate) snapshot: Snapshot,
    /// Warnings and notes.
    pub(crate) findings: Vec<Finding>,
    /// The arguments that name these files.
    pub(crate) arguments: RepositoryArgs,
}

impl Loaded {
    /// Records the fleet and the commit for metrics and traces.
    pub(crate) fn record(&self, terminal: &mut Terminal) {
        terminal.record.read(&self.desired.fleet, self.desired.commit.as_ref());
    }
}

impl RepositoryArgs {
    /// HEAD of this repository.
    pub(crate) fn of(path: &Path) -> Self {
        RevisionArgs::default().of(path)
    }

    /// The same repository at another revision.
    pub(crate) fn at(&self, revision: &str) -> Self {
        let revision = RevisionArgs { rev: Some(revision.to_owned()), worktree: false, ..self.revision.clone() };
        Self { revision, ..self.clone() }
    }

    /// The working tree of the same repository.
    pub(crate) fn at_worktree(self) -> Self {
        Self { revision: RevisionArgs { rev: None, worktree: true, ..self.revision }, ..self }
    }

    /// The folder or address.
    pub(crate) fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("."))
    }

    /// Reports whether the command line names a repository.
    pub(crate) fn is_named(&self) -> bool {
        self.path.is_some()
    }

    /// These arguments, if they name a repository.
    ///
    /// # Errors
    /// An option reads a repository, and none is named.
    fn named(&self) -> Result<Option<Self>, CommandError> {
        match (self.is_named(), self.revision.given().next()) {
            (true, _) => Ok(Some(self.clone())),
            (false, Some(option)) => Err(CommandError::usage(
                format!("{option} reads a repository, and none is named"),
                "name the folder or address of the repository",
            )),
            (false, None) => Ok(None),
        }
    }

    /// The address, if the repository is on a server.
    pub(crate) fn address(&self) -> Result<Option<RemoteAddress>, CommandError> {
        // An address is always UTF-8.
        let Some(text) = self.path().to_str() else { return Ok(None) };
        match Address::parse(text, Path::exists).map_err(RepositoryError::Address)? {
            Address::Local(_) => Ok(None),
            Address::Remote(address) => Ok(Some(address)),
        }
    }

    /// Whether the repository is on a git server.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.address(), Ok(Some(_)))
    }

    /// The files to read from a folder, without a signature check.
    fn local(&self) -> OpenOptions {
        OpenOptions {
            path: self.path().to_owned(),
            folder: self.revision.git.folder.clone().unwrap_or_default(),
            revision: self.rev(),
            worktree: self.revision.worktree,
            signers: None,
            checkout: github_actions::checkout(),
        }
    }

    /// Commit of the revision of a local repository. `None` if only reading the files tells it.
    pub(crate) async fn commit(&self) -> Result<Option<CommitId>, CommandError> {
        if self.address()?.is_some() {
            return Ok(None);
        }
        let options = self.local();
        with_git(move || resolve(&options)).await
    }

    /// Reads the files of the revision. One of the keys must have signed the commit.
    pub(crate) async fn snapshot(
        &self,
        signers: Option<Arc<Signers>>,
        progress: Option<&StatusArea>,
    ) -> Result<Snapshot, CommandError> {
        let Some(address) = self.address()? else {
            let options = OpenOptions { signers, ..self.local() };
            return with_git(move || open(&options)).await;
        };
        if self.revision.worktree {
            return Err(CommandError::usage(
                format!("--worktree reads files in a folder, and {address} is on a server"),
                "omit --worktree",
            ));
        }
        self.revision.git.fetch(address, self.rev(), signers, progress).await
    }

    /// Reads the files of the revision again. `None` if they are those of `last`, which are then not validated again.
    ///
    /// # Errors
    /// As [`load`](Self::load). The files may then differ from `last`.
    pub(crate) async fn reload(&self, last: Option<&Snapshot>) -> Result<Option<Loaded>, CommandError> {
        let snapshot = self.snapshot(self.revision.signers.read()?, None).await?;
        if last == Some(&snapshot) { Ok(None) } else { self.loaded(snapshot).map(Some) }
    }

    /// The folder that file paths in messages start from, or the address of a remote repository.
    pub(crate) fn root(&self) -> String {
        let folder = self.revision.git.folder.as_ref().map(Folder::as_str).unwrap_or_default();
        match self.address() {
            Ok(Some(address)) if folder.is_empty() => address.to_string(),
            Ok(Some(address)) => format!("{address}/{folder}"),
            _ if folder.is_empty() => self.path().to_string_lossy().into_owned(),
            _ => self.path().join(folder).to_string_lossy().into_owned(),
        }
    }

    /// The local clone whose history is read.
    pub(crate) fn history_options(&self) -> Result<OpenOptions, CommandError> {
        if let Some(address) = self.address()? {
            return Err(CommandError::usage(
                format!("history requires a clone, and {address} is on a server"),
                "clone the repository and name its folder",
            ));
        }
        if self.revision.worktree {
            return Err(CommandError::usage(
                "--worktree reads uncommitted files, which have no history",
                "omit --worktree",
            ));
        }
        Ok(self.local())
    }

    /// The revision to read, unless it is HEAD or the working tree.
    pub(crate) fn rev(&self) -> Option<String> {
        self.revision.rev()
    }

    /// How nodecfg treats findings that kubelets ignore.
    pub(crate) fn gate(&self) -> Strictness {
        self.revision.gate()
    }

    /// The arguments that name these files again. The revision is the given one: if a branch has moved, its files
    /// are others.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let RevisionArgs { worktree, git, .. } = &self.revision;
        let path = Some(self.path()).filter(|path| *path != Path::new("."));
        let mut words: Vec<String> = path.map(|path| path.to_string_lossy().into_owned()).into_iter().collect();
        words.extend(self.rev().into_iter().flat_map(|revision| ["--rev".to_owned(), revision]));
        words.extend(git.folder.iter().flat_map(|folder| ["--path".to_owned(), folder.as_str().to_owned()]));
        words.extend(worktree.then(|| "--worktree".to_owned()));
        words
    }

    /// The `nodecfg validate` command that reports the findings of these files for the kubelets `minors`.
    pub(crate) fn validate_command(&self, minors: &BTreeSet<Minor>) -> String {
        let mut words = vec!["nodecfg".to_owned(), "validate".to_owned()];
        words.extend(self.arguments());
        words.extend(self.revision.lenient.then(|| "--lenient".to_owned()));
        let command = quoted(words);
        if minors.is_empty() {
            return command;
        }
        let minors: Vec<String> = minors.iter().map(ToString::to_string).collect();
        format!("{command} --kubernetes-version {}", minors.join(","))
    }

    /// Reads the revision and builds its desired state. Any error finding fails, with all findings.
    pub(crate) async fn load(&self, terminal: &mut Terminal) -> Result<Loaded, CommandError> {
        let reading = async {
            let signers = self.revision.signers.read()?;
            self.loaded(self.snapshot(signers, terminal.progress()).await?)
        };
        reading.instrument(spans::stage("load")).await
    }

    /// Reads the repository that the command line names, if any.
    pub(crate) async fn load_named(&self, terminal: &mut Terminal) -> Result<Option<Loaded>, CommandError> {
        let Some(repository) = self.named()? else { return Ok(None) };
        let loaded = repository.load(terminal).await?;
        loaded.record(terminal);
        Ok(Some(loaded))
    }

    /// The files of the revision, and their valid part. One of the keys must have signed the commit.
    pub(crate) async fn draft(
        &self,
        signers: Option<Arc<Signers>>,
        terminal: &mut Terminal,
    ) -> Result<(Snapshot, Draft), CommandError> {
        let snapshot = self.snapshot(signers, terminal.progress()).instrument(spans::stage("load")).await?;
        let draft = draft(&snapshot, self.gate());
        Ok((snapshot, draft))
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

/// REPO of a command that needs no repository. `help` states its use.
pub(crate) fn optional(repository: clap::Arg, help: &str) -> clap::Arg {
    let help = format!("{help}: a folder in a git repository, or an address on a git server");
    repository.default_value(None).help(help)
}

/// The words as a command for a shell.
pub(crate) fn quoted(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<String> = words.into_iter().collect();
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// Parses a supported Kubernetes version: `1.36`, `v1.36.2`.
pub(crate) fn parse_kubernetes_version(text: &str) -> Result<Minor, String> {
    Minor::parse_known(text.trim())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Args as _;

    use super::*;
    use crate::commands::command_line::declared;

    #[test]
    fn all_commands_that_read_a_repository_have_the_same_options() {
        let shared = RevisionArgs::augment_args(clap::Command::new("shared"));
        let shared: BTreeSet<&str> = shared.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert!(shared.contains("rev") && shared.contains("verify-commits"), "{shared:?}");
        let is_repository = |argument: &&clap::Arg| {
            argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "REPO"))
        };
        let mut readers = Vec::new();
        for command in declared().get_subcommands() {
            let options: BTreeSet<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            if command.get_arguments().find(is_repository).is_some() || !options.is_disjoint(&shared) {
                assert!(options.is_superset(&shared), "{}: {options:?}", command.get_name());
                readers.push(command.get_name().to_owned());
            }
        }
        for command in ["validate", "sync", "status", "doctor", "prune", "reset", "release", "capture", "sandbox"] {
            assert!(readers.iter().any(|reader| reader == command), "{command}: {readers:?}");
        }
    }
}
