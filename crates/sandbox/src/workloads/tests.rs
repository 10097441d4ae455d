//! Tests of workloads against the API server, in simulated time.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::driver::Driver;
use super::*;
use crate::api::{Api, ApiError, ApiOptions, ServerProfile};
use crate::kubelets::Moment;
use crate::nodes::{self, NodeSpec, node_object};
use nodecfg_contract::names::NodeName;

/// Time in which pods move and volumes detach.
const WHILE: Duration = Duration::from_secs(30);

pub(super) fn cluster(nodes: usize) -> (Api, Vec<NodeSpec>) {
    let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
    let specs = nodes::generic(nodes, &[], "v1.36.2").unwrap();
    for spec in &specs {
        api.create("", "nodes", "", node_object(spec, jiff::Timestamp::UNIX_EPOCH, 0), "t").unwrap();
    }
    (api, specs)
}

fn rewrite(api: &Api, collection: &str, key: &str, change: impl FnMut(&mut Value)) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let group = match collection {
        "replicasets" => "apps",
        "poddisruptionbudgets" => "policy",
        _ => "",
    };
    let uid = api.get(group, collection, namespace, name).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert!(api.rewrite(collection, key, &uid, change));
}

/// All objects of a resource.
fn list(api: &Api, resource: &str) -> Vec<Value> {
    let all = api.changes(resource, None).seen;
    all.iter().map(|seen| serde_json::from_slice(&seen.object).unwrap()).collect()
}

/// Namespace, name and node of the pods that run on a node.
fn on_node(api: &Api, node: &str) -> Vec<String> {
    let running = |pod: &Value| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Running";
    let pods = list(api, "pods").into_iter().filter(running);
    pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn evict(api: &Api, namespace: &str, name: &str) -> Result<(), ApiError> {
    let pods = api.resource("", "v1", "pods").unwrap();
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    crate::api::eviction::evict(api, &pods, namespace, name, &body, false).map(|_| ())
}

fn cordon(api: &Api, node: &str, taint: Option<&str>) {
    rewrite(api, "nodes", node, |node| match taint {
        None => node["spec"]["unschedulable"] = true.into(),
        Some(key) => node["spec"]["taints"] = json!([{"key": key, "effect": "NoSchedule"}]),
    });
}

/// Workloads whose time passes only in [`Simulation::wait`].
struct Simulation {
    driver: Driver,
    now: Moment,
}

fn start(api: &Api, spec: &WorkloadSpec) -> Simulation {
    populate::populate(api, spec).unwrap();
    let mut driver = Driver::new(api, 1, 1.0);
    driver.fill();
    Simulation { driver, now: Moment::default() }
}

impl Simulation {
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            while self.driver.round(self.now) {}
            match self.driver.next_timer().filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
        self.now = end;
        while self.driver.round(end) {}
    }
}

