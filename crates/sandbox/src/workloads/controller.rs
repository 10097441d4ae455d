//! The only controller of the sandbox: creates the pods of ReplicaSets and DaemonSets on nodes that admit them, starts
//! and ends pods on the nodes whose kubelets run, and counts the pods of PodDisruptionBudgets.
//!
//! It knows the cluster from watches and from the answers to its own writes. A change marks its namespace, and the
//! controller then compares what the namespace has with what it should have.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::core::Request;
use kube::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Interval;

use super::budget;
use super::facts::{Container, Node, Pod, PodBudget, Set, SetStatus, UNSCHEDULABLE};
use super::populate::{self, NAMESPACE, ReturningPod, controller, path};
use super::spec::WorkloadSpec;
use crate::api::time_text;
use crate::watch::{self, Change, Meta, Object, Part};

/// Longest simulated time in which a pod starts, or its containers end.
const STEP: Duration = Duration::from_secs(2);
/// Shortest real time between steps.
const SHORTEST_STEP: Duration = Duration::from_millis(1);

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
        let (sender, changes) = mpsc::unbounded_channel();
        let mut controller = Controller {
            client,
            starts_at_once: true,
            returning,
            nodes: Objects::new(),
            replica_sets: Objects::new(),
            daemon_sets: Objects::new(),
            pods: Objects::new(),
            budgets: Objects::new(),
            dirty: BTreeSet::new(),
            moving: BTreeSet::new(),
            steps: tokio::time::interval(STEP.div_f64(speed).max(SHORTEST_STEP)),
        };
        let mut tasks = JoinSet::new();
        controller.list_and_follow("/api/v1/nodes", Seen::Nodes, &sender, &mut tasks).await?;
        controller.list_and_follow("/apis/apps/v1/replicasets", Seen::ReplicaSets, &sender, &mut tasks).await?;
        controller.list_and_follow("/apis/apps/v1/daemonsets", Seen::DaemonSets, &sender, &mut tasks).await?;
        controller.list_and_follow("/api/v1/pods", Seen::Pods, &sender, &mut tasks).await?;
        let budgets = "/apis/policy/v1/poddisruptionbudgets";
        controller.list_and_follow(budgets, Seen::Budgets, &sender, &mut tasks).await?;
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

/// Namespace and name of an object.
type Key = (String, String);

/// Objects by namespace and name. The namespace of a Node is empty.
type Objects<K> = BTreeMap<Key, K>;

/// A request that changes an object.
type Write = http::Request<Vec<u8>>;

struct Controller {
    client: Client,
    /// Set while the first pods start.
    starts_at_once: bool,
    /// Pods that are recreated whenever they are missing.
    returning: Vec<ReturningPod>,
    nodes: Objects<Node>,
    replica_sets: Objects<Set>,
    daemon_sets: Objects<Set>,
    pods: Objects<Pod>,
    budgets: Objects<PodBudget>,
    /// Namespaces to compare. The empty one stands for a change of a Node, which may matter to all.
    dirty: BTreeSet<String>,
    /// Pods that start or end with the next step.
    moving: BTreeSet<Key>,
    steps: Interval,
}

impl Controller {
    /// Takes over all objects of a collection, and starts a watch of it.
    async fn list_and_follow<S: Part, T: Part>(
        &mut self,
        path: &'static str,
        wrap: fn(Change<Object<S, T>>) -> Seen,
        changes: &mpsc::UnboundedSender<Seen>,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), kube::Error> {
        let (all, version) = watch::list(&self.client, path).await?;
        self.take_over(wrap(Change::relist(all, &version)));
        let changes = changes.clone();
        // The controller runs as long as its watches.
        let take_over = move |change| drop(changes.send(wrap(change)));
        tasks.spawn(watch::follow(self.client.clone(), path, version, take_over));
        Ok(())
    }

