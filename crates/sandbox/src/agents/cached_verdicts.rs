//! What kubelets say of configurations: the same answer for all that are given the same file.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use kubelet_config::Minor;
use kubelet_config::document::{Document, Node};
use kubelet_config::risk::StateFile;
use kubelet_config::verdict::assess;

/// How many answers are remembered.
const KNOWN: usize = 1024;

/// What a kubelet of one version makes of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedVerdict {
    /// Whether it runs with it; otherwise what it says when it exits.
    pub(super) verdict: Result<(), String>,
    /// What its managers' state files say of it: a file that says otherwise keeps the kubelet from starting.
    pub(super) policies: BTreeMap<StateFile, String>,
}

/// By the hash of the configuration and the kubelet's version.
type Known = HashMap<([u8; 32], Minor), Arc<CachedVerdict>>;

/// The cached_verdicts that were asked for. A clone shares them.
#[derive(Debug, Clone, Default)]
pub(super) struct CachedVerdicts(Arc<Mutex<Known>>);

impl CachedVerdicts {
    /// The cached of a configuration.
    pub(super) fn of(&self, text: &[u8], minor: Minor) -> Arc<CachedVerdict> {
        let key = (*blake3::hash(text).as_bytes(), minor);
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(known);
        }
        let cached = Arc::new(CachedVerdict::form(text, minor));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(key, Arc::clone(&cached));
        cached
    }
}

impl CachedVerdict {
    fn form(text: &[u8], minor: Minor) -> Self {
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
        let answer = assess(&document, minor);
        let reasons: Vec<&str> = answer.reasons().map(|refusal| refusal.message.as_str()).collect();
        let policy = |file: StateFile| {
            let set = document.root.get(file.policy().0).and_then(Node::text);
            (file, set.unwrap_or("none").to_ascii_lowercase())
        };
        Self {
            verdict: if answer.runs() { Ok(()) } else { Err(reasons.join("; ")) },
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
    fn a_kubelet_refuses_what_the_checker_refuses() {
        assert_eq!(cached("maxPods: 50\n").verdict, Ok(()));
        assert!(cached("maxPods: -5\n").verdict.as_ref().unwrap_err().contains("-5"));
        for text in [&b"\xff"[..], b"", b"[", b"a: b"] {
            assert!(CachedVerdicts::default().of(text, Minor(36)).verdict.is_err(), "{text:?}");
        }
    }

    #[test]
    fn state_files_remember_the_policy() {
        let policy = |body: &str| cached(body).policies[&StateFile::CpuManagerState].clone();
        assert_eq!(policy(""), "none");
        assert_eq!(policy("cpuManagerPolicy: none\n"), "none");
        assert_eq!(policy("cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n"), "static");
    }
}
