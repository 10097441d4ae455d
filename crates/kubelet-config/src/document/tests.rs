//! Tests of parsing: places, findings and limits.

use super::context::MAX_FINDINGS;
use super::*;

fn codes(text: &str) -> Vec<(&'static str, usize)> {
    let parsed = Document::parse("f.yaml", text);
    parsed.findings.iter().map(|f| (f.code, f.place.as_ref().map_or(0, |p| p.line))).collect()
}

fn canonical(text: &str) -> String {
    let parsed = Document::parse("f.yaml", text);
    assert_eq!(parsed.findings, [], "{text}");
    parsed.document.expect("a document").canonical()
}

#[test]
fn places_point_into_the_text() {
    let text = "a: é\nb:\n  - [x, 'y z']\n  - |\n    lit\n";
    let document = Document::parse("f.yaml", text).document.expect("a document");
    let b = document.root.get("b").and_then(Node::sequence).expect("a list");
    let y = &b[0].sequence().expect("a list")[1].place;
    assert_eq!((&text[y.offset..y.offset + y.len], y.line, y.column), ("'y z'", 3, 9));
    let key = &document.root.mapping().expect("a map")["b"].key_place;
    assert_eq!((&text[key.offset..key.offset + key.len], key.line, key.column), ("b", 2, 1));
    assert_eq!(document.root.place.line, 1);
    assert_eq!(y.to_string(), "f.yaml:3:9");
}

#[test]
fn reports_one_finding_for_malformed_yaml() {
    for text in ["a: [1", "a: b: c", "\t- a\n b", "*nobody", "a: \"x"] {
        let found = codes(text);
        assert_eq!(found.iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["malformed-yaml"], "{text}");
    }
}

#[test]
fn reports_empty_texts_and_second_documents() {
    assert_eq!(codes(""), [("empty-document", 1)]);
    assert_eq!(codes("# only a comment\n"), [("empty-document", 1)]);
    assert_eq!(codes("---\n"), [("empty-document", 1)]);
    assert_eq!(codes("a: b\n---\nc: d\n"), [("second-document", 2)]);
    assert_eq!(codes("---\na: b\n...\n"), []);
}

#[test]
fn reports_first_place_of_duplicate_key() {
    let parsed = Document::parse("f.yaml", "a: 1\nb: 2\n\"a\": 3\n");
    assert_eq!(parsed.findings.len(), 1);
    assert_eq!(parsed.findings[0].place.as_ref().map(|p| p.line), Some(3));
    assert_eq!(parsed.findings[0].related[0].0.line, 1);
}

#[test]
fn reports_keys_that_are_not_text() {
    assert_eq!(
        codes("1: a\nyes: b\n~: d\n1.5: e\n? [x]\n: c\n1: d\n"),
        [("key-not-text", 1), ("key-not-text", 2), ("malformed-yaml", 3), ("key-not-text", 4), ("malformed-yaml", 5)]
    );
    let parsed = Document::parse("f.yaml", "1: a\nyes: b\n1.50: c\n!!int '0x10': d\n");
    assert_eq!(
        parsed.document.map(|document| document.canonical()).as_deref(),
        Some("\"1\": a\n\"1.5\": c\n\"16\": d\n\"true\": b\n")
    );
    assert_eq!(canonical("\"1\": a\n'yes': b\n"), "\"1\": a\n\"yes\": b\n");
    assert_eq!(codes(&format!("? {}\n: a", "k".repeat(1001))), [("key-too-long", 1)]);
}

#[test]
fn reports_every_ambiguous_scalar() {
    assert_eq!(
        codes("a: yes\nb: [0777, 'off']\nc: &x on\nd: *x\n"),
        [("ambiguous-scalar", 1), ("ambiguous-scalar", 2), ("ambiguous-scalar", 3)]
    );
}

#[test]
fn expands_aliases_and_merge_keys() {
    let text = "p: &x {a: 1, b: 2}\nq:\n  <<: *x\n  b: 3\nr: {<<: [{a: 7}, *x]}\ns: *x\n";
    assert_eq!(canonical(text), "p:\n  a: 1\n  b: 2\nq:\n  a: 1\n  b: 3\nr:\n  a: 7\n  b: 2\ns:\n  a: 1\n  b: 2\n");
    assert_eq!(canonical("\"<<\": 1"), "\"<<\": 1\n");
    assert_eq!(codes("a: &a {b: 1}\nc:\n  b: 2\n  <<: *a\n"), [("ambiguous-merge-key", 4)]);
    assert_eq!(codes("a: {<<: 5}"), [("bad-merge-key", 1)]);
    assert_eq!(codes("a: &a [*a]"), [("recursive-alias", 1)]);
}

#[test]
fn reports_unsupported_tags() {
    assert_eq!(canonical("a: !!str yes\nb: !!map {}\nc: !!seq []\n"), "a: \"yes\"\nb: {}\nc: []\n");
    for text in ["a: !!int 5", "a: !mine x", "a: !!binary eA==", "a: !!set {x}", "a: ! 5"] {
        assert_eq!(codes(text), [("unsupported-tag", 1)], "{text}");
    }
}

#[test]
fn json_has_the_same_canonical_form_as_yaml() {
    assert_eq!(
        canonical("{\n\t\"a\": [1, true, null, \"\\u00e9\\/\\ud83d\\ude00\"], \"b\":{\"c\":1e2}}"),
        "a:\n  - 1\n  - true\n  - null\n  - \"\\u00e9/\\U0001f600\"\nb:\n  c: 100\n"
    );
}

