//! Scenario tests of windows and exclusions in the files of a repository.

use crate::Desired;
use crate::scenarios::{found, good};
use nodecfg_contract::names::PoolName;

const KUBELET: (&str, &str) =
    ("pools/gpu/kubelet.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n");
const SATURDAY: &str = "windows: [{start: Sat 22:00, length: 6h, timeZone: Europe/Berlin}]";
const FREEZE: &str = "exclusions: [{from: 2026-12-18T00:00:00Z, to: 2027-01-04T00:00:00Z, reason: freeze}]";

fn fleet(rollout: &str) -> String {
    format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: prod}}\nspec:\n  rollout:\n    {rollout}\n"
    )
}

fn pool(rollout: &str) -> String {
    format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: gpu}}\nspec:\n  rollout:\n    {rollout}\n"
    )
}

fn schedule(desired: &Desired) -> String {
    desired.pools[&PoolName::new("gpu").unwrap()].policy.schedule.to_string()
}

#[test]
fn windows_of_the_pool_replace_those_of_the_fleet_and_exclusions_add_up() {
    let own = "exclusions: [{from: 2026-11-27T00:00:00+01:00, to: 2026-11-28T00:00:00+01:00, reason: sale}]";
    let freeze = "not 2026-12-18T00:00:00Z to 2027-01-04T00:00:00Z (freeze)";
    let sale = "not 2026-11-26T23:00:00Z to 2026-11-27T23:00:00Z (sale)";
    let saturday = "Sat 22:00 for 6h Europe/Berlin";
    for (of_fleet, of_pool, expected) in [
        (SATURDAY, "paused: false", saturday.to_owned()),
        (SATURDAY, "windows: []", "always".to_owned()),
        (SATURDAY, "outsideWindows: restart", format!("{saturday}; restart at any time")),
        (
            "windows: [{start: '22:00', length: 1h, timeZone: UTC}]",
            "windows: [{start: Mon-Fri 22:00, length: 1h30m, timeZone: america/new_york}]",
            "Mon-Fri 22:00 for 1h30m America/New_York".to_owned(),
        ),
        (FREEZE, own, format!("always; {freeze}; {sale}")),
        (FREEZE, "exclusions: []", format!("always; {freeze}")),
    ] {
        let (fleet, pool) = (fleet(of_fleet), pool(of_pool));
        let desired = good(&[("nodecfg.yaml", &fleet), ("pools/gpu/pool.yaml", &pool), KUBELET]);
        assert_eq!(schedule(&desired), expected, "{of_fleet} {of_pool}");
    }
}

/// A window is part of the policy: the content hash, and so the nodes, do not depend on it.
#[test]
fn windows_do_not_change_the_content() {
    let (plain, scheduled) = (pool("paused: false"), pool(SATURDAY));
    let hashes = |pool: &str| {
        let desired = good(&[("pools/gpu/pool.yaml", pool), KUBELET]);
        desired.pools.values().map(|pool| pool.rendered().unwrap().hash).collect::<Vec<_>>()
    };
    assert_eq!(hashes(&plain), hashes(&scheduled));
}

#[test]
fn windows_must_fit_a_node_and_a_soak() {
    let window = |length: &str| format!("windows: [{{start: Sat 22:00, length: {length}, timeZone: UTC}}]");
    let drains = "allowDisruption: drain\n    drain: {timeout: 15m, settle: 30s}";
    let soaks = "canary: {nodes: 1, soak: 1h}";
    for (length, more, needed) in [
        ("5m30s", "paused: false", None),
        ("329s", "paused: false", Some("a node may take up to 5m30s")),
        // No time is needed for the pods.
        ("5m", "checkPods: false", None),
        ("299s", "checkPods: false", Some("a node may take up to 5m")),
        ("20m30s", drains, None),
        ("20m29s", drains, Some("a node may take up to 20m30s")),
        // Nodes with running pods take no drain.
        ("5m30s", "allowDisruption: drain\n    drain: {mode: accept}", None),
        ("1h5m30s", soaks, None),
        ("1h5m29s", soaks, Some("a soak time and a node after it take up to 1h5m30s")),
        ("10m30s", "order: {by: zone, soak: 5m}", None),
        ("10m29s", "steps: [1]\n    soak: 5m", Some("a soak time and a node after it take up to 10m30s")),
        ("10m29s", "order: {by: zone, soak: 5m}", Some("a soak time and a node after it take up to 10m30s")),
        ("1h5m30s", "order: {by: zone, soak: 5m}\n    canary: {nodes: 1, soak: 1h}", None),
        // Windows do not concern these changes.
        ("1m", "outsideWindows: restart", None),
    ] {
        let pool = pool(&format!("{}\n    {more}", window(length)));
        let found = found(&[("pools/gpu/pool.yaml", &pool), KUBELET]);
        match needed {
            None => assert!(found.is_empty(), "{length} {more}: {found:?}"),
            Some(needed) => {
                let [one] = &found[..] else { panic!("{length} {more}: {found:?}") };
                assert!(one.starts_with("error window-too-short pools/gpu/pool.yaml:6 "), "{one}");
                assert!(one.contains(needed), "{one}");
            }
        }
    }
}

#[test]
fn windows_that_touch_are_one() {
    let windows = "windows:\n    - {start: Sat 22:00, length: 2h, timeZone: UTC}\n    \
                   - {start: Sun 00:00, length: 2h, timeZone: UTC}\n    convergenceTimeout: 3h30m";
    assert_eq!(found(&[("pools/gpu/pool.yaml", &pool(windows)), KUBELET]), Vec::<String>::new());
}

#[test]
fn window_of_the_fleet_that_is_too_short_is_reported_there() {
    let fleet = fleet("windows: [{start: Sat 22:00, length: 1m, timeZone: UTC}]");
    let found = found(&[("nodecfg.yaml", &fleet), KUBELET]);
    assert!(found.iter().any(|one| one.starts_with("error window-too-short nodecfg.yaml:6 ")), "{found:?}");
}

#[test]
fn lists_are_bounded() {
    let one = "{start: Sat 22:00, length: 6h, timeZone: UTC}";
    let windows = |number: usize| pool(&format!("windows: [{}]", vec![one; number].join(", ")));
    assert!(found(&[("pools/gpu/pool.yaml", &windows(50)), KUBELET]).is_empty());
    let found = found(&[("pools/gpu/pool.yaml", &windows(51)), KUBELET]);
    assert!(found[0].contains("51 entries, at most 50 are allowed"), "{found:?}");
}
