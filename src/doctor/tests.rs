//! Tests of every check, with facts that satisfy it and facts that do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::fixtures::{ago, cause, free, gpu, healthy, now, with_pools};
use super::*;
use nodecfg_contract::kubelet_values::OverriddenValue;
use nodecfg_contract::labels::CONTENT_HASH_ANNOTATION;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::{KubeletVersion, UnreadableField, nodeconfig};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_install::rights;
use nodecfg_observed::{Abort, ConfigMapKey, Drain, DrainMark, Node, Obstacle, Pause, Proof, Readiness};
use nodecfg_plan::fixtures::{fleet, namespace, node, node_name, pause, pool, refusing, rendered};

/// Checks with one code that result from the facts.
#[track_caller]
fn of(code: &str, facts: &Facts) -> Vec<Check> {
    assert!(codes::CODES.iter().any(|known| known.code == code), "{code}");
    let checks = examine(facts);
    for check in &checks {
        assert!(codes::CODES.iter().any(|known| known.code == check.code), "{check:?} has a code that no table has");
        assert_eq!(check.failure.is_some(), check.verdict == CheckResult::Problem, "{check:?}");
        assert!(
            check.verdict > CheckResult::Note || check.fix.is_some() || check.subject.as_deref() == Some("others"),
            "{check:?}"
        );
        assert!(!check.seen.ends_with('.'), "{check:?}");
    }
    checks.into_iter().filter(|check| check.code == code).collect()
}

/// Asserts that the facts yield exactly one check with this code, result and text.
#[track_caller]
fn assert_check(code: &str, verdict: CheckResult, says: &str, facts: &Facts) -> Check {
    let mut found = of(code, facts);
    assert_eq!(found.len(), 1, "{found:#?}");
    let check = found.pop().unwrap();
    assert_eq!(check.verdict, verdict, "{check:?}");
    assert!(check.seen.contains(says), "{check:?}");
    check
}

fn changed(agents: bool, change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = healthy(agents);
    change(&mut facts);
    facts
}

fn with_observed(agents: bool, change: impl FnOnce(&mut Observed)) -> Facts {
    changed(agents, |facts| change(facts.observed.as_mut().unwrap().as_mut().unwrap()))
}

fn with_node(agents: bool, name: &str, change: impl FnOnce(&mut Node)) -> Facts {
    with_observed(agents, |observed| change(observed.nodes.get_mut(&node_name(name)).unwrap()))
}

fn with_server(change: impl FnOnce(&mut Server)) -> Facts {
    changed(false, |facts| change(facts.server.as_mut().unwrap()))
}

#[test]
fn mark_of_a_drain_ends_with_the_drain() {
    let marked = |minutes: i64, tainted: bool, readable: bool| {
        with_node(false, "n2", |node| {
            let drain = Drain {
                fleet: fleet(),
                pool: PoolName::new("gpu").unwrap(),
                to: None,
                from: None,
                since: ago(minutes),
                added: [].into(),
            };
            node.drain_mark = Some(Box::new(DrainMark { tainted, drain: readable.then_some(drain) }));
        })
    };
    let code = "drain-mark";
    assert_check(code, CheckResult::Note, "within its time limit on 1 node (n2)", &marked(19, true, true));
    // By default 15 minutes, 5 minutes for the convergence, and 30 seconds until the release.
    let old =
        assert_check(code, CheckResult::Warning, "on 1 node (n2), the oldest since 2027-", &marked(21, true, true));
    assert_eq!(old.fix.as_deref(), Some("release the node, unless a sync still drains it: `nodecfg release NODE`"));
    let slow = RolloutPolicy { convergence_timeout: std::time::Duration::from_secs(3600), ..RolloutPolicy::default() };
    let facts = with_pools(marked(21, true, true), [pool("gpu", 110, slow)]);
    assert_check(code, CheckResult::Note, "within its time limit", &facts);
    // A node may write the annotation, but not the taint.
    assert_check(code, CheckResult::Warning, "outlasts its time limit", &marked(-5, true, true));
    assert_check(code, CheckResult::Warning, "outlasts its time limit on 1 node (n2)", &marked(1, true, false));
    assert_check(code, CheckResult::Warning, "without its taint", &marked(1, false, true));
}

