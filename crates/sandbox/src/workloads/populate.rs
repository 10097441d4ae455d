//! Objects of the first workloads, and their creation.

use std::collections::BTreeSet;

use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, Patch, PatchParams, PostParams};
use nodecfg_contract::names::NodeName;
use serde_json::{Map, Value, json};

use super::facts::HANGS;
use super::fault::{PodFault, PodFaultSpec};
use super::spec::{Application, Budget, DaemonSet, WorkloadSpec};

/// Annotation of a pod that a kubelet mirrors from a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Namespace of the pods of faults.
pub(super) const NAMESPACE: &str = "default";
const NAMESPACES: &str = "/api/v1/namespaces";
/// Path of all VolumeAttachments.
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// An object to create.
struct NewObject {
    /// Path of its collection.
    path: String,
    object: Value,
    /// Path of the collection and name of a present object whose uid is that of the first owner.
    owner: Option<(String, String)>,
    /// Node of a pod that comes back.
    returns_to: Option<NodeName>,
}

/// A pod in [`NAMESPACE`] that comes back to its node whenever it is missing.
pub(super) struct ReturningPod {
    pub name: String,
    pub node: NodeName,
    pub object: Value,
}

/// Path of a resource in a namespace.
pub(super) fn path(resource: &str, namespace: &str) -> String {
    let group = match resource {
        "replicasets" | "daemonsets" => "apis/apps/v1",
        "poddisruptionbudgets" => "apis/policy/v1",
        _ => "api/v1",
    };
    format!("/{group}/namespaces/{namespace}/{resource}")
}

impl NewObject {
    fn new(path: String, object: Value) -> Self {
        Self { path, object, owner: None, returns_to: None }
    }

    fn name(&self) -> &str {
        self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Creates the object, with its status.
    async fn create(&mut self, client: &Client) -> Result<(), kube::Error> {
        if let Some((path, name)) = &self.owner {
            let request = Request::new(path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
            let owner: Value = client.request(request).await?;
            if let (Some(own), Some(uid)) =
                (self.object.pointer_mut("/metadata/ownerReferences/0/uid"), owner.pointer("/metadata/uid"))
            {
                own.clone_from(uid);
            }
        }
        let body = self.object.to_string().into_bytes();
        let request =
            Request::new(&self.path).create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
        match client.request_text(request).await {
            Err(kube::Error::Api(status)) if self.path == NAMESPACES && status.code == 409 => return Ok(()),
            made => drop(made?),
        }
        // The server drops the status of a new object.
        if let Some(status) = self.object.get("status") {
            let patch = Patch::Merge(json!({"status": status}));
            let request = Request::new(&self.path)
                .patch_subresource("status", self.name(), &PatchParams::default(), &patch)
                .map_err(kube::Error::BuildRequest)?;
            client.request_text(request).await?;
        }
        Ok(())
    }
}

/// Creates all objects except the pods that controllers create. Returns the pods that come back.
///
/// # Errors
/// The error of a failed request. Some objects may exist by then.
pub(super) async fn populate(client: &Client, spec: &WorkloadSpec) -> Result<Vec<ReturningPod>, kube::Error> {
    let mut returning = Vec::new();
    for mut new in objects(spec) {
        new.create(client).await?;
        let name = new.name().to_owned();
        returning.extend(new.returns_to.map(|node| ReturningPod { name, node, object: new.object }));
    }
    Ok(returning)
}

/// Reference to a controller.
pub(super) fn controller(kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// Returns all objects in the order of their creation, except the pods that controllers create.
fn objects(spec: &WorkloadSpec) -> Vec<NewObject> {
    let namespaces: BTreeSet<&str> =
        spec.applications.iter().map(|application| application.namespace.as_str()).collect();
    let namespace = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        NewObject::new(NAMESPACES.to_owned(), object)
    };
    let mut all: Vec<NewObject> = namespaces.into_iter().map(namespace).collect();
    all.extend(spec.daemon_sets.iter().map(daemon_set));
    all.extend(spec.applications.iter().flat_map(application));
    all.extend(spec.faults.iter().flat_map(|PodFaultSpec { node, fault }| pod(node, *fault)));
    all
}

/// Template of a pod.
struct Template {
    /// Value of the label `app`.
    name: String,
    annotations: Map<String, Value>,
    spec: Map<String, Value>,
}

impl Template {
    /// Creates a template with one container, which has exclusive CPUs if the CPU manager's policy is static.
    fn new(name: &str, exclusive_cpus: bool) -> Self {
        let resources = if exclusive_cpus {
            json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}})
        } else {
            json!({"requests": {"cpu": "100m", "memory": "64Mi"}})
        };
        let container = json!({"name": "main", "image": "registry.example.com/main:1", "resources": resources});
        let spec = Map::from_iter([("containers".to_owned(), json!([container]))]);
        Self { name: name.to_owned(), annotations: Map::new(), spec }
    }

    fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.spec.insert(field.to_owned(), value.into());
    }

    fn annotate(&mut self, key: &str, value: &str) {
        self.annotations.insert(key.to_owned(), value.into());
    }

    fn to_value(&self) -> Value {
        let metadata = json!({"labels": {"app": self.name}, "annotations": self.annotations});
        json!({"metadata": metadata, "spec": self.spec})
    }
}

