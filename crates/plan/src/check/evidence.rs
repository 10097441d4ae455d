//! Invariants of the evidence for a configuration: canaries, domains that have begun, and the moves of pool pointers.

use std::collections::BTreeSet;
use std::fmt;

use crate::check::{Checker, Violation};
use crate::{Action, Plan, PointerTime, PoolPlan, Scope, WaveKind, Why};
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
    let runs = |node: &Node| match pool.target.source() {
        None => node.status.active.is_none(),
        Some(wanted) => node.status.active.as_ref().is_some_and(|active| {
            active.names_same(wanted)
                || pool.left_alone.iter().any(|left| left.node == node.name && matches!(left.why, Why::Adopted { .. }))
        }),
    };
    let placement = pool.target.placement();
    let verified = |node: &Node| {
        let is_placed = |content: NodeContent| placement.is_none() || content.active_placement == placement;
        let is_target = |content: NodeContent| content.active == pool.target.hash() && is_placed(content);
        pool.target.hash().is_none() || node.content.is_none_or(is_target)
    };
    let left = pool.left_alone.iter().filter_map(|left| observed.nodes.get(&left.node));
    let proving =
        left.filter(|node| is_assigned(node) && node.ready == Readiness::Ready && runs(node) && verified(node));
    let waits = pool.waves.iter().any(|wave| matches!(wave.kind, WaveKind::Canary { .. }));
    proving.count() > pool.policy.canaries() && !waits
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
        let has_run = |node: &Node| match (pool.target.source(), node.status.last_known_good.as_ref()) {
            (Some(wanted), Some(good)) => good.names_same(wanted),
            _ => false,
        };
        let nodes = of_pool.into_iter().filter_map(|name| observed.nodes.get(name));
        let proving = nodes.filter(|node| is_assigned(node) && has_run(node) && !contested(node)).count();
        if proving == 0 || proving < pool.policy.canaries() {
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
        let points = |node: &&Node| is_assigned(node) && pool.target.is_assigned_to(node);
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
    let hash = map.text(KUBELET_KEY).map(|text| ContentHash::of(text.as_bytes()).to_string());
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
            let hash = pointer.to.config.as_ref().map(|config| ContentHash::of(config.kubelet.as_bytes()));
            let named = pointer.to.config.as_ref().map(|config| config.hash);
            self.require(
                hash == pool.target.hash() && named == pool.target.hash(),
                &subject,
                "does not name the content of its pool",
            );
            let placement = pointer.to.config.as_ref().and_then(|config| config.placement);
            self.require(placement == pool.target.placement(), &subject, "has another placement than its pool");
            if pointer.when == PointerTime::AtOnce {
                let proven = is_proven(pool, self.observed);
                self.require(proven, &subject, "moves at once although no node proves its content");
            }
        }
    }
}
