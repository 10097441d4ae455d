//! Whether a kubelet 1.21 would load a text as its configuration, and if not, at which of its two hurdles it stops.
//!
//! Shallow on purpose: the document's kind, the types of the fields and plain integer ranges. What it does not know, it
//! accepts, as the kubelet accepts unknown fields.

use serde_json::Value;

use crate::contract::error_text;

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

/// The integer fields whose range the kubelet 1.21 checks (`ValidateKubeletConfiguration`), lowest and highest value
/// allowed. Zero is allowed where it stands for the default.
const RANGES: [(&str, i64, i64); 19] = [
    ("eventBurst", 0, i32::MAX as i64),
    ("eventRecordQPS", 0, i32::MAX as i64),
    ("healthzPort", 0, 65_535),
    ("imageGCHighThresholdPercent", 0, 100),
    ("imageGCLowThresholdPercent", 0, 100),
    ("iptablesDropBit", 0, 31),
    ("iptablesMasqueradeBit", 0, 31),
    ("kubeAPIBurst", 0, i32::MAX as i64),
    ("kubeAPIQPS", 0, i32::MAX as i64),
    ("maxOpenFiles", 0, i64::MAX),
    ("maxPods", 0, i32::MAX as i64),
    ("nodeLeaseDurationSeconds", 0, i32::MAX as i64),
    ("nodeStatusMaxImages", -1, i32::MAX as i64),
    ("oomScoreAdj", -1000, 1000),
    ("podsPerCore", 0, i32::MAX as i64),
    ("port", 0, 65_535),
    ("readOnlyPort", 0, 65_535),
    ("registryBurst", 0, i32::MAX as i64),
    ("registryPullQPS", 0, i32::MAX as i64),
];

/// Judges the text of one key of a ConfigMap as the kubelet 1.21 does.
///
/// # Errors
/// When the kubelet would fall back to its last known good configuration.
pub fn verdict(text: &str) -> Result<(), Refusal> {
    let document: Value =
        serde_saphyr::from_str(text).map_err(|error| Refusal::load(format!("the text is not YAML: {error}")))?;
    let fields = document.as_object().ok_or_else(|| Refusal::load("the document is not a map".to_owned()))?;
    for (key, wanted) in [("apiVersion", "kubelet.config.k8s.io/v1beta1"), ("kind", "KubeletConfiguration")] {
        let found = fields.get(key).and_then(Value::as_str).unwrap_or_default();
        if found != wanted {
            return Err(Refusal::load(format!("{key} is {found:?} where the kubelet knows only {wanted:?}")));
        }
    }
    let mut out_of_range = None;
    for (key, low, high) in RANGES {
        let value = match fields.get(key) {
            None | Some(Value::Null) => continue,
            Some(value) => {
                value.as_i64().ok_or_else(|| Refusal::load(format!("{key} is {value} where an integer belongs")))?
            }
        };
        if !(low..=high).contains(&value) {
            out_of_range.get_or_insert_with(|| format!("{key} is {value}, outside {low} to {high}"));
        }
    }
    match out_of_range {
        Some(message) => Err(Refusal { problem: Problem::Validate, message }),
        None => Ok(()),
    }
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
        assert_eq!(problem("nosuchField: 5\n"), None);
    }

    #[test]
    fn what_cannot_be_decoded_is_a_load_error() {
        assert_eq!(problem("maxPods: many\n"), Some(Problem::Load));
        assert_eq!(problem("maxPods: '5'\n"), Some(Problem::Load));
        assert_eq!(problem("maxPods: [\n"), Some(Problem::Load));
        for text in ["", "a", "kind: KubeletConfiguration\n", "apiVersion: kubelet.config.k8s.io/v1beta1\n"] {
            assert_eq!(verdict(text).map_err(|refusal| refusal.problem), Err(Problem::Load), "{text:?}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_a_validate_error_unless_something_does_not_load() {
        assert_eq!(problem("maxPods: -5\n"), Some(Problem::Validate));
        assert_eq!(problem("oomScoreAdj: -1001\n"), Some(Problem::Validate));
        assert_eq!(problem("maxPods: -5\nport: x\n"), Some(Problem::Load));
    }
}