#[test]
fn healthy_cluster_passes_every_check() {
    for agents in [false, true] {
        let facts = with_pools(healthy(agents), [gpu()]);
        let checks = examine(&facts);
        let failing: Vec<&Check> = checks.iter().filter(|check| check.verdict != CheckResult::Ok).collect();
        assert!(failing.is_empty(), "{failing:#?}");
        assert_eq!(failure(&checks), None);
        let made: Vec<&str> = checks.iter().map(|check| check.code).collect();
        let of_agents = [
            "definition",
            "admission-policy",
            "config-map-policy",
            "daemon-set",
            "agent-silent",
            "agent-version",
            "node-proof",
        ];
        for known in codes::CODES {
            let wanted = agents || !of_agents.contains(&known.code);
            assert_eq!(made.contains(&known.code), wanted, "{}", known.code);
        }
    }
}

#[test]
fn proofs_name_overridden_values_and_reasons() {
    let reported = |proof: Option<Proof>| with_node(true, "n1", |node| node.proof = proof.map(Arc::new));
    let known = |overridden: Vec<OverriddenValue>| Some(Proof::Known { overridden, more: 0, above: Vec::new() });
    assert_check("node-proof", CheckResult::Ok, "3 kubelets run every reviewed value", &reported(known(Vec::new())));
    let value = OverriddenValue {
        field: "maxPods".to_owned(),
        reviewed: Some("60".to_owned()),
        running: Some("50".to_owned()),
        by: Some("--max-pods".to_owned()),
    };
    let text = "1 node (n1): maxPods is 50 by the flag --max-pods, reviewed is 60";
    assert_check("node-proof", CheckResult::Note, text, &reported(known(vec![value])));
    let unknown = Some(Proof::Unknown { reason: "no process runs".to_owned() });
    assert_check("node-proof", CheckResult::Note, "unknown on 1 node (n1): no process runs", &reported(unknown));
    assert_check(
        "node-proof",
        CheckResult::Note,
        "unknown on 1 node (n1): its agent does not report it",
        &reported(None),
    );
}

#[test]
fn missing_server_is_one_problem() {
    let facts = changed(false, |facts| {
        facts.server = Err(cause("no-cluster"));
        (facts.rights, facts.bound, facts.observed, facts.locks) = (vec![], None, None, BTreeMap::new());
    });
    assert_check("api-server", CheckResult::Problem, "it failed", &facts);
    assert_eq!(failure(&examine(&facts)), Some(SyncFailure::Cluster));
    let away = with_server(|server| server.version = Err(cause("cluster-unreachable")));
    assert_check("api-server", CheckResult::Problem, "found by context prod", &away);
    let wrong = with_server(|server| server.version = Err(cause("cluster-unauthorized")));
    assert_check("api-server", CheckResult::Ok, "https://api answers", &wrong);
    assert_check("credentials", CheckResult::Problem, "it failed", &wrong);
}

#[test]
fn tolerates_small_clock_differences() {
    for (seconds, verdict, says) in [
        (30, CheckResult::Ok, "agrees"),
        (-31, CheckResult::Warning, "31 seconds ahead of"),
        (3_600, CheckResult::Warning, "3600 seconds behind"),
    ] {
        let facts = with_server(|server| server.ahead = SignedDuration::from_secs(seconds));
        assert_check("clock", verdict, says, &facts);
    }
    let ahead = |seconds| {
        changed(false, |facts| {
            let moment = Some(now() + SignedDuration::from_secs(seconds));
            facts.signs.get_mut(&node_name("n2")).unwrap().heartbeat = moment;
        })
    };
    assert_check("node-clock", CheckResult::Ok, "", &ahead(60));
    assert_check("node-clock", CheckResult::Warning, "1 node (n2 by 90 seconds)", &ahead(90));
    let agent_ahead = changed(true, |facts| {
        let agent = facts.signs.get_mut(&node_name("n3")).unwrap().agent.as_mut().unwrap();
        agent.last_seen = Some(ago(-5));
    });
    assert_check("node-clock", CheckResult::Warning, "1 node (n3 by 300 seconds)", &agent_ahead);
}

