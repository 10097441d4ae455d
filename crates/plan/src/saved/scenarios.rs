//! Scenario tests of saved plans: changes between review and sync, and the reported differences.

use std::sync::Arc;

use super::*;
use crate::fixtures::{
    canary, desired, fetched, node, node_name, observed, on, options, pause, policy, pool, pool_name, refusing,
    rendered, source, with_config_map,
};
use crate::make;
use crate::reviewed::Risk;
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{CommitId, FleetName};
use nodecfg_fleet::{Desired, NodeOrder, NodeShare, PoolTarget, RolloutPolicy};
use nodecfg_observed::{Node, Observed, Pause, Readiness};

/// A repository, a cluster and the options of the plan.
#[derive(Clone)]
struct SimHarness {
    desired: Desired,
    observed: Observed,
    options: crate::Options,
    cluster: ClusterIdentity,
    binding: &'static str,
    saved_options: SavedOptions,
}

fn saved_options() -> SavedOptions {
    SavedOptions { take_over: false, allow_empty: false, lenient: false, namespace: None, binding: None }
}

/// Pool a with three nodes on their local configuration and one on an old ConfigMap.
fn sim() -> SimHarness {
    let mut desired = desired([pool("a", 64, policy(1))]);
    desired.commit = Some(CommitId::new("1".repeat(40)).unwrap());
    let old = on(node("n4", "a"), &source("fleet-a-old"));
    let observed = observed([node("n1", "a"), node("n2", "a"), node("n3", "a"), old]);
    let cluster = ClusterIdentity { uid: "uid-1".to_owned(), server: "https://one:6443".to_owned() };
    let (options, saved_options) = (options(), saved_options());
    let mut sim = SimHarness { desired, observed, options, cluster, binding: "node", saved_options };
    let old = crate::fixtures::managed("fleet-a-old", Some("fleet"), Some("a"), None);
    let key = nodecfg_observed::ConfigMapKey { namespace: "kube-system".to_owned(), name: old.name.clone() };
    sim.observed.config_maps.insert(key, old);
    sim
}

impl SimHarness {
    fn plan(&self) -> Plan {
        make(&self.desired, &self.observed, &self.options).unwrap()
    }

    fn saved(&self) -> SavedPlan {
        SavedPlan::of(&self.plan(), self.cluster.clone(), self.binding, self.saved_options.clone())
    }

    /// Returns path and message of each difference after `change`.
    fn after(&self, change: impl FnOnce(&mut Self)) -> Vec<(String, String)> {
        let mut now = self.clone();
        change(&mut now);
        let (plan, fresh) = (now.plan(), now.saved());
        let found = self.saved().differences(&fresh, FreshPlan { plan: &plan, observed: &now.observed });
        found.into_iter().map(|difference| (difference.path, difference.message)).collect()
    }

    fn node(&mut self, name: &str) -> &mut Node {
        self.observed.nodes.get_mut(&node_name(name)).unwrap()
    }

    fn add(&mut self, node: Node) {
        self.observed.nodes.insert(node.name.clone(), node);
    }

    /// Creates the ConfigMap of the target, with readable content.
    fn make_config_map(&mut self) {
        let rendered = rendered("a", 64);
        with_config_map(&mut self.observed, "a", &rendered);
        let read = fetched(&rendered.source(&self.options.namespace), &rendered.canonical, true);
        self.observed.contents.extend([read]);
    }

    fn target(&self) -> ConfigSource {
        rendered("a", 64).source(&self.options.namespace)
    }

    fn policy(&mut self) -> &mut RolloutPolicy {
        &mut self.desired.pools.get_mut(&pool_name("a")).unwrap().policy
    }
}

/// A plan with one pool, a ConfigMap to create and four assignments.
pub(super) fn example() -> SavedPlan {
    sim().saved()
}

fn one(path: &str, message: &str) -> Vec<(String, String)> {
    vec![(path.to_owned(), message.to_owned())]
}

fn paths(found: &[(String, String)]) -> Vec<&str> {
    found.iter().map(|(path, _)| path.as_str()).collect()
}

#[test]
fn equal_plans_have_no_differences() {
    assert_eq!(sim().after(|_| {}), []);
}

