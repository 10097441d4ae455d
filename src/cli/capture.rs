//! `nodecfg capture`: the configuration that nodes run, as files of a repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::cluster_args::{ClusterArgs, label_keys};
use super::repository_args::RepositoryArgs;
use super::unknown::unknown;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::capture::{Common, Taken, captured_pool, common, kubelet_file, names, remarks, to_yaml, without_defaults};
use crate::replaced_file::{Readers, replace};
use crate::report::capture::{Capture, Failed};
use crate::report::{self, Format, findings};
use kubelet_config::Minor;
use kubelet_config::spelling::nearest;
use nodecfg_cluster::{ClusterError, ClusterReader, LabelKeys, Operation, Resource, Verb};
use nodecfg_contract::json_document::Document;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::observed::POOL_LABEL;
use nodecfg_contract::observed::{Node, Readiness};
use nodecfg_planning::desired::{LabelSelector, parse_selector};
use nodecfg_planning::plan::membership;

/// Write down the configuration that nodes run, as files of a repository.
///
/// Asks the kubelets through the API server's node proxy (configz), which takes the right to get nodes/proxy: the role
/// nodecfg-capture of deploy/capture has it. Several nodes are compared: for a field that they do not share, the value that
/// most of them have is taken, and the others are shown on standard error. Changes nothing in the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Nodes to ask.
    #[arg(value_name = "NODE", required_unless_present_any = ["pool", "selector"])]
    nodes: Vec<NodeName>,
    /// Ask nodes of this pool: those labelled nodecfg.dev/pool=POOL or, with --repo, those that the repository gives it.
    #[arg(long, value_name = "POOL", conflicts_with_all = ["nodes", "selector"])]
    pool: Option<PoolName>,
    /// Ask nodes with these labels, as kubectl selects them.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector, conflicts_with = "nodes")]
    selector: Option<LabelSelector>,
    /// The repository whose pools are meant.
    #[arg(long, value_name = "REPO", requires = "pool")]
    repo: Option<PathBuf>,
    /// How many nodes of a pool or a selector to ask at most; those that are Ready first, by name.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "all_nodes")]
    at_most: u32,
    /// Ask all of them.
    #[arg(long)]
    all_nodes: bool,
    /// Leave out what the kubelet fills in by itself, by the defaults of its own version.
    #[arg(long)]
    drop_defaults: bool,
    /// Write pools/POOL/kubelet.yaml in this folder, and a pool.yaml where there is none: paused, so that nothing is rolled out
    /// before somebody has looked.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// The pool to write, instead of that of --pool or of the nodes' label nodecfg.dev/pool.
    #[arg(long, value_name = "POOL", requires = "write")]
    into: Option<PoolName>,
    /// Replace a kubelet.yaml that is there.
    #[arg(long, requires = "write")]
    force: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg capture node-1 > kubelet.yaml      what one node runs, with all defaults
  nodecfg capture node-1 --drop-defaults     without what the kubelet fills in
  nodecfg capture --pool gpu                 what ten nodes of a pool share, and where they differ
  nodecfg capture --pool gpu --drop-defaults --write .
                                             the same into pools/gpu/kubelet.yaml";

/// The nodes to ask, of how many, and what was meant.
struct Chosen {
    nodes: Vec<Node>,
    of: usize,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let chosen = args.choose(terminal).await?;
    let pool = args.write.as_ref().map(|_| args.pool_to_write(&chosen.nodes)).transpose()?;
    if let (Some(folder), Some(pool)) = (&args.write, &pool) {
        refuse_to_replace(folder, pool, args.force)?;
    }
    let reader = args.cluster.reader(LabelKeys::Only(BTreeSet::new())).await?;
    let (taken, errors) = take(&reader, &chosen.nodes, args.drop_defaults).await;
    let human = matches!(format, Format::Text | Format::Markdown);
    if taken.is_empty() {
        return Err(CommandError::Nodes(errors.into_iter().map(|(_, error)| error).collect()));
    }
    let common = common(&taken);
    // Before anything is written: a file is never replaced by none.
    let text = kubelet_file(&common, &heading(&common, &chosen))
        .ok_or_else(|| CommandError::Nodes(common.nodes.iter().map(beyond).collect()))?;
    if human {
        for (_, error) in &errors {
            findings::message(&mut terminal.err, &error.to_string(), &error.help())?;
        }
        for line in remarks(&common, terminal.err_width.min(80)) {
            writeln!(terminal.err, "{line}")?;
        }
        if chosen.of > common.nodes.len() {
            let (asked, of) = (chosen.nodes.len(), chosen.of);
            let more = if asked < of { "; --all-nodes asks all" } else { "" };
            writeln!(terminal.err, "{} of {of} nodes answered{more}", common.nodes.len())?;
        }
    }
    let written = match (&args.write, &pool) {
        (Some(folder), Some(pool)) => write(folder, pool, text.clone(), args.pool.is_none() && args.into.is_some())?,
        _ => Vec::new(),
    };
    show(&common, &chosen, &text, errors.iter().map(failed).collect(), written, format, terminal)?;
    Ok(if errors.is_empty() { Exit::Done } else { Exit::Cluster })
}

