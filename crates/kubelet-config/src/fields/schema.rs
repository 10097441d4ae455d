//! The JSON Schema of a KubeletConfiguration for one kubelet version, generated from the tables.
//!
//! The schema covers names, types, allowed values and ranges. The kubelet may still refuse a file that matches,
//! because the schema checks no relations between fields. The kubelet refuses every file that the schema refuses,
//! except for unknown keys, which only this crate refuses. The schema applies to values as the kubelet reads them:
//! YAML's `yes` is a boolean.
//!
//! Draft 7, because most editors support it (yaml-language-server among them).

use serde_json::{Map, Value as Json, json};

use crate::fields::tls::{TlsKind, tls_names};
use crate::fields::{self, Field, FieldType, Format, Range, format};
use crate::gates::{self, GateProperties};
use crate::{API_VERSION, KIND, Minor};

/// Returns the schema of one version.
#[must_use]
pub fn schema(minor: Minor) -> Json {
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": format!("https://nodecfg.dev/schemas/kubelet/{minor}.json"),
        "title": KIND,
        "description": format!("The configuration of a kubelet {minor} ({API_VERSION})."),
        "type": "object",
        "required": ["apiVersion", "kind"],
    });
    if let Some(map) = schema.as_object_mut() {
        map.insert("properties".to_owned(), properties("", minor));
        map.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// A map that keeps the order in which entries are added.
#[derive(Default)]
struct Schema(Map<String, Json>);

impl Schema {
    fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    fn with_some(self, key: &str, value: Option<impl Into<Json>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }
}

/// Returns the fields of the object at a path that this version has.
fn properties(parent: &str, minor: Minor) -> Json {
    let known = fields::children(parent).iter().filter(|field| field.is_known_to(minor));
    known.map(|field| (field.name().to_owned(), of(field, minor))).collect()
}

fn of(field: &Field, minor: Minor) -> Json {
    let mut schema = Schema::default().with("description", description(field, minor));
    if field.is_deprecated_in(minor) {
        schema = schema.with("deprecated", true).with_some("deprecationMessage", field.replaced_by.clone());
    }
    if matches!(field.path.as_str(), "apiVersion" | "kind") {
        let only = field.allowed.at(minor).and_then(|values| values.first()).cloned();
        return Json::Object(schema.with("type", "string").with_some("const", only).0);
    }
    if field.format == Some(Format::Unset) {
        return Json::Object(schema.with("type", "null").0);
    }
    let types = field.types.at(minor).map(Vec::as_slice).unwrap_or_default();
    // A missing key of a list item is the empty string. Where the empty string is refused, null is refused too.
    let null = field.allows_null(minor) && !field.path.ends_with("[]") && !is_required(field);
    schema = schema.with("type", type_names(types, null)).with_some("enum", allowed(field, minor, null));
    for one in types {
        schema = match one {
            FieldType::Object => object(schema, field, minor),
            FieldType::Array => schema.with_some("items", fields::items(&field.path).map(|items| of(items, minor))),
            FieldType::Integer => bounded(schema, field, minor, true),
            FieldType::Number => bounded(schema, field, minor, false),
            FieldType::Duration => schema.with("pattern", format::DURATION),
            FieldType::Quantity => schema.with("pattern", format::QUANTITY),
            FieldType::String => schema.with_some("pattern", field.format.and_then(Format::pattern)),
            FieldType::Boolean => schema,
        };
    }
    let default = field.default.at(minor).filter(|default| !default.is_null());
    Json::Object(schema.with_some("default", default.cloned()).0)
}

/// Reports whether a list item is refused without this field.
fn is_required(field: &Field) -> bool {
    field.format.is_some_and(Format::refuses_empty) && field.path.contains("[].")
}

fn type_names(types: &[FieldType], null: bool) -> Json {
    let mut names: Vec<&str> = Vec::new();
    for one in types {
        names.extend_from_slice(match one {
            FieldType::String | FieldType::Duration => &["string"],
            FieldType::Integer => &["integer"],
            FieldType::Number => &["number"],
            FieldType::Boolean => &["boolean"],
            FieldType::Object => &["object"],
            FieldType::Array => &["array"],
            FieldType::Quantity => &["string", "number"],
        });
    }
    if null {
        names.push("null");
    }
    match names.as_slice() {
        [one] => json!(one),
        _ => json!(names),
    }
}

/// Returns the allowed values. The empty string means the default in fields that are not Go pointers.
fn allowed(field: &Field, minor: Minor, null: bool) -> Option<Json> {
    match field.format {
        Some(Format::CipherSuite) => {
            return Some(tls_names(TlsKind::Cipher, minor).map(|name| json!(name.value)).collect());
        }
        Some(Format::Curve) => {
            return Some(tls_names(TlsKind::Curve, minor).filter_map(|name| name.value.parse::<u16>().ok()).collect());
        }
        _ => {}
    }
    let values = field.allowed.at(minor)?;
    let mut values: Vec<Json> = values.iter().map(|value| json!(value)).collect();
    if !field.keeps_zero(minor) && !field.path.ends_with("[]") {
        values.push(json!(""));
    }
    if null {
        values.push(Json::Null);
    }
    Some(Json::Array(values))
}

/// Returns the gates of a version. A locked gate has its default or is absent.
fn gates(minor: Minor) -> Json {
    let gate = |(name, at): (&str, GateProperties)| {
        let state = format!(
            "{}, {}{}.",
            at.stage,
            if at.default { "on" } else { "off" },
            if at.locked { ", locked" } else { "" }
        );
        let idle = if at.kubelet { "" } else { " The kubelet accepts this gate and does not use it." };
        let schema = Schema::default().with("description", format!("{state}{idle}"));
        let schema = match (at.locked, at.default) {
            (true, true) => schema.with("type", "boolean").with("enum", json!([true])),
            (true, false) => schema.with("type", json!(["boolean", "null"])).with("enum", json!([false, null])),
            (false, _) => schema.with("type", json!(["boolean", "null"])),
        };
        (name.to_owned(), Json::Object(schema.with("default", at.default).0))
    };
    gates::all_known(minor).map(gate).collect()
}

fn object(schema: Schema, field: &Field, minor: Minor) -> Schema {
    if field.path == "featureGates" {
        return schema.with("properties", gates(minor)).with("additionalProperties", false);
    }
    let Some(values) = fields::child(&field.path, "any key") else {
        let children = fields::children(&field.path).iter().filter(|field| is_required(field));
        let required: Vec<&str> = children.map(|field| field.name()).collect();
        let schema = schema.with("properties", properties(&field.path, minor)).with("additionalProperties", false);
        return if required.is_empty() { schema } else { schema.with("required", json!(required)) };
    };
    let value = of(values, minor);
    let Some(keys) = field.keys.at(minor) else { return schema.with("additionalProperties", value) };
    let of_kind = |pattern: bool| keys.iter().filter(move |key| *key != "*" && key.ends_with('*') == pattern);
    let exact: Map<_, _> = of_kind(false).map(|key| (key.clone(), value.clone())).collect();
    let begins = |key: &String| (format!("^{}", key.trim_end_matches('*')), value.clone());
    let beginnings: Map<_, _> = of_kind(true).map(begins).collect();
    let others = if keys.iter().any(|key| key == "*") { value } else { false.into() };
    let schema = schema.with("properties", exact);
    let schema = if beginnings.is_empty() { schema } else { schema.with("patternProperties", beginnings) };
    schema.with("additionalProperties", others)
}

/// Adds the bounds of a number: the allowed range, and for a whole number also the bounds of its Go type.
fn bounded(schema: Schema, field: &Field, minor: Minor, whole: bool) -> Schema {
    let range = field.range.at(minor).copied().unwrap_or_default();
    let Range { minimum, exclusive, maximum, multiple_of } = range;
    let minimum =
        if whole { Some(minimum.map_or(field.min_value(), |bound| bound.max(field.min_value()))) } else { minimum };
    let maximum =
        if whole { Some(maximum.map_or(field.max_value(), |most| most.min(field.max_value()))) } else { maximum };
    schema
        .with_some(if exclusive { "exclusiveMinimum" } else { "minimum" }, minimum)
        .with_some("maximum", maximum)
        .with_some("multipleOf", multiple_of)
}

fn description(field: &Field, minor: Minor) -> String {
    let mut text = field.description.clone();
    if let Some(gate) = field.gate.at(minor) {
        text.push_str(&format!(" Feature gate: {gate}."));
    }
    if let Some(since) = field.deprecated_since.filter(|since| *since <= minor) {
        text.push_str(&format!(" Deprecated since {since}."));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minor: u32, pointer: &str) -> Json {
        let schema = schema(Minor(minor));
        schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in 1.{minor}")).clone()
    }

    #[test]
    fn fields_differ_between_versions() {
        assert_eq!(at(36, "/$id"), "https://nodecfg.dev/schemas/kubelet/1.36.json");
        assert_eq!(at(36, "/properties/kind/const"), KIND);
        assert_eq!(schema(Minor(29)).pointer("/properties/podLogsDir"), None);
        assert_eq!(at(30, "/properties/podLogsDir/type"), json!(["string", "null"]));
        assert_eq!(at(26, "/properties/eventBurst/default"), 10);
        assert_eq!(at(27, "/properties/eventBurst/default"), 100);
        assert_eq!(at(27, "/properties/logging/properties/flushFrequency/type"), json!(["integer", "null"]));
        assert_eq!(at(28, "/properties/logging/properties/flushFrequency/type"), json!(["string", "integer", "null"]));
        assert_eq!(schema(Minor(27)).pointer("/properties/iptablesDropBit/deprecated"), None);
        assert_eq!(at(28, "/properties/iptablesDropBit/deprecated"), true);
        assert_eq!(schema(Minor(28)).pointer("/properties/evictionHard/properties/containerfs.available"), None);
        assert_eq!(at(29, "/properties/evictionHard/properties/containerfs.available/type"), json!(["string", "null"]));
    }

    #[test]
    fn allows_null_where_the_kubelet_does() {
        assert_eq!(at(36, "/properties/syncFrequency/type"), "string");
        assert_eq!(at(36, "/properties/cpuCFSQuotaPeriod/type"), json!(["string", "null"]));
        assert_eq!(at(36, "/properties/clusterDNS/items/type"), "string");
        assert_eq!(at(36, "/properties/registerWithTaints/items/properties/timeAdded/type"), "null");
        assert_eq!(
            at(36, "/properties/hairpinMode/enum"),
            json!(["hairpin-veth", "none", "promiscuous-bridge", "", null])
        );
    }

    #[test]
    fn numbers_have_bounds_of_type_and_rules() {
        let bounds = |pointer: &str| (at(36, &format!("{pointer}/minimum")), at(36, &format!("{pointer}/maximum")));
        assert_eq!(bounds("/properties/port"), (json!(0), json!(65_535)));
        assert_eq!(bounds("/properties/maxPods"), (json!(0), json!(i32::MAX)));
        assert_eq!(bounds("/properties/podPidsLimit"), (json!(i64::MIN), json!(i64::MAX)));
        assert_eq!(at(36, "/properties/memoryThrottlingFactor/exclusiveMinimum"), 0);
        assert_eq!(at(36, "/properties/userNamespaces/properties/idsPerPod/multipleOf"), 65_536);
    }

    #[test]
    fn maps_have_known_keys() {
        let limits = "/properties/reservedMemory/items/properties/limits";
        assert_eq!(
            at(36, &format!("{limits}/patternProperties/^hugepages-/type")),
            json!(["string", "number", "null"])
        );
        assert_eq!(at(36, &format!("{limits}/additionalProperties")), false);
        assert!(at(36, "/properties/topologyManagerPolicyOptions/additionalProperties").is_object());
        assert_eq!(at(36, "/properties/featureGates/properties/NodeSwap/enum"), json!([true]));
        assert_eq!(at(29, "/properties/featureGates/properties/NodeSwap/type"), json!(["boolean", "null"]));
        assert_eq!(schema(Minor(21)).pointer("/properties/featureGates/properties/NodeSwap"), None);
        assert_eq!(at(36, "/properties/registerWithTaints/items/required"), json!(["key"]));
    }
}
