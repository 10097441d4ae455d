//! Order in which the nodes of a pool start.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::Decision;
use super::{Action, Domain, LeftAlone, Step, Wave, WaveDomain, WaveKind, Why};
use crate::present::{is_broken, proves};
use kubelet_config::risk::Class;
use nodecfg_contract::Assignment;
use nodecfg_fleet::{NodeOrder, RolloutPolicy};
use nodecfg_observed::Node;

/// Groups the nodes of a pool: broken, in transition, to be assigned, and unchanged.
#[derive(Default)]
pub(super) struct Sorter {
    broken: Vec<Step>,
    in_flight: Vec<Step>,
    assigned: Vec<Step>,
    left_alone: Vec<LeftAlone>,
    /// Converged nodes as potential canaries.
    converged: Vec<Step>,
    /// Number of canaries of the policy, and their soak time in seconds.
    canaries: (usize, u64),
    /// Whether the pool's pointer waits for a proof of the target.
    pointer_due: bool,
    order: Option<NodeOrder>,
    /// Domains of all nodes of the pool, in order. Empty without an order.
    domains: Vec<Domain>,
    /// Positions of the domains with nodes that point at the target.
    begun: BTreeSet<usize>,
}

impl Sorter {
    /// Creates a sorter for the nodes of a pool with this policy. `pointer_due`: whether the pool's pointer waits for a
    /// proof of the target.
    pub(super) fn new<'a>(
        policy: &RolloutPolicy,
        pointer_due: bool,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> Self {
        let canaries = (policy.canaries(), policy.canary.map_or(0, |canary| canary.soak.as_secs()));
        let sorter = Self { canaries, pointer_due, order: policy.order.clone(), ..Self::default() };
        let domains: BTreeSet<Domain> = nodes.into_iter().filter_map(|node| sorter.domain_of(node)).collect();
        Self { domains: domains.into_iter().collect(), ..sorter }
    }

    /// Domain of a node. `None` without an order.
    fn domain_of(&self, node: &Node) -> Option<Domain> {
        Some(Domain::of(&self.order.as_ref()?.by, &node.labels))
    }

    /// Position of a node's domain.
    fn position_of(&self, node: &Node) -> usize {
        self.domain_of(node).and_then(|domain| self.domains.binary_search(&domain).ok()).unwrap_or_default()
    }

    /// Adds a node. `on_target`: whether it points at the target.
    pub(super) fn add(&mut self, node: &Node, decision: Decision, on_target: bool) {
        let (domain, proves) = (self.position_of(node), proves(node));
        if on_target && proves {
            self.begun.insert(domain);
        }
        match decision {
            Decision::LeaveAlone(left) => {
                if matches!(left.why, Why::Adopted { .. }) && proves {
                    self.begun.insert(domain);
                }
                // A node that follows no assignment runs the target by chance, and its canary would never end.
                let is_canary = left.why == Why::Converged && !left.unavailable && proves && node.obstacle.is_none();
                let content = node.content.unwrap_or_default();
                if self.lacks_converged() && is_canary {
                    self.converged.push(Step {
                        node: node.name.clone(),
                        assignment: Assignment {
                            uid: node.uid.clone(),
                            from: node.source.clone(),
                            to: node.source.clone(),
                            from_hash: None,
                            to_hash: None,
                            from_placement: content.placement,
                            to_placement: content.placement,
                            present_placement: Some(node.assigned_placement()),
                            max_disruption: Class::Restart,
                        },
                        domain,
                        action: Action::Await { waiting: None, failure: None },
                        was_ready: true,
                        available: true,
                        can_return: false,
                        rollback_needs: None,
                        rollback_drain: false,
                        drain: false,
                        drain_unknown: false,
                        marked: false,
                    });
                }
                self.left_alone.push(left);
            }
            Decision::Step(step) => self.add_step(node, Step { domain, ..step }),
        }
    }

