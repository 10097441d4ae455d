//! Scenario tests of `spec.rollout.order`.

use crate::formats::RolloutSpec;
use crate::scenarios::{found, good};

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
