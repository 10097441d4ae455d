//! Scenarios of rollouts: order, budget, stops, and messages.

use nodecfg_sandbox::kubelets::Fault;
use serde_json::json;

use crate::harness::{Cluster, ClusterSetup, KUBELET, NodeRecord, Repository, Run, until};

scenarios! {
    Anything {
        config_maps_are_created_before_assignments,
        canaries_are_first_and_soak,
        failed_canary_stops_its_pool,
        canary_failure_during_soak_stops_its_pool,
        budget_is_never_exceeded,
        unavailable_node_is_first_and_old_error_is_ignored,
        max_failures_stop_pool_and_failed_nodes_keep_assignment,
        failed_nodes_are_rolled_back_on_request,
        unavailable_node_is_assigned_without_counting_as_failure,
        failed_download_is_retried_until_fixed,
        recreated_config_map_is_used,
        node_changed_by_another_client_is_skipped,
        skips_pending_node_that_leaves_its_pool,
        node_assigned_alike_by_another_client_is_watched,
        node_deleted_during_rollout_is_not_a_failure,
        kubernetes_events_report_assignments_and_failures,
        nodes_of_a_large_rollout_share_events,
    }
    Kubelets {
        every_kubelet_failure_is_explained,
        // An agent rolls back by itself.
        active_node_that_is_not_ready_has_not_converged,
    }
    Agents {
        every_agent_failure_is_explained,
        missing_agent_is_detected,
    }
}

/// Repository with one pool `a` and this rollout policy.
fn repository(rollout: &str) -> Repository {
    Repository::of_pool("maxPods: 110", rollout)
}

/// Reports whether a node counts against the budget: not Ready, in transition, or failed.
fn unavailable(_: &str, state: &NodeRecord) -> bool {
    !state.converged()
}

/// Nodes of one kind of event, in the order of a run's JSON lines.
fn event_nodes(run: &Run, event: &str) -> Vec<String> {
    let lines = run.json_lines();
    let of_event = lines.iter().filter(|line| line["event"] == event);
    of_event.map(|line| line["node"].as_str().unwrap().to_owned()).collect()
}

async fn converged(cluster: &Cluster) -> bool {
    cluster.states().await.values().all(|state| state.converged() && state.source.is_some())
}

async fn config_maps_are_created_before_assignments(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).up().await;
    let history = cluster.history().await;
    let repository = Repository::empty();
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 120");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);
    let first = history.end().await.first_assignment();
    for (name, map) in cluster.config_maps().await {
        let created: u64 = map["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(created < first, "{name}");
    }
    cluster.down().await;
}

async fn canaries_are_first_and_soak(start: ClusterSetup) {
    let cluster = start.pool("a", 4).up().await;
    let repository = repository("{maxUnavailable: 100%, canary: {nodes: 1, soak: 1s}}");
    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(0);
    assert_eq!(event_nodes(&run, "assigned")[0], "a-1");
    let lines = run.json_lines();
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    let at =
        |event: &str| events.iter().position(|name| *name == event).unwrap_or_else(|| panic!("{event}: {events:?}"));
    let (soaking, soaked) = (at("soaking"), at("soaked"));
    assert!(at("converged") < soaking, "{events:?}");
    assert_eq!(soaked, soaking + 1, "no event occurs while the canary soaks: {events:?}");
    let until: jiff::Timestamp = lines[soaking]["until"].as_str().unwrap().parse().unwrap();
    for line in lines.iter().skip(soaked).filter(|line| line["event"] == "assigned") {
        let time: jiff::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        assert!(time >= until, "{line}");
    }
    cluster.down().await;
}

async fn failed_canary_stops_its_pool(start: ClusterSetup) {
    let cluster = start.pool("a", 4).pool("b", 2).fault("a-1", Fault::ValidateError).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%, maxFailures: 3, canary: {nodes: 1}}");
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 110");
    repository.commit();
    let history = cluster.history().await;
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("stopped: pool a: canary a-1 failed").prints("2 converged").prints("1 failed, 3 not started");
    let assigned = history.end().await.assigned();
    assert!(!assigned.iter().any(|node| ["a-2", "a-3", "a-4"].contains(&node.as_str())), "{assigned:?}");
    cluster.down().await;
}

