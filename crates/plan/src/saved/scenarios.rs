//! Scenario tests of saved plans: changes between review and sync, and the reported differences.

use std::sync::Arc;

use super::*;
use crate::fixtures::{
    canary, desired, fetched, node, node_name, observed, on, options, policy, pool, pool_name, refusing, rendered,
    source, with_config_map,
};
use crate::make;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::CommitId;
use nodecfg_fleet::{Desired, MaxUnavailable, NodeOrder, PoolTarget};
use nodecfg_observed::{Node, Observed, Pause, Readiness};

/// A repository, a cluster and the options of the plan.
#[derive(Clone)]
struct SimHarness {
    desired: Desired,
    observed: Observed,
    options: crate::Options,
    context: PlanContext,
}

fn context() -> PlanContext {
    PlanContext {
        cluster: ClusterIdentity { uid: "uid-1".to_owned(), server: "https://one:6443".to_owned() },
        binding: "node".to_owned(),
        options: SavedOptions { take_over: false, allow_empty: false, lenient: false, namespace: None, binding: None },
    }
}

/// Pool a with three nodes on their local configuration and one on an old ConfigMap.
fn sim() -> SimHarness {
    let mut desired = desired([pool("a", 64, policy(1))]);
    desired.commit = Some(CommitId::new("1".repeat(40)).unwrap());
    let old = on(node("n4", "a"), &source("fleet-a-old"));
    let observed = observed([node("n1", "a"), node("n2", "a"), node("n3", "a"), old]);
    let mut sim = SimHarness { desired, observed, options: options(), context: context() };
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
        SavedPlan::of(&self.plan(), &self.context)
    }

    /// Returns code and message of each difference after `change`.
    fn after(&self, change: impl FnOnce(&mut Self)) -> Vec<(Code, String)> {
        let mut now = self.clone();
        change(&mut now);
        let (plan, fresh) = (now.plan(), now.saved());
        let found = self.saved().differences(&fresh, FreshPlan { plan: &plan, observed: &now.observed });
        assert!(found.is_sorted(), "{found:?}");
        found.into_iter().map(|difference| (difference.code, difference.message)).collect()
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

fn one(code: Code, message: &str) -> Vec<(Code, String)> {
    vec![(code, message.to_owned())]
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
        now.context.cluster.server = "https://the-other-door:6443".to_owned();
    });
    assert_eq!(found, []);
}

#[test]
fn reports_other_cluster_fleet_or_commit() {
    let found = sim().after(|now| now.context.cluster.uid = "uid-2".to_owned());
    let words = "the plan is for the cluster at https://one:6443 (uid uid-1), and this is the cluster at https://one:6443 (uid uid-2)";
    assert_eq!(found, one(Code::Cluster, words));

    let found = sim().after(|now| now.desired.fleet = FleetName::new("other").unwrap());
    assert_eq!(
        found[0],
        (Code::Fleet, "the plan is for fleet fleet, and the repository is for fleet other".to_owned())
    );

    let (then, now) = ("1".repeat(40), "2".repeat(40));
    let found = sim().after(|sim| sim.desired.commit = Some(CommitId::new(now.clone()).unwrap()));
    assert_eq!(found, one(Code::Commit, &format!("the commit changed: reviewed {then}, now {now}")));
    let found = sim().after(|sim| sim.desired.commit = None);
    assert_eq!(found, one(Code::Commit, &format!("the commit changed: reviewed {then}, now files without a commit")));
}

#[test]
fn compares_files_without_commit_by_content() {
    let mut sim = sim();
    sim.desired.commit = None;
    assert_eq!(sim.after(|now| now.desired.commit = Some(CommitId::new("2".repeat(40)).unwrap())), []);
    let found = sim.after(|now| {
        now.desired.pools.get_mut(&pool_name("a")).unwrap().target = PoolTarget::Config(Box::new(rendered("a", 65)));
    });
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, Code::PoolConfiguration);
}

