//! Makes the status of one look at a cluster: puts every node into its pool, says how far it is, and counts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Compared, Drift, FleetOrders, FleetStatus, NodeStatus, Paused, PoolStatus, State};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::observed::{ConfigMapKey, ManagedConfigMap, Node, Observed, Readiness};
use nodecfg_planning::desired::{Desired, Pool};
use nodecfg_planning::judge::{Convergence, Target, Waiting};
use nodecfg_planning::plan::{
    Holder, Owner, PoolPause, Standings, is_adopted, membership, pool_target, present_state, unreached,
};

/// What a repository wants of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// What it says.
    pub desired: &'a Desired,
    /// Where the ConfigMaps go.
    pub namespace: &'a NamespaceName,
}

/// Makes the status of what was observed at a moment. Without a repository, a node's pool is that of the ConfigMap it
/// points at, and it is compared with what it points at.
#[must_use]
pub fn make(
    observed: &Observed,
    wanted: Option<&Wanted<'_>>,
    mut fleets: Vec<FleetOrders>,
    at: Timestamp,
) -> FleetStatus {
    fleets.sort_by(|a, b| (&a.fleet, &a.namespace).cmp(&(&b.fleet, &b.namespace)));
    let mut nodes: Vec<NodeStatus> = match wanted {
        Some(wanted) => compared(observed, wanted, &fleets),
        None => observed.nodes.values().map(|node| alone(node, observed)).collect(),
    };
    nodes.sort_by(|a, b| place(a).cmp(&place(b)));
    let pools = pools(&nodes, wanted, &fleets);
    FleetStatus {
        at,
        compared: wanted
            .map(|wanted| Compared { fleet: wanted.desired.fleet.clone(), commit: wanted.desired.commit.clone() }),
        fleets,
        pools,
        states: counted(nodes.iter()),
        nodes,
    }
}

/// The worst first; those of a pool together, those of none last.
fn place(node: &NodeStatus) -> impl Ord + '_ {
    (node.state, node.pool.is_none(), &node.fleet, &node.pool, &node.node)
}

fn counted<'a>(nodes: impl Iterator<Item = &'a NodeStatus>) -> BTreeMap<State, usize> {
    let mut states = BTreeMap::new();
    for node in nodes {
        *states.entry(node.state).or_default() += 1;
    }
    states
}

/// The ConfigMap that a source names, if nodecfg manages it.
fn managed<'a>(source: Option<&ConfigSource>, observed: &'a Observed) -> Option<&'a ManagedConfigMap> {
    observed.config_maps.get(&ConfigMapKey::of(source?)?)
}

/// What is so of a node, whatever it shall run.
fn bare(node: &Node, pool: Option<PoolName>, fleet: Option<FleetName>) -> NodeStatus {
    NodeStatus {
        node: node.name.clone(),
        pool,
        fleet,
        ready: node.ready,
        kubelet: node.kubelet_version,
        desired: None,
        wanted: node.source.clone(),
        assigned: node.status.assigned.clone(),
        active: node.status.active.clone(),
        last_known_good: node.status.last_known_good.clone(),
        error: node.status.error().map(str::to_owned),
        verdict: present_state(node),
        state: State::Converged,
        since: None,
        drift: None,
        blocked: None,
    }
}

/// A node compared with what it points at.
fn alone(node: &Node, observed: &Observed) -> NodeStatus {
    let map = managed(node.source.as_ref(), observed);
    let mut status = bare(node, map.and_then(|map| map.pool.clone()), map.and_then(|map| map.fleet.clone()));
    status.drift = other_content(node, observed);
    if status.verdict != Convergence::Converged {
        status.blocked = unreached(node);
    }
    settle(status, node, State::Converged)
}

/// A node that no pool of the repository selects.
fn unpooled(node: &Node, observed: &Observed, wanted: &Wanted<'_>) -> NodeStatus {
    let ours =
        managed(node.source.as_ref(), observed).is_some_and(|map| map.fleet == Some(wanted.desired.fleet.clone()));
    let mut status = bare(node, None, None);
    status.drift = node.source.clone().filter(|_| ours).map(|source| Drift::Unselected { source });
    settle(status, node, State::Unpooled)
}

