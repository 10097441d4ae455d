//! Nodes that must be drained for their change, and marks of earlier drains.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::config_maps::ConfigMapIndex;
use super::disruption::has_other_content;
use super::present::{Start, current_configurations};
use super::returning::Returning;
use super::{Action, Plan, PoolPlan, Release, Wave, WaveKind, sample};
use crate::changes::{returning_fields, worst};
use crate::target::pool_placement;
use kubelet_config::Minor;
use kubelet_config::risk::Class;
use nodecfg_contract::names::{FleetName, NodeName};
use nodecfg_contract::{ConfigSource, Placement};
use nodecfg_fleet::{PoolTarget, Rendered, SizedPool};
use nodecfg_observed::{Drain, Node, Observed, OwnValues};

/// Decides which nodes of a pool are drained. Compares each configuration once, because thousands of nodes share a few.
pub(super) struct DrainNeeds<'a> {
    pool: &'a SizedPool<'a>,
    index: &'a ConfigMapIndex<'a>,
    /// How the nodes must combine the configuration of the pool with their own.
    placement: Placement,
    /// Whether the riskiest answer of the pool's kubelets on a configuration that the plan does not know needs a drain. No
    /// entry without an answer.
    sampled: BTreeMap<Start, bool>,
    returning: RefCell<Returning<'a>>,
    known: RefCell<BTreeMap<Comparison, DrainNeed>>,
}

/// What decides the need of a change from a known ConfigMap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Comparison {
    from: Start,
    own: Option<OwnValues>,
    kubelet: Option<Minor>,
}

/// Whether a node is drained before its assignment, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainNeed {
    /// The change needs no drained node.
    None,
    /// The present or the future configuration is unknown.
    Unknown,
    /// A changed field needs it.
    Known,
}

impl DrainNeed {
    fn of_change(needs_drain: bool) -> Self {
        if needs_drain { Self::Known } else { Self::None }
    }
}

impl<'a> DrainNeeds<'a> {
    /// `nodes`: the nodes of the pool with this target.
    pub(super) fn new(
        pool: &'a SizedPool<'a>,
        nodes: impl IntoIterator<Item = &'a Node>,
        index: &'a ConfigMapIndex<'a>,
    ) -> Self {
        let placement = pool_placement(pool, index.observed());
        let mut asked: BTreeMap<Start, Vec<&Node>> = BTreeMap::new();
        for node in nodes.into_iter().filter(|node| index.observed().running.contains_key(&node.name)) {
            for start in current_configurations(node).into_iter().filter(|from| is_sampled(node, from)) {
                asked.entry(start).or_default().push(node);
            }
        }
        asked.retain(|_, _| pool.policy.drains_nodes());
        let needs = |(from, nodes): (Start, Vec<&Node>)| {
            let needs = sampled(pool, nodes, &from, placement, index)?;
            Some((from, needs))
        };
        let sampled = asked.into_iter().filter_map(needs).collect();
        let new = pool.target.rendered().map(|rendered| &rendered.document);
        let returning = RefCell::new(Returning::new(index, new, placement));
        Self { pool, index, placement, sampled, returning, known: RefCell::default() }
    }

    /// Returns whether a node is drained before it is assigned the target: the pool drains nodes, and the change needs
    /// it or is unknown. An agent counts an unknown change as one that needs a drain, too.
    pub(super) fn of(&self, node: &Node) -> DrainNeed {
        let current = current_configurations(node).into_iter().filter(|_| self.pool.policy.drains_nodes());
        current.map(|from| self.needs(node, from)).max().unwrap_or(DrainNeed::None)
    }

    fn needs(&self, node: &Node, from: Start) -> DrainNeed {
        let PoolTarget::Config(rendered) = &*self.pool.target else { return DrainNeed::Unknown };
        let source = from.from.as_ref().filter(|source| !has_other_content(node, source, self.index));
        let known = source.map(|source| self.known(node, source, &from, rendered));
        if let Some(known) = known.filter(|known| *known != DrainNeed::Unknown || !may_be_sampled(&from)) {
            return known;
        }
        // Only the kubelet itself knows what the node runs. The answer of another kubelet may be wrong for this node, so
        // it counts only where an agent compares again, and refuses.
        let own = Some(&from).filter(|from| is_sampled(node, from));
        match own.and_then(|from| sampled(self.pool, std::iter::once(node), from, self.placement, self.index)) {
            Some(needs_drain) => DrainNeed::of_change(needs_drain),
            None if node.content.is_some() && self.sampled.get(&from) == Some(&false) => DrainNeed::None,
            None => DrainNeed::Unknown,
        }
    }

