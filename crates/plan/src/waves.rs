//! Order in which the nodes of a pool start.

use std::collections::{BTreeMap, BTreeSet};

use super::decide::Decision;
use super::{Action, Domain, LeftAlone, Step, Wave, WaveDomain, WaveKind, Why};
use crate::Targets;
use crate::present::{is_broken, proves};
use kubelet_config::risk::Class;
use nodecfg_contract::Assignment;
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::{NodeOrder, RolloutPolicy, StartOrder};
use nodecfg_observed::{Node, Observed};

/// Canaries of a pool: a number of its nodes, or one node of each size if the policy sets none. The only node of a size
/// proves nothing for others, and could stop the pool with a capacity that no other node has.
#[derive(Debug, Default)]
pub(super) struct Canaries {
    /// Number of canaries of each group.
    pub each: usize,
    /// Size of each node, if the sizes are the groups. Otherwise, the nodes are one group.
    by_size: Option<Targets>,
}

impl Canaries {
    pub(super) fn of(policy: &RolloutPolicy, targets: &Targets) -> Self {
        match targets.is_sized() && policy.canary.is_none() {
            true => {
                let has_several = targets.by_size().iter().any(|size| size.nodes > 1);
                Self { each: usize::from(has_several), by_size: Some(targets.clone()) }
            }
            false => Self { each: policy.canaries(), by_size: None },
        }
    }

    /// Number of canaries of a group.
    fn of_group(&self, group: usize) -> usize {
        let size = self.by_size.as_ref().and_then(|targets| targets.by_size().get(group));
        if size.is_some_and(|size| size.nodes < 2) { 0 } else { self.each }
    }

    pub(super) fn group_of(&self, node: &NodeName) -> usize {
        self.by_size.as_ref().and_then(|targets| targets.position(node)).unwrap_or_default()
    }

    /// Reports whether a group has more than a number of these nodes.
    pub(super) fn have_more_than<'n>(&self, number: usize, nodes: impl Iterator<Item = &'n NodeName>) -> bool {
        let mut by_group = vec![0; self.groups()];
        for node in nodes {
            by_group.get_mut(self.group_of(node)).into_iter().for_each(|count| *count += 1);
        }
        by_group.iter().any(|count| *count > number)
    }

    fn groups(&self) -> usize {
        self.by_size.as_ref().map_or(1, |targets| targets.by_size().len())
    }
}

/// What orders a node by its age. `None` for the order by name, and if its age is unknown.
fn age(node: &Node, order: StartOrder) -> Option<i64> {
    let created = node.created?.timestamp().as_second();
    match order {
        StartOrder::Name => None,
        StartOrder::Newest => Some(-created),
        StartOrder::Oldest => Some(created),
    }
}

/// Groups the nodes of a pool: broken, in transition, to be assigned, and unchanged.
#[derive(Default)]
pub(super) struct Sorter {
    broken: Vec<Step>,
    in_flight: Vec<Step>,
    assigned: Vec<Step>,
    left_alone: Vec<LeftAlone>,
    /// Converged nodes as potential canaries, by group.
    converged: BTreeMap<usize, Vec<Step>>,
    canaries: Canaries,
    /// Soak time of the canaries in seconds.
    soak_seconds: u64,
    /// Whether the pool's pointer waits for a proof of the target.
    pointer_due: bool,
    order: Option<NodeOrder>,
    /// Domains of all nodes of the pool, in order. Empty without an order.
    domains: Vec<Domain>,
    /// Positions of the domains with nodes that point at the target.
    begun: BTreeSet<usize>,
    /// Second of the creation of each node, negated if the newest come first. Empty for the order by name.
    ages: BTreeMap<NodeName, i64>,
}

