//! Validation of objects by kind, with the messages of kube-apiserver where nodecfg's own definitions have the same
//! rules.

use serde_json::Value;

use super::object::text;
use super::server_profile::ServerProfile;
use super::status::FieldError;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
     must start and end with an alphanumeric character";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
     end with an alphanumeric character";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
     must start and end with an alphanumeric character";

/// Limit of the data of a ConfigMap, in bytes.
const CONFIG_MAP_LIMIT: usize = 1024 * 1024;
/// Limit of all annotations of an object, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn label(text: &str) -> Option<&'static str> {
    (text.len() > 63 || !is_label(text)).then_some(LABEL)
}

fn subdomain(text: &str) -> Option<&'static str> {
    (text.len() > 253 || !text.split('.').all(is_label)).then_some(SUBDOMAIN)
}

fn config_key(text: &str) -> Option<&'static str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match text {
        "" => Some(CONFIG_KEY),
        "." => Some("must not be '.'"),
        _ if text.starts_with("..") => Some("must not start with '..'"),
        _ => (text.len() > 253 || !text.chars().all(fits)).then_some(CONFIG_KEY),
    }
}

fn label_value(text: &str) -> Option<&'static str> {
    let ends =
        text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    (!text.is_empty() && (text.len() > 63 || !ends || config_key(text).is_some())).then_some(LABEL_VALUE)
}

/// The violation of a field that is not a map of texts.
fn mistyped(field: &str, value: &Value) -> Option<FieldError> {
    let fits = value.as_object().is_some_and(|map| map.values().all(Value::is_string));
    (!fits).then(|| FieldError::invalid(field, "", "must be a map of texts"))
}

/// Validates the metadata of an object, and the types of its parts. The name of a namespace is a DNS label.
pub(crate) fn metadata(object: &Value, is_namespace: bool, errors: &mut Vec<FieldError>) {
    let name = text(object, "/metadata/name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let why = if is_namespace { label(name) } else { subdomain(name) };
        errors.extend(why.map(|why| FieldError::invalid("metadata.name", name, why)));
    }
    for field in ["labels", "annotations"] {
        let found = object.pointer(&format!("/metadata/{field}"));
        errors.extend(found.and_then(|found| mistyped(&format!("metadata.{field}"), found)));
    }
    for field in ["spec", "status"] {
        let other = object.get(field).filter(|part| !part.is_object());
        errors.extend(other.map(|_| FieldError::invalid(field, "", "must be an object")));
    }
    let pairs = |pointer: &str| object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    for (_, value) in pairs("/metadata/labels") {
        let value = value.as_str().unwrap_or_default();
        errors.extend(label_value(value).map(|why| FieldError::invalid("metadata.labels", value, why)));
    }
    let size: usize =
        pairs("/metadata/annotations").map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT {
        let why = format!("must have at most {ANNOTATIONS_LIMIT} bytes");
        errors.push(FieldError::too_long("metadata.annotations", &why));
    }
}

/// Validates that an update keeps the identity of an object.
pub(crate) fn same_identity(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    for key in ["name", "namespace", "uid"] {
        let pointer = format!("/metadata/{key}");
        let value = text(new, &pointer);
        if text(old, &pointer) != value {
            errors.push(FieldError::invalid(format!("metadata.{key}"), value, "field is immutable"));
        }
    }
}