    async fn run(mut self, mut changes: mpsc::UnboundedReceiver<Seen>) {
        loop {
            tokio::select! {
                Some(seen) = changes.recv() => {
                    self.take_over(seen);
                    while let Ok(seen) = changes.try_recv() {
                        self.take_over(seen);
                    }
                }
                _ = self.steps.tick(), if !self.moving.is_empty() => {
                    let moving = std::mem::take(&mut self.moving);
                    let pods = moving.iter().filter_map(|key| self.pods.get(key));
                    let writes: Vec<Write> = pods.filter_map(|pod| self.next_step(pod)).collect();
                    self.send(writes).await;
                }
                else => return,
            }
            self.reconcile().await;
        }
    }

    fn take_over(&mut self, seen: Seen) {
        match seen {
            Seen::Nodes(change) => take_over(&mut self.nodes, change, &mut self.dirty),
            Seen::ReplicaSets(change) => take_over(&mut self.replica_sets, change, &mut self.dirty),
            Seen::DaemonSets(change) => take_over(&mut self.daemon_sets, change, &mut self.dirty),
            Seen::Pods(change) => take_over(&mut self.pods, change, &mut self.dirty),
            Seen::Budgets(change) => take_over(&mut self.budgets, change, &mut self.dirty),
        }
    }

    /// Compares all marked namespaces. A write marks its namespace again.
    async fn reconcile(&mut self) {
        while let Some(namespace) = self.dirty.pop_first() {
            if namespace.is_empty() {
                let keys = self.pods.keys().chain(self.replica_sets.keys()).chain(self.daemon_sets.keys());
                self.dirty.extend(keys.map(|(namespace, _)| namespace.clone()));
                self.dirty.insert(NAMESPACE.to_owned());
                continue;
            }
            let mut writes = self.next_steps(&namespace);
            writes.extend(self.returning_pods(&namespace));
            writes.extend(self.daemon_pods(&namespace));
            writes.extend(self.replicas(&namespace));
            writes.extend(self.counts(&namespace));
            self.send(writes).await;
        }
    }

    /// Sends requests, and takes over the objects of the answers.
    async fn send(&mut self, requests: impl IntoIterator<Item = Write>) {
        for request in requests {
            match self.client.request::<Value>(request).await {
                Ok(object) => seen(object).into_iter().for_each(|seen| self.take_over(seen)),
                Err(error) => tracing::debug!(%error, "the controller of the sandbox could not write"),
            }
        }
    }

    /// Marks the pods that start or end. Returns their steps instead while the first pods start.
    fn next_steps(&mut self, namespace: &str) -> Vec<Write> {
        let steps = in_namespace(&self.pods, namespace);
        let steps = steps.filter_map(|(key, pod)| Some((key.clone(), self.next_step(pod)?)));
        let (moving, writes): (Vec<Key>, Vec<Write>) = steps.unzip();
        if self.starts_at_once {
            return writes;
        }
        if self.moving.is_empty() {
            self.steps.reset();
        }
        self.moving.extend(moving);
        Vec::new()
    }