#[test]
fn reports_options_binding_and_namespace() {
    let found = sim().after(|now| {
        now.context.options = SavedOptions {
            take_over: true,
            allow_empty: true,
            lenient: true,
            namespace: Some(NamespaceName::new("x").unwrap()),
            binding: Some("nodeconfig".to_owned()),
        };
        now.context.binding = "nodeconfig".to_owned();
    });
    let messages: Vec<&str> = found.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "the binding is nodeconfig, and was node",
            "--allow-empty is true, and was false",
            "--binding is nodeconfig, and was not given",
            "--lenient is true, and was false",
            "--namespace is x, and was not given",
            "--take-over is true, and was false",
        ]
    );
    let found = sim().after(|now| now.options.namespace = NamespaceName::new("x").unwrap());
    assert_eq!(found[0], (Code::Namespace, "the namespace is x, and was kube-system".to_owned()));
}

#[test]
fn reports_added_removed_and_changed_pools() {
    let found = sim().after(|now| {
        let new = pool("b", 64, policy(1));
        now.desired.pools.insert(new.name.clone(), new);
        now.add(node("b1", "b"));
    });
    assert_eq!(found, one(Code::PoolNew, "pool b is new (1 node to be assigned)"));

    let found = sim().after(|now| {
        let mut renamed = now.desired.pools.remove(&pool_name("a")).unwrap();
        renamed.name = pool_name("z");
        now.desired.pools.insert(renamed.name.clone(), renamed);
    });
    let codes: Vec<Code> = found.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [Code::PoolGone, Code::PoolNew]);

    let found = sim().after(|now| {
        now.desired.pools.get_mut(&pool_name("a")).unwrap().target = PoolTarget::Local;
    });
    let target = sim().target();
    assert_eq!(
        found,
        one(Code::PoolConfiguration, &format!("the target of pool a is the local configuration, and was {target}"))
    );
}

