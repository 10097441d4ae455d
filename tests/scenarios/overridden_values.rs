//! Scenarios of nodes whose kubelets run other values than the reviewed ones, because a flag or a later file sets them.

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository, print_line, until};
use nodecfg_contract::nodeconfig::{CONFIG_READY, READY};
use nodecfg_sandbox::kubelets::Fault;

scenarios! {
    SandboxAgents {
        flag_over_a_file_fails_its_node_and_is_named,
        flag_over_a_drop_in_fails_its_node_and_is_named,
        later_drop_in_over_a_file_fails_its_node_and_is_named,
        later_drop_in_over_a_drop_in_fails_its_node_and_is_named,
        value_that_is_not_reviewed_is_no_failure,
        override_on_a_node_that_had_converged_is_a_failure_of_the_next_sync,
        kubelets_that_are_asked_agree_with_their_agents,
        file_that_the_kubelet_has_not_read_is_unproven_under_a_file,
        file_that_the_kubelet_has_not_read_is_unproven_under_a_drop_in,
    }
    Kubelets {
        kubelets_are_asked_where_no_agent_compares,
    }
}

/// All nodes at once. One failure is tolerated, so that the others converge.
const AT_ONCE: &str = "{maxUnavailable: 100%, maxFailures: 1}";
const NODES: [&str; 3] = ["a-1", "a-2", "a-3"];

async fn flag_over_a_file_fails_its_node_and_is_named(start: ClusterSetup) {
    overridden(start, "flag:maxPods=120", "by the flag --max-pods").await;
}

async fn flag_over_a_drop_in_fails_its_node_and_is_named(start: ClusterSetup) {
    overridden(start.drop_ins(), "flag:maxPods=120", "by the flag --max-pods").await;
}

const LATER: &str = "by the file /etc/kubernetes/kubelet.conf.d/95-other.conf";

async fn later_drop_in_over_a_file_fails_its_node_and_is_named(start: ClusterSetup) {
    overridden(start, "later-drop-in:maxPods=120", LATER).await;
}

async fn later_drop_in_over_a_drop_in_fails_its_node_and_is_named(start: ClusterSetup) {
    overridden(start.drop_ins(), "later-drop-in:maxPods=120", LATER).await;
}

/// A condition of a NodeConfig or a Node: its status and its reason.
fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{} {}", text("status"), text("reason")))
}

/// Prints a note and passes without kubectl on the PATH.
async fn kubectl_waits_for_nodes_that_run_the_reviewed_values(cluster: &Cluster) {
    let kubeconfig = cluster.kubeconfig();
    let waits = [("nodeconfig/a-1", READY, true), ("nodeconfig/a-2", READY, false)];
    for (object, kind, ready) in
        waits.into_iter().chain([("node/a-1", CONFIG_READY, true), ("node/a-2", CONFIG_READY, false)])
    {
        let mut kubectl = tokio::process::Command::new("kubectl");
        let kind = format!("--for=condition={kind}");
        let wait = ["wait", kind.as_str(), "--timeout=2s", object];
        let Ok(run) = kubectl.args(wait).env("KUBECONFIG", &kubeconfig).env("HOME", cluster.home()).output().await
        else {
            return print_line("skipped: no kubectl on the PATH");
        };
        assert_eq!(run.status.success(), ready, "{object}: {run:?}");
    }
}

