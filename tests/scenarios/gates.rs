//! Scenarios of gates: the command `gates`, and rollouts that wait for gates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nodecfg_sandbox::workloads::WorkloadSpec;
use serde_json::{Value, json};

use crate::harness::{BEFORE, Cluster, ClusterSetup, Repository, until};
use crate::stand_in::{Reply, StandIn};

scenarios! {
    Anything {
        command_asks_objects_of_the_cluster,
        gate_of_an_object_holds_and_releases_a_pool,
        gate_stops_the_rollout_between_nodes,
        gate_that_stops_the_rollout_returns_its_nodes,
        blocking_gate_fails_the_canaries,
        dry_run_and_rollback_ask_no_gate,
        node_starts_once_its_owner_permits_it,
    }
    Workloads {
        gate_that_stops_the_rollout_drains_the_nodes_that_it_returns,
    }
    Sandbox {
        command_prints_each_answer_once,
        token_is_never_printed,
    }
}

const QUERY: &str = "{name: errors, prometheus: {query: errors > 1, present: errors}}";

fn repository(gates: &str) -> Repository {
    Repository::of_pool("syncFrequency: 2m", &format!("{{gates: [{gates}]}}"))
}

async fn gates(cluster: &Cluster, repository: &Repository, arguments: &[&str]) -> crate::harness::Run {
    cluster.run("gates", repository, arguments).await
}

async fn command_asks_objects_of_the_cluster(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let node =
        |name: &str, wanted: &str| format!("{{name: {name}, object: {{apiVersion: v1, kind: Node, name: {wanted}}}}}");
    let repository = repository(
        &[
            node("phase", "a-1, jsonPath: \"{.metadata.labels['nodecfg.dev/pool']}=a\""),
            node("ready", "a-1, condition: Ready=True"),
        ]
        .join(", "),
    );
    gates(&cluster, &repository, &[]).await.exits(0).prints("passes ready, pool a").prints("2 gates: 2 passing.");
    let blocked = self::repository(
        &[
            node("ready", "a-1, condition: Ready=False"),
            node("missing", "a-2, condition: Ready=True"),
            "{name: kind, object: {apiVersion: example.com/v1, kind: Gadget, name: a, condition: Ready=True}}"
                .to_owned(),
        ]
        .join(", "),
    );
    let run = gates(&cluster, &blocked, &[]).await.exits(1);
    run.prints("Node a-1: Ready is True")
        .prints("Node a-2 is missing; check its namespace and its name or label")
        .prints("the API server does not serve Gadget of example.com/v1")
        .prints("3 gates: 1 blocking, 2 unknown.");
    cluster.down().await;
}

async fn command_prints_each_answer_once(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let server = StandIn::start(|query| {
        Some(match query {
            "fires" => Reply::vector(&["{\"job\":\"a\"}", "{\"job\":\"b\"}"]),
            "broken(" => {
                Reply::body(400, "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\"}")
            }
            "nothing" => Reply::vector(&[]),
            _ => Reply::vector(if query == "present" { &["{}"] } else { &[] }),
        })
    })
    .await;
    let gate = |name: &str, rest: &str| format!("{{name: {name}, {rest}}}");
    let repository = repository(
        &[
            gate("known", "prometheus: {query: fires, present: present}"),
            gate("counted", "prometheus: {query: fires, present: present, baseline: ignore}"),
            gate("broken", "prometheus: {query: broken(, present: present}"),
            gate("absent", "prometheus: {query: quiet, present: nothing}"),
            gate("switched-off", "at: [], prometheus: {query: never, present: never}"),
        ]
        .join(", "),
    );
    for pool in ["b", "c"] {
        repository.pool(pool, "syncFrequency: 3m");
    }
    repository.commit();
    let url = ["--prometheus-url", &server.url];
    let run = gates(&cluster, &repository, &[&url[..], &["-o", "json"]].concat()).await.exits(1).json();
    let all: Vec<(&str, &str, usize)> = run["gates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gate| {
            let text = |key: &str| gate[key].as_str().unwrap();
            (text("name"), text("state"), gate["pools"].as_array().unwrap().len())
        })
        .collect();
    let expected = [
        ("absent", "unknown", 3),
        ("broken", "unknown", 3),
        ("counted", "blocks", 3),
        ("known", "passes", 3),
        ("switched-off", "off", 3),
    ];
    assert_eq!(all, expected);
    assert_eq!(run["gates"][2]["reasons"], json!(["{job=\"a\"} is 1", "{job=\"b\"} is 1"]));
    assert_eq!(run["gates"][3]["known"], 2);
    let mut asked: Vec<String> = server.seen().into_iter().map(|seen| seen.query).collect();
    asked.sort();
    assert_eq!(asked, ["broken(", "fires", "nothing", "present", "quiet"]);
    let wide = gates(&cluster, &repository, &[&url[..], &["-o", "wide", "--pool", "b"]].concat()).await.exits(1);
    assert_eq!(wide.out.lines().count(), 6, "{wide}");
    gates(&cluster, &repository, &["--pool", "d"]).await.exits(2).prints("d");
    // Without an address, each gate with a query is unknown.
    gates(&cluster, &repository, &[]).await.exits(1).prints("no address of Prometheus; pass --prometheus-url");
    cluster.down().await;
}

