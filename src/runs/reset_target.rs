//! What `reset` rolls out: pools whose nodes return to their local configuration, and the nodes to change.

use std::collections::{BTreeMap, BTreeSet};

use crate::arguments::cluster::label_keys;
use crate::arguments::fleet::{FleetArgs, FleetLocation};
use crate::arguments::repository::{Loaded, RepositoryArgs};
use crate::arguments::rollout::DisruptionArgs;
use crate::arguments::scope::with_keys_of;
use crate::arguments::unknown_name::unknown_name;
use crate::report::count;
use crate::terminal::failure::CommandError;
use nodecfg_cluster::LabelKeys;
use nodecfg_cluster::reading::observe::list;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Desired, NodeShare, PoolTarget};
use nodecfg_observed::{Node, Observed};
use nodecfg_plan::{
    NodeSelection, NodeSelectionError, membership, pools_of_nodes, select_nodes, unavailable_without_pool,
};

/// Arguments that limit what a reset does to the nodes of a pool.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct ResetLimits {
    /// Allow N unavailable nodes of each pool. Default: 1, or the budget in the repository.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_unavailable: Option<u32>,
    #[command(flatten)]
    disruption: DisruptionArgs,
    /// Also reset nodes that point at ConfigMaps not managed by this fleet.
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// The pools with local configuration as their target, and the state of their cluster.
pub(crate) struct ResetTarget {
    pub(crate) loaded: Loaded,
    pub(crate) location: FleetLocation,
    observed: Observed,
    /// Where the pools are from, in messages.
    origin: &'static str,
}

impl ResetTarget {
    /// Reads the cluster. Without a repository, a node is in the pool of its ConfigMap.
    pub(crate) async fn read(
        repository: Option<Loaded>,
        fleet: &FleetArgs,
        selector: Option<&LabelSelector>,
        limits: ResetLimits,
    ) -> Result<Self, CommandError> {
        let Some(mut loaded) = repository else {
            let keys = with_keys_of(selector, LabelKeys::Only([POOL_LABEL.to_owned()].into()));
            let location = fleet.locate(None, keys).await?;
            let observed = list(&location.reader, Some(location.namespace.as_str())).await?;
            let desired = limits.pools_of(&observed, &location)?;
            let (snapshot, arguments) = (Snapshot::of_texts([]), RepositoryArgs::default());
            let loaded = Loaded { desired, snapshot, findings: Vec::new(), arguments };
            return Ok(Self { loaded, location, observed, origin: "among those that nodes are in" });
        };
        let keys = with_keys_of(selector, label_keys(&loaded.desired));
        let location = fleet.bound.locate(&loaded.desired, keys).await?;
        let observed = list(&location.reader, Some(location.namespace.as_str())).await?;
        for pool in loaded.desired.pools.values_mut() {
            pool.targets = PoolTarget::Local.into();
            // A reset is an explicit request, so it includes paused pools.
            (pool.policy.paused, pool.policy.fleet_paused) = (false, false);
            limits.disruption.apply(&mut pool.policy);
            if let Some(number) = limits.max_unavailable {
                pool.policy.max_unavailable = NodeShare::Count(number);
            }
        }
        Ok(Self { loaded, location, observed, origin: "in the repository" })
    }

    /// Reports whether any of the nodes is in a pool and has an assignment, or has not finished its return to local
    /// configuration.
    pub(crate) fn any_assigned(&self, nodes: &BTreeSet<NodeName>) -> bool {
        let is_assigned =
            |node: &Node| node.source.is_some() || node.status.assigned.is_some() || node.status.active.is_some();
        let pools = membership(&self.loaded.desired, &self.observed.nodes).pools;
        pools.values().flatten().any(|node| is_assigned(node) && nodes.contains(&node.name))
    }

    /// The nodes to reset.
    pub(crate) fn select(&self, selection: &NodeSelection) -> Result<BTreeSet<NodeName>, CommandError> {
        let Self { loaded: Loaded { desired, .. }, observed, origin, .. } = self;
        let members = membership(desired, &observed.nodes);
        let pool_of_node: BTreeMap<&NodeName, &PoolName> =
            members.pools.iter().flat_map(|(pool, nodes)| nodes.iter().map(move |node| (&node.name, *pool))).collect();
        let matches = |selector: &LabelSelector, node: &Node| selector.matches(&node.labels);
        let pools: BTreeSet<&PoolName> = desired.pools.keys().collect();
        select_nodes(selection, observed, &pool_of_node, matches, &pools).map_err(|error| match &error {
            NodeSelectionError::UnknownNode { name, .. } => {
                unknown_name("node", name, "in the cluster", observed.nodes.keys(), &error.help())
            }
            NodeSelectionError::UnknownPool { name, .. } => {
                unknown_name("pool", name, origin, desired.pools.keys(), &error.help())
            }
            NodeSelectionError::Unpooled { .. } => CommandError::usage(error.to_string(), error.help()),
        })
    }
}

impl ResetLimits {
    /// The pools that the ConfigMaps of the nodes name.
    fn pools_of(self, observed: &Observed, location: &FleetLocation) -> Result<Desired, CommandError> {
        let budget = self.max_unavailable.unwrap_or(1);
        let mut desired = pools_of_nodes(observed, &location.fleet, budget, self.take_over);
        let down = unavailable_without_pool(&desired, observed);
        let left = budget.saturating_sub(u32::try_from(down.len()).unwrap_or(u32::MAX));
        if let Some(example) = down.first() {
            let down_nodes = count(down.len(), "node");
            if left == 0 {
                return Err(CommandError::usage(
                    format!(
                        "{down_nodes} unavailable and in no known pool, for example {example}. They use up the budget of \
                         {budget} of every pool"
                    ),
                    format!("pass --max-unavailable {} or more", down.len().saturating_add(1)),
                ));
            }
            tracing::warn!(
                "{down_nodes} unavailable and in no known pool, for example {example}. They count for every pool: \
                 {left} of its budget of {budget} remains"
            );
        }
        for pool in desired.pools.values_mut() {
            self.disruption.apply(&mut pool.policy);
            pool.policy.max_unavailable = NodeShare::Count(left);
        }
        Ok(desired)
    }
}
