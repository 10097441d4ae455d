//! Back to what was: the revisions of a pool, rolling back, resetting, and clearing away what is left.

use serde_json::{Value, json};

use crate::harness::{Cluster, NodeRecord, Repository, Run, Running, Start};

scenarios! {
    Anything {
        history_lists_revisions_with_their_nodes,
        a_rollback_is_a_sync_of_one_pool_and_stays,
        a_rollback_minds_no_other_pool,
        a_rollback_works_while_head_is_broken,
        a_rollback_goes_where_nodes_have_been,
        a_rollback_that_cannot_be_says_why_and_writes_nothing,
        nodes_are_reset_within_the_budget,
        a_reset_with_a_repository_keeps_to_its_pools,
        a_reset_of_what_is_not_there_writes_nothing,
        what_nothing_refers_to_is_pruned,
        what_the_repository_asks_for_is_not_pruned,
        a_prune_without_a_terminal_wants_a_word,
    }
    Sandbox {
        a_node_that_leaves_in_the_middle_is_no_failure,
        what_was_made_anew_is_not_deleted,
    }
}

/// `nodecfg …` against the cluster.
async fn call(cluster: &Cluster, arguments: &[&str]) -> Run {
    start(cluster, arguments).end().await
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

/// The ConfigMap that all nodes of a pool run.
async fn common(cluster: &Cluster, pool: &str) -> Option<String> {
    let states = cluster.states().await;
    let states: Vec<&NodeRecord> =
        states.iter().filter(|(node, _)| node.starts_with(&format!("{pool}-"))).map(|(_, state)| state).collect();
    assert!(states.iter().all(|state| state.settled()), "{states:?}");
    let first = states[0].source.clone();
    assert!(states.iter().all(|state| state.source == first), "{states:?}");
    first
}

/// What a node says, but for the version of its object: Nodes show signs of life all the time.
async fn wish(cluster: &Cluster, node: &str) -> NodeRecord {
    NodeRecord { revision: 0, ..cluster.state(node).await }
}

async fn config_maps(cluster: &Cluster) -> Vec<String> {
    let list = cluster.get(&format!("/api/v1/namespaces/{}/configmaps", cluster.namespace())).await;
    let names =
        list["items"].as_array().unwrap().iter().map(|map| map["metadata"]["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("test-")).collect()
}

async fn history_lists_revisions_with_their_nodes(start: Start) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "maxPods: 110 # as before");
    repository.change("a", "maxPodz: 120");
    repository.change("a", "maxPods: 130");
    let document = call(&cluster, &["history", "a", path(&repository), "-o", "json"]).await.exits(0).json();
    assert_eq!((&document["kind"], &document["whole"]), (&json!("History"), &json!(true)));
    let revisions = document["revisions"].as_array().unwrap();
    let kinds: Vec<&Value> = revisions.iter().map(|revision| &revision["content"]["kind"]).collect();
    assert_eq!(kinds, ["config", "invalid", "config"]);
    assert_eq!((&revisions[0]["current"], &revisions[0]["exists"]), (&json!(true), &json!(false)));
    assert_eq!((&revisions[2]["exists"], &revisions[2]["nodes"]["active"]), (&json!(true), &json!(2)));
    let run = call(&cluster, &["history", "a", path(&repository)]).await.exits(0);
    run.says("not in the cluster").says("2 pointed at it, 2 assigned, 2 running it").says("a: 3 revisions, 2 nodes.");
    call(&cluster, &["history", "a", path(&repository), "--limit", "1"]).await.exits(0).says("--limit shows more");
    let run = call(&cluster, &["history", "aa", path(&repository)]).await.exits(2);
    run.says("there is no pool aa in the repository").says("did you mean a?");
    cluster.down().await;
}

async fn a_rollback_is_a_sync_of_one_pool_and_stays(start: Start) {
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
    let others = wish(&cluster, "b-1").await;

    let before = cluster.written().await;
    let dry = call(&cluster, &["rollback", "a", path(&repository), "--dry-run"]).await.exits(0);
    dry.says("3 nodes to assign").says("Pool a would be paused as well");
    assert_eq!(cluster.written().await, before);
    let run = call(&cluster, &["rollback", "a", path(&repository), "--reason", "pods are evicted"]).await.exits(0);
    run.says("3 converged").says("nodecfg resume a");
    assert_eq!(common(&cluster, "a").await, old);
    assert_eq!(wish(&cluster, "b-1").await, others, "no other pool is touched");

    // No sync of HEAD undoes it.
    let run = cluster.sync(&repository, &[]).await.exits(0);
    run.says("pods are evicted");
    assert_eq!(common(&cluster, "a").await, old);
    // Once more there is nothing to do, and it is no error.
    call(&cluster, &["rollback", "a", path(&repository), "--to", &first]).await.exits(0);
    assert_eq!(common(&cluster, "a").await, old);
    call(&cluster, &["resume", "a"]).await.exits(0);
    cluster.sync(&repository, &[]).await.exits(0);
    assert_eq!(common(&cluster, "a").await, new);
    let run = call(&cluster, &["rollback", "a", path(&repository), "--to", "HEAD"]).await.exits(0);
    run.says("Nothing to roll back");
    cluster.down().await;
}

async fn a_rollback_minds_no_other_pool(start: Start) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = Repository::of_pool("registryPullQPS: 6", "{maxUnavailable: 100%}");
    cluster.sync(&repository, &[]).await.exits(0);
    let old = common(&cluster, "a").await;
    repository.change("a", "registryPullQPS: 7");
    cluster.sync(&repository, &[]).await.exits(0);
    // Two pools contest nodes that are none of this one's.
    for pool in ["b", "c"] {
        repository.pool(pool, "registryPullQPS: 8");
    }
    let values = "[{key: nodecfg.dev/pool, operator: In, values: [b]}]";
    repository.pool_spec("c", &format!("{{nodeSelector: {{matchExpressions: {values}}}}}"));
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(3).says("both select node b-1");
    call(&cluster, &["rollback", "a", path(&repository), "--no-pause"]).await.exits(0).says("revert it in git");
    assert_eq!(common(&cluster, "a").await, old);
    cluster.down().await;
}

