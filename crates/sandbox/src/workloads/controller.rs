//! The only controller of the sandbox: creates the pods of ReplicaSets and DaemonSets on nodes that admit them, starts
//! and ends pods on the nodes whose kubelets run, and counts the pods of PodDisruptionBudgets.
//!
//! It knows the cluster from watches and from the answers to its own writes. A change marks its namespace, and the
//! controller then compares all that the namespace has with all that it should have.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use kube::Client;
use kube::core::Request;
use kube::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::budget;
use super::facts::{Container, Node, Pod, PodBudget, Set, SetStatus, UNSCHEDULABLE};
use super::populate::{self, NAMESPACE, ReturningPod, controller, path};
use super::spec::WorkloadSpec;
use crate::api::eviction;
use crate::kubelets::requests::seconds;
use crate::watch::{self, Change, Object};

/// Capacity of the channel of watched changes.
const BACKLOG: usize = 256;
/// Simulated time from the creation of a pod on a node until it is ready.
const START: Duration = Duration::from_secs(3);
/// Simulated time that the containers of a pod need to end. A shorter grace period ends them earlier.
const STOP: Duration = Duration::from_secs(2);
/// Tolerations that the DaemonSet controller adds (`AddOrUpdateDaemonPodTolerations`): key and effect.
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
];

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/pods";
const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";
const DAEMON_SETS: &str = "/apis/apps/v1/daemonsets";
const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";

/// Running workloads, which stop when dropped. Their pods remain.
#[derive(Debug)]
pub struct Workloads {
    tasks: JoinSet<()>,
}

impl Workloads {
    /// Creates workloads and runs them. Returns once all pods that fit on nodes are ready. `speed` is that of the
    /// simulated kubelets.
    ///
    /// # Errors
    /// The error of a failed request. Some objects may exist by then.
    pub async fn start(client: Client, spec: &WorkloadSpec, speed: f64) -> Result<Self, kube::Error> {
        let returning = populate::populate(&client, spec).await?;
        let mut controller = Controller::new(client.clone(), returning, speed);
        let (sender, changes) = mpsc::channel(BACKLOG);
        let mut tasks = JoinSet::new();
        controller.list_and_follow(NODES, Seen::Nodes, &sender, &mut tasks).await?;
        controller.list_and_follow(REPLICA_SETS, Seen::ReplicaSets, &sender, &mut tasks).await?;
        controller.list_and_follow(DAEMON_SETS, Seen::DaemonSets, &sender, &mut tasks).await?;
        controller.list_and_follow(PODS, Seen::Pods, &sender, &mut tasks).await?;
        controller.list_and_follow(BUDGETS, Seen::Budgets, &sender, &mut tasks).await?;
        controller.starts_at_once = true;
        controller.reconcile().await;
        controller.starts_at_once = false;
        tasks.spawn(controller.run(changes));
        Ok(Self { tasks })
    }

    /// Stops all workloads.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// Change that a watch reports.
enum Seen {
    Nodes(Change<Node>),
    ReplicaSets(Change<Set>),
    DaemonSets(Change<Set>),
    Pods(Change<Pod>),
    Budgets(Change<PodBudget>),
}

/// Objects by namespace and name.
type Objects<K> = BTreeMap<(String, String), K>;

/// Step of a pod at a later time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Start,
    End,
}

/// Pod, by key and uid, whose step is due.
type Due = ((String, String), String, Step);

struct Controller {
    client: Client,
    speed: f64,
    /// Set while the first pods start.
    starts_at_once: bool,
    /// Pods that come back whenever they are missing.
    returning: Vec<ReturningPod>,
    nodes: BTreeMap<String, Node>,
    /// Names of deleted Nodes.
    removed: BTreeSet<String>,
    replica_sets: Objects<Set>,
    daemon_sets: Objects<Set>,
    pods: Objects<Pod>,
    budgets: Objects<PodBudget>,
    /// Namespaces to compare.
    dirty: BTreeSet<String>,
    /// Namespaces with a ReplicaSet whose pods fit on no node.
    unplaced: BTreeSet<String>,
    timers: FuturesUnordered<BoxFuture<'static, Due>>,
    /// Steps in `timers`, by uid.
    armed: HashSet<(String, Step)>,
    /// Number of started pods.
    started: u64,
}

