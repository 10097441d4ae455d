//! Validation rules of a NodeConfig: those of API servers up to 1.25 for `Node.spec.configSource` and
//! `Node.status.config` (`pkg/apis/core/validation`, ValidateNode), and limits for other fields. The schema refuses
//! missing and too long values; CEL rules refuse malformed or forbidden values with a message.

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::EffectiveStatus;
use crate::Placement;

/// Maximum length of an object name (RFC 1123 subdomain, as in API servers).
const NAME: u64 = 253;
/// Maximum length of a namespace name and of a label value.
const LABEL: u64 = 63;
/// Maximum length of a message (meta/v1 Condition).
const TEXT: u64 = 32_768;

/// Transition rule of `spec`: another source needs the hash of its content. It does not apply to unchanged sources, so
/// NodeConfigs from before `contentHash` stay valid on API servers without ratcheting (before 1.30).
const HASH_WITH_SOURCE: &str = "!has(self.configSource) || has(self.contentHash) || \
                                has(oldSelf.configSource) && self.configSource == oldSelf.configSource";

/// Completes the schema of `spec`.
pub(super) fn spec(schema: &mut Schema) {
    complete_source(property_at(schema, &["configSource"]), false);
    limit_length(property_at(schema, &["contentHash"]), 1, 128);
    if let Some(class) = property_at(schema, &["maxDisruption"]) {
        class.insert("enum".to_owned(), json!(["none", "restart", "drain", "replace"]));
    }
    limit_to_placements(schema);
    let message =
        "contentHash must be set with another configSource, or the node could run content that no one reviewed";
    add_cel_rule(schema.as_object_mut(), HASH_WITH_SOURCE, message);
}

/// Completes the schema of `status`.
pub(super) fn status(schema: &mut Schema) {
    for name in ["assigned", "active", "lastKnownGood"] {
        complete_source(property_at(schema, &["config", name]), true);
    }
    if let Some(error) = property_at(schema, &["config", "error"]) {
        error.insert("description".to_owned(), json!("Error of the assignment."));
        limit_length(Some(error), 0, TEXT);
    }
    limit_length(property_at(schema, &["contentHash"]), 1, 128);
    limit_length(property_at(schema, &["pool"]), 0, LABEL);
    limit_to_placements(schema);
    if let Some(conditions) = property_at(schema, &["conditions"]) {
        conditions.insert("maxItems".to_owned(), json!(16));
        conditions.insert("x-kubernetes-list-type".to_owned(), json!("map"));
        conditions.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
    }
}

fn limit_to_placements(schema: &mut Schema) {
    if let Some(placement) = property_at(schema, &["placement"]) {
        placement.insert("enum".to_owned(), json!(Placement::ALL));
    }
}

/// Completes the schema of what the own configuration is to the running one.
pub(super) fn effective(schema: &mut Schema) {
    let lists = [
        ("beneath", EffectiveStatus::MAX_BENEATH),
        ("overridden", EffectiveStatus::MAX_OVERRIDDEN),
        ("above", EffectiveStatus::MAX_ABOVE),
    ];
    for (name, most) in lists {
        if let Some(list) = property_at(schema, &[name]) {
            list.insert("maxItems".to_owned(), json!(most));
            list.insert("x-kubernetes-list-type".to_owned(), json!("map"));
            list.insert("x-kubernetes-list-map-keys".to_owned(), json!(["field"]));
        }
    }
    limit_length(property_at(schema, &["source"]), 1, 64);
    limit_length(property_at(schema, &["hash"]), 1, 128);
}

/// Completes the schema of a condition, with the limits of meta/v1.
pub(super) fn condition(schema: &mut Schema) {
    limit_length(property_at(schema, &["type"]), 1, 316);
    limit_length(property_at(schema, &["reason"]), 1, 1024);
    limit_length(property_at(schema, &["message"]), 0, TEXT);
    if let Some(status) = property_at(schema, &["status"]) {
        status.insert("enum".to_owned(), json!(["True", "False", "Unknown"]));
    }
    if let Some(time) = property_at(schema, &["lastTransitionTime"]) {
        time.insert("format".to_owned(), json!("date-time"));
    }
}

