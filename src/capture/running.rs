//! The nodes to capture, and the configuration that their kubelets run.

use std::collections::{BTreeMap, BTreeSet};

use super::configz::{NodeConfiguration, to_yaml};
use super::strip_defaults::without_defaults;
use crate::arguments::cluster::{ClusterArgs, label_keys};
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::selector::parse_selector;
use crate::arguments::unknown_name::{unknown_name, unknown_node};
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use kubelet_config::Minor;
use nodecfg_cluster::{CONFIGZ_PATIENCE, ClusterError, ClusterReader, LabelKeys, Operation, Resource, Verb};
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_observed::{Node, Readiness};
use nodecfg_plan::membership;

/// Arguments that select the nodes to capture.
#[derive(Debug, clap::Args)]
pub(crate) struct CapturedNodesArgs {
    /// Capture these nodes.
    #[arg(value_name = "NODE", required_unless_present_any = ["pool", "selector"])]
    nodes: Vec<NodeName>,
    /// Capture nodes of this pool: labeled nodecfg.dev/pool=POOL or, with --repo, selected by the pool in the
    /// repository.
    #[arg(long, value_name = "POOL", conflicts_with_all = ["nodes", "selector"])]
    pub(crate) pool: Option<PoolName>,
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
}

/// The nodes to capture, and the number of nodes that were selected.
pub(crate) struct SelectedNodes {
    pub(crate) reader: ClusterReader,
    pub(crate) nodes: Vec<Node>,
    pub(crate) of: usize,
}

impl CapturedNodesArgs {
    /// Reads the nodes.
    pub(crate) async fn select(
        &self,
        cluster: &ClusterArgs,
        terminal: &mut Terminal,
    ) -> Result<SelectedNodes, CommandError> {
        let labels = LabelKeys::Only(BTreeSet::from([POOL_LABEL.to_owned()]));
        let unknown = |pool: &PoolName, place: &str, known: Vec<&str>| {
            unknown_name("pool", pool, place, known, "list the pools with kubectl get nodes -L nodecfg.dev/pool")
        };
        if let (Some(loaded), Some(pool)) = (self.repository.load_named(terminal).await?, &self.pool) {
            if !loaded.desired.pools.contains_key(pool) {
                let place = format!("in the repository {}", loaded.arguments.path().display());
                return Err(unknown(pool, &place, loaded.desired.pools.keys().map(PoolName::as_str).collect()));
            }
            let reader = cluster.reader(label_keys(&loaded.desired)).await?;
            let (all, _) = reader.list_nodes().await?;
            let members = membership(&loaded.desired, &all);
            let nodes = members.pools.get(pool).into_iter().flatten().map(|node| (*node).clone()).collect();
            return self.limit(
                reader,
                nodes,
                &format!("pool {pool} has no nodes"),
                "check nodeSelector in its pool.yaml",
            );
        }
        let reader = cluster.reader(labels).await?;
        if let Some(pool) = &self.pool {
            let nodes = reader.nodes_labelled(&format!("{POOL_LABEL}={pool}")).await?;
            if nodes.is_empty() {
                let all = reader.list_nodes().await?.0;
                let pools: BTreeSet<&str> =
                    all.values().filter_map(|node| Some(node.labels.get(POOL_LABEL)?.as_str())).collect();
                let place = format!("in the labels {POOL_LABEL} of the nodes");
                return Err(unknown(pool, &place, pools.into_iter().collect()));
            }
            return self.limit(reader, nodes, "no node is labeled", "name the nodes to capture");
        }
        if let Some(selector) = &self.selector {
            let nodes = reader.nodes_labelled(&selector.to_string()).await?;
            return self.limit(
                reader,
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
        Ok(SelectedNodes { reader, nodes, of })
    }

    /// The nodes to capture: Ready nodes first, at most `at_most`.
    fn limit(
        &self,
        reader: ClusterReader,
        mut nodes: Vec<Node>,
        none: &str,
        help: &str,
    ) -> Result<SelectedNodes, CommandError> {
        if nodes.is_empty() {
            return Err(CommandError::usage(none, help));
        }
        let of = nodes.len();
        nodes.sort_by(|a, b| (a.ready != Readiness::Ready, &a.name).cmp(&(b.ready != Readiness::Ready, &b.name)));
        if !self.all_nodes {
            nodes.truncate(usize::try_from(self.at_most).unwrap_or(usize::MAX));
        }
        Ok(SelectedNodes { reader, nodes, of })
    }
}

/// Reads the configuration that the kubelets of the nodes run.
pub(crate) async fn capture_nodes(
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
pub(crate) fn too_large(node: &NodeName) -> ClusterError {
    let operation = Box::new(Operation::on(Verb::Get, Resource::Configz, None, node.as_str()));
    let message = "the configuration exceeds the limits of a kubelet.yaml in size or depth".to_owned();
    ClusterError::Unexpected { operation, message }
}