async fn canary_failure_during_soak_stops_its_pool(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = repository("{maxUnavailable: 100%, convergenceTimeout: 10s, canary: {nodes: 1, soak: 5m}}");
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a canaries converged, soaking for").await;
    cluster.fault("a-1", Some(Fault::Deaf)).await;
    let run = run.end().await.exits(5).prints("stopped: pool a: canary a-1 failed").prints("2 not started");
    run.prints("timed out: a-1: active, Node not Ready yet");
    cluster.down().await;
}

async fn budget_is_never_exceeded(start: ClusterSetup) {
    let cluster = start.pool("a", 10).pool("b", 4).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 35%}");
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 110");
    repository.commit();
    for fields in ["maxPods: 110", "maxPods: 120"] {
        repository.pool("a", fields);
        repository.commit();
        let history = cluster.history().await;
        cluster.sync(&repository, &[]).await.exits(0);
        let past = history.end().await;
        assert_eq!(past.most(|node, state| node.starts_with("a-") && unavailable(node, state)), 3);
        assert!(past.most(|node, state| node.starts_with("b-") && unavailable(node, state)) <= 1);
    }
    cluster.down().await;
}

async fn unavailable_node_is_first_and_old_error_is_ignored(start: ClusterSetup) {
    let cluster = start.pool("a", 4).fault("a-3", Fault::ValidateError).up().await;
    let repository = repository("{maxUnavailable: 1}");
    // The node's own failure uses the budget of the next one.
    cluster.sync(&repository, &[]).await.exits(5).prints("a-3");
    let failed = cluster.state("a-3").await;
    assert!(failed.error.unwrap().contains("failed to validate config"));
    cluster.fault("a-3", None).await;

    repository.change("a", "maxPods: 120");
    let history = cluster.history().await;
    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(0);
    assert_eq!(event_nodes(&run, "failed"), Vec::<String>::new());
    let past = history.end().await;
    assert_eq!(past.assigned()[0], "a-3", "it was already unavailable and uses no budget");
    assert_eq!(past.most(unavailable), 1, "no other node restarts before it is available");
    let new = cluster.source("a-3").await;
    let stale = |state: &&NodeRecord| state.source == new && state.error.is_some() && state.assigned != new;
    assert!(past.of("a-3").into_iter().any(|state| stale(&state)), "the old error outlived the new assignment");
    assert!(converged(&cluster).await);
    cluster.down().await;
}

async fn max_failures_stop_pool_and_failed_nodes_keep_assignment(start: ClusterSetup) {
    let cluster = start.pool("a", 9).fault("a-2", Fault::ValidateError).fault("a-4", Fault::LoadError).up().await;
    let repository = repository("{maxUnavailable: 3, maxFailures: 1}");
    let run =
        cluster.sync(&repository, &[]).await.exits(5).prints("stopped: pool a: 2 failed, 1 allowed (maxFailures)");
    assert!(run.out.contains("not started"), "{run}");
    let states = cluster.states().await;
    let target = states["a-1"].source.clone();
    assert!(target.is_some());
    for node in ["a-2", "a-4"] {
        assert_eq!(states[node].source, target, "{node} keeps its assignment");
        assert!(states[node].error.is_some(), "{node}");
    }
    assert_eq!(states["a-9"].source, None);
    cluster.down().await;
}

async fn failed_nodes_are_rolled_back_on_request(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository("{maxUnavailable: 1, allowDisruption: drain, drain: {settle: 0s}}");
    cluster.sync(&repository, &[]).await.exits(0);
    let old = cluster.source("a-1").await;

    // Validation finds detectable errors before a rollout, so this kubelet refuses the configuration for another
    // reason.
    cluster.fault("a-1", Some(Fault::ValidateError)).await;
    repository.change("a", "maxPods: 55");
    let run = cluster.sync(&repository, &["--rollback-on-failure"]).await.exits(5);
    run.prints("rolled back").prints("failed, rolled back").prints("1 failed, 1 not started");
    for node in ["a-1", "a-2"] {
        assert_eq!(cluster.source(node).await, old, "{node}");
    }
    cluster.fault("a-1", None).await;
    // A kubelet that refuses every configuration does not retry by itself.
    if cluster.assignment_resource() != "nodes" {
        cluster.until_node("a-1", "runs the old configuration again", NodeRecord::converged).await;
    }
    cluster.down().await;
}

