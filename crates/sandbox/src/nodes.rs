//! Node objects of a sandbox and their creation, thousands at a time.
//!
//! Each Node is created once, as a kubelet registers itself. Later changes are up to [`kubelets`](super::kubelets).

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::Client;
use kube::core::Request;
use kube::core::params::PostParams;
use serde_json::{Value, json};

use super::api::time_text;
use super::kubelets::host_spec::HOST_ANNOTATION;
use super::kubelets::report::{NODES, Ready, ready_condition, send};
use super::kubelets::{Fault, Faults, HostSpec, aftermath, supports_dynamic_config};
use kubelet_config::capacity::{Capacity, Resource};
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{NameError, NodeName, PoolName};
use nodecfg_contract::pool_pointer::{STARTUP_TAINT, STARTUP_TAINT_EFFECT};

/// Labels that every kubelet sets on its Node. An explicit label with the same key wins.
const OWN_LABELS: [(&str, &str); 4] = [
    ("beta.kubernetes.io/arch", "amd64"),
    ("beta.kubernetes.io/os", "linux"),
    ("kubernetes.io/arch", "amd64"),
    ("kubernetes.io/os", "linux"),
];
/// Label that every kubelet sets to its own name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Description of a Node to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Name of the Node.
    pub name: NodeName,
    /// All labels of the Node.
    pub labels: BTreeMap<String, String>,
    /// Value of `status.nodeInfo.kubeletVersion`, such as `v1.21.1`.
    pub kubelet_version: String,
    /// Creates the Node with an empty `status.config`, as a kubelet with `--dynamic-config-dir` writes at start.
    /// Ignored for versions without Dynamic Kubelet Configuration.
    pub reports_config: bool,
    /// Whether the Node has devices, as faults of devices need.
    pub has_devices: bool,
    /// Whether the Node registers with nodecfg's startup taint.
    pub startup_taint: bool,
    /// Capacity of the machine.
    pub capacity: Capacity,
    /// The machine of the Node.
    pub host: HostSpec,
}

/// Capacity of a machine: 16 cores, 62 GiB of memory, 96 GiB of storage.
const MACHINE: [(Resource, u64); 3] =
    [(Resource::Cpu, 16_000), (Resource::Memory, 65_406_028 << 10), (Resource::EphemeralStorage, 101_430_960 << 10)];
/// What a kubelet without reservations of its own keeps from pods: cores in thousandths, and bytes.
const NOT_ALLOCATABLE: [(Resource, u64); 2] = [(Resource::Cpu, 110), (Resource::Memory, 3_000 << 20)];

impl NodeSpec {
    /// Creates the description of a Node with the labels of every kubelet and `labels`.
    #[must_use]
    pub fn new(name: NodeName, labels: BTreeMap<String, String>, kubelet_version: &str) -> Self {
        let mut all = own_labels(&name);
        all.extend(labels);
        let kubelet_version = kubelet_version.to_owned();
        Self {
            name,
            labels: all,
            kubelet_version,
            reports_config: true,
            has_devices: false,
            startup_taint: false,
            capacity: MACHINE
                .into_iter()
                .fold(Capacity::default(), |all, (resource, amount)| all.with(resource, amount)),
            host: HostSpec::default(),
        }
    }

    /// Applies the fault of the Node: without `--dynamic-config-dir`, the kubelet reports no configuration; faults of
    /// devices need devices.
    #[must_use]
    pub fn with_faults(mut self, faults: &Faults) -> Self {
        let fault = faults.of(&self.name);
        self.reports_config &= fault != Some(Fault::NeverAcknowledges);
        self.has_devices |= fault.as_ref().is_some_and(Fault::has_devices);
        self
    }
}

/// Labels that the kubelet of this node sets itself.
pub fn own_labels(name: &NodeName) -> BTreeMap<String, String> {
    let fixed = OWN_LABELS.map(|(key, value)| (key.to_owned(), value.to_owned()));
    // A node name can be longer than a label value.
    let hostname: String = name.as_str().chars().take(63).collect();
    let hostname = hostname.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    fixed.into_iter().chain([(HOSTNAME.to_owned(), hostname)]).collect()
}

