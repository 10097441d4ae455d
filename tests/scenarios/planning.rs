//! Scenarios of planning: pool membership, skipped nodes with reasons, and safety checks.

use std::collections::BTreeMap;

use nodecfg_sandbox::api::ResponseFormat;
use nodecfg_sandbox::kubelets::Fault;
use serde_json::json;

use crate::harness::{Cluster, ClusterSetup, KUBELET, NodeRecord, Repository};

scenarios! {
    Anything {
        first_sync_converges_and_second_changes_nothing,
        selectors_and_priorities_decide_membership,
        node_selected_by_two_pools_is_left_unchanged,
        foreign_config_map_is_a_conflict_until_taken_over,
        node_of_another_fleet_is_skipped,
        adopts_equal_content_under_another_name,
        config_map_that_is_being_deleted_gets_no_nodes,
        empty_repository_needs_confirmation,
        empty_selection_is_refused,
        pool_that_lost_its_nodes_needs_confirmation,
        pool_paused_in_repository_is_unchanged,
        local_target_resets_nodes,
        formatting_changes_nothing,
        change_that_needs_drain_is_refused_until_allowed,
        refused_pool_prevents_the_whole_sync,
    }
    Kubelets {
        too_new_kubelet_is_reported_before_writes,
        kubelet_without_dynamic_config_dir_is_reported_before_writes,
    }
    Sandbox {
        sync_without_changes_sends_few_requests,
    }
}

async fn first_sync_converges_and_second_changes_nothing(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 2).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 50%}");
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 250");
    let commit = repository.commit();

    cluster.sync(&repository, &[]).await.exits(0).prints("5 nodes: 5 converged");
    let maps = cluster.config_maps().await;
    assert_eq!(maps.len(), 2);
    for (name, map) in &maps {
        assert_eq!(map["immutable"], true, "{name}");
        assert_eq!(map["metadata"]["labels"]["nodecfg.dev/fleet"], "test");
        assert_eq!(map["metadata"]["annotations"]["nodecfg.dev/commit"], commit.as_str());
    }
    for (node, state) in cluster.states().await {
        assert!(state.converged(), "{node}: {state:?}");
        let pool = node.split('-').next().unwrap();
        assert!(state.source.unwrap().starts_with(&format!("test-{pool}-")), "{node}");
    }

    let before = cluster.written().await;
    cluster.sync(&repository, &[]).await.exits(0).prints("No changes:").prints("5 already up to date");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn sync_without_changes_sends_few_requests(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    cluster.sync(&repository, &[]).await.exits(0);

    let log = &cluster.sandbox().wire().log;
    log.clear();
    cluster.sync(&repository, &[]).await.exits(0).prints("No changes:");
    let entries = log.entries();
    let shown: Vec<String> = entries.iter().map(ToString::to_string).collect();
    let count = |verb: &str, resource: &str| {
        entries.iter().filter(|entry| entry.request.verb == verb && entry.request.resource == resource).count()
    };
    // One list of all nodes, and one for binding detection. The first is a stream if the server has them.
    let streams = usize::from(cluster.streams_lists());
    assert_eq!((count("list", "nodes"), count("watch", "nodes")), (2 - streams, streams), "{shown:#?}");
    assert_eq!(count("list", "configmaps"), 1, "{shown:#?}");
    let metadata_only = |entry: &nodecfg_sandbox::server::wire::Entry| {
        entry.request.resource != "configmaps" || entry.request.format == ResponseFormat::Metadata
    };
    assert!(entries.iter().all(metadata_only), "{shown:#?}");
    let leases = entries.iter().filter(|entry| entry.request.resource == "leases").count();
    assert!(leases <= 4, "read, take, read orders under the lock, release: {shown:#?}");
    let node_configs = count("list", "nodeconfigs") + count("watch", "nodeconfigs");
    // Kubelets that follow their Nodes are asked what they run: three of the pool.
    let asked = shown.iter().filter(|entry| entry.contains("/proxy/")).count();
    assert_eq!(asked, if cluster.has_agents() { 0 } else { 3 }, "{shown:#?}");
    assert!(
        entries.len() - 2 - leases - node_configs - asked - usize::from(asked > 0) <= 4,
        "requests for version, binding, ConfigMaps and the right to ask: {shown:#?}"
    );
    assert_eq!(node_configs, 2 * streams, "one for binding detection: {shown:#?}");
    assert!(cluster.sandbox().writes().is_empty(), "{shown:#?}");
    cluster.down().await;
}

