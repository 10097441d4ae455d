//! Oracle for the order of domains in property tests. It knows the domain of each node, the commands and the outcome of
//! the machine after each step, and nothing of the machine's own state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nodecfg_contract::names::NodeName;
use nodecfg_plan::Domain;
use nodecfg_rollout::instant::Instant;
use nodecfg_rollout::machine::Command;
use nodecfg_rollout::progress::Progress;
use nodecfg_rollout::{End, Outcome};

pub(super) struct DomainOracle {
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
    pub(super) fn new(domains: BTreeMap<NodeName, Domain>, soak: Duration, has_canaries: bool) -> Self {
        Self {
            domains,
            soak,
            has_canaries,
            begun: None,
            in_flight: BTreeSet::new(),
            listed: BTreeSet::new(),
            last_end: None,
        }
    }

    /// Checks a step. `needs_budget`: whether a node was available right before the step.
    pub(super) fn check(
        &mut self,
        commands: &[Command],
        outcome: &Outcome,
        now: Instant,
        needs_budget: impl Fn(&NodeName) -> bool,
    ) {
        let ends = || outcome.pools.values().flat_map(|pool| &pool.nodes);
        let in_flight: BTreeSet<NodeName> =
            ends().filter(|node| node.end == End::InFlight).map(|node| node.node.clone()).collect();
        let mut started = BTreeSet::new();
        for command in commands {
            match command {
                Command::Assign(node, _) | Command::ListPods(node) => {
                    // A node that starts with a list of its pods may recover before its assignment.
                    let is_again = self.in_flight.contains(node) || self.listed.contains(node);
                    match command {
                        Command::ListPods(_) => self.listed.insert(node.clone()),
                        _ => self.listed.remove(node),
                    };
                    if !is_again && started.insert(node.clone()) && needs_budget(node) {
                        let domain = &self.domains[node];
                        match &self.begun {
                            Some(begun) => assert!(domain <= begun, "{node} of {domain} starts while {begun} is on"),
                            None => assert!(self.has_canaries, "{node} starts before its domain"),
                        }
                    }
                }
                Command::Report(event) => {
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
        if self.in_flight.difference(&in_flight).next().is_some() {
            self.last_end = Some(now);
        }
        self.in_flight = in_flight;
        let unstarted: BTreeSet<&NodeName> =
            ends().filter(|node| node.end == End::NotStarted).map(|node| &node.node).collect();
        self.listed.retain(|node| unstarted.contains(node));
    }
}
