//! Scenarios and property tests of reviews.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use kubelet_config::finding::Strictness;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Checks, Desired, build, draft};
use nodecfg_plan::fixtures::{fetched, managed, namespace, node, observed, on, options};
use nodecfg_plan::{OmittedField, make};

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Files by path.
type Files = BTreeMap<String, String>;

fn files<const N: usize>(files: [(&str, &str); N]) -> Files {
    files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect()
}

/// A `kubelet.yaml` file.
fn kubelet(fields: &str) -> String {
    format!("{HEADER}{fields}\n")
}

/// A `pool.yaml` file.
fn pool_yaml(name: &str, spec: &str) -> String {
    format!("apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

fn snapshot(files: &Files) -> Snapshot {
    Snapshot::of_texts(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

fn desired(snapshot: &Snapshot) -> Desired {
    let built = build(snapshot, &Checks::default());
    built.desired.unwrap_or_else(|| panic!("{:?}", built.findings))
}

fn review(old: &Files, new: &Files) -> Review {
    let (old, new) = (snapshot(old), snapshot(new));
    let drafted = draft(&old, Strictness::Strict);
    let base =
        Base { side: &Side::WorkingTree, desired: drafted.desired.as_ref(), snapshot: &old, errors: &drafted.errors };
    compare(&base, &Head { side: &Side::WorkingTree, desired: &desired(&new), snapshot: &new })
}

fn pool_named<'a>(review: &'a Review, name: &str) -> &'a PoolReview {
    review.pools.iter().find(|pool| pool.name.as_str() == name).expect("the pool exists")
}

fn changed_paths(pool: &PoolReview) -> Vec<&str> {
    pool.changes.iter().flat_map(|set| &set.fields).map(|field| field.change.path.as_str()).collect()
}

#[test]
fn field_change_has_risk_refusal_and_files() {
    let old = files([("pools/a/kubelet.yaml", &kubelet("cpuManagerPolicy: none\nkubeReserved: {cpu: 500m}"))]);
    let new = files([("pools/a/kubelet.yaml", &kubelet("cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}"))]);
    let review = review(&old, &new);
    let pool = pool_named(&review, "a");
    assert_eq!((pool.change, changed_paths(pool)), (PoolChange::Changed, vec!["cpuManagerPolicy"]));
    assert_eq!((pool.risk.worst, &pool.risk.state_files[..]), (Some(Class::Drain), &[StateFile::CpuManagerState][..]));
    let refused = pool.risk.refused.as_ref().expect("beyond the default");
    assert_eq!(refused.allowed, Class::Restart);
    assert!(refused.help.contains("allowDisruption: drain in pools/a/pool.yaml"), "{}", refused.help);
    assert_eq!(pool.files, [FileChange { path: "pools/a/kubelet.yaml".to_owned(), change: FileChangeKind::Modified }]);
    assert_ne!(pool.config_map.before, pool.config_map.after);
    assert!(review.is_changed() && !review.nodes_may_move);
    assert_eq!(review.counts(), Counts { pools: 1, changed: 1, refused: 1, ..Counts::default() });
}

#[test]
fn overlay_is_compared_over_the_own_configuration() {
    let of = |spec: &str, fields: &str| {
        files([
            ("pools/a/pool.yaml", &pool_yaml("a", spec)),
            ("pools/a/kubelet.yaml", &kubelet(fields)),
            ("base/own.yaml", &kubelet("maxPods: 70\nregistryPullQPS: 9")),
        ])
    };
    let fields = |spec: &str| {
        let review = review(&of(spec, "maxPods: 60\nregistryPullQPS: 7"), &of(spec, "maxPods: 50"));
        let changes = pool_named(&review, "a").changes.iter().flat_map(|set| &set.fields);
        let shown = |field: &ChangedField| {
            let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
            format!("{} {} {}", field.change.path, side(&field.change.old), side(&field.change.new))
        };
        changes.map(shown).collect::<Vec<_>>()
    };
    // The field that leaves the overlay returns to the node's value.
    let own = "own: ../../base/own.yaml";
    assert_eq!(fields(&format!("{{kubelet: {{{own}}}}}")), ["maxPods 60 50", "registryPullQPS 7 9"]);
    let alone = ["maxPods 60 50", "registryPullQPS 7 unset"];
    for spec in [
        format!("{{kubelet: {{{own}, placement: replace}}}}"),
        format!("{{kubelet: {{{own}}}, kubernetesVersion: ['1.23']}}"),
    ] {
        assert_eq!(fields(&spec), alone);
    }
    assert_eq!(fields("{priority: 1}"), alone);
    // A placement that becomes replace takes away what the own configuration has.
    let spec = |placement: &str| format!("{{kubelet: {{{own}, placement: {placement}}}}}");
    let (overlay, replace) = (of(&spec("overlay"), "maxPods: 60"), of(&spec("replace"), "maxPods: 60"));
    let changed = |from: &Files, to: &Files| {
        let review = review(from, to);
        let changes = pool_named(&review, "a").changes.iter().flat_map(|set| &set.fields);
        changes.map(|field| field.change.path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(changed(&overlay, &replace), ["registryPullQPS"]);
    assert_eq!(changed(&replace, &overlay), ["registryPullQPS"]);
}

#[test]
fn omitted_static_pod_path_is_refused_with_both_fixes() {
    let pool = pool_yaml("a", "{kubelet: {placement: replace}}");
    let of = |fields: &str| files([("pools/a/pool.yaml", &pool), ("pools/a/kubelet.yaml", &kubelet(fields))]);
    let path = "staticPodPath: /etc/kubernetes/manifests";
    let review = review(&of(&format!("{path}\nmaxPods: 64")), &of("maxPods: 64"));
    let pool = pool_named(&review, "a");
    assert_eq!(pool.risk.worst, Some(Class::Replace));
    let refused = pool.risk.refused.as_ref().expect("beyond the default");
    let running = Some("/etc/kubernetes/manifests".to_owned());
    assert_eq!(refused.omitted, [OmittedField { path: "staticPodPath".to_owned(), running }]);
    assert!(refused.help.starts_with(&format!("write {path}, which the configuration omits")), "{}", refused.help);
    assert_eq!(refused.lost.iter().map(|lost| lost.loss.field.as_str()).collect::<Vec<_>>(), ["staticPodPath"]);
    assert!(refused.help.ends_with("or set spec.kubelet.acceptRemoved: [staticPodPath] in pools/a/pool.yaml"));
    assert_eq!(review.findings, []);
}

#[test]
fn base_file_belongs_to_exactly_the_pools_that_use_it() {
    let spec = "{kubelet: {base: ../../base/kubelet.yaml}}";
    let mut after = files([
        ("base/kubelet.yaml", &kubelet("maxPods: 100")),
        ("pools/a/pool.yaml", &pool_yaml("a", spec)),
        ("pools/b/pool.yaml", &pool_yaml("b", spec)),
        ("pools/b/kubelet.yaml", &kubelet("maxPods: 50")),
        ("pools/c/kubelet.yaml", &kubelet("maxPods: 50")),
    ]);
    let before = after.clone();
    after.insert("base/kubelet.yaml".to_owned(), kubelet("maxPods: 120"));
    let review = review(&before, &after);
    assert_eq!(pool_named(&review, "a").change, PoolChange::Changed);
    // This pool overrides the value of the base.
    let overlaid = pool_named(&review, "b");
    assert_eq!((overlaid.change, overlaid.files.len()), (PoolChange::Unchanged, 1));
    assert_eq!((pool_named(&review, "c").change, pool_named(&review, "c").files.len()), (PoolChange::Unchanged, 0));
}

#[test]
fn classifies_settings_by_effect() {
    let with = |spec: &str| {
        files([("pools/a/kubelet.yaml", kubelet("maxPods: 50").as_str()), ("pools/a/pool.yaml", &pool_yaml("a", spec))])
    };
    let changed = |spec: &str| {
        let review = review(&with("{}"), &with(spec));
        let pool = pool_named(&review, "a");
        let settings: Vec<(&str, Option<String>, Option<String>)> =
            pool.settings.iter().map(|one| (one.path, one.old.clone(), one.new.clone())).collect();
        (pool.change, review.nodes_may_move, settings)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        changed("{rollout: {maxUnavailable: 3, canary: {nodes: 1, soak: 90s}}}"),
        (
            PoolChange::PolicyOnly,
            false,
            vec![
                ("spec.rollout.maxUnavailable", some("10%"), some("3")),
                ("spec.rollout.canary", None, some("1 node, 1m30s soak")),
            ]
        )
    );
    assert_eq!(changed("{priority: 4}"), (PoolChange::Selection, true, vec![("spec.priority", some("0"), some("4"))]));
    assert_eq!(
        changed("{kubernetesVersion: ['1.35', '1.36']}"),
        (PoolChange::PolicyOnly, false, vec![("spec.kubernetesVersion", None, some("1.35, 1.36"))])
    );
    // Explicit defaults are no change.
    assert_eq!(changed("{priority: 0, rollout: {maxUnavailable: 10%}}"), (PoolChange::Unchanged, false, vec![]));
}

#[test]
fn pools_are_added_removed_and_made_local() {
    let old = files([
        ("pools/gone/kubelet.yaml", &kubelet("maxPods: 50")),
        ("pools/local/kubelet.yaml", &kubelet("maxPods: 50")),
    ]);
    let new = files([
        ("pools/fresh/kubelet.yaml", &kubelet("maxPods: 50")),
        ("pools/local/pool.yaml", &pool_yaml("local", "{kubelet: {local: true}}")),
    ]);
    let there = review(&old, &new);
    let kinds = |review: &Review| {
        review.pools.iter().map(|pool| (pool.name.to_string(), pool.change)).collect::<BTreeMap<_, _>>()
    };
    let named = |name: &str, change| (name.to_owned(), change);
    assert_eq!(
        kinds(&there),
        BTreeMap::from([
            named("fresh", PoolChange::Added),
            named("gone", PoolChange::Removed),
            named("local", PoolChange::ToLocal)
        ])
    );
    // The current configuration of a new pool's nodes and the local configuration are unknown.
    assert!(pool_named(&there, "fresh").risk.unknown && pool_named(&there, "local").risk.unknown);
    assert_eq!(pool_named(&there, "gone").risk, PoolRisk::default());
    assert!(pool_named(&there, "gone").changes.is_empty(), "its nodes keep their configuration");
    assert!(there.nodes_may_move);
    let back = review(&new, &old);
    assert_eq!(pool_named(&back, "local").change, PoolChange::FromLocal);
}

#[test]
fn compares_readable_parts_of_an_invalid_base() {
    let old =
        files([("pools/a/kubelet.yaml", "maxPods: [\n"), ("pools/b/kubelet.yaml", &kubelet("maxPods: 50\nmaxPod: 3"))]);
    let new = files([
        ("pools/a/kubelet.yaml", &kubelet("maxPods: 50")),
        ("pools/b/kubelet.yaml", &kubelet("maxPods: 60")),
        ("pools/c/kubelet.yaml", &kubelet("maxPods: 60")),
    ]);
    let review = review(&old, &new);
    assert!(review.base_findings.len() >= 2, "{:?}", review.base_findings);
    assert_eq!(pool_named(&review, "a").change, PoolChange::Unknown);
    assert_eq!(pool_named(&review, "a").changes[0].from, Origin::Unreadable);
    assert_eq!(changed_paths(pool_named(&review, "b")), ["maxPod", "maxPods"]);
    assert_eq!(pool_named(&review, "c").change, PoolChange::Added);
}

#[test]
fn reports_a_changed_fleet_name() {
    let fleet = |name: &str| format!("apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: {name}}}\n");
    let with =
        |name: &str| files([("nodecfg.yaml", fleet(name).as_str()), ("pools/a/kubelet.yaml", &kubelet("maxPods: 50"))]);
    let review = review(&with("one"), &with("two"));
    assert_eq!(review.settings.iter().map(|one| one.path).collect::<Vec<_>>(), ["metadata.name"]);
    assert!(review.is_changed());
}

/// A cluster in which pool `a` runs `old` on two nodes and the local configuration on a third.
fn planned(old: &Files, new: &Files) -> Review {
    let (before, after) = (desired(&snapshot(old)), desired(&snapshot(new)));
    let was = before.pools.values().next().expect("a pool");
    let Some(rendered) = was.rendered() else { panic!("not local") };
    let running = |name: &str| on(node(name, "a"), &rendered.source(&namespace()));
    let mut cluster = observed([running("n1"), running("n2"), node("n3", "a")]);
    cluster.contents.extend([fetched(&rendered.source(&namespace()), &rendered.canonical, true)]);
    let owner = managed(&rendered.config_map, Some(before.fleet.as_str()), Some("a"), None);
    let key = nodecfg_observed::ConfigMapKey { namespace: "kube-system".to_owned(), name: rendered.config_map.clone() };
    cluster.config_maps.insert(key, owner);
    let plan = make(&after, &cluster, &options()).expect("can be planned");
    review(old, new).with_plan(&after, &plan, moves(&before, &after, &cluster.nodes), Timestamp::UNIX_EPOCH)
}

#[test]
fn plan_adds_nodes_per_current_configuration() {
    let old = files([("pools/a/kubelet.yaml", &kubelet("maxPods: 50"))]);
    let new = files([("pools/a/kubelet.yaml", &kubelet("maxPods: 60"))]);
    let review = planned(&old, &new);
    let pool = pool_named(&review, "a");
    let listed: Vec<(&Origin, Option<usize>, usize)> =
        pool.changes.iter().map(|set| (&set.from, set.nodes, set.fields.len())).collect();
    assert_eq!(listed, [(&Origin::Base, Some(2), 1), (&Origin::Local, Some(1), 1)]);
    assert_eq!((pool.risk.worst, pool.risk.unknown_nodes), (Some(Class::Restart), Some(1)));
    let rollout = pool.rollout.as_ref().expect("nodes");
    assert_eq!((rollout.nodes, rollout.assign), (3, 3));
    assert_eq!(pool.config_map.create, Some(true));
}

#[test]
fn nodes_that_differ_from_equal_revisions_are_drift() {
    let old = files([("pools/a/kubelet.yaml", &kubelet("maxPods: 50"))]);
    let review = planned(&old, &old);
    let pool = pool_named(&review, "a");
    assert_eq!((pool.change, pool.rollout.as_ref().map(|rollout| rollout.assign)), (PoolChange::Drift, Some(1)));
    assert!(review.is_changed());
}

#[test]
fn lists_nodes_that_move_to_another_pool() {
    let with = |priority: &str| {
        let both = "matchLabels: {nodecfg.dev/pool: a}";
        files([
            ("pools/a/kubelet.yaml", kubelet("maxPods: 50").as_str()),
            ("pools/b/kubelet.yaml", &kubelet("maxPods: 60")),
            ("pools/b/pool.yaml", &pool_yaml("b", &format!("{{nodeSelector: {{{both}}}, priority: {priority}}}"))),
        ])
    };
    let (before, after) = (desired(&snapshot(&with("-1"))), desired(&snapshot(&with("1"))));
    let moved = moves(&before, &after, &observed([node("n1", "a"), node("n2", "other")]).nodes);
    let listed: Vec<String> = moved.iter().map(|one| format!("{} {:?} {:?}", one.node, one.from, one.to)).collect();
    assert_eq!(listed, ["n1 Some(PoolName(\"a\")) Some(PoolName(\"b\"))"]);
}

/// A pool of a generated repository.
#[derive(Debug, Clone)]
struct GeneratedPool {
    max_pods: u32,
    static_cpus: bool,
    local: bool,
    priority: i64,
    paused: bool,
}

fn generated_pool() -> impl Strategy<Value = GeneratedPool> {
    (1..4u32, any::<bool>(), prop::bool::weighted(0.2), 0..3i64, any::<bool>()).prop_map(
        |(max_pods, static_cpus, local, priority, paused)| GeneratedPool {
            max_pods,
            static_cpus,
            local,
            priority,
            paused,
        },
    )
}

fn repository() -> impl Strategy<Value = BTreeMap<char, GeneratedPool>> {
    prop::collection::btree_map(prop::char::range('a', 'e'), generated_pool(), 0..5)
}

/// The files of a generated repository, in one of two equivalent notations.
fn files_of(pools: &BTreeMap<char, GeneratedPool>, other_way: bool) -> Files {
    let mut files = Files::new();
    for (name, made) in pools {
        let (local, paused, priority) = (made.local, made.paused, made.priority);
        let policy = if made.static_cpus { "static" } else { "none" };
        let (pool, fields) = if other_way {
            let fields = format!(
                "# why\nmaxPods:   {}\nkubeReserved:\n  cpu: '1'\ncpuManagerPolicy: \"{policy}\"",
                made.max_pods
            );
            let spec = format!(
                "\n  rollout: {{paused: {paused}}} # why\n  kubelet:\n    local: {local}\n  priority: {priority}"
            );
            (spec, fields)
        } else {
            let fields = format!("cpuManagerPolicy: {policy}\nkubeReserved: {{cpu: '1'}}\nmaxPods: {}", made.max_pods);
            (format!("{{priority: {priority}, kubelet: {{local: {local}}}, rollout: {{paused: {paused}}}}}"), fields)
        };
        files.insert(format!("pools/{name}/pool.yaml"), pool_yaml(&name.to_string(), &pool));
        files.insert(format!("pools/{name}/kubelet.yaml"), kubelet(&fields));
    }
    files
}

/// The kind of the opposite change.
fn mirrored(change: PoolChange) -> PoolChange {
    match change {
        PoolChange::Added => PoolChange::Removed,
        PoolChange::Removed => PoolChange::Added,
        PoolChange::ToLocal => PoolChange::FromLocal,
        PoolChange::FromLocal => PoolChange::ToLocal,
        other => other,
    }
}

proptest! {
    #[test]
    fn revision_equals_itself(pools in repository()) {
        let files = files_of(&pools, false);
        let review = review(&files, &files);
        prop_assert!(!review.is_changed() && !review.nodes_may_move);
        prop_assert!(review.files().is_empty());
        prop_assert!(review.pools.iter().all(|pool| pool.change == PoolChange::Unchanged && pool.changes.is_empty()));
    }

    #[test]
    fn formatting_changes_nothing(pools in repository()) {
        let review = review(&files_of(&pools, false), &files_of(&pools, true));
        prop_assert!(!review.is_changed());
        prop_assert!(review.files().values().all(|kind| *kind == FileChangeKind::Formatting));
        let local = pools.values().filter(|made| made.local).count();
        // A local pool does not use its kubelet.yaml.
        prop_assert_eq!(review.files().len(), 2 * pools.len() - local);
    }

    #[test]
    fn opposite_comparison_is_mirrored(old in repository(), new in repository()) {
        let (old, new) = (files_of(&old, false), files_of(&new, false));
        let (there, back) = (review(&old, &new), review(&new, &old));
        prop_assert_eq!(there.pools.len(), back.pools.len());
        prop_assert_eq!(there.is_changed(), back.is_changed());
        for pool in &there.pools {
            let other = pool_named(&back, pool.name.as_str());
            prop_assert_eq!(mirrored(pool.change), other.change);
            let settings = |pool: &PoolReview, swap: bool| pool.settings.iter().map(|one| {
                let (old, new) = (one.old.clone(), one.new.clone());
                if swap { (one.path, new, old) } else { (one.path, old, new) }
            }).collect::<Vec<_>>();
            prop_assert_eq!(settings(pool, false), settings(other, true));
            if pool.change == PoolChange::Changed {
                let fields = |pool: &PoolReview, swap: bool| pool.changes.iter().flat_map(|set| &set.fields).map(|field| {
                    let (old, new) = (field.change.old.clone(), field.change.new.clone());
                    if swap { (field.change.path.clone(), new, old) } else { (field.change.path.clone(), old, new) }
                }).collect::<Vec<_>>();
                prop_assert!(!fields(pool, false).is_empty());
                prop_assert_eq!(fields(pool, false), fields(other, true));
            }
            prop_assert_eq!(&pool.config_map.before, &other.config_map.after);
        }
    }

    #[test]
    fn sorts_the_worst_risk_first(old in repository(), new in repository()) {
        let review = review(&files_of(&old, false), &files_of(&new, false));
        let order: Vec<_> = review.pools.iter().map(|pool| (std::cmp::Reverse(pool.rank()), pool.name.clone())).collect();
        prop_assert!(order.is_sorted());
        let worst = review.pools.first().and_then(|pool| pool.risk.worst);
        if review.pools.iter().all(|pool| !pool.risk.unknown) {
            prop_assert_eq!(worst, review.worst());
        }
    }
}
