//! Fuzz target of kubelet logs: a log, and after a line `%%` the configuration. What is published is one line, and names
//! the same field and state file with and without the values of the configuration.

#![no_main]

use kubelet_config::document::Document;
use kubelet_config::startup_error::{LastError, field_in, state_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (log, configuration) = text.split_once("\n%%\n").unwrap_or((text, ""));
    let Some(error) = LastError::in_log(log) else { return };
    let document = Document::parse("kubelet.yaml", configuration).document;
    let known = error.explain(document.as_ref(), document.as_ref(), "journalctl");
    let withheld = error.explain(document.as_ref(), None, "journalctl").to_string();
    assert!(!known.to_string().contains('\n') && withheld.len() < 500, "{known} {withheld}");
    assert_eq!(field_in(&known.to_string()), field_in(&withheld));
    assert_eq!(known.state_file(), state_file(&withheld));
});
