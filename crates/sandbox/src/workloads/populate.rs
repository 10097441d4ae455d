//! Objects of the first workloads, and their creation in the sandbox. `remote` creates them in another API server.

use std::collections::BTreeSet;

use nodecfg_contract::names::NodeName;
use serde_json::{Map, Value, json};

use super::facts::{HANGS, KEEPS_VOLUMES, MIRROR, RETURNS};
use super::fault::{PodFault, PodFaultSpec};
use super::objects::controller;
use super::spec::{Application, Budget, DaemonSet, WorkloadSpec};
use crate::api::{Api, ApiError};

/// Client that creates the objects.
const MANAGER: &str = "kubectl-create";
/// Namespace of the pods of faults.
const NAMESPACE: &str = "default";

/// An object to create.
pub(super) struct NewObject {
    pub place: Place,
    pub object: Value,
    /// Present object whose uid is that of the first owner.
    pub owner: Option<Place>,
}

/// Place of an object. A namespace is created only if it is missing.
pub(super) struct Place {
    pub group: &'static str,
    pub resource: &'static str,
    pub namespace: String,
    pub name: String,
}

impl Place {
    fn new(group: &'static str, resource: &'static str, namespace: &str, name: &str) -> Self {
        Self { group, resource, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl NewObject {
    fn new(group: &'static str, resource: &'static str, namespace: &str, object: Value) -> Self {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        Self { place: Place::new(group, resource, namespace, name), object, owner: None }
    }

    /// Sets the uid of the first owner to that of `owner`.
    pub(super) fn own(&mut self, owner: &Value) {
        if let (Some(own), Some(uid)) =
            (self.object.pointer_mut("/metadata/ownerReferences/0/uid"), owner.pointer("/metadata/uid"))
        {
            own.clone_from(uid);
        }
    }
}

/// Creates all objects except the pods that controllers create.
///
/// # Errors
/// The API server's error for the refused object.
pub(super) fn populate(api: &Api, spec: &WorkloadSpec) -> Result<(), ApiError> {
    for mut new in objects(spec) {
        if let Some(Place { group, resource, namespace, name }) = &new.owner {
            new.own(&api.get(group, resource, namespace, name).unwrap_or_default());
        }
        let Place { group, resource, namespace, name } = &new.place;
        if *resource != "namespaces" || api.get(group, resource, namespace, name).is_none() {
            api.create(group, resource, namespace, new.object, MANAGER)?;
        }
    }
    Ok(())
}

/// Returns all objects in the order of their creation, except the pods that controllers create.
pub(super) fn objects(spec: &WorkloadSpec) -> Vec<NewObject> {
    let namespaces: BTreeSet<&str> =
        spec.applications.iter().map(|application| application.namespace.as_str()).collect();
    let namespace = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        NewObject::new("", "namespaces", "", object)
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
    NewObject::new("apps", "daemonsets", "kube-system", object)
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
    NewObject::new("apps", "replicasets", namespace, object)
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
    NewObject::new("policy", "poddisruptionbudgets", namespace, object)
}

/// The pod of a fault on a node, with its controller and budgets. Most belong to a ReplicaSet of one replica.
fn pod(node: &NodeName, fault: PodFault) -> Vec<NewObject> {
    let name = format!("{fault}-{node}");
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let mut template = Template::new(&name, fault == PodFault::ExclusiveCpus);
    match fault {
        PodFault::Hangs => template.annotate(HANGS, "true"),
        PodFault::Returns => {
            template.annotate(RETURNS, "true");
            template.set("tolerations", json!([{"operator": "Exists", "effect": "NoSchedule"}]));
            template.set("nodeSelector", json!({"kubernetes.io/hostname": node.as_str()}));
        }
        PodFault::Mirror => template.annotate(MIRROR, hash.as_str()),
        PodFault::EmptyDir => template.set("volumes", json!([{"name": "scratch", "emptyDir": {}}])),
        PodFault::ToleratesAll => template.set("tolerations", json!([{"operator": "Exists"}])),
        PodFault::StuckVolume => {
            template.annotate(KEEPS_VOLUMES, "true");
            template.set("volumes", json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]));
        }
        PodFault::BlockedBudget | PodFault::TwoBudgets | PodFault::Unmanaged | PodFault::ExclusiveCpus => {}
    }
    let mut all = Vec::new();
    let (owners, owner) = match fault {
        PodFault::Unmanaged => (json!([]), None),
        PodFault::Mirror => (
            json!([{"apiVersion": "v1", "kind": "Node", "name": node.as_str(), "uid": "", "controller": true}]),
            Some(Place::new("", "nodes", "", node.as_str())),
        ),
        // The sandbox has no StatefulSets, whose pods keep their names.
        PodFault::Returns => (controller("StatefulSet", &name, hash.as_str()), None),
        _ => {
            all.push(replica_set(NAMESPACE, 1, &template));
            (controller("ReplicaSet", &name, ""), Some(Place::new("apps", "replicasets", NAMESPACE, &name)))
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
    all.push(NewObject { owner, ..NewObject::new("", "pods", NAMESPACE, pod) });
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
