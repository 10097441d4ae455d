//! Invariants of the evidence for a configuration: canaries, domains that have begun, and the moves of pool pointers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::check::{Checker, Violation};
use crate::{Action, Plan, PointerTime, PoolPlan, Scope, SizeTarget, WaveKind, Why};
use kubelet_config::capacity::Capacity;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::labels::{CONTENT_HASH_ANNOTATION, PLACEMENT_ANNOTATION};
use nodecfg_contract::{ContentHash, KUBELET_KEY};
use nodecfg_observed::{ConfigMapKey, Node, NodeContent, Observed, Readiness};

/// Reports whether the reconciler wrote what the node is assigned.
fn is_assigned(node: &Node) -> bool {
    node.content.is_none_or(|content| !content.self_assigned)
}

/// Reports whether more nodes of the pool than canaries run its target by an assignment of the reconciler, and no canary
/// must prove it first.
pub(super) fn is_proven(pool: &PoolPlan, observed: &Observed) -> bool {
    let runs = |node: &Node| match pool.targets.of(&node.name).and_then(|target| target.source()) {
        None => node.status.active.is_none(),
        Some(wanted) => node.status.active.as_ref().is_some_and(|active| {
            active.names_same(wanted)
                || pool.left_alone.iter().any(|left| left.node == node.name && matches!(left.why, Why::Adopted { .. }))
        }),
    };
    let placement = pool.targets.placement();
    let verified = |node: &Node| {
        let is_placed = |content: NodeContent| placement.is_none() || content.active_placement == placement;
        let hash = pool.targets.of(&node.name).and_then(|target| target.hash());
        let is_target = |content: NodeContent| content.active == hash && is_placed(content);
        hash.is_none() || node.content.is_none_or(is_target)
    };
    let left = pool.left_alone.iter().filter_map(|left| observed.nodes.get(&left.node));
    let proving =
        left.filter(|node| is_assigned(node) && node.ready == Readiness::Ready && runs(node) && verified(node));
    let waits = pool.waves.iter().any(|wave| matches!(wave.kind, WaveKind::Canary { .. }));
    are_enough(pool, proving, 1) && !waits
}

/// Reports whether these nodes are as many as the canaries of the pool, and `more` beyond: of one size, if the policy has no
/// canaries and the configuration follows from the size. A size of one node has no canary.
fn are_enough<'a>(pool: &PoolPlan, nodes: impl Iterator<Item = &'a Node>, more: usize) -> bool {
    let mut by_size: BTreeMap<_, usize> = BTreeMap::new();
    for node in nodes {
        *by_size.entry(pool.targets.size_of(&node.name)).or_default() += 1;
    }
    if pool.targets.is_sized() && pool.policy.canary.is_none() {
        let sizes = pool.targets.by_size();
        let of_size = |found: &SizeTarget| by_size.get(&found.size).copied().unwrap_or_default();
        let more = if sizes.iter().any(|size| size.nodes > 1) { more } else { 0 };
        return sizes.iter().any(|found| of_size(found) > more);
    }
    by_size.values().sum::<usize>() >= (pool.policy.canaries() + more).max(1)
}

/// Returns the violations of a plan whose pointers [move first](Plan::returning_pointers): as many nodes of the pool as
/// canaries must have had the configuration as their last known good one.
#[must_use]
pub fn check_returning(plan: &Plan, observed: &Observed) -> Vec<Violation> {
    let mut violations = Vec::new();
    for pool in &plan.pools {
        let is_first = pool.pointer.as_ref().is_some_and(|pointer| pointer.when == PointerTime::AtOnce);
        if !is_first || is_proven(pool, observed) {
            continue;
        }
        let contested = |node: &Node| {
            pool.left_alone.iter().any(|left| left.node == node.name && matches!(left.why, Why::Contested { .. }))
        };
        let mut of_pool: BTreeSet<_> = pool.left_alone.iter().map(|left| &left.node).collect();
        of_pool.extend(pool.steps().map(|step| &step.node));
        let has_run = |node: &Node| {
            let wanted = pool.targets.of(&node.name).and_then(|target| target.source());
            wanted.zip(node.status.last_known_good.as_ref()).is_some_and(|(wanted, good)| good.names_same(wanted))
        };
        let nodes = of_pool.into_iter().filter_map(|name| observed.nodes.get(name));
        let proving = nodes.filter(|node| is_assigned(node) && has_run(node) && !contested(node));
        if !are_enough(pool, proving, 0) {
            let subject = format!("pointer of pool {}", pool.name);
            let problem = "moves first although too few nodes have run its content".to_owned();
            violations.push(Violation { subject, problem });
        }
    }
    violations
}

