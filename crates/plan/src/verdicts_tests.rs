//! Unit tests of planning with configurations that kubelets refuse.

use super::fixtures::{
    desired, namespace, node, node_name, observed, of_capacity, of_version, on, options, policy, pool, pool_name,
    sized, with_config_map,
};
use super::{Action, Decision, LeftAlone, Plan, Problem, Scope, Why, check, decide_again, make};
use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::finding::{Severity, Strictness};
use nodecfg_fleet::{Desired, Pool, PoolTarget};
use nodecfg_observed::{Node, Observed};

/// A pool with one node at a time and these lines in its configuration.
fn pool_with(text: &str) -> Pool {
    let mut pool = pool("gpu", 10, policy(1));
    let header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let mut rendered = pool.rendered().expect("a configuration").clone();
    rendered.document =
        Document::parse("pools/gpu/kubelet.yaml", &format!("{header}{text}")).document.expect("a document");
    rendered.canonical = rendered.document.canonical();
    pool.targets = PoolTarget::Config(Box::new(rendered)).into();
    pool
}

fn node_of(name: &str, version: &str) -> Node {
    of_version(node(name, "gpu"), version)
}

fn problems(desired: &Desired, cluster: &Observed) -> Vec<Problem> {
    make(desired, cluster, &options()).expect_err("refused")
}

fn finding_codes(plan: &Plan) -> Vec<(Severity, &'static str)> {
    plan.findings.iter().map(|finding| (finding.severity, finding.code)).collect()
}

