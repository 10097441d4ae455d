//! Scenario tests of the desired state: golden vectors, findings, and independence of formatting.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::snapshot::Snapshot;
use crate::snapshot::text::is_candidate;
use kubelet_config::document::changes;
use nodecfg_contract::Placement;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::PoolName;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
const POOL: &str = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: gpu}\n";

fn built(files: &[(&str, &str)]) -> Built {
    build(&Snapshot::of_texts(files.iter().copied()), &Checks::default())
}

pub(super) fn good(files: &[(&str, &str)]) -> Desired {
    let built = built(files);
    built.desired.unwrap_or_else(|| panic!("{:#?}", built.findings))
}

/// Findings as `severity code file:line message`.
pub(super) fn found(files: &[(&str, &str)]) -> Vec<String> {
    let show = |f: &kubelet_config::finding::Finding| {
        let place = f.place.as_ref().map_or_else(|| "-".to_owned(), |p| format!("{}:{}", p.file, p.line));
        format!("{} {} {place} {}", f.severity, f.code, f.message)
    };
    built(files).findings.iter().map(show).collect()
}

fn config<'d>(desired: &'d Desired, pool: &str) -> &'d Rendered {
    let pool = &desired.pools[&PoolName::new(pool).expect("a name")];
    pool.rendered().unwrap_or_else(|| panic!("{} is local", pool.name))
}

/// Files of one of the examples.
fn examples(folder: &str) -> Snapshot {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(folder);
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).expect("below it").to_str().expect("UTF-8").to_owned();
            if is_candidate(&name) {
                files.push((name, std::fs::read_to_string(&path).expect("a text")));
            }
        }
    }
    Snapshot::of_texts(files.iter().map(|(name, text)| (name.as_str(), text.as_str())))
}

#[test]
fn uses_defaults_without_fleet_and_pool_files() {
    let desired = good(&[("pools/gpu/kubelet.yaml", HEAD)]);
    assert_eq!(desired.fleet.as_str(), "default");
    let pool = &desired.pools[&PoolName::new("gpu").expect("a name")];
    assert_eq!(pool.selector, LabelSelector::of_label(POOL_LABEL, "gpu"));
    assert_eq!(pool.policy, RolloutPolicy::default());
    assert_eq!(pool.priority, 0);
    assert_eq!(pool.place.to_string(), "pools/gpu/kubelet.yaml:1:1");
    assert_eq!(config(&desired, "gpu").path, "pools/gpu/kubelet.yaml");
    assert_eq!(found(&[("pools/gpu/kubelet.yaml", HEAD)]), Vec::<String>::new());
}

#[test]
fn merges_base_own_file_and_patches() {
    let pool = format!(
        "{POOL}spec:\n  kubelet:\n    base: ../../base/kubelet.yaml\n    patches: [a.yaml, b.json]\n  priority: -3\n"
    );
    let desired = good(&[
        (
            "base/kubelet.yaml",
            &format!("{HEAD}maxPods: 1\nport: 2\nclusterDNS: [a, b]\nevictionHard: {{x: 1Gi, z: 2Gi}}\n"),
        ),
        ("pools/gpu/pool.yaml", &pool),
        ("pools/gpu/kubelet.yaml", "maxPods: 3\nclusterDNS: [c]\nevictionHard: {x: ~}\n"),
        ("pools/gpu/a.yaml", "readOnlyPort: 4\nmaxPods: 5\n"),
        (
            "pools/gpu/b.json",
            "[{\"op\": \"test\", \"path\": \"/maxPods\", \"value\": 5},\n{\"op\": \"add\", \"path\": \"/podCIDR\", \"value\": null},\n{\"op\": \"replace\", \"path\": \"/maxPods\", \"value\": 6}]",
        ),
    ]);
    let rendered = config(&desired, "gpu");
    assert_eq!(
        rendered.canonical,
        "apiVersion: kubelet.config.k8s.io/v1beta1\nclusterDNS:\n  - c\nevictionHard:\n  z: \"2Gi\"\nkind: KubeletConfiguration\n\
         maxPods: 6\nport: 2\nreadOnlyPort: 4\n"
    );
    let place = |key: &str| rendered.document.root.get(key).map(|n| n.place.to_string()).unwrap_or_default();
    assert_eq!(place("port"), "base/kubelet.yaml:4:7");
    assert_eq!(place("clusterDNS"), "pools/gpu/kubelet.yaml:2:13");
    assert_eq!(place("readOnlyPort"), "pools/gpu/a.yaml:1:15");
    assert_eq!(place("maxPods"), "pools/gpu/b.json:3:48");
    assert_eq!(desired.pools[&PoolName::new("gpu").expect("a name")].priority, -3);
}

