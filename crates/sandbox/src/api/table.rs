//! Tables (`meta.k8s.io/v1 Table`): objects as rows of `kubectl get`, with the columns that kube-apiserver prints for
//! the kinds that nodecfg is about. Other built-in kinds have name and age; custom ones have the columns of their
//! definition.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::text;
use super::resource::{Resource, ResourceType};

/// Cell of a column for an object, at a time.
type Cell = Box<dyn Fn(&Value, Timestamp) -> Value>;

/// A column: name, type, priority (0 is always printed, others only with `-o wide`), and its cell for an object.
struct Column {
    name: String,
    kind: String,
    priority: i64,
    cell: Cell,
}

fn column(name: &str, priority: i64, cell: impl Fn(&Value, Timestamp) -> Value + 'static) -> Column {
    Column { name: name.to_owned(), kind: "string".to_owned(), priority, cell: Box::new(cell) }
}

/// Column with the text at a JSON pointer, or with `missing`.
fn text_column(name: &str, priority: i64, pointer: &'static str, missing: &'static str) -> Column {
    let cell = move |object: &Value, _| match text(object, pointer) {
        "" => missing.into(),
        found => found.into(),
    };
    column(name, priority, cell)
}

fn name() -> Column {
    text_column("Name", 0, "/metadata/name", "")
}

fn age() -> Column {
    column("Age", 0, |object, now| since(text(object, "/metadata/creationTimestamp"), now))
}

/// Rendering of a table.
pub(super) struct Table<'a> {
    /// Resource of the objects.
    pub(super) resource: &'a Resource,
    /// Data of the object in each row: `None`, `Object`, or its metadata.
    pub(super) include: &'a str,
    /// True for all events of a watch but the first, because kubectl prints columns again.
    pub(super) omits_columns: bool,
    /// Time for ages.
    pub(super) now: Timestamp,
}

impl Table<'_> {
    /// Renders objects, with the metadata of their list.
    pub(super) fn render(&self, objects: &[Value], metadata: &Value) -> Value {
        let columns = columns(self.resource);
        let definitions: Vec<Value> = columns
            .iter()
            .map(|column| {
                let format = if column.name == "Name" { "name" } else { "" };
                json!({"name": column.name, "type": column.kind, "format": format, "description": "",
                    "priority": column.priority})
            })
            .collect();
        let rows: Vec<Value> = objects.iter().map(|object| self.row(&columns, object)).collect();
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": if self.omits_columns { Value::Null } else { definitions.into() },
            "rows": rows,
        })
    }

    fn row(&self, columns: &[Column], object: &Value) -> Value {
        let cells: Vec<Value> = columns.iter().map(|column| (column.cell)(object, self.now)).collect();
        let shown = match self.include {
            "None" => return json!({"cells": cells}),
            "Object" => object.clone(),
            _ => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata")})
            }
        };
        json!({"cells": cells, "object": shown})
    }
}

fn columns(resource: &Resource) -> Vec<Column> {
    if let Some(version) = &resource.definition {
        return custom(version);
    }
    match resource.resource_type {
        ResourceType::Node => vec![
            name(),
            column("Status", 0, |node, _| node_status(node).into()),
            column("Roles", 0, |node, _| node_roles(node).into()),
            age(),
            text_column("Version", 0, "/status/nodeInfo/kubeletVersion", ""),
            column("Internal-IP", 1, |node, _| internal_address(node).into()),
            column("External-IP", 1, |_, _| "<none>".into()),
            text_column("OS-Image", 1, "/status/nodeInfo/osImage", "<unknown>"),
            text_column("Kernel-Version", 1, "/status/nodeInfo/kernelVersion", "<unknown>"),
            text_column("Container-Runtime", 1, "/status/nodeInfo/containerRuntimeVersion", "<unknown>"),
        ],
        ResourceType::ConfigMap => vec![
            name(),
            column("Data", 0, |map, _| {
                let keys = |part: &str| map.get(part).and_then(Value::as_object).map_or(0, serde_json::Map::len);
                (keys("data") + keys("binaryData")).to_string().into()
            }),
            age(),
        ],
        ResourceType::Namespace => vec![name(), text_column("Status", 0, "/status/phase", ""), age()],
        ResourceType::Lease => vec![name(), text_column("Holder", 0, "/spec/holderIdentity", ""), age()],
        ResourceType::Event => vec![
            column("Last Seen", 0, |event, now| {
                let times = ["/series/lastObservedTime", "/lastTimestamp", "/firstTimestamp", "/eventTime"];
                let seen = times.iter().map(|pointer| text(event, pointer)).find(|time| !time.is_empty());
                since(seen.unwrap_or_default(), now)
            }),
            text_column("Type", 0, "/type", ""),
            text_column("Reason", 0, "/reason", ""),
            column("Object", 0, |event, _| {
                let kind = text(event, "/involvedObject/kind").to_lowercase();
                format!("{kind}/{}", text(event, "/involvedObject/name")).into()
            }),
            column("Message", 0, |event, _| text(event, "/message").trim().into()),
        ],
        ResourceType::Pod => vec![
            name(),
            column("Ready", 0, |pod, _| {
                let all = pod.pointer("/spec/containers").and_then(Value::as_array).map_or(0, Vec::len);
                let ready = containers(pod).filter(|status| status.get("ready") == Some(&Value::Bool(true))).count();
                format!("{ready}/{all}").into()
            }),
            column("Status", 0, |pod, _| pod_status(pod).into()),
            column("Restarts", 0, |pod, _| {
                let restarts = containers(pod).filter_map(|status| status.get("restartCount")?.as_i64());
                restarts.sum::<i64>().to_string().into()
            }),
            age(),
            text_column("IP", 1, "/status/podIP", "<none>"),
            text_column("Node", 1, "/spec/nodeName", "<none>"),
        ],
        ResourceType::Definition => {
            vec![name(), text_column("Created At", 0, "/metadata/creationTimestamp", "")]
        }
        _ => vec![name(), age()],
    }
}