#[test]
fn rejects_configuration_that_a_kubelet_refuses() {
    let cluster = observed([node_of("n1", "v1.21.1"), node_of("n2", "v1.22.3"), node_of("n3", "v1.22.4")]);
    let found = problems(&desired([pool_with("maxPods: -5\n")]), &cluster);
    let [Problem::Refused { kubelets, nodes, example, findings, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((kubelets.as_slice(), *nodes), ([Minor(21), Minor(22)].as_slice(), 3));
    assert_eq!(example, &node_name("n1"));
    assert_eq!(findings.iter().map(|f| (f.code, f.kubelets.len())).collect::<Vec<_>>(), [("max-pods", 2)]);
    let message = found[0].to_string();
    let start =
        "pool gpu: kubelets 1.21, 1.22 on 3 of its nodes (for example n1) would not run the configuration as written";
    assert!(message.starts_with(start) && message.contains("maxPods is -5"), "{message}");
}

#[test]
fn advice_is_given_once_for_all_sizes_and_versions() {
    let pool = sized(pool_with("readOnlyPort: 10255\n"), "{preset: gke}");
    let cluster = observed([
        of_capacity(node_of("n1", "v1.33.1"), "4", "16Gi"),
        of_capacity(node_of("n2", "v1.36.2"), "64", "256Gi"),
    ]);
    let plan = make(&desired([pool]), &cluster, &options()).unwrap();
    let ports = plan.findings.iter().filter(|finding| finding.code == "open-read-only-port");
    assert_eq!(ports.map(|finding| &*finding.kubelets).collect::<Vec<_>>(), [[Minor(33), Minor(36)]]);
    assert!(plan.findings.iter().all(|finding| finding.severity != Severity::Note), "{:?}", finding_codes(&plan));
}

#[test]
fn checks_only_versions_that_get_the_configuration() {
    let pool = pool_with("podLogsDir: /a\ncpuManagerPolicyOptions: {}\n");
    let two = observed([node_of("n1", "v1.21.1"), node_of("n2", "v1.23.1")]);
    let found = problems(&desired([pool.clone()]), &two);
    let [Problem::Refused { kubelets, findings, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(kubelets, &[Minor(21), Minor(23)]);
    assert_eq!(findings.iter().map(|f| f.kubelets.len()).collect::<Vec<_>>(), [1, 2]);

    // Lenient checks only warn: the kubelets continue.
    let lenient = super::Options { gate: Strictness::Lenient, ..options() };
    let plan = make(&desired([pool]), &two, &lenient).expect("lenient");
    assert_eq!(finding_codes(&plan), [(Severity::Warning, "field-not-in-version"); 2]);

    // A kubelet that does not follow configSource gets no configuration, so its refusal is irrelevant.
    let unsupported = observed([node_of("n1", "v1.21.1"), node_of("n2", "v1.36.0")]);
    let old = pool_with("logging: {sanitization: true}\n");
    let plan = make(&desired([old]), &unsupported, &options()).expect("only 1.36 lacks it");
    assert_eq!(finding_codes(&plan), [(Severity::Warning, "field-not-in-version")]);
    assert_eq!(plan.findings[0].kubelets, [Minor(36)]);
}

#[test]
fn warns_about_unknown_and_contradicting_versions() {
    let mut pool = pool_with("maxPods: 10\n");
    pool.kubelets = vec![Minor(20)];
    let cluster = observed([
        node_of("n1", "v1.21.1"),
        node_of("n2", "v1.15.3"),
        Node { kubelet_version: None, ..node("n3", "gpu") },
    ]);
    let plan = make(&desired([pool]), &cluster, &options()).expect("a plan");
    let messages: Vec<&str> = plan.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "pool gpu has kubelets of version 1.21 (for example n1), but spec.kubernetesVersion lists 1.20",
            "pool gpu: node n2 reports v1.15.3, whose configuration rules are unknown",
            "pool gpu: node n3 reports no version, whose configuration rules are unknown",
        ]
    );
    assert!(plan.findings.iter().all(|finding| finding.severity == Severity::Warning));
}

/// Each node reports its own version: one that reports a wrong one must not stop the others.
#[test]
fn node_of_an_undeclared_version_is_blocked_alone() {
    let pool = Pool { kubelets: vec![Minor(22)], ..pool_with("featureGates: {CSRDuration: true}\n") };
    let cluster = observed([node_of("n1", "v1.21.1"), node_of("n2", "v1.22.3"), node_of("n3", "v1.20.3")]);
    let plan = make(&desired([pool.clone()]), &cluster, &options()).expect("1.22 accepts it");
    let steps: Vec<&str> = plan.pools[0].steps().map(|step| step.node.as_str()).collect();
    assert_eq!(steps, ["n2"]);
    let blocked = |left: &LeftAlone| matches!(left.why, Why::WouldRefuse { .. }) && left.why.is_blocked();
    assert_eq!(plan.pools[0].left_alone.iter().filter(|left| blocked(left)).count(), 2);
    // The fixture has the name of other content.
    let violations = check(&plan, &desired([pool.clone()]), &cluster, &Scope::Everything);
    assert!(violations.iter().all(|violation| violation.subject.starts_with("ConfigMap")), "{violations:?}");
    let codes: Vec<&str> = plan.findings.iter().map(|finding| finding.code).collect();
    assert!(codes.contains(&"version-contradicts"), "{codes:?}");
    assert!(plan.findings.iter().all(|finding| finding.severity == Severity::Warning));
    // Nor does a kubelet that would ignore a field, unless checks are lenient.
    let ignored = Pool { kubelets: vec![Minor(24)], ..pool_with("podLogsDir: /a\n") };
    let cluster = |version| observed([node_of("n1", version)]);
    let steps = |gate| {
        let options = super::Options { gate, ..options() };
        let plan = make(&desired([ignored.clone()]), &cluster("v1.22.3"), &options).expect("1.22 is not declared");
        plan.pools[0].steps().count()
    };
    assert_eq!((steps(Strictness::Strict), steps(Strictness::Lenient)), (0, 1));
    let cluster = observed([node_of("n1", "v1.21.1")]);
    // A declared version still stops the plan before any write, as does any version of a pool that declares none.
    for kubelets in [vec![Minor(21), Minor(22)], vec![]] {
        assert!(make(&desired([Pool { kubelets, ..pool.clone() }]), &cluster, &options()).is_err());
    }
}

#[test]
fn accepts_node_that_runs_the_configuration() {
    let pool = pool_with("maxPods: -5\n");
    let target = pool.rendered().expect("a configuration");
    let mut cluster = observed([on(node_of("n1", "v1.21.1"), &target.source(&namespace()))]);
    with_config_map(&mut cluster, "gpu", target);
    let plan = make(&desired([pool]), &cluster, &options()).expect("converged");
    assert_eq!(finding_codes(&plan), [(Severity::Warning, "max-pods")]);
}

#[test]
fn decides_again_after_kubelet_upgrade() {
    let desired = desired([pool_with("maxPods: -5\n")]);
    let cluster = observed([node_of("n1", "v1.15.1")]);
    make(&desired, &cluster, &options()).expect("nothing is known of 1.15");
    let decide = |version| decide_again(&desired, &cluster, &options(), &pool_name("gpu"), &node_of("n1", version));
    let decided = decide("v1.21.1");
    match decided {
        Some(Decision::LeaveAlone(left)) => {
            assert!(matches!(left.why, Why::WouldRefuse { kubelet: Minor(21), .. }), "{:?}", left.why);
            assert!(left.why.is_blocked());
        }
        other => panic!("{other:?}"),
    }
    let decided = decide("v1.15.9");
    assert!(matches!(decided, Some(Decision::Step(step)) if step.action == Action::Assign));
}

mod addresses {
    use crate::fixtures::{desired, node, observed, options, policy, pool, rendered_of};
    use crate::make;
    use kubelet_config::capacity::PodRange;
    use kubelet_config::finding::Severity;
    use nodecfg_fleet::PoolTarget;
    use nodecfg_observed::Node;

    fn warnings(text: &str, ranges: &[Option<&str>]) -> Vec<(Severity, String, usize)> {
        let with = |(at, range): (usize, &Option<&str>)| Node {
            pod_range: range.and_then(PodRange::parse),
            ..node(&format!("n{at}"), "gpu")
        };
        let cluster = observed(ranges.iter().enumerate().map(with));
        let mut pool = pool("gpu", 10, policy(1));
        pool.targets = PoolTarget::Config(Box::new(rendered_of("gpu", text))).into();
        let plan = make(&desired([pool]), &cluster, &options()).expect("a plan");
        let found = plan.findings.into_iter().filter(|finding| finding.code == "max-pods-over-addresses");
        found.map(|f| (f.severity, f.message, f.place.map_or(0, |place| place.line))).collect()
    }

    #[test]
    fn warns_about_node_with_too_few_addresses() {
        assert_eq!(
            warnings("maxPods: 250", &[Some("10.0.0.0/24"), Some("10.0.1.0/25")]),
            [(
                Severity::Warning,
                "pool gpu: `maxPods` is 250, but node n1 has addresses for at most 126 pods (podCIDR /25)".to_owned(),
                3
            )]
        );
    }

    #[test]
    fn names_narrowest_range_and_uses_default_max_pods() {
        assert_eq!(
            warnings("port: 10250", &[Some("10.0.0.0/26"), Some("10.0.1.0/27"), None, Some("10.0.2.0/26")]),
            [(
                Severity::Warning,
                "pool gpu: `maxPods` is 110, but node n1, and 2 more of its nodes, have addresses for at most 30 pods \
                 (podCIDR /27)"
                    .to_owned(),
                1
            )]
        );
    }

    #[test]
    fn accepts_sufficient_or_unknown_addresses() {
        assert_eq!(warnings("maxPods: 254", &[Some("10.0.0.0/24"), Some("fd00::/64"), None]), []);
    }
}

mod reservations {
    use crate::fixtures::{desired, namespace, node, observed, options, policy, pool, rendered_of};
    use crate::verdicts::*;
    use crate::{Action, Plan, decide_again, make};
    use crate::{Decision, Why};
    use kubelet_config::capacity::Capacity;
    use kubelet_config::finding::Severity;
    use nodecfg_contract::KubeletVersion;
    use nodecfg_fleet::PoolTarget;
    use nodecfg_observed::{Node, Observed};

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
        let rendered = rendered_of("gpu", "kubeReserved: {memory: 3Gi}\nsystemReserved: {memory: 924Mi}");
        pool.targets = PoolTarget::Config(Box::new(rendered)).into();
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
        let rendered = pool.rendered().expect("a configuration");
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
        pool.targets = PoolTarget::Config(Box::new(rendered_of("gpu", fields))).into();
        let sized = pool.for_node(Capacity::default()).expect("one size");
        let reservations = PoolReservations::new(&sized.target);
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
        pool.targets = PoolTarget::Config(Box::new(rendered_of("gpu", fields))).into();
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

mod overrides {
    use std::sync::Arc;

    use crate::change_fixtures::{cluster, planned, runs, wants};
    use crate::{Scope, check, fixtures};
    use kubelet_config::risk::Class;
    use nodecfg_contract::kubelet_values::SetValue;
    use nodecfg_fleet::Desired;
    use nodecfg_observed::{Observed, Proof};

    fn above(nodes: &[&str], sets: &[(&str, &str, &str)]) -> Observed {
        let mut cluster = cluster([runs("n1", "maxPods: 110"), runs("n2", "maxPods: 110")], &["maxPods: 110"]);
        let set = |(field, value, by): &(&str, &str, &str)| SetValue {
            field: (*field).to_owned(),
            value: (*value).to_owned(),
            by: (*by).to_owned(),
        };
        let above: Vec<SetValue> = sets.iter().map(set).collect();
        for node in nodes {
            let node = cluster.nodes.get_mut(&fixtures::node_name(node)).expect("a node");
            node.proof = Some(Arc::new(Proof::Known { overridden: Vec::new(), more: 0, above: above.clone() }));
        }
        cluster
    }

    fn messages(desired: &Desired, cluster: &Observed) -> Vec<String> {
        let plan = planned(desired, cluster);
        assert_eq!(check(&plan, desired, cluster, &Scope::Everything), []);
        plan.findings.iter().filter(|finding| finding.code == "value-overridden").map(|f| f.message.clone()).collect()
    }

    #[test]
    fn warns_of_values_that_will_have_no_effect() {
        let desired = wants("maxPods: 150\nevictionHard: {memory.available: 1Gi}\nsyncFrequency: 1h", Class::Replace);
        let sets = [
            ("maxPods", "120", "--max-pods"),
            ("registryPullQPS", "7", "--registry-qps"),
            ("syncFrequency", "\"1h0m0s\"", "--sync-frequency"),
            ("evictionHard.memory.available", "\"2Gi\"", "/etc/kubelet.d/95-other.conf"),
        ];
        assert_eq!(
            messages(&desired, &above(&["n1", "n2"], &sets)),
            [
                "pool a: maxPods: 150 has no effect on 2 nodes, such as n1: the flag --max-pods sets 120",
                "pool a: evictionHard.memory.available: \"1Gi\" has no effect on 2 nodes, such as n1: the file \
                 /etc/kubelet.d/95-other.conf sets \"2Gi\"",
            ]
        );
        let one = above(&["n2"], &sets[..1]);
        assert_eq!(
            messages(&desired, &one),
            ["pool a: maxPods: 150 has no effect on node n2: the flag --max-pods sets 120"]
        );
        let mut accepting = desired.clone();
        for pool in accepting.pools.values_mut() {
            pool.policy.accept_overridden = ["maxPods".to_owned()].into();
        }
        assert!(messages(&accepting, &one).is_empty());
    }
}
