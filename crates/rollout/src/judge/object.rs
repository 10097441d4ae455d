//! The state of a Kubernetes object against the wanted one, as `kubectl wait` compares them.

use serde_json::Value;

use super::{GateState, subject, unknown};
use nodecfg_contract::ObjectRef;
use nodecfg_contract::printable::remark;
use nodecfg_fleet::gates::Wanted;
use nodecfg_fleet::gates::json_path::JsonPath;

/// Compares an object with the wanted state. A state that the object does not have, or that its controller reported for
/// an earlier generation, is unknown.
pub(super) fn judge(object: &ObjectRef, wanted: &Wanted, found: &Value) -> GateState {
    match wanted {
        Wanted::Condition { condition, status } => judge_condition(object, condition, status, found),
        Wanted::JsonPath { path, value } => judge_path(object, path, value, found),
    }
}

fn judge_condition(object: &ObjectRef, wanted: &str, status: &str, found: &Value) -> GateState {
    let conditions =
        found.pointer("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(condition) = conditions.iter().find(|one| text(one, "type") == Some(wanted)) else {
        return unknown(&format!("{} has no condition {wanted}", subject(object)));
    };
    if let Some(why) = stale(object, found, condition.get("observedGeneration")) {
        return unknown(&why);
    }
    match text(condition, "status") {
        Some(now) if now == status => GateState::Passes { known: 0 },
        Some(now @ ("True" | "False" | "Unknown")) => {
            let details: Vec<String> =
                ["reason", "message"].iter().filter_map(|key| text(condition, key)).map(remark).collect();
            let details = details.into_iter().filter(|detail| !detail.is_empty()).collect::<Vec<_>>().join(": ");
            let details = if details.is_empty() { details } else { format!(": {details}") };
            let reason = format!("{}: {} is {now}{details}", subject(object), remark(wanted));
            // The controller itself does not know.
            if now == "Unknown" { unknown(&reason) } else { GateState::Blocks { reasons: vec![reason] } }
        }
        _ => unknown(&format!("{}: condition {wanted} has no status", subject(object))),
    }
}

fn judge_path(object: &ObjectRef, path: &JsonPath, wanted: &str, found: &Value) -> GateState {
    if path.is_of_status()
        && let Some(why) = stale(object, found, None)
    {
        return unknown(&why);
    }
    let value = match path.select(found) {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) => {
            return unknown(&format!("{}: {{{path}}} is not a text, number or boolean", subject(object)));
        }
        None => return unknown(&format!("{}: {{{path}}} selects no value", subject(object))),
    };
    if value == wanted {
        return GateState::Passes { known: 0 };
    }
    let path = remark(&format!("{{{path}}}"));
    let reason = format!("{}: {path} is {}, not {}", subject(object), remark(&value), remark(wanted));
    GateState::Blocks { reasons: vec![reason] }
}

/// Why a status is of an earlier generation. Objects without generations are never stale.
fn stale(object: &ObjectRef, found: &Value, of_condition: Option<&Value>) -> Option<String> {
    let generation = found.pointer("/metadata/generation").and_then(Value::as_i64)?;
    let observed = [of_condition, found.pointer("/status/observedGeneration")];
    let observed = observed.into_iter().flatten().filter_map(Value::as_i64).min()?;
    (observed < generation)
        .then(|| format!("the status of {} is of generation {observed}, the object has {generation}", subject(object)))
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}
