//! Creation of the first workloads.

use std::collections::BTreeSet;

use nodecfg_contract::names::NodeName;
use serde_json::{Map, Value, json};

use super::fault::{PodFault, PodFaultSpec};
use super::objects::{HANGS, KEEPS_VOLUMES, MIRROR, RETURNS, controller};
use super::spec::{Application, Budget, DaemonSet, WorkloadSpec};
use crate::api::{Api, ApiError};

/// Client that creates the objects.
const MANAGER: &str = "kubectl-create";
/// Namespace of the pods of faults.
const NAMESPACE: &str = "default";

/// Creates all objects except the pods that controllers create.
///
/// # Errors
/// The API server's error for the refused object.
pub(super) fn populate(api: &Api, spec: &WorkloadSpec) -> Result<(), ApiError> {
    let namespaces: BTreeSet<&str> =
        spec.applications.iter().map(|application| application.namespace.as_str()).collect();
    for name in namespaces.into_iter().filter(|name| api.get("", "namespaces", "", name).is_none()) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        api.create("", "namespaces", "", namespace, MANAGER)?;
    }
    for daemon_set in &spec.daemon_sets {
        create_daemon_set(api, daemon_set)?;
    }
    for application in &spec.applications {
        create_application(api, application)?;
    }
    for PodFaultSpec { node, fault } in &spec.faults {
        add_pod(api, node, *fault)?;
    }
    Ok(())
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

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn create_daemon_set(api: &Api, daemon_set: &DaemonSet) -> Result<(), ApiError> {
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
    api.create("apps", "daemonsets", "kube-system", object, MANAGER).map(|_| ())
}

fn create_application(api: &Api, application: &Application) -> Result<(), ApiError> {
    let Application { namespace, name, replicas, budget, node_selector, priority_class, grace } = application;
    let mut template = Template::new(name, false);
    template.set("terminationGracePeriodSeconds", *grace);
    if !node_selector.is_empty() {
        template.set("nodeSelector", json!(node_selector));
    }
    if !priority_class.is_empty() {
        template.set("priorityClassName", priority_class.as_str());
    }
    create_replica_set(api, namespace, *replicas, &template)?;
    let (limit, amount) = match budget {
        None => return Ok(()),
        Some(Budget::MinAvailable(amount)) => ("minAvailable", amount),
        Some(Budget::MaxUnavailable(amount)) => ("maxUnavailable", amount),
    };
    let amount = amount.parse::<u32>().map_or_else(|_| json!(amount), |number| json!(number));
    create_budget(api, namespace, name, name, &json!({limit: amount}))
}

fn create_replica_set(api: &Api, namespace: &str, replicas: usize, template: &Template) -> Result<Value, ApiError> {
    let name = &template.name;
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template.to_value()},
    });
    api.create("apps", "replicasets", namespace, object, MANAGER)
}

/// Creates a budget of the pods with a label `app`. `limit` is the spec without the selector.
fn create_budget(api: &Api, namespace: &str, name: &str, app: &str, limit: &Value) -> Result<(), ApiError> {
    let mut spec = Map::from_iter([("selector".to_owned(), json!({"matchLabels": {"app": app}}))]);
    spec.extend(limit.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    let object = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": spec,
    });
    api.create("policy", "poddisruptionbudgets", namespace, object, MANAGER).map(|_| ())
}

/// Adds the pod of a fault to a node. Most belong to a ReplicaSet of one replica.
fn add_pod(api: &Api, node: &NodeName, fault: PodFault) -> Result<(), ApiError> {
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
    let owners = match fault {
        PodFault::Unmanaged => json!([]),
        PodFault::Mirror => {
            let present = api.get("", "nodes", "", node.as_str()).unwrap_or_default();
            json!([{"apiVersion": "v1", "kind": "Node", "name": node.as_str(), "uid": uid(&present), "controller": true}])
        }
        // The sandbox has no StatefulSets, whose pods keep their names.
        PodFault::Returns => controller("StatefulSet", &name, hash.as_str()),
        _ => controller("ReplicaSet", &name, uid(&create_replica_set(api, NAMESPACE, 1, &template)?)),
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
    api.create("", "pods", NAMESPACE, pod, MANAGER)?;
    let budgets: &[&str] = match fault {
        PodFault::BlockedBudget => &[""],
        PodFault::TwoBudgets => &["-a", "-b"],
        _ => &[],
    };
    for suffix in budgets {
        create_budget(api, NAMESPACE, &format!("{name}{suffix}"), &name, &json!({"maxUnavailable": 0}))?;
    }
    Ok(())
}
