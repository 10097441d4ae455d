//! Scenarios of nodes with an own configuration, as kubeadm makes them: overlays change the fields that they name.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, KUBELET, Repository, until};
use nodecfg_sandbox::kubelets::Fault;

scenarios! {
    SandboxAgents {
        file_overlay_changes_the_field_that_it_names,
        drop_in_overlay_changes_the_field_that_it_names,
        field_that_leaves_a_file_overlay_returns_to_the_own_value,
        field_that_leaves_a_drop_in_overlay_returns_to_the_own_value,
        replace_without_cluster_dns_is_refused,
        rewritten_file_is_merged_again,
        rewritten_file_stays_below_a_drop_in,
        node_config_without_placement_of_a_file_gets_it_without_a_restart,
        node_config_without_placement_of_a_drop_in_gets_it_without_a_restart,
        bad_own_file_fails_its_node_alone_with_files,
        bad_own_file_fails_its_node_alone_with_drop_ins,
    }
    Kubelets {
        nodes_refuse_a_replace_without_cluster_dns,
    }
}

/// File of the kubelet's `--config`.
const CONFIG: &str = "/var/lib/kubelet/config.yaml";
/// All nodes at once.
const AT_ONCE: &str = "{maxUnavailable: 100%}";

/// Top-level fields in which two answers of kubelets differ.
fn changed<'v>(before: &'v Value, after: &'v Value) -> Vec<&'v str> {
    let [before, after] = [before, after].map(|answer| answer.as_object().expect("an answer"));
    let mut fields: Vec<&str> = before.keys().chain(after.keys()).map(String::as_str).collect();
    fields.sort_unstable();
    fields.dedup();
    fields.retain(|field| before.get(*field) != after.get(*field));
    fields
}

/// Placements of a NodeConfig: in its spec and in its status.
async fn placements(cluster: &Cluster, node: &str) -> [Value; 2] {
    let object = cluster.assignment_object(node).await;
    ["spec", "status"].map(|part| object[part]["placement"].clone())
}

async fn file_overlay_changes_the_field_that_it_names(start: ClusterSetup) {
    adoption(start.kubeadm()).await;
}

async fn drop_in_overlay_changes_the_field_that_it_names(start: ClusterSetup) {
    adoption(start.kubeadm().drop_ins()).await;
}

async fn adoption(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let before = cluster.running("a-1").await;
    let repository = Repository::of_pool("maxPods: 150", AT_ONCE);
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("~ maxPods: 110 → 150").does_not_print("clusterDNS").does_not_print("staticPodPath");
    cluster.sync(&repository, &[]).await.exits(0).prints("3 nodes: 3 converged");
    for node in ["a-1", "a-2", "a-3"] {
        let after = cluster.running(node).await;
        assert_eq!((changed(&before, &after), &after["maxPods"]), (vec!["maxPods"], &json!(150)), "{node}");
        assert_eq!(cluster.kubelet_restarts(node), 1, "{node}");
        assert_eq!(placements(&cluster, node).await, ["overlay", "overlay"], "{node}");
    }
    cluster.sync(&repository, &[]).await.exits(0).prints("3 nodes up to date");
    let shown = cluster.command(&["effective", "--node", "a-1", "--changed", "-o", "json"]).await.exits(0).json();
    let values = &shown["values"];
    assert!(values["maxPods"]["by"].as_str().is_some_and(|by| by.starts_with("ConfigMap ")), "{shown}");
    assert_eq!(values["clusterDomain"], json!({"value": "cluster.local", "by": "node"}));
    assert_eq!(values.get("registryPullQPS"), None, "a default");
    cluster.command(&["effective", "--node", "a-9"]).await.exits(2).prints("did you mean a-");
    cluster.down().await;
}

async fn field_that_leaves_a_file_overlay_returns_to_the_own_value(start: ClusterSetup) {
    leaving_field(start.kubeadm()).await;
}

async fn field_that_leaves_a_drop_in_overlay_returns_to_the_own_value(start: ClusterSetup) {
    leaving_field(start.kubeadm().drop_ins()).await;
}

async fn leaving_field(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let before = cluster.running("a-1").await;
    let repository = Repository::of_pool("maxPods: 150\nclusterDomain: example.org", AT_ONCE);
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    assert_eq!(changed(&before, &cluster.running("a-1").await), ["clusterDomain", "maxPods"]);
    repository.change("a", "maxPods: 150");
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("clusterDomain: example.org → cluster.local").does_not_print("maxPods");
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    assert_eq!(changed(&before, &cluster.running("a-1").await), ["maxPods"]);
    cluster.down().await;
}

/// A repository whose pool replaces the whole configuration.
fn replacing(fields: &str) -> Repository {
    let repository = Repository::of_pool(fields, AT_ONCE);
    repository.pool_spec("a", "{kubelet: {placement: replace}}");
    repository.commit();
    repository
}

/// Fields of kubeadm whose loss needs more than a restart.
const KEPT: &str = "cgroupDriver: systemd\nstaticPodPath: /etc/kubernetes/manifests";