    /// What the kubelet of a pod does next. The start of a kubelet marks the namespaces of its pods again.
    fn next_step(&self, pod: &Pod) -> Option<Write> {
        match self.node(&pod.spec.node_name) {
            // The pod garbage collector removes the pods of a removed Node.
            None if !pod.spec.node_name.is_empty() => delete(pod, Some(0)),
            Some(node) if node.is_ready() && pod.is_ending() => delete(pod, Some(0)),
            Some(node) if node.is_ready() && pod.is_starting() => {
                patch_status("pods", &pod.metadata, running_status(pod, nodecfg_clock::now()))
            }
            _ => None,
        }
    }

    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(&(String::new(), name.to_owned()))
    }

    /// Creates the missing ones of the pods that are recreated.
    fn returning_pods(&self, namespace: &str) -> Vec<Write> {
        let is_missing = |ReturningPod { name, node, .. }: &&ReturningPod| {
            let key = (NAMESPACE.to_owned(), name.clone());
            namespace == NAMESPACE && !self.pods.contains_key(&key) && self.node(node.as_str()).is_some()
        };
        self.returning.iter().filter(is_missing).filter_map(|pod| create_pod(namespace, &pod.object)).collect()
    }

    /// Creates the missing pods of DaemonSets, after earlier ones have ended.
    fn daemon_pods(&self, namespace: &str) -> Vec<Write> {
        let mut writes = Vec::new();
        for (_, set) in in_namespace(&self.daemon_sets, namespace) {
            let (mut object, pod) = pod_of(set, "DaemonSet");
            let covered: HashSet<&str> = self.owned_by(set).map(|pod| pod.spec.node_name.as_str()).collect();
            for (_, node) in self.nodes.iter().filter(|((_, name), _)| !covered.contains(name.as_str())) {
                if node.admits(&pod) {
                    place(&mut object, &node.metadata.name);
                    writes.extend(create_pod(namespace, &object));
                }
            }
        }
        writes
    }

    fn owned_by<'a>(&'a self, set: &'a Set) -> impl Iterator<Item = &'a Pod> {
        let pods = in_namespace(&self.pods, &set.metadata.namespace).map(|(_, pod)| pod);
        pods.filter(|pod| pod.owner() == Some(&*set.metadata.uid))
    }

    /// Creates missing pods of ReplicaSets on the nodes with the fewest pods, and deletes surplus ones. Pods that fit on no
    /// node wait for a change of one. Reports the present pods.
    fn replicas(&self, namespace: &str) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut load = LazyCell::new(|| {
            let mut load: HashMap<&str, usize> = HashMap::new();
            self.pods.values().for_each(|pod| *load.entry(&pod.spec.node_name).or_default() += 1);
            load
        });
        for (_, set) in in_namespace(&self.replica_sets, namespace) {
            let replicas = set.spec.replicas.unwrap_or(1);
            let active: Vec<&Pod> = self.owned_by(set).filter(|pod| pod.is_active()).collect();
            writes.extend(active.iter().skip(replicas).filter_map(|pod| delete(pod, None)));
            for _ in active.len()..replicas {
                let (mut object, pod) = pod_of(set, "ReplicaSet");
                let names = self.nodes.values().filter(|node| node.admits(&pod)).map(|node| &*node.metadata.name);
                let Some(node) = names.min_by_key(|name| load.get(name).copied().unwrap_or_default()) else { break };
                *load.entry(node).or_default() += 1;
                place(&mut object, node);
                writes.extend(create_pod(namespace, &object));
            }
            let status = SetStatus {
                replicas: active.len(),
                ready_replicas: active.iter().filter(|pod| pod.is_ready()).count(),
                observed_generation: set.metadata.generation,
            };
            if status != set.status {
                writes.extend(patch_status("replicasets", &set.metadata, json!(status)));
            }
        }
        writes
    }

    /// Reports what PodDisruptionBudgets allow. After another change of a budget, the server refuses its status.
    fn counts(&self, namespace: &str) -> Vec<Write> {
        let scale = |uid: &str| {
            let mut sets = in_namespace(&self.replica_sets, namespace).map(|(_, set)| set);
            sets.find(|set| set.metadata.uid == uid).map(|set| set.spec.replicas.unwrap_or(1))
        };
        let mut writes = Vec::new();
        for (_, budget) in in_namespace(&self.budgets, namespace) {
            let status = budget::status(budget, in_namespace(&self.pods, namespace).map(|(_, pod)| pod), scale);
            if status != budget.status {
                let patch = budget::patch(&budget.status, &status, nodecfg_clock::now());
                writes.extend(patch_status("poddisruptionbudgets", &budget.metadata, patch));
            }
        }
        writes
    }
}

