//! Scenarios of pool pointers: the configuration that new nodes start with.

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository};
use nodecfg_contract::ContentHash;
use nodecfg_sandbox::kubelets::Fault;

scenarios! {
    Anything {
        pointer_follows_proven_configurations,
        pointer_of_another_client_is_not_overwritten,
        changed_pointer_is_reported_and_moved_back,
    }
    Agents {
        nodes_that_assigned_themselves_move_no_pointer,
    }
    Sandbox {
        failed_canary_leaves_the_pointer,
    }
}

/// A repository that publishes pool `a`, with one canary.
fn published(fields: &str) -> Repository {
    let repository = Repository::of_pool(fields, "{}");
    publish(&repository, "{maxUnavailable: 100%, canary: {nodes: 1}}");
    repository.commit();
    repository
}

fn publish(repository: &Repository, rollout: &str) {
    let text = format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: test}}\nspec:\n  poolPointers: true\n  \
         rollout: {rollout}\n"
    );
    repository.write("nodecfg.yaml", &text);
}

async fn pointer(cluster: &Cluster) -> Option<Value> {
    cluster.config_maps().await.remove("nodecfg-pool-test-a")
}

/// Name of the ConfigMap that the pointer names.
async fn pointed(cluster: &Cluster) -> String {
    pointer(cluster).await.unwrap()["data"]["configMap"].as_str().unwrap_or("local").to_owned()
}

async fn assigned(cluster: &Cluster) -> String {
    cluster.source("a-1").await.unwrap()
}

async fn pointer_follows_proven_configurations(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = published("registryPullQPS: 6");
    let path = repository.path().to_str().unwrap();
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("publishes the configuration of pool a for new nodes once nodes have proved it");
    cluster.sync(&repository, &[]).await.exits(0).prints("new nodes start with test-a-");
    let first = assigned(&cluster).await;
    let written = pointer(&cluster).await.unwrap();
    let content = cluster.config_maps().await.remove(&first).unwrap();
    assert_eq!(written["data"]["configMap"], json!(first));
    assert_eq!(written["data"]["kubelet"], content["data"]["kubelet"]);
    let annotation = |map: &Value, name: &str| map["metadata"]["annotations"][format!("nodecfg.dev/{name}")].clone();
    assert_eq!(written["data"]["contentHash"], annotation(&content, "content-hash"));
    assert_eq!(written["data"]["commit"], annotation(&content, "commit"));
    assert_eq!(written.get("immutable"), None);

    // An unchanged configuration writes nothing, also at another commit.
    repository.write("README.md", "x");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).does_not_print("new nodes start");
    assert_eq!(pointer(&cluster).await.unwrap(), written);

    repository.change("a", "registryPullQPS: 7");
    cluster.sync(&repository, &[]).await.exits(0);
    let second = assigned(&cluster).await;
    assert_ne!(first, second);
    assert_eq!(pointed(&cluster).await, second);
    let doctor = cluster.call(&["doctor", path, "-v"]).await;
    doctor.prints("new nodes start with the configurations of the repository");

    let rollback = cluster.call(&["rollback", "a", path]).await.exits(0);
    rollback.prints("new nodes start with");
    assert_eq!(pointed(&cluster).await, first);
    // A paused pool keeps its pointer.
    cluster.sync(&repository, &[]).await.exits(0);
    assert_eq!(pointed(&cluster).await, first);
    let history = cluster.call(&["history", "a", path, "-o", "json"]).await.exits(0).json();
    let revisions = history["revisions"].as_array().unwrap();
    let of_new_nodes: Vec<bool> = revisions.iter().map(|revision| revision["newNodes"] == json!(true)).collect();
    assert_eq!(of_new_nodes, [false, true], "{history}");
    let doctor = cluster.call(&["doctor", path]).await;
    doctor.prints("new nodes start with another configuration than the repository has in 1 pool (a)");

    cluster.call(&["resume", "a"]).await.exits(0);
    cluster.sync(&repository, &[]).await.exits(0);
    for number in 8..12 {
        repository.change("a", &format!("registryPullQPS: {number}"));
        cluster.sync(&repository, &[]).await.exits(0);
    }
    let newest = pointed(&cluster).await;
    // The content counts, which new nodes get, and not the annotation alone.
    let object = format!("/api/v1/namespaces/{}/configmaps/nodecfg-pool-test-a", cluster.namespace());
    for (named, stays) in [(&second, true), (&newest, false)] {
        cluster.patch(&object, json!({"data": {"configMap": named}})).await;
        cluster.call(&["prune", path, "--keep", "1", "--yes"]).await.exits(0);
        let left = cluster.config_maps().await;
        assert!(left.contains_key(&newest) && left.contains_key("nodecfg-pool-test-a"), "{:?}", left.keys());
        assert_eq!(left.contains_key(&second), stays, "{named}");
    }
    cluster.down().await;
}

