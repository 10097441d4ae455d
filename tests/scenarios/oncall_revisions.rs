//! Scenarios of revisions: history, rollback, reset, and pruning.

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, NodeRecord, Repository, Running};

scenarios! {
    Anything {
        history_lists_revisions_with_their_nodes,
        rollback_syncs_one_pool_and_persists,
        rollback_ignores_other_pools,
        rollback_works_with_invalid_head,
        rollback_selects_revision_that_nodes_ran,
        impossible_rollback_names_reason_and_writes_nothing,
        nodes_are_reset_within_the_budget,
        rollback_may_disrupt_more_for_one_run,
        reset_with_repository_is_limited_to_its_pools,
        reset_of_unknown_names_writes_nothing,
        unreferenced_config_maps_are_pruned,
        desired_config_maps_are_not_pruned,
        prune_without_terminal_needs_yes,
    }
    Kubelets {
        diff_and_prune_agree_in_the_namespace_of_the_repository,
    }
    Sandbox {
        node_that_leaves_during_reset_is_not_a_failure,
        recreated_config_map_is_not_pruned,
    }
}

fn start(cluster: &Cluster, arguments: &[&str]) -> Running {
    let kubeconfig = cluster.kubeconfig();
    Running::start(cluster.home(), &[arguments, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat())
}

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}")
}

fn path(repository: &Repository) -> &str {
    repository.path().to_str().unwrap()
}

/// ConfigMap that all nodes of a pool run.
async fn common(cluster: &Cluster, pool: &str) -> Option<String> {
    let states = cluster.states().await;
    let states: Vec<&NodeRecord> =
        states.iter().filter(|(node, _)| node.starts_with(&format!("{pool}-"))).map(|(_, state)| state).collect();
    assert!(states.iter().all(|state| state.converged()), "{states:?}");
    let first = states[0].source.clone();
    assert!(states.iter().all(|state| state.source == first), "{states:?}");
    first
}

/// State of a node without its resourceVersion, which changes with every heartbeat.
async fn node_record(cluster: &Cluster, node: &str) -> NodeRecord {
    NodeRecord { revision: 0, ..cluster.state(node).await }
}

