//! Campaign of an adversary who may write ConfigMaps in the namespace. Moves are random by seed. After every move, no
//! kubelet runs content that was not reviewed, and `verify` calls no node converged on other content.
//!
//! Other adversaries have their tests where they attack: one kubelet's credentials in `hostile_node.rs` and in
//! `crates/cluster/src/reading/salvage.rs`, an edited plan file in `plans.rs`, a pull request with only data files in
//! `tests/program/action` and `src/repository/tests.rs`, and a second reconciler with another clock in
//! `crates/cluster/src/lock/observation_tests.rs`.

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, KUBELET, Repository, Run, print_line, seeds, until};
use nodecfg_contract::ContentHash;

scenarios! {
    Agents {
        writer_of_config_maps_changes_no_node,
        earlier_assignments_get_their_hash_without_restart,
    }
}

fn code(run: &Run) -> i32 {
    run.code.unwrap_or_else(|| panic!("ended by a signal: {run}"))
}

/// Values of `maxPods` that a review has seen.
const REVIEWED: [u64; 4] = [110, 120, 130, 140];
const EVIL: &str = "maxPods: 666\nstaticPodPath: /evil\n";

/// Asserts that each kubelet runs reviewed content.
async fn assert_reviewed(cluster: &Cluster, nodes: &[&str], moves: &[String]) {
    for node in nodes {
        let running = cluster.running(node).await;
        let pods = running["maxPods"].as_u64().unwrap_or_else(|| panic!("{node} answers: {running}"));
        let reviewed = REVIEWED.contains(&pods) && running["staticPodPath"].is_null();
        assert!(reviewed, "{node} runs {running}\nafter {moves:#?}");
    }
}

/// Moves of a client that may write ConfigMaps in the namespace.
struct ConfigMapWriter<'a> {
    cluster: &'a Cluster,
    random: fastrand::Rng,
}

impl ConfigMapWriter<'_> {
    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.cluster.namespace())
    }

    /// Makes a random move on the ConfigMap of this name, which may be missing, and returns its description.
    async fn act(&mut self, name: &str) -> String {
        let path = format!("{}/{name}", self.path());
        let before = self.cluster.get(&path).await;
        let evil = format!("{KUBELET}{EVIL}");
        let mut metadata = json!({"name": name, "namespace": self.cluster.namespace()});
        let described = match self.random.u8(..3) {
            0 => "without labels",
            1 => {
                metadata["labels"] = before["metadata"]["labels"].clone();
                metadata["annotations"] = before["metadata"]["annotations"].clone();
                "with the labels and annotations of the original"
            }
            _ => {
                metadata["labels"] = json!({
                    "app.kubernetes.io/managed-by": "nodecfg", "nodecfg.dev/fleet": "test", "nodecfg.dev/pool": "a",
                });
                let hash = ContentHash::of(evil.as_bytes()).to_string();
                metadata["annotations"] = json!({"nodecfg.dev/content-hash": hash});
                "with the labels of the fleet and its own hash"
            }
        };
        let data = match self.random.u8(..4) {
            0 => json!({"kubelet": evil, "more": ""}),
            1 => json!({"other-key": evil}),
            2 => json!({}),
            _ => json!({"kubelet": evil}),
        };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data,
            "immutable": self.random.bool(),
        });
        match self.random.u8(..6) {
            0 if !before.is_null() => {
                self.cluster.delete(&path).await;
                format!("deletes {name}")
            }
            1 if !before.is_null() => {
                let labels = json!({"app.kubernetes.io/managed-by": null, "nodecfg.dev/fleet": "other"});
                self.cluster.patch(&path, json!({"metadata": {"labels": labels}})).await;
                format!("changes the labels of {name}")
            }
            2 if before["immutable"] == json!(false) => {
                self.cluster.patch(&path, json!({"data": object["data"]})).await;
                format!("edits {name}: {}", object["data"])
            }
            _ => {
                if !before.is_null() {
                    self.cluster.delete(&path).await;
                }
                self.cluster.create(&self.path(), object.clone()).await;
                format!("creates {name} {described}: {}", object["data"])
            }
        }
    }
}

/// Name of the ConfigMap that the repository needs for its pool.
async fn wanted_name(cluster: &Cluster, repository: &Repository) -> Option<String> {
    let diff = cluster.run("diff", repository, &["-o", "json"]).await;
    let document: Value = serde_json::from_str(&diff.out).ok()?;
    document["pools"][0]["configMap"]["after"].as_str().map(str::to_owned)
}

