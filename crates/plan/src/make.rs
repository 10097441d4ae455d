//! Construction of a plan: pool membership, decision per node, order of steps, and problems that prevent a plan.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::config_maps::ConfigMapIndex;
use super::decide::{Decision, PoolPause, Rules, decide};
use super::drains::{DrainNeeds, releases};
use super::losses::loss_warnings;
use super::membership::{Membership, belongs, membership};
use super::pointers::{PublishedPointer, pointer_move};
use super::problem::Problem;
use super::prune::{KEEP, PruneOptions, prune};
use super::verdicts::{PoolReservations, Refusals, override_warnings};
use super::waves::Sorter;
use super::{
    Action, ConfigMapPlan, DoubtfulSelection, LeftAlone, Plan, PlanId, PoolPlan, Unpooled, Why, disruption, selection,
    verdicts,
};
use crate::convergence::Target;
use crate::options::Options;
use crate::options::Scope;
use crate::present::{Start, refuses};
use crate::target::{SizeGroup, SizeGroups, pool_target};
use crate::{ChangeSet, Disruption, Targets};
use kubelet_config::risk::Class;
use nodecfg_contract::Placement;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_fleet::{Desired, Pool, PoolTarget, dedupe};
use nodecfg_observed::{ConfigMapKey, Node, Observed};

/// Makes the plan. The result may be too disruptive to run: see [`Plan::refusals`].
///
/// # Errors
/// All [`Problem`]s that prevent the plan, not only the first.
pub fn make(desired: &Desired, observed: &Observed, options: &Options) -> Result<Plan, Vec<Problem>> {
    let members = membership(desired, &observed.nodes);
    let index = ConfigMapIndex::new(desired, observed);
    let doubtful = selection::doubtful(desired, &members, options);
    let mut problems = safety_problems(desired, observed, &members, &doubtful, options);
    if problems.is_empty() {
        problems.extend(selection::required_nodes(desired, &doubtful));
    }
    let contested = contested_by_pool(&members, &options.scope);

    let mut config_maps: BTreeMap<String, ConfigMapPlan> = BTreeMap::new();
    let mut pools = Vec::new();
    let mut findings = Vec::new();
    let mut pointer_changes = BTreeMap::new();
    let mut wanted = BTreeSet::new();
    for (name, nodes) in &members.pools {
        let Some(pool) = desired.pools.get(*name) else { continue };
        let contested = contested.get(name).map(Vec::as_slice).unwrap_or_default();
        let members = Members { pool, sizes: SizeGroups::of(pool, nodes), contested };
        wanted.extend(members.sizes.config_maps());
        let pointer = PublishedPointer::of(desired, &members.sizes, pool, observed, options);
        let pointer_due = pointer.as_ref().is_some_and(|pointer| pointer.is_due);
        let mut planned = plan_pool(&members, observed, &index, pointer_due, options);
        // A problem of a pool that is left unchanged must not block another pool.
        if !options.scope.touches(name, nodes.iter().map(|node| &node.name)) {
            pools.push(planned);
            continue;
        }
        findings.extend(members.sizes.warning.clone());
        let overlays = pool.placement == Some(Placement::Overlay) && !planned.targets.is_local();
        if overlays && observed.default_placement() == Placement::Replace {
            problems.push(Problem::OverlayOnNodes { pool: pool.name.clone() });
        }
        let assigned = planned.targets.split(planned.steps().filter(|step| step.action == Action::Assign));
        for (group, assigned) in members.sizes.groups.iter().zip(&assigned) {
            let PoolTarget::Config(rendered) = &*group.pool.target else { continue };
            let assigned = assigned.len();
            let accepted = || on_target(group, &planned.targets).map(|node| node.name.clone()).collect();
            match index.need(pool, rendered, &options.namespace, assigned, accepted) {
                Ok(map) if assigned > 0 => {
                    config_maps.insert(map.map.config.config_map.clone(), map);
                }
                Ok(_) => {}
                Err(problem) => problems.push(problem),
            }
        }
        if let Some(pointer) = pointer {
            if let Some(change) = pointer.change() {
                findings.push(change.warning(pool, &options.namespace));
                pointer_changes.insert(pool.name.clone(), change);
            }
            match pointer_move(pointer, desired, &planned, observed, options) {
                Ok(moved) => planned.pointer = moved,
                Err(problem) => problems.push(problem),
            }
        }
        findings.extend(verdicts::advice(&members.sizes));
        findings.extend(loss_warnings(pool, planned.changes.iter().flat_map(|set| &set.fields)));
        let mut refused = Vec::new();
        for (group, steps) in members.sizes.groups.iter().zip(planned.targets.split(planned.steps())) {
            let assigned = steps.iter().filter(|step| step.action == Action::Assign);
            let assigned = assigned.filter_map(|step| observed.nodes.get(&step.node));
            findings.extend(override_warnings(&group.pool, assigned));
            let (found, problem) =
                verdicts::check_pool(group, &members.sizes, observed, (&planned, &steps), options.gate);
            findings.extend(found);
            refused.extend(problem);
        }
        // One size is an example of the others.
        problems.extend(refused.into_iter().next());
        pools.push(planned);
    }
    if !problems.is_empty() {
        return Err(problems);
    }

    let warning =
        |doubt: &DoubtfulSelection| Some(selection::warning(desired.pools.get(&doubt.pool)?, doubt, &observed.nodes));
    findings.extend(doubtful.iter().filter_map(warning));
    let unpooled = members.unpooled.iter().map(|node| unpooled(node, desired, observed)).collect();
    let prunable = prunable(desired, observed, &options.namespace, wanted);
    let mut plan = Plan {
        id: PlanId::unset(),
        fleet: desired.fleet.clone(),
        commit: desired.commit.clone(),
        namespace: options.namespace.clone(),
        config_maps: config_maps.into_values().collect(),
        max_unavailable: desired.max_unavailable,
        pools,
        unpooled,
        releases: Vec::new(),
        doubtful,
        prunable,
        pointer_changes,
        findings: dedupe(findings),
    };
    plan.releases = releases(&plan, observed);
    Ok(plan.identified())
}

