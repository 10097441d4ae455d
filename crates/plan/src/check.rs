//! Checker of a plan's invariants. It uses the plan, the selectors, the observation, the scope and the risk table. It
//! runs before every execution, also in production. A violation is a bug in planning and must not reach a cluster.
//!
//! The checker must not call the functions that decide on nodes, order them or compute changes: it would repeat their
//! bugs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::convergence::Target;
use crate::{Action, ChangeSet, ConfigMapPlan, Plan, PoolPlan, Scope, SizeTarget, Step, WaveKind, Why};
use kubelet_config::effective::ValueChange;
use kubelet_config::risk::{self, Class, direction};
use nodecfg_contract::config_map::PoolConfigMap;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::{Assignment, ContentHash, KUBELET_KEY, Placement};
use nodecfg_fleet::drain::DrainMode;
use nodecfg_fleet::{Desired, StartOrder};
use nodecfg_observed::{ConfigMapKey, Node, Observed, Readiness};

mod changed_fields;
mod evidence;

use changed_fields::{PoolChanges, Start};
pub use evidence::check_returning;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Violation {
    /// Subject of the violation: the plan, a pool, a node or a ConfigMap.
    pub subject: String,
    /// Description of the violation.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.problem)
    }
}

struct Checker<'a> {
    plan: &'a Plan,
    desired: &'a Desired,
    observed: &'a Observed,
    scope: &'a Scope,
    /// Owner of the nodes with the same labels. Empty if pools select nodes by name.
    owners: BTreeMap<&'a BTreeMap<String, String>, Option<&'a PoolName>>,
    /// Whether the kubelets of all nodes have the same version.
    same_version: bool,
    violations: Vec<Violation>,
}

/// Returns every violated invariant of a plan for `scope`; an empty result allows the plan to run.
#[must_use]
pub fn check(plan: &Plan, desired: &Desired, observed: &Observed, scope: &Scope) -> Vec<Violation> {
    let owners = owners(desired, observed);
    let mut versions = observed.nodes.values().map(|node| node.kubelet_version);
    let first = versions.next();
    let same_version = versions.all(|version| Some(version) == first);
    let mut checker = Checker { plan, desired, observed, scope, owners, same_version, violations: Vec::new() };
    checker.identity();
    checker.every_node_once();
    checker.config_maps();
    for pool in &plan.pools {
        checker.pool(pool);
    }
    checker.scope();
    checker.releases();
    checker.evidence();
    checker.pointers();
    checker.prunable();
    checker.violations
}

/// Reports whether the node may count as available.
fn is_usable(node: &Node) -> bool {
    let claimed = node.deleting || node.cordoned || node.maintainer.is_some() || node.has_drain_taint();
    node.ready == Readiness::Ready && !claimed && !node.is_unreadable()
}

/// Reports whether the pool drains nodes for changes that need it.
fn drains_nodes(pool: &PoolPlan) -> bool {
    pool.policy.allow_disruption >= Class::Drain && pool.policy.drain.mode == DrainMode::Evict
}

/// Pool that selects the node, if every other pool that does has a lower priority.
fn owner<'a>(desired: &'a Desired, node: &Node) -> Option<&'a PoolName> {
    let selecting = || desired.pools.values().filter(|pool| pool.selects(&node.name, &node.labels));
    let highest = selecting().map(|pool| pool.priority).max()?;
    let mut owners = selecting().filter(|pool| pool.priority == highest);
    owners.next().filter(|_| owners.next().is_none()).map(|pool| &pool.name)
}

/// Owner of the nodes with the same labels, because thousands of nodes have few different ones.
fn owners<'a>(
    desired: &'a Desired,
    observed: &'a Observed,
) -> BTreeMap<&'a BTreeMap<String, String>, Option<&'a PoolName>> {
    let mut owners = BTreeMap::new();
    if desired.selects_by_labels() {
        for node in observed.nodes.values() {
            owners.entry(&*node.labels).or_insert_with(|| owner(desired, node));
        }
    }
    owners
}

