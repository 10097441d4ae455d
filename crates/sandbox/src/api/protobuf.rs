//! Decoder of request bodies in Kubernetes protobuf. kubectl sends protobuf for the few kinds that it writes through
//! typed clients (since 1.32).
//!
//! Supports only those kinds (`generated.proto` of core/v1, policy/v1, authorization/v1 and meta/v1). Skips fields that
//! its tables omit, such as those that the server always sets. Responses are JSON, which such clients also accept.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Media type of protobuf bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Prefix of every protobuf body (`runtime/serializer/protobuf`).
const MAGIC: &[u8] = b"k8s\0";

/// Type of a field.
#[derive(Clone, Copy)]
enum FieldType {
    Text,
    Texts,
    Integer,
    Boolean,
    TextMap,
    BytesMap,
    Message(&'static [Field]),
    Messages(&'static [Field]),
}

/// Number, JSON name and type of a field.
type Field = (u64, &'static str, FieldType);

use FieldType::{Boolean, BytesMap, Integer, Message, Messages, Text, TextMap, Texts};

const OBJECT_META: &[Field] = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (13, "ownerReferences", Messages(OWNER_REFERENCE)),
    (14, "finalizers", Texts),
];
const OWNER_REFERENCE: &[Field] = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Boolean),
    (7, "blockOwnerDeletion", Boolean),
];
const CONFIG_MAP: &[Field] = &[
    (1, "metadata", Message(OBJECT_META)),
    (2, "data", TextMap),
    (3, "binaryData", BytesMap),
    (4, "immutable", Boolean),
];
const NAMESPACE: &[Field] = &[(1, "metadata", Message(OBJECT_META)), (2, "spec", Message(&[(1, "finalizers", Texts)]))];
const ACCESS_REVIEW: &[Field] = &[(1, "metadata", Message(OBJECT_META)), (2, "spec", Message(ACCESS_REVIEW_SPEC))];
const ACCESS_REVIEW_SPEC: &[Field] = &[
    (1, "resourceAttributes", Message(RESOURCE_ATTRIBUTES)),
    (2, "nonResourceAttributes", Message(&[(1, "path", Text), (2, "verb", Text)])),
];
const RESOURCE_ATTRIBUTES: &[Field] = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];
const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Integer),
    (2, "preconditions", Message(&[(1, "uid", Text), (2, "resourceVersion", Text)])),
    (3, "orphanDependents", Boolean),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
];
const EVICTION: &[Field] = &[(1, "metadata", Message(OBJECT_META)), (2, "deleteOptions", Message(DELETE_OPTIONS))];

fn fields_of(kind: &str) -> Option<&'static [Field]> {
    match kind {
        "ConfigMap" => Some(CONFIG_MAP),
        "Namespace" => Some(NAMESPACE),
        "SelfSubjectAccessReview" => Some(ACCESS_REVIEW),
        "DeleteOptions" => Some(DELETE_OPTIONS),
        "Eviction" => Some(EVICTION),
        _ => None,
    }
}

/// Decodes a body. Returns `None` for a malformed body or an unsupported kind.
pub(crate) fn decode(body: &[u8]) -> Option<Value> {
    // runtime.Unknown: the kind and the encoded object.
    let envelope =
        message(body.strip_prefix(MAGIC)?, &[(1, "type", Message(&[(1, "apiVersion", Text), (2, "kind", Text)]))])?;
    let kind = envelope.pointer("/type/kind")?.as_str()?;
    let raw = Reader(body.strip_prefix(MAGIC)?).find(|field| matches!(field, Some((2, Wire::Bytes(_)))));
    let Some(Some((_, Wire::Bytes(raw)))) = raw else { return None };
    let mut object = message(raw, fields_of(kind)?)?;
    let map = object.as_object_mut()?;
    for name in ["apiVersion", "kind"] {
        map.insert(name.to_owned(), envelope.pointer(&format!("/type/{name}")).cloned().unwrap_or_default());
    }
    Some(object)
}

fn message(bytes: &[u8], fields: &[Field]) -> Option<Value> {
    let mut object = Map::new();
    for field in Reader(bytes) {
        let (number, wire) = field?;
        let Some((_, name, field_type)) = fields.iter().find(|(known, ..)| *known == number) else { continue };
        match (field_type, wire) {
            // Go writes empty strings, which JSON omits.
            (Text, Wire::Bytes([])) => {}
            (Text, Wire::Bytes(bytes)) => {
                object.insert((*name).to_owned(), text(bytes)?);
            }
            (Integer, Wire::Number(number)) => {
                object.insert((*name).to_owned(), json!(number.cast_signed()));
            }
            (Boolean, Wire::Number(number)) => {
                object.insert((*name).to_owned(), json!(number != 0));
            }
            (Message(fields), Wire::Bytes(bytes)) => {
                object.insert((*name).to_owned(), message(bytes, fields)?);
            }
            (Texts, Wire::Bytes(bytes)) => {
                object.entry(*name).or_insert_with(|| json!([])).as_array_mut()?.push(text(bytes)?);
            }
            (Messages(fields), Wire::Bytes(bytes)) => {
                object.entry(*name).or_insert_with(|| json!([])).as_array_mut()?.push(message(bytes, fields)?);
            }
            (TextMap | BytesMap, Wire::Bytes(bytes)) => {
                let (key, value) = entry(bytes)?;
                let value = if matches!(field_type, TextMap) { text(value)? } else { STANDARD.encode(value).into() };
                object.entry(*name).or_insert_with(|| json!({})).as_object_mut()?.insert(key, value);
            }
            _ => return None,
        }
    }
    Some(Value::Object(object))
}

fn text(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(Value::from)
}

/// Decodes a map entry. An empty key or value may be missing.
fn entry(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (mut key, mut value) = (String::new(), &[][..]);
    for field in Reader(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => key = std::str::from_utf8(bytes).ok()?.to_owned(),
            (2, Wire::Bytes(bytes)) => value = bytes,
            _ => return None,
        }
    }
    Some((key, value))
}

/// An encoded value.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Iterator over the fields of a message. Yields `None` for malformed data and then ends.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.number()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.number()?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length = self.number()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((tag >> 3, wire))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Option<(u64, Wire<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")], bytes].concat()
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let kind = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &kind), &field(2, raw), &field(3, b""), &field(4, b"")].concat()
    }

    #[test]
    fn decodes_config_map() {
        let metadata =
            [field(1, b"c"), field(2, b""), field(8, b""), field(11, &[field(1, b"k"), field(2, b"v")].concat())]
                .concat();
        let raw = [
            field(1, &metadata),
            field(2, &[field(1, b"kubelet"), field(2, "é".as_bytes())].concat()),
            field(3, &[field(1, b"b"), field(2, &[0xff])].concat()),
            vec![4 << 3, 0],
        ]
        .concat();
        assert_eq!(
            decode(&body("ConfigMap", &raw)),
            Some(json!({
                "metadata": {"name": "c", "labels": {"k": "v"}}, "data": {"kubelet": "é"}, "binaryData": {"b": "/w=="},
                "immutable": false, "apiVersion": "v1", "kind": "ConfigMap"
            }))
        );
    }

    #[test]
    fn rejects_malformed_bodies_and_unsupported_kinds() {
        let good = body("Namespace", &field(1, &field(1, b"n")));
        assert!(decode(&good).is_some());
        for bad in [&b""[..], b"{}", b"k8s\0", &good[1..], &good[..good.len() - 5], &body("Pod", b"")] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
        assert_eq!(decode(&body("Namespace", &[0x80; 20])), None, "an unterminated number");
    }
}