async fn config_maps(cluster: &Cluster) -> Vec<String> {
    let list = cluster.get(&format!("/api/v1/namespaces/{}/configmaps", cluster.namespace())).await;
    let names =
        list["items"].as_array().unwrap().iter().map(|map| map["metadata"]["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("test-")).collect()
}

async fn history_lists_revisions_with_their_nodes(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "maxPods: 110 # as before");
    repository.change("a", "maxPodz: 120");
    repository.change("a", "maxPods: 130");
    let document = cluster.call(&["history", "a", path(&repository), "-o", "json"]).await.exits(0).json();
    assert_eq!((&document["kind"], &document["whole"]), (&json!("History"), &json!(true)));
    let revisions = document["revisions"].as_array().unwrap();
    let kinds: Vec<&Value> = revisions.iter().map(|revision| &revision["content"]["kind"]).collect();
    assert_eq!(kinds, ["config", "invalid", "config"]);
    assert_eq!((&revisions[0]["current"], &revisions[0]["exists"]), (&json!(true), &json!(false)));
    assert_eq!((&revisions[2]["exists"], &revisions[2]["nodes"]["active"]), (&json!(true), &json!(2)));
    let run = cluster.call(&["history", "a", path(&repository)]).await.exits(0);
    run.prints("not in the cluster")
        .prints("2 pointed at it, 2 assigned, 2 running it")
        .prints("a: 3 revisions, 2 nodes.");
    cluster.call(&["history", "a", path(&repository), "--limit", "1"]).await.exits(0).prints("--limit shows more");
    let run = cluster.call(&["history", "aa", path(&repository)]).await.exits(2);
    run.prints("there is no pool aa in the repository").prints("did you mean a?");
    cluster.down().await;
}

async fn rollback_syncs_one_pool_and_persists(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 1).up().await;
    let repository = Repository::of_pool("registryPullQPS: 6", "{maxUnavailable: 100%}");
    repository.pool("b", "registryPullQPS: 8");
    let first = repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);
    let old = common(&cluster, "a").await;
    repository.pool("b", "registryPullQPS: 9");
    repository.change("a", "registryPullQPS: 7");
    cluster.sync(&repository, &[]).await.exits(0);
    let new = common(&cluster, "a").await;
    assert_ne!(old, new);
    let others = node_record(&cluster, "b-1").await;

    let before = cluster.written().await;
    let dry = cluster.call(&["rollback", "a", path(&repository), "--dry-run"]).await.exits(0);
    dry.prints("3 nodes to assign").prints("Pool a would be paused as well");
    assert_eq!(cluster.written().await, before);
    let run = cluster.call(&["rollback", "a", path(&repository), "--reason", "pods are evicted"]).await.exits(0);
    run.prints("3 converged").prints("nodecfg resume a");
    assert_eq!(common(&cluster, "a").await, old);
    assert_eq!(node_record(&cluster, "b-1").await, others, "other pools are unchanged");

    // A sync of HEAD does not undo the rollback.
    let run = cluster.sync(&repository, &[]).await.exits(0);
    run.prints("pods are evicted");
    assert_eq!(common(&cluster, "a").await, old);
    // A repeated rollback has nothing to do and succeeds.
    cluster.call(&["rollback", "a", path(&repository), "--to", &first]).await.exits(0);
    assert_eq!(common(&cluster, "a").await, old);
    cluster.call(&["resume", "a"]).await.exits(0);
    cluster.sync(&repository, &[]).await.exits(0);
    assert_eq!(common(&cluster, "a").await, new);
    let (lines, page) = (cluster.home().join("lines.json"), cluster.home().join("page.html"));
    let reports = [format!("json={}", lines.display()), page.display().to_string()];
    let unchanged = ["rollback", "a", path(&repository), "--to", "HEAD"];
    cluster.call(&unchanged).await.exits(0).prints("Nothing to roll back").does_not_print("is paused");
    for (more, kind) in [(&[][..], "Outcome"), (&["--dry-run"], "Diff")] {
        let arguments = [&unchanged[..], &["--report", &reports[0]], more].concat();
        cluster.call(&arguments).await.exits(0).prints("Nothing to roll back").does_not_print("is paused");
        let text = std::fs::read_to_string(&lines).unwrap();
        let document = if more.is_empty() { text.lines().last().unwrap() } else { &text };
        assert_eq!(serde_json::from_str::<Value>(document).unwrap()["kind"], kind, "{text}");
    }
    cluster.call(&[&unchanged[..], &["--report", &reports[1]]].concat()).await.exits(0);
    assert!(std::fs::read_to_string(&page).unwrap().contains("nodecfg rollback: Done in "));
    assert_eq!(common(&cluster, "a").await, new);
    cluster.down().await;
}

async fn rollback_ignores_other_pools(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = Repository::of_pool("registryPullQPS: 6", "{maxUnavailable: 100%}");
    cluster.sync(&repository, &[]).await.exits(0);
    let old = common(&cluster, "a").await;
    repository.change("a", "registryPullQPS: 7");
    cluster.sync(&repository, &[]).await.exits(0);
    // Two pools select nodes that do not belong to this pool.
    for pool in ["b", "c"] {
        repository.pool(pool, "registryPullQPS: 8");
    }
    let values = "[{key: nodecfg.dev/pool, operator: In, values: [b]}]";
    repository.pool_spec("c", &format!("{{nodeSelector: {{matchExpressions: {values}}}}}"));
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(5).prints("of equal priority select the node");
    cluster.call(&["rollback", "a", path(&repository), "--no-pause"]).await.exits(0).prints("revert the change in git");
    assert_eq!(common(&cluster, "a").await, old);
    cluster.down().await;
}

