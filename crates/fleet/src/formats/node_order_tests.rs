//! Scenario tests of `spec.rollout.order`.

use crate::formats::RolloutSpec;
use crate::scenarios::{found, good};
use crate::settings::POLICY_SETTINGS;

const KUBELET: (&str, &str) =
    ("pools/gpu/kubelet.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n");

fn file(kind: &str, name: &str, order: &str) -> String {
    format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  rollout:\n    order: {order}\n"
    )
}

/// The order of a pool, with that of its fleet.
fn order(fleet: &str, pool: &str) -> String {
    let (fleet, pool) = (file("Fleet", "prod", fleet), file("NodePool", "gpu", pool));
    let desired = good(&[("nodecfg.yaml", &fleet), ("pools/gpu/pool.yaml", &pool), KUBELET]);
    let order = desired.pools.values().next().unwrap().policy.order.clone();
    order.map_or_else(|| "by name".to_owned(), |order| order.to_string())
}

#[test]
fn order_of_the_pool_replaces_that_of_the_fleet() {
    assert_eq!(order("{}", "{by: topology.kubernetes.io/zone}"), "by topology.kubernetes.io/zone, soak 0s");
    assert_eq!(order("{by: rack, soak: 10m}", "{by: zone}"), "by zone, soak 0s");
    assert_eq!(order("{by: rack, soak: 10m}", "{}"), "by name");
    let fleet = file("Fleet", "prod", "{by: rack, soak: 10m}");
    let desired = good(&[("nodecfg.yaml", &fleet), KUBELET]);
    let order = desired.pools.values().next().unwrap().policy.order.clone().unwrap();
    assert_eq!((order.by.as_str(), order.soak.as_secs()), ("rack", 600));
    assert!(RolloutSpec::default().order.is_none());
}

#[test]
fn order_needs_a_label_that_nodes_can_have() {
    let findings = |order: &str| found(&[("pools/gpu/pool.yaml", &file("NodePool", "gpu", order)), KUBELET]);
    let at = "pools/gpu/pool.yaml:6 `spec.rollout.order";
    assert_eq!(findings("{soak: 1m}"), [format!("error missing-field {at}.by` is missing")]);
    for (order, start) in [
        ("{by: 'a b'}", format!("error bad-value {at}.by`: the label key \"a b\" ")),
        ("{by: ''}", format!("error bad-value {at}.by`: the label key \"\" ")),
        ("{by: [a]}", format!("error wrong-type {at}.by`")),
        ("{by: a, soak: soon}", format!("error bad-value {at}.soak`: \"soon\" ")),
        ("{by: a, zone: b}", "error unknown-field pools/gpu/pool.yaml:6 ".to_owned()),
        ("zone", format!("error wrong-type {at}`")),
    ] {
        let found = findings(order);
        assert!(found.len() == 1 && found[0].starts_with(&start), "{order}: {found:?}");
    }
}

/// The pace of a pool with these settings, beside those of its fleet.
fn pace(fleet: &str, pool: &str) -> [String; 3] {
    let file = |kind: &str, name: &str, rollout: &str| {
        format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{rollout: {rollout}}}\n"
        )
    };
    let (fleet, pool) = (file("Fleet", "prod", fleet), file("NodePool", "gpu", pool));
    let desired = good(&[("nodecfg.yaml", &fleet), ("pools/gpu/pool.yaml", &pool), KUBELET]);
    let policy = &desired.pools.values().next().unwrap().policy;
    let setting = |path: &str| {
        let setting = POLICY_SETTINGS.iter().find(|setting| setting.path == path).unwrap();
        (setting.read)(policy)
    };
    ["spec.rollout.steps", "spec.rollout.interval", "spec.rollout.order"].map(setting)
}

#[test]
fn pool_replaces_pace_of_the_fleet() {
    let fleet = "{steps: [1, 5%, 25%], soak: 10m, interval: 30s, order: {nodes: oldest}}";
    assert_eq!(pace(fleet, "{}"), ["1, 5%, 25%, soak 10m", "30s", "oldest nodes first"]);
    assert_eq!(pace(fleet, "{steps: [50%], interval: 0s}"), ["50%, soak 10m", "0s", "oldest nodes first"]);
    assert_eq!(
        pace(fleet, "{steps: [], order: {by: zone, nodes: newest}}"),
        ["", "30s", "by zone, soak 0s, newest nodes first"]
    );
    assert_eq!(pace("{}", "{order: {by: zone, nodes: name}}"), ["", "0s", "by zone, soak 0s"]);
}

#[test]
fn steps_are_numbers_or_shares_that_rise() {
    let findings = |rollout: &str| {
        let file = format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: gpu}}\nspec:\n  rollout: {rollout}\n"
        );
        found(&[("pools/gpu/pool.yaml", &file), KUBELET])
    };
    let at = "pools/gpu/pool.yaml:5 `spec.rollout";
    for (rollout, start) in [
        ("{steps: [5, 5]}", format!("error bad-value {at}.steps`: the step 5 is no larger than 5 before it")),
        ("{steps: [1, 25%, 5%]}", format!("error bad-value {at}.steps`: the step 5% is no larger than 25% before it")),
        ("{steps: [0]}", format!("error bad-value {at}.steps[0]`: ")),
        ("{steps: [101%]}", format!("error bad-value {at}.steps[0]`: ")),
        ("{steps: 5}", format!("error wrong-type {at}.steps`")),
        ("{steps: [1], soak: soon}", format!("error bad-value {at}.soak`: ")),
        ("{interval: 5}", format!("error wrong-type {at}.interval`")),
        ("{order: {nodes: random}}", format!("error bad-value {at}.order.nodes`: unknown order \"random\"")),
    ] {
        let found = findings(rollout);
        assert!(found.len() == 1 && found[0].starts_with(&start), "{rollout}: {found:?}");
    }
    assert_eq!(findings("{steps: [10, 5%, 20]}"), [""; 0], "the number of nodes decides");
    let alone = findings("{soak: 10m}");
    assert!(alone.len() == 1 && alone[0].contains("`spec.rollout.soak` is the time after a step"), "{alone:?}");
    assert_eq!(findings("{steps: [], soak: 10m}"), [""; 0], "these steps replace those of a fleet");
    assert_eq!(pace("{soak: 10m}", "{}")[0], "", "the default of pools with steps");
}
