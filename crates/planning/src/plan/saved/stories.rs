//! What changes between a review and the sync, and what is said of it.

use super::*;
use crate::desired::{Desired, MaxUnavailable, PoolTarget};
use crate::plan::fixtures::{
    canary, desired, fetched, node, node_name, observed, on, options, policy, pool, pool_name, refusing, rendered,
    source, with_config_map,
};
use crate::plan::make;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::CommitId;
use nodecfg_contract::observed::{Node, Observed, Pause, Readiness};

/// A revision, a cluster, and how they are looked at.
#[derive(Clone)]
struct World {
    desired: Desired,
    observed: Observed,
    options: crate::plan::Options,
    circumstances: Circumstances,
}

fn circumstances() -> Circumstances {
    Circumstances {
        cluster: ClusterIdentity { uid: "uid-1".to_owned(), server: "https://one:6443".to_owned() },
        binding: "node".to_owned(),
        options: SavedOptions { take_over: false, allow_empty: false, lenient: false, namespace: None },
    }
}

/// Pool a with three nodes on their local configuration and one on an old one.
fn world() -> World {
    let mut desired = desired([pool("a", 64, policy(1))]);
    desired.commit = Some(CommitId::new("1".repeat(40)).unwrap());
    let old = on(node("n4", "a"), &source("fleet-a-old"));
    let observed = observed([node("n1", "a"), node("n2", "a"), node("n3", "a"), old]);
    let mut world = World { desired, observed, options: options(), circumstances: circumstances() };
    let old = crate::plan::fixtures::managed("fleet-a-old", Some("fleet"), Some("a"), None);
    let key = nodecfg_contract::observed::ConfigMapKey { namespace: "kube-system".to_owned(), name: old.name.clone() };
    world.observed.config_maps.insert(key, old);
    world
}

impl World {
    fn plan(&self) -> Plan {
        make(&self.desired, &self.observed, &self.options).unwrap()
    }

    fn saved(&self) -> SavedPlan {
        SavedPlan::of(&self.plan(), &self.circumstances)
    }

    /// What a plan saved in this world meets after this change: code, and what is said.
    fn after(&self, change: impl FnOnce(&mut Self)) -> Vec<(Code, String)> {
        let mut now = self.clone();
        change(&mut now);
        let (plan, fresh) = (now.plan(), now.saved());
        let found = self.saved().differences(&fresh, Now { plan: &plan, observed: &now.observed });
        assert!(found.is_sorted(), "{found:?}");
        found.into_iter().map(|difference| (difference.code, difference.message)).collect()
    }

    fn node(&mut self, name: &str) -> &mut Node {
        self.observed.nodes.get_mut(&node_name(name)).unwrap()
    }

    fn add(&mut self, node: Node) {
        self.observed.nodes.insert(node.name.clone(), node);
    }