async fn a_rollback_that_cannot_be_says_why_and_writes_nothing(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.written().await;
    let rollback = async |more: &[&str]| call(&cluster, &[&["rollback"], more].concat()).await.exits(2);
    rollback(&["a", path(&repository)]).await.says("pool a has no earlier configuration in this repository");
    rollback(&["gpu", path(&repository)]).await.says("there is no pool gpu in the repository").says("there is a");
    let broken = repository.change("a", "maxPodz: 1");
    repository.pool("b", "maxPods: 50");
    repository.change("a", "maxPods: 120");
    let run = rollback(&["a", path(&repository), "--to", &broken]).await;
    run.says("is invalid at revision").says("nodecfg history a");
    rollback(&["b", path(&repository), "--to", &broken]).await.says("has no pool b");
    let run = call(&cluster, &["rollback", "a", path(&repository), "--to", "v9"]).await.exits(3);
    run.says("has no revision \"v9\"");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn nodes_are_reset_within_the_budget(start: Start) {
    let cluster = start.pool("a", 3).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let map = common(&cluster, "a").await;
    let before = cluster.written().await;
    call(&cluster, &["reset", "--all", "--dry-run"]).await.exits(0).says("3 to assign, at most 1 unavailable");
    assert_eq!(cluster.written().await, before);
    call(&cluster, &["reset", "--all"]).await.exits(2).says("there is no terminal to ask on").says("--yes");
    assert_eq!(cluster.written().await, before);

    let run = call(&cluster, &["reset", "a-1", "--yes"]).await.exits(0);
    run.says("1 converged").says("The next sync points these nodes back");
    assert_eq!((cluster.source("a-1").await, cluster.source("a-2").await), (None, map));
    let run = call(&cluster, &["reset", "--pool", "a", "--yes"]).await.exits(0);
    run.says("2 converged");
    assert_eq!(common(&cluster, "a").await, None);
    // As they shall be.
    call(&cluster, &["reset", "a-1", "--yes"]).await.exits(0);
    cluster.down().await;
}

async fn a_reset_with_a_repository_keeps_to_its_pools(start: Start) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = repository();
    repository.pool("b", "maxPods: 50");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);
    let kept = wish(&cluster, "b-1").await;
    call(&cluster, &["reset", "--pool", "c", "--repo", path(&repository), "--yes"]).await.exits(2).says("pool c");
    let run = call(&cluster, &["reset", "--pool", "a", "--repo", path(&repository), "--yes"]).await.exits(0);
    run.says("at most 2 unavailable at a time");
    assert_eq!(common(&cluster, "a").await, None);
    assert_eq!(wish(&cluster, "b-1").await, kept);
    cluster.down().await;
}