#[test]
fn reports_every_missing_right_with_its_rule() {
    for agents in [false, true] {
        for index in 0..rights::for_sync(agents, "kube-system").len() {
            let facts = changed(agents, |facts| facts.rights[index].allowed = Ok(Some(false)));
            let right = &facts.rights[index].right;
            let found = of("permission", &facts);
            let missing = &found[0];
            assert_eq!(missing.failure, Some(SyncFailure::Cluster));
            assert_eq!(missing.subject.as_deref(), Some(right.to_string().as_str()));
            assert!(missing.fix.as_ref().unwrap().contains(&right.grant()), "{missing:?}");
        }
    }
    let facts = changed(false, |facts| facts.rights[0].allowed = Ok(None));
    assert!(of("permission", &facts).iter().any(|check| check.verdict == CheckResult::Unknown));
    let facts = changed(false, |facts| facts.rights.last_mut().unwrap().allowed = Ok(Some(false)));
    assert_check(
        "permission-optional",
        CheckResult::Note,
        "no capture for this user, who may not get nodes/proxy",
        &facts,
    );
    let refused = changed(true, |facts| facts.admission = Some(Err(cause("not-a-writer"))));
    let check = assert_check("admission", CheckResult::Problem, "it failed: not-a-writer", &refused);
    assert_eq!((check.fix.as_deref(), failure(&examine(&refused))), (Some("try again"), Some(SyncFailure::Cluster)));
}

#[test]
fn checks_the_installation_when_agents_need_it() {
    assert_check("binding", CheckResult::Ok, "NodeConfigs", &healthy(true));
    let unclear = changed(true, |facts| facts.bound = Some(Err(cause("binding-unclear"))));
    assert_check("binding", CheckResult::Problem, "binding-unclear", &unclear);
    let with = |change: fn(&mut Installed)| changed(true, |facts| change(facts.installed.as_mut().unwrap()));
    assert_check("definition", CheckResult::Problem, "is missing", &with(|installed| installed.definition = Ok(None)));
    let forbidden = with(|installed| installed.definition = Err(cause("cluster-forbidden")));
    assert_check("definition", CheckResult::Unknown, "no sync needs it", &forbidden);
    let changed_definition = |change: fn(&mut Value)| {
        changed(true, |facts| {
            let mut definition = nodeconfig::definition();
            change(&mut definition);
            facts.installed.as_mut().unwrap().definition = Ok(Some(definition));
        })
    };
    const STATUS: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let old = changed_definition(|crd| drop(crd.pointer_mut(STATUS).unwrap().as_object_mut().unwrap().remove("agent")));
    assert_check("definition", CheckResult::Warning, "agents write to status.agent are lost", &old);
    let new = changed_definition(|crd| crd.pointer_mut(STATUS).unwrap()["mood"] = json!({"type": "string"}));
    assert_check("definition", CheckResult::Note, "later version with additional fields: status.mood", &new);
    let other = changed_definition(|crd| crd.pointer_mut(STATUS).unwrap()["pool"]["maxLength"] = json!(3));
    assert_check("definition", CheckResult::Warning, "version in status.pool", &other);
    let unserved =
        changed_definition(|crd| crd["status"] = json!({"conditions": [{"type": "Established", "status": "False"}]}));
    assert_check("definition", CheckResult::Problem, "does not serve", &unserved);
    let facts = with(|installed| installed.own_status = Ok(InstalledPolicy::default()));
    assert_check("admission-policy", CheckResult::Warning, "own-status is missing", &facts);
    let facts = with(|installed| installed.config_maps = Ok(InstalledPolicy::default()));
    assert_check("config-map-policy", CheckResult::Warning, "nodecfg-configmaps-kube-system is missing", &facts);
    assert_check("daemon-set", CheckResult::Note, "is missing", &with(|installed| installed.pods = Ok(None)));
    let few = with(|installed| installed.pods = Ok(Some(Pods { desired: 3, ready: 2 })));
    assert_check("daemon-set", CheckResult::Warning, "2 of 3", &few);
}