    /// The ConfigMap of the target comes to be, and is read.
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

/// A plan with something of everything.
pub(super) fn example() -> SavedPlan {
    world().saved()
}

fn one(code: Code, message: &str) -> Vec<(Code, String)> {
    vec![(code, message.to_owned())]
}

#[test]
fn nothing_changes() {
    assert_eq!(world().after(|_| {}), []);
}

#[test]
fn what_is_in_a_plan() {
    insta::assert_snapshot!("saved-plan", example().text());
}

#[test]
fn weather_is_no_difference() {
    let mut world = world();
    let target = world.target();
    let mut awaited = on(node("n5", "a"), &target);
    awaited.status.active = None;
    world.add(awaited);
    world.add(on(node("n6", "a"), &source("somebody-elses")));
    world.make_config_map();
    let found = world.after(|now| {
        now.node("n1").ready = Readiness::NotReady;
        // It has converged.
        now.add(on(node("n5", "a"), &target));
        // It was left alone, and is.
        now.add(on(node("n6", "a"), &source("another-somebodys")));
        now.add(node("stranger", "no-pool"));
        now.circumstances.cluster.server = "https://the-other-door:6443".to_owned();
    });
    assert_eq!(found, []);
}

#[test]
fn another_cluster_fleet_or_commit() {
    let found = world().after(|now| now.circumstances.cluster.uid = "uid-2".to_owned());
    let words = "it is for another cluster: the one at https://one:6443 (uid uid-1), not this one at https://one:6443 (uid uid-2)";
    assert_eq!(found, one(Code::Cluster, words));

    let found = world().after(|now| now.desired.fleet = FleetName::new("other").unwrap());
    assert_eq!(found[0], (Code::Fleet, "it is of fleet fleet, and the repository is of fleet other".to_owned()));

    let (then, now) = ("1".repeat(40), "2".repeat(40));
    let found = world().after(|world| world.desired.commit = Some(CommitId::new(now.clone()).unwrap()));
    assert_eq!(found, one(Code::Commit, &format!("commit {then} was reviewed, and {now} is read now")));
    let found = world().after(|world| world.desired.commit = None);
    assert_eq!(
        found,
        one(Code::Commit, &format!("commit {then} was reviewed, and files that are no commit's is read now"))
    );
}

#[test]
fn files_that_are_no_commits_are_known_by_what_they_render() {
    let mut world = world();
    world.desired.commit = None;
    assert_eq!(world.after(|now| now.desired.commit = Some(CommitId::new("2".repeat(40)).unwrap())), []);
    let found = world.after(|now| {
        now.desired.pools.get_mut(&pool_name("a")).unwrap().target = PoolTarget::Config(Box::new(rendered("a", 65)));
    });
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, Code::PoolConfiguration);
}

#[test]
fn options_binding_and_namespace() {
    let found = world().after(|now| {
        now.circumstances.options = SavedOptions {
            take_over: true,
            allow_empty: true,
            lenient: true,
            namespace: Some(NamespaceName::new("x").unwrap()),
        };
        now.circumstances.binding = "nodeconfig".to_owned();
    });
    let said: Vec<&str> = found.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(
        said,
        [
            "the binding is nodeconfig, and was node",
            "--allow-empty is true, and was false",
            "--lenient is true, and was false",
            "--namespace is x, and was not given",
            "--take-over is true, and was false",
        ]
    );
    let found = world().after(|now| now.options.namespace = NamespaceName::new("x").unwrap());
    assert_eq!(found[0], (Code::Namespace, "the namespace is x, and was kube-system".to_owned()));
}

#[test]
fn a_pool_is_new_gone_or_shall_run_something_else() {
    let found = world().after(|now| {
        let new = pool("b", 64, policy(1));
        now.desired.pools.insert(new.name.clone(), new);
        now.add(node("b1", "b"));
    });
    assert_eq!(found, one(Code::PoolNew, "pool b is new (1 node to be assigned)"));

    let found = world().after(|now| {
        let mut renamed = now.desired.pools.remove(&pool_name("a")).unwrap();
        renamed.name = pool_name("z");
        now.desired.pools.insert(renamed.name.clone(), renamed);
    });
    let said: Vec<Code> = found.iter().map(|(code, _)| *code).collect();
    assert_eq!(said, [Code::PoolGone, Code::PoolNew]);

    let found = world().after(|now| {
        now.desired.pools.get_mut(&pool_name("a")).unwrap().target = PoolTarget::Local;
    });
    let target = world().target();
    assert_eq!(
        found,
        one(Code::PoolConfiguration, &format!("pool a shall run the local configuration, and was to run {target}"))
    );
}

#[test]
fn every_field_of_the_policy_counts() {
    type Change = fn(&mut RolloutPolicy);
    let changes: [(Change, &[&str]); 7] = [
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
        (|policy| policy.paused = true, &["pool a: paused is true, and was false"]),
        (|policy| policy.allow_disruption = Class::Drain, &["pool a: allowDisruption is drain, and was restart"]),
        (|_| {}, &[]),
    ];
    for (change, words) in changes {
        let found = world().after(|now| change(now.policy()));
        let said: Vec<&str> = found.iter().map(|(_, message)| message.as_str()).collect();
        assert_eq!(said, words);
    }
}

