//! Scenarios of nodes that join during a rollout: booted with their pool's configuration, or kept free of pods by the
//! startup taint until their agent has put it in place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::harness::{Cluster, ClusterSetup, Repository, until};
use nodecfg_contract::pool_pointer::STARTUP_TAINT;
use nodecfg_sandbox::kubelets::{BootedConfig, Fault};

scenarios! {
    SandboxAgents {
        nodes_that_join_during_a_rollout_run_only_proven_configurations,
    }
}

/// Number of nodes that join each pool.
const JOIN: usize = 250;
/// Number of nodes that join at once.
const BATCH: usize = 25;

/// A repository with pools `a` and `b`, one canary each, that publishes both.
fn repository() -> Repository {
    let repository = Repository::empty();
    repository.write(
        "nodecfg.yaml",
        "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: test}\nspec:\n  poolPointers: true\n  \
         rollout: {maxUnavailable: 5%, canary: {nodes: 1}}\n",
    );
    for pool in ["a", "b"] {
        repository.pool(pool, "registryPullQPS: 6");
    }
    repository.commit();
    repository
}

/// Name of the ConfigMap that the pointer of a pool names, and the content.
async fn pointer(cluster: &Cluster, pool: &str) -> (String, String) {
    let data = cluster.config_maps().await[&format!("nodecfg-pool-test-{pool}")]["data"].clone();
    let text = |key: &str| data[key].as_str().unwrap().to_owned();
    (text("configMap"), text("kubelet"))
}

/// Reports whether a node that joins with this number boots with its configuration. The others have the startup taint.
fn is_booted(number: usize) -> bool {
    number.is_multiple_of(2)
}

fn is_tainted(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.into_iter().any(|taint| taint["key"] == STARTUP_TAINT)
}

/// Joins nodes to both pools, one half of each booted with the present pointer, the other half with the startup taint.
async fn join(cluster: &Cluster, numbers: std::ops::Range<usize>) {
    for pool in ["a", "b"] {
        let (config_map, kubelet) = pointer(cluster, pool).await;
        let nodes = numbers.clone().map(|number| {
            let booted = is_booted(number).then(|| BootedConfig {
                pool: pool.to_owned(),
                config_map: config_map.clone(),
                namespace: cluster.namespace().to_owned(),
                kubelet: kubelet.clone(),
            });
            (format!("{pool}-new-{number:03}"), pool, booted)
        });
        cluster.join(nodes.collect()).await;
    }
}

/// Configurations that each node has run, in order, without repetitions. `local` stands for the local configuration.
type Runs = BTreeMap<String, Vec<String>>;

