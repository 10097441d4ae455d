//! One stored state of an object, as the bytes that lists and watches send.
//!
//! The bytes are those of a whole watch frame, `{"type":"ADDED","object":{…}}` with a line feed, so that the same buffer
//! serves the store, every list and every watcher without a copy.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

/// A time as `metav1.Time` writes it: RFC 3339 in UTC, whole seconds.
pub(crate) fn time_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It came to be, or into view.
    Added,
    /// It changed.
    Modified,
    /// It went, or out of view.
    Deleted,
}

impl Change {
    /// The `type` of the watch event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    fn opening(self) -> &'static [u8] {
        match self {
            Self::Added => b"{\"type\":\"ADDED\",\"object\":",
            Self::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            Self::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

const CLOSING: &[u8] = b"}\n";

/// A stored state of an object.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The revision that wrote it.
    pub(crate) revision: u64,
    /// Its labels, for selecting.
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// Its namespace, empty when it has none.
    pub(crate) namespace: Box<str>,
    /// Its name.
    pub(crate) name: Box<str>,
    change: Change,
    frame: Bytes,
    /// Where `"metadata":` begins within the object.
    body: usize,
    /// Where the metadata's value begins and ends within the object.
    metadata: (usize, usize),
}

fn append(buffer: &mut Vec<u8>, value: &impl Serialize) {
    // Writing JSON values into memory has no way to fail.
    let _ = serde_json::to_writer(buffer, value);
}

impl Stored {
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
        let body = frame.len() - start;
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
            change,
            frame: frame.into(),
            body,
            metadata: (opens, closes),
        }
    }

    fn start(&self) -> usize {
        self.change.opening().len()
    }

    /// The object as JSON, sharing the stored buffer.
    pub(crate) fn json(&self) -> Bytes {
        self.frame.slice(self.start()..self.frame.len() - CLOSING.len())
    }

    /// From `"metadata":` to the closing brace: an item of a list that leaves out kind and version, without its opening
    /// brace.
    pub(crate) fn untyped(&self) -> Bytes {
        self.frame.slice(self.start() + self.body..self.frame.len() - CLOSING.len())
    }

    /// The value of `metadata` as JSON.
    pub(crate) fn metadata(&self) -> Bytes {
        self.frame.slice(self.start() + self.metadata.0..self.start() + self.metadata.1)
    }

    /// Whether it may have owners: a cheap look before the dear one.
    pub(crate) fn has_owners(&self) -> bool {
        self.metadata().windows(17).any(|window| window == b"\"ownerReferences\"")
    }

    /// Size of the buffer in bytes.
    pub(crate) fn size(&self) -> usize {
        self.frame.len()
    }

    /// The object, decoded.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json()).unwrap_or_default()
    }

    /// The line that a watch sends of it: the stored buffer itself when the event is of its own kind.
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

    /// The same state, as of a later revision that took it out of sight.
    pub(crate) fn at(&self, revision: u64, change: Change) -> Self {
        let mut object = self.value();
        set_revision(&mut object, revision);
        Self::new(&object, revision, change)
    }
}

/// Writes a top-level field.
pub(crate) fn set_field(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
}

/// Writes a field of the metadata; an object without metadata stays as it is.
pub(crate) fn set_metadata(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(metadata) = object.get_mut("metadata") {
        set_field(metadata, key, value);
    }
}

/// Writes `metadata.resourceVersion`.
pub(crate) fn set_revision(object: &mut Value, revision: u64) {
    set_metadata(object, "resourceVersion", revision.to_string());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_buffer_serves_object_item_metadata_and_event() {
        let object = json!({"kind": "Node", "spec": {"a": 1}, "metadata": {"name": "n", "labels": {"x": "y"}}, "apiVersion": "v1"});
        let stored = Stored::new(&object, 3, Change::Added);
        assert_eq!(stored.value(), object);
        assert_eq!(&stored.metadata()[..], br#"{"name":"n","labels":{"x":"y"}}"#);
        assert_eq!(&stored.untyped()[..], br#""metadata":{"name":"n","labels":{"x":"y"}},"spec":{"a":1}}"#);
        let event: Value = serde_json::from_slice(&stored.event(Change::Added)).unwrap();
        assert_eq!(event, json!({"type": "ADDED", "object": object}));
        assert_eq!(stored.event(Change::Added).as_ptr(), stored.event(Change::Added).as_ptr());
        let other: Value = serde_json::from_slice(&stored.event(Change::Deleted)).unwrap();
        assert_eq!(other["type"], "DELETED");
    }
}
