//! Fuzz target of repositories: the files of a fleet with one pool, separated by lines `%%`. The desired state exists
//! unless a finding is an error. Findings are few, and each is in its file.

#![no_main]

use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::finding::{MAX_PER_FILE, Strictness, any_error};
use libfuzzer_sys::fuzz_target;
use nodecfg_contract::printable::is_hidden;
use nodecfg_fleet::{Checks, Kubelets, PoolTarget, build, draft};
use nodecfg_fleet::snapshot::Snapshot;

/// Paths of the files, in the order of the input.
const PATHS: [&str; 5] =
    ["pools/a/pool.yaml", "nodecfg.yaml", "pools/a/kubelet.yaml", "base/kubelet.yaml", "pools/a/patch.yaml"];

fuzz_target!(|text: &str| {
    let snapshot = Snapshot::of_texts(PATHS.into_iter().zip(text.split("\n%%\n")));
    let checks = Checks { gate: Strictness::Strict, kubelets: Kubelets::Declared(vec![Minor(23), Minor(36)]) };
    let built = build(&snapshot, &checks);
    assert_eq!(built.desired.is_none(), any_error(&built.findings), "{:?}", built.findings);
    assert!(built.findings.len() <= (PATHS.len() + 1) * (MAX_PER_FILE + 1), "{}", built.findings.len());
    for finding in &built.findings {
        if let Some(place) = &finding.place
            && let Some(text) = snapshot.text(&place.file)
        {
            assert!(text.get(place.offset..place.offset + place.len).is_some(), "{finding:?}");
        }
    }
    for pool in built.desired.iter().flat_map(|desired| desired.pools.values()) {
        for gate in &pool.policy.gates {
            assert!(!gate.to_string().chars().any(is_hidden), "{gate}");
        }
        if let PoolTarget::Config(rendered) = &**pool.targets.typical() {
            let again = Document::parse("kubelet.yaml", &rendered.canonical);
            assert_eq!(again.document.map(|document| document.canonical()).as_deref(), Some(&*rendered.canonical));
        }
    }
    let _ = draft(&snapshot, Strictness::Lenient);
});