async fn replace_without_cluster_dns_is_refused(start: ClusterSetup) {
    refused_replace(start.kubeadm()).await;
}

async fn nodes_refuse_a_replace_without_cluster_dns(start: ClusterSetup) {
    refused_replace(start.kubeadm()).await;
}

async fn refused_replace(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let before = cluster.running("a-1").await;
    let repository = replacing(&format!("maxPods: 150\n{KEPT}"));
    let refused = cluster.sync(&repository, &[]).await.exits(3);
    refused.prints("clusterDNS").prints("acceptRemoved");
    assert_eq!(cluster.states().await.values().filter(|state| state.source.is_some()).count(), 0);
    assert_eq!(changed(&before, &cluster.running("a-1").await), [""; 0]);
    cluster.down().await;
}

async fn rewritten_file_is_merged_again(start: ClusterSetup) {
    let merged = rewritten(start.kubeadm()).await;
    assert_eq!(merged, 3, "by the agent, by the other program, and by the agent again");
}

async fn rewritten_file_stays_below_a_drop_in(start: ClusterSetup) {
    let merged = rewritten(start.kubeadm().drop_ins()).await;
    assert_eq!(merged, 2, "by the agent, and by the other program");
}

/// Returns the number of restarts of a kubelet whose file another program has written again.
async fn rewritten(start: ClusterSetup) -> u64 {
    let cluster = start.pool("a", 2).fault("a-1", Fault::RewrittenFile).up().await;
    let before = cluster.running("a-1").await;
    let repository = Repository::of_pool("maxPods: 150", AT_ONCE);
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    until("the kubelet runs the new own file with the overlay", async || {
        let now = cluster.running("a-1").await;
        now.is_object() && changed(&before, &now) == ["containerLogMaxFiles", "maxPods"]
    })
    .await;
    assert_eq!(changed(&before, &cluster.running("a-2").await), ["maxPods"]);
    cluster.run("verify", &repository, &[]).await.exits(0);
    let restarts = cluster.kubelet_restarts("a-1");
    cluster.down().await;
    restarts
}

async fn node_config_without_placement_of_a_file_gets_it_without_a_restart(start: ClusterSetup) {
    upgrade(start, replacing("maxPods: 150"), "replace").await;
}

async fn node_config_without_placement_of_a_drop_in_gets_it_without_a_restart(start: ClusterSetup) {
    upgrade(start.drop_ins(), Repository::of_pool("maxPods: 150", AT_ONCE), "overlay").await;
}

/// Before placements, agents with files replaced, and agents with drop-ins merged.
async fn upgrade(start: ClusterSetup, repository: Repository, placement: &str) {
    let cluster = start.pool("a", 2).up().await;
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    for node in ["a-1", "a-2"] {
        let path = format!("/apis/nodecfg.dev/v1alpha1/nodeconfigs/{node}");
        cluster.patch(&path, json!({"spec": {"placement": null}})).await;
        assert_eq!(placements(&cluster, node).await[0], Value::Null);
    }
    cluster.sync(&repository, &[]).await.exits(0).prints("2 NodeConfigs to complete, without restarts");
    for node in ["a-1", "a-2"] {
        assert_eq!(placements(&cluster, node).await, [placement, placement]);
        assert_eq!(cluster.kubelet_restarts(node), 1, "{node}");
    }
    cluster.down().await;
}

async fn bad_own_file_fails_its_node_alone_with_files(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 4).up().await;
    cluster.disk("a-3").put_link(Path::new(CONFIG));
    bad_own_files(cluster, &["a-1", "a-2", "a-3"]).await;
}

async fn bad_own_file_fails_its_node_alone_with_drop_ins(start: ClusterSetup) {
    let cluster = start.kubeadm().drop_ins().pool("a", 4).up().await;
    bad_own_files(cluster, &["a-1", "a-2"]).await;
}

/// Spoils the own files of the first two nodes.
async fn bad_own_files(cluster: Cluster, bad: &[&str]) {
    let before = cluster.running("a-4").await;
    cluster.disk("a-1").put(Path::new(CONFIG), format!("{KUBELET}maxPods: [").as_bytes(), 0o644);
    cluster.disk("a-2").put(Path::new(CONFIG), &vec![b'#'; 10 << 20], 0o644);
    let repository = Repository::of_pool("maxPods: 150", "{maxUnavailable: 100%, maxFailures: 3}");
    let run = cluster.sync(&repository, &[]).await.exits(5);
    for node in ["a-1", "a-2", "a-3", "a-4"] {
        let now = cluster.running(node).await;
        let error = cluster.state(node).await.error;
        if bad.contains(&node) {
            assert!(error.is_some_and(|error| error.starts_with("failed to ")), "{node}\n{run}");
            assert_eq!(changed(&before, &now), [""; 0], "{node}");
            assert_eq!(cluster.kubelet_restarts(node), 0, "{node}");
        } else {
            assert_eq!((error, changed(&before, &now)), (None, vec!["maxPods"]), "{node}\n{run}");
        }
    }
    cluster.down().await;
}
