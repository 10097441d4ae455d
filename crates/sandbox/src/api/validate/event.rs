//! Validation of Events, after `pkg/apis/core/validation/events.go`.

use serde_json::Value;

use super::text;
use crate::api::status::FieldError;

/// Validates that an Event and its object are in the same namespace.
pub(crate) fn check(event: &Value, errors: &mut Vec<FieldError>) {
    let own = text(event, "/metadata/namespace");
    let involved = text(event, "/involvedObject/namespace");
    let agree = if involved.is_empty() { matches!(own, "" | "default") } else { own == involved };
    if !agree {
        let why = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", involved, why));
    }
}
