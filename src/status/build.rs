//! Construction of a status from one observation of a cluster: assigns nodes to pools, determines their state, and
//! counts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::domains::DomainStatus;
use super::new_nodes::NewNodes;
use super::steps::StepStatus;
use super::unproven::UnprovenNodes;
use super::{Compared, Drift, FleetOrders, FleetStatus, NodeStatus, Paused, PoolStatus, SizeStatus, State};
use kubelet_config::capacity::Capacity;
use kubelet_config::risk::Class;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{ConfigSource, ContentHash};
use nodecfg_fleet::hold::Hold;
use nodecfg_fleet::{Desired, Pool, SizedPool};
use nodecfg_observed::{ConfigMapKey, ManagedConfigMap, Node, Observed, Proof, Readiness};
use nodecfg_plan::convergence::{Convergence, Target, WaitContext, Waiting, evaluate, trial};
use nodecfg_plan::{
    ConfigMapIndex, Owner, SizeGroup, SizeGroups, Why, blocked_reason, is_adopted, membership, outdated_agent,
    pool_target, present_state,
};

/// Desired state to compare nodes with.
#[derive(Debug, Clone, Copy)]
pub struct DesiredFleet<'a> {
    /// Desired state of the repository.
    pub desired: &'a Desired,
    /// Namespace of the ConfigMaps.
    pub namespace: &'a NamespaceName,
}

/// Status of an observed cluster. Without a repository, the ConfigMap of a node determines its pool, and the node is
/// compared with that ConfigMap.
#[must_use]
pub fn build(
    observed: &Observed,
    wanted: Option<&DesiredFleet<'_>>,
    mut fleets: Vec<FleetOrders>,
    at: Timestamp,
) -> FleetStatus {
    fleets.sort_by(|a, b| (&a.fleet, &a.namespace).cmp(&(&b.fleet, &b.namespace)));
    let mut nodes: Vec<NodeStatus> = match wanted {
        Some(wanted) => compare_with_repository(observed, wanted, &fleets),
        None => observed.nodes.values().map(|node| compare_with_assignment(node, observed)).collect(),
    };
    nodes.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    let pools = pools(&nodes, observed, wanted, &fleets, at);
    FleetStatus {
        at,
        compared: wanted.map(|wanted| Compared {
            fleet: wanted.desired.fleet.clone(),
            commit: wanted.desired.commit.clone(),
            uncommitted: Some(wanted.desired.uncommitted).filter(|files| *files > 0),
            paused: wanted.desired.paused,
        }),
        fleets,
        pools,
        states: state_counts(nodes.iter()),
        nodes,
    }
}

/// Sort key: worst state first, then by pool, nodes without a pool last.
fn sort_key(node: &NodeStatus) -> impl Ord + '_ {
    (node.state, node.pool.is_none(), &node.fleet, &node.pool, &node.node)
}

fn state_counts<'a>(nodes: impl Iterator<Item = &'a NodeStatus>) -> BTreeMap<State, usize> {
    let mut states = BTreeMap::new();
    for node in nodes {
        *states.entry(node.state).or_default() += 1;
    }
    states
}

/// ConfigMap of a source, if nodecfg manages it.
fn managed<'a>(source: Option<&ConfigSource>, observed: &'a Observed) -> Option<&'a ManagedConfigMap> {
    observed.config_maps.get(&ConfigMapKey::of(source?)?)
}

/// Status of a node without its comparison.
fn without_comparison(node: &Node, pool: Option<PoolName>, fleet: Option<FleetName>) -> NodeStatus {
    let has_agent = node.content.is_some() && node.status.active.is_some();
    let (overridden, proven, unproven) = match node.proof.as_deref() {
        Some(Proof::Known { overridden, more, .. }) => (overridden.clone(), overridden.is_empty() && *more == 0, None),
        Some(Proof::Unknown { reason }) => (Vec::new(), false, Some(reason.clone())),
        None => (Vec::new(), false, has_agent.then(|| "its agent does not report it".to_owned())),
    };
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
        new_since: None,
        drift: None,
        drain_mark: node.drain_mark.clone(),
        trial: None,
        blocked: None,
        overridden,
        proven,
        unproven,
    }
}