    fn add_step(&mut self, node: &Node, step: Step) {
        match &step.action {
            Action::Await { failure: None, .. } if proves(node) => self.in_flight.push(step),
            Action::Await { .. } => self.broken.push(step),
            // Starts before all domains, so that a later one follows it.
            Action::Assign if is_broken(node) => {
                self.begun.insert(step.domain);
                self.broken.push(step);
            }
            Action::Assign => self.assigned.push(step),
        }
    }

    pub(super) fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.broken.iter().chain(&self.in_flight).chain(&self.assigned)
    }

    /// Returns the domains and waves in order, and the nodes outside of the waves.
    ///
    /// The progress of an earlier run is read from the cluster alone. Until more nodes have converged than the pool
    /// has canaries, the converged nodes and then other nodes are the canaries, and soak again.
    pub(super) fn waves(mut self) -> (Vec<Domain>, Vec<Wave>, Vec<LeftAlone>) {
        self.in_flight.sort_by_key(|step| step.domain);
        self.assigned.sort_by_key(|step| step.domain);
        let mut waves = Vec::new();
        let mut canaries = Vec::new();
        let mut soak_seconds = 0;
        if self.needs_canaries() {
            let (wanted, soak) = self.canaries;
            canaries = std::mem::take(&mut self.converged);
            // Canaries of a later domain would start beside those of the first one.
            let domains = canaries.iter().chain(&self.in_flight).chain(&self.assigned).map(|step| step.domain);
            let first = domains.min();
            for more in [&mut self.in_flight, &mut self.assigned] {
                let of_first = more.iter().take_while(|step| Some(step.domain) == first).count();
                let missing = wanted.saturating_sub(canaries.len()).min(of_first);
                canaries.extend(more.drain(..missing));
            }
            // Without nodes in the next wave and without a pointer, nothing waits for a soak time.
            let is_awaited = self.pointer_due || !self.assigned.is_empty();
            soak_seconds = if is_awaited { soak } else { 0 };
        }
        self.left_alone.retain(|left| canaries.iter().all(|step| step.node != left.node));
        self.broken.append(&mut self.in_flight);
        self.begun.extend(canaries.iter().map(|canary| canary.domain));
        let mut by_domain: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
        for step in std::mem::take(&mut self.assigned) {
            by_domain.entry(step.domain).or_default().push(step);
        }
        let first = by_domain.keys().next().copied();
        let broken = std::mem::take(&mut self.broken);
        let rest = by_domain
            .into_iter()
            .map(|(domain, steps)| (WaveKind::Rest, self.wave_domain(domain, first == Some(domain)), steps));
        let kinds = [(WaveKind::Unavailable, None, broken), (WaveKind::Canary { soak_seconds }, None, canaries)];
        for (kind, domain, mut steps) in kinds.into_iter().chain(rest) {
            steps.sort_by(|a, b| a.node.cmp(&b.node));
            if !steps.is_empty() {
                waves.push(Wave { kind, domain, steps });
            }
        }
        (self.domains, waves, self.left_alone)
    }

    /// Domain of a wave. A run that continues a rollout soaks before it begins a domain; it cannot tell how long the nodes
    /// of the earlier ones have had the target.
    fn wave_domain(&self, number: usize, is_first: bool) -> Option<WaveDomain> {
        let follows = match is_first {
            true => !self.begun.contains(&number) && self.begun.range(..number).next().is_some(),
            false => true,
        };
        let soak_seconds = if follows { Some(self.order.as_ref()?.soak.as_secs()) } else { None };
        Some(WaveDomain { domain: self.domains.get(number)?.clone(), soak_seconds })
    }

    fn needs_canaries(&self) -> bool {
        let is_needed = self.pointer_due || !self.in_flight.is_empty() || !self.assigned.is_empty();
        is_needed && self.lacks_converged()
    }

    /// Reports whether no more nodes have converged than the pool has canaries. One more proves that the canaries are
    /// done.
    fn lacks_converged(&self) -> bool {
        let (wanted, _) = self.canaries;
        wanted > 0 && self.converged.len() <= wanted
    }
}