async fn token_is_never_printed(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let server = StandIn::start(|_| Some(Reply::body(401, "Bearer hunter2"))).await;
    let file = cluster.home().join("token").display().to_string();
    std::fs::write(&file, "hunter2\n").unwrap();
    let repository = repository(QUERY);
    let arguments = ["--prometheus-url", &server.url, "--prometheus-token-file", &file, "-v=2"];
    let run = gates(&cluster, &repository, &arguments).await.exits(1).does_not_print("hunter2");
    run.prints("Prometheus refuses the request (401); check --prometheus-token-file");
    assert!(server.seen().iter().all(|seen| seen.authorization.as_deref() == Some("Bearer hunter2")));
    for url in ["http://example.com", "https://user:hunter2@example.com", "hunter2"] {
        let arguments = ["--prometheus-url", url, "--prometheus-token-file", &file];
        gates(&cluster, &repository, &arguments).await.exits(2).does_not_print("hunter2");
    }
    cluster.down().await;
}

async fn gate_of_an_object_holds_and_releases_a_pool(start: ClusterSetup) {
    let cluster = start.pool("a", 2).node("b-1", &[("ring", "one")]).up().await;
    let gate =
        "{name: ring, object: {apiVersion: v1, kind: Node, name: b-1, jsonPath: \"{.metadata.labels.ring}=two\"}}";
    let repository = repository(gate);
    let held = cluster.sync(&repository, &[]).await.exits(0);
    let held =
        held.prints("pool a, 2 nodes: gate ring does not pass: Node b-1: {.metadata.labels.ring} is one, not two");
    held.prints("2 held");
    assert_eq!(cluster.source("a-1").await, None);
    cluster.patch("/api/v1/nodes/b-1", json!({"metadata": {"labels": {"ring": "two"}}})).await;
    cluster.sync(&repository, &[]).await.exits(0).does_not_print("held");
    assert!(cluster.state("a-1").await.converged() && cluster.source("a-2").await.is_some());
    cluster.down().await;
}

/// A server whose query fires from the second answer on.
async fn failing_later() -> StandIn {
    let asked = AtomicUsize::new(0);
    StandIn::start(move |query| {
        let fires = query == "errors > 1" && asked.fetch_add(1, Ordering::SeqCst) > 0;
        Some(Reply::vector(if query == "errors" || fires { &["{\"job\":\"web\"}"] } else { &[] }))
    })
    .await
}

/// Nodes of the pool with an assignment.
async fn assigned(cluster: &Cluster) -> usize {
    cluster.states().await.values().filter(|node| node.source.is_some()).count()
}

const NODES: usize = 40;
const IMPATIENT: &str = "{name: errors, patience: 1s, prometheus: {query: errors > 1, present: errors}}";

async fn gate_stops_the_rollout_between_nodes(start: ClusterSetup) {
    let cluster = start.pool("a", NODES).up().await;
    let server = failing_later().await;
    let repository = Repository::of_pool("syncFrequency: 2m", &format!("{{maxUnavailable: 1, gates: [{IMPATIENT}]}}"));
    let arguments = ["--prometheus-url", &server.url, "--gate-interval", "1s"];
    let run = cluster.sync(&repository, &arguments).await.exits(5);
    run.prints("waiting for gate errors: {job=\"web\"} is 1")
        .prints("gate errors does not pass: {job=\"web\"} is 1")
        .prints("`nodecfg gates`");
    let stopped = assigned(&cluster).await;
    assert!((1..NODES).contains(&stopped), "{stopped} nodes");
    // The next run continues the rollout, so the series may be its effect.
    cluster.sync(&repository, &arguments).await.exits(0).prints("held");
    assert_eq!(assigned(&cluster).await, stopped);
    cluster.down().await;
}

