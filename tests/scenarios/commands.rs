//! Scenarios of read-only commands: output, exit codes, and absence of writes.

use std::collections::BTreeSet;

use nodecfg_sandbox::kubelets::Fault;
use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, NodeRecord, Repository, Run, Running};

scenarios! {
    Anything {
        diff_exit_code_reports_changes,
        diff_names_each_field_with_its_source_line,
        dry_run_writes_nothing,
        verify_passes_on_converged_cluster,
        verify_fails_without_writes,
        verify_fails_at_once_for_an_unassigned_node,
        verify_waits_for_an_unassigned_node_while_a_sync_runs,
        status_shows_every_node_state,
        json_lines_have_format_version,
        json_errors_are_documents,
    }
    Sandbox {
        read_only_commands_send_no_write,
    }
    Dropping {
        refuses_api_server_that_drops_config_source,
    }
}

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}")
}

async fn status(cluster: &Cluster, more: &[&str]) -> Run {
    let kubeconfig = cluster.kubeconfig();
    let arguments = [&["status", "--kubeconfig", kubeconfig.to_str().unwrap()], more].concat();
    Running::start(cluster.home(), &arguments).end().await
}

async fn diff_exit_code_reports_changes(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    let before = cluster.written().await;
    cluster.run("diff", &repository, &[]).await.exits(1).prints("1 ConfigMap to create, 2 nodes to assign");
    assert_eq!(cluster.written().await, before);
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.run("diff", &repository, &[]).await.exits(0).prints("No changes:");
    repository.change("a", "maxPods: 120");
    cluster.run("diff", &repository, &[]).await.exits(1);
    cluster.run("diff", &repository, &["--rev", "HEAD~1"]).await.exits(0);
    repository.pool("a", "maxPods: 130");
    cluster.run("diff", &repository, &["--worktree"]).await.exits(1).prints("maxPods: 110 → 130");
    cluster.run("diff", &repository, &[]).await.exits(1).prints("maxPods: 110 → 120");
    cluster.down().await;
}

async fn diff_names_each_field_with_its_source_line(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "failSwapOn: false\nmaxPods: 120");
    let run = cluster.run("diff", &repository, &[]).await.exits(1);
    // Of an overlay, the kubelets tell what they run instead of a field that is not named.
    let before = if cluster.has_agents() { "true" } else { "true (default)" };
    let run = run.prints(&format!("~ failSwapOn: {before} → false")).prints("pools/a/kubelet.yaml:3:13");
    run.prints("~ maxPods: 110 → 120 restart pools/a/kubelet.yaml:4:10")
        .prints("a 2 fields change, risk restart, 2 nodes, 2 to assign");
    let markdown = cluster.run("diff", &repository, &["-o", "markdown"]).await.exits(1);
    assert!(markdown.out.contains("maxPods") && markdown.out.contains('|'), "{markdown}");
    let json = cluster.run("diff", &repository, &["-o", "json"]).await.exits(1).json();
    assert_eq!(json["formatVersion"], 1, "{json}");
    assert!(json.to_string().contains("\"maxPods\""), "{json}");
    cluster.down().await;
}

async fn dry_run_writes_nothing(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let before = cluster.written().await;
    let run = cluster.sync(&repository(), &["--dry-run"]).await.exits(0);
    run.prints("2 nodes to assign").does_not_print("converged");
    assert_eq!(cluster.written().await, before);
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", cluster.namespace());
    let leases = cluster.get(&lease).await;
    assert_eq!(leases, Value::Null);
    cluster.down().await;
}

async fn verify_passes_on_converged_cluster(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.run("verify", &repository, &["--timeout", "30s"]).await.exits(0).prints("2 nodes: 2 already up to date");
    cluster.down().await;
}