/// Node compared with its own assignment.
fn compare_with_assignment(node: &Node, observed: &Observed) -> NodeStatus {
    let map = managed(node.source.as_ref(), observed);
    let mut status =
        without_comparison(node, map.and_then(|map| map.pool.clone()), map.and_then(|map| map.fleet.clone()));
    status.drift = other_content(node, &present_target(node, observed));
    if status.verdict != Convergence::Converged {
        status.blocked = blocked_reason(node);
    }
    with_state(status, node, State::Converged)
}

/// Node that no pool of the repository selects.
fn unpooled(node: &Node, observed: &Observed, wanted: &DesiredFleet<'_>) -> NodeStatus {
    let ours =
        managed(node.source.as_ref(), observed).is_some_and(|map| map.fleet == Some(wanted.desired.fleet.clone()));
    let mut status = without_comparison(node, None, None);
    status.drift = node.source.clone().filter(|_| ours).map(|source| Drift::Unselected { source });
    // Its labels may be the unreadable value.
    status.blocked = blocked_reason(node).filter(|_| node.is_unreadable());
    with_state(status, node, State::Unpooled)
}

/// All nodes compared with a repository.
fn compare_with_repository(observed: &Observed, wanted: &DesiredFleet<'_>, fleets: &[FleetOrders]) -> Vec<NodeStatus> {
    let members = membership(wanted.desired, &observed.nodes);
    let index = ConfigMapIndex::new(wanted.desired, observed);
    let mut nodes = Vec::with_capacity(observed.nodes.len());
    for (name, of_pool) in &members.pools {
        let Some(pool) = wanted.desired.pools.get(*name) else { continue };
        let is_paused = paused(&pool.name, Some(pool), &wanted.desired.fleet, fleets).is_some();
        let SizeGroups { groups, left_out, warning: _ } = SizeGroups::of(pool, of_pool);
        for SizeGroup { pool, nodes: of_size, .. } in &groups {
            let target = pool_target(pool, wanted.namespace, observed);
            let context = PoolContext { pool, target: &target, is_paused };
            nodes.extend(of_size.iter().map(|node| compare_with_pool(node, observed, &index, context)));
        }
        for (node, why) in left_out {
            let mut status = without_comparison(node, Some(pool.name.clone()), None);
            status.blocked = blocked_reason(node).or(Some(why));
            nodes.push(with_state(status, node, State::Behind));
        }
    }
    nodes.extend(members.unpooled.iter().map(|node| unpooled(node, observed, wanted)));
    for (node, pools) in &members.contested {
        let mut status = without_comparison(node, None, None);
        status.blocked = Some(Why::Contested { pools: pools.iter().map(|pool| (*pool).clone()).collect() });
        nodes.push(with_state(status, node, State::Unpooled));
    }
    for node in &mut nodes {
        if node.pool.is_some() {
            node.fleet = Some(wanted.desired.fleet.clone());
        }
    }
    nodes
}

/// Pool of a node.
#[derive(Clone, Copy)]
struct PoolContext<'a> {
    pool: &'a SizedPool<'a>,
    target: &'a Target,
    is_paused: bool,
}