fn show(
    common: &Common,
    chosen: &Chosen,
    text: &str,
    failed: Vec<Failed>,
    written: Vec<String>,
    format: Format,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    let capture = Capture::of(common, chosen.of, failed, written);
    match format {
        Format::Text if capture.written.is_empty() => write!(terminal.out, "{text}")?,
        Format::Text => {
            for file in &capture.written {
                writeln!(terminal.out, "wrote {file}")?;
            }
        }
        Format::Markdown => capture.markdown(&mut terminal.out)?,
        Format::Json => report::json(&mut terminal.out, &Document::value(capture)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &Document::value(capture)?)?,
    }
    Ok(())
}

fn heading(common: &Common, chosen: &Chosen) -> String {
    match (common.nodes.len(), chosen.of) {
        (1, 1) => format!("What {} runs.", names(&common.nodes)),
        (_, of) => format!("What {} run, of {of} nodes.", names(&common.nodes)),
    }
}

fn failed((node, error): &(NodeName, ClusterError)) -> Failed {
    Failed { node: node.clone(), code: error.code(), message: error.to_string(), help: error.help() }
}

/// Asks the kubelets of nodes what they run.
pub(super) async fn take(
    reader: &ClusterReader,
    nodes: &[Node],
    drop_defaults: bool,
) -> (Vec<Taken>, Vec<(NodeName, ClusterError)>) {
    let minors: BTreeMap<&NodeName, Option<Minor>> = nodes
        .iter()
        .map(|node| {
            (&node.name, node.kubelet_version.map(|version| Minor(version.minor)).filter(|minor| minor.is_known()))
        })
        .collect();
    let (mut taken, mut errors) = (Vec::new(), Vec::new());
    for (node, answer) in reader.configz_of(nodes.iter().map(|node| &node.name)).await {
        match answer {
            Ok(configuration) => {
                let mut one = Taken::of(node.clone(), minors.get(&node).copied().flatten(), configuration);
                match (drop_defaults, one.minor) {
                    (true, Some(minor)) => one.configuration = without_defaults(&one.configuration, minor),
                    (true, None) => {
                        tracing::warn!("the defaults of node {node}'s kubelet are not known; none is left out")
                    }
                    (false, _) => {}
                }
                match to_yaml(&one.configuration) {
                    Some(_) => taken.push(one),
                    None => errors.push((node.clone(), beyond(&node))),
                }
            }
            Err(error) => errors.push((node, error)),
        }
    }
    (taken, errors)
}

/// What a kubelet says that it runs, and no file can hold.
fn beyond(node: &NodeName) -> ClusterError {
    let operation = Box::new(Operation::on(Verb::Get, Resource::Configz, None, node.as_str()));
    ClusterError::Unexpected { operation, message: "it is larger or deeper than a kubelet.yaml may be".to_owned() }
}

