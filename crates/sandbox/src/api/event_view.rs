//! The events.k8s.io/v1 view of core/v1 Events, which are stored once (`pkg/apis/events/v1/conversion.go`).

use serde_json::Value;

use super::resource::{Resource, ResourceType};

/// Field names in core/v1 and in events.k8s.io/v1.
pub(crate) const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(object: Value, from: impl Fn(&str) -> Option<&'static str>, version: &str) -> Value {
    let Value::Object(map) = object else { return object };
    let renamed = map.into_iter().map(|(key, value)| match (key.as_str(), from(&key)) {
        ("apiVersion", _) => (key, version.into()),
        (_, Some(name)) => (name.to_owned(), value),
        _ => (key, value),
    });
    Value::Object(renamed.collect())
}

/// Converts a stored object to the API version of the resource.
pub(crate) fn outgoing(resource: &Resource, object: Value) -> Value {
    if resource.resource_type != ResourceType::EventsV1 {
        return object;
    }
    let name = |key: &str| NAMES.iter().find(|(old, _)| *old == key).map(|(_, new)| *new);
    rename(object, name, "events.k8s.io/v1")
}

/// Converts an object to its stored API version.
pub(crate) fn incoming(resource: &Resource, object: Value) -> Value {
    if resource.resource_type != ResourceType::EventsV1 {
        return object;
    }
    let name = |key: &str| NAMES.iter().find(|(_, new)| *new == key).map(|(old, _)| *old);
    let stored_version = match object.get("apiVersion").and_then(Value::as_str) {
        None | Some("" | "events.k8s.io/v1") => "v1".to_owned(),
        Some(other) => other.to_owned(),
    };
    rename(object, name, &stored_version)
}