/// Node compared with the target of its pool.
fn compare_with_pool(
    node: &Node,
    observed: &Observed,
    index: &ConfigMapIndex<'_>,
    context: PoolContext<'_>,
) -> NodeStatus {
    let PoolContext { pool, target, is_paused } = context;
    let mut status = without_comparison(node, Some(pool.name.clone()), None);
    status.desired = Some(target.clone());
    status.new_since = node.new_since().filter(|_| matches!(target, Target::Source(_)));
    let mut target_state = State::Converged;
    let named = target.is_named_by(node.source.as_ref());
    if !named {
        let current = node.source.as_ref().map(|source| index.current_source(source, pool));
        // A node with the desired content under another name needs no restart, so no sync changes it.
        let adopted = current.as_ref().is_some_and(|current| is_adopted(node, current));
        if !adopted {
            status.verdict = Convergence::Waiting(Waiting::NotAssigned);
            status.drift = node.source.as_ref().zip(current).and_then(|(source, current)| {
                foreign_assignment(source, current.other_owner.as_ref(), managed(Some(source), observed), &pool.name)
            });
            target_state = if is_paused { State::Paused } else { State::Behind };
        }
    }
    let content = if named { target.clone() } else { present_target(node, observed) };
    status.drift = status.drift.take().or_else(|| other_content(node, &content));
    if named {
        status.verdict = evaluate(target, node, WaitContext::STATE_ONLY);
        // What is overridden is accepted.
        let is_compared = matches!(node.proof.as_deref(), Some(Proof::Known { .. }));
        status.proven |= is_compared && status.verdict == Convergence::Converged;
    }
    // The source is that of the pool, with another placement.
    if named && status.verdict == Convergence::Waiting(Waiting::NotAssigned) {
        target_state = if is_paused { State::Paused } else { State::Behind };
    }
    if status.verdict != Convergence::Converged {
        status.blocked = blocked_reason(node).or_else(|| outdated_agent(node, target));
    }
    with_state(status, node, target_state)
}

/// Drift of a node whose assignment does not belong to its pool.
fn foreign_assignment(
    source: &ConfigSource,
    other_owner: Option<&Owner>,
    map: Option<&ManagedConfigMap>,
    pool: &PoolName,
) -> Option<Drift> {
    let source = source.clone();
    match other_owner.cloned() {
        Some(owner) => Some(Drift::Elsewhere { source, owner }),
        None => {
            let other = map.and_then(|map| map.pool.as_ref()).filter(|other| *other != pool)?;
            Some(Drift::OtherPool { source, pool: other.clone() })
        }
    }
}

/// Drift of a node that reports other content than its target under the same name. ConfigMaps are immutable, so it was
/// deleted and recreated.
fn other_content(node: &Node, target: &Target) -> Option<Drift> {
    let source = node.source.clone()?;
    let verdict = evaluate(target, node, WaitContext::STATE_ONLY);
    (verdict == Convergence::Waiting(Waiting::OtherContent)).then_some(Drift::OtherContent { source })
}

/// What a node points at, with the content of the ConfigMap that exists now.
fn present_target(node: &Node, observed: &Observed) -> Target {
    let mut target = Target::present(node);
    if let (Target::Source(wanted), Some(map)) = (&mut target, managed(node.source.as_ref(), observed)) {
        wanted.hash = wanted.hash.or_else(|| map.content_hash.as_deref().and_then(ContentHash::parse));
        wanted.uid = Some(map.uid.clone());
    }
    target
}

/// Determines the state of a node and its start. `target_state` is the state if no other state is worse.
fn with_state(mut status: NodeStatus, node: &Node, target_state: State) -> NodeStatus {
    let convergence = match present_state(node) {
        Convergence::Failed(_) => State::Failed,
        Convergence::Waiting(Waiting::Syncing { .. }) => State::CannotFetch,
        Convergence::Waiting(_) => State::InTransition,
        // What the pool does not accept.
        Convergence::Converged if matches!(status.verdict, Convergence::Failed(_)) => State::Failed,
        Convergence::Converged => State::Converged,
    };
    let candidates = [
        (node.ready != Readiness::Ready && !node.is_unreadable()).then_some(State::NotReady),
        status.blocked.is_some().then_some(State::Blocked),
        status.drift.is_some().then_some(State::Drifted),
        (convergence != State::Converged).then_some(convergence),
        (target_state != State::Converged).then_some(target_state),
    ];
    let worst = candidates.into_iter().flatten().min();
    // The comparisons above judge the content.
    status.trial = trial(&Target::named(node.source.as_ref()), node).filter(|_| worst.is_none());
    let worst = worst.unwrap_or(if status.trial.is_some() { State::OnTrial } else { State::Converged });
    // A node that is being deleted need not converge.
    status.state = if node.deleting && !worst.is_converged() { State::Deleting } else { worst };
    status.since = match status.state {
        State::NotReady => node.ready_since,
        // The status time is the start of these states. For other states it is the start of the previous state.
        State::Failed | State::CannotFetch | State::OnTrial | State::Converged => node.status_since,
        State::InTransition if convergence == State::InTransition && node.status.assigned.is_some() => {
            node.status_since.filter(|_| present_state(node) == Convergence::Waiting(Waiting::Activating))
        }
        _ => None,
    };
    status
}

