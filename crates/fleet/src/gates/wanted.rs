//! The notation of the wanted state of a Kubernetes object, as `kubectl wait` has it.

use super::Wanted;
use super::json_path::JsonPath;

/// Reads `{.status.phase}=Running`: a path in the notation of kubectl, and the text of its value.
///
/// # Errors
/// The problem, as the continuation of a sentence.
pub fn parse_json_path_value(text: &str) -> Result<Wanted, String> {
    let Some((path, value)) = text.strip_prefix('{').and_then(|rest| rest.split_once("}=")) else {
        return Err("has not the form {<path>}=<value>".to_owned());
    };
    if value.is_empty() {
        return Err("has no value".to_owned());
    }
    let path = JsonPath::parse(path).map_err(|error| error.to_string())?;
    Ok(Wanted::JsonPath { path, value: value.to_owned() })
}

/// Reads `Available=True`.
///
/// # Errors
/// The problem, as the continuation of a sentence.
pub fn parse_condition(text: &str) -> Result<Wanted, String> {
    match text.split_once('=') {
        Some((condition, status @ ("True" | "False" | "Unknown"))) if !condition.is_empty() => {
            Ok(Wanted::Condition { condition: condition.to_owned(), status: status.to_owned() })
        }
        _ => Err("has not the form <type>=True, <type>=False or <type>=Unknown".to_owned()),
    }
}
