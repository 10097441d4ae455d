//! Property tests: parsing never panics, places are inside the text, and notations keep their meaning.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use go_yaml::{Limits, Node, ProblemKind, Reading, Scalar, Span, Value, parse};
use proptest::collection::vec;
use proptest::prelude::*;

/// Collects the places of a tree.
fn spans(node: &Node, found: &mut Vec<Span>) {
    found.push(node.span);
    match &node.value {
        Value::Scalar(_) => {}
        Value::Sequence(items) => items.iter().for_each(|item| spans(item, found)),
        Value::Mapping(map) => map.values().for_each(|entry| {
            found.push(entry.key);
            spans(&entry.value, found);
        }),
    }
}

/// Parses a text, and checks the places of its tree and problems.
fn check(text: &str) {
    let parsed = parse(text, &Limits::default());
    assert_eq!(parsed.root.is_none(), parsed.problems.iter().any(|problem| problem.is_fatal()), "{text:?}");
    let mut found: Vec<Span> = Vec::new();
    for problem in &parsed.problems {
        assert!(!problem.to_string().is_empty());
        found.push(problem.span);
        match &problem.kind {
            ProblemKind::Syntax { began, .. } => found.extend(began),
            ProblemKind::DuplicateKey { first, .. } | ProblemKind::MergeOverrides { first, .. } => found.push(*first),
            _ => {}
        }
    }
    if let Some(root) = &parsed.root {
        spans(root, &mut found);
    }
    for span in found {
        let Span { offset, len, line, column } = span;
        assert!(text.get(offset..offset + len).is_some(), "{span:?} is outside of {text:?}");
        let before = text[..offset].replace("\r\n", "\n");
        let before = before.strip_prefix('\u{feff}').unwrap_or(&before);
        let mut lines = before.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
        let last = lines.next_back().unwrap_or_default();
        assert_eq!((line, column), (lines.count() + 1, last.chars().count() + 1), "{span:?} in {text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_has_valid_places(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_bytes_have_valid_places(bytes in vec(any::<u8>(), 0..300)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn yaml_characters_have_valid_places(text in "[-a:,{}\\[\\]&*!|>'\"%#?~<0-9 \n\té\r]{0,60}") {
        check(&text);
    }

    #[test]
    fn blocks_have_valid_places(
        lines in vec((0_usize..4, "(- )?", "([a-c]|<<|yes|1): ", "(&[ab] )?(!!str )?", "(\\*[ab]|x|\\[x, \\*a\\]|\\{<<: \\*b\\})?"), 0..12)
    ) {
        let line = |(indent, dash, key, properties, value): &(usize, String, String, String, String)| {
            format!("{}{dash}{key}{properties}{value}\n", "  ".repeat(*indent))
        };
        check(&lines.iter().map(line).collect::<String>());
    }

    #[test]
    fn notation_of_text_reads_as_the_text(text in any::<String>()) {
        let notation = Reading::Text(&text).to_string();
        prop_assert!(notation.is_ascii());
        let root = parse(&format!("--- {notation}\n"), &Limits::default()).root.expect("a scalar");
        prop_assert_eq!(root.read(), Some(Reading::Text(&text)));
    }

    #[test]
    fn notation_of_numbers_reads_as_the_number(value in prop::num::f64::NORMAL, whole in any::<i64>()) {
        let float = Scalar::plain(Reading::Float(value).to_string());
        let read = match float.read() {
            Reading::Float(read) => read,
            Reading::Int(read) => read as f64,
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(read, value);
        prop_assert_eq!(float.ambiguity(), None);
        let whole = Reading::Int(whole.into());
        let written = Scalar::plain(whole.to_string());
        prop_assert_eq!(written.read(), whole);
    }

    #[test]
    fn scalars_never_panic(text in "[-+_.:0-9a-fA-FoxXeTZ]{0,24}", tag in "!!(int|float|bool|null|binary|timestamp)") {
        let _ = Scalar::plain(text.as_str()).ambiguity();
        check(&format!("{tag} '{text}'\n"));
    }
}
