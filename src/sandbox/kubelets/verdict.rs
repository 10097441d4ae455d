//! Whether a kubelet 1.21 would load a text as its configuration, and if not, at which of its two hurdles it stops.
//!
//! Shallow on purpose: the document's kind, the types of the fields and plain integer ranges. What it does not know, it
//! accepts, as the kubelet accepts unknown fields.

use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::contract::error_text;
use crate::kubelet::fields::{self, Field, FieldType, Minor};
use crate::kubelet::{self, duration, quantity};

/// The hurdle at which a configuration stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It could not be decoded, or its key is missing from the ConfigMap.
    Load,
    /// It was decoded and has a value that is not allowed.
    Validate,
}

impl Problem {
    /// The text that the kubelet puts into `status.config.error`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Load => error_text::LOAD,
            Self::Validate => error_text::VALIDATE,
        }
    }
}

/// Why a configuration was refused. A real kubelet says the details in its log only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Where it stopped.
    pub problem: Problem,
    /// What is wrong, for a log.
    pub message: String,
}

impl Refusal {
    fn load(message: String) -> Self {
        Self { problem: Problem::Load, message }
    }
}

/// The version whose fields and rules hold.
const MINOR: Minor = Minor(21);

/// The integer fields whose range the kubelet 1.21 checks (`ValidateKubeletConfiguration`), lowest and highest value
/// allowed. Zero is allowed where it stands for the default.
const RANGES: [(&str, i64, i64); 19] = [
    ("eventBurst", 0, i64::MAX),
    ("eventRecordQPS", 0, i64::MAX),
    ("healthzPort", 0, 65_535),
    ("imageGCHighThresholdPercent", 0, 100),
    ("imageGCLowThresholdPercent", 0, 100),
    ("iptablesDropBit", 0, 31),
    ("iptablesMasqueradeBit", 0, 31),
    ("kubeAPIBurst", 0, i64::MAX),
    ("kubeAPIQPS", 0, i64::MAX),
    ("maxOpenFiles", 0, i64::MAX),
    ("maxPods", 0, i64::MAX),
    ("nodeLeaseDurationSeconds", 0, i64::MAX),
    ("nodeStatusMaxImages", -1, i64::MAX),
    ("oomScoreAdj", -1000, 1000),
    ("podsPerCore", 0, i64::MAX),
    ("port", 0, 65_535),
    ("readOnlyPort", 0, 65_535),
    ("registryBurst", 0, i64::MAX),
    ("registryPullQPS", 0, i64::MAX),
];

/// The integer fields of 64 bits; all others have 32.
const WIDE: [&str; 2] = ["maxOpenFiles", "podPidsLimit"];

/// The one duration that may be null: the others are no pointers in Go.
const NULLABLE_DURATION: &str = "cpuCFSQuotaPeriod";

/// Judges the text of one key of a ConfigMap as the kubelet 1.21 does.
///
/// # Errors
/// When the kubelet would fall back to its last known good configuration.
pub fn verdict(text: &str) -> Result<(), Refusal> {
    let document = parse(text)?;
    let fields = document.as_object().ok_or_else(|| Refusal::load("the document is not a map".to_owned()))?;
    for (key, wanted) in [("apiVersion", kubelet::API_VERSION), ("kind", kubelet::KIND)] {
        let found = fields.get(key).and_then(Value::as_str).unwrap_or_default();
        if found != wanted {
            return Err(Refusal::load(format!("{key} is {found:?} where the kubelet knows only {wanted:?}")));
        }
    }
    check_fields("", fields)?;
    for (key, low, high) in RANGES {
        if let Some(value) = fields.get(key).and_then(whole)
            && !(low..=high).contains(&value)
        {
            let message = format!("{key} is {value}, which the kubelet does not allow");
            return Err(Refusal { problem: Problem::Validate, message });
        }
    }
    Ok(())
}

/// Reads JSON where the text begins like it, and otherwise the first YAML document as yaml.v2 in the kubelet does: with
/// the booleans and octal numbers of YAML 1.1, the last of two equal keys winning.
fn parse(text: &str) -> Result<Value, Refusal> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| Refusal::load(format!("the text is not JSON: {error}")));
    }
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        strict_booleans: false,
    };
    let mut bytes = text.as_bytes();
    let first = serde_saphyr::read_with_options::<_, Value>(&mut bytes, options).next();
    match first {
        None => Err(Refusal::load("the text is empty".to_owned())),
        Some(Ok(document)) => Ok(document),
        Some(Err(error)) => Err(Refusal::load(format!("the text is not YAML: {error}"))),
    }
}

fn check_fields(parent: &str, fields: &Map<String, Value>) -> Result<(), Refusal> {
    for (key, value) in fields {
        if let Some(field) = fields::child(parent, key) {
            check(field, value)?;
        }
    }
    Ok(())
}