#[test]
fn saved_plan_contents() {
    insta::assert_snapshot!("saved-plan", example().text());
}

#[test]
fn ignores_readiness_and_unrelated_nodes() {
    let mut sim = sim();
    let target = sim.target();
    let mut awaited = on(node("n5", "a"), &target);
    awaited.status.active = None;
    sim.add(awaited);
    sim.add(on(node("n6", "a"), &source("foreign")));
    sim.make_config_map();
    let found = sim.after(|now| {
        now.node("n1").ready = Readiness::NotReady;
        // A converged node.
        now.add(on(node("n5", "a"), &target));
        // A node that stays unchanged.
        now.add(on(node("n6", "a"), &source("another-foreign")));
        now.add(node("stranger", "no-pool"));
        now.cluster.server = "https://the-other-door:6443".to_owned();
    });
    assert_eq!(found, []);
}

#[test]
fn reports_other_cluster_fleet_or_commit() {
    let found = sim().after(|now| now.cluster.uid = "uid-2".to_owned());
    let words = "the plan is for the cluster at https://one:6443 (uid uid-1), and this is the cluster at https://one:6443 (uid uid-2)";
    assert_eq!(found, one("/cluster/uid", words));

    let found = sim().after(|now| now.desired.fleet = FleetName::new("other").unwrap());
    assert_eq!(
        found[0],
        ("/plan/fleet".to_owned(), "the plan is for fleet fleet, and the repository is for fleet other".to_owned())
    );

    let (then, now) = ("1".repeat(40), "2".repeat(40));
    let found = sim().after(|sim| sim.desired.commit = Some(CommitId::new(now.clone()).unwrap()));
    assert_eq!(found, one("/plan/commit", &format!("the commit changed: reviewed {then}, now {now}")));
    let found = sim().after(|sim| sim.desired.commit = None);
    assert_eq!(found, one("/plan/commit", &format!("the commit changed: reviewed {then}, now files without a commit")));
}

#[test]
fn compares_files_without_commit_by_content() {
    let mut sim = sim();
    sim.desired.commit = None;
    assert_eq!(sim.after(|now| now.desired.commit = Some(CommitId::new("2".repeat(40)).unwrap())), []);
    let found = sim.after(|now| {
        now.desired.pools.get_mut(&pool_name("a")).unwrap().targets =
            PoolTarget::Config(Box::new(rendered("a", 65))).into();
    });
    assert_eq!(paths(&found), ["/plan/pools/a/configuration"]);
}

#[test]
fn reports_options_binding_and_namespace() {
    let found = sim().after(|now| {
        now.saved_options = SavedOptions {
            take_over: true,
            allow_empty: true,
            lenient: true,
            namespace: Some(NamespaceName::new("x").unwrap()),
            binding: Some("nodeconfig".to_owned()),
        };
        now.binding = "nodeconfig";
    });
    let messages: Vec<&str> = found.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "binding is nodeconfig, and was node",
            "options.takeOver is true, and was false",
            "options.allowEmpty is true, and was false",
            "options.lenient is true, and was false",
            "options.namespace is x, and was unset",
            "options.binding is nodeconfig, and was unset",
        ]
    );
    let found = sim().after(|now| now.options.namespace = NamespaceName::new("x").unwrap());
    assert_eq!(found[0], ("/plan/namespace".to_owned(), "plan.namespace is x, and was kube-system".to_owned()));
}

#[test]
fn reports_added_removed_and_changed_pools() {
    let found = sim().after(|now| {
        let new = pool("b", 64, policy(1));
        now.desired.pools.insert(new.name.clone(), new);
        now.add(node("b1", "b"));
    });
    assert_eq!(found, one("/plan/pools/b", "pool b is new"));

    let found = sim().after(|now| {
        let mut renamed = now.desired.pools.remove(&pool_name("a")).unwrap();
        renamed.name = pool_name("z");
        now.desired.pools.insert(renamed.name.clone(), renamed);
    });
    assert_eq!(paths(&found), ["/plan/pools/a", "/plan/pools/z"]);

    let found = sim().after(|now| {
        now.desired.pools.get_mut(&pool_name("a")).unwrap().targets = PoolTarget::Local.into();
    });
    let hash = rendered("a", 64).hash;
    let (path, words) = ("/plan/pools/a/configuration", "pool a: the configuration is the local one, and was");
    assert_eq!(found[..1], one(path, &format!("{words} {hash}")));
    assert_eq!(paths(&found), [path, "/plan/pools/a/placement"]);
}

