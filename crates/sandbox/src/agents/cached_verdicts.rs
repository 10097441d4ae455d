//! Cache of the kubelets' verdicts on configurations, shared by all nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use kubelet_config::Minor;
use kubelet_config::document::{Document, Node};
use kubelet_config::risk::StateFile;
use kubelet_config::verdict::assess;

/// Maximum number of cached verdicts.
const CAPACITY: usize = 1024;

/// Verdict of a kubelet version on a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedVerdict {
    /// `Ok` if the kubelet runs with the configuration, otherwise the error with which it exits.
    pub(super) verdict: Result<(), String>,
    /// Policies for the state files of the kubelet's managers. A file with another policy prevents the start.
    pub(super) policies: BTreeMap<StateFile, String>,
}

/// Verdicts by the hash of the configuration and the kubelet version.
type Cache = HashMap<([u8; 32], Minor), Arc<CachedVerdict>>;

/// Shared cache of verdicts.
#[derive(Debug, Clone, Default)]
pub(super) struct CachedVerdicts(Arc<Mutex<Cache>>);

impl CachedVerdicts {
    /// Returns the verdict on a configuration, from the cache if possible. A full cache is cleared before an
    /// insertion.
    pub(super) fn of(&self, text: &[u8], minor: Minor) -> Arc<CachedVerdict> {
        let key = (*blake3::hash(text).as_bytes(), minor);
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(known);
        }
        let cached = Arc::new(CachedVerdict::compute(text, minor));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(key, Arc::clone(&cached));
        cached
    }
}

impl CachedVerdict {
    fn compute(text: &[u8], minor: Minor) -> Self {
        let refused = |why: String| Self {
            verdict: Err(format!("failed to load kubelet config file: {why}")),
            policies: BTreeMap::new(),
        };
        let Ok(text) = std::str::from_utf8(text) else { return refused("it is not UTF-8".to_owned()) };
        let parsed = Document::parse("config.yaml", text);
        let Some(document) = parsed.document else {
            let first = parsed.findings.into_iter().next();
            return refused(first.map_or_else(|| "it is empty".to_owned(), |finding| finding.message));
        };
        let assessment = assess(&document, minor);
        let reasons: Vec<&str> = assessment.reasons().map(|refusal| refusal.message.as_str()).collect();
        let policy = |file: StateFile| {
            let set = document.root.get(file.policy().0).and_then(Node::text);
            (file, set.unwrap_or("none").to_ascii_lowercase())
        };
        Self {
            verdict: if assessment.runs() { Ok(()) } else { Err(reasons.join("; ")) },
            policies: StateFile::ALL.map(policy).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(body: &str) -> Arc<CachedVerdict> {
        let text = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{body}");
        CachedVerdicts::default().of(text.as_bytes(), Minor(36))
    }

    #[test]
    fn kubelet_refuses_what_checker_refuses() {
        assert_eq!(cached("maxPods: 50\n").verdict, Ok(()));
        assert!(cached("maxPods: -5\n").verdict.as_ref().unwrap_err().contains("-5"));
        for text in [&b"\xff"[..], b"", b"[", b"a: b"] {
            assert!(CachedVerdicts::default().of(text, Minor(36)).verdict.is_err(), "{text:?}");
        }
    }

    #[test]
    fn verdict_contains_state_file_policies() {
        let policy = |body: &str| cached(body).policies[&StateFile::CpuManagerState].clone();
        assert_eq!(policy(""), "none");
        assert_eq!(policy("cpuManagerPolicy: none\n"), "none");
        assert_eq!(policy("cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n"), "static");
    }
}