async fn every_kubelet_failure_is_explained(start: ClusterSetup) {
    let cluster = start
        .pool("a", 7)
        .later("a-1", Fault::NeverAcknowledges)
        .fault("a-2", Fault::ValidateError)
        .fault("a-3", Fault::LoadError)
        .fault("a-4", Fault::SyncError)
        .fault("a-5", Fault::NotReady)
        .fault("a-7", Fault::Crash)
        .up()
        .await;
    let repository = repository("{maxUnavailable: 100%, maxFailures: 9, convergenceTimeout: 10s}");
    let run = cluster.sync(&repository, &[]).await.exits(5).prints("1 converged, 6 failed");
    let run = run
        .prints("timed out: a-1, a-7: not acknowledged yet meaning: the node has not reacted to its assignment")
        .prints("the kubelet runs without --dynamic-config-dir")
        .prints("the kubelet is 1.24 or later, or older than 1.11")
        .prints("no service manager restarts it")
        .prints(
            "failed: a-2: failed to validate config, see Kubelet log for details meaning: the kubelet of \
               this node refuses a value of the configuration",
        )
        .prints(
            "failed: a-3: failed to load config, see Kubelet log for details meaning: the kubelet could not read the \
               configuration and runs its last known good one",
        )
        .prints("timed out: a-4: failed to sync, retrying: failed to download config, see Kubelet log for details")
        .prints("likely: the ConfigMap was deleted")
        .prints(
            "timed out: a-5: active, Node not Ready yet meaning: the kubelet runs the configuration, but the \
               Node, previously Ready, is no longer Ready",
        )
        .prints("without, the kubelet's log on a-2: `journalctl -u kubelet`");
    assert_eq!(run.lines_with("a/a-6 converged"), 1, "{run}");
    cluster.down().await;
}

async fn every_agent_failure_is_explained(start: ClusterSetup) {
    let cluster = start
        .pool("a", 8)
        .later("a-1", Fault::NeverAcknowledges)
        .fault("a-2", Fault::ValidateError)
        .fault("a-3", Fault::LoadError)
        .fault("a-4", Fault::SyncError)
        .fault("a-5", Fault::NotReady)
        .fault("a-6", Fault::NoStart)
        .fault("a-7", Fault::RestartFails)
        .up()
        .await;
    let repository = repository("{maxUnavailable: 100%, maxFailures: 9, convergenceTimeout: 30s}");
    let run = cluster.sync(&repository, &[]).await.exits(5).prints("1 converged, 7 failed");
    let run = run
        .prints("timed out: a-1: not acknowledged yet meaning: the node has not reacted to its assignment")
        .prints("no node agent runs there")
        .prints("timed out: a-4: failed to sync, retrying: failed to download config, see Kubelet log for details");
    assert_eq!(run.lines_with("a/a-8 converged"), 1, "{run}");
    for node in ["a-2", "a-3", "a-5", "a-6", "a-7"] {
        let state = cluster.state(node).await;
        assert_eq!((state.assigned, state.active), (state.source, None), "{node} runs its local configuration");
        let error = state.error.unwrap();
        assert!(run.out.contains(&error), "{node}: {error}\n{run}");
    }
    cluster.down().await;
}

async fn missing_agent_is_detected(start: ClusterSetup) {
    let cluster = start.pool("a", 3).fault("a-2", Fault::NeverAcknowledges).up().await;
    let repository = repository("{maxUnavailable: 100%, maxFailures: 9, convergenceTimeout: 10s}");
    // The fault of a node without an assignment is unknown until its first assignment.
    let run = cluster.sync(&repository, &[]).await.exits(5).prints("2 converged, 1 failed");
    run.prints("timed out: a-2: not acknowledged yet").prints("no node agent runs there");
    // The node has had little time, so nodecfg waits once more. Its NodeConfig shows the state.
    assert_eq!(cluster.assignment_object("a-2").await.get("status"), None);
    cluster.fault("a-2", None).await;
    cluster.sync(&repository, &[]).await.exits(0);
    assert!(converged(&cluster).await);
    cluster.down().await;
}

