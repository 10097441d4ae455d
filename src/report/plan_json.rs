//! A plan for programs: the plan itself, with its counts and its verdict in front.

use serde_json::{Value, json};

use super::FORMAT_VERSION;
use crate::plan::Plan;

/// The plan as a document: `{formatVersion, kind, changed, counts, plan}`. `plan` is the serialised [`Plan`], with a format
/// version of its own.
///
/// # Errors
/// When the plan cannot be serialised, which would be a bug.
pub fn document(plan: &Plan) -> Result<Value, serde_json::Error> {
    Ok(json!({
        "formatVersion": FORMAT_VERSION,
        "kind": "Plan",
        "changed": plan.has_changes(),
        "counts": serde_json::to_value(plan.counts())?,
        "plan": serde_json::to_value(plan)?,
    }))
}
