//! Validation of pods and PodDisruptionBudgets, after `pkg/apis/core/validation` and `pkg/apis/policy/validation`. Only
//! what a client of the sandbox can get wrong.

use serde_json::Value;

use super::text;
use crate::api::status::FieldError;
use kubelet_config::values::unsigned32;

/// Fields of a pod's spec that an update may change.
const MUTABLE: [&str; 3] = ["activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"];

/// Validates a new or changed pod.
pub(crate) fn check_pod(old: Option<&Value>, new: &Value, errors: &mut Vec<FieldError>) {
    let containers = new.pointer("/spec/containers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        errors.push(FieldError::required("spec.containers", ""));
    }
    for (index, container) in containers.iter().enumerate() {
        for key in ["name", "image"] {
            if text(container, &format!("/{key}")).is_empty() {
                errors.push(FieldError::required(format!("spec.containers[{index}].{key}"), ""));
            }
        }
    }
    if old.is_some_and(|old| fixed_spec(old) != fixed_spec(new)) {
        let why = "pod updates may not change fields other than `spec.containers[*].image`, \
                   `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to \
                   existing tolerations) or `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                   previously negative)";
        errors.push(FieldError::forbidden("spec", why));
    }
}

/// Spec without the fields that an update may change.
fn fixed_spec(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|key, _| !MUTABLE.contains(&key.as_str()));
    }
    for list in ["/containers", "/initContainers"] {
        let containers = spec.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.shift_remove("image");
        }
    }
    spec
}

/// Validates a PodDisruptionBudget.
pub(crate) fn check_budget(budget: &Value, errors: &mut Vec<FieldError>) {
    let value = |key: &str| budget.pointer(&format!("/spec/{key}"));
    if let (Some(min), Some(max)) = (value("minAvailable"), value("maxUnavailable")) {
        let shown = format!("{{minAvailable: {min}, maxUnavailable: {max}}}");
        errors.push(FieldError::invalid_shown("spec", &shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        let field = format!("spec.{key}");
        match value(key) {
            Some(Value::Number(number)) if number.as_i64().is_none_or(|number| number < 0) => {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid_shown(field, &number.to_string(), why));
            }
            Some(Value::String(share)) if percent(share).is_none() => {
                let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                           '93%', regex used for validation is '[0-9]+%')";
                errors.push(FieldError::invalid(field, share, why));
            }
            _ => {}
        }
    }
}

/// Number of a percentage such as `25%`.
pub(crate) fn percent(text: &str) -> Option<u32> {
    unsigned32(text.strip_suffix('%')?)
}