    /// Whether a change from this ConfigMap needs a drain.
    fn known(&self, node: &Node, source: &ConfigSource, from: &Start, rendered: &Rendered) -> DrainNeed {
        let own = self.returning.borrow_mut().of(node, from);
        let key = Comparison { from: from.clone(), own, kubelet: node.known_minor() };
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let needs = self.index.document(source).map_or(DrainNeed::Unknown, |old| {
            let new = (&rendered.document, self.placement);
            let minors = BTreeSet::from([key.kubelet]);
            let fields = returning_fields((&old, from.placement), new, key.own.as_ref(), &minors);
            let is_unknown = from.may_change_more(self.placement) || fields.iter().any(|field| field.risk.is_none());
            match DrainNeed::of_change(worst(&fields) >= Some(Class::Drain)) {
                DrainNeed::None if is_unknown => DrainNeed::Unknown,
                needs => needs,
            }
        });
        self.known.borrow_mut().insert(key, needs);
        needs
    }
}

/// Reports whether the answer of a node's kubelet tells what a change of this configuration needs.
fn is_sampled(node: &Node, from: &Start) -> bool {
    Start::active(node) == *from && may_be_sampled(from)
}

/// Reports whether only a kubelet knows what a node with this configuration runs: the local one, or one that is merged over
/// the node's own.
fn may_be_sampled(from: &Start) -> bool {
    from.from.is_none() || from.placement == Some(Placement::Overlay)
}

/// Whether the riskiest answer of these nodes needs a drain. `None` without an answer, and if it leaves the risk of a field
/// unknown.
fn sampled<'a>(
    pool: &SizedPool<'_>,
    nodes: impl IntoIterator<Item = &'a Node>,
    from: &Start,
    placement: Placement,
    index: &ConfigMapIndex<'_>,
) -> Option<bool> {
    let PoolTarget::Config(rendered) = &*pool.target else { return None };
    let assigned = from.from.as_ref().and_then(|source| index.document(source));
    let new = (&rendered.document, placement);
    let (fields, _) = sample::changes_of(nodes.into_iter(), index.observed(), assigned.as_ref(), new)?;
    let fields = fields?;
    let needs_drain = worst(&fields) >= Some(Class::Drain);
    (needs_drain || fields.iter().all(|field| field.risk.is_some())).then_some(needs_drain)
}

/// Drain of a node by this fleet.
pub(super) fn drain_by<'a>(node: &'a Node, fleet: &FleetName) -> Option<&'a Drain> {
    node.drain_mark.as_ref()?.in_effect().filter(|drain| drain.fleet == *fleet)
}

/// Drain of a node by another fleet.
pub(super) fn drain_by_other<'a>(node: &'a Node, fleet: &FleetName) -> Option<&'a Drain> {
    node.drain_mark.as_ref()?.in_effect().filter(|drain| drain.fleet != *fleet)
}

/// Marks of this fleet that no step of the plan needs: on nodes without a step, and annotations without the taint, which
/// have no effect. A node with a step keeps its mark for the rollout, which releases it. Nodes being deleted are omitted.
pub(super) fn releases(plan: &Plan, observed: &Observed) -> Vec<Release> {
    let stepped: BTreeSet<&NodeName> = plan.pools.iter().flat_map(|pool| pool.steps()).map(|step| &step.node).collect();
    let release = |node: &Node| {
        let mark = node.drain_mark.as_ref()?;
        let drain = mark.drain.as_ref().filter(|drain| drain.fleet == plan.fleet)?;
        let is_needed = mark.tainted && stepped.contains(&node.name);
        let (node, uid, since) = (node.name.clone(), node.uid.clone(), drain.since);
        (!is_needed).then_some(Release { node, uid, since, tainted: mark.tainted })
    };
    observed.nodes.values().filter(|node| !node.deleting).filter_map(release).collect()
}

