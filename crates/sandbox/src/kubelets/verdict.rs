//! Whether a kubelet would load a text as its configuration, and if not, at which of its two hurdles it stops. The answer
//! is [`kubelet_config::verdict`]'s; here it is put into the words of Dynamic Kubelet Configuration. What a kubelet refuses later,
//! when it starts, is no answer of this contract: it has none for it.

use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::verdict::{Stage, assess};
use nodecfg_contract::error_text;

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

/// Judges the text of one key of a ConfigMap as kubelets of this version do.
///
/// # Errors
/// When the kubelet would fall back to its last known good configuration.
pub fn verdict(text: &str, minor: Minor) -> Result<(), Refusal> {
    let parsed = Document::parse("kubelet", text);
    let Some(document) = parsed.document else {
        let message = parsed.findings.into_iter().next().map(|finding| finding.message).unwrap_or_default();
        return Err(Refusal { problem: Problem::Load, message });
    };
    let verdict = assess(&document, minor);
    let problem = match verdict.stage {
        Stage::Ok => return Ok(()),
        Stage::Load => Problem::Load,
        // These kubelets apply the gates within `ValidateKubeletConfiguration`.
        Stage::Gates | Stage::Validate => Problem::Validate,
    };
    let message = verdict.refusals.into_iter().next().map(|refusal| refusal.message).unwrap_or_default();
    Err(Refusal { problem, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> Option<Problem> {
        let text = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{body}");
        verdict(&text, Minor(21)).err().map(|refusal| refusal.problem)
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
            assert_eq!(verdict(text, Minor(21)).map_err(|refusal| refusal.problem), Err(Problem::Load), "{text:?}");
        }
    }

    #[test]
    fn json_is_taken_as_json() {
        let json = r#"{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": -5}"#;
        assert_eq!(verdict(json, Minor(21)).map_err(|refusal| refusal.problem), Err(Problem::Validate));
        let flow = json.replace('"', "");
        assert_eq!(verdict(&flow, Minor(21)).map_err(|refusal| refusal.problem), Err(Problem::Load));
    }

    #[test]
    fn a_value_out_of_range_is_a_validate_error_unless_something_does_not_load() {
        assert_eq!(problem("maxPods: -5\n"), Some(Problem::Validate));
        assert_eq!(problem("oomScoreAdj: -1001\n"), Some(Problem::Validate));
        assert_eq!(problem("maxPods: -5\nport: x\n"), Some(Problem::Load));
        assert_eq!(problem("featureGates: {NoSuchGate: true}\n"), Some(Problem::Validate));
        assert_eq!(problem("evictionHard: {no.such.signal: 5%}\n"), None, "that is refused at start-up only");
    }
}