#[test]
fn a_pool_is_paused_or_resumed_meanwhile() {
    let pause = |by: &str| Pause { by: by.to_owned(), at: jiff::Timestamp::UNIX_EPOCH, reason: "disks".to_owned() };
    let order = |now: &mut World, by: &str| drop(now.observed.orders.pauses.insert(pool_name("a"), pause(by)));
    let words = "by ada since 1970-01-01T00:00:00Z, disks";
    let found = world().after(|now| order(now, "ada"));
    assert_eq!(found, one(Code::PoolPause, &format!("pool a was paused meanwhile {words}")));
    let paused = || {
        let mut world = world();
        order(&mut world, "ada");
        world
    };
    let found = paused().after(|now| now.observed.orders.pauses.clear());
    assert_eq!(found, one(Code::PoolPause, &format!("pool a was resumed: it was paused {words}")));
    assert_eq!(paused().after(|now| order(now, "bob")), [], "nothing is done either way");
}

#[test]
fn a_budget_in_percent_follows_the_pool() {
    let mut world = world();
    world.policy().max_unavailable = MaxUnavailable::Percent(50);
    let found = world.after(|now| {
        // They need nothing, and count.
        let target = now.target();
        now.make_config_map();
        for name in ["m1", "m2"] {
            now.add(on(node(name, "a"), &target));
        }
    });
    assert_eq!(
        found[0],
        (Code::PoolBudget, "pool a: 3 of its nodes may be unavailable at once, and were 2".to_owned())
    );
}

#[test]
fn nodes_come_go_and_change() {
    let found = world().after(|now| now.add(node("n0", "a")));
    assert_eq!(found, one(Code::NodeNew, "node n0 is to be assigned, and was not"));

    let found = world().after(|now| drop(now.observed.nodes.remove(&node_name("n1"))));
    assert_eq!(found, one(Code::NodeGone, "node n1 is gone"));

    let found = world().after(|now| now.node("n1").uid = "another".to_owned());
    assert_eq!(found, one(Code::NodeReplaced, "node n1 was deleted and made anew: another Node has the name"));

    // Left alone as somebody else's, or moved by a colleague to another of ours: not what was reviewed either way.
    let found = world().after(|now| now.add(on(node("n1", "a"), &source("by-hand"))));
    assert_eq!(
        found,
        one(Code::NodeRepointed, "node n1 points at kube-system/by-hand, and pointed at the local configuration")
    );
    let found = world().after(|now| now.add(on(node("n1", "a"), &source("fleet-a-old"))));
    assert_eq!(
        found,
        one(Code::NodeRepointed, "node n1 points at kube-system/fleet-a-old, and pointed at the local configuration")
    );
    let found = world().after(|now| now.add(node("n4", "a")));
    assert_eq!(
        found,
        one(Code::NodeRepointed, "node n4 points at the local configuration, and pointed at kube-system/fleet-a-old")
    );

    let found = world().after(|now| {
        let target = now.target();
        now.make_config_map();
        now.add(on(node("n1", "a"), &target));
    });
    assert_eq!(found.iter().map(|(code, _)| *code).collect::<Vec<_>>(), [Code::ConfigMapExists, Code::NodeArrived]);

    let found = world().after(|now| now.node("n1").labels.clear());
    assert_eq!(found, one(Code::NodeMoved, "node n1 is in no pool any more"));

    let found = world().after(|now| now.node("n1").deleting = true);
    assert_eq!(found, one(Code::NodeLeftAlone, "node n1 would be left alone: it is being deleted"));

    let found = world().after(|now| {
        let older = crate::plan::fixtures::of_version(now.node("n1").clone(), "v1.30.0");
        now.add(older);
    });
    assert_eq!(
        found,
        one(Code::NodeLeftAlone, "node n1 would be left alone: its kubelet is v1.30.0, which cannot follow")
    );
}

#[test]
fn a_node_that_changes_its_pool_is_told_once() {
    let mut world = world();
    let other = pool("b", 70, policy(1));
    world.desired.pools.insert(other.name.clone(), other);
    world.add(node("b1", "b"));
    let found = world.after(|now| now.add(Node { uid: "uid-n1".to_owned(), ..node("n1", "b") }));
    assert_eq!(found, one(Code::NodeMoved, "node n1 is in pool b now"));
}

