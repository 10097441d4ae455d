//! Arguments that limit a run to some nodes of the fleet.

use std::collections::BTreeSet;

use super::selector::parse_selector;
use super::unknown_name::unknown_name;
use crate::terminal::failure::CommandError;
use nodecfg_cluster::reading::observe::list;
use nodecfg_cluster::{ClusterReader, LabelKeys};
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::{NamespaceName, PoolName};
use nodecfg_fleet::Desired;
use nodecfg_observed::{Node, Observed};
use nodecfg_plan::{Scope, membership};

/// Arguments that limit a run to some nodes. All other nodes stay as they are, and count for the budgets.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ScopeArgs {
    /// Limit the run to the nodes of this pool. May be repeated.
    #[arg(long, value_name = "POOL", conflicts_with = "metrics_textfile")]
    pool: Vec<PoolName>,
    /// Limit the run to nodes that match this label selector. The syntax is that of kubectl: `zone=a,!gpu`. With --pool,
    /// nodes must meet both.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector, conflicts_with = "metrics_textfile")]
    selector: Option<LabelSelector>,
}

impl ScopeArgs {
    /// Reports whether the command line limits the run.
    pub(crate) fn is_limited(&self) -> bool {
        !self.pool.is_empty() || self.selector.is_some()
    }

    /// The labels to read: those of the selector, too.
    pub(crate) fn label_keys(&self, keys: LabelKeys) -> LabelKeys {
        with_keys_of(self.selector.as_ref(), keys)
    }

    /// The nodes that the run may change. Reads the cluster if a selector is given: nodes that match it later are not
    /// part of the run.
    pub(crate) async fn resolve(
        &self,
        desired: &Desired,
        reader: &ClusterReader,
        namespace: &NamespaceName,
    ) -> Result<Scope, CommandError> {
        let pools = existing_pools(&self.pool, desired)?;
        match &self.selector {
            None => Ok(of_pools(pools)),
            Some(selector) => {
                let observed = list(reader, Some(namespace.as_str())).await?;
                matching(selector, &pools, desired, &observed)
            }
        }
    }
}

/// The pools of --pool, which must exist; empty without it.
pub(crate) fn existing_pools(pools: &[PoolName], desired: &Desired) -> Result<BTreeSet<PoolName>, CommandError> {
    match pools.iter().find(|pool| !desired.pools.contains_key(pool)) {
        None => Ok(pools.iter().cloned().collect()),
        Some(pool) => {
            let help = "omit --pool to include all pools";
            Err(unknown_name("pool", pool, "in the repository", desired.pools.keys(), help))
        }
    }
}

/// The nodes of these pools; of all pools if none is named.
fn of_pools(pools: BTreeSet<PoolName>) -> Scope {
    if pools.is_empty() { Scope::Everything } else { Scope::Pools(pools) }
}

/// The labels to read, with those of a selector.
pub(crate) fn with_keys_of(selector: Option<&LabelSelector>, keys: LabelKeys) -> LabelKeys {
    match keys {
        LabelKeys::All => LabelKeys::All,
        LabelKeys::Only(mut keys) => {
            keys.extend(selector.into_iter().flat_map(LabelSelector::keys).map(str::to_owned));
            LabelKeys::Only(keys)
        }
    }
}

/// The error for a selector that no node matches, which is probably a spelling error. `limits` names the other
/// arguments that the nodes meet.
pub(crate) fn no_match(limits: &str, selector: &LabelSelector) -> CommandError {
    CommandError::usage(
        format!("no node{limits} matches {selector}"),
        "list the labels of the nodes with `kubectl get nodes --show-labels`",
    )
}

/// The nodes that match the selector, and are in one of the pools if any is named.
fn matching(
    selector: &LabelSelector,
    pools: &BTreeSet<PoolName>,
    desired: &Desired,
    observed: &Observed,
) -> Result<Scope, CommandError> {
    let candidates: Vec<&Node> = if pools.is_empty() {
        observed.nodes.values().collect()
    } else {
        let members = membership(desired, &observed.nodes).pools;
        pools.iter().filter_map(|pool| members.get(pool)).flatten().copied().collect()
    };
    let matches = candidates.into_iter().filter(|node| selector.matches(&node.labels));
    let nodes: BTreeSet<_> = matches.map(|node| node.name.clone()).collect();
    if nodes.is_empty() {
        return Err(no_match(if pools.is_empty() { "" } else { " in the pools of --pool" }, selector));
    }
    Ok(Scope::Nodes(nodes))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nodecfg_plan::fixtures::{desired, node, node_name, observed, policy, pool, pool_name};

    #[test]
    fn selector_and_pools_intersect() {
        let wanted = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
        let mut cluster = observed([node("n1", "a"), node("n2", "a"), node("n3", "b")]);
        for name in ["n2", "n3"] {
            let node = cluster.nodes.get_mut(&node_name(name)).unwrap();
            Arc::make_mut(&mut node.labels).insert("zone".to_owned(), "1".to_owned());
        }
        let zone = parse_selector("zone=1").unwrap();
        let nodes = |names: &[&str]| Scope::Nodes(names.iter().map(|name| node_name(name)).collect());
        let scope = |pools: &[&str]| {
            matching(&zone, &pools.iter().map(|pool| pool_name(pool)).collect(), &wanted, &cluster).ok()
        };
        assert_eq!(scope(&[]), Some(nodes(&["n2", "n3"])));
        assert_eq!(scope(&["a"]), Some(nodes(&["n2"])));
        let other = parse_selector("zone=2").unwrap();
        assert!(matching(&other, &BTreeSet::new(), &wanted, &cluster).is_err(), "probably a spelling error");
    }

    #[test]
    fn pools_limit_the_run_and_must_exist() {
        let wanted = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
        let of = |names: &[&str]| {
            let names: Vec<PoolName> = names.iter().map(|name| pool_name(name)).collect();
            existing_pools(&names, &wanted).map(of_pools)
        };
        assert_eq!(of(&[]).ok(), Some(Scope::Everything));
        assert_eq!(of(&["b"]).ok(), Some(Scope::Pools([pool_name("b")].into())));
        assert!(of(&["b", "c"]).is_err(), "a misspelt pool must not be left out silently");
    }

    #[test]
    fn pool_or_selector_limits_the_run() {
        let selector = Some(parse_selector("zone=a").unwrap());
        assert!(ScopeArgs { selector, ..ScopeArgs::default() }.is_limited());
        assert!(ScopeArgs { pool: vec![pool_name("a")], ..ScopeArgs::default() }.is_limited());
        assert!(!ScopeArgs::default().is_limited());
    }

    #[test]
    fn reads_labels_of_selector() {
        let limited = ScopeArgs { selector: Some(parse_selector("zone=a,!gpu").unwrap()), ..ScopeArgs::default() };
        let LabelKeys::Only(keys) = limited.label_keys(LabelKeys::Only(["pool".to_owned()].into())) else {
            panic!("not all labels are needed")
        };
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["gpu", "pool", "zone"]);
    }
}
