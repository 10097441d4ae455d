//! A new repository from the nodes of a cluster, or an example.

use std::collections::BTreeSet;

use super::adoption::{Draft, adopt, common_config};
use super::agreement::common;
use super::editor_schemas::with_schemas;
use super::pools::{Group, group_nodes};
use super::running::capture_nodes;
use super::starter::{CurrentConfig, RepositoryFiles, StarterPool, empty_repository};
use crate::arguments::cluster::{BoundClusterArgs, invalid_default_name};
use crate::terminal::failure::CommandError;
use kubelet_config::values::label::check_label_key;
use kubelet_config::{Minor, NEWEST_RELEASED};
use nodecfg_cluster::reading::observe::observe;
use nodecfg_cluster::{ClusterError, ClusterReader, ConnectError, LabelKeys};
use nodecfg_contract::Placement;
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_fleet::DEFAULT_FLEET;
use nodecfg_observed::{ConfigMapKey, Node, Observed, Readiness};

/// Arguments that describe a new repository.
#[derive(Debug, clap::Args)]
pub(crate) struct StarterArgs {
    /// Name the fleet. Default: the fleet that the nodes belong to, or `default`.
    #[arg(long, value_name = "NAME")]
    fleet: Option<FleetName>,
    /// Group nodes by this label. Default: the known label that most nodes have (nodecfg.dev/pool, those of EKS, GKE,
    /// AKS, Karpenter and others, or the roles).
    #[arg(long, value_name = "KEY", value_parser = parse_key, conflicts_with = "no_cluster")]
    pool_label: Option<String>,
    /// Write a small example without reading a cluster.
    #[arg(long)]
    pub(crate) no_cluster: bool,
    /// Capture N nodes of each pool; 0 captures none.
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "no_cluster")]
    capture: u32,
    /// Keep values that equal the defaults of the kubelet in captured configurations.
    #[arg(long, conflicts_with = "no_cluster")]
    keep_defaults: bool,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

fn parse_key(text: &str) -> Result<String, String> {
    check_label_key(text).map(|()| text.to_owned())
}

impl StarterArgs {
    /// The pools and the files of the new repository.
    pub(crate) async fn draft(&self) -> Result<(Draft, RepositoryFiles), CommandError> {
        if let Some(reader) = self.reader().await? {
            return self.draft_from_cluster(reader).await;
        }
        let fleet = self.fleet_or_default(None)?;
        let repository = with_schemas(empty_repository(&fleet), NEWEST_RELEASED);
        let remark = "No kubeconfig was found. This is an example, not the configuration of your nodes.".to_owned();
        let remarks = if self.no_cluster { Vec::new() } else { vec![remark] };
        Ok((Draft { fleet, namespace: None, label: None, pools: Vec::new(), remarks, is_installed: true }, repository))
    }

    /// The cluster to read, or `None` for an example.
    async fn reader(&self) -> Result<Option<ClusterReader>, CommandError> {
        if self.no_cluster {
            return Ok(None);
        }
        match self.bound.cluster.reader(LabelKeys::All).await {
            Err(CommandError::Connect(ConnectError::NoCluster { .. })) if !self.bound.cluster.is_named() => Ok(None),
            other => other.map(Some),
        }
    }

    fn fleet_or_default(&self, found: Option<FleetName>) -> Result<FleetName, CommandError> {
        let default = || FleetName::new(DEFAULT_FLEET).map_err(|error| invalid_default_name(&error));
        self.fleet.clone().or(found).map_or_else(default, Ok)
    }