#[test]
fn warns_of_kubelets_outside_the_version_skew() {
    let of = |version: &str| with_node(true, "n1", |node| node.kubelet_version = KubeletVersion::parse(version));
    assert_check("kubelet-version", CheckResult::Ok, "v1.36.2 on 2 nodes, v1.33.0 on 1 node", &of("v1.33.0"));
    assert_check("kubelet-version", CheckResult::Warning, "1 node (n1) are older", &of("v1.32.9"));
    assert_check("kubelet-version", CheckResult::Warning, "newer", &of("v1.37.0"));
    assert_check("kubelet-version", CheckResult::Ok, "unknown on 1 node", &of(""));
}

fn unreadable() -> UnreadableField {
    UnreadableField { field: "status.conditions".to_owned(), reason: "x".to_owned() }
}

#[test]
fn reports_nodes_without_support_by_reason() {
    for (support, verdict, says) in [
        (
            Some(Obstacle::Unsupported { version: KubeletVersion::parse("v1.24.0").unwrap() }),
            CheckResult::Warning,
            "1.11 to 1.23",
        ),
        (Some(Obstacle::NoDynamicConfig), CheckResult::Warning, "--dynamic-config-dir"),
        (Some(Obstacle::AgentSilent), CheckResult::Warning, "no report of an agent"),
        (Some(Obstacle::Outlived), CheckResult::Note, "earlier node"),
        (Some(Obstacle::Unreadable(unreadable())), CheckResult::Warning, "n2 (status.conditions is unreadable: x)"),
    ] {
        let facts = with_node(false, "n2", |node| node.obstacle = support.clone());
        assert_check("node-support", verdict, says, &facts);
        if support == Some(Obstacle::Outlived) {
            continue;
        }
        // With a repository, they are reported as skipped.
        let moved = with_node(false, "n2", |node| {
            node.obstacle = support.clone();
            node.source = None;
            node.status = Default::default();
        });
        let facts = with_pools(moved, [gpu()]);
        assert_check("node-left-out", CheckResult::Problem, "1 node (n2)", &facts);
        assert_check("node-support", CheckResult::Ok, "2 nodes, all support assignments, not counting", &facts);
        assert_eq!(failure(&examine(&facts)), Some(SyncFailure::LeftOut));
    }
    let away = with_node(false, "n3", |node| node.ready = Readiness::Unknown);
    assert_check("node-ready", CheckResult::Note, "1 node (n3) not Ready", &away);
}

