//! Fuzz target of kubelet logs: a log, and after a line `%%` the configuration. The error is one line of the log's own
//! length, and a second reading names the same field.

#![no_main]

use kubelet_config::document::Document;
use kubelet_config::startup_error::{field, field_in, last, state_file, with_field};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (log, configuration) = text.split_once("\n%%\n").unwrap_or((text, ""));
    let Some(error) = last(log) else { return };
    assert!(!error.contains('\n'), "{error:?}");
    let document = Document::parse("kubelet.yaml", configuration).document;
    let (named, found) = (with_field(&error, document.as_ref()), field(&error, document.as_ref()));
    assert!(named.ends_with(&error));
    if named != error {
        assert_eq!(field_in(&named), found.as_deref());
    }
    let _ = state_file(&error);
});