async fn impossible_rollback_names_reason_and_writes_nothing(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.written().await;
    let rollback = async |more: &[&str]| cluster.call(&[&["rollback"], more].concat()).await.exits(2);
    rollback(&["a", path(&repository)]).await.prints("pool a has no earlier configuration in this repository");
    rollback(&["gpu", path(&repository)]).await.prints("there is no pool gpu in the repository").prints("use a");
    let broken = repository.change("a", "maxPodz: 1");
    repository.pool("b", "maxPods: 50");
    repository.change("a", "maxPods: 120");
    let run = rollback(&["a", path(&repository), "--to", &broken]).await;
    run.prints("is invalid at revision").prints("nodecfg history a");
    rollback(&["b", path(&repository), "--to", &broken]).await.prints("has no pool b");
    let run = cluster.call(&["rollback", "a", path(&repository), "--to", "v9"]).await.exits(3);
    run.prints("has no revision \"v9\"");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn nodes_are_reset_within_the_budget(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let map = common(&cluster, "a").await;
    let before = cluster.written().await;
    cluster.call(&["reset", "--all", "--dry-run"]).await.exits(0).prints("3 to assign, at most 1 unavailable");
    assert_eq!(cluster.written().await, before);
    cluster.call(&["reset", "--all"]).await.exits(2).prints("is not a terminal").prints("--yes");
    assert_eq!(cluster.written().await, before);

    let run = cluster.call(&["reset", "a-1", "--yes"]).await.exits(0);
    run.prints("1 converged").prints("The next sync points these nodes back");
    assert_eq!((cluster.source("a-1").await, cluster.source("a-2").await), (None, map));
    let run = cluster.call(&["reset", "--pool", "a", "--yes"]).await.exits(0);
    run.prints("2 converged");
    assert_eq!(common(&cluster, "a").await, None);
    // The nodes are reset.
    cluster.call(&["reset", "a-1", "--yes"]).await.exits(0);
    cluster.down().await;
}

async fn rollback_may_disrupt_more_for_one_run(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%, drain: {settle: 0s}}");
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "maxPods: 120");
    cluster.sync(&repository, &[]).await.exits(0);
    let rollback = async |more: &[&str]| cluster.call(&[&["rollback", "a", path(&repository)], more].concat()).await;
    let before = cluster.written().await;
    rollback(&[])
        .await
        .exits(3)
        .prints("maxPods (drain)")
        .prints("pass --allow-disruption drain --reason TEXT, which drains each node first")
        .prints("`nodecfg rollback a --dry-run -v` shows each field");
    let shown = rollback(&["--dry-run", "-v"]).await.exits(3);
    shown.prints("maxPods: 120 → 110").prints("--allow-disruption drain");
    rollback(&["--allow-disruption", "drain"]).await.exits(2).prints("--allow-disruption requires a reason");
    assert_eq!(cluster.written().await, before);
    let run = rollback(&["--allow-disruption", "drain", "--reason", "incident 4711"]).await.exits(0);
    run.prints("2 converged");
    let recorded = "disruption up to drain allowed by ";
    let events = cluster.events("a-1").await;
    assert!(events.iter().any(|(_, text)| text.contains(recorded) && text.contains("incident 4711")), "{events:?}");
    cluster.call(&["status"]).await.exits(0).prints(recorded).prints("incident 4711");
    if cluster.assignment_resource() == "nodeconfigs" {
        let allowed = &cluster.assignment_object("a-1").await["spec"]["maxDisruption"];
        assert_eq!(allowed, "restart", "the drained node was released");
    }
    // The allowance ended with the run.
    cluster.call(&["resume", "a"]).await.exits(0);
    repository.change("a", "maxPods: 100");
    cluster.sync(&repository, &[]).await.exits(3).prints("maxPods (drain)").prints("allowDisruption: drain in pools/a");
    cluster.down().await;
}

