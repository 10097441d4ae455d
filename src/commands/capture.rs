//! `nodecfg capture`: reads the configuration that nodes run and writes it as repository files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::{ClusterArgs, label_keys};
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::unknown_name::{unknown_name, unknown_node};
use crate::atomic_file::{Readers, replace};
use crate::capture::{
    Common, NodeConfiguration, captured_pool, common, kubelet_file, names, remarks, schema_of, to_yaml,
    with_schema_line, without_defaults,
};
use crate::report;
use crate::report::capture::{Capture, Failed};
use crate::report::{Format, findings};
use kubelet_config::Minor;
use nodecfg_cluster::{CONFIGZ_PATIENCE, ClusterError, ClusterReader, LabelKeys, Operation, Resource, Verb};
use nodecfg_contract::json_document::Document;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::POOLS_FOLDER;
use nodecfg_fleet::formats::parse_selector;
use nodecfg_observed::{Node, Readiness};
use nodecfg_plan::membership;

/// Capture the configuration that nodes run, as files of a repository.
///
/// Reads configz of the kubelets through the node proxy of the API server. This needs the right to get nodes/proxy,
/// which the role nodecfg-capture in deploy/capture grants. For a field that differs between nodes, the most frequent
/// value is taken, and the others are printed on standard error. Changes nothing in the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("repository", |repository| repository.default_value(None).long("repo").display_order(2).requires("pool").help(
    "Take the node selector of --pool from this repository: a folder in a git repository, or an address on a git server"
)))]
pub(super) struct Args {
    /// Capture these nodes.
    #[arg(value_name = "NODE", required_unless_present_any = ["pool", "selector"])]
    nodes: Vec<NodeName>,
    /// Capture nodes of this pool: labeled nodecfg.dev/pool=POOL or, with --repo, selected by the pool in the
    /// repository.
    #[arg(long, value_name = "POOL", conflicts_with_all = ["nodes", "selector"])]
    pool: Option<PoolName>,
    /// Capture nodes that match this label selector, in the syntax of kubectl.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector, conflicts_with = "nodes")]
    selector: Option<LabelSelector>,
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Capture at most N nodes of a pool or selector: Ready nodes first, then by name.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "all_nodes")]
    at_most: u32,
    /// Capture all nodes of the pool or selector.
    #[arg(long)]
    all_nodes: bool,
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

/// The nodes to capture, and the number of nodes that were selected.
struct SelectedNodes {
    nodes: Vec<Node>,
    of: usize,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let selected = args.select(terminal).await?;
    let pool = args.write.as_ref().map(|_| args.pool_to_write(&selected.nodes)).transpose()?;
    if let (Some(folder), Some(pool)) = (&args.write, &pool) {
        refuse_existing(folder, pool, args.force)?;
    }
    let reader = args.cluster.reader(LabelKeys::Only(BTreeSet::new())).await?;
    let (taken, errors) = capture_nodes(&reader, &selected.nodes, args.drop_defaults).await;
    let human = matches!(format, Format::Text | Format::Markdown);
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
        (Some(folder), Some(pool)) => write(folder, pool, text.clone(), args.pool.is_none() && args.into.is_some())?,
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
        Format::Text => capture.written.iter().try_for_each(|file| writeln!(out, "wrote {file}")),
        Format::Markdown => capture.markdown(out),
        Format::Json => report::json(out, &Document::value(capture)?),
        Format::Yaml => report::yaml(out, &Document::value(capture)?),
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

/// Reads the configuration that the kubelets of the nodes run.
pub(super) async fn capture_nodes(
    reader: &ClusterReader,
    nodes: &[Node],
    drop_defaults: bool,
) -> (Vec<NodeConfiguration>, Vec<(NodeName, ClusterError)>) {
    let minors: BTreeMap<&NodeName, Option<Minor>> = nodes
        .iter()
        .map(|node| {
            (&node.name, node.kubelet_version.map(|version| Minor(version.minor)).filter(|minor| minor.is_known()))
        })
        .collect();
    let (mut taken, mut errors) = (Vec::new(), Vec::new());
    for (node, answer) in reader.configz_of(nodes.iter().map(|node| &node.name), CONFIGZ_PATIENCE).await {
        match answer {
            Ok(configuration) => {
                let mut one = NodeConfiguration::of(node.clone(), minors.get(&node).copied().flatten(), configuration);
                match (drop_defaults, one.minor) {
                    (true, Some(minor)) => one.configuration = without_defaults(&one.configuration, minor),
                    (true, None) => {
                        tracing::warn!("the kubelet defaults of node {node} are unknown; none is omitted")
                    }
                    (false, _) => {}
                }
                match to_yaml(&one.configuration) {
                    Some(_) => taken.push(one),
                    None => errors.push((node.clone(), too_large(&node))),
                }
            }
            Err(error) => errors.push((node, error)),
        }
    }
    (taken, errors)
}

/// Error for a configuration that exceeds the limits of a kubelet.yaml.
fn too_large(node: &NodeName) -> ClusterError {
    let operation = Box::new(Operation::on(Verb::Get, Resource::Configz, None, node.as_str()));
    let message = "the configuration exceeds the limits of a kubelet.yaml in size or depth".to_owned();
    ClusterError::Unexpected { operation, message }
}

impl Args {
    async fn select(&self, terminal: &mut Terminal) -> Result<SelectedNodes, CommandError> {
        let labels = LabelKeys::Only(BTreeSet::from([POOL_LABEL.to_owned()]));
        if let (Some(loaded), Some(pool)) = (self.repository.load_named(terminal).await?, &self.pool) {
            if !loaded.desired.pools.contains_key(pool) {
                let known = loaded.desired.pools.keys().map(PoolName::as_str);
                return Err(unknown_pool(
                    pool,
                    &format!("in the repository {}", loaded.arguments.path().display()),
                    known,
                ));
            }
            let reader = self.cluster.reader(label_keys(&loaded.desired)).await?;
            let (all, _) = reader.list_nodes().await?;
            let members = membership(&loaded.desired, &all);
            let nodes = members.pools.get(pool).into_iter().flatten().map(|node| (*node).clone()).collect();
            return self.limit(nodes, &format!("pool {pool} has no nodes"), "check nodeSelector in its pool.yaml");
        }
        let reader = self.cluster.reader(labels).await?;
        if let Some(pool) = &self.pool {
            let nodes = reader.nodes_labelled(&format!("{POOL_LABEL}={pool}")).await?;
            if nodes.is_empty() {
                let all = reader.list_nodes().await?.0;
                let pools: BTreeSet<&str> =
                    all.values().filter_map(|node| Some(node.labels.get(POOL_LABEL)?.as_str())).collect();
                return Err(unknown_pool(pool, &format!("in the labels {POOL_LABEL} of the nodes"), pools));
            }
            return self.limit(nodes, "no node is labeled", "name the nodes to capture");
        }
        if let Some(selector) = &self.selector {
            let nodes = reader.nodes_labelled(&selector.to_string()).await?;
            return self.limit(
                nodes,
                &format!("no node matches the selector {selector}"),
                "list the labels with kubectl get nodes --show-labels",
            );
        }
        let wanted: BTreeSet<&NodeName> = self.nodes.iter().collect();
        let mut nodes = Vec::new();
        for name in wanted {
            match reader.node(name).await? {
                Some(node) => nodes.push(node),
                None => return Err(unknown_node(&reader, name).await),
            }
        }
        let of = nodes.len();
        Ok(SelectedNodes { nodes, of })
    }

