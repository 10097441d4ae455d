//! Validation of Node `spec.configSource` and `status.config`, after 1.21 `pkg/apis/core/validation`.

use serde_json::Value;

use super::names;
use super::text;
use crate::api::status::FieldError;

const EMPTY_SOURCE: &str = "core.NodeConfigSource{ConfigMap:(*core.ConfigMapNodeConfigSource)(nil)}";

/// Validates the desired source.
pub(crate) fn check_spec(node: &Value, errors: &mut Vec<FieldError>) {
    let Some(source) = node.pointer("/spec/configSource") else { return };
    let Some(map) = reference(source, "spec.configSource", errors) else { return };
    let at = "spec.configSource.configMap";
    for key in ["uid", "resourceVersion"] {
        if !text(map, &format!("/{key}")).is_empty() {
            errors.push(FieldError::forbidden(format!("{at}.{key}"), &format!("{key} must not be set in spec")));
        }
    }
    check_names(map, at, errors);
}

/// Validates the reported sources.
pub(crate) fn check_status(node: &Value, errors: &mut Vec<FieldError>) {
    for which in ["assigned", "active", "lastKnownGood"] {
        let Some(source) = node.pointer(&format!("/status/config/{which}")) else { continue };
        let path = format!("status.config.{which}");
        let Some(map) = reference(source, &path, errors) else { continue };
        let at = format!("{path}.configMap");
        for key in ["uid", "resourceVersion"] {
            if text(map, &format!("/{key}")).is_empty() {
                errors.push(FieldError::required(format!("{at}.{key}"), &format!("{key} must be set in status")));
            }
        }
        check_names(map, &at, errors);
    }
}

fn reference<'a>(source: &'a Value, path: &str, errors: &mut Vec<FieldError>) -> Option<&'a Value> {
    let map = source.get("configMap");
    if map.is_none() {
        let why = "exactly one reference subfield must be non-nil";
        errors.push(FieldError::invalid_shown(path, EMPTY_SOURCE, why));
    }
    map
}

fn check_names(map: &Value, at: &str, errors: &mut Vec<FieldError>) {
    type Rule = fn(&str) -> Vec<String>;
    let rules: [(&str, Rule); 3] =
        [("namespace", names::label), ("name", names::subdomain), ("kubeletConfigKey", names::config_key)];
    for (key, rule) in rules {
        let value = text(map, &format!("/{key}"));
        let field = format!("{at}.{key}");
        if value.is_empty() {
            errors.push(FieldError::required(field, &format!("{key} must be set")));
        } else {
            errors.extend(rule(value).iter().map(|why| FieldError::invalid(field.clone(), value, why)));
        }
    }
}