impl Checker<'_> {
    fn require(&mut self, holds: bool, subject: impl fmt::Display, problem: impl fmt::Display) {
        if !holds {
            self.violations.push(Violation { subject: subject.to_string(), problem: problem.to_string() });
        }
    }

    fn identity(&mut self) {
        let same = self.plan.content_id() == self.plan.id;
        self.require(same, "plan", "its id is not the hash of its content");
    }

    /// Each observed node is in the plan exactly once, no other node is, and the node count of each pool is right.
    fn every_node_once(&mut self) {
        let mut planned_nodes: Vec<&NodeName> = Vec::with_capacity(self.observed.nodes.len());
        for pool in &self.plan.pools {
            let planned = pool.steps().map(|step| &step.node).chain(pool.left_alone.iter().map(|left| &left.node));
            let before = planned_nodes.len();
            planned_nodes.extend(planned);
            let count = planned_nodes.len() - before;
            self.require(count == pool.nodes, format_args!("pool {}", pool.name), "its node count is wrong");
        }
        planned_nodes.extend(self.plan.unpooled.iter().map(|unpooled| &unpooled.node));
        // Nodes of a pool are almost sorted. Both sequences are walked once, because searches for 65,000 names are slow.
        planned_nodes.sort();
        let mut observed = self.observed.nodes.keys().peekable();
        for same in planned_nodes.chunk_by(|a, b| a == b) {
            let Some(node) = same.first() else { continue };
            while let Some(missing) = observed.next_if(|name| name < node) {
                self.require(false, format_args!("node {missing}"), "is missing from the plan");
            }
            let times = same.len();
            self.require(times == 1, format_args!("node {node}"), format_args!("occurs {times} times in the plan"));
            let found = observed.next_if_eq(node).is_some();
            self.require(found, format_args!("node {node}"), "was not observed");
        }
        for missing in observed {
            self.require(false, format_args!("node {missing}"), "is missing from the plan");
        }
    }

    /// Every step is for a requested node, no requested node is skipped as out of scope, and a pool without requested
    /// nodes has no ConfigMap. Interprets the scope without the methods of `Scope`.
    fn scope(&mut self) {
        let requested = |pool: &PoolPlan, node: &NodeName| match self.scope {
            Scope::Everything => true,
            Scope::Pools(pools) => pools.contains(&pool.name),
            Scope::Nodes(nodes) => nodes.contains(node),
        };
        let mut outside: Vec<String> = Vec::new();
        let mut skipped: Vec<&NodeName> = Vec::new();
        for pool in &self.plan.pools {
            outside.extend(
                pool.steps().filter(|step| !requested(pool, &step.node)).map(|step| format!("node {}", step.node)),
            );
            let left = pool.left_alone.iter().filter(|left| left.why == Why::OutOfScope);
            skipped.extend(left.map(|left| &left.node).filter(|node| requested(pool, node)));
            let none = !pool.left_alone.is_empty() && pool.left_alone.iter().all(|left| left.why == Why::OutOfScope);
            if none && pool.waves.is_empty() {
                let maps = self.plan.config_maps.iter().filter(|planned| planned.map.pool == pool.name);
                outside.extend(maps.map(|planned| format!("ConfigMap {}", planned.map.config.config_map)));
            }
        }
        for subject in outside {
            self.require(false, subject, "was not requested");
        }
        for node in skipped {
            self.require(false, format_args!("node {node}"), "was requested but is skipped");
        }
    }

    /// Each ConfigMap occurs once, and its name and hash match its content. It is created if it is missing, and is not
    /// being deleted.
    fn config_maps(&mut self) {
        let mut names = BTreeSet::new();
        for ConfigMapPlan { map, create } in &self.plan.config_maps {
            let PoolConfigMap { config, namespace, fleet, pool, commit, path: _ } = map;
            let subject = format_args!("ConfigMap {}", config.config_map);
            self.require(names.insert(&config.config_map), subject, "is planned twice");
            let name = format!("{fleet}-{pool}-{}", config.hash.short());
            self.require(config.config_map == name, subject, format_args!("is not named {name}"));
            let ours = (&self.plan.namespace, &self.plan.fleet, &self.plan.commit);
            self.require((namespace, fleet, commit) == ours, subject, "is not of this plan");
            let hash = ContentHash::of(config.kubelet.as_bytes());
            self.require(hash == config.hash, subject, "its content has another hash");
            let key = ConfigMapKey { namespace: namespace.to_string(), name };
            let existing = self.observed.contents.get(&key).and_then(Option::as_ref);
            self.require(*create == existing.is_none(), subject, "its creation contradicts its existence");
            self.require(existing.is_none_or(|map| !map.deleting), subject, "is being deleted");
        }
    }

    fn pool(&mut self, pool: &PoolPlan) {
        let subject = format_args!("pool {}", pool.name);
        self.require(pool.budget >= 1, subject, "has no budget");
        self.require(
            pool.budget == pool.policy.max_unavailable.of(pool.nodes),
            subject,
            "its budget differs from its policy",
        );
        if pool.policy.is_paused() {
            self.require(pool.assignments() == 0, subject, "is paused and changes nodes");
        }
        let ordered = self.observed.orders.pause_of(&pool.name);
        self.require(pool.paused.as_ref() == ordered, subject, "its pause is stated wrongly");
        if ordered.is_some() && !pool.despite_pause {
            self.require(pool.assignments() == 0, subject, "is paused by order and changes nodes");
        }
        let order: Vec<u8> = pool
            .waves
            .iter()
            .map(|wave| match wave.kind {
                WaveKind::Unavailable => 0,
                WaveKind::Canary { .. } => 1,
                WaveKind::Rest => 2,
            })
            .collect();
        let repeats = |a: &u8, b: &u8| pool.policy.order.is_some() && (*a, *b) == (2, 2);
        self.require(order.is_sorted_by(|a, b| a < b || repeats(a, b)), subject, "its waves are out of order");
        self.domains(pool, subject);
        self.start_order(pool, subject);

        for of_size in pool.targets.by_size() {
            self.target(pool, of_size, subject);
        }
        self.disruption(pool, subject);
        self.removals(pool, subject);
        let changes = PoolChanges::of(pool, self.same_version);
        for wave in &pool.waves {
            if let WaveKind::Canary { .. } = wave.kind {
                self.canaries(pool, &wave.steps, subject);
            }
            for step in &wave.steps {
                self.step(pool, &changes, wave.kind, step);
            }
        }
        self.left_alone(pool);
    }

    /// With an order by a label, each step has the position of its domain, and the last waves are the domains in order,
    /// each with the soak time of the policy after another one.
    fn domains(&mut self, pool: &PoolPlan, subject: fmt::Arguments<'_>) {
        let Some(order) = &pool.policy.order else {
            let none = pool.waves.iter().all(|wave| wave.domain.is_none()) && pool.steps().all(|step| step.domain == 0);
            return self.require(none, subject, "has domains without an order");
        };
        let value = |step: &Step| self.observed.nodes.get(&step.node).and_then(|node| node.labels.get(&order.by));
        let mut numbers: Vec<_> =
            pool.steps().map(|step| ((value(step).is_none(), value(step)), step.domain)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let ascends = numbers.windows(2).all(|pair| match pair {
            [(a, first), (b, second)] => a < b && first < second,
            _ => true,
        });
        let mut last = None;
        let mut right = true;
        for wave in &pool.waves {
            let expected = (wave.kind == WaveKind::Rest).then(|| wave.steps.first()).flatten();
            let of_wave = wave.domain.as_ref();
            right &= of_wave.is_some() == expected.is_some();
            let (Some(of_wave), Some(step)) = (of_wave, expected) else { continue };
            let after_another = last.is_some();
            right &= wave.steps.iter().all(|other| other.domain == step.domain) && last < Some(step.domain);
            right &= of_wave.domain.value.as_ref() == value(step) && of_wave.domain.label == order.by;
            let follows = of_wave.soak_seconds == Some(order.soak.as_secs());
            right &= follows || (!after_another && of_wave.soak_seconds.is_none());
            last = Some(step.domain);
        }
        self.require(ascends, subject, "its domains are out of order");
        self.require(right, subject, "its waves differ from its domains");
    }

    /// The nodes of each wave are in the order of the policy.
    fn start_order(&mut self, pool: &PoolPlan, subject: fmt::Arguments<'_>) {
        let created = |step: &Step| self.observed.nodes.get(&step.node).and_then(|node| node.created);
        let is_before = |a: &Step, b: &Step| match (pool.policy.start_order, created(a), created(b)) {
            (StartOrder::Newest, Some(of_a), Some(of_b)) if of_a != of_b => of_a > of_b,
            (StartOrder::Oldest, Some(of_a), Some(of_b)) if of_a != of_b => of_a < of_b,
            (StartOrder::Newest | StartOrder::Oldest, of_a, of_b) if of_a.is_some() != of_b.is_some() => of_a.is_some(),
            _ => a.node < b.node,
        };
        let in_order = pool.waves.iter().all(|wave| wave.steps.is_sorted_by(is_before));
        self.require(in_order, subject, "its nodes are out of order");
    }

    /// A pool has as many canaries as its policy says. Without such a policy, it has one canary of each size.
    fn canaries(&mut self, pool: &PoolPlan, steps: &[Step], subject: fmt::Arguments<'_>) {
        let mut sizes: Vec<_> = steps.iter().map(|step| pool.targets.size_of(&step.node)).collect();
        sizes.sort();
        let by_size = pool.policy.canary.is_none() && sizes.windows(2).all(|pair| matches!(pair, [a, b] if a != b));
        let fits = steps.len() <= pool.policy.canaries() || (by_size && sizes.iter().all(Option::is_some));
        self.require(fits, subject, "has more canaries than its policy");
    }

    /// Invariant 2: the ConfigMap is in the plan whenever a node is assigned to it. The target names it by namespace,
    /// name and key, without uid and version.
    fn target(&mut self, pool: &PoolPlan, of_size: &SizeTarget, subject: fmt::Arguments<'_>) {
        let Some(source) = of_size.target.source() else { return };
        let Some(map) = &source.config_map else {
            self.require(false, subject, "its target names no ConfigMap");
            return;
        };
        let planned = self
            .plan
            .config_maps
            .iter()
            .any(|planned| planned.map.config.config_map == map.name && planned.map.pool == pool.name);
        let is_assigned = |step: &Step| step.action == Action::Assign && step.assignment.to.as_ref() == Some(source);
        self.require(planned || !pool.steps().any(is_assigned), subject, "its ConfigMap is not in the plan");
        let ours = map.namespace == self.plan.namespace.as_str() && map.kubelet_config_key == KUBELET_KEY;
        self.require(ours, subject, "its target is in another namespace or under another key");
        self.require(map.uid.is_none() && map.resource_version.is_none(), subject, "its target pins a version");
        let hash = of_size.target.hash().map(|hash| hash.short());
        let named = hash.is_some_and(|hash| map.name == format!("{}-{}-{hash}", self.plan.fleet, pool.name));
        self.require(named, subject, "its target is not named by its hash");
    }

    /// The changes cover the active configuration of every assigned node, and each risk matches the risk table.
    /// `refused` is true if and only if the highest class exceeds the policy.
    fn disruption(&mut self, pool: &PoolPlan, subject: fmt::Arguments<'_>) {
        for step in pool.steps().filter(|step| step.action == Action::Assign) {
            let node = self.observed.nodes.get(&step.node);
            let runs = node.and_then(|node| node.status.active.as_ref());
            let placement = node.map(Node::active_placement);
            let size = pool.targets.size_of(&step.node);
            let same = |set: &ChangeSet| match (&set.from, runs) {
                _ if set.size != size => false,
                (Some(from), Some(runs)) => from.names_same(runs) && set.placement == placement,
                (None, None) => true,
                _ => false,
            };
            let counted = pool.changes.iter().any(same);
            self.require(
                counted,
                format_args!("node {}", step.node),
                "its current configuration is missing from the changes",
            );
        }
        let mut worst = None;
        for set in &pool.changes {
            let merged = pool.targets.placement().map(|placement| placement == Placement::Overlay);
            let right = merged.is_none_or(|merged| merged == set.merged);
            self.require(right, subject, "its changes are merged in another way than its placement says");
            let readable = set.from.is_some() || set.is_sampled();
            let known = readable && set.from_known && !pool.targets.is_local();
            for field in &set.fields {
                let path = &field.change.path;
                let class = |pair: &ValueChange| risk::of_change(path, pair.old.as_deref(), pair.new.as_deref()).class;
                let expected = field.in_effect.iter().map(class).max().unwrap_or(Class::None);
                // Merged over the node's own configuration, a field that one side omits has an unknown value there.
                let known = known
                    && match (&field.change.old, &field.change.new) {
                        (None, Some(_)) => set.is_sampled() || set.placement == Some(Placement::Replace),
                        (Some(_), None) => !set.merged || field.no_effect || !field.in_effect.is_empty(),
                        _ => true,
                    };
                let right = field.risk.as_ref().map(|risk| risk.class) == known.then_some(expected);
                self.require(right, subject, format_args!("the risk of {path} differs from the risk table"));
                // A change without an effect keeps its value, although perhaps in another notation.
                let old = field.old_default.as_ref().or(field.change.old.as_ref());
                let new = field.new_default.as_ref().or(field.change.new.as_ref());
                let same = old.zip(new).is_none_or(|(old, new)| direction(old, new).is_none());
                self.require(!field.no_effect || same, subject, format_args!("the change of {path} has an effect"));
                self.require(
                    !known || field.no_effect == field.in_effect.is_empty(),
                    subject,
                    format_args!("the effect of {path} is stated wrongly"),
                );
                worst = worst.max(known.then_some(expected));
            }
        }
        self.require(pool.disruption.worst == worst, subject, "its highest class is not the highest of its changes");
        let beyond = worst.is_some_and(|worst| worst > pool.policy.allow_disruption);
        self.require(pool.disruption.refused == beyond, subject, "its refusal contradicts its policy");
    }

    /// `rollback_needs` is the highest class of the reverted changes if it exceeds the policy, and unset otherwise. Nodes with
    /// different own values return to one overlay by different changes.
    fn rollback_disruption(&mut self, pool: &PoolPlan, changes: &PoolChanges<'_>, step: &Step) {
        let pointed = step.assignment.from.as_ref().filter(|_| step.can_return);
        let size = pool.targets.size_of(&step.node);
        let same = |(of_size, from, placement): Start<'_>| {
            let is_pointed = pointed.is_some_and(|pointed| from.names_same(pointed));
            of_size == size && is_pointed && placement == step.assignment.present_placement
        };
        let of_start = changes.reverted.iter().filter(|(from, _)| same(*from)).map(|(_, class)| *class);
        let classes: BTreeSet<Option<Class>> = of_start.collect();
        let beyond = |class: &Option<Class>| class.filter(|class| *class > pool.policy.allow_disruption);
        self.require(
            match classes.is_empty() {
                true => step.rollback_needs.is_none(),
                false => classes.iter().any(|class| beyond(class) == step.rollback_needs),
            },
            format_args!("node {}", step.node),
            "the disruption of its rollback is stated wrongly",
        );
        let least = classes.first().copied().flatten();
        let needed = step.drain || (least >= Some(Class::Drain) && drains_nodes(pool));
        self.require(
            step.rollback_drain || !needed,
            format_args!("node {}", step.node),
            "is rolled back without the drain that it needs",
        );
    }

    /// Reports whether the pool selects the node, and every other pool that does has a lower priority.
    fn belongs(&self, pool: &PoolPlan, node: &Node) -> bool {
        let owner = self.owners.get(&*node.labels).copied().unwrap_or_else(|| owner(self.desired, node));
        owner == Some(&pool.name)
    }

    fn step(&mut self, pool: &PoolPlan, changes: &PoolChanges<'_>, wave: WaveKind, step: &Step) {
        let subject = format_args!("node {}", step.node);
        let Some(node) = self.observed.nodes.get(&step.node) else { return };
        let ready = node.ready == Readiness::Ready;
        let Assignment { uid, from, to, to_hash, from_placement, to_placement, max_disruption, .. } = &step.assignment;
        let content = node.content.unwrap_or_default();
        let starts_there = *from == node.source && *from_placement == content.placement;
        let is_same = !uid.is_empty() && *uid == node.uid;
        self.require(!node.deleting, subject, "is being deleted");
        self.require(node.obstacle.is_none(), subject, "does not follow assignments");
        self.require(node.maintainer.is_none(), subject, "is maintained by another program");
        self.require(self.belongs(pool, node), subject, "is not selected by its pool alone");
        // Invariant 3: the precondition is what the plan observed.
        self.require(is_same, subject, "is not the Node that was observed");
        self.require(starts_there, subject, "does not start from the observed source");
        self.require(step.was_ready == ready, subject, "its readiness is stated wrongly");
        self.require(!step.available || is_usable(node), subject, "is not available but called available");
        let Some(target) = pool.targets.of(&step.node) else {
            return self.require(false, subject, "has a step without a target");
        };
        let of_size = self.desired.pools.get(&pool.name).and_then(|pool| pool.for_node(node.capacity));
        let rendered = of_size.and_then(|pool| pool.target.hash());
        self.require(target.hash() == rendered, subject, "has another target than its size");
        match &step.action {
            Action::Await { .. } => {
                let arrived = target.is_named_by(from.as_ref());
                self.require(arrived, subject, "is awaited without pointing at the target");
            }
            Action::Assign => {
                self.rollback_disruption(pool, changes, step);
                let same = node.content.is_none_or(|content| {
                    content.assigned == *to_hash
                        && content.placement == *to_placement
                        && content.max_disruption.unwrap_or(Class::Restart) >= *max_disruption
                });
                let again = same && target.is_named_by(from.as_ref());
                self.require(!again, subject, "is assigned its current source");
                // What runs is what was reviewed, with the disruption that the repository allows.
                self.require(*to_hash == target.hash(), subject, "is assigned other content than its pool's");
                let wanted = target.placement();
                let placed = match &**target {
                    Target::Local => to_placement.is_none(),
                    Target::Source(_) => *to_placement == wanted.or(content.placement),
                };
                self.require(placed, subject, "is assigned another placement than its pool's");
                let knows = wanted.is_none() || node.content.is_none() || !content.lacks_placements();
                self.require(knows, subject, "is assigned a placement that its agent does not know");
                let drains = drains_nodes(pool);
                let prepared = if drains && !step.drain { Class::Restart } else { pool.policy.allow_disruption };
                let allowed = *max_disruption == prepared;
                self.require(allowed, subject, "may be disrupted more or less than its pool allows");
                self.require(drains || !step.drain, subject, "is drained although its pool drains no nodes");
                let runs = node.status.active.as_ref();
                let size = pool.targets.size_of(&step.node);
                let is_start = |(of_size, source, placement): &Start<'_>| {
                    let runs = runs.is_some_and(|runs| source.names_same(runs));
                    *of_size == size && *placement == Some(node.active_placement()) && runs
                };
                let needed = changes.needing_drain.iter().any(is_start);
                self.require(!needed || step.drain, subject, "is changed without the drain that it needs");
                // Invariant 4: a node that needs budget must not be in the wave without budget.
                self.require(
                    wave != WaveKind::Unavailable || !step.available,
                    subject,
                    "is available but starts without budget",
                );
                let waits = wave != WaveKind::Unavailable;
                let able = ready && !node.cordoned && !node.has_drain_taint();
                self.require(!waits || able, subject, "is unavailable but waits for budget");
                self.require(to.as_ref() == target.source(), subject, "is not pointed at its pool's target");
            }
        }
    }

    /// Every mark of this fleet is either needed by a step or released, and no other node is released. A mark without its
    /// taint serves no step.
    fn releases(&mut self) {
        let stepped: BTreeSet<&NodeName> =
            self.plan.pools.iter().flat_map(PoolPlan::steps).map(|step| &step.node).collect();
        let released: BTreeSet<&NodeName> = self.plan.releases.iter().map(|release| &release.node).collect();
        for node in self.observed.nodes.values() {
            let mark = node.drain_mark.as_ref().filter(|_| !node.deleting);
            let ours = mark.and_then(|mark| mark.drain.as_ref()).is_some_and(|drain| drain.fleet == self.plan.fleet);
            let is_tainted = mark.is_some_and(|mark| mark.tainted);
            let expected = ours && !(is_tainted && stepped.contains(&node.name));
            let subject = format_args!("node {}", node.name);
            self.require(released.contains(&node.name) == expected, subject, "the release of its mark is wrong");
        }
        for release in &self.plan.releases {
            let same = self.observed.nodes.get(&release.node).is_some_and(|node| node.uid == release.uid);
            self.require(same, format_args!("node {}", release.node), "is not the Node that is released");
        }
    }

    /// Invariant 5: prunable ConfigMaps belong to this fleet, and no node refers to them.
    fn prunable(&mut self) {
        // Builds a set first, because there may be thousands of ConfigMaps and nodes.
        let keys = self.observed.references.keys();
        let mut used: BTreeSet<(&str, &str)> = keys.map(|key| (&*key.namespace, &*key.name)).collect();
        for source in self.observed.nodes.values().flat_map(Node::sources) {
            used.extend(source.config_map.as_ref().map(|map| (&*map.namespace, &*map.name)));
        }
        let unknown = self.observed.nodes.values().any(Node::is_unreadable);
        self.require(!unknown || self.plan.prunable.is_empty(), "plan", "prunes while a node is unreadable");
        for name in &self.plan.prunable {
            let subject = format_args!("ConfigMap {name}");
            let key = ConfigMapKey { namespace: self.plan.namespace.to_string(), name: name.clone() };
            let ours =
                self.observed.config_maps.get(&key).is_some_and(|map| map.fleet.as_ref() == Some(&self.plan.fleet));
            self.require(ours, subject, "would be pruned but does not belong to this fleet");
            let used = used.contains(&(&*key.namespace, &*key.name));
            self.require(!used, subject, "would be pruned while a node refers to it");
        }
    }
}