    /// The nodes to capture: Ready nodes first, at most `at_most`.
    fn limit(&self, mut nodes: Vec<Node>, none: &str, help: &str) -> Result<SelectedNodes, CommandError> {
        if nodes.is_empty() {
            return Err(CommandError::usage(none, help));
        }
        let of = nodes.len();
        nodes.sort_by(|a, b| (a.ready != Readiness::Ready, &a.name).cmp(&(b.ready != Readiness::Ready, &b.name)));
        if !self.all_nodes {
            nodes.truncate(usize::try_from(self.at_most).unwrap_or(usize::MAX));
        }
        Ok(SelectedNodes { nodes, of })
    }

    fn pool_to_write(&self, nodes: &[Node]) -> Result<PoolName, CommandError> {
        if let Some(pool) = self.into.as_ref().or(self.pool.as_ref()) {
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

fn unknown_pool<'k>(pool: &PoolName, place: &str, known: impl IntoIterator<Item = &'k str>) -> CommandError {
    let help = "list the pools with kubectl get nodes -L nodecfg.dev/pool";
    unknown_name("pool", pool.as_str(), place, known, help)
}

fn refuse_existing(folder: &Path, pool: &PoolName, force: bool) -> Result<(), CommandError> {
    let path = folder.join(POOLS_FOLDER).join(pool.as_str()).join("kubelet.yaml");
    if !force && path.exists() {
        return Err(CommandError::usage(format!("{} already exists", path.display()), "pass --force to replace it"));
    }
    Ok(())
}

fn write(folder: &Path, pool: &PoolName, text: String, named: bool) -> Result<Vec<String>, CommandError> {
    let pool_folder = folder.join(POOLS_FOLDER).join(pool.as_str());
    let write_error = |path: &Path, error: io::Error| {
        CommandError::usage(
            format!("cannot write {}: {error}", path.display()),
            "check that the folder is writable and the disk has space",
        )
    };
    std::fs::create_dir_all(&pool_folder).map_err(|error| write_error(&pool_folder, error))?;
    let mut files = vec![("kubelet.yaml", text)];
    if !pool_folder.join("pool.yaml").exists() {
        files.insert(0, ("pool.yaml", captured_pool(pool, named)));
    }
    let mut written = Vec::new();
    for (name, text) in files {
        let path = pool_folder.join(name);
        let in_repository = format!("pools/{pool}/{name}");
        let has_schema = schema_of(&in_repository).is_some_and(|schema| folder.join(schema).is_file());
        let text = if has_schema { with_schema_line(&in_repository, &text) } else { text };
        replace(&path, text.as_bytes(), Readers::AsUsual).map_err(|error| write_error(&path, error))?;
        written.push(path.display().to_string());
    }
    Ok(written)
}