/// Validates a ConfigMap, and an update of an immutable one.
pub(crate) fn config_map(old: Option<&Value>, map: &Value, profile: ServerProfile, errors: &mut Vec<FieldError>) {
    let is_immutable = |map: &Value| map.get("immutable") == Some(&Value::Bool(true));
    if let Some(old) = old.filter(|old| is_immutable(old)) {
        let same = |part: &str| old.get(part) == map.get(part);
        let kept = [("immutable", is_immutable(map)), ("data", same("data")), ("binaryData", same("binaryData"))];
        for (field, _) in kept.into_iter().filter(|(_, kept)| !kept) {
            errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
    let pairs = |part: &str| map.get(part).and_then(Value::as_object).into_iter().flatten();
    let mut size = 0;
    for part in ["data", "binaryData"] {
        errors.extend(map.get(part).and_then(|found| mistyped(part, found)));
        for (key, value) in pairs(part) {
            errors.extend(config_key(key).map(|why| FieldError::invalid(format!("{part}[{key}]"), key, why)));
            let length = value.as_str().map_or(0, str::len);
            size += if part == "data" { length } else { length / 4 * 3 };
        }
    }
    if size > CONFIG_MAP_LIMIT {
        let bound = if profile == ServerProfile::V1_21 { "must have at most" } else { "may not be more than" };
        errors.push(FieldError::too_long("[]", &format!("{bound} {CONFIG_MAP_LIMIT} bytes")));
    }
}

/// Validates that an Event is in the namespace of its object; Events about cluster-scoped objects are in `default`.
pub(crate) fn event(event: &Value, errors: &mut Vec<FieldError>) {
    let about = text(event, "/involvedObject/namespace");
    let wanted = if about.is_empty() { "default" } else { about };
    if text(event, "/metadata/namespace") != wanted {
        errors.push(FieldError::invalid("involvedObject.namespace", about, "does not match event.namespace"));
    }
}

/// Validates `spec.configSource` of a Node, after 1.21 `pkg/apis/core/validation`.
pub(crate) fn config_source(node: &Value, errors: &mut Vec<FieldError>) {
    let Some(source) = node.pointer("/spec/configSource") else { return };
    let Some(map) = reference(source, "spec.configSource", errors) else { return };
    for key in ["uid", "resourceVersion"] {
        if map.get(key).is_some_and(|value| value != "") {
            let field = format!("spec.configSource.configMap.{key}");
            errors.push(FieldError::forbidden(field, &format!("{key} must not be set in spec")));
        }
    }
}

/// Validates `status.config` of a Node, after 1.21 `pkg/apis/core/validation`.
pub(crate) fn config_status(node: &Value, errors: &mut Vec<FieldError>) {
    for which in ["assigned", "active", "lastKnownGood"] {
        let Some(source) = node.pointer(&format!("/status/config/{which}")) else { continue };
        let path = format!("status.config.{which}");
        let Some(map) = reference(source, &path, errors) else { continue };
        for key in ["uid", "resourceVersion"].into_iter().filter(|key| map.get(*key).is_none_or(|value| value == "")) {
            errors
                .push(FieldError::required(format!("{path}.configMap.{key}"), &format!("{key} must be set in status")));
        }
    }
}

fn reference<'a>(source: &'a Value, path: &str, errors: &mut Vec<FieldError>) -> Option<&'a Value> {
    let Some(map) = source.get("configMap") else {
        errors.push(FieldError::invalid(path, "", "exactly one reference subfield must be non-nil"));
        return None;
    };
    type Rule = fn(&str) -> Option<&'static str>;
    let rules: [(&str, Rule); 3] = [("namespace", label), ("name", subdomain), ("kubeletConfigKey", config_key)];
    for (key, rule) in rules {
        let value = map.get(key).and_then(Value::as_str).unwrap_or_default();
        let field = format!("{path}.configMap.{key}");
        if value.is_empty() {
            errors.push(FieldError::required(field, &format!("{key} must be set")));
        } else {
            errors.extend(rule(value).map(|why| FieldError::invalid(field, value, why)));
        }
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accepts_and_refuses_names() {
        assert_eq!(subdomain("ip-10-0-0-1.eu-west-1.compute.internal"), None);
        assert_eq!(
            (label("kube-system"), label_value(""), label_value("a_b.C"), config_key("kubelet")),
            (None, None, None, None)
        );
        for refused in
            [subdomain("Rec_A"), subdomain(""), label("a.b"), label_value("-a"), config_key("../x"), config_key("a/b")]
        {
            assert!(refused.is_some());
        }
        let mut errors = Vec::new();
        metadata(&json!({"metadata": {"name": "Rec_A", "labels": {"a": "-x"}}}), false, &mut errors);
        assert_eq!(errors.len(), 2, "{errors:?}");
        for mistyped in [
            json!({"metadata": {"name": "a", "labels": "x"}}),
            json!({"metadata": {"name": "a", "annotations": {"x": 1}}}),
            json!({"metadata": {"name": "a"}, "spec": "x"}),
        ] {
            let mut errors = Vec::new();
            metadata(&mistyped, false, &mut errors);
            assert_eq!(errors.len(), 1, "{mistyped}: {errors:?}");
        }
        let mut errors = Vec::new();
        config_map(None, &json!({"data": {"maxPods": 110}}), ServerProfile::V1_36, &mut errors);
        assert_eq!(errors.len(), 1, "{errors:?}");
    }
}
