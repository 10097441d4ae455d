//! `nodecfg status`: how every pool and every node is.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use super::against::side;
use super::cluster_args::{BindingArgs, ClusterArgs, label_keys};
use super::git_args::GitArgs;
use super::observe::{Allowances, warn};
use super::output::Output;
use super::reports::ReportArgs;
use super::repository_args::{Loaded, RepositoryArgs};
use super::signers_args::SignersArgs;
use super::unknown::unknown;
use super::{CommandError, CommandResult, Exit, Terminal, run as runs, terminal};
use crate::report::progress;
use crate::report::status::{self as shown, Look};
use crate::report::{self, Format, html};
use crate::status::{FleetStatus, Selection};
use nodecfg_cluster::LabelKeys;
use nodecfg_contract::names::{NodeName, PoolName};

mod screen;
mod view;
mod watch;

use view::View;

/// Show how every pool and every node is: the worst first.
///
/// Needs no repository: a node's pool is then that of the ConfigMap it points at, and it is compared with what it points at.
/// ConfigMaps are looked for wherever nodes point at some, or in --namespace alone. With a repository, nodes are compared with what
/// that wants of them. Ends with 0 whatever it finds; `nodecfg verify` is the one that judges.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    repository: OptionalRepository,
    /// Only this pool. May be given several times.
    #[arg(long, value_name = "POOL")]
    pool: Vec<PoolName>,
    /// Only this node. May be given several times.
    #[arg(long, value_name = "NODE")]
    node: Vec<NodeName>,
    /// Show every pool and every node, however many. Otherwise large clusters are summed up, and their worst nodes shown.
    #[arg(short, long)]
    all: bool,
    /// Go on, and show what changes until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
}

/// A repository that need not be named.
#[derive(Debug, clap::Args)]
struct OptionalRepository {
    /// Compare with this repository: a folder in git or within it, or the address of one on a git server.
    #[arg(value_name = "REPO")]
    path: Option<PathBuf>,
    /// Branch, tag or commit to read, instead of HEAD or $NODECFG_REV. Uncommitted changes are never part of it.
    #[arg(long, value_name = "REV", conflicts_with = "worktree", requires = "path")]
    rev: Option<String>,
    /// Read the files as they lie in the folder, uncommitted changes included.
    #[arg(long, requires = "path")]
    worktree: bool,
    /// Only warn of what the kubelet would drop or misread without a word: unknown fields, duplicate keys, ambiguous values.
    #[arg(long, requires = "path")]
    lenient: bool,
    #[command(flatten)]
    git: GitArgs,
    #[command(flatten)]
    signers: SignersArgs,
}

impl OptionalRepository {
    /// As the other commands have it, if one is named.
    fn named(&self) -> Option<RepositoryArgs> {
        let from_environment = || std::env::var("NODECFG_REV").ok().filter(|rev| !rev.is_empty() && !self.worktree);
        Some(RepositoryArgs {
            path: self.path.clone()?,
            rev: self.rev.clone().or_else(from_environment),
            worktree: self.worktree,
            lenient: self.lenient,
            git: self.git.clone(),
            signers: self.signers.clone(),
        })
    }
}

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    if args.watch {
        runs::require_stream_format(format)?;
    }
    args.create_reports()?;
    let repository = args.repository.named();
    let loaded = match &repository {
        Some(repository) => Some(repository.load(terminal).await?),
        None => None,
    };
    if let Some(loaded) = &loaded {
        warn(loaded, verbose, terminal)?;
    }
    let keys = loaded.as_ref().map_or(LabelKeys::Only(BTreeSet::new()), |loaded| label_keys(&loaded.desired));
    let reader = args.cluster.reader(keys).await?;
    // Before anything is asked of a server that may not answer.
    if loaded.is_none() && format != Format::Json && format != Format::Yaml {
        writeln!(terminal.aside(), "{}\n", progress::place(args.cluster.named_namespace(), reader.server()))?;
    }
    let reader = args.binding.bind(reader).await?;
    let namespace = match &loaded {
        Some(Loaded { desired, .. }) => Some(args.cluster.namespace(desired, &reader)?),
        None => args.cluster.named_namespace().cloned(),
    };
    if let Some((loaded, namespace)) = loaded.as_ref().zip(namespace.as_ref()) {
        runs::open(&runs::scene(loaded, namespace, reader.server()), format, None, terminal)?;
    }
    let desired = loaded.as_ref().map(|loaded| &loaded.desired);
    let view = View::open(reader, desired, namespace.as_ref()).await?;
    let selection =
        Selection { pools: args.pool.iter().cloned().collect(), nodes: args.node.iter().cloned().collect() };
    let status = view.status(nodecfg_clock::now());
    if let Some((kind, name, known)) = selection.unknown(&status) {
        let way_out = format!("`nodecfg status` shows every {kind} that there is, with --all in a large cluster");
        let place = if loaded.is_some() { "in the repository or the cluster" } else { "in the cluster" };
        return Err(unknown(kind, name, place, known, &way_out));
    }
    let status = selection.of(status);
    if args.watch {
        return watch::watch(view, status, &selection, format, args.all, terminal).await;
    }
    let page = |status: &FleetStatus| {
        let review = match (&repository, &loaded, &namespace) {
            (Some(repository), Some(loaded), Some(namespace)) if args.reports.have(Output::Html) => {
                let options = Allowances::default().options(namespace.clone(), repository.gate());
                view.review(side(repository, loaded), &options)
            }
            _ => None,
        };
        html::of_status(status, view.server(), review)
    };
    args.reports.each(|output, out| match output {
        Output::Html => Ok(html::write(out, &page(&status))?),
        output => write(out, &status, output.format()?, true),
    })?;
    write(&mut terminal.out, &status, format, args.all)?;
    Ok(Exit::Done)
}

impl Args {
    fn create_reports(&self) -> Result<(), CommandError> {
        self.reports.create(|output| match output {
            _ if self.watch => Err(CommandError::usage(
                "--report writes what was seen at one moment, and --watch goes on",
                "leave one of them away; `nodecfg status --watch -o json` writes a line for each change",
            )),
            Output::Html => Ok(()),
            output => output.format().map(drop),
        })
    }
}

/// Writes the whole of it once.
fn write(out: &mut dyn Write, status: &FleetStatus, format: Format, all: bool) -> Result<(), CommandError> {
    match format {
        Format::Text => shown::text(out, status, Look { width: width(), all })?,
        Format::Markdown => shown::markdown(out, status, all)?,
        Format::Json => report::json(out, &shown::document(status)?)?,
        Format::Yaml => report::yaml(out, &shown::document(status)?)?,
    }
    Ok(())
}

/// What is no terminal gets lines that fit everywhere.
fn width() -> usize {
    terminal::out_size().map_or(80, |(columns, _)| columns.max(50))
}