fn applications(replicas: usize, budget: Budget) -> WorkloadSpec {
    let application = Application::new("shop", "web", replicas).with_budget(budget);
    WorkloadSpec { applications: vec![application], ..WorkloadSpec::default() }
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

#[test]
fn filled_cluster_runs_and_counts_all_pods() {
    let (api, _) = cluster(4);
    let _simulation = start(&api, &WorkloadSpec::filling(4, 27));
    for node in ["node-1", "node-2", "node-3", "node-4"] {
        assert_eq!(on_node(&api, node).len(), 27, "{node}");
    }
    let set = api.get("apps", "replicasets", "team-001", "app-0001").unwrap();
    assert_eq!((&set["status"]["replicas"], &set["status"]["readyReplicas"]), (&json!(10), &json!(10)));
    let budget = &api.get("policy", "poddisruptionbudgets", "team-001", "app-0001").unwrap()["status"];
    let number = |field: &str| budget[field].as_i64().unwrap();
    let numbers = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed", "observedGeneration"];
    assert_eq!(numbers.map(number), [10, 10, 7, 3, 1]);
    assert_eq!(budget["conditions"][0]["reason"], "SufficientPods");
}

#[test]
fn equal_seeds_give_equal_names() {
    let names = || {
        let (api, _) = cluster(3);
        let _simulation = start(&api, &WorkloadSpec::filling(3, 6));
        list(&api, "pods").iter().map(|pod| pod["metadata"]["name"].clone()).collect::<Vec<_>>()
    };
    let first = names();
    assert_eq!((first.len(), &first), (18, &names()));
}

#[test]
fn evicted_pods_move_to_other_nodes() {
    let (api, _) = cluster(3);
    let mut simulation = start(&api, &applications(6, Budget::MinAvailable("5".to_owned())));
    cordon(&api, "node-1", Some("drain"));
    let pods = on_node(&api, "node-1");
    evict(&api, "shop", &pods[0]).unwrap();
    let refused = evict(&api, "shop", &pods[1]).unwrap_err();
    assert_eq!(refused.code, 429);
    simulation.wait(WHILE);
    evict(&api, "shop", &pods[1]).unwrap();
    simulation.wait(WHILE);
    assert_eq!(on_node(&api, "node-1"), Vec::<String>::new());
    assert_eq!((on_node(&api, "node-2").len(), on_node(&api, "node-3").len()), (3, 3));
    let budget = &api.get("policy", "poddisruptionbudgets", "shop", "web").unwrap()["status"];
    assert_eq!((&budget["disruptionsAllowed"], budget.get("disruptedPods")), (&json!(1), None));
}

#[test]
fn pods_without_a_node_wait_for_one() {
    let (api, _) = cluster(1);
    let mut simulation = start(&api, &applications(2, Budget::MinAvailable("1".to_owned())));
    cordon(&api, "node-1", None);
    evict(&api, "shop", &on_node(&api, "node-1")[0]).unwrap();
    simulation.wait(WHILE);
    let waiting = |pod: &&Value| pod["spec"].get("nodeName").is_none() && pod["status"]["phase"] == "Pending";
    assert_eq!(list(&api, "pods").iter().filter(waiting).count(), 1);
    rewrite(&api, "nodes", "node-1", |node| node["spec"]["unschedulable"] = false.into());
    simulation.wait(WHILE);
    assert_eq!(on_node(&api, "node-1").len(), 2);
}

#[test]
fn replica_set_follows_its_number() {
    let (api, _) = cluster(2);
    let mut simulation = start(&api, &applications(4, Budget::MaxUnavailable("1".to_owned())));
    for replicas in [1_u64, 5] {
        rewrite(&api, "replicasets", "shop/web", |set| {
            set["spec"]["replicas"] = replicas.into();
            set["metadata"]["generation"] = (set["metadata"]["generation"].as_u64().unwrap() + 1).into();
        });
        simulation.wait(WHILE);
        assert_eq!(u64::try_from(list(&api, "pods").len()).unwrap(), replicas);
        let budget = &api.get("policy", "poddisruptionbudgets", "shop", "web").unwrap()["status"];
        assert_eq!(budget["expectedPods"], replicas);
    }
}

#[test]
fn daemon_pod_returns_to_a_cordoned_node_but_not_past_an_unknown_taint() {
    let (api, _) = cluster(1);
    let daemon = |name: &str, tolerates_all| DaemonSet { name: name.to_owned(), tolerates_all, exclusive_cpus: false };
    let daemon_sets = vec![daemon("every", true), daemon("usual", false)];
    let mut simulation = start(&api, &WorkloadSpec { daemon_sets, ..WorkloadSpec::default() });
    let kinds = |api: &Api| {
        let mut names = on_node(api, "node-1");
        names.iter_mut().for_each(|name| name.truncate(5));
        names.sort();
        names
    };
    for (taint, expected) in [(None, vec!["every", "usual"]), (Some("drain"), vec!["every"])] {
        cordon(&api, "node-1", taint);
        simulation.wait(WHILE);
        assert_eq!(kinds(&api), ["every", "usual"], "running pods stay");
        for pod in on_node(&api, "node-1") {
            evict(&api, "kube-system", &pod).unwrap();
        }
        simulation.wait(WHILE);
        assert_eq!(kinds(&api), expected);
    }
}

#[test]
fn stopped_kubelet_ends_no_pod() {
    let (api, _) = cluster(2);
    let mut simulation = start(&api, &applications(2, Budget::MinAvailable("0".to_owned())));
    let ready = |status: &'static str| {
        rewrite(&api, "nodes", "node-1", |node| {
            node["status"]["conditions"] = json!([{"type": "Ready", "status": status}])
        });
    };
    ready("Unknown");
    simulation.wait(WHILE);
    let pod = on_node(&api, "node-1").remove(0);
    evict(&api, "shop", &pod).unwrap();
    simulation.wait(WHILE);
    assert!(api.get("", "pods", "shop", &pod).is_some());
    ready("True");
    simulation.wait(WHILE);
    assert!(api.get("", "pods", "shop", &pod).is_none());
}