    async fn draft_from_cluster(&self, reader: ClusterReader) -> Result<(Draft, RepositoryFiles), CommandError> {
        let mut remarks = Vec::new();
        let (reader, is_installed) = match self.bound.binding.bind(reader.clone()).await {
            Err(CommandError::Cluster(ClusterError::DefinitionMissing { .. })) => {
                remarks.push(
                    "nodecfg is not installed on this cluster: run `nodecfg install` before `nodecfg diff`.".to_owned(),
                );
                (reader, false)
            }
            other => (other?, true),
        };
        let place = self.bound.cluster.namespace_or(None, reader.binding())?;
        let observed = observe(&reader, place.as_str(), contents_of_nodes).await?;
        if observed.nodes.is_empty() {
            return Err(CommandError::usage("the cluster has no nodes", "pass --no-cluster to write an example"));
        }
        let fleets: BTreeSet<(FleetName, String)> = observed
            .contents
            .iter()
            .filter_map(|(key, map)| Some((map.as_ref()?.fleet()?, key.namespace.clone())))
            .collect();
        let names: BTreeSet<&FleetName> = fleets.iter().map(|(fleet, _)| fleet).collect();
        if self.fleet.is_none() && names.len() > 1 {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            return Err(CommandError::usage(
                format!("nodes belong to several fleets: {}", names.join(", ")),
                "name the fleet of this repository with --fleet",
            ));
        }
        let fleet = self.fleet_or_default(names.first().map(|fleet| (*fleet).clone()))?;
        // The namespace that already holds the ConfigMaps of this fleet, if it is not the default.
        let found = fleets
            .iter()
            .find(|(name, _)| *name == fleet)
            .and_then(|(_, space)| NamespaceName::new(space.as_str()).ok());
        let namespace = self.bound.cluster.named_namespace().cloned().or(found);
        let namespace = namespace.filter(|namespace| namespace.as_str() != reader.binding().default_namespace());
        let (label, groups) = group_nodes(&observed.nodes, self.pool_label.as_deref());
        let mut pools = Vec::new();
        for group in groups {
            pools.push(self.pool(group, &observed, &reader, &mut remarks).await);
        }
        let mut draft = Draft { fleet, namespace, label: Some(label), pools, remarks, is_installed };
        let repository = adopt(&mut draft, &observed, &place)?;
        // Fields of the oldest kubelet exist on all nodes, unless a later version removed them.
        let minors = observed.nodes.values().filter_map(|node| Some(Minor(node.kubelet_version?.minor)));
        let oldest = minors.filter(|minor| minor.is_known()).min().unwrap_or(NEWEST_RELEASED);
        Ok((draft, with_schemas(repository, oldest)))
    }

    /// Describes what the nodes of a group run.
    async fn pool(
        &self,
        group: Group,
        observed: &Observed,
        reader: &ClusterReader,
        remarks: &mut Vec<String>,
    ) -> StarterPool {
        let nodes: Vec<&Node> = group.nodes.iter().filter_map(|name| observed.nodes.get(name)).collect();
        let (runs, pause_reasons) = common_config(&nodes, observed);
        let is_replaced = |node: &&Node| node.source.is_some() && node.assigned_placement() == Placement::Replace;
        let has_agents = observed.default_placement() == Placement::Overlay;
        // Before an installation, nodes that can only be configured by agents.
        let needs_agent = |node: &&Node| node.kubelet_version.is_some_and(|version| !version.has_dynamic_config());
        let overlays = has_agents || (!nodes.is_empty() && nodes.iter().all(needs_agent));
        let replaces = has_agents && nodes.iter().any(is_replaced);
        let mut pool = StarterPool { group: group.clone(), runs, pause_reasons, overlays, replaces, captured: None };
        if pool.runs == CurrentConfig::Local && self.capture > 0 {
            let mut local: Vec<Node> =
                nodes.iter().filter(|node| node.source.is_none()).map(|node| (*node).clone()).collect();
            local.sort_by_key(|node| node.ready != Readiness::Ready);
            local.truncate(usize::try_from(self.capture).unwrap_or(usize::MAX));
            let (taken, errors) = capture_nodes(reader, &local, !self.keep_defaults).await;
            for (_, error) in errors {
                let remark = format!("{error}. {}", error.help());
                // Reports missing permissions once, not for every pool.
                let same = |known: &String| known.ends_with(&error.help());
                if !(matches!(error, ClusterError::Forbidden { .. }) && remarks.iter().any(same)) {
                    remarks.push(remark);
                }
            }
            if taken.is_empty() && overlays {
                remarks.push(format!(
                    "Pool {0} has no own.yaml, so its overlay is checked alone. Once its nodes answer, write the output of \
                     `nodecfg capture --pool {0}` to pools/{0}/own.yaml, and name it in spec.kubelet.own.",
                    group.name
                ));
            } else if taken.is_empty() {
                remarks.push(format!(
                    "Pool {0} has no kubelet.yaml. Once its nodes answer, run: nodecfg capture --pool {0} --write .",
                    group.name
                ));
            } else {
                pool.captured = Some(common(&taken));
            }
        }
        pool
    }
}

/// ConfigMaps that nodes point at.
fn contents_of_nodes(observed: &Observed) -> BTreeSet<ConfigMapKey> {
    observed.nodes.values().filter_map(|node| ConfigMapKey::of(node.source.as_ref()?)).collect()
}