async fn nodes_that_join_during_a_rollout_run_only_proven_configurations(start: ClusterSetup) {
    let repository = repository();
    let cluster = start.pool("a", 40).pool("b", 10).joining("test").large().up().await;
    cluster.sync(&repository, &[]).await.exits(0);
    let first: BTreeMap<&str, String> =
        [("a", pointer(&cluster, "a").await.0), ("b", pointer(&cluster, "b").await.0)].into();

    // The canary of pool b fails; pool a is rolled out a few nodes at a time.
    cluster.fault("b-1", Some(Fault::ValidateError)).await;
    repository.pool("a", "registryPullQPS: 7");
    let bad = repository.change("b", "registryPullQPS: 7");
    let history = cluster.history().await;
    let mut sync = cluster.start_run("sync", &repository, &[]);
    // Nodes that join later are in no plan of this run.
    cluster.until_node("a-1", "assigned", |state| state.source.as_ref() != Some(&first["a"])).await;
    let mut joined = 0;
    while joined < JOIN {
        join(&cluster, joined..joined + BATCH).await;
        joined += BATCH;
        assert_untainted_nodes_are_configured(&cluster).await;
    }
    let ended_early = sync.has_ended();
    sync.end().await.exits(5);
    assert!(!ended_early, "all nodes join during the rollout");
    until("all new nodes have joined", async || {
        let states = cluster.states().await;
        states.iter().filter(|(name, state)| name.contains("-new-") && state.converged()).count() == 2 * JOIN
    })
    .await;
    until("no node has the startup taint", async || !cluster.nodes().await.iter().any(is_tainted)).await;
    assert_untainted_nodes_are_configured(&cluster).await;
    let second = pointer(&cluster, "a").await.0;
    assert_ne!(second, first["a"]);
    assert_eq!(pointer(&cluster, "b").await.0, first["b"]);

    let recorded = history.end().await;
    let mut runs: Runs = BTreeMap::new();
    for change in &recorded.state_changes {
        let Some(state) = change.state.as_ref().filter(|_| change.node.contains("-new-")) else { continue };
        let runs = runs.entry(change.node.clone()).or_default();
        let active = state.active.clone().unwrap_or_else(|| "local".to_owned());
        if runs.last() != Some(&active) {
            runs.push(active);
        }
    }
    assert_eq!(runs.len(), 2 * JOIN);
    for (node, runs) in &runs {
        let number: usize = node.rsplit_once('-').unwrap().1.parse().unwrap();
        let mut runs: Vec<&str> = runs.iter().map(String::as_str).collect();
        // Until its first report, the state of every node is unknown.
        runs.retain(|run| *run != "local");
        let proven: BTreeSet<&str> =
            if node.starts_with('a') { [first["a"].as_str(), &second].into() } else { [first["b"].as_str()].into() };
        assert_eq!(runs.len(), 1, "node {node} changed during the rollout: {runs:?}");
        assert!(proven.contains(runs[0]), "node {node} runs {runs:?}");
        // A node with the startup taint starts with its local configuration.
        let expected = u64::from(!is_booted(number));
        assert_eq!(cluster.kubelet_restarts(node), expected, "restarts of the kubelet of {node}");
    }

    // The commit is corrected. Only nodes of pool a on the old configuration change.
    cluster.fault("b-1", None).await;
    repository.change("b", "registryPullQPS: 6");
    let before = cluster.states().await;
    let restarts: BTreeMap<&String, u64> = runs.keys().map(|node| (node, cluster.kubelet_restarts(node))).collect();
    let history = cluster.history().await;
    cluster.sync(&repository, &[]).await.exits(0);
    let assigned = history.end().await.assigned();
    let outdated: BTreeSet<String> = before
        .iter()
        .filter(|(name, state)| name.starts_with('a') && state.active.as_ref() != Some(&second))
        .map(|(name, _)| name.clone())
        .collect();
    let changed: BTreeSet<String> = assigned.iter().filter(|node| node.contains("-new-")).cloned().collect();
    let outdated: BTreeSet<String> = outdated.into_iter().filter(|node| node.contains("-new-")).collect();
    assert_eq!(changed, outdated, "{bad}");
    for (node, before) in restarts {
        let more = u64::from(outdated.contains(node));
        assert_eq!(cluster.kubelet_restarts(node), before + more, "restarts of the kubelet of {node}");
    }
    cluster.run("verify", &repository, &["--new-nodes-within", "0"]).await.exits(0);
    cluster.down().await;
}

/// A Node without the taint takes pods, so it must run a configuration of its pool. Lists the Nodes first: a node that
/// had no taint then runs its configuration now.
async fn assert_untainted_nodes_are_configured(cluster: &Cluster) {
    let untainted: Vec<String> = cluster
        .nodes()
        .await
        .iter()
        .filter(|node| !is_tainted(node))
        .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
        .filter(|name| name.contains("-new-") && name.ends_with(['1', '3', '5', '7', '9']))
        .collect();
    let states = cluster.states().await;
    for node in untainted {
        assert_eq!(cluster.kubelet_restarts(&node), 1, "{node} has started with its local configuration");
        assert!(states[&node].active.is_some(), "{node} takes pods on its local configuration: {:?}", states[&node]);
    }
}