#[test]
fn compares_every_policy_field() {
    type Change = fn(&mut RolloutPolicy);
    let changes: [(Change, &[&str]); 11] = [
        (
            |policy| policy.max_unavailable = NodeShare::Percent(25),
            &["pool a: spec.rollout.maxUnavailable is 25%, and was 1"],
        ),
        (|policy| policy.canary = canary(1, 600), &["pool a: spec.rollout.canary is 1 node, 10m soak, and was unset"]),
        (|policy| policy.max_failures = 3, &["pool a: spec.rollout.maxFailures is 3, and was 0"]),
        (
            |policy| policy.convergence_timeout = std::time::Duration::from_millis(1500),
            &["pool a: spec.rollout.convergenceTimeout is 1.5s, and was 5m"],
        ),
        (|policy| policy.check_pods = false, &["pool a: spec.rollout.checkPods is false, and was true"]),
        (
            |policy| {
                policy.order = Some(NodeOrder { by: "zone".to_owned(), soak: std::time::Duration::from_secs(600) })
            },
            &["pool a: spec.rollout.order is by zone, soak 10m, and was unset"],
        ),
        (|policy| policy.paused = true, &["pool a: paused is true, and was false"]),
        (
            |policy| policy.allow_disruption = Class::Drain,
            &["pool a: spec.rollout.allowDisruption is drain, and was restart"],
        ),
        (
            |policy| policy.accept_removed = ["clusterDNS".to_owned()].into(),
            &["pool a: spec.kubelet.acceptRemoved is clusterDNS, and was unset"],
        ),
        (
            |policy| policy.accept_overridden = ["maxPods".to_owned()].into(),
            &["pool a: spec.kubelet.acceptOverridden is maxPods, and was unset"],
        ),
        (|_| {}, &[]),
    ];
    for (change, words) in changes {
        let found = sim().after(|now| change(now.policy()));
        let messages: Vec<&str> = found.iter().map(|(_, message)| message.as_str()).collect();
        assert_eq!(messages, words);
    }
}

#[test]
fn reports_pause_and_resume() {
    let pause = |by: &str| Pause { by: by.to_owned(), ..pause("disks") };
    let order = |now: &mut SimHarness, by: &str| drop(now.observed.orders.pauses.insert(pool_name("a"), pause(by)));
    let found = sim().after(|now| order(now, "ada"));
    assert_eq!(found, one("/plan/pools/a/paused", "pool a: paused is true, and was false"));
    let paused = || {
        let mut sim = sim();
        order(&mut sim, "ada");
        sim
    };
    let found = paused().after(|now| now.observed.orders.pauses.clear());
    assert_eq!(found, one("/plan/pools/a/paused", "pool a: paused is false, and was true"));
    assert_eq!(paused().after(|now| order(now, "bob")), [], "the plan changes nothing either way");
}

#[test]
fn reports_budget_change_of_a_percentage() {
    let mut sim = sim();
    sim.policy().max_unavailable = NodeShare::Percent(50);
    let found = sim.after(|now| {
        // These nodes need no change but count for the budget.
        let target = now.target();
        now.make_config_map();
        for name in ["m1", "m2"] {
            now.add(on(node(name, "a"), &target));
        }
    });
    assert_eq!(found[0], ("/plan/pools/a/budget".to_owned(), "pool a: budget is 3, and was 2".to_owned()));
}