impl Checker<'_> {
    /// A canary is assigned by the reconciler. A domain begins without a soak only if a node that the reconciler assigned
    /// has begun it, or none has begun an earlier one.
    pub(super) fn evidence(&mut self) {
        for pool in &self.plan.pools {
            let canaries = pool.waves.iter().filter(|wave| matches!(wave.kind, WaveKind::Canary { .. }));
            for step in canaries.flat_map(|wave| &wave.steps) {
                let proves = self.observed.nodes.get(&step.node).is_none_or(is_assigned);
                let holds = proves || step.action == Action::Assign;
                self.require(holds, format_args!("node {}", step.node), "is a canary although it assigned itself");
            }
            self.begun_domains(pool, format_args!("pool {}", pool.name));
        }
    }

    fn begun_domains(&mut self, pool: &PoolPlan, subject: fmt::Arguments<'_>) {
        let Some(order) = &pool.policy.order else { return };
        let Some(first) = pool.waves.iter().find(|wave| wave.kind == WaveKind::Rest) else { return };
        if first.domain.as_ref().is_none_or(|domain| domain.soak_seconds.is_some()) {
            return;
        }
        let domain = |node: &Node| {
            let value = node.labels.get(&order.by).cloned();
            (value.is_none(), value)
        };
        let nodes = &self.observed.nodes;
        let target = |node: &Node| pool.targets.of(&node.name);
        let points = |node: &&Node| is_assigned(node) && target(node).is_some_and(|target| target.is_assigned_to(node));
        let stepped = pool.steps().filter_map(|step| nodes.get(&step.node)).filter(points);
        let left = pool.left_alone.iter().filter_map(|left| {
            let node = nodes.get(&left.node)?;
            let adopted = matches!(left.why, Why::Adopted { .. }) && is_assigned(node);
            let counts = !matches!(left.why, Why::Contested { .. }) && (adopted || points(&node));
            counts.then_some(node)
        });
        // Canaries and broken nodes start before all domains.
        let starts_first = |step: &&crate::Step| step.action == Action::Assign;
        let early = pool.waves.iter().filter(|wave| wave.kind != WaveKind::Rest).flat_map(|wave| &wave.steps);
        let early = early.filter(starts_first).filter_map(|step| nodes.get(&step.node));
        let begun: BTreeSet<_> = stepped.chain(left).chain(early).map(domain).collect();
        let of_first = first.steps.first().and_then(|step| nodes.get(&step.node)).map(domain);
        let follows = of_first.is_some_and(|own| !begun.contains(&own) && begun.range(..&own).next().is_some());
        self.require(!follows, subject, "begins a domain without a soak although no node has begun it");
    }
}

/// Reports whether a pointer has another content or placement than its annotations record.
fn is_forged(map: &FetchedConfigMap) -> bool {
    let is_content = |key: &str| key == KUBELET_KEY || key.starts_with("kubelet.");
    let contents = map.data.iter().filter(|(key, _)| is_content(key));
    let hashes: Vec<String> = contents.map(|(_, text)| ContentHash::of(text.as_bytes()).to_string()).collect();
    let hash = match hashes.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(ContentHash::of(several.join("\n").as_bytes()).to_string()),
    };
    let placement = map.text("placement");
    hash.as_ref() != map.annotations.get(CONTENT_HASH_ANNOTATION)
        || placement != map.annotations.get(PLACEMENT_ANNOTATION).map(String::as_str)
}

impl Checker<'_> {
    /// A pointer that another client changed is reported, and replaced in the version that was read. A pointer moves only to
    /// the reviewed content of its pool. It moves at once only if more nodes of the pool
    /// than canaries run that content by an assignment of the reconciler, and no canary must prove it first.
    pub(super) fn pointers(&mut self) {
        for pool in &self.plan.pools {
            let subject = format!("pointer of pool {}", pool.name);
            let requested = match self.scope {
                Scope::Everything => true,
                Scope::Pools(pools) => pools.contains(&pool.name),
                Scope::Nodes(_) => false,
            };
            let name = format!("nodecfg-pool-{}-{}", self.plan.fleet, pool.name);
            let key = ConfigMapKey { namespace: self.plan.namespace.to_string(), name };
            let map = self.observed.contents.get(&key).and_then(Option::as_ref);
            let forged = map.is_some_and(is_forged) && self.desired.pool_pointers && requested;
            let reported = self.plan.pointer_changes.contains_key(&pool.name);
            self.require(!forged || reported, &subject, "has other content than it records");
            let Some(pointer) = &pool.pointer else { continue };
            let present = map.filter(|map| map.is_managed()).map(|map| &map.resource_version);
            self.require(pointer.resource_version.as_ref() == present, &subject, "does not replace what was read");
            self.require(!forged || pointer.from.is_none(), &subject, "could be restored to what another client wrote");
            let wanted = self.desired.pool_pointers && requested && !pool.is_paused();
            self.require(wanted, &subject, "moves although the pool was not requested, is paused or has no pointer");
            let configs = &pointer.to.configs;
            let named = configs.values().all(|config| ContentHash::of(config.kubelet.as_bytes()) == config.hash);
            let of_size = |found: &SizeTarget| {
                let config = configs.get(&found.size.unwrap_or_default());
                config.map(|config| config.hash) == found.target.hash()
            };
            let rendered = self.desired.pools.get(&pool.name);
            let is_rendered = |size: &Capacity| {
                let target = rendered.and_then(|pool| Some(pool.for_node(*size)?.target.hash()));
                target.flatten() == configs.get(size).map(|config| config.hash)
            };
            let wanted = pool.targets.by_size().iter().all(of_size) && configs.keys().all(is_rendered);
            self.require(named && wanted, &subject, "does not name the content of its pool");
            let placed = configs.values().all(|config| config.placement == pool.targets.placement());
            self.require(placed, &subject, "has another placement than its pool");
            if pointer.when == PointerTime::AtOnce {
                let proven = is_proven(pool, self.observed);
                self.require(proven, &subject, "moves at once although no node proves its content");
            }
        }
    }
}