/// Golden vectors: names and hashes that exist in clusters of users. They change only with the version of the hash.
#[test]
fn golden_vectors() {
    for (name, source, canonical, golden) in [
        (
            "plain",
            include_str!("../../../tests/data/golden/plain.yaml"),
            include_str!("../../../tests/data/golden/plain.canonical.yaml"),
            include_str!("../../../tests/data/golden/plain.hash"),
        ),
        (
            "awkward",
            include_str!("../../../tests/data/golden/awkward.yaml"),
            include_str!("../../../tests/data/golden/awkward.canonical.yaml"),
            include_str!("../../../tests/data/golden/awkward.hash"),
        ),
    ] {
        let fleet = "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: prod-eu}\n";
        let desired = good(&[("nodecfg.yaml", fleet), ("pools/gpu/kubelet.yaml", source)]);
        let rendered = config(&desired, "gpu");
        assert_eq!(rendered.canonical, canonical, "{name}");
        assert_eq!(format!("{}\n{}\n", rendered.hash, rendered.config_map), golden, "{name}");
    }
}

#[test]
fn example_has_no_findings() {
    let built = build(&examples("repo-layout"), &Checks::default());
    assert_eq!(built.findings, []);
    let desired = built.desired.expect("no errors");
    assert_eq!(desired.fleet.as_str(), "example");
    assert!(desired.pools.values().all(|pool| pool.placement == Some(Placement::Replace)), "its files are complete");
    let names: Vec<_> = desired.pools.keys().map(PoolName::as_str).collect();
    assert_eq!(names, ["edge", "general", "gpu"]);
    let gpu = &desired.pools[&PoolName::new("gpu").expect("a name")];
    assert_eq!(gpu.policy.max_unavailable, NodeShare::Percent(25));
    assert_eq!(gpu.policy.canary, Some(Canary { nodes: 1, soak: Duration::from_secs(3) }));
    assert_eq!(
        config(&desired, "gpu").document.root.get("maxPods").map(|n| n.place.to_string()).as_deref(),
        Some("pools/gpu/tuning.yaml:4:10")
    );
    // All fields exist in kubelet 1.21.
    let known = |path: &str| kubelet_config::fields::lookup(path).is_some_and(|f| f.since.0 <= 21);
    for pool in names {
        for change in changes(None, Some(&config(&desired, pool).document)) {
            let top = change.path.split(['.', '[']).next().unwrap_or_default();
            assert!(known(top), "{top}");
        }
    }
}

#[test]
fn smallest_example_has_only_notes() {
    let built = build(&examples("zero-config"), &Checks::default());
    assert!(
        built.findings.iter().all(|f| f.severity == kubelet_config::finding::Severity::Note),
        "{:?}",
        built.findings
    );
    let desired = built.desired.expect("no errors");
    let fields: Vec<String> =
        changes(None, Some(&config(&desired, "general").document)).into_iter().map(|c| c.path).collect();
    assert_eq!((desired.pools.len(), fields), (1, vec!["maxPods".to_owned()]));
}

