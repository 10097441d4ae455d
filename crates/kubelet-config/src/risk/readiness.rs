//! Effect of a kubelet's restart on running containers. Every change restarts the kubelet, whatever its class.

use crate::Minor;
use crate::document::Document;
use crate::verdict;

/// The first version whose kubelet keeps the readiness of containers
/// (<https://github.com/kubernetes/enhancements/issues/4781>, kubernetes/kubernetes#134746).
pub const READINESS_KEPT_SINCE: Minor = Minor(35);
/// The gate that restores the earlier behavior. Deprecated and off by default since its first version, 1.35.
const READINESS_GATE: &str = "ChangeContainerStatusOnKubeletRestart";

/// Reports whether a restart of this kubelet sets running containers with probes to not ready, until their probes
/// succeed. Services then remove the endpoints of these pods. A kubelet of unknown version counts as one that does.
///
/// `document` is the configuration after the restart; `None` if its content is unknown.
#[must_use]
pub fn restart_resets_readiness(minor: Option<Minor>, document: Option<&Document>) -> bool {
    let Some(minor) = minor else { return true };
    minor < READINESS_KEPT_SINCE
        || document.is_some_and(|document| verdict::configuration(document, minor).gate(READINESS_GATE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates;

    #[test]
    fn kubelets_before_1_35_and_those_with_the_gate_reset_readiness() {
        let with = |value: &str| {
            let text = format!("featureGates: {{{READINESS_GATE}: {value}}}\n");
            Document::parse("kubelet.yaml", &text).document.unwrap()
        };
        let empty = Document::parse("kubelet.yaml", "maxPods: 5\n").document.unwrap();
        for (minor, unset, on, off) in [(34, true, true, true), (35, false, true, false), (37, false, true, false)] {
            let minor = Some(Minor(minor));
            assert_eq!(restart_resets_readiness(minor, None), unset, "{minor:?}");
            assert_eq!(restart_resets_readiness(minor, Some(&empty)), unset, "{minor:?}");
            assert_eq!(restart_resets_readiness(minor, Some(&with("true"))), on, "{minor:?}");
            assert_eq!(restart_resets_readiness(minor, Some(&with("false"))), off, "{minor:?}");
        }
        assert!(restart_resets_readiness(None, Some(&empty)));
    }

    #[test]
    fn the_gate_exists_since_the_fix() {
        assert_eq!(gates::known_by(READINESS_GATE).map(|(since, _)| since), Some(READINESS_KEPT_SINCE));
    }
}
