//! Check whether a kubelet loads a text as its configuration, and the stage at which it fails.
//!
//! The result of `running.rs` is mapped to the errors of Dynamic Kubelet Configuration. A refusal
//! during kubelet start is not covered: the feature has no error for it.

use crate::running::Inputs;
use kubelet_config::Minor;
use kubelet_config::verdict::Stage;
use nodecfg_contract::error_text;

/// Stage at which a configuration failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigProblem {
    /// The text cannot be decoded, or its key is missing from the ConfigMap.
    Load,
    /// The decoded text has an invalid value.
    Validate,
}

impl ConfigProblem {
    /// Text that the kubelet writes to `status.config.error`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Load => error_text::LOAD,
            Self::Validate => error_text::VALIDATE,
        }
    }
}

/// Reason for refusing a configuration. A real kubelet writes the details to its log only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigRefusal {
    /// Stage of the failure.
    pub problem: ConfigProblem,
    /// Details for the log.
    pub message: String,
}

/// Checks the text of one key of a ConfigMap as kubelets of version `minor` do.
///
/// # Errors
/// Fails if the kubelet would roll back to its last known good configuration.
pub fn verdict(text: &str, minor: Minor) -> Result<(), ConfigRefusal> {
    Inputs::of_file(minor, text.as_bytes()).effective().map(drop).map_err(|refused| ConfigRefusal {
        problem: match refused.stage {
            Stage::Load => ConfigProblem::Load,
            // These kubelets apply the gates within `ValidateKubeletConfiguration`.
            Stage::Ok | Stage::Gates | Stage::Validate => ConfigProblem::Validate,
        },
        message: refused.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> Option<ConfigProblem> {
        let text = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{body}");
        verdict(&text, Minor(21)).err().map(|refusal| refusal.problem)
    }

    #[test]
    fn accepts_valid_configuration_and_unknown_fields() {
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
    fn undecodable_configuration_is_load_error() {
        assert_eq!(problem("maxPods: many\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("maxPods: '5'\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("maxPods: [\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("maxPods: 1.5\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("maxPods: 3000000000\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("maxOpenFiles: 3000000000\n"), None);
        assert_eq!(problem("syncFrequency: 60\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("syncFrequency: 1d\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("syncFrequency: null\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("clusterDNS: 10.0.0.10\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("clusterDNS: [10]\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("authentication: {anonymous: {enabled: 'no'}}\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("evictionHard: {memory.available: 100}\n"), Some(ConfigProblem::Load));
        for text in ["", "a", "kind: KubeletConfiguration\n", "apiVersion: kubelet.config.k8s.io/v1beta1\n"] {
            assert_eq!(
                verdict(text, Minor(21)).map_err(|refusal| refusal.problem),
                Err(ConfigProblem::Load),
                "{text:?}"
            );
        }
    }

    #[test]
    fn json_is_parsed_as_json() {
        let json = r#"{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": -5}"#;
        assert_eq!(verdict(json, Minor(21)).map_err(|refusal| refusal.problem), Err(ConfigProblem::Validate));
        let flow = json.replace('"', "");
        assert_eq!(verdict(&flow, Minor(21)).map_err(|refusal| refusal.problem), Err(ConfigProblem::Load));
    }

    #[test]
    fn invalid_value_is_validate_error_unless_decoding_fails() {
        assert_eq!(problem("maxPods: -5\n"), Some(ConfigProblem::Validate));
        assert_eq!(problem("oomScoreAdj: -1001\n"), Some(ConfigProblem::Validate));
        assert_eq!(problem("maxPods: -5\nport: x\n"), Some(ConfigProblem::Load));
        assert_eq!(problem("featureGates: {NoSuchGate: true}\n"), Some(ConfigProblem::Validate));
        assert_eq!(problem("evictionHard: {no.such.signal: 5%}\n"), None, "refused only at kubelet start");
    }
}
