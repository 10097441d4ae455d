//! Columns and cells of the built-in kinds.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::field::{at, items, text};
use super::{Column, Printer, age_at, creation_age, workloads};

type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// Printer of a built-in resource. Resources without their own printer have name and creation time.
pub(super) fn printer(group: &str, resource: &str) -> Printer {
    let column = Column::new;
    let (columns, cells): (Vec<Column>, Cells) = match (group, resource) {
        ("", "nodes") => (
            vec![
                Column::name(),
                column("Status", "string", 0, "Readiness and schedulability of the node."),
                column("Roles", "string", 0, "Roles from the labels of the node."),
                Column::age(),
                column("Version", "string", 0, "The kubelet's version, as the node reports it."),
                column("Internal-IP", "string", 1, "The first internal address of the node."),
                column("External-IP", "string", 1, "The first external address of the node."),
                column("OS-Image", "string", 1, "The operating system, as the node reports it."),
                column("Kernel-Version", "string", 1, "The kernel's version, as the node reports it."),
                column(
                    "Container-Runtime",
                    "string",
                    1,
                    "The container runtime and its version, as the node reports them.",
                ),
            ],
            node,
        ),
        ("", "configmaps") => (
            vec![Column::name(), column("Data", "string", 0, "Number of keys in the ConfigMap."), Column::age()],
            config_map,
        ),
        ("", "namespaces") => {
            (vec![Column::name(), column("Status", "string", 0, "The namespace's phase."), Column::age()], namespace)
        }
        ("" | "events.k8s.io", "events") => (event_columns(), event),
        ("", "pods") => (workloads::pod_columns(), workloads::pod),
        ("apps", "replicasets") => (workloads::replica_set_columns(), workloads::replica_set),
        ("policy", "poddisruptionbudgets") => (workloads::budget_columns(), workloads::budget),
        ("storage.k8s.io", "volumeattachments") => (workloads::attachment_columns(), workloads::attachment),
        ("coordination.k8s.io", "leases") => {
            (vec![Column::name(), column("Holder", "string", 0, "Current holder of the lease."), Column::age()], lease)
        }
        _ => (vec![Column::name(), column("Created At", "date", 0, "Time of creation of the object.")], |object, _| {
            vec![text(object, "/metadata/name").into(), at(object, "/metadata/creationTimestamp").clone()]
        }),
    };
    Printer { columns, cells: Box::new(cells) }
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        text(node, "/metadata/name").into(),
        node_status(node).into(),
        node_roles(node).into(),
        creation_age(node, now),
        text(node, "/status/nodeInfo/kubeletVersion").into(),
        node_address(node, "InternalIP").into(),
        node_address(node, "ExternalIP").into(),
        reported(node, "/status/nodeInfo/osImage").into(),
        reported(node, "/status/nodeInfo/kernelVersion").into(),
        reported(node, "/status/nodeInfo/containerRuntimeVersion").into(),
    ]
}

fn node_status(node: &Value) -> String {
    let conditions = items(node, "/status/conditions");
    let status = match conditions.iter().find(|condition| text(condition, "/type") == "Ready") {
        Some(ready) if text(ready, "/status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if at(node, "/spec/unschedulable") == true { ",SchedulingDisabled" } else { "" };
    format!("{status}{cordoned}")
}

fn node_roles(node: &Value) -> String {
    let labels = at(node, "/metadata/labels").as_object();
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(label, value)| match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if label == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn node_address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let addresses = items(node, "/status/addresses");
    let address = addresses.iter().find(|address| text(address, "/type") == kind);
    address.and_then(|address| address["address"].as_str()).unwrap_or("<none>")
}

fn reported<'a>(node: &'a Value, fact: &str) -> &'a str {
    match text(node, fact) {
        "" => "<unknown>",
        fact => fact,
    }
}

fn config_map(map: &Value, now: Timestamp) -> Vec<Value> {
    let keys = |field: &str| at(map, field).as_object().map_or(0, serde_json::Map::len);
    vec![text(map, "/metadata/name").into(), (keys("/data") + keys("/binaryData")).into(), creation_age(map, now)]
}

fn namespace(namespace: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        text(namespace, "/metadata/name").into(),
        text(namespace, "/status/phase").into(),
        creation_age(namespace, now),
    ]
}

fn lease(lease: &Value, now: Timestamp) -> Vec<Value> {
    vec![text(lease, "/metadata/name").into(), text(lease, "/spec/holderIdentity").into(), creation_age(lease, now)]
}

fn event_columns() -> Vec<Column> {
    let column = Column::new;
    vec![
        column("Last Seen", "string", 0, "Time since the last occurrence of the event."),
        column("Type", "string", 0, "Normal or Warning."),
        column("Reason", "string", 0, "Machine-readable reason, one word."),
        column("Object", "string", 0, "Object that the event concerns."),
        column("Subobject", "string", 1, "Part of the object that the event concerns."),
        column("Source", "string", 1, "Component that sent the event."),
        column("Message", "string", 0, "Description of the event."),
        column("First Seen", "string", 1, "Time since the first occurrence of the event."),
        column("Count", "string", 1, "Number of occurrences of the event."),
        column("Name", "string", 1, "Name of the event."),
    ]
}

/// Cells of an Event of core/v1, or of events.k8s.io/v1 with its field names.
fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &'static str, new: &'static str| match text(event, core) {
        "" => text(event, new),
        found => found,
    };
    let age = |pointers: &[&str]| pointers.iter().find_map(|pointer| age_at(event, pointer, now));
    let first = age(&["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]);
    let last =
        age(&["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp"]).or_else(|| first.clone());
    let count = ["/series/count", "/count", "/deprecatedCount"]
        .iter()
        .find_map(|pointer| event.pointer(pointer)?.as_i64().filter(|count| *count > 0))
        .unwrap_or(1);
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let object = match either("/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = match either("/source/component", "/deprecatedSource/component") {
        "" => either("/reportingComponent", "/reportingController"),
        component => component,
    };
    let source = match either("/source/host", "/reportingInstance") {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    let unknown = || "<unknown>".to_owned();
    vec![
        last.unwrap_or_else(unknown).into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        object.into(),
        either("/involvedObject/fieldPath", "/regarding/fieldPath").into(),
        source.into(),
        either("/message", "/note").trim().into(),
        first.unwrap_or_else(unknown).into(),
        json!(count),
        text(event, "/metadata/name").into(),
    ]
}