/// Checks a value against the type of its field; what this version does not know is dropped unread.
fn check(field: &Field, value: &Value) -> Result<(), Refusal> {
    if MINOR < field.since || field.until < MINOR {
        return Ok(());
    }
    let is = |kind| field.any_types().contains(&kind);
    let fits = match value {
        Value::Null => !is(FieldType::Duration) || field.path == NULLABLE_DURATION,
        Value::Bool(_) => is(FieldType::Boolean),
        Value::Number(_) if is(FieldType::Integer) => {
            whole(value).is_some_and(|number| i32::try_from(number).is_ok() || WIDE.contains(&field.path.as_str()))
        }
        Value::Number(_) => is(FieldType::Number) || is(FieldType::Quantity),
        Value::String(text) => {
            is(FieldType::String)
                || is(FieldType::Duration) && duration::nanoseconds(text).is_ok()
                || is(FieldType::Quantity) && quantity::is_quantity(text)
        }
        Value::Array(items) => {
            if let Some(field) = fields::items(&field.path) {
                items.iter().try_for_each(|item| check(field, item))?;
            }
            is(FieldType::Array)
        }
        Value::Object(fields) => {
            check_fields(&field.path, fields)?;
            is(FieldType::Object)
        }
    };
    if fits { Ok(()) } else { Err(Refusal::load(format!("{} does not take {value}", field.path))) }
}

/// The whole number that a value is, however it is written.
fn whole(value: &Value) -> Option<i64> {
    // YAML's 1e2 and 5.0 are whole to the kubelet. Beyond 2^53 a float is not exact, nor is any field meant to be.
    let exact = |float: f64| (float.fract() == 0.0 && float.abs() < 9e15).then(|| format!("{float}").parse().ok());
    value.as_i64().or_else(|| value.as_f64().and_then(exact).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> Option<Problem> {
        verdict(&format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{body}"))
            .err()
            .map(|refusal| refusal.problem)
    }

    #[test]
    fn a_plain_configuration_and_one_with_unknown_fields_are_accepted() {
        assert_eq!(problem("maxPods: 110\n"), None);
        assert_eq!(problem("maxPods: null\n"), None);
        assert_eq!(problem("maxPods: 1e2\nenableServer: yes\noomScoreAdj: -0999\n"), None);
        assert_eq!(problem("maxPods: many\nmaxPods: 5\n"), None, "the last of two keys wins");
        assert_eq!(problem("maxPods: 5\n---\n[\n"), None, "only the first document counts");
        assert_eq!(problem("nosuchField: 5\nauthentication: {nosuchField: [5]}\n"), None);
        // Fields of a later version are unknown to 1.21.
        assert_eq!(problem("podLogsDir: 5\n"), None);
    }

    #[test]
    fn what_cannot_be_decoded_is_a_load_error() {
        assert_eq!(problem("maxPods: many\n"), Some(Problem::Load));
        assert_eq!(problem("maxPods: '5'\n"), Some(Problem::Load));
        assert_eq!(problem("maxPods: [\n"), Some(Problem::Load));
        assert_eq!(problem("maxPods: 1.5\n"), Some(Problem::Load));
        assert_eq!(problem("maxPods: 3000000000\n"), Some(Problem::Load));
        assert_eq!(problem("maxOpenFiles: 3000000000\n"), None);
        assert_eq!(problem("syncFrequency: 60\n"), Some(Problem::Load));
        assert_eq!(problem("syncFrequency: 1d\n"), Some(Problem::Load));
        assert_eq!(problem("syncFrequency: null\n"), Some(Problem::Load));
        assert_eq!(problem("clusterDNS: 10.0.0.10\n"), Some(Problem::Load));
        assert_eq!(problem("clusterDNS: [10]\n"), Some(Problem::Load));
        assert_eq!(problem("authentication: {anonymous: {enabled: 'no'}}\n"), Some(Problem::Load));
        assert_eq!(problem("evictionHard: {memory.available: 100}\n"), Some(Problem::Load));
        for text in ["", "a", "kind: KubeletConfiguration\n", "apiVersion: kubelet.config.k8s.io/v1beta1\n"] {
            assert_eq!(verdict(text).map_err(|refusal| refusal.problem), Err(Problem::Load), "{text:?}");
        }
    }

    #[test]
    fn json_is_taken_as_json() {
        let json = r#"{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": -5}"#;
        assert_eq!(verdict(json).map_err(|refusal| refusal.problem), Err(Problem::Validate));
        let flow = json.replace('"', "");
        assert_eq!(verdict(&flow).map_err(|refusal| refusal.problem), Err(Problem::Load));
    }

    #[test]
    fn a_value_out_of_range_is_a_validate_error_unless_something_does_not_load() {
        assert_eq!(problem("maxPods: -5\n"), Some(Problem::Validate));
        assert_eq!(problem("oomScoreAdj: -1001\n"), Some(Problem::Validate));
        assert_eq!(problem("maxPods: -5\nport: x\n"), Some(Problem::Load));
    }
}