#[test]
fn agent_is_silent_after_three_hours() {
    let last_seen = |minutes| {
        changed(true, |facts| {
            let agent = facts.signs.get_mut(&node_name("n1")).unwrap().agent.as_mut().unwrap();
            agent.last_seen = Some(ago(minutes));
        })
    };
    assert_check("agent-silent", CheckResult::Ok, "3 agents", &last_seen(180));
    assert_check(
        "agent-silent",
        CheckResult::Warning,
        "for more than three hours on 1 node (n1), the longest since",
        &last_seen(181),
    );
    let never = changed(true, |facts| {
        facts.signs.get_mut(&node_name("n1")).unwrap().agent.as_mut().unwrap().last_seen = None;
    });
    let check = assert_check("agent-silent", CheckResult::Warning, "for more than three hours on 1 node (n1)", &never);
    assert!(!check.seen.contains("since"), "{check:?}");
    let none = changed(true, |facts| {
        for node in facts.observed.as_mut().unwrap().as_mut().unwrap().nodes.values_mut() {
            *node = Node { source: None, status: Default::default(), ..node.clone() };
        }
        facts.signs.values_mut().for_each(|signs| signs.agent = None);
    });
    assert_check("agent-silent", CheckResult::Warning, "no agent has reported yet", &none);
    let other = changed(true, |facts| {
        facts.signs.get_mut(&node_name("n1")).unwrap().agent.as_mut().unwrap().version = "0.0.9".to_owned();
        facts.signs.get_mut(&node_name("n2")).unwrap().agent = None;
    });
    let check = assert_check("agent-version", CheckResult::Note, "0.0.9 on 1 node (n1), unknown on 1 node", &other);
    assert!(check.seen.contains("(0.1.0)"), "{check:?}");
}

#[test]
fn groups_nodes_by_their_reported_error() {
    let source = rendered("gpu", 110).source(&namespace());
    let failed = with_node(false, "n1", |n| *n = refusing(node("n1", "gpu"), &source, "failed to validate config"));
    assert_check("node-failed", CheckResult::Warning, "1 node (n1): failed to validate config", &failed);
    // A sync of the same configuration would not fix it.
    let wanted = with_pools(failed, [gpu()]);
    let check = assert_check("node-failed", CheckResult::Problem, "refused by 1 node (n1)", &wanted);
    assert_eq!(check.failure, Some(SyncFailure::LeftOut));
    let waiting = with_node(true, "n1", |n| n.status = Default::default());
    let check = assert_check("node-acknowledge", CheckResult::Warning, "not acknowledged on 1 node (n1)", &waiting);
    assert!(check.seen.contains("oldest heartbeat of an agent at 2027-01-15T07:10:00Z"), "{check:?}");
}

#[test]
fn checks_a_given_repository() {
    assert_check("repository", CheckResult::Unknown, "none was given", &healthy(false));
    let bad = changed(false, |facts| facts.repository = Some(Err(cause("unknown-field"))));
    assert_check("repository", CheckResult::Problem, "unknown-field", &bad);
    assert_eq!(failure(&examine(&bad)), Some(SyncFailure::BadRepository));
    let mut warned = with_pools(healthy(false), [gpu()]);
    warned.repository.as_mut().unwrap().as_mut().unwrap().warnings = 2;
    assert_check("repository", CheckResult::Note, "2 warnings", &warned);
    let empty = with_pools(healthy(false), [gpu(), pool("spare", 50, RolloutPolicy::default())]);
    assert_check("pool-empty", CheckResult::Warning, "no node is selected by 1 pool (spare)", &empty);
    let spare = nodecfg_fleet::Pool { require_nodes: Some(false), ..pool("spare", 50, RolloutPolicy::default()) };
    let intended = with_pools(healthy(false), [gpu(), spare]);
    assert_check("pool-empty", CheckResult::Ok, "every pool selects nodes or may be empty", &intended);
    let mut stray = with_observed(false, |observed| drop(observed.nodes.insert(node_name("x"), node("x", "other"))));
    stray = with_pools(stray, [gpu()]);
    assert_check("node-unpooled", CheckResult::Note, "1 node (x) in no pool", &stray);
    let twin = nodecfg_fleet::Pool { name: PoolName::new("twin").unwrap(), ..gpu() };
    let contested = with_pools(healthy(false), [gpu(), twin]);
    let check = assert_check("node-left-out", CheckResult::Problem, "of equal priority select the node", &contested);
    assert_eq!(check.failure, Some(SyncFailure::LeftOut));
}