async fn gate_that_stops_the_rollout_returns_its_nodes(start: ClusterSetup) {
    let cluster = start.pool("a", NODES).up().await;
    let server = failing_later().await;
    let rollout = format!("{{maxUnavailable: 1, rollbackOnGateFailure: true, gates: [{IMPATIENT}]}}");
    let repository = Repository::of_pool("syncFrequency: 2m", &rollout);
    let arguments = ["--prometheus-url", &server.url, "--gate-interval", "1s", "-o", "json"];
    let history = cluster.history().await;
    let run = cluster.sync(&repository, &arguments).await.exits(5);
    let events = |event: &str| run.json_lines().iter().filter(|line| line["event"] == event).count();
    assert_eq!(events("gateClosed"), 1, "{run}");
    assert!(events("converged") > 0 && events("converged") < NODES);
    assert_eq!(events("rolledBack"), events("assigned"));
    assert_eq!(assigned(&cluster).await, 0);
    let past = history.end().await;
    assert!(past.most(|_, node| !node.converged()) <= 1, "the way back keeps the budget");
    cluster.down().await;
}

/// Number of nodes of a pool that drains them.
const DRAINED: usize = 8;

async fn gate_that_stops_the_rollout_drains_the_nodes_that_it_returns(start: ClusterSetup) {
    let cluster = start.pool("a", DRAINED).workloads(WorkloadSpec::filling(DRAINED, 4)).up().await;
    let repository = Repository::of_pool(BEFORE, "{maxUnavailable: 100%, checkPods: false}");
    let drain = "maxUnavailable: 1, allowDisruption: drain, drain: {settle: 1s}";
    cluster
        .prepare_drain(&repository, &format!("{{{drain}, rollbackOnGateFailure: true, gates: [{IMPATIENT}]}}"))
        .await;
    let before = cluster.source("a-1").await;
    let fires = Arc::new(AtomicBool::new(false));
    let alert = Arc::clone(&fires);
    let server = StandIn::start(move |query| {
        let fires = query == "errors > 1" && alert.load(Ordering::SeqCst);
        Some(Reply::vector(if query == "errors" || fires { &["{\"job\":\"web\"}"] } else { &[] }))
    })
    .await;
    let history = cluster.history().await;
    let arguments = ["--prometheus-url", &server.url, "--gate-interval", "1s", "-o", "json"];
    let run = cluster.start_run("sync", &repository, &arguments);
    until("two nodes have converged and are released", async || {
        let states = cluster.states().await;
        states.values().filter(|node| node.converged() && !node.marked && node.source != before).count() >= 2
    })
    .await;
    fires.store(true, Ordering::SeqCst);
    let run = run.end().await.exits(5);
    let past = history.end().await;

    // The report: each node that had converged is drained and rolled back before the next one.
    let lines = run.json_lines();
    let stopped = lines.iter().position(|line| line["event"] == "stopped").unwrap();
    let (there, back) = lines.split_at(stopped);
    let nodes = |event: &str| -> Vec<&Value> {
        there.iter().filter(|line| line["event"] == event).map(|line| &line["node"]).collect()
    };
    // A node may converge after the stop, before its own return begins.
    let converged: Vec<&Value> =
        lines.iter().filter(|line| line["event"] == "converged").map(|line| &line["node"]).collect();
    let assigned = nodes("assigned");
    assert!((2..DRAINED).contains(&converged.len()), "{run}");
    let in_transition = assigned.iter().filter(|node| !converged.contains(node));
    let drained = converged.iter().flat_map(|node| [("draining", *node), ("rolledBack", *node)]);
    let expected: Vec<_> = in_transition.map(|node| ("rolledBack", *node)).chain(drained).collect();
    let begins_drain = |line: &Value| line["waiting"] == json!({"kind": "draining"});
    let step = |line: &'_ Value| match line["event"].as_str() {
        Some("waiting") if begins_drain(line) => Some("draining"),
        Some("rolledBack") => Some("rolledBack"),
        Some("assigned") => Some("assigned"),
        _ => None,
    };
    let steps: Vec<_> = back.iter().filter_map(|line| Some((step(line)?, &line["node"]))).collect();
    assert_eq!(steps, expected, "{run}");
    assert!(back.iter().any(|line| line["waiting"]["pods"].as_u64() > Some(0)), "pods are evicted again: {run}");

    // The cluster: the same nodes return, each under its mark, and one at a time is unavailable.
    let names: Vec<&str> = assigned.iter().map(|node| node.as_str().unwrap()).collect();
    let assignments = past.assignments();
    let returned = assignments.iter().position(|(_, source)| *source == before).unwrap();
    let (there, back) = assignments.split_at(returned);
    assert!(there.iter().map(|(node, _)| node).eq(&names), "{assignments:?}");
    assert!(back.iter().all(|(_, source)| *source == before) && back.len() == there.len(), "{assignments:?}");
    for node in names {
        let states = past.of(node);
        let mut changes = states.windows(2).filter(|states| states[0].source != states[1].source);
        assert!(changes.all(|states| states[0].marked && states[1].marked), "{states:?}");
        assert!(states.last().unwrap().converged(), "{states:?}");
    }
    assert!(past.most(|_, node| node.marked || !node.converged()) <= 1, "the way back keeps the budget");
    cluster.assert_no_marks().await;
    cluster.down().await;
}

