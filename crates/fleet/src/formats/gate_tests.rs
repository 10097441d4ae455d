//! Tests of `spec.rollout.gates`: merged policy, and findings with their lines.

use crate::gates::{Baseline, Gate, GateCheck, Moment};
use crate::snapshot::Snapshot;
use crate::{Checks, Kubelets, Pool, build};
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Strictness};
use nodecfg_contract::names::{NodeName, PoolName};

const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 50\n";

/// The pool `gpu` of a repository with these gates, and the findings.
fn built(fleet: &str, pool: &str) -> (Option<Pool>, Vec<Finding>) {
    let fleet = format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: prod}}\nspec:\n  rollout:\n    gates:\n{fleet}"
    );
    let pool = format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: gpu}}\nspec:\n  rollout:\n    gates:\n{pool}"
    );
    let files = [("nodecfg.yaml", &*fleet), ("pools/gpu/pool.yaml", &*pool), ("pools/gpu/kubelet.yaml", KUBELET)];
    let checks = Checks { gate: Strictness::Strict, kubelets: Kubelets::Declared(vec![Minor(36)]) };
    let built = build(&Snapshot::of_texts(files), &checks);
    let name = PoolName::new("gpu").unwrap();
    (built.desired.and_then(|mut desired| desired.pools.remove(&name)), built.findings)
}

fn one(name: &str, query: &str) -> String {
    format!("    - {{name: {name}, prometheus: {{query: {query}, present: up}}}}\n")
}

#[test]
fn pool_keeps_gates_of_fleet_and_replaces_those_of_its_names() {
    let own = one("b", "pool")
        + "    - name: c\n      at: [soak, start]\n      patience: 90s\n      object: {apiVersion: v1, kind: Pod, namespace: x, name: z, condition: Ready=True}\n";
    let (pool, findings) = built(&(one("b", "fleet") + &one("a", "fleet")), &own);
    assert_eq!(findings, []);
    let gates: Vec<String> = pool.unwrap().policy.gates.iter().map(ToString::to_string).collect();
    assert_eq!(
        gates,
        [
            "a (fleet; present up)",
            "b (pool; present up)",
            "c (v1 Pod x/z: Ready=True; at [start, soak]; patience 1m30s)"
        ]
    );
    let (pool, _) =
        built("    - {name: a, at: [], prometheus: {query: q, present: p, baseline: ignore}}\n", "      []\n");
    let gate = pool.unwrap().policy.gates.remove(0);
    assert!(gate.at.is_empty());
    assert!(matches!(gate.check, GateCheck::Prometheus { baseline: Baseline::Ignore, .. }));
    let (pool, _) = built("      []\n", &one("a", "q"));
    let gate = pool.unwrap().policy.gates.remove(0);
    assert_eq!(gate.at, Moment::ALL.into());
    assert_eq!(gate.patience.as_secs(), 600);
}

#[test]
fn gate_may_name_the_node() {
    let gate = |name: &str, rest: &str| {
        format!(
            "    - {{name: {name}, object: {{apiVersion: example.com/v1, kind: Volume, condition: Idle=True, {rest}}}}}\n"
        )
    };
    let own = gate("a", "name: 'v-{node}'") + &gate("b", "label: 'example.com/node={node}'") + &gate("c", "name: v");
    let (pool, findings) = built("      []\n", &own);
    assert_eq!(findings, []);
    let gates = pool.unwrap().policy.gates;
    let shown = |gate: &Gate| (gate.is_of_nodes(), gate.of_node(&NodeName::new("n1").unwrap()).to_string());
    let expected = [
        (true, "a (example.com/v1 Volume v-n1: Idle=True; at [node])".to_owned()),
        (true, "b (example.com/v1 Volume with example.com/node=n1: Idle=True; at [node])".to_owned()),
        (false, "c (example.com/v1 Volume v: Idle=True)".to_owned()),
    ];
    assert_eq!(gates.iter().map(shown).collect::<Vec<_>>(), expected);
    for (rest, problem) in [
        ("name: '{nodes}'", "is not the name of an object"),
        ("label: example.com/node", "has not the form <key>=<value> with {node} in the value"),
        ("label: 'example.com/node=n1'", "has not the form <key>=<value> with {node} in the value"),
        ("label: 'a b={node}'", "only letters, digits, '-', '_' and '.' may be used"),
        ("name: v, label: 'a={node}'", "the object has a name, too"),
        ("namespace: x", "is missing"),
    ] {
        let (_, findings) = built("      []\n", &gate("a", rest));
        let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert!(findings.len() == 1 && messages[0].contains(problem), "{rest}: {messages:?}");
    }
    assert!(gates[0].at.iter().eq([&Moment::Node]) && gates[2].at.len() > 1, "{gates:?}");
    let object = |rest: &str| format!("object: {{apiVersion: v1, kind: Node, {rest}}}");
    for (gate, problem) in [
        (format!("at: [start], {}", object("name: '{node}', condition: Idle=True")), "guards no other step"),
        (format!("at: [node, soak], {}", object("name: '{node}', condition: Idle=True")), "guards no other step"),
        (object("name: node-1, jsonPath: '{.spec.holder}={node}'"), "in the name and the label of an object only"),
        (object("name: '{node}', jsonPath: '{.spec.holder}={node}'"), "in the name and the label of an object only"),
        (
            "prometheus: {query: 'up{node=\"{node}\"}', present: up}".to_owned(),
            "in the name and the label of an object only",
        ),
    ] {
        let (_, findings) = built("      []\n", &format!("    - {{name: a, {gate}}}\n"));
        let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert!(findings.len() == 1 && messages[0].contains(problem), "{gate}: {messages:?}");
    }
}

