//! Order of the domains of a pool. The oracle knows the domain of each node, the commands and the outcome of the machine
//! after each step, and nothing of the machine's own state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Step;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_observed::Node;
use nodecfg_plan::{Domain, PoolPlan};
use nodecfg_rollout::End;
use nodecfg_rollout::instant::Instant;
use nodecfg_rollout::machine::Command;
use nodecfg_rollout::progress::Progress;

pub(super) struct DomainOracle {
    pool: PoolName,
    domains: BTreeMap<NodeName, Domain>,
    soak: Duration,
    has_canaries: bool,
    begun: Option<Domain>,
    in_flight: BTreeSet<NodeName>,
    /// Nodes whose pods are listed before their assignment.
    listed: BTreeSet<NodeName>,
    /// When the last node ended.
    last_end: Option<Instant>,
}

impl DomainOracle {
    /// The oracle of a pool; `None` for one without an order of domains.
    pub(super) fn new(pool: &PoolPlan, nodes: &BTreeMap<NodeName, Node>) -> Option<Self> {
        let order = pool.policy.order.as_ref()?;
        let domain = |name: &NodeName| (name.clone(), Domain::of(&order.by, &nodes[name].labels));
        let names = pool.steps().map(|step| &step.node).chain(pool.left_alone.iter().map(|left| &left.node));
        Some(Self {
            pool: pool.name.clone(),
            domains: names.map(domain).collect(),
            soak: order.soak,
            has_canaries: pool.policy.canary.is_some(),
            begun: None,
            in_flight: BTreeSet::new(),
            listed: BTreeSet::new(),
            last_end: None,
        })
    }

    /// Checks a step. A node needs budget if it was available right before the step.
    pub(super) fn check(&mut self, commands: &[Command], step: &Step) {
        let now = step.machine.now.instant;
        let outcome = step.machine.outcome();
        let ends = || outcome.pools[&self.pool].nodes.iter();
        let in_flight: BTreeSet<NodeName> =
            ends().filter(|node| node.end == End::InFlight).map(|node| node.node.clone()).collect();
        if self.in_flight.difference(&in_flight).next().is_some() {
            self.last_end = Some(now);
        }
        let mut started = BTreeSet::new();
        for command in commands {
            match command {
                Command::Assign(node, _) | Command::ListPods(node) if self.domains.contains_key(node) => {
                    // A node that starts with a list of its pods may recover before its assignment.
                    let is_again = self.in_flight.contains(node) || self.listed.contains(node);
                    match command {
                        Command::ListPods(_) => self.listed.insert(node.clone()),
                        _ => self.listed.remove(node),
                    };
                    if !is_again && started.insert(node.clone()) && step.cluster.is_available(node) {
                        let domain = &self.domains[node];
                        match &self.begun {
                            Some(begun) => assert!(domain <= begun, "{node} of {domain} starts while {begun} is on"),
                            None => assert!(self.has_canaries, "{node} starts before its domain"),
                        }
                    }
                }
                Command::Report(event) if event.pool.as_ref() == Some(&self.pool) => {
                    let Progress::DomainStarted { domain, .. } = &event.progress else { continue };
                    if let Some(before) = self.begun.replace(domain.clone()) {
                        assert!(before < *domain, "{domain} begins after {before}");
                        let moving: Vec<_> = in_flight.difference(&started).collect();
                        let own = |node: &&&NodeName| self.domains[**node] != *domain;
                        assert!(!moving.iter().any(|node| own(&node)), "{domain} begins during {moving:?}");
                        let earlier =
                            ends().find(|node| node.end == End::NotStarted && self.domains[&node.node] < *domain);
                        assert!(earlier.is_none(), "{domain} begins before {earlier:?}");
                        let waited = self.last_end.map(|end| now.since(end));
                        let enough = waited.is_none_or(|waited| waited >= self.soak);
                        assert!(enough, "{domain} begins {waited:?} after the end of {before}");
                    }
                }
                _ => {}
            }
        }
        self.in_flight = in_flight;
        let unstarted: BTreeSet<&NodeName> =
            ends().filter(|node| node.end == End::NotStarted).map(|node| &node.node).collect();
        self.listed.retain(|node| unstarted.contains(node));
    }
}
