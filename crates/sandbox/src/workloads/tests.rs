//! Tests of workloads against the API server.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::{Api, ApiOptions, ServerProfile};
use crate::nodes::{self, node_object};
use kube::core::Request;
use kube::core::params::{ListParams, Patch, PatchParams, PostParams};
use nodecfg_contract::names::NodeName;

/// Speed of the simulation.
const SPEED: f64 = 200.0;
/// Simulated time in which pods move.
const WHILE: Duration = Duration::from_secs(60);

/// A cluster with workloads.
struct Cluster {
    api: Api,
    workloads: Workloads,
}

fn api(nodes: usize) -> Api {
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    for spec in nodes::generic(nodes, &[], "v1.36.2").unwrap() {
        api.create("", "nodes", "", node_object(&spec, jiff::Timestamp::UNIX_EPOCH, 0), "t").unwrap();
    }
    api
}

async fn cluster(nodes: usize, spec: &WorkloadSpec) -> Cluster {
    cluster_at(SPEED, nodes, spec).await
}

async fn cluster_at(speed: f64, nodes: usize, spec: &WorkloadSpec) -> Cluster {
    let api = api(nodes);
    let workloads = Workloads::start(api.client(), spec, speed).await.unwrap();
    Cluster { api, workloads }
}

impl Cluster {
    async fn list(&self, path: &str) -> Vec<Value> {
        let request = Request::new(path).list(&ListParams::default()).unwrap();
        let list: Value = self.api.client().request(request).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    async fn pods(&self) -> Vec<Value> {
        self.list("/api/v1/pods").await
    }

    /// Names of the pods that run on a node.
    async fn on_node(&self, node: &str) -> Vec<String> {
        let pods = self.pods().await;
        let running = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Running");
        running.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn counts(&self, nodes: &[&str]) -> Vec<usize> {
        let mut counts = Vec::new();
        for node in nodes {
            counts.push(self.on_node(node).await.len());
        }
        counts
    }

    async fn patch(&self, path: &str, name: &str, patch: Value) {
        let request = Request::new(path).patch(name, &PatchParams::default(), &Patch::Merge(patch)).unwrap();
        self.api.client().request_text(request).await.unwrap();
    }

    async fn cordon(&self, node: &str, taint: Option<&str>) {
        let spec = match taint {
            None => json!({"unschedulable": true}),
            Some(key) => json!({"taints": [{"key": key, "effect": "NoSchedule"}]}),
        };
        self.patch("/api/v1/nodes", node, json!({"spec": spec})).await;
        // The controller must see the change before a pod moves.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// Evicts a pod. The error is the code of the answer.
    async fn evict(&self, namespace: &str, name: &str) -> Result<(), u16> {
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let request = Request::new(populate::path("pods", namespace))
            .create_subresource("eviction", name, &PostParams::default(), body.to_string().into_bytes())
            .unwrap();
        match self.api.client().request_text(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) => Err(status.code),
            Err(error) => panic!("{error}"),
        }
    }

    fn budget(&self, namespace: &str, name: &str) -> Value {
        self.api.get("policy", "poddisruptionbudgets", namespace, name).unwrap()["status"].clone()
    }

    async fn wait(&self, time: Duration) {
        tokio::time::sleep(time.div_f64(SPEED)).await;
    }

    #[track_caller]
    fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let began = std::time::Instant::now();
            while !holds(self).await {
                assert!(began.elapsed() < Duration::from_secs(60), "{caller}: not {what}: {:#?}", self.pods().await);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

fn applications(replicas: usize, budget: Budget) -> WorkloadSpec {
    let application = Application::new("shop", "web", replicas).with_budget(budget);
    WorkloadSpec { applications: vec![application], ..WorkloadSpec::default() }
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

#[tokio::test]
async fn filled_cluster_runs_and_counts_all_pods() {
    let cluster = cluster(4, &WorkloadSpec::filling(4, 27)).await;
    assert_eq!(cluster.counts(&["node-1", "node-2", "node-3", "node-4"]).await, [27; 4]);
    let set = cluster.api.get("apps", "replicasets", "team-001", "app-0001").unwrap();
    assert_eq!((&set["status"]["replicas"], &set["status"]["readyReplicas"]), (&json!(10), &json!(10)));
    let budget = cluster.budget("team-001", "app-0001");
    let number = |field: &str| budget[field].as_i64().unwrap();
    let numbers = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed", "observedGeneration"];
    assert_eq!(numbers.map(number), [10, 10, 7, 3, 1]);
    assert_eq!(budget["conditions"][0]["reason"], "SufficientPods");
    cluster.workloads.stop().await;
}

#[tokio::test]
async fn equal_seeds_give_equal_names() {
    let mut names = Vec::new();
    for _ in 0..2 {
        let pods = cluster(3, &WorkloadSpec::filling(3, 6)).await.pods().await;
        names.push(pods.iter().map(|pod| pod["metadata"]["name"].clone()).collect::<Vec<_>>());
    }
    assert_eq!((names[0].len(), &names[0]), (18, &names[1]));
}

#[tokio::test]
async fn evicted_pods_move_to_other_nodes() {
    // Slow enough for an eviction before the replacement of the last one runs.
    let cluster = cluster_at(4.0, 3, &applications(6, Budget::MinAvailable("5".to_owned()))).await;
    cluster.cordon("node-1", Some("drain")).await;
    let pods = cluster.on_node("node-1").await;
    cluster.evict("shop", &pods[0]).await.unwrap();
    assert_eq!(cluster.evict("shop", &pods[1]).await, Err(429));
    cluster.until("allowed", async |cluster| cluster.budget("shop", "web")["disruptionsAllowed"] == 1).await;
    cluster.evict("shop", &pods[1]).await.unwrap();
    let moved = async |cluster: &Cluster| cluster.counts(&["node-1", "node-2", "node-3"]).await == [0, 3, 3];
    cluster.until("moved", moved).await;
    cluster.until("allowed", async |cluster| cluster.budget("shop", "web")["disruptionsAllowed"] == 1).await;
    assert_eq!(cluster.budget("shop", "web").get("disruptedPods"), None);
}

#[tokio::test]
async fn pods_are_created_when_a_node_admits_them() {
    let cluster = cluster(1, &applications(2, Budget::MinAvailable("1".to_owned()))).await;
    cluster.cordon("node-1", None).await;
    let pod = cluster.on_node("node-1").await.remove(0);
    cluster.evict("shop", &pod).await.unwrap();
    cluster.until("gone", async |cluster| cluster.pods().await.len() == 1).await;
    cluster.wait(WHILE).await;
    assert_eq!(cluster.pods().await.len(), 1);
    cluster.patch("/api/v1/nodes", "node-1", json!({"spec": {"unschedulable": false}})).await;
    cluster.until("created", async |cluster| cluster.on_node("node-1").await.len() == 2).await;
}

#[tokio::test]
async fn replica_set_follows_its_number() {
    let cluster = cluster(2, &applications(4, Budget::MaxUnavailable("1".to_owned()))).await;
    for replicas in [1, 5] {
        cluster.patch(&populate::path("replicasets", "shop"), "web", json!({"spec": {"replicas": replicas}})).await;
        cluster.until("scaled", async |cluster| cluster.pods().await.len() == replicas).await;
        cluster.until("counted", async |cluster| cluster.budget("shop", "web")["expectedPods"] == replicas).await;
    }
}

#[tokio::test]
async fn daemon_pod_returns_to_a_cordoned_node_but_not_past_an_unknown_taint() {
    let daemon = |name: &str, tolerates_all| DaemonSet { name: name.to_owned(), tolerates_all, exclusive_cpus: false };
    let daemon_sets = vec![daemon("every", true), daemon("usual", false)];
    let cluster = cluster(1, &WorkloadSpec { daemon_sets, ..WorkloadSpec::default() }).await;
    for (taint, expected) in [(None, vec!["every", "usual"]), (Some("drain"), vec!["every"])] {
        cluster.cordon("node-1", taint).await;
        let evicted = cluster.on_node("node-1").await;
        assert_eq!(evicted.len(), 2, "running pods stay");
        for pod in &evicted {
            cluster.evict("kube-system", pod).await.unwrap();
        }
        let returned = async |cluster: &Cluster| {
            let mut names = cluster.on_node("node-1").await;
            let new = names.iter().all(|name| !evicted.contains(name));
            names.iter_mut().for_each(|name| name.truncate(5));
            names.sort();
            new && names == expected
        };
        cluster.until("returned", returned).await;
        cluster.wait(WHILE).await;
        assert!(returned(&cluster).await);
    }
}

#[tokio::test]
async fn stopped_kubelet_ends_no_pod() {
    let cluster = cluster(2, &applications(2, Budget::MinAvailable("0".to_owned()))).await;
    let report = async |status: &str| {
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let request = Request::new("/api/v1/nodes")
            .patch_subresource("status", "node-1", &PatchParams::default(), &Patch::Merge(patch))
            .unwrap();
        cluster.api.client().request_text(request).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    report("Unknown").await;
    let pod = cluster.on_node("node-1").await.remove(0);
    cluster.evict("shop", &pod).await.unwrap();
    cluster.wait(WHILE).await;
    assert!(cluster.api.get("", "pods", "shop", &pod).is_some());
    report("True").await;
    cluster.until("ended", async |cluster| cluster.api.get("", "pods", "shop", &pod).is_none()).await;
}

#[tokio::test]
async fn removed_node_takes_its_pods_along() {
    for forgets in [false, true] {
        let cluster = cluster(2, &applications(4, Budget::MinAvailable("1".to_owned()))).await;
        let request = Request::new("/api/v1/nodes").delete("node-1", &Default::default()).unwrap();
        cluster.api.client().request_text(request).await.unwrap();
        if forgets {
            cluster.api.forget_history();
        }
        cluster.until("moved", async |cluster| cluster.counts(&["node-1", "node-2"]).await == [0, 4]).await;
    }
}

/// State of the pod of a fault, some time after its eviction from a tainted node with another node free.
async fn evicted(fault: PodFault) -> (Result<(), u16>, Option<Value>, bool) {
    let cluster = cluster(2, &WorkloadSpec::default().with_fault(&name("node-1"), fault)).await;
    let pod = format!("{fault}-node-1");
    let before = cluster.api.get("", "pods", "default", &pod).unwrap();
    assert_eq!(before["status"]["phase"], "Running");
    cluster.cordon("node-1", Some("drain")).await;
    let answer = cluster.evict("default", &pod).await;
    cluster.wait(4 * WHILE).await;
    let after = cluster.api.get("", "pods", "default", &pod);
    let same = after.as_ref().is_some_and(|after| after["metadata"]["uid"] == before["metadata"]["uid"]);
    (answer, after, same)
}

#[tokio::test]
async fn faults_resist_as_described() {
    for (fault, code) in [(PodFault::BlockedBudget, 429), (PodFault::TwoBudgets, 500)] {
        let (answer, pod, same) = evicted(fault).await;
        assert_eq!((answer, same), (Err(code), true), "{fault}");
        assert!(pod.unwrap()["metadata"].get("deletionTimestamp").is_none());
    }
    let (answer, pod, same) = evicted(PodFault::Hangs).await;
    assert_eq!((answer, same), (Ok(()), true));
    assert!(pod.unwrap()["metadata"]["deletionTimestamp"].is_string());
    for fault in [PodFault::Returns, PodFault::Mirror] {
        let (answer, pod, same) = evicted(fault).await;
        let pod = pod.unwrap();
        assert_eq!((answer, same, &pod["spec"]["nodeName"]), (Ok(()), false, &json!("node-1")), "{fault}");
        assert_eq!(pod["status"]["phase"], "Running", "{fault}");
    }
    for fault in [
        PodFault::Unmanaged,
        PodFault::EmptyDir,
        PodFault::ToleratesAll,
        PodFault::StuckVolume,
        PodFault::ExclusiveCpus,
    ] {
        assert_eq!(evicted(fault).await, (Ok(()), None, false), "{fault}");
    }
}

#[tokio::test]
async fn faults_have_the_described_pods() {
    let all = fault::POD_FAULTS.into_iter();
    let spec = all.fold(WorkloadSpec::default(), |spec, (fault, ..)| spec.with_fault(&name("node-1"), fault));
    let cluster = cluster(1, &spec).await;
    let pod = |fault: PodFault| cluster.api.get("", "pods", "default", &format!("{fault}-node-1")).unwrap();
    assert_eq!(cluster.on_node("node-1").await.len(), fault::POD_FAULTS.len());
    assert!(pod(PodFault::Unmanaged)["metadata"].get("ownerReferences").is_none());
    assert_eq!(pod(PodFault::ExclusiveCpus)["status"]["qosClass"], "Guaranteed");
    assert_eq!(pod(PodFault::EmptyDir)["spec"]["volumes"][0]["emptyDir"], json!({}));
    assert_eq!(pod(PodFault::ToleratesAll)["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod(PodFault::Mirror)["metadata"]["ownerReferences"][0]["kind"], "Node");
    let volumes = cluster.list("/apis/storage.k8s.io/v1/volumeattachments").await;
    assert_eq!((&volumes[0]["spec"]["nodeName"], &volumes[0]["status"]["attached"]), (&json!("node-1"), &json!(true)));
}

#[derive(Debug, Clone)]
enum Step {
    Evict(usize),
    Wait(u64),
    Cordon(usize, bool),
    Scale(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_usize..12).prop_map(Step::Evict),
        3 => (0_u64..4000).prop_map(Step::Wait),
        1 => ((0_usize..3), any::<bool>()).prop_map(|(node, cordoned)| Step::Cordon(node, cordoned)),
        1 => (3_u64..9).prop_map(Step::Scale),
    ]
}

fn budgets() -> impl Strategy<Value = Budget> {
    let amount = || prop_oneof![(0_usize..6).prop_map(|n| n.to_string()), (0_usize..100).prop_map(|n| format!("{n}%"))];
    prop_oneof![amount().prop_map(Budget::MinAvailable), amount().prop_map(Budget::MaxUnavailable)]
}

/// Numbers of healthy pods and of pods that the budget requires.
async fn health(cluster: &Cluster) -> (i64, i64) {
    let pods = cluster.pods().await;
    let healthy = pods.iter().filter(|pod| is_healthy(pod)).count();
    (i64::try_from(healthy).unwrap(), cluster.budget("shop", "web")["desiredHealthy"].as_i64().unwrap())
}

fn is_healthy(pod: &Value) -> bool {
    pod["metadata"].get("deletionTimestamp").is_none() && crate::api::pod::is_ready(pod)
}

async fn evictions_leave_enough_pods(budget: Budget, steps: Vec<Step>) {
    let cluster = cluster(3, &applications(6, budget)).await;
    let nodes = "/api/v1/nodes";
    for step in steps {
        match step {
            Step::Evict(number) => {
                let pods = cluster.pods().await;
                let Some(pod) = pods.get(number % pods.len().max(1)) else { continue };
                let before = health(&cluster).await;
                let done = cluster.evict("shop", pod["metadata"]["name"].as_str().unwrap()).await;
                let (healthy, desired) = health(&cluster).await;
                assert!(
                    !is_healthy(pod) || done.is_err() || healthy >= desired,
                    "{healthy} of {desired} after {before:?}"
                );
            }
            Step::Wait(time) => cluster.wait(Duration::from_millis(time)).await,
            Step::Cordon(node, cordoned) => {
                let node = format!("node-{}", node + 1);
                cluster.patch(nodes, &node, json!({"spec": {"unschedulable": cordoned}})).await;
            }
            Step::Scale(replicas) => {
                let patch = json!({"spec": {"replicas": replicas}});
                cluster.patch(&populate::path("replicasets", "shop"), "web", patch).await;
            }
        }
    }
    for node in ["node-1", "node-2", "node-3"] {
        cluster.patch(nodes, node, json!({"spec": {"unschedulable": false}})).await;
    }
    let complete = async |cluster: &Cluster| {
        let set = cluster.api.get("apps", "replicasets", "shop", "web").unwrap();
        set["spec"]["replicas"] == set["status"]["readyReplicas"]
    };
    cluster.until("complete", complete).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn evictions_never_take_more_than_the_budget_allows(
        budget in budgets(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(evictions_leave_enough_pods(budget, steps));
    }
}