/// Name of one node among `count` of a group, counted from 1 and zero-padded so that names sort by number.
///
/// # Errors
/// Fails if the node's name would be too long.
pub fn numbered(group: &str, number: usize, count: usize) -> Result<NodeName, NameError> {
    let width = count.to_string().len();
    NodeName::new(format!("{group}-{number:0width$}"))
}

/// Describes `count` nodes spread evenly over pools, each labeled `nodecfg.dev/pool=<pool>` and named after its pool.
/// Without pools, the nodes are named `node-…` and belong to none.
///
/// # Errors
/// Fails if a node's name would be too long.
pub fn generic(count: usize, pools: &[PoolName], kubelet_version: &str) -> Result<Vec<NodeSpec>, NameError> {
    let each = count.div_ceil(pools.len().max(1));
    (0..count)
        .map(|index| match pools.get(index % pools.len().max(1)) {
            None => Ok(NodeSpec::new(numbered("node", index + 1, count)?, BTreeMap::new(), kubelet_version)),
            Some(pool) => {
                let name = numbered(pool.as_str(), index / pools.len() + 1, each)?;
                let labels = BTreeMap::from([(POOL_LABEL.to_owned(), pool.to_string())]);
                Ok(NodeSpec::new(name, labels, kubelet_version))
            }
        })
        .collect()
}

/// Node as its kubelet registers it at `now`. With 50 images, the most that a kubelet reports, it has about 14 kB.
#[must_use]
pub fn node_object(spec: &NodeSpec, now: Timestamp, images: usize) -> Value {
    let time = time_text(now);
    let name = spec.name.as_str();
    let dynamic = spec.reports_config && supports_dynamic_config(&spec.kubelet_version);
    let number = u32::from_be_bytes(*blake3::hash(name.as_bytes()).as_bytes().first_chunk().unwrap_or(&[0; 4]));
    let [_, second, third, fourth] = number.to_be_bytes();
    let resources = |capacity: Capacity| {
        let mut resources = json!({"hugepages-1Gi": "0", "hugepages-2Mi": "0", "pods": "110"});
        for resource in Resource::ALL {
            let amount = capacity.of(resource).unwrap_or_default();
            let text = if amount.is_multiple_of(1000) && resource == Resource::Cpu {
                (amount / 1000).to_string()
            } else {
                resource.amount_text(amount)
            };
            resources.as_object_mut().into_iter().for_each(|all| {
                all.insert(resource.as_str().to_owned(), text.clone().into());
            });
        }
        resources
    };
    let allocatable = NOT_ALLOCATABLE.into_iter().fold(spec.capacity, |left, (resource, kept)| {
        left.with(resource, left.of(resource).unwrap_or_default().saturating_sub(kept))
    });
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": time, "lastTransitionTime": time,
        })
    };
    let (status, reason, message) = ready_condition(Ready::Yes);
    let mut annotations = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
    if let (true, Some(annotations)) = (spec.host != HostSpec::default(), annotations.as_object_mut()) {
        annotations.insert(HOST_ANNOTATION.to_owned(), json!(spec.host).to_string().into());
    }
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": spec.labels,
            "annotations": annotations,
        },
        "spec": {"providerID": format!("sandbox://{name}")},
        "status": {
            "capacity": resources(spec.capacity),
            "allocatable": resources(allocatable),
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", status, reason, message),
            ],
            "addresses": [
                {"type": "InternalIP", "address": format!("10.{second}.{third}.{fourth}")},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": format!("{number:032x}"),
                "systemUUID": format!("{number:08x}-0000-4000-8000-{number:012x}"),
                "bootID": format!("{number:08x}-0000-4000-9000-{number:012x}"),
                "kernelVersion": "5.10.0-28-amd64",
                "osImage": "Debian GNU/Linux 11 (bullseye)",
                "containerRuntimeVersion": "containerd://1.4.13",
                "kubeletVersion": spec.kubelet_version,
                "kubeProxyVersion": spec.kubelet_version,
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": (0..images).map(image).collect::<Vec<_>>(),
        },
    });
    if let (true, Some(fields)) = (spec.startup_taint, object.get_mut("spec").and_then(Value::as_object_mut)) {
        fields.insert("taints".to_owned(), json!([{"key": STARTUP_TAINT, "effect": STARTUP_TAINT_EFFECT}]));
    }
    if spec.has_devices {
        for list in ["capacity", "allocatable"] {
            if let Some(list) = object.pointer_mut(&format!("/status/{list}")).and_then(Value::as_object_mut) {
                list.insert(aftermath::RESOURCE.to_owned(), aftermath::AMOUNT.to_string().into());
            }
        }
    }
    if dynamic && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("config".to_owned(), json!({}));
    }
    object
}