/// The attack: new machines boot with static pods of another client, while the annotation names the repository's content.
async fn changed_pointer_is_reported_and_moved_back(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = published("registryPullQPS: 6");
    let path = repository.path().to_str().unwrap();
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.run("verify", &repository, &[]).await.exits(0);
    let written = pointer(&cluster).await.unwrap();
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                   staticPodURL: https://example.com/pods\n";
    let hash = ContentHash::of(kubelet.as_bytes());
    let data = json!({
        "configMap": format!("test-a-{}", hash.short()), "contentHash": hash.to_string(), "kubelet": kubelet,
    });
    let name = format!("{}/nodecfg-pool-test-a", cluster.namespace());
    let object = format!("/api/v1/namespaces/{}/configmaps/nodecfg-pool-test-a", cluster.namespace());
    let emptied = json!({"configMap": null, "contentHash": null, "kubelet": null});
    for forged in [json!({"data": data}), json!({"data": emptied}), json!({"data": {"more": "x"}})] {
        cluster.patch(&object, forged).await;
        let changed = format!("another client changed the pointer {name}");
        cluster.run("diff", &repository, &[]).await.exits(1).prints(&changed).prints("publishes the configuration");
        cluster.run("verify", &repository, &[]).await.exits(4).prints(&changed);
        cluster.call(&["history", "a", path]).await.exits(0).prints(&changed).does_not_print("new nodes start with it");
        cluster.call(&["doctor", path]).await.prints(&format!("pointer {name} was changed"));
        let sync = cluster.sync(&repository, &[]).await.exits(0);
        sync.prints(&changed).prints("new nodes start with test-a-");
        assert_eq!(pointer(&cluster).await.unwrap()["data"], written["data"]);
        cluster.run("verify", &repository, &[]).await.exits(0);
    }
    // A paused pool keeps its pointer, and the change is reported all the same.
    cluster.call(&["pause", "a", "--reason", "x"]).await.exits(0);
    cluster.patch(&object, json!({"data": data})).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("another client changed the pointer");
    assert_eq!(pointed(&cluster).await, data["configMap"]);
    cluster.run("verify", &repository, &[]).await.exits(4);
    cluster.call(&["resume", "a"]).await.exits(0);
    // An immutable pointer is named with its fix.
    cluster.patch(&object, json!({"immutable": true})).await;
    let sync = cluster.sync(&repository, &[]).await.exits(4);
    sync.prints(&format!("the pointer {name} must move and is immutable"))
        .prints("delete configmap nodecfg-pool-test-a");
    cluster.delete(&object).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("new nodes start with test-a-");
    assert_eq!(pointer(&cluster).await.unwrap()["data"], written["data"]);
    cluster.down().await;
}

async fn failed_canary_leaves_the_pointer(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = published("registryPullQPS: 6");
    cluster.sync(&repository, &[]).await.exits(0);
    let proven = pointer(&cluster).await.unwrap();
    cluster.fault("a-1", Some(Fault::ValidateError)).await;
    repository.change("a", "registryPullQPS: 7");
    cluster.sync(&repository, &[]).await.exits(5).does_not_print("new nodes start");
    assert_eq!(pointer(&cluster).await.unwrap(), proven);
    // prune keeps the configuration of the pointer, although the repository has left it.
    let path = repository.path().to_str().unwrap();
    let prune = cluster.call(&["prune", path, "--keep", "1", "--dry-run", "-v"]).await.exits(0);
    prune.prints("the pointer of its pool");
    cluster.down().await;
}

async fn pointer_of_another_client_is_not_overwritten(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = published("registryPullQPS: 6");
    // Without labels, the ConfigMap belongs to no fleet.
    cluster.create_config_map("nodecfg-pool-test-a", "maxPods: 5", false, None).await;
    let before = pointer(&cluster).await.unwrap();
    let run = cluster.sync(&repository, &[]).await.exits(4);
    run.prints("pointer not moved").prints("nodecfg-pool-test-a");
    assert_eq!(pointer(&cluster).await.unwrap(), before);
    cluster.down().await;
}

/// A compromised node can choose its configuration. A pointer that was deleted returns once the reconciler has assigned a
/// node again, which restarts nothing.
async fn nodes_that_assigned_themselves_move_no_pointer(start: ClusterSetup) {
    let nodes = ["a-1", "a-2", "a-3"];
    let cluster = start.pool("a", nodes.len()).up().await;
    let repository = published("registryPullQPS: 6");
    cluster.sync(&repository, &[]).await.exits(0);
    let path = |node: &str| format!("/apis/nodecfg.dev/v1alpha1/nodeconfigs/{node}");
    for node in nodes {
        cluster.patch(&path(node), json!({"spec": {"selfAssigned": true}})).await;
    }
    let pointers = format!("/api/v1/namespaces/{}/configmaps/nodecfg-pool-test-a", cluster.namespace());
    cluster.delete(&pointers).await;
    cluster.sync(&repository, &[]).await.exits(0).does_not_print("new nodes start");
    assert_eq!(pointer(&cluster).await, None);
    let running = cluster.running("a-1").await;
    cluster.delete(&path("a-1")).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("new nodes start with test-a-");
    assert_eq!(pointed(&cluster).await, assigned(&cluster).await);
    assert_eq!(cluster.running("a-1").await, running);
    assert_eq!(cluster.get(&path("a-1")).await["spec"].get("selfAssigned"), None, "the reconciler assigned it");
    assert_eq!(cluster.get(&path("a-2")).await["spec"]["selfAssigned"], json!(true), "it was not written");
    cluster.down().await;
}