/// All nodes compared with what a repository wants.
fn compared(observed: &Observed, wanted: &Wanted<'_>, fleets: &[FleetOrders]) -> Vec<NodeStatus> {
    let members = membership(wanted.desired, &observed.nodes);
    let standings = Standings::new(wanted.desired, observed);
    let named = |name: &&NodeName| observed.nodes.get(*name);
    let mut nodes = Vec::with_capacity(observed.nodes.len());
    for (name, of_pool) in &members.pools {
        let Some(pool) = wanted.desired.pools.get(*name) else { continue };
        let held = paused(&pool.name, Some(pool), &wanted.desired.fleet, fleets).is_some();
        let target = pool_target(pool, wanted.namespace);
        let of_pool = of_pool.iter().filter_map(named);
        nodes.extend(of_pool.map(|node| pooled(node, observed, &standings, Placed { pool, target: &target, held })));
    }
    nodes.extend(members.unpooled.iter().filter_map(named).map(|node| unpooled(node, observed, wanted)));
    for (name, pools) in &members.contested {
        let Some(node) = observed.nodes.get(*name) else { continue };
        let mut status = bare(node, None, None);
        status.drift = Some(Drift::Contested { pools: pools.iter().map(|pool| (*pool).clone()).collect() });
        nodes.push(settle(status, node, State::Unpooled));
    }
    for node in &mut nodes {
        if node.pool.is_some() {
            node.fleet = Some(wanted.desired.fleet.clone());
        }
    }
    nodes
}

/// The pool that a node is in.
#[derive(Clone, Copy)]
struct Placed<'a> {
    pool: &'a Pool,
    target: &'a Target,
    held: bool,
}

/// A node compared with what its pool wants.
fn pooled(node: &Node, observed: &Observed, standings: &Standings<'_>, placed: Placed<'_>) -> NodeStatus {
    let Placed { pool, target, held } = placed;
    let mut status = bare(node, Some(pool.name.clone()), None);
    status.desired = Some(target.clone());
    let mut aim = State::Converged;
    if !target.is_named_by(node.source.as_ref()) {
        let standing = node.source.as_ref().map(|source| standings.of(pool, source));
        // What runs the wanted content under another name needs no restart, and so no sync changes it.
        let adopted = node.source.as_ref().zip(standing.as_ref());
        let adopted = adopted.is_some_and(|(source, standing)| is_adopted(node, source, standing));
        if !adopted {
            status.verdict = Convergence::Waiting(Waiting::NotAssigned);
            status.drift = node.source.as_ref().zip(standing).and_then(|(source, standing)| {
                elsewhere(source, &standing.owner, managed(Some(source), observed), &pool.name)
            });
            aim = if held { State::Paused } else { State::Behind };
        }
    }
    status.drift = status.drift.take().or_else(|| other_content(node, observed));
    if status.verdict != Convergence::Converged {
        status.blocked = unreached(node);
    }
    settle(status, node, aim)
}

/// Whether what a node points at is not its pool's business.
fn elsewhere(source: &ConfigSource, holder: &Holder, map: Option<&ManagedConfigMap>, pool: &PoolName) -> Option<Drift> {
    let source = source.clone();
    match holder {
        Holder::Fleet(fleet) => Some(Drift::Elsewhere { source, owner: Owner::Fleet { fleet: fleet.clone() } }),
        Holder::Unknown => Some(Drift::Elsewhere { source, owner: Owner::Unknown }),
        Holder::Us => {
            let other = map.and_then(|map| map.pool.as_ref()).filter(|other| *other != pool)?;
            Some(Drift::OtherPool { source, pool: other.clone() })
        }
    }
}

/// Whether a node runs the content of a ConfigMap that is another by now: they are immutable, so that it was deleted and made
/// again.
fn other_content(node: &Node, observed: &Observed) -> Option<Drift> {
    let source = node.source.as_ref()?;
    let active = node.status.active.as_ref().filter(|active| active.names_same(source))?;
    let ran = active.config_map.as_ref()?.uid.as_ref()?;
    let there = managed(Some(source), observed)?;
    (*ran != there.uid).then(|| Drift::OtherContent { source: source.clone() })
}

/// Puts what is known of a node into a word, and says since when. `aim` is the word where nothing else is to be said.
fn settle(mut status: NodeStatus, node: &Node, aim: State) -> NodeStatus {
    let way = match present_state(node) {
        Convergence::Failed(_) => State::Failed,
        Convergence::Waiting(Waiting::Syncing { .. }) => State::CannotFetch,
        Convergence::Waiting(_) => State::OnTheWay,
        Convergence::Converged => State::Converged,
    };
    let several = [
        (node.ready != Readiness::Ready).then_some(State::NotReady),
        status.blocked.is_some().then_some(State::Blocked),
        status.drift.is_some().then_some(State::Drifted),
        (way != State::Converged).then_some(way),
        (aim != State::Converged).then_some(aim),
    ];
    let worst = several.into_iter().flatten().min().unwrap_or(State::Converged);
    // Nothing is expected of a node that goes away.
    status.state = if node.deleting && worst != State::Converged { State::Deleting } else { worst };
    status.since = match status.state {
        State::NotReady => node.ready_since,
        // Elsewhere it would say since when the state before this one lasts.
        State::Failed | State::CannotFetch | State::Converged => node.status_since,
        State::OnTheWay if way == State::OnTheWay && node.status.assigned.is_some() => {
            node.status_since.filter(|_| present_state(node) == Convergence::Waiting(Waiting::Activating))
        }
        _ => None,
    };
    status
}