impl Controller {
    fn new(client: Client, returning: Vec<ReturningPod>, speed: f64) -> Self {
        Self {
            client,
            speed,
            starts_at_once: false,
            returning,
            nodes: BTreeMap::new(),
            removed: BTreeSet::new(),
            replica_sets: Objects::new(),
            daemon_sets: Objects::new(),
            pods: Objects::new(),
            budgets: Objects::new(),
            dirty: BTreeSet::new(),
            unplaced: BTreeSet::new(),
            timers: FuturesUnordered::new(),
            armed: HashSet::new(),
            started: 0,
        }
    }

    /// Takes over all objects of a collection, and starts a watch of it.
    async fn list_and_follow<K: Object>(
        &mut self,
        path: &'static str,
        wrap: fn(Change<K>) -> Seen,
        changes: &mpsc::Sender<Seen>,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), kube::Error> {
        let (all, version) = watch::list(&self.client, path).await?;
        self.take_over(wrap(Change::Relist(all)));
        tasks.spawn(watch::follow(self.client.clone(), path, version, changes.clone(), wrap));
        Ok(())
    }

    async fn run(mut self, mut changes: mpsc::Receiver<Seen>) {
        loop {
            tokio::select! {
                Some(seen) = changes.recv() => {
                    self.take_over(seen);
                    while let Ok(seen) = changes.try_recv() {
                        self.take_over(seen);
                    }
                }
                Some(due) = self.timers.next(), if !self.timers.is_empty() => self.carry_out(due).await,
                else => return,
            }
            self.reconcile().await;
        }
    }

    fn take_over(&mut self, seen: Seen) {
        match seen {
            Seen::Nodes(change) => self.take_over_node(change),
            Seen::ReplicaSets(change) => take_over(&mut self.replica_sets, change, &mut self.dirty),
            Seen::DaemonSets(change) => take_over(&mut self.daemon_sets, change, &mut self.dirty),
            Seen::Pods(change) => take_over(&mut self.pods, change, &mut self.dirty),
            Seen::Budgets(change) => take_over(&mut self.budgets, change, &mut self.dirty),
        }
    }

    fn take_over_node(&mut self, change: Change<Node>) {
        match change {
            Change::Applied(node) => {
                let name = node.meta().name.clone();
                self.removed.remove(&name);
                let old = self.nodes.insert(name.clone(), node);
                if self.nodes.get(&name).is_some_and(|node| old.is_none_or(|old| old.differs(node))) {
                    self.mark_around(&name);
                }
            }
            Change::Deleted(node) => {
                let name = &node.meta().name;
                self.nodes.remove(name);
                self.removed.insert(name.clone());
                self.mark_around(name);
            }
            Change::Relist(all) => {
                let listed: HashSet<&str> = all.iter().map(|node| node.meta().name.as_str()).collect();
                let missing: Vec<Node> =
                    self.nodes.values().filter(|node| !listed.contains(node.meta().name.as_str())).cloned().collect();
                missing.into_iter().for_each(|node| self.take_over_node(Change::Deleted(node)));
                all.into_iter().for_each(|node| self.take_over_node(Change::Applied(node)));
            }
        }
    }

    /// Marks the namespaces that a change of a Node may affect.
    fn mark_around(&mut self, node: &str) {
        let pods = self.pods.iter().filter(|(_, pod)| pod.spec.node_name == node);
        let namespaces =
            pods.map(|((namespace, _), _)| namespace).chain(self.daemon_sets.keys().map(|(space, _)| space));
        self.dirty.extend(namespaces.cloned());
        self.dirty.append(&mut self.unplaced);
        self.dirty.extend(self.returning.first().map(|_| NAMESPACE.to_owned()));
    }

    /// Compares all marked namespaces. A write marks its namespace again.
    async fn reconcile(&mut self) {
        while let Some(namespace) = self.dirty.pop_first() {
            self.move_pods(&namespace).await;
            self.restore_pods(&namespace).await;
            self.fill_daemon_sets(&namespace).await;
            self.fill_replica_sets(&namespace).await;
            self.count_budgets(&namespace).await;
        }
    }