#[test]
fn reports_added_removed_and_changed_nodes() {
    let found = sim().after(|now| now.add(node("n0", "a")));
    assert_eq!(found, one("/plan/nodes/n0", "node n0 needs an assignment now"));

    let found = sim().after(|now| drop(now.observed.nodes.remove(&node_name("n1"))));
    assert_eq!(found, one("/plan/nodes/n1", "node n1 is not assigned any more: it left the cluster"));

    let found = sim().after(|now| now.node("n1").uid = "another".to_owned());
    assert_eq!(found, one("/plan/nodes/n1/uid", "node n1 was deleted and recreated"));

    // Changed by another client, to a foreign ConfigMap or another of this fleet: either differs from the review.
    let found = sim().after(|now| now.add(on(node("n1", "a"), &source("by-hand"))));
    assert_eq!(
        found,
        one(
            "/plan/nodes/n1",
            "node n1 is not assigned any more: points at kube-system/by-hand, which nodecfg does not manage; pass \
             --take-over to move it"
        )
    );
    let found = sim().after(|now| now.add(on(node("n1", "a"), &source("fleet-a-old"))));
    assert_eq!(
        found,
        one("/plan/nodes/n1/from", "node n1 points at kube-system/fleet-a-old, and pointed at the local configuration")
    );
    let found = sim().after(|now| now.add(node("n4", "a")));
    assert_eq!(
        found,
        one("/plan/nodes/n4/from", "node n4 points at the local configuration, and pointed at kube-system/fleet-a-old")
    );

    let found = sim().after(|now| {
        let target = now.target();
        now.make_config_map();
        now.add(on(node("n1", "a"), &target));
    });
    let name = rendered("a", 64).config_map;
    assert_eq!(paths(&found), [&format!("/plan/configMaps/{name}"), "/plan/nodes/n1"]);
    assert_eq!(found[1].1, "node n1 is not assigned any more: converged already");

    let found = sim().after(|now| now.node("n1").labels = Arc::default());
    assert_eq!(found, one("/plan/nodes/n1", "node n1 is not assigned any more: it is in no pool any more"));

    let found = sim().after(|now| now.node("n1").deleting = true);
    assert_eq!(found, one("/plan/nodes/n1", "node n1 is not assigned any more: the node is being deleted"));

    let found = sim().after(|now| {
        let older = crate::fixtures::of_version(now.node("n1").clone(), "v1.30.0");
        now.add(older);
    });
    assert_eq!(
        found,
        one(
            "/plan/nodes/n1",
            "node n1 is not assigned any more: kubelet v1.30.0 does not support configSource: dynamic configuration \
             needs kubelets 1.11 to 1.23"
        )
    );
}

#[test]
fn reports_moved_node_once() {
    let mut sim = sim();
    let other = pool("b", 70, policy(1));
    sim.desired.pools.insert(other.name.clone(), other);
    sim.add(node("b1", "b"));
    let found = sim.after(|now| now.add(Node { uid: "uid-n1".to_owned(), ..node("n1", "b") }));
    assert_eq!(found, one("/plan/nodes/n1/pool", "node n1: pool is b, and was a"));
}

#[test]
fn reports_created_and_deleted_config_maps() {
    let found = sim().after(|now| now.make_config_map());
    let name = rendered("a", 64).config_map;
    let path = format!("/plan/configMaps/{name}");
    let words = format!("ConfigMap kube-system/{name}, which the plan creates, exists already or is not needed");
    assert_eq!(found, one(&path, &words));

    let mut sim = sim();
    sim.make_config_map();
    let found = sim.after(|now| {
        now.observed.config_maps.retain(|key, _| key.name != name);
        now.observed.contents.retain(|key, _| key.name != name);
    });
    let words = format!("ConfigMap kube-system/{name} existed and is missing now");
    assert_eq!(found, one(&path, &words));
}

#[test]
fn reports_only_higher_risk() {
    let (plan, observed) = (sim().plan(), sim().observed);
    let fresh = sim().saved();
    let now = FreshPlan { plan: &plan, observed: &observed };
    let with = |class, unknown| {
        let mut saved = fresh.clone();
        saved.plan.pools.get_mut(&pool_name("a")).unwrap().risk = Risk { class, unknown };
        saved
    };
    let (drain, restart) = (Some(Class::Drain), Some(Class::Restart));
    for (then, is, messages) in [
        ((None, 4), (drain, 0), &["class", "unknown"][..]),
        ((restart, 0), (None, 4), &["class", "unknown"]),
        ((restart, 1), (restart, 2), &["unknown"]),
        ((restart, 2), (None, 2), &["class"]),
    ] {
        let found = with(then.0, then.1).differences(&with(is.0, is.1), now);
        let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, messages.iter().map(|field| format!("/plan/pools/a/risk/{field}")).collect::<Vec<_>>());
    }
    let found = with(restart, 0).differences(&with(drain, 0), now);
    assert_eq!(found[0].message, "pool a: the risk of the change is drain, and was restart");
    assert_eq!(with(drain, 0).differences(&with(restart, 0), now), []);
    assert_eq!(with(restart, 2).differences(&with(restart, 1), now), []);
}