#[test]
fn reports_all_errors_at_once() {
    let files = [
        (
            "nodecfg.yaml",
            "apiVersion: nodecfg.dev/v1\nkind: Flet\nmetadata: {name: Prod, labels: {}}\nspec:\n  namspace: x\n  rollout: {maxUnavailable: 0}\n",
        ),
        (
            "pools/gpu/pool.yaml",
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: cpu}\nspec:\n  priority: high\n  nodeSelector:\n    matchLabels: {a: true}\n    \
             matchExpressions:\n    - {key: b, operator: in, values: [x]}\n    - {key: -c, operator: In}\n    - {key: d, operator: Exists, values: [x]}\n  kubelet: {local: 'true'}\n  \
             rollout: {maxUnavailable: 150%, canary: {soak: 10}, convergenceTimeout: 1d, maxFailures: -1, paused: no}\n",
        ),
        ("pools/gpu/kubelet.yaml", "maxPods: many\n"),
        ("pools/Bad_Name/kubelet.yaml", HEAD),
        ("pools/empty/notes.yaml", "a: b\n"),
        ("pools/whole/kubelet.yaml", "maxPod: 5\n"),
        ("pools/stray.yaml", ""),
    ];
    assert_eq!(
        found(&files),
        [
            "error wrong-api-version nodecfg.yaml:1 `apiVersion` must be nodecfg.dev/v1alpha1, not \"nodecfg.dev/v1\"",
            "error wrong-kind nodecfg.yaml:2 `kind` must be Fleet, not \"Flet\"",
            "error bad-name nodecfg.yaml:3 fleet name \"Prod\" must start and end with a lower-case letter or a digit",
            "error unknown-field nodecfg.yaml:3 unknown field \"labels\" in `metadata`",
            "error unknown-field nodecfg.yaml:5 unknown field \"namspace\" in `spec`",
            "error bad-value nodecfg.yaml:6 `spec.rollout.maxUnavailable`: 0 would prevent every change; pause the pool instead",
            "error bad-name pools/Bad_Name/kubelet.yaml:1 pool name \"Bad_Name\" must start and end with a lower-case letter or a digit",
            "error no-configuration pools/empty/notes.yaml:1 pool empty has no KubeletConfiguration",
            "warning unused-file pools/empty/notes.yaml:1 pools/empty/notes.yaml is unused",
            "error wrong-type pools/gpu/kubelet.yaml:1 `maxPods` must be a whole number, not the text \"many\"",
            "error pool-name pools/gpu/pool.yaml:3 the pool name \"cpu\" differs from the folder name \"gpu\"",
            "error wrong-type pools/gpu/pool.yaml:5 `spec.priority` must be a whole number, not the text \"high\"",
            "error wrong-type pools/gpu/pool.yaml:7 `spec.nodeSelector.matchLabels.a` must be text, not the boolean true",
            "error bad-value pools/gpu/pool.yaml:9 `spec.nodeSelector.matchExpressions[0].operator`: unknown operator \"in\"",
            "error bad-value pools/gpu/pool.yaml:10 `spec.nodeSelector.matchExpressions[1]`: In needs at least one value",
            "error bad-value pools/gpu/pool.yaml:10 `spec.nodeSelector.matchExpressions[1]`: the label key \"-c\" must start and end with a letter or a digit",
            "error bad-value pools/gpu/pool.yaml:11 `spec.nodeSelector.matchExpressions[2]`: Exists takes no values",
            "error wrong-type pools/gpu/pool.yaml:12 `spec.kubelet.local` must be a boolean, not the text \"true\"",
            "error bad-value pools/gpu/pool.yaml:13 `spec.rollout.maxUnavailable`: the text \"150%\" is neither a number of nodes nor a percentage",
            "error wrong-type pools/gpu/pool.yaml:13 `spec.rollout.canary.soak` must be a duration such as 10m, not the number 10",
            "error bad-value pools/gpu/pool.yaml:13 `spec.rollout.convergenceTimeout`: \"1d\" is not a duration",
            "error bad-value pools/gpu/pool.yaml:13 `spec.rollout.maxFailures`: -1 is not a number of nodes",
            "error ambiguous-scalar pools/gpu/pool.yaml:13 `no` is the boolean false to the kubelet and the text \"no\" to YAML 1.2 readers",
            "warning unused-file pools/stray.yaml:1 pools/stray.yaml is unused",
            "error missing-field pools/whole/kubelet.yaml:1 pool whole: the configuration has no `apiVersion`",
            "error missing-field pools/whole/kubelet.yaml:1 pool whole: the configuration has no `kind`",
            "error unknown-field pools/whole/kubelet.yaml:1 unknown field \"maxPod\"",
        ]
    );
}

#[test]
fn rejects_invalid_paths_and_patches() {
    let spec = |kubelet: &str| format!("{POOL}spec:\n  kubelet: {kubelet}\n");
    let errors = |kubelet: &str, patch: &str| {
        found(&[("pools/gpu/pool.yaml", &spec(kubelet)), ("pools/gpu/kubelet.yaml", HEAD), ("pools/gpu/p.yaml", patch)])
            .into_iter()
            .filter(|line| line.starts_with("error"))
            .collect::<Vec<_>>()
    };
    for (kubelet, patch, error) in [
        (
            "{base: ../../../x.yaml}",
            "{}",
            "error bad-path pools/gpu/pool.yaml:5 \"../../../x.yaml\" leaves the root of the configuration",
        ),
        ("{base: /etc/x.yaml}", "{}", "error bad-path pools/gpu/pool.yaml:5 \"/etc/x.yaml\" is an absolute path"),
        (
            "{patches: [q.yaml]}",
            "{}",
            "error bad-path pools/gpu/pool.yaml:5 \"q.yaml\" does not exist: pools/gpu/q.yaml is missing",
        ),
        (
            "{patches: [p.yaml]}",
            "[1]",
            "error bad-patch pools/gpu/p.yaml:1 a patch must be a map (merge patch) or a list of operations with `op` (JSON patch), not a list",
        ),
        (
            "{patches: [p.yaml]}",
            "[{op: remove, path: /maxPods}]",
            "error patch-failed pools/gpu/p.yaml:1 pool gpu: \"/maxPods\" is missing",
        ),
        (
            "{patches: [p.yaml]}",
            "[{op: add, path: /maxPod, value: 5}]",
            "error unknown-field pools/gpu/p.yaml:1 unknown field \"maxPod\"",
        ),
        (
            "{patches: [p.yaml]}",
            "kind: ~",
            "error missing-field pools/gpu/kubelet.yaml:1 pool gpu: the configuration has no `kind`",
        ),
        ("{patches: [p.yaml]}", "maxPods: [", "error malformed-yaml pools/gpu/p.yaml:1 "),
        (
            "{patches: p.yaml}",
            "{}",
            "error wrong-type pools/gpu/pool.yaml:5 `spec.kubelet.patches` must be a list, not the text \"p.yaml\"",
        ),
    ] {
        let errors = errors(kubelet, patch);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(error), "{errors:?}");
    }
}