    /// Arms the next steps of pods, and removes those of deleted Nodes.
    async fn move_pods(&mut self, namespace: &str) {
        let pods: Vec<Pod> = in_namespace(&self.pods, namespace).cloned().collect();
        for pod in pods {
            if self.removed.contains(&pod.spec.node_name) {
                self.delete(&pod, Some(0)).await;
                continue;
            }
            // The start of a kubelet marks the namespace again.
            match self.is_up(&pod.spec.node_name) {
                true if pod.is_deleting() && !pod.hangs() => {
                    let grace = Duration::from_secs(pod.metadata.deletion_grace_period_seconds);
                    self.arm(&pod, Step::End, STOP.min(grace));
                }
                true if pod.is_pending() && self.starts_at_once => self.start(&pod).await,
                true if pod.is_pending() && !pod.is_deleting() => self.arm(&pod, Step::Start, START),
                _ => {}
            }
        }
    }

    /// Reports whether the kubelet of a node runs.
    fn is_up(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(Node::is_ready)
    }

    fn arm(&mut self, pod: &Pod, step: Step, after: Duration) {
        if self.armed.insert((pod.metadata.uid.clone(), step)) {
            let due = (key(pod), pod.metadata.uid.clone(), step);
            let timer = tokio::time::sleep(after.div_f64(self.speed));
            self.timers.push(Box::pin(async move {
                timer.await;
                due
            }));
        }
    }

    async fn carry_out(&mut self, (key, uid, step): Due) {
        self.armed.remove(&(uid.clone(), step));
        let Some(pod) = self.pods.get(&key).filter(|pod| pod.metadata.uid == uid).cloned() else { return };
        match step {
            // The start of a stopped kubelet arms its steps again.
            _ if !self.is_up(&pod.spec.node_name) => {}
            Step::Start if pod.is_pending() && !pod.is_deleting() => self.start(&pod).await,
            Step::End if pod.is_deleting() => self.delete(&pod, Some(0)).await,
            Step::Start | Step::End => {}
        }
    }

