//! Fuzz target of the verdicts: every version assesses any document without a panic, and the stage agrees with the
//! refusals. A refused file always has an error among its findings.

#![no_main]

use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::finding::{Strictness, any_error};
use kubelet_config::verdict::{Stage, assess};
use libfuzzer_sys::fuzz_target;
use nodecfg_fleet::check_file;

fuzz_target!(|text: &str| {
    // Most inputs lack the header of a configuration, so each runs with and without it.
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let minors: Vec<Minor> = Minor::all().collect();
    for text in [text.to_owned(), format!("{head}{text}")] {
        let checked = check_file("kubelet.yaml", &text, &minors, Strictness::Strict);
        let refused = checked.verdicts.iter().any(|verdict| !verdict.accepted() || !verdict.startup.is_empty());
        assert!(!refused || any_error(&checked.findings), "{:?}", checked.findings);
        let Some(document) = Document::parse("kubelet.yaml", &text).document else { continue };
        for minor in Minor::all() {
            let verdict = assess(&document, minor);
            assert_eq!(verdict.refusals.is_empty(), verdict.stage == Stage::Ok);
            assert!(verdict.startup.is_empty() || verdict.stage == Stage::Ok);
        }
    }
});