async fn unavailable_node_is_assigned_without_counting_as_failure(start: ClusterSetup) {
    let cluster = start.pool("a", 3).fault("a-2", Fault::Deaf).up().await;
    cluster.until_node("a-2", "is not Ready", |state| !state.ready).await;
    let repository = repository("{maxUnavailable: 2, convergenceTimeout: 10s}");
    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(5);
    // The node uses no budget and is assigned immediately. Responses to concurrent patches arrive in any order.
    assert!(event_nodes(&run, "assigned")[..2].contains(&"a-2".to_owned()), "{run}");
    assert_eq!(event_nodes(&run, "converged").len(), 2, "its failure is not caused by the configuration: {run}");
    // The node recovers and finds its assignment.
    cluster.fault("a-2", None).await;
    cluster.until_node("a-2", "converges by itself", |state| state.converged() && state.source.is_some()).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("No changes:");
    cluster.down().await;
}

async fn failed_download_is_retried_until_fixed(start: ClusterSetup) {
    let cluster = start.pool("a", 1).fault("a-1", Fault::SyncError).up().await;
    let repository = repository("");
    let mut run = cluster.start_run("sync", &repository, &["-v"]);
    run.until_stderr_contains("failed to sync, retrying: failed to download config").await;
    cluster.fault("a-1", None).await;
    run.end().await.exits(0).prints("1 converged");
    cluster.down().await;
}

async fn recreated_config_map_is_used(start: ClusterSetup) {
    let cluster = start.pool("a", 1).later("a-1", Fault::NeverAcknowledges).up().await;
    let repository = repository("");
    let mut run = cluster.start_run("sync", &repository, &["-v"]);
    run.until_stderr_contains("a/a-1 assigned").await;
    let name = cluster.only_config_map().await;
    let text = cluster.config_maps().await[&name]["data"]["kubelet"].as_str().unwrap().to_owned();
    cluster.delete(&format!("/api/v1/namespaces/{}/configmaps/{name}", cluster.namespace())).await;
    cluster.fault("a-1", None).await;
    run.until_stderr_contains("failed to sync, retrying").await;
    cluster.create_config_map(&name, &text, true, None).await;
    run.end().await.exits(0).prints("1 converged");
    cluster.down().await;
}

async fn active_node_that_is_not_ready_has_not_converged(start: ClusterSetup) {
    let cluster = start.pool("a", 2).fault("a-1", Fault::NotReady).up().await;
    let repository = repository("{maxUnavailable: 1}");
    let mut run = cluster.start_run("sync", &repository, &["-v"]);
    run.until_stderr_contains("a/a-1 active, Node not Ready yet").await;
    assert_eq!(cluster.source("a-2").await, None, "the next node waits");
    cluster.fault("a-1", None).await;
    run.end().await.exits(0).prints("2 converged");
    cluster.down().await;
}

/// Starts a sync of a pool of two with a budget of one. The first node blocks the second until its fault is removed.
async fn blocked_rollout(start: ClusterSetup) -> (Cluster, Repository, crate::harness::Running) {
    let cluster = start.pool("a", 2).later("a-1", Fault::NeverAcknowledges).up().await;
    let repository = repository("{maxUnavailable: 1}");
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-1 assigned").await;
    (cluster, repository, run)
}

async fn node_changed_by_another_client_is_skipped(start: ClusterSetup) {
    let (cluster, repository, run) = blocked_rollout(start).await;
    cluster.create_config_map("by-hand", &format!("{KUBELET}maxPods: 50\n"), false, None).await;
    cluster.assign_by_hand("a-2", "by-hand").await;
    cluster.fault("a-1", None).await;
    let run = run.end().await.exits(5);
    let by_hand = format!("{}/by-hand", cluster.namespace());
    run.prints(&format!("a/a-2 changed by another client to {by_hand}; left unchanged")).prints("1 blocked");
    assert_eq!(cluster.source("a-2").await.as_deref(), Some("by-hand"));
    cluster.until_node("a-2", "runs what it was given by hand", NodeRecord::converged).await;
    cluster.sync(&repository, &["--take-over"]).await.exits(0);
    cluster.down().await;
}