/// Takes over a change of a collection, and marks its namespace. The answer to a write may be newer than a watched change.
fn take_over<S: Part, T: Part>(
    known: &mut Objects<Object<S, T>>,
    change: Change<Object<S, T>>,
    dirty: &mut BTreeSet<String>,
) {
    let key = |object: &Object<S, T>| (object.metadata.namespace.clone(), object.metadata.name.clone());
    match change {
        Change::Relist(all, version) => {
            dirty.extend(known.keys().map(|(namespace, _)| namespace.clone()));
            dirty.extend(all.iter().map(|object| object.metadata.namespace.clone()));
            known.retain(|_, object| object.metadata.version() > version);
            for object in all {
                known.entry(key(&object)).or_insert(object);
            }
        }
        Change::Applied(object) => {
            let old = known.get(&key(&object));
            if old.is_some_and(|old| old.metadata.version() >= object.metadata.version()) {
                return;
            }
            // Most changes of Nodes are heartbeats.
            if old.is_none_or(|old| old.differs(&object)) {
                dirty.insert(object.metadata.namespace.clone());
            }
            known.insert(key(&object), object);
        }
        Change::Deleted(object) => {
            if known.get(&key(&object)).is_some_and(|old| old.metadata.version() <= object.metadata.version()) {
                dirty.insert(object.metadata.namespace.clone());
                known.remove(&key(&object));
            }
        }
    }
}

fn in_namespace<'a, K>(all: &'a Objects<K>, namespace: &str) -> impl Iterator<Item = (&'a Key, &'a K)> + use<'a, K> {
    let namespace = namespace.to_owned();
    all.range((namespace.clone(), String::new())..).take_while(move |((of, _), _)| *of == namespace)
}

/// The object of an answer, as a change.
fn seen(object: Value) -> Option<Seen> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "Pod" => Some(Seen::Pods(Change::Applied(serde_json::from_value(object).ok()?))),
        "ReplicaSet" => Some(Seen::ReplicaSets(Change::Applied(serde_json::from_value(object).ok()?))),
        "PodDisruptionBudget" => Some(Seen::Budgets(Change::Applied(serde_json::from_value(object).ok()?))),
        _ => None,
    }
}

fn create_pod(namespace: &str, pod: &Value) -> Option<Write> {
    let body = pod.to_string().into_bytes();
    Request::new(path("pods", namespace)).create(&PostParams::default(), body).ok()
}

/// Deletes a pod. `grace` 0 removes it, as its kubelet does at the end.
fn delete(pod: &Pod, grace: Option<u32>) -> Option<Write> {
    let Meta { namespace, name, uid, .. } = &pod.metadata;
    let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
    let params = DeleteParams { grace_period_seconds: grace, preconditions, ..DeleteParams::default() };
    Request::new(path("pods", namespace)).delete(name, &params).ok()
}

/// Merges a status into an object that has not changed since.
fn patch_status(resource: &str, metadata: &Meta, status: Value) -> Option<Write> {
    let Meta { namespace, name, uid, resource_version, .. } = metadata;
    let patch = json!({"metadata": {"uid": uid, "resourceVersion": resource_version}, "status": status});
    let request = Request::new(path(resource, namespace));
    request.patch_subresource("status", name, &PatchParams::default(), &Patch::Merge(patch)).ok()
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
            tolerations.push(json!({"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}));
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

/// Status of a running and ready pod.
fn running_status(pod: &Pod, now: Timestamp) -> Value {
    let time = time_text(now);
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
    let [second, third, fourth] =
        blake3::hash(pod.metadata.uid.as_bytes()).as_bytes().first_chunk().copied().unwrap_or_default();
    let address = format!("10.{}.{third}.{fourth}", 128 + second % 64);
    json!({
        "phase": "Running",
        "conditions": conditions,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": time,
        "containerStatuses": pod.spec.containers.iter().map(container).collect::<Vec<_>>(),
    })
}
