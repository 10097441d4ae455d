//! Rendering of stored objects in the format that a client requests.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Api;
use super::object::{Change, StoredObject};
use super::request::ResponseFormat;
use super::resource::Resource;
use super::table::Table;

/// Renders objects of one resource in one format.
pub(crate) struct View<'a> {
    /// Server.
    pub(crate) api: &'a Api,
    /// Requested resource.
    pub(crate) resource: &'a Resource,
    /// Requested format.
    pub(crate) format: ResponseFormat,
    /// `includeObject` option: object data in each table row.
    pub(crate) include: &'a str,
}

impl View<'_> {
    /// Returns the JSON of an object, for a response or a watch event.
    pub(crate) fn object(&self, stored: &StoredObject, omits_columns: bool) -> Bytes {
        match self.format {
            ResponseFormat::Metadata => partial_metadata(stored),
            ResponseFormat::Table => {
                let metadata = json!({"resourceVersion": stored.revision.to_string()});
                self.table(&[stored.value()], &metadata, omits_columns).to_string().into()
            }
            ResponseFormat::Plain => stored.json(),
        }
    }

    /// Returns the prefix and the JSON of a list item. The prefix is the opening brace if the JSON shares the stored
    /// bytes.
    pub(crate) fn item(&self, stored: &StoredObject) -> (&'static [u8], Bytes) {
        match self.format {
            ResponseFormat::Plain if !self.resource.is_custom() => (b"{", stored.list_item()),
            _ => (b"", self.object(stored, true)),
        }
    }

    /// Returns the line of a watch event. `first` is true for the first event of a stream, whose table has the column
    /// definitions.
    pub(crate) fn event(&self, stored: &StoredObject, change: Change, first: bool) -> Bytes {
        if self.format == ResponseFormat::Plain {
            return stored.event(change);
        }
        let mut line = change.opening().to_vec();
        line.extend_from_slice(&self.object(stored, !first));
        line.extend_from_slice(b"}\n");
        line.into()
    }

    /// Renders objects as a table.
    pub(crate) fn table(&self, objects: &[Value], metadata: &Value, omits_columns: bool) -> Value {
        let table = Table { resource: self.resource, include: self.include, omits_columns, now: self.api.now() };
        table.render(objects, metadata)
    }
}

fn partial_metadata(stored: &StoredObject) -> Bytes {
    let mut json = Vec::with_capacity(256);
    json.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    json.extend_from_slice(&stored.metadata());
    json.push(b'}');
    json.into()
}
