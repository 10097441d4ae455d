//! Validation of ConfigMaps, after `pkg/apis/core/validation`.

use serde_json::Value;

use super::names;
use crate::api::server_profile::ServerProfile;
use crate::api::status::FieldError;

const LIMIT: usize = 1024 * 1024;

fn pairs<'a>(map: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    map.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Validates a ConfigMap.
pub(crate) fn check(map: &Value, profile: ServerProfile, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for part in ["data", "binaryData"] {
        for (key, value) in pairs(map, part) {
            let field = format!("{part}[{key}]");
            errors.extend(names::config_key(key).iter().map(|why| FieldError::invalid(field.clone(), key, why)));
            if part == "data" && map.get("binaryData").is_some_and(|binary| binary.get(key).is_some()) {
                errors.push(FieldError::invalid(field, key, "duplicate of key present in binaryData"));
            }
            let length = value.as_str().map_or(0, str::len);
            size += if part == "data" { length } else { length / 4 * 3 };
        }
    }
    if size > LIMIT {
        let why = match profile {
            ServerProfile::V1_21 => format!("must have at most {LIMIT} bytes"),
            ServerProfile::V1_36 => format!("may not be more than {LIMIT} bytes"),
        };
        errors.push(FieldError::too_long("[]", &why));
    }
}

/// Validates an update of an immutable ConfigMap.
pub(crate) fn check_update(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    if new.get("immutable") != Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden("immutable", WHY));
    }
    for part in ["data", "binaryData"] {
        if old.get(part) != new.get(part) {
            errors.push(FieldError::forbidden(part, WHY));
        }
    }
}