async fn selectors_and_priorities_decide_membership(start: ClusterSetup) {
    let cluster = start
        .node("in", &[("zone", "north"), ("size", "big")])
        .node("not-in", &[("zone", "east"), ("size", "big")])
        .node("exists", &[("zone", "south"), ("spot", "")])
        .node("both", &[("zone", "north"), ("spot", "")])
        .node("nowhere", &[("zone", "south")])
        .up()
        .await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%, allowDisruption: drain, drain: {settle: 0s}}");
    for (pool, max_pods, selector) in [
        (
            "north",
            101,
            "{matchLabels: {size: big}, matchExpressions: [{key: zone, operator: In, values: [north, west]}]}",
        ),
        (
            "rest",
            102,
            "{matchExpressions: [{key: zone, operator: NotIn, values: [north, south]}, {key: spot, operator: DoesNotExist}]}",
        ),
        ("spot", 103, "{matchExpressions: [{key: spot, operator: Exists}]}"),
        ("spot-north", 104, "{matchLabels: {zone: north}, matchExpressions: [{key: spot, operator: Exists}]}"),
    ] {
        repository.pool(pool, &format!("maxPods: {max_pods}"));
        let priority = i32::from(pool == "spot-north") * 10;
        repository.pool_spec(pool, &format!("{{priority: {priority}, nodeSelector: {selector}}}"));
    }
    repository.commit();

    cluster.sync(&repository, &[]).await.exits(0).prints("in no pool: nowhere").prints("4 converged");
    for (node, pool) in [("in", "north"), ("not-in", "rest"), ("exists", "spot"), ("both", "spot-north")] {
        let source = cluster.source(node).await.unwrap();
        assert_eq!(source.rsplit_once('-').unwrap().0, format!("test-{pool}"), "{node}");
    }
    assert_eq!(cluster.source("nowhere").await, None);
    cluster.down().await;
}

/// Runs a sync that must fail with exit code 3 and these texts, without writes.
async fn refused(cluster: &Cluster, repository: &Repository, words: &[&str]) {
    let before = cluster.written().await;
    let mut run = cluster.sync(repository, &[]).await.exits(3);
    for text in words {
        run = run.prints(text);
    }
    assert_eq!(cluster.written().await, before);
}