#[test]
fn requires_explicit_selector_for_every_node() {
    let with = |selector: &str| {
        let pool = format!("{POOL}spec:\n  nodeSelector: {selector}\n");
        built(&[("pools/gpu/pool.yaml", &pool), ("pools/gpu/kubelet.yaml", HEAD)])
    };
    let everything = with("{}");
    assert_eq!(everything.findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["selects-everything"]);
    assert!(everything.desired.is_some_and(|d| d.pools.values().all(|p| p.selector.is_everything())));
    for forgotten in ["", "~", "{matchLabels: {}}", "{matchExpressions: []}"] {
        let built = with(forgotten);
        assert_eq!(built.findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["bad-value"], "{forgotten}");
        assert!(built.desired.is_none());
    }
    let some = with("{matchLabels: {a: b}, matchExpressions: [{key: c, operator: NotIn, values: [d]}]}")
        .desired
        .expect("good");
    assert_eq!(some.pools.values().map(|p| p.selector.to_string()).collect::<Vec<_>>(), ["a=b,c notin (d)"]);
}

#[test]
fn reports_local_identical_and_missing_pools() {
    let local = format!("{POOL}spec: {{kubelet: {{local: true}}}}\n");
    let desired = good(&[("pools/gpu/pool.yaml", &local)]);
    assert!(desired.pools.values().all(|pool| pool.rendered().is_none()));
    // The unused configuration is checked as well.
    let beside = |text: &str| found(&[("pools/gpu/pool.yaml", &local), ("pools/gpu/kubelet.yaml", text)]);
    assert_eq!(beside(HEAD), Vec::<String>::new());
    assert_eq!(beside(&format!("{HEAD}maxPod: 5\n")).len(), 1);
    let based = format!("{POOL}spec: {{kubelet: {{local: true, base: ../../base/a.yaml}}}}\n");
    assert_eq!(
        found(&[("pools/gpu/pool.yaml", &based), ("base/a.yaml", HEAD)]),
        ["warning local-ignores pools/gpu/pool.yaml:4 ../../base/a.yaml is not used: the pool is local"]
    );
    let same = |name: &str| POOL.replace("gpu", name) + "spec: {nodeSelector: {matchLabels: {a: b}}}\n";
    assert_eq!(
        found(&[
            ("pools/a/pool.yaml", &same("a")),
            ("pools/a/kubelet.yaml", HEAD),
            ("pools/b/pool.yaml", &same("b")),
            ("pools/b/kubelet.yaml", HEAD)
        ]),
        ["error same-selector pools/b/pool.yaml:1 pools a and b select the same nodes (a=b) with the same priority"]
    );
    let empty = built(&[("base/kubelet.yaml", HEAD)]);
    assert_eq!(empty.findings.iter().map(|f| f.code).collect::<Vec<_>>(), ["no-pools", "unused-file"]);
    assert!(empty.desired.is_some_and(|desired| desired.pools.is_empty()));
}

#[test]
fn placement_of_the_fleet_is_the_default_of_its_pools() {
    let fleet = "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: a}\n";
    let of = |fleet_spec: &str, pool_spec: &str| {
        let files = [
            ("nodecfg.yaml", &*format!("{fleet}spec: {{kubelet: {{{fleet_spec}}}}}\n")),
            ("pools/gpu/pool.yaml", &*format!("{POOL}spec: {{kubelet: {{{pool_spec}}}}}\n")),
            ("pools/gpu/kubelet.yaml", HEAD),
        ];
        let desired = good(&files);
        desired.pools.values().next().and_then(|pool| pool.placement)
    };
    let (overlay, replace) = (Some(Placement::Overlay), Some(Placement::Replace));
    assert_eq!(of("", ""), None);
    assert_eq!(of("", "placement: overlay"), overlay);
    assert_eq!(of("placement: replace", ""), replace);
    assert_eq!(of("placement: replace", "placement: overlay"), overlay);
    let wrong = format!("{POOL}spec: {{kubelet: {{placement: merge}}}}\n");
    assert_eq!(
        found(&[("pools/gpu/pool.yaml", &wrong), ("pools/gpu/kubelet.yaml", HEAD)]),
        ["error bad-value pools/gpu/pool.yaml:4 `spec.kubelet.placement`: unknown value \"merge\""]
    );
}

