//! Limits of the Kubernetes Events of a rollout. A rollout of many nodes would else write thousands, which the API server
//! stores for an hour. Events of single nodes come first, and those of failures have a limit of their own. The other
//! nodes share one Event for each pool and reason.

use std::collections::BTreeMap;

use nodecfg_cluster::writing::writer::NodeNotice;
use nodecfg_contract::names::{NodeName, PoolName};

/// Number of nodes that a shared Event names.
const EXAMPLES: usize = 3;

/// Maximum numbers of Events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Events of single nodes that are no warnings, such as assignments.
    pub normal: usize,
    /// Warnings of single nodes.
    pub warnings: usize,
    /// Shared Events. If there are more groups, all pools share one for each reason.
    pub shared: usize,
}

impl Limits {
    /// At most 500 Events in a run.
    pub(super) const DEFAULT: Self = Self { normal: 100, warnings: 300, shared: 100 };
}

/// Nodes that share an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    /// The first notice. Its node gets the Event.
    first: NodeNotice,
    nodes: usize,
    examples: Vec<NodeName>,
    pools: usize,
}

/// Events of one rollout.
#[derive(Debug)]
pub(super) struct EventLimits {
    limits: Limits,
    normal: usize,
    warnings: usize,
    /// By reason and pool.
    rest: BTreeMap<(&'static str, PoolName), Group>,
}

impl EventLimits {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, normal: 0, warnings: 0, rest: BTreeMap::new() }
    }

    /// Returns the notice if it is to be sent by itself. Counts it otherwise.
    pub(super) fn admit(&mut self, pool: &PoolName, notice: NodeNotice) -> Option<NodeNotice> {
        let (sent, limit) = match notice.warning {
            true => (&mut self.warnings, self.limits.warnings),
            false => (&mut self.normal, self.limits.normal),
        };
        if *sent < limit {
            *sent += 1;
            return Some(notice);
        }
        match self.rest.get_mut(&(notice.reason, pool.clone())) {
            Some(group) => {
                group.nodes += 1;
                if group.examples.len() < EXAMPLES {
                    group.examples.push(notice.node);
                }
            }
            None => {
                let group = Group { nodes: 1, examples: vec![notice.node.clone()], pools: 1, first: notice };
                self.rest.insert((group.first.reason, pool.clone()), group);
            }
        }
        None
    }

    /// The shared Events, warnings first. Ends the rollout's Events.
    pub(super) fn shared(self) -> Vec<NodeNotice> {
        let groups = match self.rest.len() > self.limits.shared {
            true => merged(self.rest),
            false => self.rest.into_values().collect(),
        };
        let mut notices: Vec<NodeNotice> = groups.into_iter().map(Group::notice).collect();
        notices.sort_by_key(|notice| !notice.warning);
        notices
    }
}