#[test]
fn reports_nodecfg_version_if_rendering_differs() {
    let (plan, observed) = (sim().plan(), sim().observed);
    let (fresh, now) = (sim().saved(), FreshPlan { plan: &plan, observed: &observed });
    let mut saved = fresh.clone();
    saved.nodecfg_version = "0.0.9".to_owned();
    assert_eq!(saved.differences(&fresh, now), []);
    saved.plan.pools.get_mut(&pool_name("a")).unwrap().configuration = Some(rendered("a", 1).hash);
    let found = saved.differences(&fresh, now);
    let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
    assert_eq!(paths, ["/nodecfgVersion", "/plan/pools/a/configuration"]);
}

#[test]
fn reports_leftovers_of_failed_run() {
    let found = sim().after(|now| {
        let target = now.target();
        now.make_config_map();
        now.add(on(node("n1", "a"), &target));
        now.add(refusing(node("n2", "a"), &target, nodecfg_contract::error_text::VALIDATE));
    });
    let name = rendered("a", 64).config_map;
    assert_eq!(paths(&found), [&format!("/plan/configMaps/{name}"), "/plan/nodes/n1", "/plan/nodes/n2"]);
}

#[test]
fn distinguishes_kinds_of_damage() {
    let text = example().text();
    let error_of = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error_of(""), "is empty");
    assert_eq!(error_of(" \n"), "is empty");
    assert_eq!(
        error_of(&text[..text.len() / 2]),
        format!("is truncated: it ends in line {}", text[..text.len() / 2].lines().count())
    );
    assert!(error_of("kind: SavedPlan").starts_with("is not JSON: "));
    assert_eq!(error_of("[]"), "is not a saved plan");
    assert_eq!(error_of("{}"), "is not a saved plan");
    assert_eq!(error_of(r#"{"kind": "Plan", "formatVersion": 2}"#), "is not a saved plan: its kind is \"Plan\"");
    assert_eq!(
        error_of(&text.replacen("\"formatVersion\": 2", "\"formatVersion\": 1", 1)),
        format!("has format version 1, but nodecfg {} reads 2", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(error_of(&text.replacen("\"n1\"", "\"n9\"", 1)), "was edited: its digest does not match its content");
    assert!(error_of(&text.replacen("\"takeOver\"", "\"take\"", 1)).starts_with("is damaged: unknown field `take`"));
    assert!(matches!(read(&vec![b' '; LIMIT + 1]), Err(SavedPlanError::TooLarge)));
    assert!(read(b"{\"kind\": \"SavedPlan\", \"formatVersion\": 2, \"x\": \"\xff\"}").is_err());
}

#[test]
fn ignores_whitespace() {
    let plan = example();
    let value: Value = serde_json::from_str(&plan.text()).unwrap();
    assert_eq!(read(value.to_string().as_bytes()), Ok(plan));
}

#[test]
fn schema_accepts_plan_and_rejects_unknown_field() {
    let validator = jsonschema::validator_for(&plan_schema()).expect("a schema");
    let mut plan: Value = serde_json::from_str(&example().text()).expect("JSON");
    assert!(validator.is_valid(&plan));
    plan["plan"]["nodes"]["n1"]["secret"] = 1.into();
    assert!(!validator.is_valid(&plan));
}

#[test]
fn documents_every_field() {
    let page = include_str!("../../../../docs/reference/saved-plan.md");
    let schema = plan_schema();
    let definitions = schema["$defs"].as_object().expect("definitions");
    let fields = std::iter::once(&schema).chain(definitions.values()).filter_map(|of| of["properties"].as_object());
    let names = fields.flat_map(|fields| fields.keys());
    let missing: Vec<&String> = names.filter(|field| !page.contains(&format!("`{field}`"))).collect();
    assert!(missing.is_empty(), "not in docs/reference/saved-plan.md: {missing:?}");
}