#[test]
fn reports_gate_without_present_with_its_line() {
    let (pool, findings) =
        built("      []\n", &(one("a", "q") + "    - name: b\n      prometheus: {query: errors > 1}\n"));
    assert!(pool.is_none());
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    let place = finding.place.as_ref().unwrap();
    assert_eq!((&*place.file, place.line), ("pools/gpu/pool.yaml", 9));
    assert_eq!(finding.message, "`spec.rollout.gates[1].prometheus.present` is missing");
    assert_eq!(finding.field.as_deref(), Some("spec.rollout.gates[1].prometheus.present"));
}

#[test]
fn reports_equal_names_and_too_many_gates() {
    let (_, findings) = built("      []\n", &(one("a", "q") + &one("a", "r")));
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.ends_with("two gates have the name a"), "{}", findings[0].message);
    assert_eq!((findings[0].place.as_ref().unwrap().line, findings[0].related.len()), (8, 1));
    let many =
        |prefix: &str, count: usize| (0..count).map(|at| one(&format!("{prefix}-{at}"), "q")).collect::<String>();
    assert_eq!(built(&many("a", 25), &many("b", 25)).1, []);
    let (pool, findings) = built(&many("a", 26), &many("b", 25));
    assert!(pool.is_none());
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].message.contains("51 gates"), "{}", findings[0].message);
    assert!(built("      []\n", &many("b", 51)).1[0].message.contains("51 gates are too many"));
}

#[test]
fn reports_gate_with_two_checks() {
    let two = "    - {name: a, prometheus: {}, object: {}}\n";
    let (_, findings) = built("      []\n", two);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].message, "`spec.rollout.gates[0]` has prometheus and object");
}

#[test]
fn limits_the_length_of_queries() {
    assert_eq!(built("      []\n", &one("a", &"é".repeat(4096))).1, []);
    let (_, findings) = built("      []\n", &one("a", &"é".repeat(4097)));
    assert!(findings[0].message.contains("4097 characters"), "{findings:?}");
    assert!(built("      []\n", &one("a", "\" \"")).1[0].message.ends_with("it is empty"));
}

#[test]
fn refuses_paths_that_select_several_values() {
    let refused = |path: &str| {
        let object = format!("{{apiVersion: v1, kind: Pod, name: z, jsonPath: '{path}'}}");
        let (pool, findings) = built("      []\n", &format!("    - {{name: a, object: {object}}}\n"));
        assert!(pool.is_none(), "{path}");
        let [finding] = findings.as_slice() else { panic!("{path}: {findings:?}") };
        (finding.message.clone(), finding.help.clone().unwrap_or_default())
    };
    let (message, help) = refused("{.status.conditions[?(@.type==\"Ready\")].status}=True");
    assert!(message.ends_with("has a filter ([?…]); a path has names and indexes only"), "{message}");
    assert!(help.contains("replace jsonPath by condition: \"Ready=True\""), "{help}");
    // The parser of another crate took seconds for this text, and for twice the depth longer than a job may last.
    let nested = format!("{{.a{}{}}}=b", "[?(@.b".repeat(13), ")]".repeat(13));
    assert!(refused(&nested).0.contains("has a filter"));
    // It copied an object of 2 MiB many thousand times for this one.
    assert!(refused("{$..*..*}=b").0.contains("has a descendant (..)"));
    assert!(refused(&format!("{{{}}}=b", ".a".repeat(65))).0.ends_with("more than 64 steps"));
    assert!(refused(&format!("{{.{}}}=b", "a".repeat(509))).0.ends_with("is longer than 512 characters"));
}

#[test]
fn gates_change_no_configuration() {
    let hash = |pool: Pool| pool.rendered().expect("a configuration").config_map.clone();
    let with = built("      []\n", &one("a", "q")).0.unwrap();
    let without = built("      []\n", "      []\n").0.unwrap();
    assert_ne!(with.policy, without.policy);
    assert_eq!(hash(with), hash(without));
}
