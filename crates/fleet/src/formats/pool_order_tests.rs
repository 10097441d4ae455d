//! Scenario tests of the order of pools, and of the limit of all pools.

use crate::NodeShare;
use crate::scenarios::{found, good};

const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Files of pools, each with the pools that it waits for.
fn files(pools: &[(&str, &str)]) -> Vec<(String, String)> {
    let file = |(name, after): &(&str, &str)| {
        let head = format!("apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n");
        let spec = format!("  rollout:\n    after: [{after}]\n");
        [(format!("pools/{name}/pool.yaml"), head + &spec), (format!("pools/{name}/kubelet.yaml"), KUBELET.to_owned())]
    };
    pools.iter().flat_map(file).collect()
}

fn findings(pools: &[(&str, &str)]) -> Vec<String> {
    let files = files(pools);
    found(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
}

#[test]
fn pools_wait_for_other_pools() {
    let files = files(&[("a", ""), ("b", "a"), ("c", "b, a, a")]);
    let desired = good(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>());
    let after: Vec<String> = desired.pools.values().map(|pool| format!("{:?}", pool.policy.after)).collect();
    assert_eq!(after, ["{}", "{PoolName(\"a\")}", "{PoolName(\"a\"), PoolName(\"b\")}"]);
}

#[test]
fn cycles_and_unknown_pools_are_findings() {
    for (pools, expected) in [
        (
            &[("a", ""), ("b", "c")][..],
            vec!["error unknown-pool pools/b/pool.yaml:6 `spec.rollout.after`: pool c does not exist"],
        ),
        (
            &[("a", "a")],
            vec!["error pool-cycle pools/a/pool.yaml:6 `spec.rollout.after`: pool a waits for itself: a after a"],
        ),
        (
            &[("a", "c"), ("b", "a"), ("c", "b"), ("d", "a")],
            vec![
                "error pool-cycle pools/a/pool.yaml:6 `spec.rollout.after`: pool a waits for itself: a after c after b after a",
                "error pool-cycle pools/b/pool.yaml:6 `spec.rollout.after`: pool b waits for itself: b after a after c after b",
                "error pool-cycle pools/c/pool.yaml:6 `spec.rollout.after`: pool c waits for itself: c after b after a after c",
            ],
        ),
        // Two ways to one pool are no cycle.
        (&[("a", ""), ("b", "a"), ("c", "a"), ("d", "b, c")], vec![]),
    ] {
        assert_eq!(findings(pools), expected);
    }
}

/// Each of these took hours when the way of each reference was searched.
#[test]
fn reads_the_order_of_many_pools() {
    const POOLS: usize = 3_000;
    let name = |at: usize| format!("p{at}");
    let names: Vec<(String, String)> = (0..POOLS).map(|at| (name(at), name((at + 1) % POOLS))).collect();
    let ring: Vec<(&str, &str)> = names.iter().map(|(name, after)| (name.as_str(), after.as_str())).collect();
    let found = findings(&ring);
    assert_eq!(found.len(), POOLS);
    let shown = found.iter().filter(|finding| finding.contains("after … after")).count();
    assert!(shown == 20 && found.iter().all(|finding| finding.len() < 300), "{shown}");
    // A chain without a cycle, and unknown pools.
    assert_eq!(
        findings(&ring[..POOLS - 1]),
        [format!(
            "error unknown-pool pools/p{0}/pool.yaml:6 `spec.rollout.after`: pool p{1} does not exist",
            POOLS - 2,
            POOLS - 1
        )]
    );
}

#[test]
fn fleet_has_a_limit_and_no_order() {
    let fleet = |spec: &str| {
        format!("apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: prod}}\nspec:\n  {spec}\n")
    };
    let pool = ("pools/a/kubelet.yaml", KUBELET);
    let limit = |spec: &str| good(&[("nodecfg.yaml", &fleet(spec)), pool]).max_unavailable;
    assert_eq!(limit("maxUnavailable: 5%"), Some(NodeShare::Percent(5)));
    assert_eq!(limit("rollout: {maxUnavailable: 5}"), None);
    let found = found(&[("nodecfg.yaml", &fleet("rollout: {after: [a]}")), pool]);
    let expected =
        "error bad-value nodecfg.yaml:5 `spec.rollout.after` concerns one pool, and the fleet has no default for it";
    assert!(found.iter().any(|one| one == expected), "{found:?}");
}