/// Node with the pools that contest it.
type ContestedNode<'a> = (&'a Node, &'a [&'a PoolName]);

/// Contested nodes by the pool that reports them: the first of their pools that is in scope for the node, or else the
/// first one.
fn contested_by_pool<'a>(members: &'a Membership<'a>, scope: &Scope) -> BTreeMap<&'a PoolName, Vec<ContestedNode<'a>>> {
    let mut by_pool: BTreeMap<_, Vec<ContestedNode<'a>>> = BTreeMap::new();
    for (node, pools) in &members.contested {
        let in_scope = pools.iter().find(|pool| scope.holds(pool, &node.name));
        if let Some(pool) = in_scope.or_else(|| pools.first()) {
            by_pool.entry(*pool).or_default().push((*node, pools.as_slice()));
        }
    }
    by_pool
}

/// Nodes of a group that the reconciler pointed at their target. What the own agent of a node wrote as it joined is no
/// reason to treat the others otherwise.
fn on_target<'a>(group: &'a SizeGroup<'_>, targets: &'a Targets) -> impl Iterator<Item = &'a Node> {
    let points = |node: &Node| {
        !node.is_self_assigned()
            && targets.of(&node.name).is_some_and(|target| target.is_named_by(node.source.as_ref()))
    };
    group.nodes.iter().copied().filter(move |node| points(node))
}