#[test]
fn config_maps_come_and_go() {
    let found = world().after(|now| now.make_config_map());
    let name = rendered("a", 64).config_map;
    let words = format!("ConfigMap kube-system/{name}, which was to be created, is there already");
    assert_eq!(found, one(Code::ConfigMapExists, &words));

    let mut world = world();
    world.make_config_map();
    let found = world.after(|now| {
        now.observed.config_maps.retain(|key, _| key.name != name);
        now.observed.contents.retain(|key, _| key.name != name);
    });
    let words = format!("ConfigMap kube-system/{name} was there, and is gone: it would have to be created");
    assert_eq!(found, one(Code::ConfigMapMissing, &words));
}

#[test]
fn a_worse_risk_is_a_difference_and_a_lesser_one_is_none() {
    let (plan, observed) = (world().plan(), world().observed);
    let fresh = world().saved();
    let now = Now { plan: &plan, observed: &observed };
    let with = |risk, unknown| {
        let mut saved = fresh.clone();
        (saved.pools[0].risk, saved.pools[0].risk_unknown) = (risk, unknown);
        saved
    };
    let (drain, restart) = (Some(Class::Drain), Some(Class::Restart));
    for (then, is, message) in [
        ((None, 4), (drain, 0), "is drain, and was not known for 4 nodes"),
        ((restart, 0), (None, 4), "is not known for 4 nodes, and was restart"),
        (
            (restart, 1),
            (restart, 2),
            "is restart, and not known for 2 nodes, and was restart, and not known for 1 node",
        ),
        ((restart, 2), (None, 2), "is not known for 2 nodes, and was restart, and not known for 2 nodes"),
    ] {
        let found = with(then.0, then.1).differences(&with(is.0, is.1), now);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, format!("pool a: the risk of the change {message}"));
    }
    assert_eq!(with(drain, 0).differences(&with(restart, 0), now), []);
    assert_eq!(with(restart, 2).differences(&with(restart, 1), now), []);
}

#[test]
fn another_nodecfg_is_told_when_it_renders_otherwise() {
    let (plan, observed) = (world().plan(), world().observed);
    let (fresh, now) = (world().saved(), Now { plan: &plan, observed: &observed });
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
fn what_a_failed_run_left_is_noticed() {
    let found = world().after(|now| {
        let target = now.target();
        now.make_config_map();
        now.add(on(node("n1", "a"), &target));
        now.add(refusing(node("n2", "a"), &target, nodecfg_contract::error_text::VALIDATE));
    });
    let codes: Vec<Code> = found.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [Code::ConfigMapExists, Code::NodeArrived, Code::NodeArrived]);
}

#[test]
fn damage_is_told_apart() {
    let text = example().text();
    let says = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(says(""), "is empty");
    assert_eq!(says(" \n"), "is empty");
    assert_eq!(
        says(&text[..text.len() / 2]),
        format!("is truncated: it breaks off in line {}", text[..text.len() / 2].lines().count())
    );
    assert!(says("kind: SavedPlan").starts_with("is not JSON: "));
    assert_eq!(says("[]"), "is not a saved plan");
    assert_eq!(says("{}"), "is not a saved plan");
    assert_eq!(says(r#"{"kind": "Plan", "formatVersion": 1}"#), "is not a saved plan: it is of kind \"Plan\"");
    assert_eq!(
        says(&text.replacen("\"formatVersion\": 1", "\"formatVersion\": 2", 1)),
        format!("has format version 2, and this nodecfg ({}) reads 1", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(
        says(&text.replacen("\"n1\"", "\"n9\"", 1)),
        "was edited after it was made: its digest is not that of its content"
    );
    assert!(says(&text.replacen("\"takeOver\"", "\"take\"", 1)).starts_with("is damaged: unknown field `take`"));
    assert!(matches!(read(&vec![b' '; LIMIT + 1]), Err(Unreadable::TooLarge)));
    assert!(read(b"{\"kind\": \"SavedPlan\", \"formatVersion\": 1, \"x\": \"\xff\"}").is_err());
}

#[test]
fn how_it_is_laid_out_does_not_matter() {
    let plan = example();
    let value: serde_json::Value = serde_json::from_str(&plan.text()).unwrap();
    assert_eq!(read(value.to_string().as_bytes()), Ok(plan));
}