/// One group for each reason.
fn merged(groups: BTreeMap<(&'static str, PoolName), Group>) -> Vec<Group> {
    let mut by_reason: BTreeMap<&'static str, Group> = BTreeMap::new();
    for ((reason, _), group) in groups {
        match by_reason.get_mut(reason) {
            Some(whole) => {
                whole.nodes += group.nodes;
                whole.pools += 1;
                let missing = EXAMPLES.saturating_sub(whole.examples.len());
                whole.examples.extend(group.examples.into_iter().take(missing));
            }
            None => {
                by_reason.insert(reason, group);
            }
        }
    }
    by_reason.into_values().collect()
}

impl Group {
    fn notice(self) -> NodeNotice {
        let Self { first, nodes, examples, pools } = self;
        if nodes == 1 {
            return first;
        }
        let examples: Vec<&str> = examples.iter().map(NodeName::as_str).collect();
        let place = if pools > 1 { format!(" of {pools} pools") } else { String::new() };
        let message = format!(
            "{nodes} nodes{place}, such as {}, share this Event. The first: {}",
            examples.join(", "),
            first.message
        );
        NodeNotice { message, ..first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodecfg_plan::fixtures::{node_name, pool_name};
    use proptest::prelude::*;

    const ASSIGNED: &str = "NodeConfigAssigned";
    const FAILED: &str = "NodeConfigFailed";

    fn notice(node: usize, reason: &'static str) -> NodeNotice {
        NodeNotice {
            node: node_name(&format!("n{node}")),
            warning: reason == FAILED,
            reason,
            message: format!("{reason} on n{node}"),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Events of a rollout in which all nodes are assigned and fail: single and shared ones.
    fn all_fail(nodes: usize, pools: usize, limits: Limits) -> (Vec<NodeNotice>, Vec<NodeNotice>) {
        let mut events = EventLimits::new(limits);
        let mut single = Vec::new();
        for reason in [ASSIGNED, FAILED] {
            single.extend(
                (0..nodes)
                    .filter_map(|node| events.admit(&pool_name(&format!("p{}", node % pools)), notice(node, reason))),
            );
        }
        (single, events.shared())
    }

    #[test]
    fn five_thousand_failures_are_at_most_500_events() {
        for pools in [1, 5, 40, 500] {
            let (single, shared) = all_fail(5_000, pools, Limits::DEFAULT);
            assert!(single.len() + shared.len() <= 500, "{pools} pools: {} and {}", single.len(), shared.len());
            assert_eq!(single.iter().filter(|notice| notice.warning).count(), 300, "failures are kept");
        }
    }

    #[test]
    fn small_rollout_has_an_event_for_each_node() {
        let (single, shared) = all_fail(100, 3, Limits::DEFAULT);
        assert_eq!((single.len(), shared), (200, Vec::new()));
    }

    #[test]
    fn nodes_share_events_by_pool_and_reason() {
        let limits = Limits { normal: 1, warnings: 2, shared: 4 };
        let (single, shared) = all_fail(8, 2, limits);
        let nodes = |notices: &[NodeNotice]| -> Vec<String> {
            notices.iter().map(|notice| format!("{} {}", notice.reason, notice.node)).collect()
        };
        assert_eq!(nodes(&single), ["NodeConfigAssigned n0", "NodeConfigFailed n0", "NodeConfigFailed n1"]);
        assert_eq!(
            shared.iter().map(|notice| notice.message.as_str()).collect::<Vec<_>>(),
            [
                "3 nodes, such as n2, n4, n6, share this Event. The first: NodeConfigFailed on n2",
                "3 nodes, such as n3, n5, n7, share this Event. The first: NodeConfigFailed on n3",
                "3 nodes, such as n2, n4, n6, share this Event. The first: NodeConfigAssigned on n2",
                "4 nodes, such as n1, n3, n5, share this Event. The first: NodeConfigAssigned on n1",
            ]
        );
        let (_, shared) = all_fail(8, 2, Limits { shared: 3, ..limits });
        assert_eq!(
            shared.iter().map(|notice| notice.message.as_str()).collect::<Vec<_>>(),
            [
                "6 nodes of 2 pools, such as n2, n4, n6, share this Event. The first: NodeConfigFailed on n2",
                "7 nodes of 2 pools, such as n2, n4, n6, share this Event. The first: NodeConfigAssigned on n2",
            ]
        );
        let (_, alone) = all_fail(2, 1, Limits { normal: 2, warnings: 1, shared: 1 });
        assert_eq!(alone, [notice(1, FAILED)]);
    }

    proptest! {
        /// Every notice is sent or counted once.
        #[test]
        fn no_notice_is_lost(
            notices in prop::collection::vec((0..9_usize, 0..4_usize, any::<bool>()), 0..60),
            normal in 0..9_usize,
            warnings in 0..9_usize,
            shared in 0..9_usize,
        ) {
            let mut events = EventLimits::new(Limits { normal, warnings, shared });
            let mut sent = 0;
            for (node, pool, fails) in &notices {
                let reason = if *fails { FAILED } else { ASSIGNED };
                sent += usize::from(events.admit(&pool_name(&format!("p{pool}")), notice(*node, reason)).is_some());
            }
            prop_assert!(sent <= normal + warnings);
            let last = events.shared();
            prop_assert!(last.len() <= shared.max(2));
            let counted = |notice: &NodeNotice| -> usize {
                notice.message.split_once(" nodes").map_or(1, |(number, _)| number.parse().unwrap())
            };
            prop_assert_eq!(sent + last.iter().map(counted).sum::<usize>(), notices.len());
        }
    }
}