    /// Reports a pod as running and ready.
    async fn start(&mut self, pod: &Pod) {
        self.started += 1;
        let status = running_status(pod, self.started, nodecfg_clock::now());
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}));
        let request = Request::new(path("pods", &pod.metadata.namespace)).patch_subresource(
            "status",
            &pod.metadata.name,
            &PatchParams::default(),
            &patch,
        );
        self.write(request, Seen::Pods).await;
    }

    /// Deletes a pod. `grace` 0 removes it, as its kubelet does at the end.
    async fn delete(&mut self, pod: &Pod, grace: Option<u32>) {
        let preconditions = Preconditions { uid: Some(pod.metadata.uid.clone()), resource_version: None };
        let params =
            DeleteParams { grace_period_seconds: grace, preconditions: Some(preconditions), ..DeleteParams::default() };
        let request = Request::new(path("pods", &pod.metadata.namespace)).delete(&pod.metadata.name, &params);
        let sent = match request {
            Ok(request) => self.client.request_text(request).await.map(|_| ()),
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        if let Err(error) = sent {
            tracing::debug!(pod = pod.metadata.name, %error, "the controller of the sandbox could not delete a pod");
        }
    }

    /// Creates the pods that come back, after their nodes have ended them.
    async fn restore_pods(&mut self, namespace: &str) {
        if namespace != NAMESPACE {
            return;
        }
        let is_missing = |ReturningPod { name, node, .. }: &&ReturningPod| {
            !self.pods.contains_key(&(NAMESPACE.to_owned(), name.clone())) && self.nodes.contains_key(node.as_str())
        };
        let missing: Vec<Value> = self.returning.iter().filter(is_missing).map(|pod| pod.object.clone()).collect();
        for pod in missing {
            self.create(namespace, &pod).await;
        }
    }

    /// Creates the missing pods of DaemonSets, after earlier ones have ended.
    async fn fill_daemon_sets(&mut self, namespace: &str) {
        let sets: Vec<Set> = in_namespace(&self.daemon_sets, namespace).cloned().collect();
        for set in sets {
            let (mut object, pod) = pod_of(&set, "DaemonSet");
            let owned = in_namespace(&self.pods, namespace).filter(|pod| pod.owner() == Some(&*set.metadata.uid));
            let covered: HashSet<&str> = owned.map(|pod| pod.spec.node_name.as_str()).collect();
            let nodes = self.nodes.iter().filter(|(name, node)| !covered.contains(name.as_str()) && node.admits(&pod));
            let nodes: Vec<String> = nodes.map(|(name, _)| name.clone()).collect();
            for node in nodes {
                place(&mut object, &node);
                self.create(namespace, &object).await;
            }
        }
    }

    /// Creates missing pods of ReplicaSets, deletes surplus ones, and reports their number.
    async fn fill_replica_sets(&mut self, namespace: &str) {
        let sets: Vec<Set> = in_namespace(&self.replica_sets, namespace).cloned().collect();
        for set in sets {
            let replicas = set.spec.replicas.unwrap_or(1);
            let owned = in_namespace(&self.pods, namespace).filter(|pod| pod.owner() == Some(&*set.metadata.uid));
            let active: Vec<Pod> = owned.filter(|pod| pod.is_active()).cloned().collect();
            for pod in active.iter().skip(replicas) {
                self.delete(pod, None).await;
            }
            if active.len() < replicas {
                self.add_replicas(&set, replicas - active.len()).await;
            }
            let status = SetStatus {
                replicas: active.len(),
                ready_replicas: active.iter().filter(|pod| pod.is_ready()).count(),
                observed_generation: set.metadata.generation,
            };
            if status != set.status {
                let patch = Patch::Merge(json!({"metadata": {"uid": set.metadata.uid}, "status": {
                    "replicas": status.replicas,
                    "fullyLabeledReplicas": status.replicas,
                    "readyReplicas": status.ready_replicas,
                    "availableReplicas": status.ready_replicas,
                    "observedGeneration": status.observed_generation,
                }}));
                let request = Request::new(path("replicasets", namespace)).patch_subresource(
                    "status",
                    &set.metadata.name,
                    &PatchParams::default(),
                    &patch,
                );
                self.write(request, Seen::ReplicaSets).await;
            }
        }
    }

    /// Creates pods of a ReplicaSet on the nodes with the fewest pods.
    async fn add_replicas(&mut self, set: &Set, count: usize) {
        let (mut object, pod) = pod_of(set, "ReplicaSet");
        let mut load: HashMap<String, usize> = HashMap::new();
        for pod in self.pods.values() {
            *load.entry(pod.spec.node_name.clone()).or_default() += 1;
        }
        for _ in 0..count {
            let load_of = |name: &str| load.get(name).copied().unwrap_or_default();
            let fits = self.nodes.iter().filter(|(name, node)| node.admits(&pod) && load_of(name) < node.capacity());
            let Some(node) = fits.map(|(name, _)| name.clone()).min_by_key(|name| load_of(name)) else {
                self.unplaced.insert(set.metadata.namespace.clone());
                return;
            };
            place(&mut object, &node);
            self.create(&set.metadata.namespace, &object).await;
            *load.entry(node).or_default() += 1;
        }
    }

    async fn create(&mut self, namespace: &str, pod: &Value) {
        let request =
            Request::new(path("pods", namespace)).create(&PostParams::default(), pod.to_string().into_bytes());
        self.write(request, Seen::Pods).await;
    }

    async fn count_budgets(&mut self, namespace: &str) {
        let scale = |uid: &str| {
            let mut sets = in_namespace(&self.replica_sets, namespace);
            sets.find(|set| set.metadata.uid == uid).map(|set| set.spec.replicas.unwrap_or(1))
        };
        let counted = in_namespace(&self.budgets, namespace).filter_map(|budget| {
            let status = budget::status(budget, in_namespace(&self.pods, namespace), scale);
            budget::with_status(&budget.object, status).map(|object| (budget.metadata.name.clone(), object))
        });
        let counted: Vec<(String, Value)> = counted.collect();
        for (name, mut object) in counted {
            eviction::set_disruption_allowed(&mut object, nodecfg_clock::now());
            let request = Request::new(path("poddisruptionbudgets", namespace)).replace_subresource(
                "status",
                &name,
                &PostParams::default(),
                object.to_string().into_bytes(),
            );
            // After another change of the budget, the server refuses this status.
            self.write(request, Seen::Budgets).await;
        }
    }

    /// Sends a request, and takes over the object of the answer.
    async fn write<K: Object>(
        &mut self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        wrap: fn(Change<K>) -> Seen,
    ) {
        let written = match request {
            Ok(request) => self.client.request::<K>(request).await,
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        match written {
            Ok(object) => self.take_over(wrap(Change::Applied(object))),
            Err(error) => tracing::debug!(%error, "the controller of the sandbox could not write"),
        }
    }
}

/// Takes over a change of a collection, and marks the namespaces that it affects. The answer to a write may be newer than
/// a watched change.
fn take_over<K: Object>(known: &mut Objects<K>, change: Change<K>, dirty: &mut BTreeSet<String>) {
    let known_version = |object: &K| known.get(&key(object)).map(version);
    match change {
        Change::Applied(object) if known_version(&object).is_none_or(|known| known < version(&object)) => {
            dirty.insert(object.meta().namespace.clone());
            known.insert(key(&object), object);
        }
        Change::Deleted(object) if known_version(&object).is_some_and(|known| known <= version(&object)) => {
            dirty.insert(object.meta().namespace.clone());
            known.remove(&key(&object));
        }
        Change::Applied(_) | Change::Deleted(_) => {}
        Change::Relist(all) => {
            let listed = all.into_iter().map(|object| (key(&object), object)).collect();
            let before = std::mem::replace(known, listed);
            dirty.extend(before.keys().chain(known.keys()).map(|(namespace, _)| namespace.clone()));
        }
    }
}

fn key<K: Object>(object: &K) -> (String, String) {
    (object.meta().namespace.clone(), object.meta().name.clone())
}

fn version<K: Object>(object: &K) -> u64 {
    object.meta().resource_version.parse().unwrap_or_default()
}

fn in_namespace<'a, K>(all: &'a Objects<K>, namespace: &str) -> impl Iterator<Item = &'a K> + use<'a, K> {
    let namespace = namespace.to_owned();
    let first = (namespace.clone(), String::new());
    all.range(first..).take_while(move |((of, _), _)| *of == namespace).map(|(_, object)| object)
}

