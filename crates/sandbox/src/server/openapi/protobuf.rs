//! Protobuf encoder for OpenAPI version 2, with the messages of gnostic's `openapi.v2` (github.com/google/gnostic,
//! openapiv2).
//!
//! Supports only the fields in the sandbox's documents and drops others.

use serde_json::Value;

use super::super::field::at;

/// Encodes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, at(document, "/info/title"));
    info.text(2, at(document, "/info/version"));
    message.message(2, info);
    let mut paths = Message::default();
    for (path, item) in entries(&document["paths"]) {
        paths.message(2, named(path, path_item(item)));
    }
    message.message(8, paths);
    message.message(9, named_schemas(&document["definitions"]));
    message.0
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Message `NamedX`: a map key with its value.
fn named(name: &str, value: Message) -> Message {
    let mut message = Message::default();
    message.bytes(1, name.as_bytes());
    message.message(2, value);
    message
}

/// Messages `Definitions` and `Properties`, which have the same layout.
fn named_schemas(schemas: &Value) -> Message {
    let mut message = Message::default();
    for (name, value) in entries(schemas) {
        message.message(1, named(name, schema(value)));
    }
    message
}

fn schema(value: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, &value["$ref"]);
    message.text(2, &value["format"]);
    message.text(4, &value["description"]);
    for name in value["required"].as_array().into_iter().flatten() {
        message.text(19, name);
    }
    let additional = &value["additionalProperties"];
    if additional.is_object() {
        let mut item = Message::default();
        item.message(1, schema(additional));
        message.message(21, item);
    }
    if value["type"].is_string() {
        let mut item = Message::default();
        item.text(1, &value["type"]);
        message.message(22, item);
    }
    if value["items"].is_object() {
        let mut item = Message::default();
        item.message(1, schema(&value["items"]));
        message.message(23, item);
    }
    if value["properties"].is_object() {
        message.message(25, named_schemas(&value["properties"]));
    }
    extensions(&mut message, 31, value);
    message
}

/// The `x-` fields, each as YAML; JSON is valid YAML.
fn extensions(message: &mut Message, field: u32, value: &Value) {
    for (name, value) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
        let mut any = Message::default();
        any.bytes(2, value.to_string().as_bytes());
        message.message(field, named(name, any));
    }
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (method, field) in [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)] {
        if item[method].is_object() {
            message.message(field, operation(&item[method]));
        }
    }
    message
}

fn operation(value: &Value) -> Message {
    let mut message = Message::default();
    message.text(3, &value["description"]);
    message.text(5, &value["operationId"]);
    for parameter in value["parameters"].as_array().into_iter().flatten() {
        let mut query = Message::default();
        query.text(2, &parameter["in"]);
        query.text(4, &parameter["name"]);
        query.text(6, &parameter["type"]);
        // ParametersItem.parameter, Parameter.non_body_parameter, NonBodyParameter.query_parameter_sub_schema.
        let wrapped = [3, 2, 1].into_iter().fold(query, |inner, field| {
            let mut outer = Message::default();
            outer.message(field, inner);
            outer
        });
        message.message(8, wrapped);
    }
    let mut responses = Message::default();
    for (code, response) in entries(&value["responses"]) {
        let mut body = Message::default();
        body.text(1, &response["description"]);
        let mut either = Message::default();
        either.message(1, body);
        responses.message(1, named(code, either));
    }
    message.message(9, responses);
    extensions(&mut message, 13, value);
    message
}

/// Builder of a protobuf message, with length-delimited fields only.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        /// Wire type of texts, bytes and messages.
        const LENGTH_DELIMITED: u64 = 2;
        self.varint(u64::from(field) << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len().try_into().unwrap_or(u64::MAX));
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, message: Self) {
        self.bytes(field, &message.0);
    }

    /// Writes a non-empty text and drops other values, as proto3 drops empty ones.
    fn text(&mut self, field: u32, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn varint(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                return self.0.push(low & 0x7f);
            }
            self.0.push(low | 0x80);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn encodes_known_bytes() {
        let document = json!({
            "swagger": "2.0", "info": {"title": "K", "version": "v"}, "paths": {},
            "definitions": {"A": {"type": "object", "x-y": 1}}
        });
        let schema = [&b"\xb2\x01\x08\x0a\x06object"[..], b"\xfa\x01\x0a\x0a\x03x-y\x12\x03\x12\x011"].concat();
        let named = [&b"\x0a\x01A\x12"[..], &[u8::try_from(schema.len()).expect("short")], &schema].concat();
        let definitions = [&b"\x0a"[..], &[u8::try_from(named.len()).expect("short")], &named].concat();
        let wanted = [
            &b"\x0a\x032.0\x12\x06\x0a\x01K\x12\x01v\x42\x00\x4a"[..],
            &[u8::try_from(definitions.len()).expect("short")],
            &definitions,
        ]
        .concat();
        assert_eq!(encode(&document), wanted);
    }

    #[test]
    fn lengths_above_127_take_two_bytes() {
        let mut message = Message::default();
        message.bytes(1, &[b'x'; 300]);
        assert_eq!(&message.0[..3], [0x0a, 0xac, 0x02]);
    }
}
