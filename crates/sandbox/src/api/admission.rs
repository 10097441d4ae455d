//! Admission of objects in request bodies: identity checks, decoding, and handling of unknown fields.

use serde_json::{Value, json};

use super::decode::decode;
use super::schema;
use super::status::{ApiError, ApiResult, FieldError};
use super::write_request::{FieldValidation, WriteRequest};

/// Source of an object, for the message of strict decoding errors.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Body of the request.
    Body,
    /// Result of a patch.
    Patch(&'a [u8]),
}

impl WriteRequest<'_> {
    /// Checks that a body is an object of this resource and matches the request path. Sets the namespace, and a
    /// missing `apiVersion` or `kind` of a typed resource.
    pub(crate) fn check_identity(&self, object: &mut Value) -> ApiResult<()> {
        let kind = self.resource.kind.as_str();
        let version = self.resource.stored_version();
        let Some(map) = object.as_object_mut() else {
            return Err(ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind})")));
        };
        for (name, expected) in [("apiVersion", version.as_str()), ("kind", kind)] {
            match map.get(name).and_then(Value::as_str) {
                None | Some("") if self.resource.is_typed() => {
                    map.insert(name.to_owned(), expected.into());
                }
                Some(found) if found == expected => {}
                found => {
                    let found = found.unwrap_or_default();
                    let why = match name {
                        "kind" => format!(
                            "{found} in version {:?} cannot be handled as a {kind}: no kind {found:?} is registered for \
                             version {version:?}",
                            self.resource.version
                        ),
                        _ => format!(
                            "the API version in the data ({found}) does not match the expected API version ({version})"
                        ),
                    };
                    return Err(ApiError::bad_request(why));
                }
            }
        }
        let metadata = map.entry("metadata").or_insert_with(|| json!({}));
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(ApiError::bad_request("json: cannot unmarshal metadata into Go value of type v1.ObjectMeta"));
        };
        let own = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
        if self.resource.namespaced {
            if !own.is_empty() && own != self.namespace {
                let why = format!(
                    "the namespace of the provided object does not match the namespace sent on the request ({own} != {})",
                    self.namespace
                );
                return Err(ApiError::bad_request(why));
            }
            metadata.insert("namespace".to_owned(), self.namespace.into());
        } else {
            metadata.shift_remove("namespace");
        }
        Ok(())
    }

    /// Converts a body to canonical form. Returns warnings about unknown fields.
    pub(crate) fn decode(&self, object: &mut Value, source: Source<'_>) -> ApiResult<Vec<String>> {
        let kind = self.resource.kind.as_str();
        let mut unknown = Vec::new();
        let mismatch = if self.resource.is_typed() {
            let decoding = decode(&self.resource.shape, object, kind);
            unknown = decoding.unknown;
            decoding.mismatch
        } else {
            if let Some(schema) = &self.resource.schema {
                let mut rest = object.clone();
                let mut kept = serde_json::Map::new();
                if let Some(map) = rest.as_object_mut() {
                    for key in ["apiVersion", "kind", "metadata"] {
                        kept.extend(map.shift_remove(key).map(|value| (key.to_owned(), value)));
                    }
                }
                schema::prune(schema, &mut rest, "", &mut unknown);
                kept.extend(rest.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
                *object = Value::Object(kept);
            }
            object.get_mut("metadata").and_then(|metadata| {
                let decoding = decode(self.resource.shape.child("metadata"), metadata, kind);
                unknown.extend(decoding.unknown.into_iter().map(|path| format!("metadata.{path}")));
                decoding.mismatch
            })
        };
        if let Some(why) = mismatch {
            let version = &self.resource.version;
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            )));
        }
        if unknown.is_empty() || self.field_validation == FieldValidation::Ignore {
            return Ok(Vec::new());
        }
        let texts: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        if self.field_validation == FieldValidation::Warn {
            return Ok(texts);
        }
        let why = format!("strict decoding error: {}", texts.join(", "));
        Err(match source {
            Source::Patch(bytes) => {
                let error = FieldError::invalid("patch", &String::from_utf8_lossy(bytes), &why);
                ApiError::invalid("", "", "", &[error])
            }
            Source::Body if self.resource.is_typed() => {
                let version = &self.resource.version;
                ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
            }
            Source::Body => ApiError::bad_request(why),
        })
    }
}
