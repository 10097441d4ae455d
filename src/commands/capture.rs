//! `nodecfg capture`: reads the configuration that nodes run and writes it as repository files.

use std::collections::BTreeSet;
use std::io;
use std::io::Write;
use std::path::PathBuf;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::ClusterArgs;
use crate::arguments::repository::optional;
use crate::capture::running::{CapturedNodesArgs, SelectedNodes, capture_nodes, too_large};
use crate::capture::write_files::{refuse_pool, write_pool};
use crate::capture::{Common, common, kubelet_file, names, remarks};
use crate::report;
use crate::report::capture::{Capture, Failed};
use crate::report::{Format, findings};
use nodecfg_cluster::ClusterError;
use nodecfg_contract::json_document::Document;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_observed::Node;

/// Capture the configuration that nodes run, as files of a repository.
///
/// Reads configz of the kubelets through the node proxy of the API server. This needs the right to get nodes/proxy,
/// which the role nodecfg-capture in deploy/capture grants. For a field that differs between nodes, the most frequent
/// value is taken, and the others are printed on standard error. Changes nothing in the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("repository", |repository| optional(
    repository, "Take the node selector of --pool from this repository"
).long("repo").display_order(2).requires("pool")))]
pub(super) struct Args {
    #[command(flatten)]
    nodes: CapturedNodesArgs,
    /// Omit values that equal the defaults of the kubelet's version.
    #[arg(long)]
    drop_defaults: bool,
    /// Write pools/POOL/kubelet.yaml in this folder. A missing pool.yaml is created with rollouts paused, for review.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Write this pool instead of that of --pool or of the label nodecfg.dev/pool.
    #[arg(long, value_name = "POOL", requires = "write")]
    into: Option<PoolName>,
    /// Replace an existing kubelet.yaml.
    #[arg(long, requires = "write")]
    force: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg capture node-1 > kubelet.yaml      write what one node runs, with all defaults
  nodecfg capture node-1 --drop-defaults     omit the defaults
  nodecfg capture --pool gpu                 merge ten nodes of a pool, and print differences
  nodecfg capture --pool gpu --drop-defaults --write .
                                             write the merge to pools/gpu/kubelet.yaml";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let selected = args.nodes.select(&args.cluster, terminal).await?;
    let pool = args.write.as_ref().map(|_| args.pool_to_write(&selected.nodes)).transpose()?;
    if let (Some(folder), Some(pool)) = (&args.write, &pool) {
        refuse_pool(folder, pool, args.force)?;
    }
    let (taken, errors) = capture_nodes(&selected.reader, &selected.nodes, args.drop_defaults).await;
    let human = format.is_for_people();
    if taken.is_empty() {
        return Err(CommandError::Nodes(errors.into_iter().map(|(_, error)| error).collect()));
    }
    let common = common(&taken);
    // Checked before writing, so that a file is never replaced by an empty one.
    let text = kubelet_file(&common, &heading(&common, &selected))
        .ok_or_else(|| CommandError::Nodes(common.nodes.iter().map(too_large).collect()))?;
    if human {
        for (_, error) in &errors {
            findings::message(&mut terminal.err, &error.to_string(), &error.help())?;
        }
        for line in remarks(&common, terminal.err_width.min(80)) {
            writeln!(terminal.err, "{line}")?;
        }
        if selected.of > common.nodes.len() {
            let (requested, of) = (selected.nodes.len(), selected.of);
            let more = if requested < of { "; --all-nodes captures all" } else { "" };
            writeln!(terminal.err, "captured {} of {of} nodes{more}", common.nodes.len())?;
        }
    }
    let written = match (&args.write, &pool) {
        (Some(folder), Some(pool)) => {
            write_pool(folder, pool, text.clone(), args.nodes.pool.is_none() && args.into.is_some())?
        }
        _ => Vec::new(),
    };
    let capture = Capture::of(&common, selected.of, errors.iter().map(failed).collect(), written);
    let printed = match format {
        Format::Text if capture.written.is_empty() => terminal.print_data(&text),
        _ => show(capture, format, &mut terminal.out),
    };
    Ok(terminal.end(if errors.is_empty() { Exit::Done } else { Exit::Cluster }, printed, &[]))
}

fn show(capture: Capture, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Markdown => capture.markdown(out),
        Format::Json => report::json(out, &Document::value(capture)?),
        Format::Yaml => report::yaml(out, &Document::value(capture)?),
        _ => capture.written.iter().try_for_each(|file| writeln!(out, "wrote {file}")),
    }
}

fn heading(common: &Common, selected: &SelectedNodes) -> String {
    match (common.nodes.len(), selected.of) {
        (1, 1) => format!("What {} runs.", names(&common.nodes)),
        (_, of) => format!("What {} run, of {of} nodes.", names(&common.nodes)),
    }
}

fn failed((node, error): &(NodeName, ClusterError)) -> Failed {
    Failed { node: node.clone(), code: error.code(), message: error.to_string(), help: error.help() }
}

impl Args {
    fn pool_to_write(&self, nodes: &[Node]) -> Result<PoolName, CommandError> {
        if let Some(pool) = self.into.as_ref().or(self.nodes.pool.as_ref()) {
            return Ok(pool.clone());
        }
        let labelled: BTreeSet<Option<&String>> = nodes.iter().map(|node| node.labels.get(POOL_LABEL)).collect();
        let only = labelled.first().filter(|_| labelled.len() == 1).copied().flatten();
        only.and_then(|name| PoolName::new(name.as_str()).ok()).ok_or_else(|| {
            CommandError::usage(
                format!("cannot derive the pool to write: the nodes do not share one value of the label {POOL_LABEL}"),
                "name the pool with --into",
            )
        })
    }
}
