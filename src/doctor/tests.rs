//! Every check, with facts that it likes and facts that it does not.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::nodeconfig;
use nodecfg_contract::observed::{
    Abort, AgentSign, CONTENT_HASH_ANNOTATION, ConfigMapKey, FLEET_LABEL, KubeletVersion, MANAGED_BY_LABEL, MANAGER,
    Node, NodeSupport, Pause, Readiness,
};
use nodecfg_install::rights;
use nodecfg_planning::desired::RolloutPolicy;
use nodecfg_planning::plan;
use nodecfg_planning::plan::fixtures::{
    desired, fetched, fleet, namespace, node, node_name, observed, on, options, pool, refusing, rendered,
    with_config_map,
};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

fn trouble(code: &str) -> Unavailable {
    Unavailable { code: code.to_owned(), message: format!("it failed: {code}"), help: "try again".to_owned() }
}

/// A cluster where all is well: three nodes on the ConfigMap of their pool.
fn well(agents: bool) -> Facts {
    let rendered = rendered("gpu", 110);
    let source = rendered.source(&namespace());
    let version = if agents { "v1.36.2" } else { "v1.21.14" };
    let kubelet_version = KubeletVersion::parse(version);
    let nodes = ["n1", "n2", "n3"].map(|name| Node { kubelet_version, ..on(node(name, "gpu"), &source) });
    let mut observed = observed(nodes);
    with_config_map(&mut observed, "gpu", &rendered);
    let (key, map) = fetched(&source, &rendered.canonical, true);
    let mut map = map.unwrap();
    map.labels =
        [(MANAGED_BY_LABEL, MANAGER), (FLEET_LABEL, "fleet")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    map.annotations = [(CONTENT_HASH_ANNOTATION.to_owned(), rendered.hash.to_string())].into();
    observed.contents.insert(key, Some(map));
    let agent = agents.then(|| AgentSign { version: "0.1.0".to_owned(), heard: Some(ago(50)) });
    let signs = Signs { heartbeat: Some(ago(2)), agent };
    let asked = |rights: Vec<Right>, purpose| {
        rights.into_iter().map(move |right| AskedRight { right, purpose, allowed: Ok(Some(true)) })
    };
    let pods = Pods { desired: 3, ready: 3 };
    Facts {
        program: "0.1.0".to_owned(),
        namespace: namespace(),
        server: Ok(Server {
            address: "https://api".to_owned(),
            found: "context prod".to_owned(),
            version: Ok(ServerVersion::read(version, "", "")),
            ahead: SignedDuration::ZERO,
            now: now(),
        }),
        rights: asked(rights::of_a_sync(agents, "kube-system"), Purpose::Sync)
            .chain(asked(rights::of_capture("kube-system"), Purpose::Only("capture")))
            .collect(),
        bound: Some(Ok(Bound { agents, evidence: "shown".to_owned() })),
        installed: match agents {
            true => Installed {
                definition: Some(Ok(Some(nodeconfig::definition()))),
                policy: Some(Ok(true)),
                pods: Some(Ok(Some(pods))),
            },
            false => Installed::default(),
        },
        signs: observed.nodes.keys().map(|name| (name.clone(), signs.clone())).collect(),
        observed: Some(Ok(observed)),
        unlisted: None,
        unread: 0,
        locks: [(fleet(), Ok(Some(free())))].into(),
        repository: None,
    }
}

fn free() -> Lock {
    Lock {
        lease: "kube-system/nodecfg-fleet".to_owned(),
        holder: None,
        since: None,
        expires: None,
        orders: Ok(Orders::default()),
    }
}

/// The facts with a repository that asks for these pools.
fn asking(mut facts: Facts, pools: impl IntoIterator<Item = nodecfg_planning::desired::Pool>) -> Facts {
    let desired = desired(pools);
    let plan = facts.observed().map(|observed| plan::make(&desired, observed, &options()));
    facts.repository = Some(Ok(Repository { shown: ".".to_owned(), desired, warnings: 0, plan }));
    facts
}

fn gpu() -> nodecfg_planning::desired::Pool {
    pool("gpu", 110, RolloutPolicy::default())
}

/// What a change of the facts makes of the checks of one code.
#[track_caller]
fn of(code: &str, facts: &Facts) -> Vec<Check> {
    assert!(codes::CODES.iter().any(|known| known.code == code), "{code}");
    let checks = examine(facts);
    for check in &checks {
        assert!(codes::CODES.iter().any(|known| known.code == check.code), "{check:?} has a code that no table has");
        assert_eq!(check.ending.is_some(), check.verdict == CheckResult::Problem, "{check:?}");
        assert!(
            check.verdict > CheckResult::Note || check.mend.is_some() || check.subject.as_deref() == Some("others"),
            "{check:?}"
        );
        assert!(!check.seen.ends_with('.'), "{check:?}");
    }
    checks.into_iter().filter(|check| check.code == code).collect()
}

/// Holds that the facts give this code one check of this verdict, which says that.
#[track_caller]
fn holds(code: &str, verdict: CheckResult, says: &str, facts: &Facts) -> Check {
    let mut found = of(code, facts);
    assert_eq!(found.len(), 1, "{found:#?}");
    let check = found.pop().unwrap();
    assert_eq!(check.verdict, verdict, "{check:?}");
    assert!(check.seen.contains(says), "{check:?}");
    check
}

fn changed(agents: bool, change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = well(agents);
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
fn where_all_is_well_every_check_says_so() {
    for agents in [false, true] {
        let facts = asking(well(agents), [gpu()]);
        let checks = examine(&facts);
        let ill: Vec<&Check> = checks.iter().filter(|check| check.verdict != CheckResult::Ok).collect();
        assert!(ill.is_empty(), "{ill:#?}");
        assert_eq!(ending(&checks), None);
        let made: Vec<&str> = checks.iter().map(|check| check.code).collect();
        let of_agents = ["definition", "admission-policy", "daemon-set", "agent-silent", "agent-version"];
        for known in codes::CODES {
            let wanted = agents || !of_agents.contains(&known.code);
            assert_eq!(made.contains(&known.code), wanted, "{}", known.code);
        }
    }
}

#[test]
fn without_a_server_there_is_one_problem() {
    let facts = changed(false, |facts| {
        facts.server = Err(trouble("no-cluster"));
        (facts.rights, facts.bound, facts.observed, facts.locks) = (vec![], None, None, BTreeMap::new());
    });
    holds("api-server", CheckResult::Problem, "it failed", &facts);
    assert_eq!(ending(&examine(&facts)), Some(Ending::Cluster));
    let away = with_server(|server| server.version = Err(trouble("cluster-unreachable")));
    holds("api-server", CheckResult::Problem, "found by context prod", &away);
    let wrong = with_server(|server| server.version = Err(trouble("cluster-unauthorized")));
    holds("api-server", CheckResult::Ok, "https://api answers", &wrong);
    holds("credentials", CheckResult::Problem, "it failed", &wrong);
}

#[test]
fn clocks_may_differ_a_little() {
    for (seconds, verdict, says) in [
        (30, CheckResult::Ok, "agrees"),
        (-31, CheckResult::Warning, "31 seconds ahead of"),
        (3_600, CheckResult::Warning, "3600 seconds behind"),
    ] {
        let facts = with_server(|server| server.ahead = SignedDuration::from_secs(seconds));
        holds("clock", verdict, says, &facts);
    }
    let ahead = |seconds| {
        changed(false, |facts| {
            let moment = Some(now() + SignedDuration::from_secs(seconds));
            facts.signs.get_mut(&node_name("n2")).unwrap().heartbeat = moment;
        })
    };
    holds("node-clock", CheckResult::Ok, "", &ahead(60));
    holds("node-clock", CheckResult::Warning, "1 node (n2 by 90 seconds)", &ahead(90));
    let agent_ahead = changed(true, |facts| {
        let agent = facts.signs.get_mut(&node_name("n3")).unwrap().agent.as_mut().unwrap();
        agent.heard = Some(ago(-5));
    });
    holds("node-clock", CheckResult::Warning, "1 node (n3 by 300 seconds)", &agent_ahead);
}

#[test]
fn every_right_that_is_missing_is_told_with_its_rule() {
    for agents in [false, true] {
        for index in 0..rights::of_a_sync(agents, "kube-system").len() {
            let facts = changed(agents, |facts| facts.rights[index].allowed = Ok(Some(false)));
            let right = &facts.rights[index].right;
            let found = of("permission", &facts);
            let missing = &found[0];
            assert_eq!(missing.ending, Some(Ending::Cluster));
            assert_eq!(missing.subject.as_deref(), Some(right.to_string().as_str()));
            assert!(missing.mend.as_ref().unwrap().contains(&right.rule()), "{missing:?}");
        }
    }
    let facts = changed(false, |facts| facts.rights[0].allowed = Ok(None));
    assert!(of("permission", &facts).iter().any(|check| check.verdict == CheckResult::Unknown));
    let facts = changed(false, |facts| facts.rights.last_mut().unwrap().allowed = Ok(Some(false)));
    holds("permission-optional", CheckResult::Note, "no capture for this user, who may not get nodes/proxy", &facts);
}

#[test]
fn what_is_installed_is_looked_at_where_agents_need_it() {
    holds("binding", CheckResult::Ok, "NodeConfigs", &well(true));
    let unclear = changed(true, |facts| facts.bound = Some(Err(trouble("binding-unclear"))));
    holds("binding", CheckResult::Problem, "binding-unclear", &unclear);
    let with = |change: fn(&mut Installed)| changed(true, |facts| change(&mut facts.installed));
    holds("definition", CheckResult::Problem, "there is no", &with(|installed| installed.definition = Some(Ok(None))));
    let forbidden = with(|installed| installed.definition = Some(Err(trouble("cluster-forbidden"))));
    holds("definition", CheckResult::Unknown, "no sync needs to", &forbidden);
    let changed_definition = |change: fn(&mut Value)| {
        changed(true, |facts| {
            let mut definition = nodeconfig::definition();
            change(&mut definition);
            facts.installed.definition = Some(Ok(Some(definition)));
        })
    };
    const STATUS: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let old = changed_definition(|crd| drop(crd.pointer_mut(STATUS).unwrap().as_object_mut().unwrap().remove("agent")));
    holds("definition", CheckResult::Warning, "what agents write to status.agent is lost", &old);
    let new = changed_definition(|crd| crd.pointer_mut(STATUS).unwrap()["mood"] = json!({"type": "string"}));
    holds("definition", CheckResult::Note, "later version: it knows status.mood", &new);
    let other = changed_definition(|crd| crd.pointer_mut(STATUS).unwrap()["pool"]["maxLength"] = json!(3));
    holds("definition", CheckResult::Warning, "status.pool differs", &other);
    let unserved =
        changed_definition(|crd| crd["status"] = json!({"conditions": [{"type": "Established", "status": "False"}]}));
    holds("definition", CheckResult::Problem, "not served", &unserved);
    holds("admission-policy", CheckResult::Warning, "", &with(|installed| installed.policy = Some(Ok(false))));
    holds("daemon-set", CheckResult::Note, "there is no", &with(|installed| installed.pods = Some(Ok(None))));
    let few = with(|installed| installed.pods = Some(Ok(Some(Pods { desired: 3, ready: 2 }))));
    holds("daemon-set", CheckResult::Warning, "2 of 3", &few);
}

#[test]
fn kubelets_are_neither_newer_than_the_server_nor_much_older() {
    let of = |version: &str| with_node(true, "n1", |node| node.kubelet_version = KubeletVersion::parse(version));
    holds("kubelet-version", CheckResult::Ok, "v1.36.2 on 2 nodes, v1.33.0 on 1 node", &of("v1.33.0"));
    holds("kubelet-version", CheckResult::Warning, "1 node (n1) are older", &of("v1.32.9"));
    holds("kubelet-version", CheckResult::Warning, "newer", &of("v1.37.0"));
    holds("kubelet-version", CheckResult::Ok, "none readable on 1 node", &of(""));
}

#[test]
fn nodes_that_do_not_follow_are_told_by_the_reason() {
    for (half, verdict, says) in [
        (
            NodeSupport::KubeletUnable { version: KubeletVersion::parse("v1.24.0").unwrap() },
            CheckResult::Warning,
            "1.11 to 1.23",
        ),
        (NodeSupport::KubeletSilent, CheckResult::Warning, "--dynamic-config-dir"),
        (NodeSupport::AgentSilent, CheckResult::Warning, "no agent has ever reported"),
        (NodeSupport::Outlived, CheckResult::Note, "earlier node"),
    ] {
        let facts = with_node(false, "n2", |node| node.half = half);
        holds("node-half", verdict, says, &facts);
        if half == NodeSupport::Outlived {
            continue;
        }
        // With a repository, they are what a sync leaves out.
        let moved = with_node(false, "n2", |node| {
            node.half = half;
            node.source = None;
            node.status = Default::default();
        });
        let facts = asking(moved, [gpu()]);
        holds("node-left-out", CheckResult::Problem, "1 node (n2)", &facts);
        holds("node-half", CheckResult::Ok, "2 nodes, none that could not follow, beside", &facts);
        assert_eq!(ending(&examine(&facts)), Some(Ending::LeftOut));
    }
    let away = with_node(false, "n3", |node| node.ready = Readiness::Unknown);
    holds("node-ready", CheckResult::Note, "1 node (n3) not Ready", &away);
}

#[test]
fn an_agent_is_silent_after_three_hours() {
    let heard = |minutes| {
        changed(true, |facts| {
            let agent = facts.signs.get_mut(&node_name("n1")).unwrap().agent.as_mut().unwrap();
            agent.heard = Some(ago(minutes));
        })
    };
    holds("agent-silent", CheckResult::Ok, "3 agents", &heard(180));
    holds(
        "agent-silent",
        CheckResult::Warning,
        "on 1 node (n1) for three hours and more, the longest since",
        &heard(181),
    );
    let other = changed(true, |facts| {
        facts.signs.get_mut(&node_name("n1")).unwrap().agent.as_mut().unwrap().version = "0.0.9".to_owned();
        facts.signs.get_mut(&node_name("n2")).unwrap().agent = None;
    });
    let check =
        holds("agent-version", CheckResult::Note, "0.0.9 on 1 node (n1), one that does not say on 1 node", &other);
    assert!(check.seen.contains("(0.1.0)"), "{check:?}");
}

#[test]
fn what_nodes_report_is_counted_by_what_they_say() {
    let source = rendered("gpu", 110).source(&namespace());
    let failed = with_node(false, "n1", |n| *n = refusing(node("n1", "gpu"), &source, "failed to validate config"));
    holds("node-failed", CheckResult::Warning, "1 node (n1): failed to validate config", &failed);
    // A sync of the same would not mend it.
    let wanted = asking(failed, [gpu()]);
    let check = holds("node-failed", CheckResult::Problem, "refused by 1 node (n1)", &wanted);
    assert_eq!(check.ending, Some(Ending::LeftOut));
    let waiting = with_node(true, "n1", |n| n.status = Default::default());
    let check = holds("node-acknowledge", CheckResult::Warning, "the assignment is not taken on 1 node (n1)", &waiting);
    assert!(check.seen.contains("was heard of at 2027-01-15T07:10:00Z"), "{check:?}");
}

#[test]
fn a_repository_is_checked_where_one_is_named() {
    holds("repository", CheckResult::Unknown, "none was named", &well(false));
    let bad = changed(false, |facts| facts.repository = Some(Err(trouble("unknown-field"))));
    holds("repository", CheckResult::Problem, "unknown-field", &bad);
    assert_eq!(ending(&examine(&bad)), Some(Ending::BadRepository));
    let mut warned = asking(well(false), [gpu()]);
    warned.repository.as_mut().unwrap().as_mut().unwrap().warnings = 2;
    holds("repository", CheckResult::Note, "2 warnings", &warned);
    let empty = asking(well(false), [gpu(), pool("spare", 50, RolloutPolicy::default())]);
    holds("pool-empty", CheckResult::Warning, "no node is selected by 1 pool (spare)", &empty);
    let mut stray = with_observed(false, |observed| drop(observed.nodes.insert(node_name("x"), node("x", "other"))));
    stray = asking(stray, [gpu()]);
    holds("node-unpooled", CheckResult::Note, "1 node (x) in no pool", &stray);
    let twin = nodecfg_planning::desired::Pool { name: PoolName::new("twin").unwrap(), ..gpu() };
    let contested = asking(well(false), [gpu(), twin]);
    let check = holds("plan", CheckResult::Problem, "equal priority", &contested);
    assert_eq!((check.ending, check.subject.as_deref()), (Some(Ending::NoPlan), Some("contested-nodes")));
}

#[test]
fn a_lock_that_is_held_is_a_problem_until_it_expires() {
    let with = |expires: Option<Timestamp>| {
        changed(false, |facts| {
            let holder = Some("ci_1".to_owned());
            facts.locks.insert(fleet(), Ok(Some(Lock { holder, since: Some(ago(5)), expires, ..free() })));
        })
    };
    let held = with(Some(now() + SignedDuration::from_secs(20)));
    let check =
        holds("lock", CheckResult::Problem, "ci_1 holds kube-system/nodecfg-fleet since 2027-01-15T07:55:00Z", &held);
    assert_eq!(check.ending, Some(Ending::Locked));
    holds("lock", CheckResult::Note, "let it expire", &with(Some(ago(1))));
    holds("lock", CheckResult::Note, "without a term", &with(None));
    holds("lock", CheckResult::Ok, "has ever", &changed(false, |facts| drop(facts.locks.insert(fleet(), Ok(None)))));
    let unseen = changed(false, |facts| drop(facts.locks.insert(fleet(), Err(trouble("cluster-forbidden")))));
    holds("lock", CheckResult::Unknown, "it failed", &unseen);
}

#[test]
fn orders_are_told_with_who_gave_them() {
    let with = |orders: Result<Orders, String>, holder: Option<&str>| {
        changed(false, |facts| {
            let holder = holder.map(str::to_owned);
            facts.locks.insert(fleet(), Ok(Some(Lock { orders, holder, ..free() })));
        })
    };
    let pause = Pause { by: "ada".to_owned(), at: ago(60), reason: "disks".to_owned() };
    let paused = Orders { pauses: [(PoolName::new("gpu").unwrap(), pause)].into(), abort: None };
    let check = holds(
        "orders",
        CheckResult::Note,
        "pool gpu is paused by ada since 2027-01-15T07:00:00Z: disks",
        &with(Ok(paused), None),
    );
    assert!(check.mend.unwrap().contains("nodecfg resume gpu"));
    let abort = Abort { holder: "ci_1".to_owned(), by: "ada".to_owned(), at: ago(1), reason: None, back: false };
    let aborted = Orders { abort: Some(abort), ..Orders::default() };
    holds("orders", CheckResult::Warning, "ada told ci_1", &with(Ok(aborted.clone()), Some("ci_1")));
    holds("orders", CheckResult::Note, "ada told ci_1", &with(Ok(aborted), Some("ci_2")));
    holds("orders", CheckResult::Warning, "garbled", &with(Err("garbled".to_owned()), None));
}

#[test]
fn config_maps_are_there_and_hold_what_they_should() {
    let with = |change: fn(&mut Option<nodecfg_contract::observed::FetchedConfigMap>)| {
        with_observed(false, |observed| observed.contents.values_mut().for_each(change))
    };
    let gone = with(|map| *map = None);
    let check =
        holds("config-map-gone", CheckResult::Problem, "is gone, and pointed at by 3 nodes (n1, n2, n3)", &gone);
    assert_eq!(check.ending, Some(Ending::InTheWay));
    let going = with(|map| map.as_mut().unwrap().deleting = true);
    holds("config-map-gone", CheckResult::Problem, "is being deleted", &going);
    let many = changed(false, |facts| facts.unread = 4);
    holds("config-map-gone", CheckResult::Unknown, "4 ConfigMaps", &many);

    let tampered = with(|map| drop(map.as_mut().unwrap().data.insert("kubelet".to_owned(), "maxPods: 7\n".to_owned())));
    holds(
        "config-map-content",
        CheckResult::Problem,
        "other content than its annotation says, pointed at by 3 nodes",
        &tampered,
    );
    // A plan that does not want it says so by saying nothing.
    let unwanted = asking(tampered, [pool("gpu", 50, RolloutPolicy::default())]);
    holds("config-map-content", CheckResult::Warning, "other content", &unwanted);
    let unmarked = with(|map| {
        let map = map.as_mut().unwrap();
        map.annotations.clear();
        map.data.insert("kubelet".to_owned(), "maxPods: 7\n".to_owned());
    });
    holds("config-map-content", CheckResult::Problem, "than its name says", &unmarked);
    let empty = with(|map| map.as_mut().unwrap().data.clear());
    holds("config-map-content", CheckResult::Problem, "has no key kubelet", &empty);
    let later = with(|map| {
        map.as_mut().unwrap().annotations.insert(CONTENT_HASH_ANNOTATION.to_owned(), "v9:other:00".to_owned());
    });
    holds("config-map-content", CheckResult::Ok, "", &later);
    let others = with(|map| map.as_mut().unwrap().labels.clear());
    holds("config-map-content", CheckResult::Ok, "there are none of nodecfg", &others);

    let mutable = with(|map| map.as_mut().unwrap().immutable = false);
    let check = holds("config-map-mutable", CheckResult::Problem, "is not immutable", &mutable);
    assert!(check.mend.unwrap().contains("patch configmap fleet-gpu-"));
}

#[test]
fn config_maps_say_whose_they_are() {
    let unlabelled = with_observed(false, |observed| {
        observed.config_maps.values_mut().for_each(|map| (map.fleet, map.pool) = (None, None));
    });
    holds("config-map-labels", CheckResult::Warning, "nodecfg.dev/fleet and nodecfg.dev/pool", &unlabelled);
    let mut many = well(false);
    let map = plan::fixtures::managed("x", None, None, None);
    for index in 0..9 {
        let key = ConfigMapKey { namespace: "kube-system".to_owned(), name: format!("x{index}") };
        many.observed.as_mut().unwrap().as_mut().unwrap().config_maps.insert(key, map.clone());
    }
    let told = of("config-map-labels", &many);
    assert_eq!(told.len(), 6);
    assert!(told.iter().any(|check| check.seen == "4 ConfigMaps more like that"), "{told:#?}");
    let mut foreign = asking(well(false), [gpu()]);
    foreign.repository.as_mut().unwrap().as_mut().unwrap().desired.fleet = FleetName::new("other").unwrap();
    holds("config-map-foreign", CheckResult::Note, "1 other fleet (fleet)", &foreign);
    let unlisted = changed(false, |facts| facts.unlisted = Some(trouble("cluster-forbidden")));
    assert_eq!(of("permission", &unlisted).len(), 2);
}

#[test]
fn the_worst_comes_first_and_decides() {
    let facts = asking(
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
    assert_eq!(ending(&checks), Some(Ending::Cluster));
    assert_eq!(checks, examine(&facts));
}

#[test]
fn names_are_counted_and_a_few_told() {
    assert_eq!(Few::of(0..5).counted("node"), "5 nodes (0, 1, 2 and 2 more)");
    assert_eq!(Few::of(["a"]).counted("node"), "1 node (a)");
}