async fn blocking_gate_fails_the_canaries(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let server = failing_later().await;
    let gate = "{name: errors, at: [start, soak], prometheus: {query: errors > 1, present: errors}}";
    let rollout = format!("{{canary: {{nodes: 1, soak: 10m}}, gates: [{gate}]}}");
    let repository = Repository::of_pool("syncFrequency: 2m", &rollout);
    let arguments = ["--prometheus-url", &server.url, "--gate-interval", "1s"];
    let run = cluster.sync(&repository, &arguments).await.exits(5);
    run.prints("gate errors failed the canaries: {job=\"web\"} is 1");
    assert_eq!(assigned(&cluster).await, 1);
    cluster.down().await;
}

async fn dry_run_and_rollback_ask_no_gate(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let server = StandIn::start(|query| Some(Reply::vector(if query == "errors" { &["{}"] } else { &[] }))).await;
    let repository = repository(QUERY);
    let url = ["--prometheus-url", server.url.as_str()];
    cluster.sync(&repository, &[&url[..], &["--dry-run"]].concat()).await.exits(0);
    assert_eq!(server.seen(), []);
    cluster.sync(&repository, &url).await.exits(0);
    assert!(!server.seen().is_empty());
    let first = repository.commit();
    repository.change("a", "syncFrequency: 3m");
    cluster.sync(&repository, &url).await.exits(0);
    // Without an address, every gate with a query is unknown. That must not delay a rollback.
    cluster.sync(&repository, &[]).await.exits(0);
    let path = repository.path().display().to_string();
    cluster.call(&["rollback", "a", &path, "--to", &first]).await.exits(0);
    cluster.down().await;
}

/// The owner permits a-2 by a label, a-3 later, and a-1 never.
async fn node_starts_once_its_owner_permits_it(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 1).up().await;
    let permit = async |node: &str| {
        let labels = json!({"metadata": {"labels": {"example.com/permit": "yes"}}});
        cluster.patch(&format!("/api/v1/nodes/{node}"), labels).await;
    };
    permit("a-2").await;
    let gate = |rest: &str| {
        repository(&format!(
            "{{name: owner, patience: 4s, object: {{apiVersion: v1, kind: Node, {rest}, \
             jsonPath: \"{{.metadata.labels['example.com/permit']}}=yes\"}}}}"
        ))
    };
    let repository = gate("name: '{node}'");
    gates(&cluster, &repository, &[]).await.exits(0).prints("of nodes owner, pool a").prints("1 gate: 1 of nodes.");
    gates(&cluster, &repository, &["--node", "a-2"]).await.exits(0).prints("passes owner, pool a");
    let refused = "Node a-1: {.metadata.labels['example.com/permit']} selects no value";
    gates(&cluster, &repository, &["--node", "a-1"]).await.exits(1).prints(refused);
    gates(&cluster, &repository, &["--node", "b-1"]).await.exits(2).prints("node b-1 belongs to none of these pools");
    gates(&cluster, &repository, &["--node", "a-9"]).await.exits(2).prints("node a-9 does not exist in the cluster");

    let mut run = cluster.start_run("sync", &repository, &["--gate-interval", "1s"]);
    run.until_stderr_contains("a/a-2 converged").await;
    permit("a-3").await;
    let run = run.end().await.exits(0);
    let waiting = "a/a-1 waiting for its gate owner, for at most ";
    run.prints(waiting).prints(": unknown: Node a-1").prints("1 held").prints("2 converged");
    let states = cluster.states().await;
    let assigned: Vec<&str> =
        states.iter().filter(|(_, state)| state.source.is_some()).map(|(name, _)| name.as_str()).collect();
    assert_eq!(assigned, ["a-2", "a-3"]);

    // By a label that names the node, which exactly one object has.
    permit("a-1").await;
    let labels = |name: &str| json!({"metadata": {"labels": {"example.com/node": name}}});
    let repository = gate("label: 'example.com/node={node}'");
    gates(&cluster, &repository, &["--node", "a-1"]).await.exits(1).prints("Node with example.com/node=a-1 is missing");
    cluster.patch("/api/v1/nodes/a-1", labels("a-1")).await;
    gates(&cluster, &repository, &["--node", "a-1"]).await.exits(0);
    cluster.patch("/api/v1/nodes/a-2", labels("a-1")).await;
    let several = "several objects are Node with example.com/node=a-1; only one may have the label";
    gates(&cluster, &repository, &["--node", "a-1"]).await.exits(1).prints(several);
    cluster.patch("/api/v1/nodes/a-2", labels("a-2")).await;
    cluster.sync(&repository, &["--gate-interval", "1s"]).await.exits(0).prints("1 converged");
    cluster.down().await;
}