#[test]
fn removed_node_takes_its_pods_along() {
    let (api, _) = cluster(2);
    let mut simulation = start(&api, &applications(4, Budget::MinAvailable("1".to_owned())));
    api.remove("nodes", "", "node-1");
    simulation.wait(WHILE);
    assert_eq!((on_node(&api, "node-1").len(), on_node(&api, "node-2").len()), (0, 4));
}

#[test]
fn forgotten_history_is_listed_again() {
    let (api, _) = cluster(2);
    let mut simulation = start(&api, &applications(4, Budget::MinAvailable("1".to_owned())));
    evict(&api, "shop", &on_node(&api, "node-1")[0]).unwrap();
    api.remove("nodes", "", "node-1");
    api.forget_history();
    simulation.wait(WHILE);
    assert_eq!(on_node(&api, "node-2").len(), 4);
}

/// State of the pod of a fault, some time after its eviction from a tainted node with another node free.
fn evicted(fault: PodFault) -> (Result<(), u16>, Option<Value>, bool) {
    let (api, _) = cluster(2);
    let spec = WorkloadSpec::default().with_fault(&name("node-1"), fault);
    let mut simulation = start(&api, &spec);
    let pod = format!("{fault}-node-1");
    let before = api.get("", "pods", "default", &pod).unwrap();
    assert_eq!(before["status"]["phase"], "Running");
    cordon(&api, "node-1", Some("drain"));
    let answer = evict(&api, "default", &pod).map_err(|error| error.code);
    simulation.wait(4 * WHILE);
    let after = api.get("", "pods", "default", &pod);
    let same = after.as_ref().is_some_and(|after| after["metadata"]["uid"] == before["metadata"]["uid"]);
    (answer, after, same)
}

#[test]
fn faults_resist_as_described() {
    for (fault, code) in [(PodFault::BlockedBudget, 429), (PodFault::TwoBudgets, 500)] {
        let (answer, pod, same) = evicted(fault);
        assert_eq!((answer, same), (Err(code), true), "{fault}");
        assert!(pod.unwrap()["metadata"].get("deletionTimestamp").is_none());
    }
    let (answer, pod, same) = evicted(PodFault::Hangs);
    assert_eq!((answer, same), (Ok(()), true));
    assert!(pod.unwrap()["metadata"]["deletionTimestamp"].is_string());
    for fault in [PodFault::Returns, PodFault::Mirror] {
        let (answer, pod, same) = evicted(fault);
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
        assert_eq!(evicted(fault), (Ok(()), None, false), "{fault}");
    }
}