fn image(index: usize) -> Value {
    let repository = format!("registry.example.com/platform/service-{index:03}");
    let digest = blake3::hash(repository.as_bytes()).to_hex();
    json!({
        "names": [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.{index}.0")],
        "sizeBytes": 40_000_000 + index * 1_234_567,
    })
}

/// Error that prevented the creation of a Node.
#[derive(Debug, thiserror::Error)]
#[error("could not create node {node} of the sandbox: {source}; use an empty cluster or other node names")]
pub struct CreateError {
    /// The Node that was not created.
    pub node: NodeName,
    /// Error of the request.
    pub source: Box<kube::Error>,
}

/// Creates Nodes one after the other.
///
/// # Errors
/// Returns the first failure. Other Nodes may exist by then.
pub async fn create(
    client: &Client,
    specs: impl IntoIterator<Item = NodeSpec>,
    now: Timestamp,
    images: usize,
) -> Result<(), CreateError> {
    for spec in specs {
        let body = node_object(&spec, now, images).to_string().into_bytes();
        let created = send(client, Request::new(NODES).create(&PostParams::default(), body)).await;
        created.map_err(|source| CreateError { node: spec.name, source: Box::new(source) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(names: &[&str]) -> Vec<PoolName> {
        names.iter().map(|name| PoolName::new(*name).unwrap()).collect()
    }

    #[test]
    fn generic_nodes_spread_evenly_over_pools() {
        let nodes = generic(5, &pools(&["a", "b"]), "v1.21.1").unwrap();
        let names: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.labels[POOL_LABEL].as_str())).collect();
        assert_eq!(names, [("a-1", "a"), ("b-1", "b"), ("a-2", "a"), ("b-2", "b"), ("a-3", "a")]);
        assert_eq!(nodes[0].labels["kubernetes.io/hostname"], "a-1");
        let nodes = generic(12, &[], "v1.21.1").unwrap();
        assert_eq!((nodes[0].name.as_str(), nodes[11].name.as_str()), ("node-01", "node-12"));
        assert!(!nodes[0].labels.contains_key(POOL_LABEL));
        assert!(generic(0, &pools(&["a"]), "v1.21.1").unwrap().is_empty());
    }

    #[test]
    fn client_library_parses_node() {
        let spec = NodeSpec::new(NodeName::new("n1").unwrap(), BTreeMap::new(), "v1.21.1");
        let object = node_object(&spec, Timestamp::UNIX_EPOCH, 50);
        assert_eq!(object["status"]["config"], json!({}));
        let size = object.to_string().len();
        assert!((10_000..20_000).contains(&size), "{size}");
        let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(object).expect("a Node");
        let ready = node.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True");
    }

    #[test]
    fn only_dynamic_kubelet_reports_config() {
        let name = NodeName::new("n1").unwrap();
        let faults: Faults = ["n1=never-acknowledges".parse().unwrap()].into_iter().collect();
        let old = NodeSpec::new(name.clone(), BTreeMap::new(), "v1.21.1").with_faults(&faults);
        let new = NodeSpec::new(name, BTreeMap::new(), "v1.36.2");
        for spec in [old, new] {
            assert_eq!(node_object(&spec, Timestamp::UNIX_EPOCH, 0)["status"].get("config"), None);
        }
    }
}