impl Sorter {
    /// Creates a sorter for the nodes of a pool with this policy. `pointer_due`: whether the pool's pointer waits for a
    /// proof of the target.
    pub(super) fn new<'a>(
        policy: &RolloutPolicy,
        targets: &Targets,
        pointer_due: bool,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> Self {
        let (canaries, soak_seconds) = (Canaries::of(policy, targets), policy.canary_soak().as_secs());
        let sorter = Self { canaries, soak_seconds, pointer_due, order: policy.order.clone(), ..Self::default() };
        let (mut domains, mut ages) = (BTreeSet::new(), BTreeMap::new());
        for node in nodes {
            domains.extend(sorter.domain_of(node));
            ages.extend(age(node, policy.start_order).map(|age| (node.name.clone(), age)));
        }
        Self { domains: domains.into_iter().collect(), ages, ..sorter }
    }

    /// Domain of a node. `None` without an order.
    fn domain_of(&self, node: &Node) -> Option<Domain> {
        Some(Domain::of(&self.order.as_ref()?.by, &node.labels))
    }

    /// Position of a node's domain.
    fn position_of(&self, node: &Node) -> usize {
        self.domain_of(node).and_then(|domain| self.domains.binary_search(&domain).ok()).unwrap_or_default()
    }

    /// Adds a node. `on_target`: whether it points at its target.
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
                let group = is_canary.then(|| self.canaries.group_of(&node.name));
                if let Some(group) = group.filter(|group| self.lacks_converged(*group)) {
                    self.converged.entry(group).or_default().push(Step {
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
                        self_assigned: false,
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

    /// Leaves nodes unchanged that would be assigned, for the reasons that `why` gives.
    pub(super) fn leave_alone(&mut self, observed: &Observed, why: impl Fn(&Step) -> Option<Why>) {
        for steps in [&mut self.broken, &mut self.assigned] {
            steps.retain(|step| {
                let why = Some(step).filter(|step| step.action == Action::Assign).and_then(&why);
                let left = why.zip(observed.nodes.get(&step.node)).map(|(why, node)| LeftAlone::new(node, why));
                let stays = left.is_none();
                self.left_alone.extend(left);
                stays
            });
        }
    }

    pub(super) fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.broken.iter().chain(&self.in_flight).chain(&self.assigned)
    }

    /// Domain of the canaries: canaries of two domains would be in transition together. It is that of canaries which have
    /// converged, or the first with enough nodes, or the first with most nodes. A node chooses its zone by its labels, and
    /// must not be the only canary.
    fn domain_of_canaries(&self, converged: &[Step], missing: &BTreeMap<usize, usize>) -> Option<usize> {
        if let Some(domain) = converged.iter().map(|step| step.domain).min() {
            return Some(domain);
        }
        let mut nodes: BTreeMap<usize, usize> = BTreeMap::new();
        let candidates = self.in_flight.iter().chain(&self.assigned);
        for step in candidates.filter(|step| missing.contains_key(&self.canaries.group_of(&step.node))) {
            *nodes.entry(step.domain).or_default() += 1;
        }
        let wanted = missing.values().sum::<usize>();
        let enough = nodes.iter().find(|(_, nodes)| **nodes >= wanted);
        let most = || nodes.iter().max_by_key(|(domain, nodes)| (**nodes, std::cmp::Reverse(**domain)));
        enough.or_else(most).map(|(domain, _)| *domain)
    }

    /// Returns the domains and waves in order, and the nodes outside of the waves.
    ///
    /// The progress of an earlier run is read from the cluster alone. Until more nodes have converged than the pool
    /// has canaries, the converged nodes and then other nodes are the canaries, and soak again.
    pub(super) fn waves(mut self) -> (Vec<Domain>, Vec<Wave>, Vec<LeftAlone>) {
        // Without a time of its creation, a node comes last.
        let ages = std::mem::take(&mut self.ages);
        let age = |step: &Step| ages.get(&step.node).copied().unwrap_or(i64::MAX);
        let in_order = |a: &Step, b: &Step| (age(a), &a.node).cmp(&(age(b), &b.node));
        for steps in [&mut self.in_flight, &mut self.assigned] {
            steps.sort_by(|a, b| a.domain.cmp(&b.domain).then_with(|| in_order(a, b)));
        }
        let mut waves = Vec::new();
        let mut canaries = Vec::new();
        let mut soak_seconds = 0;
        if self.needs_canaries() {
            let lacking: BTreeSet<usize> = self.groups().filter(|group| self.lacks_converged(*group)).collect();
            canaries = lacking.iter().filter_map(|group| self.converged.remove(group)).flatten().collect();
            let mut missing: BTreeMap<usize, usize> =
                lacking.into_iter().map(|group| (group, self.canaries.of_group(group))).collect();
            for step in &canaries {
                missing.entry(self.canaries.group_of(&step.node)).and_modify(|left| *left = left.saturating_sub(1));
            }
            let domain = self.domain_of_canaries(&canaries, &missing);
            for more in [&mut self.in_flight, &mut self.assigned] {
                let is_canary = |step: &Step| {
                    let left = missing.get_mut(&self.canaries.group_of(&step.node)).filter(|left| **left > 0);
                    let Some(left) = left.filter(|_| Some(step.domain) == domain) else { return false };
                    *left -= 1;
                    true
                };
                let (of_canaries, others) = std::mem::take(more).into_iter().partition(is_canary);
                (*more, canaries) = (others, [canaries, of_canaries].concat());
            }
            // Without nodes in the next wave and without a pointer, nothing waits for a soak time.
            let is_awaited = self.pointer_due || !self.assigned.is_empty();
            soak_seconds = if is_awaited { self.soak_seconds } else { 0 };
        }
        self.left_alone.retain(|left| canaries.iter().all(|step| step.node != left.node));
        self.broken.append(&mut self.in_flight);
        self.begun.extend(canaries.iter().map(|canary| canary.domain));
        let mut by_domain: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
        for step in std::mem::take(&mut self.assigned) {
            by_domain.entry(step.domain).or_default().push(step);
        }
        let first = by_domain.keys().next().copied();
        let after_canaries = !canaries.is_empty();
        let broken = std::mem::take(&mut self.broken);
        let rest = by_domain.into_iter().map(|(domain, steps)| {
            (WaveKind::Rest, self.wave_domain(domain, first == Some(domain), after_canaries), steps)
        });
        let kinds = [(WaveKind::Unavailable, None, broken), (WaveKind::Canary { soak_seconds }, None, canaries)];
        for (kind, domain, mut steps) in kinds.into_iter().chain(rest) {
            steps.sort_by(in_order);
            if !steps.is_empty() {
                waves.push(Wave { kind, domain, steps });
            }
        }
        (self.domains, waves, self.left_alone)
    }

    /// Domain of a wave. A run that continues a rollout soaks before it begins a domain; it cannot tell how long the nodes
    /// of the earlier ones have had the target. So does the first one after canaries of another.
    fn wave_domain(&self, number: usize, is_first: bool, after_canaries: bool) -> Option<WaveDomain> {
        let follows = match is_first {
            true => !self.begun.contains(&number) && (self.begun.range(..number).next().is_some() || after_canaries),
            false => true,
        };
        let soak_seconds = if follows { Some(self.order.as_ref()?.soak.as_secs()) } else { None };
        Some(WaveDomain { domain: self.domains.get(number)?.clone(), soak_seconds })
    }

    fn needs_canaries(&self) -> bool {
        self.groups().any(|group| self.lacks_converged(group))
    }

    /// Groups with nodes that canaries prove the target for. All of them, if the pool's pointer waits for a proof.
    fn groups(&self) -> impl Iterator<Item = usize> {
        let started = self.in_flight.iter().chain(&self.assigned).map(|step| self.canaries.group_of(&step.node));
        let all = if self.pointer_due { 0..self.canaries.groups() } else { 0..0 };
        all.chain(started).collect::<BTreeSet<usize>>().into_iter()
    }

    /// Reports whether no more nodes of a group have converged than it has canaries. One more proves that the canaries
    /// are done.
    fn lacks_converged(&self, group: usize) -> bool {
        let wanted = self.canaries.of_group(group);
        wanted > 0 && self.converged.get(&group).map_or(0, Vec::len) <= wanted
    }
}