#[test]
fn faults_have_the_described_pods() {
    let (api, _) = cluster(1);
    let all = fault::POD_FAULTS.into_iter();
    let spec = all.fold(WorkloadSpec::default(), |spec, (fault, ..)| spec.with_fault(&name("node-1"), fault));
    let _simulation = start(&api, &spec);
    let pod = |fault: PodFault| api.get("", "pods", "default", &format!("{fault}-node-1")).unwrap();
    assert_eq!(on_node(&api, "node-1").len(), fault::POD_FAULTS.len());
    assert!(pod(PodFault::Unmanaged)["metadata"].get("ownerReferences").is_none());
    assert_eq!(pod(PodFault::ExclusiveCpus)["status"]["qosClass"], "Guaranteed");
    assert_eq!(pod(PodFault::EmptyDir)["spec"]["volumes"][0]["emptyDir"], json!({}));
    assert_eq!(pod(PodFault::ToleratesAll)["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod(PodFault::Mirror)["metadata"]["ownerReferences"][0]["kind"], "Node");
}

#[test]
fn volume_detaches_after_its_last_pod() {
    let (api, _) = cluster(2);
    let spec = WorkloadSpec::default()
        .with_fault(&name("node-1"), PodFault::StuckVolume)
        .with_fault(&name("node-2"), PodFault::StuckVolume);
    let mut simulation = start(&api, &spec);
    let nodes = |api: &Api| {
        let attachments = list(api, "volumeattachments");
        assert!(attachments.iter().all(|attachment| attachment["status"]["attached"] == true));
        let mut nodes: Vec<String> =
            attachments.iter().map(|a| a["spec"]["nodeName"].as_str().unwrap().to_owned()).collect();
        nodes.sort();
        nodes
    };
    assert_eq!(nodes(&api), ["node-1", "node-2"]);
    // Without the annotation, the volume is an ordinary one.
    cordon(&api, "node-1", None);
    evict(&api, "default", "stuck-volume-node-1").unwrap();
    simulation.wait(WHILE);
    assert_eq!(nodes(&api), ["node-1", "node-2", "node-2"], "a stuck volume stays");
    let ordinary = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"}, "spec": {
        "nodeName": "node-2", "containers": [{"name": "main", "image": "db:1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "db"}}]}});
    api.create("", "pods", "default", ordinary, "t").unwrap();
    simulation.wait(WHILE);
    assert_eq!(nodes(&api).len(), 4);
    evict(&api, "default", "db").unwrap();
    simulation.wait(Duration::from_secs(5));
    assert_eq!(nodes(&api).len(), 4, "detaching takes time");
    simulation.wait(WHILE);
    assert_eq!(nodes(&api).len(), 3);
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
fn health(api: &Api) -> (i64, i64) {
    let healthy = list(api, "pods")
        .into_iter()
        .filter(|pod| pod["metadata"].get("deletionTimestamp").is_none() && crate::api::pod::is_ready(pod));
    let budget = &api.get("policy", "poddisruptionbudgets", "shop", "web").unwrap()["status"];
    (i64::try_from(healthy.count()).unwrap(), budget["desiredHealthy"].as_i64().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn evictions_never_take_more_than_the_budget_allows(
        budget in budgets(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
            let (api, _) = cluster(3);
            let mut simulation = start(&api, &applications(6, budget));
            let mut evicted = 0;
            for step in steps {
                match step {
                    Step::Evict(number) => {
                        let pods = list(&api, "pods");
                        let Some(pod) = pods.get(number % pods.len().max(1)) else { continue };
                        let counted = pod["metadata"].get("deletionTimestamp").is_none() && crate::api::pod::is_ready(pod);
                        let before = health(&api);
                        let done = evict(&api, "shop", pod["metadata"]["name"].as_str().unwrap());
                        let (healthy, desired) = health(&api);
                        if counted && done.is_ok() {
                            evicted += 1;
                            prop_assert!(healthy >= desired, "{healthy} of {desired} after {before:?}");
                        }
                    }
                    Step::Wait(time) => simulation.wait(Duration::from_millis(time)),
                    Step::Cordon(node, cordoned) => {
                        let node = format!("node-{}", node + 1);
                        rewrite(&api, "nodes", &node, |node| node["spec"]["unschedulable"] = cordoned.into());
                    }
                    Step::Scale(replicas) => {
                        rewrite(&api, "replicasets", "shop/web", |set| {
                            set["spec"]["replicas"] = replicas.into();
                            let generation = set["metadata"]["generation"].as_u64().unwrap();
                            set["metadata"]["generation"] = (generation + 1).into();
                        });
                    }
                }
            }
            for node in ["node-1", "node-2", "node-3"] {
                rewrite(&api, "nodes", node, |node| node["spec"]["unschedulable"] = false.into());
            }
            simulation.wait(4 * WHILE);
            let set = api.get("apps", "replicasets", "shop", "web").unwrap();
            prop_assert_eq!(&set["spec"]["replicas"], &set["status"]["readyReplicas"], "after {} evictions", evicted);
    }
}

#[tokio::test]
async fn workloads_run_over_requests_alike() {
    let (api, _) = cluster(3);
    let workloads = Workloads::start_on(api.client(), &WorkloadSpec::filling(3, 6), 1, 100.0).await.unwrap();
    assert_eq!(["node-1", "node-2", "node-3"].map(|node| on_node(&api, node).len()), [6, 6, 6]);
    let budget = || api.get("policy", "poddisruptionbudgets", "team-001", "app-0001").unwrap()["status"].clone();
    assert_eq!((&budget()["disruptionsAllowed"], &budget()["currentHealthy"]), (&json!(3), &json!(10)));

    cordon(&api, "node-1", None);
    let leaves = on_node(&api, "node-1").into_iter().find(|name| name.starts_with("app-0001")).unwrap();
    let listed = list(&api, "pods").len();
    evict(&api, "team-001", &leaves).unwrap();
    let began = std::time::Instant::now();
    while api.get("", "pods", "team-001", &leaves).is_some()
        || on_node(&api, "node-1").len() != 5
        || list(&api, "pods").len() != listed
        || budget()["currentHealthy"] != 10
    {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", list(&api, "pods"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(budget().get("disruptedPods"), None);
    workloads.stop().await;
}