/// Whether a pool is paused, by the repository or from a command line.
fn paused(name: &PoolName, pool: Option<&Pool>, fleet: &FleetName, fleets: &[FleetOrders]) -> Option<Paused> {
    let order = fleets.iter().filter(|orders| orders.fleet == *fleet).find_map(|orders| orders.pauses.get(name));
    let held = PoolPause::of(pool, order);
    held.is_held().then(|| Paused { in_repository: held.by_policy, order: order.cloned() })
}

/// The pools of all nodes, and those of the repository that have none.
fn pools(nodes: &[NodeStatus], wanted: Option<&Wanted<'_>>, fleets: &[FleetOrders]) -> Vec<PoolStatus> {
    let mut grouped: BTreeMap<(Option<&FleetName>, Option<&PoolName>), Vec<&NodeStatus>> = BTreeMap::new();
    if let Some(wanted) = wanted {
        let known = wanted.desired.pools.keys();
        grouped.extend(known.map(|pool| ((Some(&wanted.desired.fleet), Some(pool)), Vec::new())));
    }
    // Of what somebody paused before it was ever rolled out, or after its ConfigMaps were pruned, no node tells.
    for orders in fleets {
        grouped.extend(orders.pauses.keys().map(|pool| ((Some(&orders.fleet), Some(pool)), Vec::new())));
    }
    for node in nodes {
        grouped.entry((node.fleet.as_ref(), node.pool.as_ref())).or_default().push(node);
    }
    let mut pools: Vec<PoolStatus> = grouped
        .into_iter()
        .map(|((fleet, name), nodes)| {
            let pool = wanted.zip(name).and_then(|(wanted, name)| wanted.desired.pools.get(name));
            let states = counted(nodes.iter().copied());
            PoolStatus {
                pool: name.cloned(),
                fleet: fleet.cloned(),
                desired: wanted.zip(pool).map(|(wanted, pool)| pool_target(pool, wanted.namespace)),
                nodes: nodes.len(),
                converged: states.get(&State::Converged).copied().unwrap_or_default(),
                worst: states.keys().next().copied().unwrap_or(State::Converged),
                configurations: configurations(&nodes),
                paused: name.zip(fleet).and_then(|(name, fleet)| paused(name, pool, fleet, fleets)),
                states,
            }
        })
        .collect();
    // Stable: by name otherwise.
    pools.sort_by_key(|pool| (pool.worst, pool.pool.is_none()));
    pools
}

/// How many different configurations nodes run.
fn configurations(nodes: &[&NodeStatus]) -> usize {
    let active = nodes.iter().map(|node| node.active.as_ref().and_then(|source| source.config_map.as_ref()));
    let named = active.map(|map| map.map(|map| (&map.namespace, &map.name, &map.kubelet_config_key)));
    named.collect::<BTreeSet<_>>().len()
}

/// Which pools and nodes are asked for; nothing asks for everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Pools, each with all its nodes.
    pub pools: BTreeSet<PoolName>,
    /// Single nodes.
    pub nodes: BTreeSet<NodeName>,
}

impl Selection {
    /// Whether everything is asked for.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.pools.is_empty() && self.nodes.is_empty()
    }

    /// The first name that there is not: what kind of thing, its name, and those that there are.
    #[must_use]
    pub fn unknown<'s>(&'s self, status: &'s FleetStatus) -> Option<(&'static str, &'s str, BTreeSet<&'s str>)> {
        let pools: BTreeSet<&str> = status.pools.iter().filter_map(|pool| Some(pool.pool.as_ref()?.as_str())).collect();
        let nodes: BTreeSet<&str> = status.nodes.iter().map(|node| node.node.as_str()).collect();
        let missing = |kind, name: &'s str, known: &BTreeSet<&'s str>| {
            (!known.contains(name)).then(|| (kind, name, known.clone()))
        };
        let pool = self.pools.iter().find_map(|name| missing("pool", name.as_str(), &pools));
        pool.or_else(|| self.nodes.iter().find_map(|name| missing("node", name.as_str(), &nodes)))
    }

    /// The status of what is asked for: these nodes, and their pools as they are as a whole.
    #[must_use]
    pub fn of(&self, mut status: FleetStatus) -> FleetStatus {
        if self.is_all() {
            return status;
        }
        let asked = |pool: Option<&PoolName>| pool.is_some_and(|pool| self.pools.contains(pool));
        status.nodes.retain(|node| self.nodes.contains(&node.node) || asked(node.pool.as_ref()));
        let of_nodes: BTreeSet<(Option<FleetName>, Option<PoolName>)> =
            status.nodes.iter().map(|node| (node.fleet.clone(), node.pool.clone())).collect();
        status
            .pools
            .retain(|pool| asked(pool.pool.as_ref()) || of_nodes.contains(&(pool.fleet.clone(), pool.pool.clone())));
        status.states = counted(status.nodes.iter());
        status
    }
}