/// Decides again on one node of a pool after its assignment conflicted with another client. If the current ConfigMap
/// of the node was not read, only its metadata can prove that it has the desired content. Returns `None` if the
/// repository no longer has the pool, or if the node left the pool and does not point at its target.
#[must_use]
pub fn decide_again(
    desired: &Desired,
    observed: &Observed,
    options: &Options,
    pool: &PoolName,
    node: &Node,
) -> Option<Decision> {
    let pool = desired.pools.get(pool)?;
    // The plan is for the size that the node had. A later one follows in the next run.
    let capacity = observed.nodes.get(&node.name).map_or(node.capacity, |planned| planned.capacity);
    let Some(pool) = &pool.for_node(capacity) else {
        return Some(Decision::LeaveAlone(LeftAlone::new(node, Why::SizeUnknown { missing: None })));
    };
    let target = pool_target(pool, &options.namespace, observed);
    // A node that already points at the target was assigned and must be watched.
    if !target.is_assigned_to(node) && !belongs(desired, &pool.name, node) {
        return None;
    }
    if !options.scope.holds(&pool.name, &node.name) {
        return Some(out_of_scope(node));
    }
    let rules = rules_of(&desired.fleet, pool, &target, observed, options);
    let index = ConfigMapIndex::new(desired, observed);
    let members = observed.nodes.values().filter(|other| pool.selects(&other.name, &other.labels));
    let needs = DrainNeeds::new(pool, members, &index);
    let decision = decide(node, &rules, |source| index.current_source(source, pool), || needs.of(node));
    // The kubelet of the node may have changed.
    if let (Decision::Step(step), PoolTarget::Config(rendered)) = (&decision, &*pool.target)
        && step.action == Action::Assign
        && let Some(why) =
            verdicts::refusal(node, rendered).or_else(|| PoolReservations::new(&pool.target).refusal(node))
    {
        return Some(Decision::LeaveAlone(LeftAlone::new(node, why)));
    }
    Some(decision)
}

fn rules_of<'a>(
    fleet: &'a FleetName,
    pool: &'a Pool,
    target: &'a Target,
    observed: &'a Observed,
    options: &Options,
) -> Rules<'a> {
    Rules {
        target,
        pause: pause_of(pool, observed, options),
        take_over: options.take_over,
        policy: &pool.policy,
        fleet,
    }
}

/// Pause state of a pool.
fn pause_of<'a>(pool: &Pool, observed: &'a Observed, options: &Options) -> PoolPause<'a> {
    let order = observed.orders.pause_of(&pool.name).filter(|_| !options.despite_pause.contains(&pool.name));
    PoolPause::of(Some(pool), order)
}

/// Leaves a node outside of the requested scope unchanged. If the node is unavailable, it still counts against the
/// budget.
fn out_of_scope(node: &Node) -> Decision {
    Decision::LeaveAlone(LeftAlone::new(node, Why::OutOfScope))
}

/// Leaves a node unchanged that several pools select.
fn contested_node(node: &Node, pools: &[&PoolName]) -> Decision {
    let why = if node.deleting {
        Why::Deleting
    } else {
        Why::Contested { pools: pools.iter().map(|pool| (*pool).clone()).collect() }
    };
    Decision::LeaveAlone(LeftAlone::new(node, why))
}

/// Problems that suggest a bad checkout or a wrong selector: pools that select no nodes. Such a plan would leave
/// the pools' nodes without a pool.
fn safety_problems(
    desired: &Desired,
    observed: &Observed,
    members: &Membership<'_>,
    doubtful: &[DoubtfulSelection],
    options: &Options,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if options.allow_empty {
        return problems;
    }
    if desired.pools.is_empty() {
        problems.push(Problem::NoPools);
        return problems;
    }
    let whole = options.scope.is_everything();
    if whole && !observed.nodes.is_empty() && members.unpooled.len() == observed.nodes.len() {
        problems.push(Problem::NothingSelected { nodes: observed.nodes.len(), pools: desired.pools.len() });
        return problems;
    }
    let empty: BTreeSet<&PoolName> = members
        .pools
        .iter()
        .filter(|(pool, nodes)| nodes.is_empty() && options.scope.touches(pool, []))
        .map(|(pool, _)| *pool)
        .collect();
    if empty.is_empty() {
        return problems;
    }
    let mut lost: BTreeMap<&PoolName, Vec<&NodeName>> = BTreeMap::new();
    for node in &members.unpooled {
        if let Some(pool) = pool_of_source(desired, observed, node).and_then(|pool| empty.get(pool)) {
            lost.entry(pool).or_default().push(&node.name);
        }
    }
    for (pool, nodes) in lost {
        if let Some(example) = nodes.first() {
            problems.push(Problem::PoolLostItsNodes {
                pool: pool.clone(),
                nodes: nodes.len(),
                example: (*example).clone(),
                near: doubtful
                    .iter()
                    .find(|doubt| doubt.pool == *pool)
                    .and_then(|doubt| doubt.near.clone().map(Box::new)),
            });
        }
    }
    problems
}