#[test]
fn held_lock_is_a_problem_until_it_expires() {
    let with = |expires: Option<Timestamp>| {
        changed(false, |facts| {
            let holder = Some("ci_1".to_owned());
            facts.locks.insert(fleet(), Ok(Some(Lock { holder, since: Some(ago(5)), expires, ..free() })));
        })
    };
    let held = with(Some(now() + SignedDuration::from_secs(20)));
    let check = assert_check(
        "lock",
        CheckResult::Problem,
        "ci_1 holds kube-system/nodecfg-fleet since 2027-01-15T07:55:00Z",
        &held,
    );
    assert_eq!(check.failure, Some(SyncFailure::Locked));
    assert_check("lock", CheckResult::Note, "let it expire", &with(Some(ago(1))));
    assert_check("lock", CheckResult::Note, "without an expiry", &with(None));
    assert_check(
        "lock",
        CheckResult::Ok,
        "has taken",
        &changed(false, |facts| drop(facts.locks.insert(fleet(), Ok(None)))),
    );
    let unseen = changed(false, |facts| drop(facts.locks.insert(fleet(), Err(cause("cluster-forbidden")))));
    assert_check("lock", CheckResult::Unknown, "it failed", &unseen);
}

#[test]
fn reports_orders_with_their_author() {
    let with = |orders: Result<Orders, String>, holder: Option<&str>| {
        changed(false, |facts| {
            let holder = holder.map(str::to_owned);
            facts.locks.insert(fleet(), Ok(Some(Lock { orders, holder, ..free() })));
        })
    };
    let pause = Pause { at: ago(60), ..pause("disks") };
    let paused = Orders { pauses: [(PoolName::new("gpu").unwrap(), pause)].into(), ..Orders::default() };
    let check = assert_check(
        "orders",
        CheckResult::Note,
        "pool gpu is paused by ada since 2027-01-15T07:00:00Z: disks",
        &with(Ok(paused), None),
    );
    assert!(check.fix.unwrap().contains("nodecfg resume gpu"));
    let abort = Abort {
        holder: "ci_1".to_owned(),
        by: "ada".to_owned(),
        at: ago(1),
        reason: None,
        back: false,
        fleet_paused: false,
    };
    let aborted = Orders { abort: Some(abort), ..Orders::default() };
    assert_check("orders", CheckResult::Warning, "ada ordered ci_1", &with(Ok(aborted.clone()), Some("ci_1")));
    assert_check("orders", CheckResult::Note, "ada ordered ci_1", &with(Ok(aborted), Some("ci_2")));
    assert_check("orders", CheckResult::Warning, "garbled", &with(Err("garbled".to_owned()), None));
}