/// Pause of a pool, by the repository or by an order.
fn paused(name: &PoolName, pool: Option<&Pool>, fleet: &FleetName, fleets: &[FleetOrders]) -> Option<Paused> {
    let order = fleets.iter().filter(|orders| orders.fleet == *fleet).find_map(|orders| orders.orders.pause_of(name));
    Paused::of(pool.is_some_and(|pool| pool.policy.is_paused()), order)
}

/// Pools of all nodes, pools of the repository without nodes, and paused pools.
fn pools(
    nodes: &[NodeStatus],
    observed: &Observed,
    wanted: Option<&DesiredFleet<'_>>,
    fleets: &[FleetOrders],
    at: Timestamp,
) -> Vec<PoolStatus> {
    let mut grouped: BTreeMap<(Option<&FleetName>, Option<&PoolName>), Vec<&NodeStatus>> = BTreeMap::new();
    if let Some(wanted) = wanted {
        let known = wanted.desired.pools.keys();
        grouped.extend(known.map(|pool| ((Some(&wanted.desired.fleet), Some(pool)), Vec::new())));
    }
    // A paused pool without nodes: never rolled out, or its ConfigMaps were pruned.
    for orders in fleets {
        grouped.extend(orders.orders.pauses.keys().map(|pool| ((Some(&orders.fleet), Some(pool)), Vec::new())));
    }
    for node in nodes {
        grouped.entry((node.fleet.as_ref(), node.pool.as_ref())).or_default().push(node);
    }
    let mut pools: Vec<PoolStatus> = grouped
        .into_iter()
        .map(|((fleet, name), nodes)| {
            let pool = wanted.zip(name).and_then(|(wanted, name)| wanted.desired.pools.get(name));
            let states = state_counts(nodes.iter().copied());
            let is_sized = pool.is_some_and(|pool| pool.targets.sizes().is_some());
            let only = pool.filter(|_| !is_sized).and_then(|pool| pool.for_node(Capacity::default()));
            let desired = wanted.zip(only).map(|(wanted, pool)| pool_target(&pool, wanted.namespace, observed));
            let mut targets = nodes.iter().filter_map(|node| node.desired.as_ref());
            PoolStatus {
                pool: name.cloned(),
                fleet: fleet.cloned(),
                placement: desired.as_ref().or_else(|| targets.next()).and_then(Target::placement),
                sizes: pool.map(|pool| sizes(pool, &nodes, observed)).unwrap_or_default(),
                desired,
                nodes: nodes.len(),
                converged: states.iter().filter(|(state, _)| state.is_converged()).map(|(_, number)| number).sum(),
                proven: nodes.iter().filter(|node| node.state.is_converged() && node.proven).count(),
                worst: states.keys().next().copied().unwrap_or(State::Converged),
                configurations: configurations(&nodes),
                held: pool.filter(|_| states.contains_key(&State::Behind)).and_then(|pool| held(pool, at)),
                domain: pool.and_then(|pool| DomainStatus::of(pool.policy.order.as_ref()?, &nodes, observed)),
                step: pool.and_then(|pool| StepStatus::of(&pool.policy.steps, &nodes)),
                new_nodes: NewNodes::of(&nodes),
                unproven: UnprovenNodes::of(&nodes),
                paused: name.zip(fleet).and_then(|(name, fleet)| paused(name, pool, fleet, fleets)),
                states,
            }
        })
        .collect();
    // Stable sort: by name otherwise.
    pools.sort_by_key(|pool| (pool.worst, pool.pool.is_none()));
    pools
}