/// Pool of this fleet whose ConfigMap a node points at.
fn pool_of_source<'a>(desired: &Desired, observed: &'a Observed, node: &Node) -> Option<&'a PoolName> {
    let map = observed.config_maps.get(&ConfigMapKey::of(node.source.as_ref()?)?)?;
    if map.fleet.as_ref() == Some(&desired.fleet) { map.pool.as_ref() } else { None }
}

fn unpooled(node: &Node, desired: &Desired, observed: &Observed) -> Unpooled {
    let pool = pool_of_source(desired, observed, node);
    Unpooled { node: node.name.clone(), still_on: pool.map(ToString::to_string) }
}

/// ConfigMaps that `nodecfg prune` with this repository and default options deletes. `wanted`: those of its pools.
fn prunable(
    desired: &Desired,
    observed: &Observed,
    namespace: &NamespaceName,
    wanted: BTreeSet<String>,
) -> Vec<String> {
    // An unreadable node may refer to any ConfigMap.
    if observed.nodes.values().any(Node::is_unreadable) {
        return Vec::new();
    }
    let mut references = observed.references.clone();
    for node in observed.nodes.values() {
        references.add(node.name.as_str(), node.sources());
    }
    let pointers = observed.pointers.keys().filter_map(|key| observed.contents.get(key)?.as_ref());
    pointers.for_each(|pointer| references.add_pointer(pointer));
    let options = PruneOptions {
        fleet: desired.fleet.clone(),
        namespace: namespace.clone(),
        keep: KEEP as usize,
        wanted,
        pools: BTreeSet::new(),
    };
    let delete = prune(observed.config_maps.values().chain(observed.pointers.values()), &references, &options).delete;
    delete.into_iter().map(|map| map.name).collect()
}

/// Nodes of a pool, and the contested nodes that it reports.
struct Members<'a> {
    pool: &'a Pool,
    sizes: SizeGroups<'a>,
    contested: &'a [ContestedNode<'a>],
}