impl Args {
    async fn choose(&self, terminal: &mut Terminal) -> Result<Chosen, CommandError> {
        let labels = LabelKeys::Only(BTreeSet::from([POOL_LABEL.to_owned()]));
        if let (Some(path), Some(pool)) = (&self.repo, &self.pool) {
            let loaded = RepositoryArgs::of(path).load(terminal).await?;
            if !loaded.desired.pools.contains_key(pool) {
                let known = loaded.desired.pools.keys().map(PoolName::as_str);
                return Err(unknown_pool(pool, &format!("in the repository {}", path.display()), known));
            }
            let reader = self.cluster.reader(label_keys(&loaded.desired)).await?;
            let all: BTreeMap<NodeName, Node> =
                reader.list_nodes().await?.0.into_iter().map(|node| (node.name.clone(), node)).collect();
            let members = membership(&loaded.desired, &all);
            let nodes =
                members.pools.get(pool).into_iter().flatten().filter_map(|name| all.get(*name).cloned()).collect();
            return self.some_of(nodes, &format!("pool {pool} has no nodes"), "look at its nodeSelector in pool.yaml");
        }
        let reader = self.cluster.reader(labels).await?;
        if let Some(pool) = &self.pool {
            let nodes = reader.nodes_labelled(&format!("{POOL_LABEL}={pool}")).await?;
            if nodes.is_empty() {
                let all = reader.list_nodes().await?.0;
                let pools: BTreeSet<&str> =
                    all.iter().filter_map(|node| Some(node.labels.get(POOL_LABEL)?.as_str())).collect();
                return Err(unknown_pool(pool, &format!("among the labels {POOL_LABEL} of the nodes"), pools));
            }
            return self.some_of(nodes, "", "");
        }
        if let Some(selector) = &self.selector {
            let nodes = reader.nodes_labelled(&selector.to_string()).await?;
            return self.some_of(
                nodes,
                &format!("no node has the labels {selector}"),
                "see kubectl get nodes --show-labels",
            );
        }
        let wanted: BTreeSet<&NodeName> = self.nodes.iter().collect();
        let mut nodes = Vec::new();
        for name in wanted {
            match reader.node(name).await? {
                Some(node) => nodes.push(node),
                None => {
                    let all = reader.list_nodes().await?.0;
                    let near = nearest(name.as_str(), all.iter().map(|node| node.name.as_str()));
                    let help =
                        near.map_or_else(|| "see kubectl get nodes".to_owned(), |near| format!("did you mean {near}?"));
                    return Err(CommandError::UnknownNode { node: name.clone(), help });
                }
            }
        }
        let of = nodes.len();
        Ok(Chosen { nodes, of })
    }

    /// As many as are to be asked, those that are Ready first.
    fn some_of(&self, mut nodes: Vec<Node>, none: &str, help: &str) -> Result<Chosen, CommandError> {
        if nodes.is_empty() {
            return Err(CommandError::usage(none, help));
        }
        let of = nodes.len();
        nodes.sort_by(|a, b| (a.ready != Readiness::Ready, &a.name).cmp(&(b.ready != Readiness::Ready, &b.name)));
        if !self.all_nodes {
            nodes.truncate(usize::try_from(self.at_most).unwrap_or(usize::MAX));
        }
        Ok(Chosen { nodes, of })
    }

    fn pool_to_write(&self, nodes: &[Node]) -> Result<PoolName, CommandError> {
        if let Some(pool) = self.into.as_ref().or(self.pool.as_ref()) {
            return Ok(pool.clone());
        }
        let labelled: BTreeSet<Option<&String>> = nodes.iter().map(|node| node.labels.get(POOL_LABEL)).collect();
        let only = labelled.first().filter(|_| labelled.len() == 1).copied().flatten();
        only.and_then(|name| PoolName::new(name.as_str()).ok()).ok_or_else(|| {
            CommandError::usage(
                format!("which pool to write is not clear: the nodes have no label {POOL_LABEL} in common"),
                "name the pool with --into",
            )
        })
    }
}

fn unknown_pool<'k>(pool: &PoolName, place: &str, known: impl IntoIterator<Item = &'k str>) -> CommandError {
    let way_out = "see kubectl get nodes -L nodecfg.dev/pool, or name nodes or --selector";
    unknown("pool", pool.as_str(), place, known, way_out)
}

fn refuse_to_replace(folder: &Path, pool: &PoolName, force: bool) -> Result<(), CommandError> {
    let path = folder.join("pools").join(pool.as_str()).join("kubelet.yaml");
    if !force && path.exists() {
        return Err(CommandError::usage(
            format!("{} is there already", path.display()),
            "compare it with what is captured without --write, or pass --force to replace it",
        ));
    }
    Ok(())
}

fn write(folder: &Path, pool: &PoolName, text: String, named: bool) -> Result<Vec<String>, CommandError> {
    let of_pool = folder.join("pools").join(pool.as_str());
    let cannot = |path: &Path, error: std::io::Error| {
        CommandError::usage(
            format!("cannot write {}: {error}", path.display()),
            "check the folder, its permissions and the disk",
        )
    };
    std::fs::create_dir_all(&of_pool).map_err(|error| cannot(&of_pool, error))?;
    let mut files = vec![("kubelet.yaml", text)];
    if !of_pool.join("pool.yaml").exists() {
        files.insert(0, ("pool.yaml", captured_pool(pool, named)));
    }
    let mut written = Vec::new();
    for (name, text) in files {
        let path = of_pool.join(name);
        replace(&path, text.as_bytes(), Readers::AsUsual).map_err(|error| cannot(&path, error))?;
        written.push(path.display().to_string());
    }
    Ok(written)
}
