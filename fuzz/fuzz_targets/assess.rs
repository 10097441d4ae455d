//! Any text that is read gets a verdict of every version without a panic, and a stage that fits what is refused; and
//! whatever the text, the whole check of a file ends with something to say about it, or with every kubelet's consent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodecfg_planning::desired::check_file;
use kubelet_config::document::Document;
use kubelet_config::finding::{Strictness, any_error};
use kubelet_config::Minor;
use kubelet_config::verdict::{Stage, assess};

fuzz_target!(|text: &str| {
    // Most texts are no configuration; those that are not are given the two lines that make them one.
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