fn plan_pool(
    members: &Members<'_>,
    observed: &Observed,
    index: &ConfigMapIndex<'_>,
    pointer_due: bool,
    options: &Options,
) -> PoolPlan {
    let Members { pool, sizes, contested } = members;
    let targets = sizes.targets(&options.namespace, observed);
    let nodes = sizes.groups.iter().flat_map(|group| &group.nodes).chain(sizes.left_out.iter().map(|(node, _)| node));
    let nodes = nodes.copied();
    let all = nodes.chain(contested.iter().map(|(node, _)| *node));
    let number = all.clone().count();
    let is_paused = pause_of(pool, observed, options).is_paused();
    let mut sorter = Sorter::new(&pool.policy, &targets, pointer_due && !is_paused, all);
    for (group, of_size) in sizes.groups.iter().zip(targets.by_size()) {
        sort_nodes(group, &of_size.target, observed, index, options, &mut sorter);
    }
    for (node, why) in &sizes.left_out {
        let decision = match options.scope.holds(&pool.name, &node.name) {
            true => Decision::LeaveAlone(LeftAlone::new(node, if node.deleting { Why::Deleting } else { why.clone() })),
            false => out_of_scope(node),
        };
        sorter.add(node, decision, false);
    }
    for (node, pools) in contested.iter() {
        let decision =
            if options.scope.holds(&pool.name, &node.name) { contested_node(node, pools) } else { out_of_scope(node) };
        sorter.add(node, decision, false);
    }
    let (mut changes, mut unready, mut reversals) = (Vec::new(), 0, BTreeMap::new());
    // Without a node on the target, a change of the reservations is one of the repository, and refused for the pool.
    let has_begun =
        pool.targets.sizes().is_some() && sizes.groups.iter().any(|group| on_target(group, &targets).next().is_some());
    let mut resized: Vec<(ChangeSet, Class)> = Vec::new();
    let assigned = targets.split(sorter.all_steps().filter(|step| step.action == Action::Assign));
    for (group, assigned) in sizes.groups.iter().zip(assigned) {
        let assigned = assigned.into_iter().filter_map(|step| observed.nodes.get(&step.node));
        let of_size = disruption::assess(&group.pool, assigned, index);
        unready += of_size.unready;
        reversals.extend(of_size.reversals);
        for set in of_size.sets {
            let of_pool = pool.targets.sizes().filter(|_| has_begun);
            match of_pool.and_then(|of_pool| disruption::of_resize(&set, of_pool, &pool.policy)) {
                Some(needs) => resized.push((set, needs)),
                None => changes.push(set),
            }
        }
    }
    if !resized.is_empty() {
        sorter.leave_alone(observed, |step| {
            let (size, start) = (targets.size_of(&step.node), Start::of(&step.assignment));
            let is_of =
                |set: &ChangeSet| set.size == size && set.from == start.from && set.placement == start.placement;
            let (_, needs) = resized.iter().find(|(set, _)| is_of(set))?;
            Some(Why::Resized { needs: *needs, allowed: pool.policy.allow_disruption })
        });
    }
    let (domains, mut waves, left_alone) = sorter.waves();
    disruption::assess_rollbacks(pool, waves.iter_mut().flat_map(|wave| &mut wave.steps), &reversals);
    PoolPlan {
        name: pool.name.clone(),
        nodes: number,
        budget: pool.policy.max_unavailable.of(number),
        policy: pool.policy.clone(),
        paused: observed.orders.pause_of(&pool.name).cloned(),
        despite_pause: options.despite_pause.contains(&pool.name),
        disruption: Disruption::of(&changes, unready, &pool.policy),
        changes,
        domains,
        waves,
        left_alone,
        targets,
        pointer: None,
    }
}

/// Decides on the nodes of one size.
fn sort_nodes(
    group: &SizeGroup<'_>,
    target: &Target,
    observed: &Observed,
    index: &ConfigMapIndex<'_>,
    options: &Options,
    sorter: &mut Sorter,
) {
    let SizeGroup { pool, nodes, .. } = group;
    let rules = rules_of(&index.desired().fleet, pool, target, observed, options);
    let needs = DrainNeeds::new(pool, nodes.iter().copied(), index);
    let refusals = OnceCell::new();
    let refusal = |node| refusals.get_or_init(|| Refusals::new(group, options.gate)).refusal(node);
    for node in nodes.iter().copied() {
        let mut decision = if options.scope.holds(&pool.name, &node.name) {
            decide(node, &rules, |source| index.current_source(source, pool), || needs.of(node))
        } else {
            out_of_scope(node)
        };
        if let Decision::Step(step) = &decision
            && step.action == Action::Assign
            && let Some(why) = group.reservations.refusal(node).or_else(|| refusal(node))
        {
            decision = Decision::LeaveAlone(LeftAlone::new(node, why));
        }
        if let Decision::Step(step) = &mut decision {
            let returns =
                |source| index.is_readable(source) && (node.content.is_none() || step.assignment.from_hash.is_some());
            step.can_return = node.source.as_ref().is_none_or(returns) && !refuses(node);
        }
        sorter.add(node, decision, target.is_assigned_to(node));
    }
}