/// Completes the schema of the reporting agent.
pub(super) fn agent(schema: &mut Schema) {
    limit_length(property_at(schema, &["version"]), 1, 128);
    for name in ["heardAt", "trialEndsAt"] {
        if let Some(time) = property_at(schema, &[name]) {
            time.insert("format".to_owned(), json!("date-time"));
        }
    }
}

/// Removes constructs of schemars that API servers interpret differently. Unset fields are never written as null, so
/// CEL rules need not handle null. Joins the lines of descriptions.
#[cfg(feature = "definition")]
pub(super) fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| !(key == "nullable" && value.is_boolean() || key == "title" && value.is_string()));
            for (key, below) in map {
                match below {
                    Value::String(text) if key == "description" => *text = text.replace('\n', " "),
                    below => tidy(below),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Completes the schema of a configuration source. Uid and version are required in status and forbidden in spec.
fn complete_source(schema: Option<&mut Map<String, Value>>, in_status: bool) {
    let Some(schema) = schema else { return };
    require(schema, &["configMap"]);
    let Some(map) = property(schema, "configMap") else { return };
    let pinned = ["uid", "resourceVersion"];
    let named = ["kubeletConfigKey", "name", "namespace"];
    for name in named.into_iter().chain(pinned) {
        // An unset field has no default: it is refused, or means any version.
        property(map, name).and_then(|field| field.remove("default"));
    }
    limit_length(property(map, "namespace"), 1, LABEL);
    let label = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
    add_cel_rule(
        property(map, "namespace"),
        label,
        "must be an RFC 1123 label: a-z, 0-9 and '-', with a letter or digit at both ends",
    );
    limit_length(property(map, "name"), 1, NAME);
    let subdomain = r"self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')";
    add_cel_rule(
        property(map, "name"),
        subdomain,
        "must be an RFC 1123 subdomain: RFC 1123 labels with '.' between them",
    );
    limit_length(property(map, "kubeletConfigKey"), 1, NAME);
    let key = property(map, "kubeletConfigKey");
    add_cel_rule(key, "self.matches('^[-._a-zA-Z0-9]+$')", "must consist of letters, digits, '-', '_' and '.'");
    let key = property(map, "kubeletConfigKey");
    add_cel_rule(key, "self != '.' && !self.startsWith('..')", "must not be '.' nor start with '..'");
    for name in pinned {
        limit_length(property(map, name), u64::from(in_status), 128);
        if !in_status {
            let message = "must not be set in spec: the node takes whichever version it finds, and names it in status";
            add_cel_rule(property(map, name), "self == ''", message);
        }
    }
    if in_status {
        require(map, &["kubeletConfigKey", "name", "namespace", "resourceVersion", "uid"]);
    } else {
        require(map, &named);
    }
}

/// Schema of a nested property.
fn property_at<'a>(schema: &'a mut Schema, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut here = schema.as_object_mut()?;
    for name in path {
        here = property(here, name)?;
    }
    Some(here)
}

fn property<'a>(schema: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    schema.get_mut("properties")?.get_mut(name)?.as_object_mut()
}

fn require(schema: &mut Map<String, Value>, names: &[&str]) {
    schema.insert("required".to_owned(), json!(names));
}

/// Limits the length of a text, in characters.
fn limit_length(schema: Option<&mut Map<String, Value>>, least: u64, most: u64) {
    let Some(schema) = schema else { return };
    if least > 0 {
        schema.insert("minLength".to_owned(), json!(least));
    }
    schema.insert("maxLength".to_owned(), json!(most));
}

/// Adds a CEL rule.
fn add_cel_rule(schema: Option<&mut Map<String, Value>>, rule: &str, message: &str) {
    let Some(schema) = schema else { return };
    let rules = schema.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({"rule": rule, "message": message}));
    }
}

#[cfg(test)]
#[cfg(feature = "definition")]
#[path = "schema_tests.rs"]
mod tests;
