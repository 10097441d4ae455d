//! Check of a pool's reservations against the capacity of its nodes.
//!
//! A kubelet does not start with reservations above the capacity, so such a node is left unchanged. The check blocks
//! this node alone, because the node reports its own capacity.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Why;
use kubelet_config::Minor;
use kubelet_config::capacity::Reservations;
use kubelet_config::finding::Finding;
use nodecfg_fleet::{Pool, Rendered};
use nodecfg_observed::Node;

/// Reservations of one pool, by kubelet version.
pub(super) struct PoolReservations<'a> {
    rendered: Option<&'a Rendered>,
    by_minor: RefCell<BTreeMap<Minor, Reservations>>,
}

impl<'a> PoolReservations<'a> {
    pub(super) fn new(pool: &'a Pool) -> Self {
        Self { rendered: pool.target.rendered(), by_minor: RefCell::default() }
    }

    /// Why the kubelet of this node would not start. `None` if it would, or its version is unknown.
    pub(super) fn refusal(&self, node: &Node) -> Option<Why> {
        self.check(node, |reservations| reservations.exceeding(node.capacity)).map(Why::OverReserved)
    }

    fn check<T>(&self, node: &Node, check: impl FnOnce(&Reservations) -> Option<T>) -> Option<T> {
        let (rendered, minor) = (self.rendered?, node.known_minor()?);
        let mut by_minor = self.by_minor.borrow_mut();
        check(by_minor.entry(minor).or_insert_with(|| Reservations::of(&rendered.document, minor)))
    }