async fn verify_fails_without_writes(start: ClusterSetup) {
    let cluster = start.pool("a", 3).fault("a-2", Fault::ValidateError).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(5);
    let before = cluster.written().await;
    let run = cluster.run("verify", &repository, &["--timeout", "10s"]).await.exits(5);
    run.prints("failed: a-2: failed to validate config").prints("2 already up to date").prints("1 failed.");

    repository.change("a", "maxPods: 120");
    let run = cluster.run("verify", &repository, &[]).await.exits(5);
    run.prints(
        "not assigned, and no sync runs; run `nodecfg sync` meaning: the node was never assigned its configuration",
    );
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

/// The scenario would take the time limit of the pool, five minutes, if verify waited.
async fn verify_fails_at_once_for_an_unassigned_node(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    let never = |run: Run| run.exits(5).prints("not assigned, and no sync runs; run `nodecfg sync`");
    // Without a Lease, no sync has ever run.
    never(cluster.run("verify", &repository, &[]).await).prints("failed: a-1, a-2: not assigned");
    cluster.patch("/api/v1/nodes/a-1", json!({"metadata": {"labels": {"slot": "first"}}})).await;
    cluster.sync(&repository, &["-l", "slot=first"]).await.exits(0);
    let run = never(cluster.run("verify", &repository, &[]).await);
    run.prints("failed: a-2: not assigned").does_not_print("timed out").does_not_print("another client");
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.run("verify", &repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn verify_waits_for_an_unassigned_node_while_a_sync_runs(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.only_config_map().await;
    repository.change("a", "maxPods: 120");
    cluster.sync(&repository, &[]).await.exits(0);
    let after = cluster.source("a-1").await.unwrap();
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", cluster.namespace());
    let hold = async |holder: &str| {
        let times = json!({"leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"});
        cluster.patch(&lease, json!({"spec": times})).await;
        cluster.patch(&lease, json!({"spec": {"holderIdentity": holder}})).await;
    };
    hold("ci_7").await;
    for assigns in [true, false] {
        cluster.assign_by_hand("a-1", &before).await;
        let mut verify = cluster.start_run("verify", &repository, &[]);
        verify.until_stdout_contains("waiting for 1").await;
        if assigns {
            cluster.assign_by_hand("a-1", &after).await;
            verify.end().await.exits(0);
        } else {
            hold("").await;
            verify
                .end()
                .await
                .exits(5)
                .prints("failed: a-1: not assigned, and no sync runs")
                .does_not_print("timed out");
        }
    }
    cluster.down().await;
}

async fn status_shows_every_node_state(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 1).fault("a-2", Fault::LoadError).up().await;
    cluster.fault("b-1", Some(Fault::Deaf)).await;
    cluster.until_node("b-1", "is not Ready", |state| !state.ready).await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.pool("a", "maxPods: 110");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(5);

    let run = status(&cluster, &[]).await.exits(0).prints("Not converged: 2 of 4 nodes: 1 failed, 1 not Ready; 2 ");
    let out = run.out.clone();
    let row = |node: &str| out.lines().find(|line| line.starts_with(node)).unwrap().to_owned();
    let name = cluster.only_config_map().await;
    let hash = name.rsplit('-').next().unwrap();
    assert!(row("a-1").contains(hash), "{run}");
    assert!(["on trial", "converged"].iter().any(|state| row("a-1").contains(state)), "{run}");
    assert!(row("a-2").contains(" failed "), "{run}");
    let columns: Vec<String> = row("b-1").split_whitespace().take(4).map(str::to_owned).collect();
    assert_eq!(columns, ["b-1", "-", "not", "Ready"], "{run}");
    let order: Vec<usize> = ["a-2 ", "b-1 ", "a-1 "].map(|node| run.out.find(node).unwrap()).into();
    assert!(order.is_sorted(), "the worst state comes first: {run}");
    run.prints("failed to load config, see Kubelet log for details meaning: the kubelet could not read");

    let document = status(&cluster, &["-o", "json"]).await.exits(0).json();
    assert_eq!((&document["formatVersion"], &document["kind"]), (&json!(1), &json!("Status")));
    let nodes = document["nodes"].as_array().unwrap();
    for (node, state) in cluster.states().await {
        let shown = nodes.iter().find(|shown| shown["node"] == node.as_str()).unwrap();
        let named = |key: &str| shown[key]["configMap"]["name"].as_str().map(str::to_owned);
        assert_eq!(named("wanted"), state.source, "{shown}");
        assert_eq!(named("assigned"), state.assigned, "{shown}");
        assert_eq!(named("active"), state.active, "{shown}");
    }
    cluster.down().await;
}

async fn json_lines_have_format_version(start: ClusterSetup) {
    let cluster = start.pool("a", 3).fault("a-2", Fault::ValidateError).up().await;
    let repository = repository();
    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(5);
    let lines = run.json_lines();
    for line in &lines {
        assert_eq!(line["formatVersion"], 1, "{line}");
        let time = line["time"].as_str().unwrap_or_else(|| panic!("{line}"));
        time.parse::<jiff::Timestamp>().unwrap();
    }
    let events: BTreeSet<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    for event in ["planned", "configMapCreated", "assigned", "converged", "failed", "finished"] {
        assert!(events.contains(event), "{event}: {events:?}");
    }
    let first: Vec<&Value> = lines.iter().take(2).map(|line| &line["event"]).collect();
    assert_eq!(first, ["started", "planned"]);
    let end = lines.last().unwrap();
    assert_eq!(end["event"], "finished");
    let end = end.get("outcome").unwrap_or(end);
    assert_eq!(end["complete"], false, "{end}");
    let failed = end["pools"]["a"]["nodes"].as_array().unwrap().iter().find(|node| node["node"] == "a-2").unwrap();
    assert!(failed["explanation"]["meaning"].is_string(), "{failed}");
    cluster.down().await;
}

async fn json_errors_are_documents(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).up().await;
    let repository = Repository::of_pool("maxPodz: 110", "");
    let run = cluster.sync(&repository, &["-o", "json"]).await.exits(3);
    let document = run.json();
    assert_eq!((&document["kind"], &document["exitCode"]), (&json!("Error"), &json!(3)), "{run}");
    assert!(document["validation"].to_string().contains("maxPodz"), "{run}");

    let repository = Repository::of_pool("maxPods: 110", "");
    let run = cluster.sync(&repository, &["-o", "json", "--namespace", "nowhere"]).await.exits(4);
    let lines = run.json_lines();
    let error = &lines.last().unwrap()["errors"][0];
    assert_eq!(error["code"], "namespace-missing", "{run}");
    assert!(error["help"].as_str().unwrap().contains("kubectl create namespace"), "{run}");
    cluster.down().await;
}

async fn read_only_commands_send_no_write(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.run("diff", &repository, &[]).await.exits(1);
    cluster.run("verify", &repository, &["--timeout", "1s"]).await.exits(5);
    cluster.sync(&repository, &["--dry-run"]).await.exits(0);
    status(&cluster, &[]).await.exits(0);
    let writes = cluster.sandbox().wire().log.writes().iter().map(ToString::to_string).collect::<Vec<_>>();
    // The server stores no review.
    let stored: Vec<&String> = writes.iter().filter(|write| !write.contains("selfsubjectaccessreviews")).collect();
    assert!(stored.is_empty(), "{writes:#?}");
    cluster.down().await;
}

async fn refuses_api_server_that_drops_config_source(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    let before = cluster.written().await;
    for command in ["sync", "diff", "verify"] {
        let run = cluster.run(command, &repository, &["--binding", "node"]).await.exits(4);
        let run = run.prints("the API server accepts the patch and silently drops spec.configSource");
        run.prints("as versions from 1.26 do");
        // Without --binding, nodecfg detects what this cluster needs.
        let run = cluster.run(command, &repository, &[]).await.exits(4);
        run.prints("this cluster has no nodeconfigs.nodecfg.dev").prints("nodecfg install");
    }
    assert_eq!(cluster.written().await, before);
    assert!(cluster.states().await.values().all(NodeRecord::converged));
    cluster.down().await;
}
