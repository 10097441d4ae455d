//! Rendering of stored objects in the format that a client requests.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Api;
use super::event_view;
use super::object::{Change, StoredObject, set_field};
use super::renderer::TableRequest;
use super::request::ResponseFormat;
use super::resource::{Resource, ResourceType};

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
    /// Reports whether the stored bytes can be sent unchanged.
    fn is_verbatim(&self, stored: &StoredObject) -> bool {
        match self.resource.resource_type {
            ResourceType::EventsV1 => false,
            ResourceType::Custom => {
                let prefix = format!("{{\"apiVersion\":\"{}\"", self.resource.api_version());
                stored.json().starts_with(prefix.as_bytes())
            }
            _ => true,
        }
    }

    /// Decodes an object in the API version of the resource.
    pub(crate) fn value(&self, stored: &StoredObject) -> Value {
        let mut value = event_view::outgoing(self.resource, stored.value());
        if self.resource.resource_type == ResourceType::Custom {
            set_field(&mut value, "apiVersion", self.resource.api_version());
        }
        value
    }

    /// Returns the JSON of an object, for a response or a watch event.
    pub(crate) fn object(&self, stored: &StoredObject) -> Bytes {
        match self.format {
            ResponseFormat::Metadata => partial_metadata(stored),
            ResponseFormat::Table => match self.one_row_table(stored, false) {
                Some(table) => table.to_string().into(),
                None => self.plain(stored),
            },
            ResponseFormat::Plain => self.plain(stored),
        }
    }

    fn plain(&self, stored: &StoredObject) -> Bytes {
        if self.is_verbatim(stored) { stored.json() } else { self.value(stored).to_string().into() }
    }

    /// Returns the prefix and the JSON of a list item. The prefix is the opening brace if the JSON shares the stored
    /// bytes.
    pub(crate) fn item(&self, stored: &StoredObject) -> (&'static [u8], Bytes) {
        match self.format {
            ResponseFormat::Metadata => (b"", partial_metadata(stored)),
            _ if self.resource.lists_typed_items() => (b"", self.plain(stored)),
            _ if self.is_verbatim(stored) => (b"{", stored.list_item()),
            _ => {
                let mut value = self.value(stored);
                if let Some(map) = value.as_object_mut() {
                    map.shift_remove("apiVersion");
                    map.shift_remove("kind");
                }
                (b"", value.to_string().into())
            }
        }
    }

    /// Returns the line of a watch event. `first` is true for the first event of a stream, whose table has the column
    /// definitions.
    pub(crate) fn event(&self, stored: &StoredObject, change: Change, first: bool) -> Bytes {
        if self.format == ResponseFormat::Plain && self.is_verbatim(stored) {
            return stored.event(change);
        }
        let object = match self.format {
            ResponseFormat::Table => match self.one_row_table(stored, !first) {
                Some(table) => table.to_string().into(),
                None => self.plain(stored),
            },
            _ => self.object(stored),
        };
        let mut line = format!("{{\"type\":\"{}\",\"object\":", change.name()).into_bytes();
        line.extend_from_slice(&object);
        line.extend_from_slice(b"}\n");
        line.into()
    }

    fn one_row_table(&self, stored: &StoredObject, is_watch_event: bool) -> Option<Value> {
        let metadata = json!({"resourceVersion": stored.revision.to_string()});
        self.table(&[self.value(stored)], &metadata, is_watch_event)
    }

    /// Renders objects as a table, if the server has a renderer.
    pub(crate) fn table(&self, objects: &[Value], list_meta: &Value, is_watch_event: bool) -> Option<Value> {
        self.api.renderer()?.table(TableRequest {
            group: &self.resource.group,
            version: &self.resource.version,
            resource: &self.resource.plural,
            objects,
            include_object: if self.include.is_empty() { "Metadata" } else { self.include },
            crd: self.resource.definition.as_deref(),
            list_meta,
            now: self.api.now(),
            is_watch_event,
        })
    }
}

fn partial_metadata(stored: &StoredObject) -> Bytes {
    let mut json = Vec::with_capacity(256);
    json.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    json.extend_from_slice(&stored.metadata());
    json.push(b'}');
    json.into()
}
