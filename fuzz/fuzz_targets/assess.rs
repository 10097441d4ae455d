//! Any text that is read gets a verdict of every version without a panic, and a stage that fits what is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodecfg::document::Document;
use nodecfg::kubelet::Minor;
use nodecfg::verdict::{Stage, assess};

fuzz_target!(|text: &str| {
    // Most texts are no configuration; those that are not are given the two lines that make them one.
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    for text in [text.to_owned(), format!("{head}{text}")] {
        let Some(document) = Document::parse("kubelet.yaml", &text).document else { continue };
        for minor in Minor::all() {
            let verdict = assess(&document, minor);
            assert_eq!(verdict.refusals.is_empty(), verdict.stage == Stage::Ok);
            assert!(verdict.startup.is_empty() || verdict.stage == Stage::Ok);
        }
    }
});
