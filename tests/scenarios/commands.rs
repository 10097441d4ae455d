//! The commands around a sync: what they say, how they exit, and that looking writes nothing.

use std::collections::BTreeSet;

use nodecfg_sandbox::kubelets::Fault;
use serde_json::{Value, json};

use crate::harness::{Cluster, NodeRecord, Repository, Run, Running, Start};

scenarios! {
    Anything {
        diff_tells_by_its_exit_code_whether_something_is_to_be_done,
        diff_names_each_field_with_the_line_that_sets_it,
        a_dry_run_writes_nothing,
        verify_passes_when_all_run_what_the_repository_says,
        verify_waits_and_fails_without_writing_anything,
        verify_sees_others_bring_nodes_there,
        status_shows_the_truth,
        json_lines_carry_a_format_version,
        json_errors_are_documents_too,
    }
    Sandbox {
        looking_sends_no_write_at_all,
    }
    Dropping {
        an_api_server_that_drops_config_source_is_refused_before_anything_is_written,
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

async fn diff_tells_by_its_exit_code_whether_something_is_to_be_done(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    let before = cluster.written().await;
    cluster.run("diff", &repository, &[]).await.exits(1).says("1 ConfigMap to create, 2 nodes to assign");
    assert_eq!(cluster.written().await, before);
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.run("diff", &repository, &[]).await.exits(0).says("No changes:");
    repository.change("a", "maxPods: 120");
    cluster.run("diff", &repository, &[]).await.exits(1);
    cluster.run("diff", &repository, &["--rev", "HEAD~1"]).await.exits(0);
    repository.pool("a", "maxPods: 130");
    cluster.run("diff", &repository, &["--worktree"]).await.exits(1).says("maxPods: 110 → 130");
    cluster.run("diff", &repository, &[]).await.exits(1).says("maxPods: 110 → 120");
    cluster.down().await;
}

async fn diff_names_each_field_with_the_line_that_sets_it(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "failSwapOn: false\nmaxPods: 120");
    let run = cluster.run("diff", &repository, &[]).await.exits(1);
    let run = run.says("+ failSwapOn: false").says("pools/a/kubelet.yaml:3:13");
    run.says("~ maxPods: 110 → 120 restart pools/a/kubelet.yaml:4:10").says("a 2 nodes, 2 to assign");
    let markdown = cluster.run("diff", &repository, &["-o", "markdown"]).await.exits(1);
    assert!(markdown.out.contains("maxPods") && markdown.out.contains('|'), "{markdown}");
    let json = cluster.run("diff", &repository, &["-o", "json"]).await.exits(1).json();
    assert_eq!(json["formatVersion"], 1, "{json}");
    assert!(json.to_string().contains("\"maxPods\""), "{json}");
    cluster.down().await;
}

async fn a_dry_run_writes_nothing(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let before = cluster.written().await;
    let run = cluster.sync(&repository(), &["--dry-run"]).await.exits(0);
    run.says("2 nodes to assign").never_says("converged");
    assert_eq!(cluster.written().await, before);
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", cluster.namespace());
    let leases = cluster.get(&lease).await;
    assert_eq!(leases, Value::Null);
    cluster.down().await;
}

async fn verify_passes_when_all_run_what_the_repository_says(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.run("verify", &repository, &["--timeout", "30s"]).await.exits(0).says("2 nodes: 2 as wanted already");
    cluster.down().await;
}

async fn verify_waits_and_fails_without_writing_anything(start: Start) {
    let cluster = start.pool("a", 3).fault("a-2", Fault::ValidateError).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(5);
    let before = cluster.written().await;
    let run = cluster.run("verify", &repository, &["--timeout", "10s"]).await.exits(5);
    run.says("failed: a-2: failed to validate config").says("2 as wanted already, 1 failed");

    repository.change("a", "maxPods: 120");
    let run = cluster.run("verify", &repository, &["--timeout", "1s"]).await.exits(5);
    run.says("not assigned meaning: nobody has pointed the node at its configuration");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn verify_sees_others_bring_nodes_there(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    let verify = cluster.start_run("verify", &repository, &["--timeout", "60s", "-v"]);
    cluster.sync(&repository, &[]).await.exits(0);
    verify.end().await.exits(0);
    cluster.down().await;
}

async fn status_shows_the_truth(start: Start) {
    let cluster = start.pool("a", 3).pool("b", 1).fault("a-2", Fault::LoadError).up().await;
    cluster.fault("b-1", Some(Fault::Deaf)).await;
    cluster.until_node("b-1", "is not Ready", |state| !state.ready).await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.pool("a", "maxPods: 110");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(5);

    let run =
        status(&cluster, &[]).await.exits(0).says("Not converged: 2 of 4 nodes: 1 failed, 1 not Ready; 2 converged");
    let out = run.out.clone();
    let row = |node: &str| out.lines().find(|line| line.starts_with(node)).unwrap().to_owned();
    let name = cluster.only_config_map().await;
    let hash = name.rsplit('-').next().unwrap();
    assert!(row("a-1").ends_with(hash) && row("a-1").contains("converged"), "{run}");
    assert!(row("a-2").contains(" failed "), "{run}");
    let columns: Vec<String> = row("b-1").split_whitespace().take(4).map(str::to_owned).collect();
    assert_eq!(columns, ["b-1", "-", "not", "Ready"], "{run}");
    let order: Vec<usize> = ["a-2 ", "b-1 ", "a-1 "].map(|node| run.out.find(node).unwrap()).into();
    assert!(order.is_sorted(), "the worst comes first: {run}");
    run.says("failed to load config, see Kubelet log for details meaning: the kubelet could not read");

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

async fn json_lines_carry_a_format_version(start: Start) {
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

async fn json_errors_are_documents_too(start: Start) {
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

async fn looking_sends_no_write_at_all(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.run("diff", &repository, &[]).await.exits(1);
    cluster.run("verify", &repository, &["--timeout", "1s"]).await.exits(5);
    cluster.sync(&repository, &["--dry-run"]).await.exits(0);
    status(&cluster, &[]).await.exits(0);
    let writes: Vec<String> = cluster.sandbox().wire().log.writes().iter().map(ToString::to_string).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    cluster.down().await;
}

async fn an_api_server_that_drops_config_source_is_refused_before_anything_is_written(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    let before = cluster.written().await;
    for command in ["sync", "diff", "verify"] {
        let run = cluster.run(command, &repository, &["--binding", "node"]).await.exits(4);
        let run = run.says("the API server accepted the patch and dropped spec.configSource");
        run.says("API servers from 1.26 on accept Node.spec.configSource and silently drop it")
            .says("Nothing was changed");
        // Left to itself it knows what such a cluster needs.
        let run = cluster.run(command, &repository, &[]).await.exits(4);
        run.says("this cluster has no nodeconfigs.nodecfg.dev").says("nodecfg install");
    }
    assert_eq!(cluster.written().await, before);
    assert!(cluster.states().await.values().all(NodeRecord::settled));
    cluster.down().await;
}