impl PoolPlan {
    /// Least time that the drains of the pool take: each node that takes budget keeps it for the settle time, and canaries
    /// delay the other nodes for the soak time. Evictions, restarts and unavailable nodes make it longer.
    #[must_use]
    pub fn least_drain_time(&self) -> Duration {
        let budget = self.budget.max(1);
        let least = |wave: &Wave| {
            let nodes = wave.steps.iter().filter(|step| step.drain && step.available).count();
            self.policy.drain.settle.saturating_mul(u32::try_from(nodes.div_ceil(budget)).unwrap_or(u32::MAX))
        };
        let is_canary = |wave: &&Wave| matches!(wave.kind, WaveKind::Canary { .. });
        let canaries = self.waves.iter().find(is_canary).map(least).unwrap_or_default();
        let rest =
            self.waves.iter().filter(|wave| wave.kind == WaveKind::Rest && wave.steps.iter().any(|step| step.drain));
        let rest = rest.map(|wave| {
            let soak = wave.domain.as_ref().map_or(0, |domain| domain.soak_seconds.unwrap_or_default());
            least(wave).saturating_add(Duration::from_secs(soak))
        });
        let rest = rest.fold(Duration::ZERO, Duration::saturating_add);
        let soak = self.waves.iter().find_map(|wave| match wave.kind {
            WaveKind::Canary { soak_seconds } if wave.steps.iter().any(|step| step.action == Action::Assign) => {
                Some(Duration::from_secs(soak_seconds))
            }
            _ => None,
        });
        let is_delayed =
            self.waves.iter().any(|wave| wave.kind == WaveKind::Rest && wave.steps.iter().any(|step| step.drain));
        canaries.max(soak.filter(|_| is_delayed).unwrap_or_default()).saturating_add(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{
        canary, desired, namespace, node, observed, on, options, policy, pool, rendered, with_config_map,
    };
    use super::super::{Scope, check, make};
    use super::*;
    use crate::drain::fixtures::mark;
    use nodecfg_fleet::drain::DrainPolicy;
    use nodecfg_fleet::{Desired, RolloutPolicy};
    use nodecfg_observed::drain::DRAIN_TAINT;
    use nodecfg_observed::{DrainMark, Readiness};

    /// Least time of the drains of five nodes, of which one is not Ready, two at a time.
    fn least(policy: RolloutPolicy) -> (usize, u64) {
        let mut cluster = observed((1..=5).map(|number| node(&format!("n{number}"), "a")));
        for node in cluster.nodes.values_mut().take(1) {
            node.ready = Readiness::NotReady;
        }
        let plan = make(&desired([pool("a", 64, policy)]), &cluster, &options()).unwrap();
        (plan.pools[0].drains(), plan.pools[0].least_drain_time().as_secs())
    }

    #[test]
    fn least_time_of_drains_is_the_settle_time_within_the_budget() {
        let policy = RolloutPolicy { allow_disruption: Class::Drain, ..policy(2) };
        assert_eq!(least(policy.clone()), (5, 60));
        let drain = DrainPolicy { settle: Duration::from_secs(120), ..DrainPolicy::default() };
        assert_eq!(least(RolloutPolicy { drain: drain.clone(), ..policy.clone() }), (5, 240));
        assert_eq!(least(RolloutPolicy { canary: canary(1, 600), ..policy.clone() }), (5, 660));
        assert_eq!(least(RolloutPolicy { canary: canary(1, 60), drain, ..policy.clone() }), (5, 360));
        assert_eq!(least(RolloutPolicy { allow_disruption: Class::Restart, ..policy }), (0, 0));
    }

    #[test]
    fn annotation_alone_has_no_effect_and_is_removed() {
        let desired = desired([pool("a", 64, RolloutPolicy { allow_disruption: Class::Drain, ..policy(2) })]);
        let converged = on(node("n2", "a"), &rendered("a", 64).source(&namespace()));
        let forged = DrainMark { tainted: false, ..mark("a") };
        let nodes =
            [node("n1", "a"), converged].map(|node| Node { drain_mark: Some(Box::new(forged.clone())), ..node });
        let mut cluster = observed(nodes);
        with_config_map(&mut cluster, "a", &rendered("a", 64));
        let plan = make(&desired, &cluster, &options()).unwrap();
        assert_eq!(check(&plan, &desired, &cluster, &Scope::Everything), []);
        let releases: Vec<_> = plan.releases.iter().map(|release| (release.node.as_str(), release.tainted)).collect();
        assert_eq!(releases, [("n1", false), ("n2", false)], "the drain of n1 marks it again");
        let step = plan.pools[0].steps().next().unwrap();
        assert!(step.available && !step.marked, "a kubelet may write annotations, but no {DRAIN_TAINT}");

        let only_releases = Plan { pools: Vec::new(), ..plan };
        assert!(only_releases.has_changes() && !only_releases.drains_nodes(), "a kubelet must not require more rights");
        let other = Desired { fleet: FleetName::new("other").unwrap(), ..desired };
        assert_eq!(make(&other, &cluster, &options()).unwrap().releases, [], "the mark of another fleet");
    }
}