async fn writer_of_config_maps_changes_no_node(start: ClusterSetup) {
    let nodes = ["a-1", "a-2"];
    let cluster = start.pool("a", nodes.len()).up().await;
    let (mut moves, mut refused) = (Vec::new(), 0);
    for seed in seeds(3) {
        let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%, convergenceTimeout: 5s}");
        // Each seed starts from a converged cluster without the maps of the last one.
        for name in cluster.config_maps().await.into_keys() {
            cluster.delete(&format!("/api/v1/namespaces/{}/configmaps/{name}", cluster.namespace())).await;
        }
        for node in nodes {
            if !cluster.assignment_object(node).await.is_null() {
                let spec = json!({"configSource": null, "contentHash": null, "maxDisruption": "replace"});
                cluster.patch(&format!("/apis/nodecfg.dev/v1alpha1/nodeconfigs/{node}"), json!({"spec": spec})).await;
                cluster.until_node(node, "is reset", |state| state.active.is_none()).await;
            }
        }
        cluster.sync(&repository, &[]).await.exits(0);
        let mut writer = ConfigMapWriter { cluster: &cluster, random: fastrand::Rng::with_seed(seed) };
        for round in 0..6 {
            if writer.random.bool() {
                repository.change("a", &format!("maxPods: {}", REVIEWED[writer.random.usize(..REVIEWED.len())]));
            }
            let present = cluster.source(nodes[0]).await;
            let next = wanted_name(&cluster, &repository).await;
            let targets: Vec<String> = present.into_iter().chain(next).collect();
            let target = targets[writer.random.usize(..targets.len())].clone();
            moves.push(format!("seed {seed} round {round}: {}", writer.act(&target).await));
            let run = cluster.sync(&repository, &[]).await;
            assert!([0, 4, 5].contains(&code(&run)), "{run}\nafter {moves:#?}");
            refused += u32::from(code(&run) != 0);
            assert_reviewed(&cluster, &nodes, &moves).await;
            if code(&cluster.run("verify", &repository, &[]).await) == 0 {
                let wanted = cluster.config_maps().await;
                for node in nodes {
                    let object = cluster.assignment_object(node).await;
                    let (spec, status) = (&object["spec"]["contentHash"], &object["status"]["contentHash"]);
                    assert_eq!(spec, status, "{node} is called converged\nafter {moves:#?}");
                    assert!(wanted.contains_key(object["spec"]["configSource"]["configMap"]["name"].as_str().unwrap()));
                }
            }
        }
    }
    // Agents read their ConfigMap again within the (simulated) hour.
    let name = cluster.source(nodes[0]).await.expect("assigned");
    let path = format!("/api/v1/namespaces/{}/configmaps", cluster.namespace());
    if !cluster.get(&format!("{path}/{name}")).await.is_null() {
        cluster.delete(&format!("{path}/{name}")).await;
    }
    cluster.create_config_map(&name, &format!("{KUBELET}{EVIL}"), true, Some(("test", "a"))).await;
    until("the agents refuse the content", async || {
        let states = cluster.states().await;
        states
            .values()
            .all(|state| state.error.as_ref().is_some_and(|error| error.contains("does not match spec.contentHash")))
    })
    .await;
    assert_reviewed(&cluster, &nodes, &moves).await;
    assert!(refused > 0, "no move had an effect: {moves:#?}");
    print_line(&format!("{} moves of a writer of ConfigMaps, {refused} syncs that stopped", moves.len()));
    cluster.down().await;
}

/// Assignments of a reconciler before `spec.contentHash`.
async fn earlier_assignments_get_their_hash_without_restart(start: ClusterSetup) {
    let nodes = ["a-1", "a-2", "a-3"];
    let cluster = start.pool("a", nodes.len()).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}");
    cluster.sync(&repository, &[]).await.exits(0);
    let hash = cluster.assignment_object("a-1").await["spec"]["contentHash"].clone();
    assert!(hash.is_string());
    for node in nodes {
        let earlier = json!({"spec": {"contentHash": null, "maxDisruption": null}});
        cluster.patch(&format!("/apis/nodecfg.dev/v1alpha1/nodeconfigs/{node}"), earlier).await;
    }
    // When the agent last changed what runs.
    let activated = async |node: &str| {
        let object = cluster.assignment_object(node).await;
        let conditions = object["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|condition| condition["type"] == "Active").unwrap()["lastTransitionTime"].clone()
    };
    let mut before = Vec::new();
    for node in nodes {
        before.push(activated(node).await);
    }
    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("3 NodeConfigs to complete, without restarts").prints("3 nodes up to date");
    let run = cluster.sync(&repository, &[]).await.exits(0);
    run.prints("contentHash added to 3 NodeConfigs, without restarts").prints("3 already up to date");
    for (node, before) in nodes.into_iter().zip(before) {
        let spec = cluster.assignment_object(node).await["spec"].clone();
        assert_eq!((&spec["contentHash"], &spec["maxDisruption"]), (&hash, &json!("restart")), "{node}");
        assert_eq!(activated(node).await, before, "{node} was restarted");
    }
    cluster.sync(&repository, &[]).await.exits(0).prints("No changes:");
    cluster.down().await;
}