#[test]
fn compares_every_policy_field() {
    type Change = fn(&mut RolloutPolicy);
    let changes: [(Change, &[&str]); 11] = [
        (|policy| policy.max_unavailable = MaxUnavailable::Percent(25), &["pool a: maxUnavailable is 25%, and was 1"]),
        (
            |policy| policy.canary = canary(1, 600),
            &["pool a: canary.nodes is 1, and was none", "pool a: canary.soak is 10m, and was none"],
        ),
        (|policy| policy.max_failures = 3, &["pool a: maxFailures is 3, and was 0"]),
        (
            |policy| policy.convergence_timeout = std::time::Duration::from_millis(1500),
            &["pool a: convergenceTimeout is 1.5s, and was 5m"],
        ),
        (|policy| policy.check_pods = false, &["pool a: checkPods is false, and was true"]),
        (
            |policy| {
                policy.order = Some(NodeOrder { by: "zone".to_owned(), soak: std::time::Duration::from_secs(600) })
            },
            &["pool a: order is by zone, soak 10m, and was by name"],
        ),
        (|policy| policy.paused = true, &["pool a: paused is true, and was false"]),
        (
            |policy| policy.allow_disruption = Class::Drain,
            &[
                "pool a: allowDisruption is drain, and was restart",
                "pool a: drain is evict, timeout 15m, settle 30s, emptyDir refuse, unmanaged refuse, onTimeout release, \
                 and was none",
            ],
        ),
        (
            |policy| policy.accept_removed = ["clusterDNS".to_owned()].into(),
            &["pool a: acceptRemoved is clusterDNS, and was "],
        ),
        (
            |policy| policy.accept_overridden = ["maxPods".to_owned()].into(),
            &["pool a: acceptOverridden is maxPods, and was "],
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
    let pause = |by: &str| Pause {
        by: by.to_owned(),
        at: jiff::Timestamp::UNIX_EPOCH,
        reason: "disks".to_owned(),
        allowed: None,
    };
    let order = |now: &mut SimHarness, by: &str| drop(now.observed.orders.pauses.insert(pool_name("a"), pause(by)));
    let words = "by ada since 1970-01-01T00:00:00Z, disks";
    let found = sim().after(|now| order(now, "ada"));
    assert_eq!(found, one(Code::PoolPause, &format!("pool a was paused {words}")));
    let paused = || {
        let mut sim = sim();
        order(&mut sim, "ada");
        sim
    };
    let found = paused().after(|now| now.observed.orders.pauses.clear());
    assert_eq!(found, one(Code::PoolPause, &format!("pool a was resumed: it was paused {words}")));
    assert_eq!(paused().after(|now| order(now, "bob")), [], "the plan changes nothing either way");
}

#[test]
fn reports_budget_change_of_a_percentage() {
    let mut sim = sim();
    sim.policy().max_unavailable = MaxUnavailable::Percent(50);
    let found = sim.after(|now| {
        // These nodes need no change but count for the budget.
        let target = now.target();
        now.make_config_map();
        for name in ["m1", "m2"] {
            now.add(on(node(name, "a"), &target));
        }
    });
    assert_eq!(found[0], (Code::PoolBudget, "pool a: the budget is 3 unavailable nodes, and was 2".to_owned()));
}

#[test]
fn reports_added_removed_and_changed_nodes() {
    let found = sim().after(|now| now.add(node("n0", "a")));
    assert_eq!(found, one(Code::NodeNew, "node n0 needs an assignment now"));

    let found = sim().after(|now| drop(now.observed.nodes.remove(&node_name("n1"))));
    assert_eq!(found, one(Code::NodeGone, "node n1 left the cluster"));

    let found = sim().after(|now| now.node("n1").uid = "another".to_owned());
    assert_eq!(found, one(Code::NodeReplaced, "node n1 was deleted and recreated"));

    // Changed by another client, to a foreign ConfigMap or another of this fleet: either differs from the review.
    let found = sim().after(|now| now.add(on(node("n1", "a"), &source("by-hand"))));
    assert_eq!(
        found,
        one(Code::NodeRepointed, "node n1 points at kube-system/by-hand, and pointed at the local configuration")
    );
    let found = sim().after(|now| now.add(on(node("n1", "a"), &source("fleet-a-old"))));
    assert_eq!(
        found,
        one(Code::NodeRepointed, "node n1 points at kube-system/fleet-a-old, and pointed at the local configuration")
    );
    let found = sim().after(|now| now.add(node("n4", "a")));
    assert_eq!(
        found,
        one(Code::NodeRepointed, "node n4 points at the local configuration, and pointed at kube-system/fleet-a-old")
    );

    let found = sim().after(|now| {
        let target = now.target();
        now.make_config_map();
        now.add(on(node("n1", "a"), &target));
    });
    assert_eq!(found.iter().map(|(code, _)| *code).collect::<Vec<_>>(), [Code::ConfigMapExists, Code::NodeArrived]);

    let found = sim().after(|now| now.node("n1").labels = Arc::default());
    assert_eq!(found, one(Code::NodeMoved, "node n1 is in no pool any more"));

    let found = sim().after(|now| now.node("n1").deleting = true);
    assert_eq!(found, one(Code::NodeLeftAlone, "node n1 would be left unchanged: it is being deleted"));

    let found = sim().after(|now| {
        let older = crate::fixtures::of_version(now.node("n1").clone(), "v1.30.0");
        now.add(older);
    });
    assert_eq!(
        found,
        one(Code::NodeLeftAlone, "node n1 would be left unchanged: kubelet v1.30.0 does not support configSource")
    );
}

#[test]
fn reports_moved_node_once() {
    let mut sim = sim();
    let other = pool("b", 70, policy(1));
    sim.desired.pools.insert(other.name.clone(), other);
    sim.add(node("b1", "b"));
    let found = sim.after(|now| now.add(Node { uid: "uid-n1".to_owned(), ..node("n1", "b") }));
    assert_eq!(found, one(Code::NodeMoved, "node n1 is in pool b now"));
}

#[test]
fn reports_created_and_deleted_config_maps() {
    let found = sim().after(|now| now.make_config_map());
    let name = rendered("a", 64).config_map;
    let words = format!("ConfigMap kube-system/{name}, which the plan creates, exists already");
    assert_eq!(found, one(Code::ConfigMapExists, &words));

    let mut sim = sim();
    sim.make_config_map();
    let found = sim.after(|now| {
        now.observed.config_maps.retain(|key, _| key.name != name);
        now.observed.contents.retain(|key, _| key.name != name);
    });
    let words = format!("ConfigMap kube-system/{name} existed and is missing now");
    assert_eq!(found, one(Code::ConfigMapMissing, &words));
}

#[test]
fn reports_only_higher_risk() {
    let (plan, observed) = (sim().plan(), sim().observed);
    let fresh = sim().saved();
    let now = FreshPlan { plan: &plan, observed: &observed };
    let with = |risk, unknown| {
        let mut saved = fresh.clone();
        (saved.pools[0].risk, saved.pools[0].risk_unknown) = (risk, unknown);
        saved
    };
    let (drain, restart) = (Some(Class::Drain), Some(Class::Restart));
    for (then, is, message) in [
        ((None, 4), (drain, 0), "is drain, and was unknown for 4 nodes"),
        ((restart, 0), (None, 4), "is unknown for 4 nodes, and was restart"),
        ((restart, 1), (restart, 2), "is restart, unknown for 2 nodes, and was restart, unknown for 1 node"),
        ((restart, 2), (None, 2), "is unknown for 2 nodes, and was restart, unknown for 2 nodes"),
    ] {
        let found = with(then.0, then.1).differences(&with(is.0, is.1), now);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, format!("pool a: the risk of the change {message}"));
    }
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
    saved.pools[0].hash = Some("v1:blake3:00".to_owned());
    let codes: Vec<Code> = saved.differences(&fresh, now).iter().map(|difference| difference.code).collect();
    assert_eq!(codes, [Code::NodecfgVersion, Code::PoolConfiguration]);
    saved.hash_version = "v0:md5".to_owned();
    let codes: Vec<Code> = saved.differences(&fresh, now).iter().map(|difference| difference.code).collect();
    assert_eq!(codes, [Code::HashVersion, Code::NodecfgVersion]);
}

#[test]
fn reports_leftovers_of_failed_run() {
    let found = sim().after(|now| {
        let target = now.target();
        now.make_config_map();
        now.add(on(node("n1", "a"), &target));
        now.add(refusing(node("n2", "a"), &target, nodecfg_contract::error_text::VALIDATE));
    });
    let codes: Vec<Code> = found.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [Code::ConfigMapExists, Code::NodeArrived, Code::NodeArrived]);
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
    assert_eq!(error_of(r#"{"kind": "Plan", "formatVersion": 1}"#), "is not a saved plan: its kind is \"Plan\"");
    assert_eq!(
        error_of(&text.replacen("\"formatVersion\": 1", "\"formatVersion\": 2", 1)),
        format!("has format version 2, but this nodecfg ({}) reads 1", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(error_of(&text.replacen("\"n1\"", "\"n9\"", 1)), "was edited: its digest does not match its content");
    assert!(error_of(&text.replacen("\"takeOver\"", "\"take\"", 1)).starts_with("is damaged: unknown field `take`"));
    assert!(matches!(read(&vec![b' '; LIMIT + 1]), Err(SavedPlanError::TooLarge)));
    assert!(read(b"{\"kind\": \"SavedPlan\", \"formatVersion\": 1, \"x\": \"\xff\"}").is_err());
}

#[test]
fn ignores_whitespace() {
    let plan = example();
    let value: serde_json::Value = serde_json::from_str(&plan.text()).unwrap();
    assert_eq!(read(value.to_string().as_bytes()), Ok(plan));
}