/// Columns of a version of a CustomResourceDefinition. Their JSONPaths name fields only.
fn custom(version: &Value) -> Vec<Column> {
    let described = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let Some(described) = described.filter(|columns| !columns.is_empty()) else { return vec![name(), age()] };
    let read = |described: &Value| {
        let pointer = text(described, "/jsonPath").replace('.', "/");
        let kind = text(described, "/type").to_owned();
        let is_date = kind == "date";
        let cell = move |object: &Value, now: Timestamp| match object.pointer(&pointer) {
            Some(Value::String(time)) if is_date => since(time, now),
            found => found.cloned().unwrap_or_default(),
        };
        let priority = described.get("priority").and_then(Value::as_i64).unwrap_or_default();
        Column { name: text(described, "/name").to_owned(), kind, priority, cell: Box::new(cell) }
    };
    std::iter::once(name()).chain(described.iter().map(read)).collect()
}

fn node_status(node: &Value) -> String {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let status = match conditions.into_iter().find(|condition| text(condition, "/type") == "Ready") {
        Some(ready) if text(ready, "/status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    format!("{status}{}", if cordoned { ",SchedulingDisabled" } else { "" })
}

fn node_roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(label, _)| label.strip_prefix("node-role.kubernetes.io/"))
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn internal_address(node: &Value) -> &str {
    let addresses = node.pointer("/status/addresses").and_then(Value::as_array).into_iter().flatten();
    let mut internal = addresses.into_iter().filter(|address| text(address, "/type") == "InternalIP");
    internal.next().map_or("<none>", |address| text(address, "/address"))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten()
}

fn pod_status(pod: &Value) -> &str {
    let phase = text(pod, "/status/phase");
    match text(pod, "/status/reason") {
        _ if !text(pod, "/metadata/deletionTimestamp").is_empty() && !super::pod::is_finished(pod) => "Terminating",
        "" => phase,
        reason => reason,
    }
}

/// Age of an RFC 3339 time in kubectl's format: longer ages are coarser (apimachinery `duration.HumanDuration`).
fn since(time: &str, now: Timestamp) -> Value {
    let Ok(time) = time.parse::<Timestamp>() else { return "<unknown>".into() };
    let seconds = now.duration_since(time).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 > 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_ages_are_coarser() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().expect("is a time");
        for (time, wanted) in [
            ("2026-01-10T00:00:01Z", "0s"),
            ("2026-01-09T23:58:01Z", "119s"),
            ("2026-01-09T23:58:00Z", "2m"),
            ("2026-01-09T23:57:55Z", "2m5s"),
            ("2026-01-09T21:00:01Z", "179m"),
            ("2026-01-09T20:50:00Z", "3h10m"),
            ("2026-01-08T00:00:01Z", "47h"),
            ("2026-01-07T23:00:00Z", "2d1h"),
            ("2025-12-01T00:00:00Z", "40d"),
            ("yesterday", "<unknown>"),
        ] {
            assert_eq!(since(time, now), wanted, "{time}");
        }
    }
}