async fn skips_pending_node_that_leaves_its_pool(start: ClusterSetup) {
    let (cluster, repository, mut run) = blocked_rollout(start).await;
    cluster.patch("/api/v1/nodes/a-2", json!({"metadata": {"labels": {"nodecfg.dev/pool": "b"}}})).await;
    run.until_stderr_contains("a/a-2 changed").await;
    cluster.fault("a-1", None).await;
    run.end().await.exits(5);
    assert_eq!(cluster.source("a-2").await, None);
    cluster.sync(&repository, &[]).await.exits(0);
    assert_eq!(cluster.source("a-2").await, None, "no pool selects the node");
    cluster.down().await;
}

async fn node_assigned_alike_by_another_client_is_watched(start: ClusterSetup) {
    let (cluster, _repository, run) = blocked_rollout(start).await;
    cluster.assign_by_hand("a-2", &cluster.only_config_map().await).await;
    cluster.fault("a-1", None).await;
    run.end().await.exits(0).prints("2 converged");
    cluster.down().await;
}

async fn node_deleted_during_rollout_is_not_a_failure(start: ClusterSetup) {
    let (cluster, _repository, run) = blocked_rollout(start).await;
    cluster.delete("/api/v1/nodes/a-2").await;
    cluster.fault("a-1", None).await;
    run.end().await.exits(0).prints("a/a-2 left the cluster").prints("1 converged").prints("1 gone.");
    assert_eq!(cluster.get("/api/v1/nodes/a-2").await, json!(null));
    cluster.down().await;
}

async fn kubernetes_events_report_assignments_and_failures(start: ClusterSetup) {
    let cluster = start.pool("a", 3).fault("a-2", Fault::ValidateError).up().await;
    let repository = repository("{maxUnavailable: 1}");
    cluster.sync(&repository, &[]).await.exits(5);
    let name = cluster.only_config_map().await;
    let good = cluster.events("a-1").await;
    assert_eq!(good.len(), 1, "{good:?}");
    assert_eq!(good[0].0, "NodeConfigAssigned");
    let assigned = format!("Assigned {}/{name} (pool a, fleet test at commit ", cluster.namespace());
    assert!(good[0].1.starts_with(&assigned), "{good:?}");
    let mut bad = cluster.events("a-2").await;
    // Several are in flight at a time.
    bad.sort();
    let reasons: Vec<&str> = bad.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(reasons, ["NodeConfigAssigned", "NodeConfigFailed", "NodeConfigRolloutStopped"]);
    assert!(bad[1].1.contains("failed to validate config"), "{bad:?}");
    assert!(bad[2].1.contains("The rollout of pool a stopped: 1 failed, 0 allowed (maxFailures)"), "{bad:?}");
    until("no event is written about a node that was not touched", async || cluster.events("a-3").await.is_empty())
        .await;
    cluster.down().await;
}

async fn nodes_of_a_large_rollout_share_events(start: ClusterSetup) {
    let cluster = start.pool("a", 130).up().await;
    cluster.sync(&repository("{maxUnavailable: 100%}"), &[]).await.exits(0);
    let listed = cluster.get("/api/v1/namespaces/default/events").await;
    let events = listed["items"].as_array().unwrap().iter();
    let messages: Vec<&str> = events
        .filter(|event| event["reason"] == "NodeConfigAssigned")
        .map(|event| event["message"].as_str().unwrap())
        .collect();
    let (shared, single): (Vec<&str>, Vec<&str>) = messages.iter().partition(|message| message.contains("share"));
    assert_eq!(single.len(), 100);
    let [shared] = shared.as_slice() else { panic!("{shared:?}") };
    assert!(shared.starts_with("30 nodes, such as a-"), "{shared}");
    assert!(shared.contains(" share this Event. The first: Assigned "), "{shared}");
    cluster.down().await;
}