fn daemon_set(daemon_set: &DaemonSet) -> NewObject {
    let name = &daemon_set.name;
    let mut template = Template::new(name, daemon_set.exclusive_cpus);
    template.set("priorityClassName", "system-node-critical");
    if daemon_set.tolerates_all {
        template.set("tolerations", json!([{"operator": "Exists"}]));
    }
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template.to_value()},
    });
    NewObject::new(path("daemonsets", "kube-system"), object)
}

fn application(application: &Application) -> Vec<NewObject> {
    let Application { namespace, name, replicas, budget, node_selector, priority_class, grace } = application;
    let mut template = Template::new(name, false);
    template.set("terminationGracePeriodSeconds", *grace);
    if !node_selector.is_empty() {
        template.set("nodeSelector", json!(node_selector));
    }
    if !priority_class.is_empty() {
        template.set("priorityClassName", priority_class.as_str());
    }
    let replica_set = replica_set(namespace, *replicas, &template);
    let (limit, amount) = match budget {
        None => return vec![replica_set],
        Some(Budget::MinAvailable(amount)) => ("minAvailable", amount),
        Some(Budget::MaxUnavailable(amount)) => ("maxUnavailable", amount),
    };
    let amount = amount.parse::<u32>().map_or_else(|_| json!(amount), |number| json!(number));
    vec![replica_set, pod_budget(namespace, name, name, &json!({limit: amount}))]
}

fn replica_set(namespace: &str, replicas: usize, template: &Template) -> NewObject {
    let name = &template.name;
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template.to_value()},
    });
    NewObject::new(path("replicasets", namespace), object)
}

/// A budget of the pods with a label `app`. `limit` is the spec without the selector.
fn pod_budget(namespace: &str, name: &str, app: &str, limit: &Value) -> NewObject {
    let mut spec = Map::from_iter([("selector".to_owned(), json!({"matchLabels": {"app": app}}))]);
    spec.extend(limit.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    let object = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": spec,
    });
    NewObject::new(path("poddisruptionbudgets", namespace), object)
}

/// The pod of a fault on a node, with its controller and budgets. Most belong to a ReplicaSet of one replica.
fn pod(node: &NodeName, fault: PodFault) -> Vec<NewObject> {
    let name = format!("{fault}-{node}");
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let mut template = Template::new(&name, fault == PodFault::ExclusiveCpus);
    match fault {
        PodFault::Hangs => template.annotate(HANGS, "true"),
        PodFault::Returns => {
            template.set("tolerations", json!([{"operator": "Exists", "effect": "NoSchedule"}]));
            template.set("nodeSelector", json!({"kubernetes.io/hostname": node.as_str()}));
        }
        PodFault::Mirror => template.annotate(MIRROR, hash.as_str()),
        PodFault::EmptyDir => template.set("volumes", json!([{"name": "scratch", "emptyDir": {}}])),
        PodFault::ToleratesAll => template.set("tolerations", json!([{"operator": "Exists"}])),
        PodFault::StuckVolume => {
            template.set("volumes", json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]));
        }
        PodFault::BlockedBudget | PodFault::TwoBudgets | PodFault::Unmanaged | PodFault::ExclusiveCpus => {}
    }
    let mut all = Vec::new();
    let (owners, owner) = match fault {
        PodFault::Unmanaged => (json!([]), None),
        PodFault::Mirror => (
            json!([{"apiVersion": "v1", "kind": "Node", "name": node.as_str(), "uid": "", "controller": true}]),
            Some(("/api/v1/nodes".to_owned(), node.to_string())),
        ),
        // The sandbox has no StatefulSets, whose pods keep their names.
        PodFault::Returns => (controller("StatefulSet", &name, hash.as_str()), None),
        _ => {
            all.push(replica_set(NAMESPACE, 1, &template));
            (controller("ReplicaSet", &name, ""), Some((path("replicasets", NAMESPACE), name.clone())))
        }
    };
    template.set("nodeName", node.as_str());
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": name},
            "annotations": template.annotations,
            "ownerReferences": owners,
        },
        "spec": template.spec,
    });
    let returns_to = matches!(fault, PodFault::Returns | PodFault::Mirror).then(|| node.clone());
    all.push(NewObject { owner, returns_to, ..NewObject::new(path("pods", NAMESPACE), pod) });
    if fault == PodFault::StuckVolume {
        all.push(attachment(&name, node, hash.as_str()));
    }
    let budgets: &[&str] = match fault {
        PodFault::BlockedBudget => &[""],
        PodFault::TwoBudgets => &["-a", "-b"],
        _ => &[],
    };
    all.extend(budgets.iter().map(|suffix| {
        let budget = format!("{name}{suffix}");
        pod_budget(NAMESPACE, &budget, &name, &json!({"maxUnavailable": 0}))
    }));
    all
}

/// The volume of a claim, attached to a node. No component detaches it.
fn attachment(claim: &str, node: &NodeName, hash: &str) -> NewObject {
    let object = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": format!("csi-{hash}")},
        "spec": {
            "attacher": "csi.sandbox.nodecfg.dev",
            "nodeName": node.as_str(),
            "source": {"persistentVolumeName": format!("pv-{NAMESPACE}-{claim}")},
        },
        "status": {"attached": true},
    });
    NewObject::new(ATTACHMENTS.to_owned(), object)
}