    /// Warns if the reservations leave pods less than a tenth of a node, with the smallest such node.
    pub(super) fn warning(&self, pool: &Pool, nodes: &[&Node]) -> Option<Finding> {
        let tight: Vec<_> = nodes
            .iter()
            .filter_map(|node| {
                let check = |all: &Reservations| Some((all.nearly_all(node.capacity)?, all.place().cloned()));
                self.check(node, check).map(|(found, place)| (found, place, node))
            })
            .collect();
        // The same resource for all nodes, so that their capacities compare.
        let (found, place, node) =
            tight.iter().min_by_key(|(found, _, node)| (found.resource, found.capacity, &node.name))?;
        let others = match tight.len() {
            1 => String::new(),
            more => format!(", and on {} more of its nodes", more - 1),
        };
        let message = format!(
            "pool {}: kubeReserved, systemReserved and evictionHard leave pods less than 10% of node {}{others}: they \
             reserve {found}",
            pool.name, node.name
        );
        let warning = Finding::warning("reservations-near-capacity", message)
            .kubelets(node.known_minor().into_iter().collect::<Vec<_>>())
            .help("reserve less, or put smaller nodes into a pool of their own");
        Some(warning.at(place.clone().unwrap_or_else(|| pool.place.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{desired, namespace, node, observed, options, policy, pool, rendered_of};
    use super::super::{Action, Plan, decide_again, make};
    use super::*;
    use crate::Decision;
    use kubelet_config::capacity::Capacity;
    use kubelet_config::finding::Severity;
    use nodecfg_contract::KubeletVersion;
    use nodecfg_fleet::PoolTarget;
    use nodecfg_observed::Observed;

    /// Plan of a pool that reserves 4 GiB, for nodes `n0`… with this memory.
    fn planned(memory: &[&str]) -> Plan {
        let (desired, cluster) = input(memory);
        make(&desired, &cluster, &options()).expect("a plan")
    }

    fn input(memory: &[&str]) -> (nodecfg_fleet::Desired, Observed) {
        let with = |(at, memory): (usize, &&str)| Node {
            capacity: Capacity::parse(None, Some(memory), None),
            ..node(&format!("n{at}"), "gpu")
        };
        let cluster = observed(memory.iter().enumerate().map(with));
        let mut pool = pool("gpu", 10, policy(1));
        pool.target = PoolTarget::Config(Box::new(rendered_of(
            "gpu",
            "kubeReserved: {memory: 3Gi}\nsystemReserved: {memory: 924Mi}",
        )));
        (desired([pool]), cluster)
    }

    #[test]
    fn node_without_capacity_for_reservations_is_blocked_alone() {
        let plan = planned(&["16Gi", "4000Mi", "", "4Gi"]);
        let assigned: Vec<&str> =
            plan.pools[0].steps().filter(|step| step.action == Action::Assign).map(|step| step.node.as_str()).collect();
        assert_eq!(assigned, ["n0", "n2", "n3"], "equal amounts are valid, and an unknown capacity");
        let left = &plan.pools[0].left_alone[0];
        assert!(left.why.is_blocked());
        assert_eq!(
            left.why.to_string(),
            "the kubelet would not start: kubeReserved, systemReserved and evictionHard reserve 4096Mi of memory, but \
             the node has 4000Mi; reserve less, or move the node to another pool"
        );
    }

    #[test]
    fn node_that_points_at_its_target_is_watched() {
        let (desired, mut cluster) = input(&["4000Mi"]);
        let pool = desired.pools.values().next().expect("a pool");
        let PoolTarget::Config(rendered) = &pool.target else { panic!("a configuration") };
        let node = cluster.nodes.values_mut().next().expect("a node");
        node.source = Some(rendered.source(&namespace()));
        let node = node.clone();
        let plan = make(&desired, &cluster, &options()).expect("a plan");
        assert!(matches!(plan.pools[0].steps().next().expect("a step").action, Action::Await { .. }));
        let decision = decide_again(&desired, &cluster, &options(), &pool.name, &node);
        assert!(matches!(decision, Some(Decision::Step(_))), "{decision:?}");
    }

    #[test]
    fn each_version_has_its_reservations() {
        let mut pool = pool("gpu", 10, policy(1));
        // Kubelets before 1.33 do not merge the default threshold of 100Mi.
        let fields =
            "kubeReserved: {memory: 4Gi}\nmergeDefaultEvictionSettings: true\nevictionHard: {nodefs.available: 10%}";
        pool.target = PoolTarget::Config(Box::new(rendered_of("gpu", fields)));
        let reservations = PoolReservations::new(&pool);
        let refused = |version| {
            let capacity = Capacity::parse(None, Some("4Gi"), None);
            let node = Node { kubelet_version: KubeletVersion::parse(version), capacity, ..node("n1", "gpu") };
            reservations.refusal(&node).is_some()
        };
        assert_eq!(["v1.32.0", "v1.36.2", "v1.32.0", "v1.99.0"].map(refused), [false, true, false, false]);
    }

    #[test]
    fn warning_compares_nodes_by_one_resource() {
        let (mut desired, mut cluster) = input(&["4500Mi", "16Gi"]);
        let fields = "kubeReserved: {memory: 4Gi, ephemeral-storage: 950Mi}";
        let pool = desired.pools.values_mut().next().expect("a pool");
        pool.target = PoolTarget::Config(Box::new(rendered_of("gpu", fields)));
        let last = cluster.nodes.values_mut().last().expect("a node");
        last.capacity = Capacity::parse(None, Some("16Gi"), Some("1000Mi"));
        let plan = make(&desired, &cluster, &options()).expect("a plan");
        let warning = plan.findings.iter().find(|finding| finding.code == "reservations-near-capacity");
        let message = &warning.expect("a warning").message;
        assert!(message.contains("of node n0, and on 1 more of its nodes: they reserve 4196Mi of memory"), "{message}");
    }

    #[test]
    fn conflicting_node_is_checked_again() {
        let (desired, cluster) = input(&["4000Mi"]);
        let node = cluster.nodes.values().next().expect("a node");
        let pool = desired.pools.keys().next().expect("a pool");
        let decision = decide_again(&desired, &cluster, &options(), pool, node);
        assert!(matches!(decision, Some(Decision::LeaveAlone(left)) if matches!(left.why, Why::OverReserved(_))));
    }

    #[test]
    fn smallest_tight_node_is_named() {
        let warnings = |memory: &[&str]| -> Vec<(Severity, String)> {
            let found =
                planned(memory).findings.into_iter().filter(|finding| finding.code == "reservations-near-capacity");
            found.map(|finding| (finding.severity, finding.message)).collect()
        };
        assert_eq!(
            warnings(&["16Gi", "4400Mi", "4200Mi"]),
            [(
                Severity::Warning,
                "pool gpu: kubeReserved, systemReserved and evictionHard leave pods less than 10% of node n2, and on 1 \
                 more of its nodes: they reserve 4096Mi of memory, but the node has 4200Mi"
                    .to_owned()
            )]
        );
        assert_eq!(warnings(&["16Gi", ""]), []);
    }
}