#[test]
fn checks_existence_and_content_of_config_maps() {
    let with = |change: fn(&mut Option<nodecfg_contract::config_map::FetchedConfigMap>)| {
        with_observed(false, |observed| observed.contents.values_mut().for_each(change))
    };
    let missing = with(|map| *map = None);
    let check = assert_check(
        "config-map-gone",
        CheckResult::Problem,
        "is missing; referenced by 3 nodes (n1, n2, n3)",
        &missing,
    );
    assert_eq!(check.failure, Some(SyncFailure::InTheWay));
    let deleting = with(|map| map.as_mut().unwrap().deleting = true);
    assert_check("config-map-gone", CheckResult::Problem, "is being deleted", &deleting);
    let many = changed(false, |facts| facts.unread = 4);
    assert_check("config-map-gone", CheckResult::Unknown, "4 ConfigMaps", &many);

    let tampered = with(|map| drop(map.as_mut().unwrap().data.insert("kubelet".to_owned(), "maxPods: 7\n".to_owned())));
    assert_check(
        "config-map-content",
        CheckResult::Problem,
        "other content than its annotation records; referenced by 3 nodes",
        &tampered,
    );
    // The plan does not need the ConfigMap, so its content is only a warning.
    let unwanted = with_pools(tampered, [pool("gpu", 50, RolloutPolicy::default())]);
    assert_check("config-map-content", CheckResult::Warning, "other content", &unwanted);
    let unmarked = with(|map| {
        let map = map.as_mut().unwrap();
        map.annotations.clear();
        map.data.insert("kubelet".to_owned(), "maxPods: 7\n".to_owned());
    });
    assert_check("config-map-content", CheckResult::Problem, "than its name records", &unmarked);
    let empty = with(|map| map.as_mut().unwrap().data.clear());
    assert_check("config-map-content", CheckResult::Problem, "has no key kubelet", &empty);
    let later = with(|map| {
        map.as_mut().unwrap().annotations.insert(CONTENT_HASH_ANNOTATION.to_owned(), "v9:other:00".to_owned());
    });
    assert_check("config-map-content", CheckResult::Ok, "", &later);
    let others = with(|map| map.as_mut().unwrap().labels.clear());
    assert_check("config-map-content", CheckResult::Ok, "no ConfigMap of nodecfg", &others);

    let mutable = with(|map| map.as_mut().unwrap().immutable = false);
    let check = assert_check("config-map-mutable", CheckResult::Problem, "is not immutable", &mutable);
    assert!(check.fix.unwrap().contains("patch configmap fleet-gpu-"));
}

#[test]
fn checks_the_labels_of_config_maps() {
    let unlabelled = with_observed(false, |observed| {
        observed.config_maps.values_mut().for_each(|map| (map.fleet, map.pool) = (None, None));
    });
    assert_check("config-map-labels", CheckResult::Warning, "nodecfg.dev/fleet and nodecfg.dev/pool", &unlabelled);
    let mut many = healthy(false);
    let map = nodecfg_plan::fixtures::managed("x", None, None, None);
    for index in 0..9 {
        let key = ConfigMapKey { namespace: "kube-system".to_owned(), name: format!("x{index}") };
        many.observed.as_mut().unwrap().as_mut().unwrap().config_maps.insert(key, map.clone());
    }
    let found = of("config-map-labels", &many);
    assert_eq!(found.len(), 6);
    assert!(found.iter().any(|check| check.seen == "4 ConfigMaps more like that"), "{found:#?}");
    let mut foreign = with_pools(healthy(false), [gpu()]);
    foreign.repository.as_mut().unwrap().as_mut().unwrap().desired.fleet = FleetName::new("other").unwrap();
    assert_check("config-map-foreign", CheckResult::Note, "1 other fleet (fleet)", &foreign);
    let unlisted = changed(false, |facts| facts.unlisted = Some(cause("cluster-forbidden")));
    assert_eq!(of("permission", &unlisted).len(), 2);
}

#[test]
fn worst_check_comes_first_and_determines_the_failure() {
    let facts = with_pools(
        changed(false, |facts| {
            let holder = Some("ci_1".to_owned());
            let expires = Some(now() + SignedDuration::from_secs(20));
            facts.locks.insert(fleet(), Ok(Some(Lock { holder, expires, ..free() })));
            facts.rights[0].allowed = Ok(Some(false));
            facts.server.as_mut().unwrap().ahead = SignedDuration::from_hours(1);
        }),
        [gpu()],
    );
    let checks = examine(&facts);
    let codes: Vec<&str> = checks.iter().take(4).map(|check| check.code).collect();
    assert_eq!(codes[..3], ["permission", "lock", "clock"], "{codes:?}");
    assert_eq!(failure(&checks), Some(SyncFailure::Cluster));
    assert_eq!(checks, examine(&facts));
}

#[test]
fn prints_counts_with_a_few_names() {
    assert_eq!(NameSample::of(0..5).counted("node"), "5 nodes (0, 1, 2 and 2 more)");
    assert_eq!(NameSample::of(["a"]).counted("node"), "1 node (a)");
}