async fn overridden(start: ClusterSetup, fault: &str, cause: &str) {
    let cluster = start.kubeadm().pool("a", 3).fault("a-2", fault.parse().expect("a fault")).up().await;
    let repository = Repository::of_pool("maxPods: 150", AT_ONCE);
    let text = format!("maxPods is 120 {cause}, reviewed is 150");
    let sync = cluster.sync(&repository, &["--rollback-on-failure"]).await.exits(5);
    sync.prints(", 1 failed.").prints(&format!("failed: a-2: {text}"));
    // The configuration is not the cause, so the node keeps it.
    for node in NODES {
        assert_eq!(cluster.kubelet_restarts(node), 1, "{node}");
        assert_eq!(cluster.state(node).await.error, None, "{node}");
        let expected = match node {
            "a-2" => [
                ("Effective", "False Overridden"),
                ("Ready", "False Overridden"),
                ("Reconciling", "False Stalled"),
                ("Stalled", "True Overridden"),
            ],
            _ => [
                ("Effective", "True Effective"),
                ("Ready", "True Converged"),
                ("Reconciling", "False Converged"),
                ("Stalled", "False Converged"),
            ],
        };
        let object = cluster.assignment_object(node).await;
        for (kind, value) in expected {
            assert_eq!(condition(&object, kind).as_deref(), Some(value), "{node}: {kind}");
        }
        // The Node shows the same, beside what its kubelet shows.
        let shown = async |kind: &str| condition(&cluster.get(&format!("/api/v1/nodes/{node}")).await, kind);
        let ready = condition(&object, READY);
        until("the Node shows it", async || shown(CONFIG_READY).await == ready).await;
        assert_eq!(shown(READY).await.as_deref(), Some("True KubeletReady"), "{node}");
    }
    kubectl_waits_for_nodes_that_run_the_reviewed_values(&cluster).await;
    let reported = cluster.assignment_object("a-2").await["status"]["effective"].clone();
    assert_eq!(reported["source"], "computed");
    let value = &reported["overridden"][0];
    assert_eq!([&value["field"], &value["reviewed"], &value["running"]], ["maxPods", "150", "120"]);

    // Each command has the same judge.
    cluster.run("verify", &repository, &["--timeout", "1s"]).await.exits(5).prints(&text);
    cluster.run("status", &repository, &[]).await.prints("1 failed").prints(&text);
    let status = cluster.run("status", &repository, &["-o", "json"]).await.json();
    let pool = &status["pools"][0];
    assert_eq!([&pool["converged"], &pool["proven"]], [&json!(2), &json!(2)], "{status}");
    cluster.sync(&repository, &[]).await.exits(5).prints(&text);
    assert_eq!(NODES.map(|node| cluster.kubelet_restarts(node)), [1, 1, 1], "no further restart");

    repository.pool_spec("a", &format!("{{rollout: {AT_ONCE}, kubelet: {{acceptOverridden: [maxPods]}}}}"));
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).prints("3 nodes up to date");
    cluster.run("verify", &repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn value_that_is_not_reviewed_is_no_failure(start: ClusterSetup) {
    let flag: Fault = "flag:registryPullQPS=7".parse().expect("a fault");
    let cluster = start.kubeadm().pool("a", 2).fault("a-1", flag).up().await;
    let repository = Repository::of_pool("maxPods: 150", AT_ONCE);
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    assert_eq!(cluster.running("a-1").await["registryPullQPS"], 7);
    let hash = async |node: &str| cluster.assignment_object(node).await["status"]["effective"]["hash"].clone();
    let hashes: [Value; 2] = [hash("a-1").await, hash("a-2").await];
    assert!(hashes[0].is_string() && hashes[0] != hashes[1], "they run different values: {hashes:?}");

    // The next change would name it, and the plan says so before.
    repository.change("a", "maxPods: 150\nregistryPullQPS: 9");
    let announced = "registryPullQPS: 9 has no effect on node a-1: the flag --registry-qps sets 7";
    cluster.run("diff", &repository, &[]).await.exits(1).prints(announced);
    let failed = "registryPullQPS is 7 by the flag --registry-qps, reviewed is 9";
    cluster.sync(&repository, &[]).await.exits(5).prints(announced).prints(failed);
    cluster.down().await;
}

async fn override_on_a_node_that_had_converged_is_a_failure_of_the_next_sync(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 150", AT_ONCE);
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    cluster.fault("a-1", Some("flag:maxPods=120".parse().expect("a fault"))).await;
    repository.change("a", "maxPods: 150\ncontainerLogMaxFiles: 7");
    let text = "maxPods is 120 by the flag --max-pods, reviewed is 150";
    cluster.sync(&repository, &[]).await.exits(5).prints("1 failed").prints(text);
    // Without the flag, the node proves itself with the next start of its kubelet.
    cluster.fault("a-1", None).await;
    repository.change("a", "maxPods: 150\ncontainerLogMaxFiles: 8");
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    until("the node proves itself", async || {
        condition(&cluster.assignment_object("a-1").await, "Effective").as_deref() == Some("True Effective")
    })
    .await;
    cluster.down().await;
}

async fn file_that_the_kubelet_has_not_read_is_unproven_under_a_file(start: ClusterSetup) {
    not_restarted(start).await;
}

async fn file_that_the_kubelet_has_not_read_is_unproven_under_a_drop_in(start: ClusterSetup) {
    not_restarted(start.drop_ins()).await;
}

async fn not_restarted(start: ClusterSetup) {
    // Under a file, the kubelet has a folder of drop-ins already.
    let own = "later-drop-in:registryPullQPS=7".parse().expect("a fault");
    let cluster = start.kubeadm().pool("a", 2).fault("a-1", own).up().await;
    let repository = Repository::of_pool("maxPods: 150", AT_ONCE);
    cluster.sync(&repository, &[]).await.exits(0).prints("2 nodes: 2 converged");
    cluster.fault("a-1", Some("later-drop-in:maxPods=120".parse().expect("a fault"))).await;
    let reason = "Unknown NotRestarted";
    until("the agent sees the file", async || {
        condition(&cluster.assignment_object("a-1").await, "Effective").as_deref() == Some(reason)
    })
    .await;
    assert_eq!(cluster.running("a-1").await["maxPods"], 150);
    let unproven = "1 node may run other values than the reviewed ones, a-1: a file of the kubelet has changed since";
    cluster.run("status", &repository, &[]).await.prints("unproven: a").prints(unproven);
    cluster.run("verify", &repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn kubelets_that_are_asked_agree_with_their_agents(start: ClusterSetup) {
    let cluster = start.kubeadm().pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 150", AT_ONCE);
    cluster.sync(&repository, &["--ask-kubelets", "all"]).await.exits(0).prints("2 nodes: 2 converged");
    cluster.run("verify", &repository, &["--ask-kubelets", "all"]).await.exits(0);
    cluster.down().await;
}

/// Kubelets up to 1.23 report nothing about their flags.
async fn kubelets_are_asked_where_no_agent_compares(start: ClusterSetup) {
    let flag: Fault = "flag:maxPods=120".parse().expect("a fault");
    let cluster = start.pool("a", 3).fault("a-2", flag).up().await;
    let repository = Repository::of_pool("maxPods: 150", AT_ONCE);
    cluster.sync(&repository, &["--ask-kubelets", "none"]).await.exits(0).prints("3 nodes: 3 converged");
    let text = "failed: a-2: maxPods is 120, reviewed is 150";
    for which in ["sample", "all"] {
        cluster.run("verify", &repository, &["--ask-kubelets", which]).await.exits(5).prints(text);
    }
    cluster.sync(&repository, &[]).await.exits(5).prints(text);
    cluster.run("verify", &repository, &["--ask-kubelets", "none"]).await.exits(0);
    repository.pool_spec("a", &format!("{{rollout: {AT_ONCE}, kubelet: {{acceptOverridden: [maxPods]}}}}"));
    repository.commit();
    cluster.run("verify", &repository, &[]).await.exits(0);
    cluster.down().await;
}