async fn reset_with_repository_is_limited_to_its_pools(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = repository();
    repository.fleet("test", "{maxUnavailable: 100%, allowDisruption: drain, drain: {settle: 0s}}");
    repository.pool("b", "maxPods: 50");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);
    let kept = node_record(&cluster, "b-1").await;
    cluster.call(&["reset", "--pool", "c", "--repo", path(&repository), "--yes"]).await.exits(2).prints("pool c");
    let run = cluster.call(&["reset", "--pool", "a", "--repo", path(&repository), "--yes"]).await.exits(0);
    run.prints("at most 2 unavailable at a time");
    assert_eq!(common(&cluster, "a").await, None);
    assert_eq!(node_record(&cluster, "b-1").await, kept);
    cluster.down().await;
}

async fn reset_of_unknown_names_writes_nothing(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    cluster.sync(&repository(), &[]).await.exits(0);
    let before = cluster.written().await;
    let reset = async |more: &[&str]| cluster.call(&[&["reset", "--yes"], more].concat()).await.exits(2);
    reset(&["a-11"]).await.prints("there is no node a-11 in the cluster").prints("did you mean a-1?");
    reset(&["--pool", "gpu"]).await.prints("there is no pool gpu among those that nodes are in");
    reset(&["a-1", "gone"]).await.prints("there is no node gone in the cluster");
    reset(&[]).await.prints("no nodes are selected");
    reset(&["--selector", "a in (b"]).await.prints("unmatched opening parenthesis");
    let run = cluster.call(&["reset", "--all", "--fleet", "other", "--yes"]).await.exits(0);
    run.prints("Nothing to reset");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn diff_and_prune_agree_in_the_namespace_of_the_repository(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::empty();
    let fleet = "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: test}\nspec: {namespace: default}\n";
    repository.write("nodecfg.yaml", fleet);
    for pods in 110..=115 {
        repository.change("a", &format!("maxPods: {pods}"));
        cluster.sync(&repository, &[]).await.exits(0);
    }
    let diff = cluster.call(&["diff", path(&repository), "-o", "json"]).await.exits(0).json();
    let document = cluster.call(&["prune", path(&repository), "--dry-run", "-o", "json"]).await.exits(0).json();
    assert_eq!(document["namespace"], "default");
    let maps = document["configMaps"].as_array().unwrap().iter();
    let doomed: Vec<&Value> = maps.filter(|map| map["end"]["kind"] == "toDelete").map(|map| &map["name"]).collect();
    assert!(!doomed.is_empty(), "{document}");
    assert_eq!(diff["cluster"]["prunable"], json!(doomed));
    cluster.down().await;
}

async fn unreferenced_config_maps_are_pruned(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    let mut names = Vec::new();
    for pods in [110, 111, 112, 113] {
        repository.change("a", &format!("maxPods: {pods}"));
        cluster.sync(&repository, &[]).await.exits(0);
        names.push(common(&cluster, "a").await.unwrap());
    }
    assert_eq!(config_maps(&cluster).await.len(), 4);
    let document = cluster.call(&["prune", "--dry-run", "--keep", "1", "-o", "json"]).await.exits(0).json();
    assert_eq!((&document["kind"], &document["dryRun"]), (&json!("Pruning"), &json!(true)));
    assert_eq!(config_maps(&cluster).await.len(), 4);
    // `diff` and `prune` agree on what can be deleted.
    let diff = cluster.call(&["diff", path(&repository), "-o", "json"]).await.exits(0).json();
    let document = cluster.call(&["prune", path(&repository), "--dry-run", "-o", "json"]).await.exits(0).json();
    let maps = document["configMaps"].as_array().unwrap().iter();
    let doomed: Vec<&Value> = maps.filter(|map| map["end"]["kind"] == "toDelete").map(|map| &map["name"]).collect();
    assert_eq!(diff["cluster"]["prunable"], json!(doomed));
    let run = cluster.call(&["prune", "--pool", "gpu", "--yes"]).await.exits(2);
    run.prints("there is no pool gpu among the ConfigMaps of fleet");
    cluster.call(&["prune", "--keep", "4", "--yes"]).await.exits(0).prints("Nothing to delete, 4 kept.");

    // Copies with nodecfg's labels belong to another client: one with another name, and two mutable ones.
    let copies = ["test-own", "test-a-bbbbbbbbbb", "test-a-bbbbbbbbbc"];
    for copy in copies {
        cluster.create_config_map(copy, "a: 1", false, Some(("test", "a"))).await;
    }
    cluster.call(&["prune", "--keep", "1", "--yes"]).await.exits(0).prints(" deleted, 4 kept.");
    let left = config_maps(&cluster).await;
    assert!(copies.iter().all(|copy| left.iter().any(|name| name == copy)), "{left:?}");
    let left = config_maps(&cluster).await;
    assert!(left.contains(&names[3]) && !left.contains(&names[0]), "{left:?}");
    // ConfigMaps in a status are kept; deleted ones are not needed.
    let good = cluster.assignment_object("a-1").await;
    if let Some(good) = good.pointer("/status/config/lastKnownGood/configMap/name").and_then(Value::as_str) {
        assert!(left.iter().any(|name| name == good), "{left:?}");
    }
    cluster.sync(&repository, &[]).await.exits(0).prints("1 already up to date");
    let run = cluster.call(&["history", "a", path(&repository)]).await.exits(0);
    run.prints("not in the cluster");
    cluster.down().await;
}

async fn prune_without_terminal_needs_yes(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    cluster.sync(&repository(), &[]).await.exits(0);
    cluster.call(&["prune"]).await.exits(2).prints("is not a terminal").prints("--yes");
    cluster.down().await;
}

async fn node_that_leaves_during_reset_is_not_a_failure(starting: ClusterSetup) {
    let cluster = starting.pool("a", 3).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let mut run = start(&cluster, &["reset", "--all", "--yes"]);
    run.until_stderr_contains("a/a-1 assigned").await;
    cluster.delete("/api/v1/nodes/a-3").await;
    run.end().await.exits(0);
    assert_eq!(common(&cluster, "a").await, None);
    cluster.down().await;
}

async fn recreated_config_map_is_not_pruned(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    for pods in [110, 111, 112] {
        repository.change("a", &format!("maxPods: {pods}"));
        cluster.sync(&repository, &[]).await.exits(0);
    }
    // While another client holds the lock, nothing is deleted.
    let held = cluster.namespace();
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{held}/leases/nodecfg-test");
    let until = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = json!({"holderIdentity": "somebody", "leaseDurationSeconds": 600, "renewTime": until});
    cluster.patch(&lease, json!({"spec": spec})).await;
    let before = config_maps(&cluster).await;
    cluster.call(&["prune", "--keep", "1", "--yes"]).await.exits(6).prints("somebody holds the lock");
    assert_eq!(config_maps(&cluster).await, before);
    cluster.down().await;
}

async fn rollback_works_with_invalid_head(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = Repository::of_pool("registryPullQPS: 6", "{maxUnavailable: 100%}");
    repository.pool("b", "registryPullQPS: 8");
    let first = repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);
    let old = common(&cluster, "a").await;
    let second = repository.change("a", "registryPullQPS: 7");
    cluster.sync(&repository, &[]).await.exits(0);
    let new = common(&cluster, "a").await;
    let others = node_record(&cluster, "b-1").await;
    let rollback =
        async |to: &str| cluster.call(&["rollback", "a", path(&repository), "--to", to, "--no-pause"]).await.exits(0);

    // First another pool is invalid, then this pool.
    repository.write("pools/b/kubelet.yaml", "nonsense: [");
    repository.commit();
    rollback(&first).await.prints("HEAD is invalid");
    assert_eq!(common(&cluster, "a").await, old);
    repository.write("pools/a/kubelet.yaml", "nonsense: [");
    repository.commit();
    rollback(&second).await;
    assert_eq!(common(&cluster, "a").await, new);
    // Another pool has an unreadable selector, and a node may belong to that pool.
    repository.write("pools/b/pool.yaml", "nonsense: [");
    repository.commit();
    rollback(&first)
        .await
        .prints("HEAD has no valid selector for these pools: b")
        .prints("Only nodes on ConfigMaps of pool a are changed: 2 nodes");
    assert_eq!(common(&cluster, "a").await, old);
    // The pool itself has an unreadable selector.
    repository.write("pools/a/pool.yaml", "nonsense: [");
    repository.commit();
    rollback(&second).await.prints("pools/a/pool.yaml cannot be read at HEAD");
    assert_eq!(common(&cluster, "a").await, new);
    assert_eq!(node_record(&cluster, "b-1").await, others, "other pools are unchanged");

    // No node is known to belong to the pool. Nothing is known once the fleet's file is invalid.
    cluster.call(&["reset", "--pool", "a", "--yes"]).await.exits(0);
    let before = cluster.written().await;
    let refused = cluster.call(&["rollback", "a", path(&repository), "--to", &first]).await.exits(2);
    refused.prints("the nodes of pool a are unknown").prints("fix pool.yaml");
    repository.write("nodecfg.yaml", "nonsense: [");
    repository.commit();
    cluster.call(&["rollback", "a", path(&repository), "--to", &first]).await.exits(3);
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn rollback_selects_revision_that_nodes_ran(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository =
        Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%, allowDisruption: drain, drain: {settle: 0s}}");
    let never = repository.change("a", "maxPods: 109");
    repository.change("a", "maxPods: 111");
    cluster.sync(&repository, &[]).await.exits(0);
    let first = common(&cluster, "a").await;
    let run = cluster.call(&["rollback", "a", path(&repository)]).await.exits(2);
    run.prints("is known to have run").prints(&format!("--to {}", &never[..10]));
    repository.change("a", "maxPods: 112");
    repository.change("a", "maxPods: 113");
    cluster.sync(&repository, &[]).await.exits(0);
    let run = cluster.call(&["rollback", "a", path(&repository), "--no-pause"]).await.exits(0);
    run.prints("rollback target of pool a: ");
    assert_eq!(common(&cluster, "a").await, first);
    // JSON output is complete even without changes.
    let same = cluster.call(&["rollback", "a", path(&repository), "--to", "HEAD", "--dry-run", "-o", "json"]).await;
    assert_eq!(same.exits(0).json()["kind"], json!("Diff"));
    let same = cluster.call(&["rollback", "a", path(&repository), "--to", "HEAD", "-o", "json"]).await.exits(0);
    assert!(!same.json_lines().is_empty());
    assert_eq!(common(&cluster, "a").await, first, "HEAD is not rolled out");
    cluster.down().await;
}

async fn desired_config_maps_are_not_pruned(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    let mut names = Vec::new();
    for pods in [110, 111, 112, 113] {
        repository.change("a", &format!("maxPods: {pods}"));
        cluster.sync(&repository, &[]).await.exits(0);
        names.push(common(&cluster, "a").await.unwrap());
    }
    // A revert: the oldest revision is desired.
    repository.change("a", "maxPods: 110");
    let document = cluster.call(&["prune", "--keep", "9", "--yes", "-o", "json"]).await.exits(0).json();
    assert_eq!(document["dryRun"], json!(false));
    let run = cluster.call(&["prune", path(&repository), "--keep", "1", "--yes", "--quiet"]).await.exits(0);
    run.prints("needed by the repository").does_not_print("fleet test");
    assert!(config_maps(&cluster).await.contains(&names[0]));
    let run = cluster.call(&["prune", path(&repository), "--fleet", "other", "--yes"]).await.exits(2);
    run.prints("the repository belongs to fleet test");
    let run = cluster.call(&["reset", "--all", "--yes", "--quiet", "--allow-disruption", "drain"]).await.exits(0);
    run.does_not_print("The next sync").does_not_print("to local configuration");
    cluster.down().await;
}
