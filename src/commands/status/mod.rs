//! `nodecfg status`: prints the state of all pools and nodes.

use std::collections::BTreeSet;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::{BoundClusterArgs, label_keys};
use crate::arguments::output::require_page_or_document;
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::{Loaded, LocalRepositoryArgs, RepositoryArgs};
use crate::arguments::scope::{no_match, with_keys_of};
use crate::arguments::selector::parse_selector;
use crate::arguments::unknown_name::unknown_name;
use crate::report::document::terminal::Layout;
use crate::report::{Format, count, progress, status as shown};
use crate::runs::comparison::side;
use crate::runs::emit::Shown;
use crate::runs::planning::Allowances;
use crate::runs::run as runs;
use crate::status::Selection;
use kubelet_config::finding::Severity;
use nodecfg_cluster::{ClusterReader, LabelKeys};
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::{NamespaceName, NodeName, PoolName};

mod revisions;
mod screen;
mod view;
mod watch;

use view::View;

/// Show the state of all pools and nodes, worst first.
///
/// Compares nodes with the repository REPO, or with the one in this folder. Without a repository, a node belongs to the
/// pool of its ConfigMap and is compared with its assignment; ConfigMaps are read from all namespaces that nodes point
/// at, or from --namespace only. Exits with 0 for any state; use `nodecfg verify` to check it.
#[derive(Debug, clap::Args)]
#[command(mut_arg("repository", |repository| repository.help(
    "Compare with this repository: a folder in a git repository, or an address on a git server. Default: this folder, \
     if it has a nodecfg.yaml or pools"
)))]
#[command(mut_arg("no_repo", |no_repo| no_repo.help(
    "Compare each node with its assignment, also in the folder of a repository"
)))]
pub(super) struct Args {
    #[command(flatten)]
    repository: LocalRepositoryArgs,
    /// Show only this pool. May be repeated.
    #[arg(long, value_name = "POOL")]
    pool: Vec<PoolName>,
    /// Show only this node. May be repeated.
    #[arg(long, value_name = "NODE")]
    node: Vec<NodeName>,
    /// Show only nodes that match this label selector, in the syntax of kubectl: `zone=a,!gpu`. With --pool or --node,
    /// nodes must meet both.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector)]
    selector: Option<LabelSelector>,
    /// Show every pool and node. Default: large clusters are summarized, with their worst nodes.
    #[arg(short, long)]
    all: bool,
    /// Keep running and show changes until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    if args.watch {
        if matches!(format, Format::Wide | Format::Name) {
            return Err(CommandError::usage("--watch writes text or json", "use -o text or -o json"));
        }
        runs::require_stream_format(format)?;
    }
    args.create_reports()?;
    let repository = args.repository.chosen()?;
    let loaded = match &repository {
        Some(repository) => args.load(repository, terminal).await?,
        None => None,
    };
    if let Some(loaded) = &loaded {
        loaded.record(terminal);
    }
    let reader = args.connect(loaded.as_ref()).await?;
    // Printed before the first request, because the server may not answer.
    if loaded.is_none() && format.is_for_people() {
        writeln!(terminal.info(), "{}\n", progress::place(args.bound.cluster.named_namespace(), reader.server()))?;
    }
    let (reader, namespace) = args.bind(reader, loaded.as_ref()).await?;
    if let Some((loaded, namespace)) = loaded.as_ref().zip(namespace.as_ref()) {
        runs::print_header(&runs::header(loaded, namespace, reader.server()), format, None, terminal)?;
    }
    let desired = loaded.as_ref().map(|loaded| loaded.desired.clone());
    let view = View::open(reader, desired, namespace.clone()).await?;
    let selection = Selection {
        pools: args.pool.iter().cloned().collect(),
        nodes: args.node.iter().cloned().collect(),
        labels: args.selector.clone(),
    };
    let status = view.status(nodecfg_clock::now());
    if let Some((kind, name, known)) = selection.unknown(&status) {
        let help = format!("list every {kind} with `nodecfg status --all`");
        let place = if loaded.is_some() { "in the repository or the cluster" } else { "in the cluster" };
        return Err(unknown_name(kind, name, place, known, &help));
    }
    let status = view.selected(&selection, status);
    if let Some(labels) = selection.labels.as_ref().filter(|_| status.nodes.is_empty()) {
        return Err(no_match(if selection.has_names() { " of --pool or --node" } else { "" }, labels));
    }
    if args.watch {
        let watched =
            watch::Watched { args, selection: &selection, repository: repository.as_ref().zip(loaded), format };
        return watched.run(view, status, terminal).await;
    }
    // Text and documents have the status only.
    let shows_plan = [Format::Markdown, Format::Html].into_iter().any(|it| format == it || args.reports.contains(it));
    let review = match (&repository, &loaded, &namespace) {
        (Some(repository), Some(loaded), Some(namespace)) if shows_plan => {
            let options = Allowances::default().options(namespace.clone(), repository.gate());
            view.review(side(repository, loaded), &options).await
        }
        _ => None,
    };
    let shown = Shown {
        body: shown::body(&status),
        report: shown::whole(&status, view.server(), review),
        printed: layout(terminal.out_line, args.all),
        in_file: layout(usize::MAX, true),
        most: None,
    };
    Ok(shown.emit(format, &args.reports, Exit::Done, terminal))
}

/// The layout of a status as text.
fn layout(width: usize, all: bool) -> Layout {
    Layout { width, all, all_option: "--all" }
}

impl Args {
    /// Reads the repository. An invalid one that was not named leaves a warning, because the state of the cluster does
    /// not depend on it.
    async fn load(&self, chosen: &RepositoryArgs, terminal: &mut Terminal) -> Result<Option<Loaded>, CommandError> {
        match chosen.load(terminal).await {
            Ok(loaded) => Ok(Some(loaded)),
            Err(CommandError::Invalid { findings, .. }) if !self.repository.is_named() => {
                let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
                let validate = chosen.validate_command(&BTreeSet::new());
                writeln!(
                    terminal.err,
                    "warning: the repository in this folder is invalid ({}), so nodes are compared with their\n\
                     assignments; `{validate}` lists the errors",
                    count(errors, "error")
                )?;
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// A reader of the labels that the pools of a revision and the command line select by.
    async fn connect(&self, loaded: Option<&Loaded>) -> Result<ClusterReader, CommandError> {
        let keys = loaded.map_or(LabelKeys::Only(BTreeSet::new()), |loaded| label_keys(&loaded.desired));
        self.bound.cluster.reader(with_keys_of(self.selector.as_ref(), keys)).await
    }

    /// Finds out the binding, and the namespace of the ConfigMaps that a revision is compared with.
    async fn bind(
        &self,
        reader: ClusterReader,
        loaded: Option<&Loaded>,
    ) -> Result<(ClusterReader, Option<NamespaceName>), CommandError> {
        let reader = self.bound.binding.bind(reader).await?;
        let namespace = match loaded {
            Some(Loaded { desired, .. }) => Some(self.bound.cluster.namespace(desired, &reader)?),
            None => self.bound.cluster.named_namespace().cloned(),
        };
        Ok((reader, namespace))
    }

    fn create_reports(&self) -> Result<(), CommandError> {
        self.reports.create(|output| match output {
            _ if self.watch => Err(CommandError::usage("--report cannot be combined with --watch", "omit --watch")),
            format => require_page_or_document(format),
        })
    }
}