impl Checker<'_> {
    /// A node that is called available is usable, a converged one runs the target of its pool with its placement, and the
    /// completion of a NodeConfig changes nothing that runs.
    fn left_alone(&mut self, pool: &PoolPlan) {
        for left in &pool.left_alone {
            let usable = self.observed.nodes.get(&left.node).is_none_or(is_usable);
            self.require(
                left.unavailable || usable,
                format_args!("node {}", left.node),
                "is not available but called available",
            );
            if let Some(added) = &left.completion {
                let node = self.observed.nodes.get(&left.node);
                let content = node.and_then(|node| node.content).unwrap_or_default();
                let same = node.is_some_and(|node| node.uid == added.uid && node.source == added.from);
                let same = same && content.placement == added.from_placement;
                let hash = pool.targets.of(&left.node).and_then(|target| target.hash());
                let placement = pool.targets.placement();
                let placed = added.to_placement == placement.or(content.placement);
                let to_target = added.to_hash == hash && placed;
                self.require(
                    same && added.from.is_some() && added.from == added.to && to_target,
                    format_args!("node {}", left.node),
                    "the completion of its NodeConfig changes more than hash and placement",
                );
                let kept = content.placement.is_none() || content.placement == placement;
                let runs = placement.is_none() || content.active_placement == placement && kept;
                self.require(
                    content.active == hash && runs,
                    format_args!("node {}", left.node),
                    "gets the hash or the placement of what it does not run",
                );
            }
            if let (Why::Converged, Some(node)) = (&left.why, self.observed.nodes.get(&left.node)) {
                let placement = node.content.and_then(|content| content.active_placement);
                let wanted = pool.targets.placement();
                let target = pool.targets.of(&left.node);
                let placed = node.content.is_none() || wanted.is_none() || placement == wanted;
                self.require(
                    target.is_some_and(|target| target.is_named_by(node.source.as_ref())) && placed,
                    format_args!("node {}", left.node),
                    "is called converged but points elsewhere",
                );
            }
        }
    }
}