/// Pod of a ReplicaSet or DaemonSet without a node, as an object and as the controller reads it.
fn pod_of(set: &Set, kind: &str) -> (Value, Pod) {
    let part = |pointer: &str| set.spec.template.pointer(pointer).cloned();
    let mut spec = part("/spec").unwrap_or_else(|| json!({}));
    if kind == "DaemonSet"
        && let Some(spec) = spec.as_object_mut()
    {
        let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
        if let Some(tolerations) = tolerations.as_array_mut() {
            let added = |(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect});
            tolerations.extend(DAEMON_TOLERATIONS.map(added));
        }
    }
    let Set { metadata, .. } = set;
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", metadata.name),
            "labels": part("/metadata/labels").unwrap_or_else(|| json!({})),
            "annotations": part("/metadata/annotations").unwrap_or_else(|| json!({})),
            "ownerReferences": controller(kind, &metadata.name, &metadata.uid),
        },
        "spec": spec,
    });
    let pod = serde_json::from_value(object.clone()).unwrap_or_default();
    (object, pod)
}

/// Sets the node of a new pod.
fn place(pod: &mut Value, node: &str) {
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("nodeName".to_owned(), node.into());
    }
}

/// Status of a running and ready pod. `number` gives it an address.
fn running_status(pod: &Pod, number: u64, now: Timestamp) -> Value {
    let time = seconds(now);
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": time});
    let container = |container: &Container| {
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": time}},
            "lastState": {},
        })
    };
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let address = format!("10.{}.{}.{}", 128 + (number >> 16) % 64, (number >> 8) % 256, number % 256);
    json!({
        "phase": "Running",
        "conditions": conditions,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": time,
        "containerStatuses": pod.spec.containers.iter().map(container).collect::<Vec<_>>(),
    })
}