async fn a_reset_of_what_is_not_there_writes_nothing(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    cluster.sync(&repository(), &[]).await.exits(0);
    let before = cluster.written().await;
    let reset = async |more: &[&str]| call(&cluster, &[&["reset", "--yes"], more].concat()).await.exits(2);
    reset(&["a-11"]).await.says("there is no node a-11 in the cluster").says("did you mean a-1?");
    reset(&["--pool", "gpu"]).await.says("there is no pool gpu among those that nodes are in");
    reset(&["a-1", "gone"]).await.says("there is no node gone in the cluster");
    reset(&[]).await.says("nothing says which nodes to reset");
    reset(&["--selector", "a in (b"]).await.says("a parenthesis is not closed");
    let run = call(&cluster, &["reset", "--all", "--fleet", "other", "--yes"]).await.exits(0);
    run.says("Nothing to reset");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn what_nothing_refers_to_is_pruned(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    let mut names = Vec::new();
    for pods in [110, 111, 112, 113] {
        repository.change("a", &format!("maxPods: {pods}"));
        cluster.sync(&repository, &[]).await.exits(0);
        names.push(common(&cluster, "a").await.unwrap());
    }
    assert_eq!(config_maps(&cluster).await.len(), 4);
    let document = call(&cluster, &["prune", "--dry-run", "--keep", "1", "-o", "json"]).await.exits(0).json();
    assert_eq!((&document["kind"], &document["dryRun"]), (&json!("Pruning"), &json!(true)));
    assert_eq!(config_maps(&cluster).await.len(), 4);
    // `diff` and `prune` agree on what can go.
    let diff = call(&cluster, &["diff", path(&repository), "-o", "json"]).await.exits(0).json();
    let document = call(&cluster, &["prune", path(&repository), "--dry-run", "-o", "json"]).await.exits(0).json();
    let maps = document["configMaps"].as_array().unwrap().iter();
    let doomed: Vec<&Value> = maps.filter(|map| map["end"]["kind"] == "toDelete").map(|map| &map["name"]).collect();
    assert_eq!(diff["cluster"]["prunable"], json!(doomed));
    let run = call(&cluster, &["prune", "--pool", "gpu", "--yes"]).await.exits(2);
    run.says("there is no pool gpu among the ConfigMaps of fleet");
    call(&cluster, &["prune", "--keep", "4", "--yes"]).await.exits(0).says("Nothing to delete.");

    // Copies with their labels are somebody's own: one of another name, and two that can be changed.
    let copies = ["test-own", "test-a-bbbbbbbbbb", "test-a-bbbbbbbbbc"];
    for copy in copies {
        cluster.create_config_map(copy, "a: 1", false, Some(("test", "a"))).await;
    }
    call(&cluster, &["prune", "--keep", "1", "--yes"]).await.exits(0).says("Deleted:");
    let left = config_maps(&cluster).await;
    assert!(copies.iter().all(|copy| left.iter().any(|name| name == copy)), "{left:?}");
    let left = config_maps(&cluster).await;
    assert!(left.contains(&names[3]) && !left.contains(&names[0]), "{left:?}");
    // What the status names is left, and what goes is not missed.
    let good = cluster.carrier("a-1").await;
    if let Some(good) = good.pointer("/status/config/lastKnownGood/configMap/name").and_then(Value::as_str) {
        assert!(left.iter().any(|name| name == good), "{left:?}");
    }
    cluster.sync(&repository, &[]).await.exits(0).says("1 as wanted already");
    let run = call(&cluster, &["history", "a", path(&repository)]).await.exits(0);
    run.says("not in the cluster");
    cluster.down().await;
}

async fn a_prune_without_a_terminal_wants_a_word(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    cluster.sync(&repository(), &[]).await.exits(0);
    call(&cluster, &["prune"]).await.exits(2).says("there is no terminal to ask on").says("--dry-run");
    cluster.down().await;
}

async fn a_node_that_leaves_in_the_middle_is_no_failure(starting: Start) {
    let cluster = starting.pool("a", 3).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let mut run = start(&cluster, &["reset", "--all", "--yes"]);
    run.until_it_says("a/a-1 assigned").await;
    cluster.delete("/api/v1/nodes/a-3").await;
    run.end().await.exits(0);
    assert_eq!(common(&cluster, "a").await, None);
    cluster.down().await;
}

async fn what_was_made_anew_is_not_deleted(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    for pods in [110, 111, 112] {
        repository.change("a", &format!("maxPods: {pods}"));
        cluster.sync(&repository, &[]).await.exits(0);
    }
    // While somebody else holds the lock, nothing is deleted at all.
    let held = cluster.namespace();
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{held}/leases/nodecfg-test");
    let until = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = json!({"holderIdentity": "somebody", "leaseDurationSeconds": 600, "renewTime": until});
    cluster.patch(&lease, json!({"spec": spec})).await;
    let before = config_maps(&cluster).await;
    call(&cluster, &["prune", "--keep", "1", "--yes"]).await.exits(6).says("somebody holds the lock");
    assert_eq!(config_maps(&cluster).await, before);
    cluster.down().await;
}

async fn a_rollback_works_while_head_is_broken(start: Start) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = Repository::of_pool("registryPullQPS: 6", "{maxUnavailable: 100%}");
    repository.pool("b", "registryPullQPS: 8");
    let first = repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);
    let old = common(&cluster, "a").await;
    let second = repository.change("a", "registryPullQPS: 7");
    cluster.sync(&repository, &[]).await.exits(0);
    let new = common(&cluster, "a").await;
    let others = wish(&cluster, "b-1").await;
    let rollback =
        async |to: &str| call(&cluster, &["rollback", "a", path(&repository), "--to", to, "--no-pause"]).await.exits(0);

    // Another pool, then the very pool, cannot be put together.
    repository.write("pools/b/kubelet.yaml", "nonsense: [");
    repository.commit();
    rollback(&first).await.says("HEAD is invalid");
    assert_eq!(common(&cluster, "a").await, old);
    repository.write("pools/a/kubelet.yaml", "nonsense: [");
    repository.commit();
    rollback(&second).await;
    assert_eq!(common(&cluster, "a").await, new);
    // Another pool does not say which nodes it selects, and a node is there that may be its.
    repository.write("pools/b/pool.yaml", "nonsense: [");
    repository.commit();
    rollback(&first)
        .await
        .says("HEAD does not say which nodes")
        .says("Only nodes on ConfigMaps of pool a are touched: 2 nodes");
    assert_eq!(common(&cluster, "a").await, old);
    // Nor does the pool itself.
    repository.write("pools/a/pool.yaml", "nonsense: [");
    repository.commit();
    rollback(&second).await.says("pools/a/pool.yaml cannot be read at HEAD");
    assert_eq!(common(&cluster, "a").await, new);
    assert_eq!(wish(&cluster, "b-1").await, others, "no other pool is touched");

    // No node is known to be the pool's; and nothing is known once the fleet's file is broken.
    call(&cluster, &["reset", "--pool", "a", "--yes"]).await.exits(0);
    let before = cluster.written().await;
    let refused = call(&cluster, &["rollback", "a", path(&repository), "--to", &first]).await.exits(2);
    refused.says("it is open which nodes are of pool a").says("--rev");
    repository.write("nodecfg.yaml", "nonsense: [");
    repository.commit();
    call(&cluster, &["rollback", "a", path(&repository), "--to", &first]).await.exits(3);
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn a_rollback_goes_where_nodes_have_been(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%, allowDisruption: drain}");
    let never = repository.change("a", "maxPods: 109");
    repository.change("a", "maxPods: 111");
    cluster.sync(&repository, &[]).await.exits(0);
    let first = common(&cluster, "a").await;
    let run = call(&cluster, &["rollback", "a", path(&repository)]).await.exits(2);
    run.says("is known to have run").says(&format!("--to {}", &never[..10]));
    repository.change("a", "maxPods: 112");
    repository.change("a", "maxPods: 113");
    cluster.sync(&repository, &[]).await.exits(0);
    let run = call(&cluster, &["rollback", "a", path(&repository), "--no-pause"]).await.exits(0);
    run.says("pool a back to ");
    assert_eq!(common(&cluster, "a").await, first);
    // Nothing to say to people is a document for programs.
    let same = call(&cluster, &["rollback", "a", path(&repository), "--to", "HEAD", "--dry-run", "-o", "json"]).await;
    assert_eq!(same.exits(0).json()["kind"], json!("Diff"));
    let same = call(&cluster, &["rollback", "a", path(&repository), "--to", "HEAD", "-o", "json"]).await.exits(0);
    assert!(!same.json_lines().is_empty());
    assert_eq!(common(&cluster, "a").await, first, "HEAD is not rolled out by the way");
    cluster.down().await;
}

async fn what_the_repository_asks_for_is_not_pruned(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    let mut names = Vec::new();
    for pods in [110, 111, 112, 113] {
        repository.change("a", &format!("maxPods: {pods}"));
        cluster.sync(&repository, &[]).await.exits(0);
        names.push(common(&cluster, "a").await.unwrap());
    }
    // A revert: what is wanted is the oldest there is.
    repository.change("a", "maxPods: 110");
    let document = call(&cluster, &["prune", "--keep", "9", "--yes", "-o", "json"]).await.exits(0).json();
    assert_eq!(document["dryRun"], json!(false));
    let run = call(&cluster, &["prune", path(&repository), "--keep", "1", "--yes", "--quiet"]).await.exits(0);
    run.says("asked for by the repository").never_says("fleet test");
    assert!(config_maps(&cluster).await.contains(&names[0]));
    let run = call(&cluster, &["prune", path(&repository), "--fleet", "other", "--yes"]).await.exits(2);
    run.says("the repository is of fleet test");
    let run = call(&cluster, &["reset", "--all", "--yes", "--quiet"]).await.exits(0);
    run.never_says("The next sync").never_says("back to local");
    cluster.down().await;
}
