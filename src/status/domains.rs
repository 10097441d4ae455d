//! Domain of a pool that a rollout changes now, or next.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{NodeStatus, State};
use nodecfg_fleet::NodeOrder;
use nodecfg_observed::Observed;
use nodecfg_plan::Domain;

/// The first domain of a pool with nodes that do not run their target yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainStatus {
    /// The domain.
    #[serde(flatten)]
    pub domain: Domain,
    /// Position of the domain in the order of the pool, from 1.
    pub position: usize,
    /// Number of domains of the pool.
    pub domains: usize,
    /// Number of its nodes.
    pub nodes: usize,
    /// Number of its converged nodes.
    pub converged: usize,
}

impl DomainStatus {
    /// The domain that is on, by the nodes of a pool with this order. `None` if no node waits for its configuration or is
    /// in transition to it.
    pub(super) fn of(order: &NodeOrder, nodes: &[&NodeStatus], observed: &Observed) -> Option<Self> {
        let mut domains: BTreeMap<Domain, Vec<State>> = BTreeMap::new();
        for status in nodes {
            let Some(node) = observed.nodes.get(&status.node) else { continue };
            domains.entry(Domain::of(&order.by, &node.labels)).or_default().push(status.state);
        }
        let number = domains.len();
        let is_on = |states: &[State]| states.iter().any(|state| matches!(state, State::Behind | State::InTransition));
        let found = domains.into_iter().enumerate().find(|(_, (_, states))| is_on(states));
        found.map(|(at, (domain, states))| Self {
            domain,
            position: at + 1,
            domains: number,
            nodes: states.len(),
            converged: states.iter().filter(|state| state.is_converged()).count(),
        })
    }
}

impl fmt::Display for DomainStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, position, domains, nodes, converged } = self;
        write!(f, "{domain} ({position} of {domains}): {converged} of {nodes} converged")
    }
}