/// Why no change may start now. The class of the pool's change is unknown here, so a pool that permits some classes
/// outside of its windows is not held.
fn held(pool: &Pool, at: Timestamp) -> Option<Hold> {
    pool.policy.schedule.check(at, Class::None, pool.policy.node_time(false)).err()
}

/// Nodes of each size, if the configuration of the pool follows from it.
fn sizes(pool: &Pool, nodes: &[&NodeStatus], observed: &Observed) -> Vec<SizeStatus> {
    let mut by_size: BTreeMap<Capacity, SizeStatus> = BTreeMap::new();
    for node in nodes {
        let of_size = observed.nodes.get(&node.node).and_then(|seen| pool.for_node(seen.capacity));
        let Some((size, desired)) = of_size.and_then(|pool| pool.size).zip(node.desired.clone()) else { continue };
        let status = SizeStatus { size: size.to_string(), desired, nodes: 0, converged: 0 };
        let status = by_size.entry(size).or_insert(status);
        status.nodes += 1;
        status.converged += usize::from(node.state.is_converged());
    }
    by_size.into_values().collect()
}

/// Number of different configurations that nodes run.
fn configurations(nodes: &[&NodeStatus]) -> usize {
    let active = nodes.iter().map(|node| node.active.as_ref().and_then(|source| source.config_map.as_ref()));
    let named = active.map(|map| map.map(|map| (&map.namespace, &map.name, &map.kubelet_config_key)));
    named.collect::<BTreeSet<_>>().len()
}

/// Requested pools and nodes; an empty selection requests all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Pools, each with all its nodes.
    pub pools: BTreeSet<PoolName>,
    /// Single nodes.
    pub nodes: BTreeSet<NodeName>,
    /// Labels that the nodes must have, too.
    pub labels: Option<LabelSelector>,
}

impl Selection {
    /// Reports whether all pools and nodes are requested.
    #[must_use]
    pub fn is_all(&self) -> bool {
        !self.has_names() && self.labels.is_none()
    }

    /// Reports whether pools or nodes are requested by name.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.pools.is_empty() || !self.nodes.is_empty()
    }

    /// First unknown name: its kind, the name, and the known names.
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

    /// Status of the requested nodes, with the complete status of their pools. The labels are those of the observed
    /// nodes.
    #[must_use]
    pub fn of(&self, mut status: FleetStatus, observed: &Observed) -> FleetStatus {
        if self.is_all() {
            return status;
        }
        let is_requested = |pool: Option<&PoolName>| pool.is_some_and(|pool| self.pools.contains(pool));
        let has_labels = |name: &NodeName| {
            let labels = || observed.nodes.get(name).map(|node| &node.labels);
            self.labels.as_ref().is_none_or(|wanted| labels().is_some_and(|labels| wanted.matches(labels)))
        };
        status.nodes.retain(|node| {
            let named = self.nodes.contains(&node.node) || is_requested(node.pool.as_ref());
            (named || !self.has_names()) && has_labels(&node.node)
        });
        let of_nodes: BTreeSet<(Option<FleetName>, Option<PoolName>)> =
            status.nodes.iter().map(|node| (node.fleet.clone(), node.pool.clone())).collect();
        status.pools.retain(|pool| {
            is_requested(pool.pool.as_ref()) || of_nodes.contains(&(pool.fleet.clone(), pool.pool.clone()))
        });
        status.states = state_counts(status.nodes.iter());
        status
    }
}
