//! Stored objects in the form that a client asked for.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Api;
use super::event_view;
use super::face_seam::TableRequest;
use super::object::{Change, Stored, set_field};
use super::request::Form;
use super::resource::{Nature, Resource};

/// One object, in one form.
pub(crate) struct View<'a> {
    /// The cluster.
    pub(crate) api: &'a Api,
    /// The resource that was asked for.
    pub(crate) resource: &'a Resource,
    /// The form that was asked for.
    pub(crate) form: Form,
    /// What rows of a table carry of their object.
    pub(crate) include: &'a str,
}

impl View<'_> {
    /// Whether the stored bytes can be sent as they are.
    fn is_verbatim(&self, stored: &Stored) -> bool {
        match self.resource.nature {
            Nature::NewEvent => false,
            Nature::Custom => {
                let prefix = format!("{{\"apiVersion\":\"{}\"", self.resource.api_version());
                stored.json().starts_with(prefix.as_bytes())
            }
            _ => true,
        }
    }

    /// The object, decoded, as clients of the resource see it.
    pub(crate) fn value(&self, stored: &Stored) -> Value {
        let mut value = event_view::outgoing(self.resource, stored.value());
        if self.resource.nature == Nature::Custom {
            set_field(&mut value, "apiVersion", self.resource.api_version());
        }
        value
    }

    /// The JSON of an object, as an answer or within a watch event.
    pub(crate) fn object(&self, stored: &Stored) -> Bytes {
        match self.form {
            Form::Metadata => partial(stored),
            Form::Table => match self.row(stored, false) {
                Some(table) => table.to_string().into(),
                None => self.plain(stored),
            },
            Form::Plain => self.plain(stored),
        }
    }

    fn plain(&self, stored: &Stored) -> Bytes {
        if self.is_verbatim(stored) { stored.json() } else { self.value(stored).to_string().into() }
    }

    /// The JSON of an item of a list, without its opening brace when the stored bytes are shared.
    pub(crate) fn item(&self, stored: &Stored) -> (&'static [u8], Bytes) {
        match self.form {
            Form::Metadata => (b"", partial(stored)),
            _ if self.resource.lists_typed_items() => (b"", self.plain(stored)),
            _ if self.is_verbatim(stored) => (b"{", stored.untyped()),
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

    /// The line of a watch event.
    pub(crate) fn event(&self, stored: &Stored, change: Change, first: bool) -> Bytes {
        if self.form == Form::Plain && self.is_verbatim(stored) {
            return stored.event(change);
        }
        let object = match self.form {
            Form::Table => match self.row(stored, !first) {
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

    fn row(&self, stored: &Stored, is_watch_event: bool) -> Option<Value> {
        let metadata = json!({"resourceVersion": stored.revision.to_string()});
        self.table(&[self.value(stored)], &metadata, is_watch_event)
    }

    /// Objects as a table, if somebody can print one.
    pub(crate) fn table(&self, objects: &[Value], list_meta: &Value, is_watch_event: bool) -> Option<Value> {
        self.api.face()?.table(TableRequest {
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

fn partial(stored: &Stored) -> Bytes {
    let mut json = Vec::with_capacity(256);
    json.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    json.extend_from_slice(&stored.metadata());
    json.push(b'}');
    json.into()
}