async fn node_selected_by_two_pools_is_left_unchanged(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = Repository::empty();
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 110");
    repository.pool_spec("b", "{nodeSelector: {}}");
    repository.commit();
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("pools a and b of equal priority select the node").prints("higher spec.priority").prints("2 blocked");
    assert_eq!(cluster.source("a-1").await, None);
    assert!(cluster.state("b-1").await.converged(), "only b selects it");
    cluster.run("status", &repository, &[]).await.exits(0).prints("2 blocked");
    cluster.run("doctor", &repository, &[]).await.exits(5).prints("pools a and b of equal priority select the node");
    repository.pool_spec("b", "{nodeSelector: {}, priority: -1}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn foreign_config_map_is_a_conflict_until_taken_over(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    cluster.create_config_map("by-hand", &format!("{KUBELET}maxPods: 50\n"), false, None).await;
    cluster.assign_by_hand("a-1", "by-hand").await;
    cluster.until_node("a-1", "runs what it was given by hand", |state| state.converged()).await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");

    let run = cluster.sync(&repository, &[]).await.exits(5);
    let by_hand = format!("points at {}/by-hand, which nodecfg does not manage; pass --take-over", cluster.namespace());
    run.prints(&by_hand).prints("1 blocked");
    assert_eq!(cluster.source("a-1").await.as_deref(), Some("by-hand"));
    assert!(cluster.state("a-2").await.converged());

    cluster.sync(&repository, &["--take-over"]).await.exits(0).prints("~ maxPods: 50 → 110");
    assert_eq!(cluster.source("a-1").await, cluster.source("a-2").await);
    assert!(cluster.config_maps().await.contains_key("by-hand"), "ConfigMaps of other clients are never deleted");
    cluster.down().await;
}

async fn node_of_another_fleet_is_skipped(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).up().await;
    let other = Repository::empty();
    other.fleet("other", "{allowDisruption: drain, drain: {settle: 0s}}");
    other.pool("b", "maxPods: 50");
    other.commit();
    cluster.sync(&other, &[]).await.exits(0);
    let theirs = cluster.source("b-1").await;

    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.pool("a", "maxPods: 110");
    repository.pool_spec("a", "{nodeSelector: {}}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(5).prints("of fleet other; remove it there, or pass --take-over");
    assert_eq!(cluster.source("b-1").await, theirs);
    cluster.sync(&repository, &["--take-over"]).await.exits(0);
    assert_eq!(cluster.source("b-1").await, cluster.source("a-1").await);
    cluster.down().await;
}

async fn adopts_equal_content_under_another_name(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    // Equal in content, but not in its bytes.
    let text = "# by hand\nmaxPods: 110\nkind: 'KubeletConfiguration'\napiVersion: \"kubelet.config.k8s.io/v1beta1\"\n";
    cluster.create_config_map("by-hand", text, false, None).await;
    for node in ["a-1", "a-2"] {
        cluster.assign_by_hand(node, "by-hand").await;
        cluster.until_node(node, "runs what it was given by hand", |state| state.converged()).await;
    }
    let history = cluster.history().await;
    let before = cluster.written().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    // As it is assigned by hand.
    repository.pool_spec("a", "{kubelet: {placement: replace}}");
    repository.commit();
    let run = cluster.sync(&repository, &[]).await.exits(0);
    let namespace = cluster.namespace();
    run.prints(&format!("runs the wanted content from {namespace}/by-hand already; no restart needed"))
        .prints("No changes:");
    assert_eq!(cluster.written().await, before);
    let past = history.end().await;
    assert!(past.assigned().is_empty());
    assert_eq!(past.most(|_, state| !state.converged()), 0, "no kubelet restarted");
    cluster.down().await;
}

async fn empty_repository_needs_confirmation(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    cluster.sync(&repository, &[]).await.exits(0);
    repository.remove("pools/a/kubelet.yaml");
    repository.commit();
    refused(&cluster, &repository, &["the repository has no pool", "--allow-empty"]).await;
    let before = cluster.written().await;
    cluster
        .sync(&repository, &["--allow-empty"])
        .await
        .exits(0)
        .prints("no longer in any pool, configuration unchanged");
    assert_eq!(cluster.written().await, before, "nodes are unchanged");
    cluster.down().await;
}

async fn empty_selection_is_refused(start: ClusterSetup) {
    let cluster = start.pool("z", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    refused(
        &cluster,
        &repository,
        &["the pools (1) select none of the nodes of the cluster (3)", "check the kubeconfig context"],
    )
    .await;
    cluster.down().await;
}

async fn pool_that_lost_its_nodes_needs_confirmation(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 110");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);

    repository.pool_spec("a", "{nodeSelector: {matchLabels: {nodecfg.dev/pool: mistyped}}}");
    repository.commit();
    refused(
        &cluster,
        &repository,
        &["pool a selects no node, but 2 nodes still run its configuration (for example a-1)", "--allow-empty"],
    )
    .await;
    let before = cluster.written().await;
    cluster.sync(&repository, &["--allow-empty"]).await.exits(0);
    assert_eq!(cluster.written().await, before, "nodes are unchanged");
    cluster.down().await;
}

async fn too_new_kubelet_is_reported_before_writes(start: ClusterSetup) {
    let cluster = start.node_of_version("a-1", &[("nodecfg.dev/pool", "a")], "v1.24.0").up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let before = cluster.written().await;
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("blocked: a-1: kubelet v1.24.0 does not support configSource")
        .prints("dynamic configuration needs kubelets 1.11 to 1.23");
    cluster.run("diff", &repository, &[]).await.prints("does not support configSource");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn kubelet_without_dynamic_config_dir_is_reported_before_writes(start: ClusterSetup) {
    let cluster = start.pool("a", 1).fault("a-1", Fault::NeverAcknowledges).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let before = cluster.written().await;
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("blocked: a-1: the kubelet reports no status.config: it runs without --dynamic-config-dir");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn pool_paused_in_repository_is_unchanged(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).up().await;
    let repository = Repository::empty();
    repository.pool("a", "maxPods: 110");
    repository.pool_spec("a", "{rollout: {paused: true}}");
    repository.pool("b", "maxPods: 110");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("unchanged: a-1: the pool is paused");
    assert_eq!(cluster.source("a-1").await, None);
    assert!(cluster.source("b-1").await.is_some());
    cluster.down().await;
}

async fn local_target_resets_nodes(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    cluster.sync(&repository, &[]).await.exits(0);

    repository.remove("pools/a/kubelet.yaml");
    repository.pool_spec("a", "{kubelet: {local: true}}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("to the local configuration").prints("2 converged");
    for node in ["a-1", "a-2"] {
        let object = cluster.assignment_object(node).await;
        assert_eq!(object["spec"].get("configSource"), None, "{node}");
        assert_eq!(object["status"]["config"], json!({}), "{node}");
    }
    cluster.sync(&repository, &[]).await.exits(0).prints("No changes:");
    cluster.down().await;
}

async fn formatting_changes_nothing(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110\nclusterDNS: [10.96.0.10]\nfailSwapOn: false", "");
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.written().await;
    let text = "\u{feff}# the same, written otherwise\r\nfailSwapOn: false\r\nclusterDNS:\r\n- &dns \"10.96.0.10\"\r\n\
                maxPods: 110\r\nkind: KubeletConfiguration\r\napiVersion: 'kubelet.config.k8s.io/v1beta1'\r\n";
    repository.write("pools/a/kubelet.yaml", text);
    repository.commit();
    cluster.run("diff", &repository, &[]).await.exits(0);
    cluster.sync(&repository, &[]).await.exits(0).prints("No changes:");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn change_that_needs_drain_is_refused_until_allowed(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let drained = "{maxUnavailable: 100%, allowDisruption: drain, drain: {settle: 0s}}";
    let repository = Repository::of_pool("kubeReserved: {cpu: 500m}\ncpuManagerPolicy: none", drained);
    // Without an answer of kubelets, the local configuration is unknown. An agent knows it, and has the last word.
    cluster
        .sync(&repository, &["--ask-kubelets", "none"])
        .await
        .exits(0)
        .prints("risk: unknown (the current configuration is unknown)");

    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.change("a", "kubeReserved: {cpu: 500m}\ncpuManagerPolicy: static");
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("~ cpuManagerPolicy: none → static drain pools/a/kubelet.yaml:4:19")
        .prints("The kubelet does not start with the state of another policy")
        .prints("risk: drain: requires draining the node first, and cpu_manager_state removed")
        .prints("refused by sync: the pool allows no more than restart (spec.rollout.allowDisruption)");
    let json = cluster.run("diff", &repository, &["-o", "json"]).await.exits(1).json();
    let pool = &json["pools"][0];
    assert_eq!(pool["changes"][0]["fields"][0]["risk"]["class"], "drain");
    assert_eq!(pool["changes"][0]["fields"][0]["risk"]["stateFiles"], json!(["cpu_manager_state"]));
    let risk = &pool["risk"];
    assert_eq!((&risk["worst"], &risk["unknown"], &risk["unknownNodes"]), (&json!("drain"), &json!(false), &json!(0)));
    assert_eq!((&risk["stateFiles"], &risk["refused"]["allowed"]), (&json!(["cpu_manager_state"]), &json!("restart")));
    let words = [
        "pool a: the change requires draining the node first (drain)",
        "cpuManagerPolicy (drain)",
        "allowDisruption: drain",
    ];
    refused(&cluster, &repository, &words).await;
    cluster.sync(&repository, &["--dry-run"]).await.exits(3).prints("refused by sync");

    repository.pool_spec("a", "{rollout: {maxUnavailable: 100%, allowDisruption: drain, drain: {settle: 0s}}}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("risk: drain").prints("2 converged");
    cluster.sync(&repository, &[]).await.exits(0).prints("No changes:");
    cluster.down().await;
}

async fn refused_pool_prevents_the_whole_sync(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 110");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0);

    repository.pool("a", "maxPods: 120");
    repository.change("b", "maxPods: 110\ncgroupDriver: systemd");
    refused(
        &cluster,
        &repository,
        &["pool b: the change requires a reboot or a new node (replace)", "cgroupDriver (replace)"],
    )
    .await;
    // The fleet's policy applies to pools without one.
    repository.fleet("test", "{maxUnavailable: 100%, allowDisruption: replace, drain: {settle: 0s}}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("2 converged");
    cluster.down().await;
}

/// Its finalizers keep it for now, and kubelets and agents would download it.
async fn config_map_that_is_being_deleted_gets_no_nodes(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("registryPullQPS: 10", "{maxUnavailable: 100%}");
    cluster.sync(&repository, &[]).await.exits(0);
    let name = cluster.only_config_map().await;
    repository.change("a", "registryPullQPS: 20");
    cluster.sync(&repository, &[]).await.exits(0);
    let path = format!("/api/v1/namespaces/{}/configmaps/{name}", cluster.namespace());
    cluster.patch(&path, json!({"metadata": {"finalizers": ["example.com/audit"]}})).await;
    cluster.delete(&path).await;

    repository.change("a", "registryPullQPS: 10");
    let before = cluster.states().await;
    for command in ["diff", "sync"] {
        let run = cluster.run(command, &repository, &[]).await.exits(4);
        run.prints("is being deleted and waits for its finalizers, but 2 nodes need it")
            .prints("remove its finalizers");
    }
    let sources =
        |states: &BTreeMap<String, NodeRecord>| states.values().map(|state| state.source.clone()).collect::<Vec<_>>();
    assert_eq!(sources(&cluster.states().await), sources(&before));
    // The help of the message.
    cluster.patch(&path, json!({"metadata": {"finalizers": null}})).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    assert_eq!(cluster.source("a-1").await, Some(name));
    cluster.down().await;
}
