//! Fuzz target of the parser: any text parses without a panic, places are within the text, and the canonical form
//! parses to the same content.

#![no_main]

use kubelet_config::document::Document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parsed = Document::parse("f.yaml", text);
    assert_eq!(parsed.document.is_none(), parsed.unread.is_some());
    assert!(parsed.document.is_some() || !parsed.findings.is_empty());
    for place in parsed.findings.iter().filter_map(|finding| finding.place.as_ref()) {
        assert!(text.get(place.offset..place.offset + place.len).is_some(), "{place:?}");
    }
    if let (Some(document), true) = (parsed.document, parsed.findings.is_empty()) {
        let canonical = document.canonical();
        let again = Document::parse("f.yaml", &canonical);
        assert!(again.findings.is_empty(), "{canonical} {:?}", again.findings);
        assert_eq!(again.document.map(|document| document.canonical()), Some(canonical));
    }
});
