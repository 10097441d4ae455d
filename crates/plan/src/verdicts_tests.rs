//! Unit tests of planning with configurations that kubelets refuse.

use super::fixtures::{
    desired, namespace, node, node_name, observed, of_version, on, options, policy, pool, pool_name, with_config_map,
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
    if let PoolTarget::Config(rendered) = &mut pool.target {
        rendered.document =
            Document::parse("pools/gpu/kubelet.yaml", &format!("{header}{text}")).document.expect("a document");
        rendered.canonical = rendered.document.canonical();
    }
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
    let PoolTarget::Config(target) = &pool.target else { panic!("configured") };
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
