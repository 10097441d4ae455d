//! Tests of trees and problems: places, aliases, merge keys, duplicate keys and limits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use go_yaml::{Limits, Node, Parsed, Value, parse};

fn read(text: &str) -> Parsed {
    parse(text, &Limits::default())
}

/// Formats a value in flow style.
fn flow(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) => scalar.read().to_string(),
        Value::Sequence(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Mapping(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, entry)| format!("{key}: {}", flow(&entry.value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Formats the problems of a text with their lines.
fn problems(text: &str) -> Vec<String> {
    read(text).problems.iter().map(|problem| format!("{} {problem}", problem.span.line)).collect()
}

#[test]
fn places_point_into_the_text() {
    let text = "a: é\nb:\n  - [x, 'y z']\n  - |\n    lit\n";
    let root = read(text).root.expect("a tree");
    let Value::Mapping(map) = &root.value else { panic!("a map") };
    let Value::Sequence(items) = &map["b"].value.value else { panic!("a list") };
    let Value::Sequence(inner) = &items[0].value else { panic!("a list") };
    let y = inner[1].span;
    assert_eq!((&text[y.offset..y.offset + y.len], y.line, y.column), ("'y z'", 3, 9));
    let key = map["b"].key;
    assert_eq!((&text[key.offset..key.offset + key.len], key.line, key.column), ("b", 2, 1));
    assert_eq!(root.get("a").expect("a value").span.column, 4);
    assert_eq!((root.span.line, root.span.column), (1, 1));
}

#[test]
fn reads_what_go_reads() {
    for (text, tree) in [
        ("a: 1\na: {b: 2}\na: {c: yes}", "{a: {c: true}}"),
        ("a: 0777\nb: 1_000\nc: 1e999\nd: ! 5", r#"{a: 511, b: 1000, c: "1e999", d: "5"}"#),
        ("p: &x {b: 1, c: 1}\nq: {b: 2, <<: *x, c: 3}", "{p: {b: 1, c: 1}, q: {b: 1, c: 3}}"),
        ("p: &x {b: 1}\nq: {<<: [{b: 2}, *x]}", "{p: {b: 1}, q: {b: 2}}"),
        ("p: &x {b: 1}\n'<<': *x", "{<<: {b: 1}, p: {b: 1}}"),
        ("a: !foo 5\nb: !!int '0x10'\nc: !!binary aGk=", r#"{a: "5", b: 16, c: hi}"#),
        ("a: &x 1\nb: &x 2\nc: *x", "{a: 1, b: 2, c: 2}"),
        ("a: 1\n---\na: 2", "{a: 1}"),
        ("{}", "{}"),
        ("- a\n-\n- [b, c: d]", "[a, null, [b, {c: d}]]"),
    ] {
        assert_eq!(read(text).root.as_ref().map(flow).as_deref(), Some(tree), "{text}");
    }
}

#[test]
fn problems_have_messages_and_places() {
    for (text, expected) in [
        ("a: 'yes'\nb: [true, 1.5]\n", &[][..]),
        ("# only a comment\n", &["1 the text has no document"]),
        ("---\n", &["1 the text has no document"]),
        ("a: b\n---\nc: d\n", &["2 the text has more than one document"]),
        ("a: b\n...\nc: d: [", &["3 the text has more than one document"]),
        ("a: 1\nb: 2\n\"a\": 3\n", &["3 the key \"a\" appears twice in one map"]),
        ("a: [1", &["1 did not find expected ',' or ']'"]),
        ("a: *b", &["1 no anchor `b` precedes this alias"]),
        ("a: &a [*a]", &["1 an alias refers to a value that contains the alias"]),
        ("a: {<<: 5}", &["1 `<<` requires a map or a list of maps"]),
        ("a: &a {b: 1}\nc:\n  b: 2\n  <<: *a\n", &["4 `<<` merges \"b\", which the map sets above"]),
        ("a: &a {b: 1}\nc:\n  b: 1\n  <<: *a\n", &[]),
        ("a: !mine x", &["1 the tag `!mine` is not supported"]),
        ("a: !!set {x}", &["1 the tag `!!set` is not supported"]),
        ("a: !!str x\nb: !!map {}\nc: !!seq []\n", &[]),
        ("? [x]\n: z", &["1 a key must be text, not a list"]),
        ("~: x", &["1 a key must be text: `~` is null"]),
        ("1: x", &["1 a key must be text: `1` is the number 1"]),
        ("yes: x", &["1 a key must be text: `yes` is the boolean true to Go and the text \"yes\" to YAML 1.2 readers"]),
        ("c: &x on\nd: *x\n", &["1 `on` is the boolean true to Go and the text \"on\" to YAML 1.2 readers"]),
        ("a: 0o7", &["1 `0o7` is the number 7 to Go and the text \"0o7\" to strict YAML 1.1 readers"]),
        ("a: .inf", &["1 `.inf` is the number .inf to Go, and JSON has no such number"]),
        (&format!("? {}\n: a", "k".repeat(1001)), &["1 a key is too long"]),
    ] {
        assert_eq!(problems(text), expected, "{text}");
    }
}

#[test]
fn fatal_problems_and_no_others_leave_no_tree() {
    for text in
        ["", "a: [", "a: &a [*a]", "a: *b", "? [x]\n: y", "~: x", "a: {<<: 5}", "a: !!int x", "%YAML 1.2\n---\na"]
    {
        let parsed = read(text);
        assert!(parsed.root.is_none() && parsed.problems.iter().any(|problem| problem.is_fatal()), "{text}");
    }
    for text in ["a: yes\na: 0777", "a: !foo b", "a: 1\n--- \n[", "a: b\n...\njunk [", "a: .inf", "1: a"] {
        let parsed = read(text);
        assert!(parsed.root.is_some() && !parsed.problems.iter().any(|problem| problem.is_fatal()), "{text}");
    }
}

#[test]
fn limits_the_size_of_trees() {
    let last = |text: &str| problems(text).pop().unwrap_or_default();
    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for n in 1..20 {
        let before = format!("*a{}", n - 1);
        laughs += &format!("a{n}: &a{n} [{}]\n", vec![before; 9].join(", "));
    }
    assert!(last(&laughs).ends_with("nearly the whole document comes from aliases"));
    let many = format!("a: &a [{}]\nb: [{}]\n", vec!["x"; 1000].join(","), vec!["*a"; 99].join(","));
    assert_eq!(last(&many), "2 the document has too many values");
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1000].join(","));
    assert!(last(&long).ends_with("the document has too much text"));
    let deep = format!("{}{}", "[".repeat(9_000), "]".repeat(9_000));
    let parsed = parse(&deep, &Limits { depth: usize::MAX, ..Limits::default() });
    assert_eq!(parsed.problems.len(), 1);
    assert_eq!(flow(&parsed.root.expect("a tree")), format!("{}null{}", "[".repeat(256), "]".repeat(256)));
    let shallow = Limits { depth: 2, ..Limits::default() };
    let tree = |text: &str| parse(text, &shallow).root.map(|root| flow(&root));
    assert_eq!(
        tree("a: {b: [c]}\nd: &x [1]\ne: [*x, 2]"),
        Some("{a: {b: null}, d: [null], e: [null, null]}".to_owned())
    );
}

/// Quadratic work on any of these would take minutes, and unbounded recursion would overflow the stack. The test
/// asserts no time.
#[test]
fn hostile_texts_end_soon() {
    let many = |part: &str, bytes: usize| part.repeat(bytes / part.len());
    let numbered = |count: usize, part: fn(usize) -> String| (0..count).map(part).collect::<String>();
    for text in [
        many("[", 500_000),
        many("- ", 200_000),
        many("? ", 20_000),
        many("a: 1\n", 200_000),
        many("yes: no\n", 200_000),
        many("&a ", 100_000),
        many("!a ", 100_000),
        many("# c\n", 1_000_000),
        numbered(50_000, |n| format!("%TAG !t{n}! tag:x,1:{n}\n")),
        numbered(20_000, |n| format!("k{n}: &a{n} x\n")),
        format!("a: {}", many("x\n  ", 200_000)),
        format!("a: \"{}\"", many("\\u0041", 200_000)),
        format!("a: >\n{}", many("\n", 200_000)),
        format!("? {}\n: b", many("k", 200_000)),
        format!("a: {}x{}", many("{x: ", 36_000), many("}", 9_000)),
        format!("a: &a {{{}}}\nb: {{{}}}", numbered(300, |n| format!("k{n}: v, ")), many("<<: *a, ", 2_000)),
    ] {
        let parsed = read(&text);
        assert!(parsed.root.is_some() || !parsed.problems.is_empty(), "{:?}", text.get(..40));
    }
}

/// A handle of a few bytes stands for a long prefix, in every tag.
#[test]
fn tags_count_as_text() {
    let of = |values: &str| {
        let text = format!("%TAG !e! {}\n---\nx:\n{}", "t".repeat(10_000), values.repeat(2_000));
        problems(&text).last().cloned().unwrap()
    };
    for values in ["- !e!x a\n", "- !e!x [a]\n", "- !e!x {a: b}\n"] {
        assert!(of(values).ends_with("the document has too much text"), "{values}");
    }
}
