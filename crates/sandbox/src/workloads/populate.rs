//! Objects of the first workloads, and their creation.

use std::collections::BTreeSet;

use crate::kubelets::report::send;
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
/// Path of all VolumeAttachments.
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// A pod in [`NAMESPACE`] that is recreated on its node whenever it is missing.
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

/// Creates all objects except the pods that the controller creates. Returns the pods that are recreated.
///
/// # Errors
/// The error of a failed request. Some objects may exist by then.
pub(super) async fn populate(client: &Client, spec: &WorkloadSpec) -> Result<Vec<ReturningPod>, kube::Error> {
    let namespaces: BTreeSet<&str> = spec.applications.iter().map(|application| &*application.namespace).collect();
    for name in namespaces {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match create(client, "/api/v1/namespaces", &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made?),
        }
    }
    for daemon_set in &spec.daemon_sets {
        create(client, &path("daemonsets", "kube-system"), &daemon_set_object(daemon_set)).await?;
    }
    for application in &spec.applications {
        let Application { namespace, name, replicas, budget } = application;
        let object = replica_set(name, *replicas, &json!({}), &pod_spec(false));
        create(client, &path("replicasets", namespace), &object).await?;
        if let Some(budget) = budget {
            create(client, &path("poddisruptionbudgets", namespace), &pod_budget(name, name, budget)).await?;
        }
    }
    let mut returning = Vec::new();
    for PodFaultSpec { node, fault } in &spec.faults {
        returning.extend(create_fault(client, node, *fault).await?);
    }
    Ok(returning)
}

/// Creates an object, and returns it as the server stores it.
async fn create(client: &Client, path: &str, object: &Value) -> Result<Value, kube::Error> {
    let request = Request::new(path).create(&PostParams::default(), object.to_string().into_bytes());
    client.request(request.map_err(kube::Error::BuildRequest)?).await
}

/// Spec of a pod with one container, which has exclusive CPUs if the CPU manager's policy is static.
fn pod_spec(exclusive_cpus: bool) -> Map<String, Value> {
    let resources = if exclusive_cpus {
        json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}})
    } else {
        json!({"requests": {"cpu": "100m", "memory": "64Mi"}})
    };
    let container = json!({"name": "main", "image": "registry.example.com/main:1", "resources": resources});
    Map::from_iter([("containers".to_owned(), json!([container]))])
}

fn daemon_set_object(DaemonSet { name, tolerates_all, exclusive_cpus }: &DaemonSet) -> Value {
    let mut spec = pod_spec(*exclusive_cpus);
    spec.insert("priorityClassName".to_owned(), "system-node-critical".into());
    if *tolerates_all {
        spec.insert("tolerations".to_owned(), json!([{"operator": "Exists"}]));
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    })
}

fn replica_set(name: &str, replicas: usize, annotations: &Value, spec: &Map<String, Value>) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec},
        },
    })
}

/// A budget of the pods with a label `app`.
fn pod_budget(name: &str, app: &str, budget: &Budget) -> Value {
    let (limit, amount) = match budget {
        Budget::MinAvailable(amount) => ("minAvailable", amount),
        Budget::MaxUnavailable(amount) => ("maxUnavailable", amount),
    };
    let amount = amount.parse::<u32>().map_or_else(|_| json!(amount), |number| json!(number));
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, limit: amount},
    })
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

/// Creates the pod of a fault on a node, with its controller, budgets and volume. Most belong to a ReplicaSet of one
/// replica. Returns the pod if it is recreated.
async fn create_fault(client: &Client, node: &NodeName, fault: PodFault) -> Result<Option<ReturningPod>, kube::Error> {
    let name = format!("{fault}-{node}");
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let mut spec = pod_spec(fault == PodFault::ExclusiveCpus);
    let mut set = |field: &str, value: Value| drop(spec.insert(field.to_owned(), value));
    let mut annotations = json!({});
    match fault {
        PodFault::Hangs => annotations = json!({HANGS: "true"}),
        PodFault::Mirror => annotations = json!({MIRROR: hash.as_str()}),
        PodFault::Returns => set("tolerations", json!([{"operator": "Exists", "effect": "NoSchedule"}])),
        PodFault::EmptyDir => set("volumes", json!([{"name": "scratch", "emptyDir": {}}])),
        PodFault::ToleratesAll => set("tolerations", json!([{"operator": "Exists"}])),
        PodFault::StuckVolume => {
            set("volumes", json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]));
        }
        PodFault::BlockedBudget | PodFault::TwoBudgets | PodFault::Unmanaged | PodFault::ExclusiveCpus => {}
    }
    let owners = match fault {
        PodFault::Unmanaged => json!([]),
        PodFault::Mirror => {
            let request = Request::new("/api/v1/nodes").get(node.as_str(), &GetParams::default());
            let owner: Value = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
            let uid = owner.pointer("/metadata/uid");
            json!([{"apiVersion": "v1", "kind": "Node", "name": node.as_str(), "uid": uid, "controller": true}])
        }
        // The sandbox has no StatefulSets, whose pods keep their names.
        PodFault::Returns => controller("StatefulSet", &name, hash.as_str()),
        _ => {
            let object = replica_set(&name, 1, &annotations, &spec);
            let owner = create(client, &path("replicasets", NAMESPACE), &object).await?;
            controller("ReplicaSet", &name, owner.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default())
        }
    };
    spec.insert("nodeName".to_owned(), node.as_str().into());
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations, "ownerReferences": owners},
        "spec": spec,
    });
    create(client, &path("pods", NAMESPACE), &pod).await?;
    let budgets: &[&str] = match fault {
        PodFault::BlockedBudget => &[""],
        PodFault::TwoBudgets => &["-a", "-b"],
        _ => &[],
    };
    for suffix in budgets {
        let budget = pod_budget(&format!("{name}{suffix}"), &name, &Budget::MaxUnavailable("0".to_owned()));
        create(client, &path("poddisruptionbudgets", NAMESPACE), &budget).await?;
    }
    if fault == PodFault::StuckVolume {
        attach_volume(client, &name, node, hash.as_str()).await?;
    }
    let returns = matches!(fault, PodFault::Returns | PodFault::Mirror);
    Ok(returns.then(|| ReturningPod { name, node: node.clone(), object: pod }))
}

/// Attaches the volume of a claim to a node. No component detaches it.
async fn attach_volume(client: &Client, claim: &str, node: &NodeName, hash: &str) -> Result<(), kube::Error> {
    let name = format!("csi-{hash}");
    let object = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {
            "attacher": "csi.sandbox.nodecfg.dev",
            "nodeName": node.as_str(),
            "source": {"persistentVolumeName": format!("pv-{NAMESPACE}-{claim}")},
        },
    });
    create(client, ATTACHMENTS, &object).await?;
    // The server drops the status of a new object.
    let patch = Patch::Merge(json!({"status": {"attached": true}}));
    send(client, Request::new(ATTACHMENTS).patch_subresource("status", &name, &PatchParams::default(), &patch)).await
}
