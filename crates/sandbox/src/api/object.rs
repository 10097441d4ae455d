//! Stored states of objects, as the bytes that lists and watches send.
//!
//! The bytes form a whole watch frame, `{"type":"ADDED","object":{…}}` with a line feed. The store, every list and
//! every watcher share this buffer without a copy.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

/// Formats a time as `metav1.Time` does: RFC 3339 in UTC, whole seconds.
pub(crate) fn time_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Type of a change to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Created, or entered the selection.
    Added,
    /// Changed.
    Modified,
    /// Deleted, or left the selection.
    Deleted,
}

impl Change {
    /// Returns the start of the watch line, before the object.
    pub(crate) fn opening(self) -> &'static [u8] {
        match self {
            Self::Added => b"{\"type\":\"ADDED\",\"object\":",
            Self::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            Self::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

const CLOSING: &[u8] = b"}\n";

/// Stored state of an object.
#[derive(Debug)]
pub(crate) struct StoredObject {
    /// Revision that wrote this state.
    pub(crate) revision: u64,
    /// Labels, for selectors.
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// Namespace; empty for cluster-scoped objects.
    pub(crate) namespace: Box<str>,
    /// Name.
    pub(crate) name: Box<str>,
    /// `spec.nodeName`, for selectors of pods; empty if missing.
    pub(crate) node_name: Box<str>,
    /// `status.phase`, for selectors of pods and for terminating namespaces; empty if missing.
    pub(crate) phase: Box<str>,
    change: Change,
    frame: Bytes,
    /// Offset of `"metadata":` within the object.
    metadata_offset: usize,
    /// Start and end of the metadata value within the object.
    metadata: (usize, usize),
}

fn append(buffer: &mut Vec<u8>, value: &impl Serialize) {
    // Writing JSON values into memory cannot fail.
    let _ = serde_json::to_writer(buffer, value);
}

impl StoredObject {
    /// Encodes an object whose `metadata.resourceVersion` is `revision`.
    pub(crate) fn new(object: &Value, revision: u64, change: Change) -> Self {
        let empty = Map::new();
        let map = object.as_object().unwrap_or(&empty);
        let metadata = map.get("metadata").unwrap_or(&Value::Null);
        let mut frame = Vec::with_capacity(1024);
        frame.extend_from_slice(change.opening());
        let start = frame.len();
        frame.push(b'{');
        for key in ["apiVersion", "kind"] {
            append(&mut frame, &key);
            frame.push(b':');
            append(&mut frame, map.get(key).unwrap_or(&Value::Null));
            frame.push(b',');
        }
        let metadata_offset = frame.len() - start;
        frame.extend_from_slice(b"\"metadata\":");
        let opens = frame.len() - start;
        append(&mut frame, metadata);
        let closes = frame.len() - start;
        for (key, value) in map.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
            frame.push(b',');
            append(&mut frame, key);
            frame.push(b':');
            append(&mut frame, value);
        }
        frame.push(b'}');
        frame.extend_from_slice(CLOSING);
        frame.shrink_to_fit();
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().into();
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        Self {
            revision,
            labels: labels
                .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
                .collect(),
            namespace: text("namespace"),
            name: text("name"),
            node_name: object.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().into(),
            phase: object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default().into(),
            change,
            frame: frame.into(),
            metadata_offset,
            metadata: (opens, closes),
        }
    }

    fn start(&self) -> usize {
        self.change.opening().len()
    }

    /// Returns the object as JSON, sharing the stored buffer.
    pub(crate) fn json(&self) -> Bytes {
        self.frame.slice(self.start()..self.frame.len() - CLOSING.len())
    }

    /// Returns the JSON of a list item, which omits kind and version. It starts at `"metadata":`, without the opening
    /// brace.
    pub(crate) fn list_item(&self) -> Bytes {
        self.frame.slice(self.start() + self.metadata_offset..self.frame.len() - CLOSING.len())
    }

    /// Returns the value of `metadata` as JSON.
    pub(crate) fn metadata(&self) -> Bytes {
        self.frame.slice(self.start() + self.metadata.0..self.start() + self.metadata.1)
    }

    /// Reports whether the object may have owners. This search is cheaper than decoding.
    pub(crate) fn has_owners(&self) -> bool {
        self.metadata().windows(17).any(|window| window == b"\"ownerReferences\"")
    }

    /// Returns the size of the buffer in bytes.
    pub(crate) fn size(&self) -> usize {
        self.frame.len()
    }

    /// Decodes the object.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json()).unwrap_or_default()
    }

    /// Returns the watch line for a change. If the change equals the stored change, the line is the stored buffer.
    pub(crate) fn event(&self, change: Change) -> Bytes {
        if change == self.change {
            return self.frame.clone();
        }
        let mut line = Vec::with_capacity(self.frame.len() + 4);
        line.extend_from_slice(change.opening());
        line.extend_from_slice(&self.json());
        line.extend_from_slice(CLOSING);
        line.into()
    }

    /// Returns a copy of this state with another revision and change.
    pub(crate) fn with_revision(&self, revision: u64, change: Change) -> Self {
        let mut object = self.value();
        set_revision(&mut object, revision);
        Self::new(&object, revision, change)
    }
}

/// Returns the string at a JSON pointer; empty if missing.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Sets a top-level field.
pub(crate) fn set_field(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a field of the metadata. An object without metadata stays unchanged.
pub(crate) fn set_metadata(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(metadata) = object.get_mut("metadata") {
        set_field(metadata, key, value);
    }
}

/// Sets `metadata.resourceVersion`.
pub(crate) fn set_revision(object: &mut Value, revision: u64) {
    set_metadata(object, "resourceVersion", revision.to_string());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_one_buffer_for_object_item_metadata_and_event() {
        let object = json!({"kind": "Node", "spec": {"a": 1}, "metadata": {"name": "n", "labels": {"x": "y"}}, "apiVersion": "v1"});
        let stored = StoredObject::new(&object, 3, Change::Added);
        assert_eq!(stored.value(), object);
        assert_eq!(&stored.metadata()[..], br#"{"name":"n","labels":{"x":"y"}}"#);
        assert_eq!(&stored.list_item()[..], br#""metadata":{"name":"n","labels":{"x":"y"}},"spec":{"a":1}}"#);
        let event: Value = serde_json::from_slice(&stored.event(Change::Added)).unwrap();
        assert_eq!(event, json!({"type": "ADDED", "object": object}));
        assert_eq!(stored.event(Change::Added).as_ptr(), stored.event(Change::Added).as_ptr());
        let other: Value = serde_json::from_slice(&stored.event(Change::Deleted)).unwrap();
        assert_eq!(other["type"], "DELETED");
    }
}
