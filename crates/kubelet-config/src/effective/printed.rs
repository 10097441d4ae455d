//! The values of a configuration in the form in which the kubelet prints it (`initConfigz`, Go's `encoding/json`).

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use super::{EffectiveValue, Origins};
use crate::Minor;
use crate::defaults::{is_struct, is_zero};
use crate::document::{Node, Value};
use crate::fields::{Field, FieldType, child, children, items, join};
use crate::values::quantity;

/// Fields that are printed with their zero value, because their Go tags have no `omitempty`.
const SHOWN_WITH_ZERO: [&str; 10] = [
    "containerRuntimeEndpoint",
    "logging.verbosity",
    "logging.vmodule[].filePattern",
    "logging.vmodule[].verbosity",
    "registerWithTaints[].effect",
    "registerWithTaints[].key",
    "reservedMemory[].limits",
    "reservedMemory[].numaNode",
    "shutdownGracePeriodByPodPriority[].priority",
    "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds",
];
/// The map whose values the kubelet masks, because they may be passwords.
const MASKED: &str = "staticPodURLHeader{}";

/// Reports whether the kubelet omits this value when it prints its configuration.
pub(super) fn is_omitted(value: &Node, field: &Field, minor: Minor) -> bool {
    match &value.value {
        Value::Mapping(map) => map.is_empty() && !is_struct(field),
        Value::Sequence(list) => list.is_empty() && !field.path.ends_with("{}"),
        // The values of a map have no tags.
        Value::Scalar(_) if field.path.ends_with("{}") => false,
        Value::Scalar(_) => {
            let is_shown = || {
                let types = field.types.at(minor).map(Vec::as_slice).unwrap_or_default();
                field.keeps_zero(minor)
                    || types.contains(&FieldType::Duration)
                    || types.contains(&FieldType::Quantity)
                    || SHOWN_WITH_ZERO.contains(&field.path.as_str())
            };
            is_zero(&value.to_json()) && !is_shown()
        }
    }
}

/// Returns the values by path.
pub(super) fn values(root: &Node, minor: Minor, origins: &Origins) -> BTreeMap<String, EffectiveValue> {
    let mut printer = Printer { minor, origins, values: BTreeMap::new() };
    printer.object(root, "", "");
    for name in ["apiVersion", "kind"] {
        printer.values.remove(name);
    }
    printer.values
}

struct Printer<'o> {
    minor: Minor,
    origins: &'o Origins,
    values: BTreeMap<String, EffectiveValue>,
}

impl Printer<'_> {
    /// Adds the values of an object. `parent` is its path in the table of fields.
    fn object(&mut self, node: &Node, parent: &str, path: &str) {
        for (key, entry) in node.mapping().into_iter().flatten() {
            let Some(field) = child(parent, key).filter(|field| !is_omitted(&entry.value, field, self.minor)) else {
                continue;
            };
            let path = join(path, key);
            match entry.value.mapping() {
                Some(_) if is_struct(field) => {
                    let before = self.values.len();
                    self.object(&entry.value, &field.path, &path);
                    if before == self.values.len() {
                        let by = self.origins.of(&entry.value.place);
                        self.values.insert(path, EffectiveValue { value: json!({}), by });
                    }
                }
                Some(_) => self.object(&entry.value, &field.path, &path),
                None => {
                    let (value, by) = (printed(&entry.value, field), self.origins.of(&entry.value.place));
                    self.values.insert(path, EffectiveValue { value, by });
                }
            }
        }
    }
}

fn printed(node: &Node, field: &Field) -> Json {
    if field.path == MASKED {
        return json!(["<masked>"]);
    }
    match (&node.value, items(&field.path)) {
        (Value::Sequence(list), Some(item)) => list.iter().map(|value| printed(value, item)).collect(),
        (Value::Mapping(_), _) if is_struct(field) => Json::Object(printed_item(node, field)),
        (Value::Mapping(map), _) => map
            .iter()
            .map(|(key, entry)| {
                let value = child(&field.path, key).map(|field| printed(&entry.value, field));
                (key.clone(), value.unwrap_or_else(|| entry.value.to_json()))
            })
            .collect(),
        _ => scalar(node.to_json(), field),
    }
}

/// The object of a list. Fields without `omitempty` are printed with their zero value.
fn printed_item(node: &Node, field: &Field) -> Map<String, Json> {
    let mut out = Map::new();
    for field in children(&field.path) {
        let is_shown = SHOWN_WITH_ZERO.contains(&field.path.as_str());
        let value =
            node.get(field.name()).map(|value| printed(value, field)).filter(|value| is_shown || !is_zero(value));
        let types = field.any_types();
        let zero = || match types.first() {
            Some(FieldType::String) => json!(""),
            Some(FieldType::Integer) => json!(0),
            _ => Json::Null,
        };
        if let Some(value) = value.or_else(|| is_shown.then(zero)) {
            out.insert(field.name().to_owned(), value);
        }
    }
    out
}

fn scalar(value: Json, field: &Field) -> Json {
    if !field.any_types().contains(&FieldType::Quantity) {
        return value;
    }
    let text = match &value {
        Json::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    quantity::canonical(&text).map_or(value, Json::String)
}