#[test]
fn refuses_expansion_bombs() {
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for n in 1..20 {
        let before = format!("*a{}", n - 1);
        laughs += &format!("a{n}: &a{n} [{}]\n", vec![before; 9].join(", "));
    }
    assert_eq!(codes(&laughs).len(), 1);
    assert_eq!(codes(&laughs)[0].0, "excessive-aliases");
    let many = format!("a: &a [{}]\nb: [{}]\n", vec!["x"; 1000].join(","), vec!["*a"; 99].join(","));
    assert_eq!(codes(&many), [("too-many-values", 2)]);
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1000].join(","));
    assert_eq!(codes(&long)[0].0, "too-much-text");
    let mut deep = "a0: &a0 [[[[[[[[[[x]]]]]]]]]]\n".to_owned();
    for n in 1..10 {
        deep += &format!("a{n}: &a{n} [[[[[[[[[[*a{}]]]]]]]]]]\n", n - 1);
    }
    assert_eq!(codes(&deep)[0].0, "too-deep");
    assert_eq!(codes(&format!("{}{}", "[".repeat(100), "]".repeat(100)))[0].0, "too-deep");
    assert_eq!(codes(&"[".repeat(500_000)).len(), 1);
    assert_eq!(codes(&"- ".repeat(100_000)).len(), 1);
    assert_eq!(codes(&" ".repeat(MAX_BYTES + 1)), [("file-too-large", 1)]);
    assert!(codes(&"? ".repeat(10_000)).iter().all(|(code, _)| *code == "malformed-yaml"));
}

/// Quadratic work on any of these would take seconds, and unbounded recursion would overflow the stack. The test
/// asserts no time.
#[test]
fn limits_findings_of_hostile_texts() {
    let many = |part: &str, bytes: usize| part.repeat(bytes / part.len());
    let numbered = |count: usize, part: fn(usize) -> String| (0..count).map(part).collect::<String>();
    for (text, most) in [
        (many("a: 1\n", 200_000), MAX_FINDINGS),
        (many("yes: no\n", 200_000), MAX_FINDINGS),
        (format!("{{{}\"a\":1}}", many("\"a\":1,", 200_000)), MAX_FINDINGS),
        (numbered(20_000, |n| format!("k{n}: &a{n} x\n")), 0),
        (numbered(20_000, |n| format!("k{n}: &a {n}\n")) + "z: *a", 0),
        (format!("a: {}", many("x ", 200_000)), 0),
        (format!("a: {}", many("x\n  ", 200_000)), 0),
        (format!("a: \"{}\"", many("\\u0041", 200_000)), 0),
        (format!("a: |\n{}", many("  x\n", 200_000)), 0),
        (format!("a: >\n{}", many("\n", 200_000)), 0),
        (format!("? {}\n: b", many("k", 200_000)), 1),
        (many("# c\n", MAX_BYTES), 1),
        (many("&a ", 100_000), 1),
        (many("!a ", 100_000), 2),
        (many("[", 9_000), 1),
        (format!("a: {}{}", many("[", 9_000), many("]", 9_000)), 1),
        (format!("a: {}x{}", many("{x: ", 36_000), many("}", 9_000)), 1),
        (numbered(3_000, |n| format!("{}k:\n", " ".repeat(n.min(150)))), MAX_FINDINGS),
        (format!("{{\"a\":{}{}}}", many("[", 9_000), many("]", 9_000)), 1),
        (format!("{{\"a\":{}", many("{\"a\":", 60_000)), 1),
        (format!("a: &a {{{}}}\nb: {{{}}}", numbered(300, |n| format!("k{n}: v, ")), many("<<: *a, ", 2_000)), 1),
    ] {
        let parsed = Document::parse("f.yaml", &text);
        let found: Vec<_> = parsed.findings.iter().map(|f| f.code).collect();
        assert!(found.len() <= most, "{:?}: {found:?}", text.get(..60));
        assert_eq!(parsed.document.is_none(), parsed.unread.is_some());
    }
}

#[test]
fn reports_reason_for_missing_tree() {
    let unread = |text: &str| Document::parse("f.yaml", text).unread;
    for text in [
        "",
        "a: [",
        "{",
        "a: &a [*a]",
        "a: *b",
        "? [x]\n: y",
        "~: x",
        "a: {<<: 5}",
        "a: !!int x",
        "%YAML 1.2\n---\na: b",
    ] {
        assert_eq!(unread(text), Some(Unread::Malformed), "{text}");
    }
    for text in [" ".repeat(MAX_BYTES + 1), "- x\n".repeat(MAX_NODES)] {
        assert_eq!(unread(&text), Some(Unread::Bounds));
    }
    for text in ["a: yes\na: 0777", "a: !foo b", "a: 1\n--- \n[", "a: b\n...\njunk [", "a: .inf"] {
        assert_eq!(unread(text), None, "{text}");
    }
}

#[test]
fn tree_matches_the_kubelet() {
    for (text, json) in [
        ("a: 1\na: {b: 2}\na: {c: yes}", r#"{"a":{"c":true}}"#),
        ("a: 0777\nb: 1_000\nc: 1e999\nd: ! 5", r#"{"a":511,"b":1000,"c":"1e999","d":"5"}"#),
        ("p: &x {b: 1, c: 1}\nq: {b: 2, <<: *x, c: 3}", r#"{"p":{"b":1,"c":1},"q":{"b":1,"c":3}}"#),
        ("p: &x {b: 1}\nq: {<<: [{b: 2}, *x]}", r#"{"p":{"b":1},"q":{"b":2}}"#),
        ("a: !foo 5\nb: !!int '0x10'\nc: !!binary aGk=", r#"{"a":"5","b":16,"c":"hi"}"#),
        ("a: 1\n---\na: 2", r#"{"a":1}"#),
    ] {
        let parsed = Document::parse("f.yaml", text);
        assert_eq!(parsed.document.map(|document| document.to_json().to_string()).as_deref(), Some(json), "{text}");
    }
}