#[test]
fn base_alone_is_a_configuration() {
    let pool = format!("{POOL}spec: {{kubelet: {{base: ../../base/kubelet.yaml}}}}\n");
    let desired = good(&[("base/kubelet.yaml", HEAD), ("pools/gpu/pool.yaml", &pool)]);
    assert_eq!(config(&desired, "gpu").path, "pools/gpu/pool.yaml");
}

#[test]
fn ignores_crlf_and_byte_order_mark() {
    let plain = good(&[("pools/gpu/kubelet.yaml", &format!("{HEAD}maxPods: 5\n"))]);
    let windows = format!("\u{feff}{HEAD}maxPods: 5\n").replace('\n', "\r\n");
    let windows = good(&[("pools/gpu/kubelet.yaml", &windows)]);
    assert_eq!(config(&plain, "gpu").hash, config(&windows, "gpu").hash);
}

/// Values for some fields of a configuration, by field type.
fn settings() -> impl Strategy<Value = BTreeMap<&'static str, Json>> {
    let one = prop_oneof![
        (0..500).prop_map(|n| ("maxPods", Json::from(n))),
        any::<bool>().prop_map(|b| ("failSwapOn", Json::from(b))),
        "[a-z0-9.%:]{0,8}".prop_map(|text| ("clusterDomain", Json::from(text))),
        proptest::collection::vec("[0-9.]{1,5}", 0..3).prop_map(|list| ("clusterDNS", Json::from(list))),
        proptest::collection::btree_map("[a-z.]{1,6}", "[0-9]{1,3}(Mi|%)", 0..3)
            .prop_map(|map| ("evictionHard", Json::Object(map.into_iter().map(|(k, v)| (k, Json::from(v))).collect()))),
    ];
    proptest::collection::vec(one, 0..6).prop_map(|all| all.into_iter().collect())
}

fn spelled(settings: &BTreeMap<&'static str, Json>, backwards: bool) -> String {
    let mut lines: Vec<String> = HEAD.lines().map(str::to_owned).collect();
    lines.extend(settings.iter().map(|(key, value)| {
        if backwards { format!("  # about {key}\n'{key}':   {value} # here") } else { format!("{key}: {value}") }
    }));
    if backwards {
        lines.reverse();
    }
    lines.join("\n") + "\n"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn formatting_changes_neither_hash_nor_name(settings in settings()) {
        let one = good(&[("pools/gpu/kubelet.yaml", &spelled(&settings, false))]);
        let other = good(&[("pools/gpu/kubelet.yaml", &spelled(&settings, true))]);
        prop_assert_eq!(&config(&one, "gpu").config_map, &config(&other, "gpu").config_map);
        prop_assert_eq!(changes(Some(&config(&one, "gpu").document), Some(&config(&other, "gpu").document)), []);
    }

    #[test]
    fn different_content_has_different_hash(a in settings(), b in settings()) {
        let one = good(&[("pools/gpu/kubelet.yaml", &spelled(&a, false))]);
        let other = good(&[("pools/gpu/kubelet.yaml", &spelled(&b, false))]);
        prop_assert_eq!(a == b, config(&one, "gpu").hash == config(&other, "gpu").hash);
    }

    #[test]
    fn building_never_panics(fleet in "\\PC{0,80}", pool in "[a-zA-Z:{}\\[\\], \n-]{0,120}", kubelet in "[a-zA-Z:{}\\[\\], \n-]{0,120}", patch in "\\PC{0,80}") {
        let pool = format!("{POOL}spec:\n  kubelet: {{patches: [p.yaml]}}\n{pool}");
        let kubelet = format!("{HEAD}{kubelet}");
        let built = built(&[("nodecfg.yaml", &fleet), ("pools/gpu/pool.yaml", &pool), ("pools/gpu/kubelet.yaml", &kubelet), ("pools/gpu/p.yaml", &patch)]);
        prop_assert_eq!(built.desired.is_none(), kubelet_config::finding::any_error(&built.findings));
    }
}
