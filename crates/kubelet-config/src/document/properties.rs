//! Property tests of the tree: parsing never panics, the canonical form depends only on the content, and patches
//! match the json-patch package.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value as Json;

use super::Document;

/// Generates texts that readers easily misread, and arbitrary texts.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "yes",
            "no",
            "on",
            "off",
            "y",
            "n",
            "true",
            "null",
            "~",
            "",
            "0777",
            "0o7",
            "1_000",
            "1:30",
            "1e3",
            "0x1f",
            "<<",
            "=",
            "- a",
            "a: b",
            "# c",
            " a",
            "a ",
            "10%",
            "2001-01-01",
            ".inf",
            "a\nb",
            "\u{85}\u{2028}",
            "\u{feff}x",
            "*a",
            "&a",
            "!t",
            "é",
            "---",
            "...",
            "%YAML",
            "@",
            "`",
            "{",
            "[",
            "\\",
            "\"",
            "'",
            "\t",
            "100Mi",
            "none",
            "Static",
            "_5",
            "5_",
            "a:b",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
        "[a-zA-Z][a-zA-Z0-9.-]{0,12}",
    ]
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        (-1e6..1e6_f64).prop_map(Json::from),
        prop::num::f64::NORMAL.prop_map(Json::from),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Json::from),
            btree_map(text(), inner, 0..6).prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

fn read(text: &str) -> Document {
    let parsed = Document::parse("f.yaml", text);
    assert_eq!(parsed.findings, [], "{text}");
    parsed.document.expect("a document")
}

/// Formats JSON in flow style and in ASCII. Other characters may be line breaks in YAML, and YAML has no surrogate
/// pairs.
fn flow(value: &Json) -> String {
    match value {
        Json::String(text) => quoted(text),
        Json::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(",")),
        Json::Object(map) => {
            let entries: Vec<_> = map.iter().map(|(key, value)| format!("{}:{}", quoted(key), flow(value))).collect();
            format!("{{{}}}", entries.join(","))
        }
        other => other.to_string(),
    }
}

/// Formats a text in double quotes, in ASCII. Only text in quotes becomes a key beyond any doubt.
fn quoted(text: &str) -> String {
    let canonical = super::canonical_text(text);
    if canonical.starts_with('"') { canonical } else { format!("\"{canonical}\"") }
}

/// Formats JSON as YAML in a style drawn from `dice`: order of keys, flow or block, quotes, comments, blank lines.
fn write_loosely(value: &Json, dice: &mut impl FnMut() -> u8, indent: usize, out: &mut String) {
    match value {
        Json::Object(map) if !map.is_empty() && dice() > 84 => {
            let mut entries: Vec<_> = map.iter().collect();
            let turn = usize::from(dice()) % entries.len();
            entries.rotate_left(turn);
            for (key, value) in entries {
                out.push('\n');
                if dice() < 64 {
                    out.push_str("  # a comment: yes\n\n");
                }
                out.push_str(&" ".repeat(indent));
                // A key on one line has at most 1024 characters.
                write_text(key, dice, out);
                out.push_str(if dice() < 128 { ": " } else { ":   " });
                let deeper = indent + 1 + usize::from(dice() % 3);
                write_loosely(value, dice, deeper, out);
            }
        }
        Json::Array(items) if !items.is_empty() && dice() > 84 => {
            for item in items {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                out.push_str("- ");
                write_loosely(item, dice, indent + 2, out);
            }
        }
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                out.push_str(&flow(item));
            }
            out.push(']');
        }
        Json::String(text) => write_text(text, dice, out),
        Json::Null => out.push_str(["~", "null", "Null"][usize::from(dice() % 3)]),
        Json::Bool(value) if dice() < 128 => out.push_str(if *value { "True" } else { "FALSE" }),
        Json::Number(n) if dice() < 85 && n.as_u64().is_some() => {
            out.push_str(&format!("0x{:x}", n.as_u64().unwrap_or_default()));
        }
        other => out.push_str(&flow(other)),
    }
}

fn write_text(text: &str, dice: &mut impl FnMut() -> u8, out: &mut String) {
    let printable = text.chars().all(|c| (' '..='~').contains(&c));
    match dice() % 3 {
        0 if printable => out.push_str(&format!("'{}'", text.replace('\'', "''"))),
        1 if printable => out.push_str(&format!("!!str \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
        _ => out.push_str(&super::canonical_text(text)),
    }
}

/// Generates pointers that often match in the values of `small`. They never point to the root: json-patch refuses to
/// remove or move the root, even with a replacement.
fn pointer() -> impl Strategy<Value = String> {
    vec(prop_oneof![key(), "[0-3-]"], 1..4)
        .prop_map(|tokens| tokens.into_iter().map(|token| format!("/{token}")).collect())
}

fn key() -> impl Strategy<Value = String> {
    "[a-d]"
}

/// Generates small values with few keys, so that patches often match. All numbers are whole, because readers format
/// others differently.
fn small(with_null: bool) -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(if with_null { Json::Null } else { Json::from("x") }),
        (0..3).prop_map(Json::from),
        key().prop_map(Json::from)
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Json::from),
            btree_map(key(), inner, 0..4).prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

fn operations() -> impl Strategy<Value = Json> {
    let operation = (0..6, pointer(), pointer(), small(true)).prop_map(|(op, path, from, value)| match op {
        0 => serde_json::json!({"op": "add", "path": path, "value": value}),
        1 => serde_json::json!({"op": "remove", "path": path}),
        2 => serde_json::json!({"op": "replace", "path": path, "value": value}),
        3 => serde_json::json!({"op": "move", "path": path, "from": from}),
        4 => serde_json::json!({"op": "copy", "path": path, "from": from}),
        _ => serde_json::json!({"op": "test", "path": path, "value": value}),
    });
    vec(operation, 1..4).prop_map(Json::from)
}

/// Sorts keys as the tree does.
fn sorted(value: Json) -> Json {
    match value {
        Json::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(entries.into_iter().collect())
        }
        Json::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The json-patch package is the reference for patches of the tree.
    #[test]
    fn json_patches_match_json_patch_package(target in small(true), patch in operations()) {
        let ours = super::apply_json_patch(read(&target.to_string()).root, &read(&patch.to_string()).root);
        let mut theirs = target.clone();
        let operations: json_patch::Patch = serde_json::from_value(patch).expect("a patch");
        // `patch` undoes a patch that fails half-way, which panics on some of these (json-patch 4.2).
        match json_patch::patch_unsafe(&mut theirs, &operations) {
            Ok(()) => prop_assert_eq!(ours.map(|node| node.to_json()).ok(), Some(sorted(theirs))),
            Err(_) => prop_assert!(ours.is_err()),
        }
    }

    #[test]
    fn merge_patches_match_json_patch_package(target in small(false), patch in small(true)) {
        let patch_node = read(&patch.to_string()).root;
        let ours = super::apply_merge_patch(Some(read(&target.to_string()).root), &patch_node);
        let mut theirs = target;
        json_patch::merge(&mut theirs, &patch);
        prop_assert_eq!(ours.to_json(), sorted(theirs));
        let twice = super::apply_merge_patch(Some(ours.clone()), &patch_node);
        prop_assert!(twice.same_content(&ours));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let parsed = Document::parse("f.yaml", &text);
        prop_assert!(parsed.document.is_some() || !parsed.findings.is_empty());
        if let Some(document) = parsed.document {
            let _ = document.canonical();
        }
    }

    #[test]
    fn parsing_bytes_never_panics(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Document::parse("f.yaml", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn yaml_characters_yield_valid_places_and_canonical_form(text in "[-a:,{}\\[\\]&*!|>'\"%#?~<0-9 \n\t]{0,60}") {
        let parsed = Document::parse("f.yaml", &text);
        for place in parsed.findings.iter().filter_map(|f| f.place.as_ref()) {
            prop_assert!(text.get(place.offset..place.offset + place.len).is_some(), "{place:?} is outside of {text:?}");
        }
        if let (Some(document), true) = (parsed.document, parsed.findings.is_empty()) {
            let canonical = document.canonical();
            prop_assert_eq!(read(&canonical).canonical(), canonical);
        }
    }

    #[test]
    fn canonical_form_is_idempotent_and_keeps_content(value in json()) {
        let document = read(&format!("--- {}", flow(&value)));
        let canonical = document.canonical();
        let again = read(&canonical);
        prop_assert_eq!(again.canonical(), canonical.clone());
        prop_assert!(again.root.same_content(&document.root));
        prop_assert!(canonical.is_ascii());
    }

    /// As in the JSON that the kubelet decodes: an integer of any notation is one.
    #[test]
    fn whole_numbers_are_integers_in_every_notation(
        number in -10_000_000_000_i64..10_000_000_000,
        zeros in 0_usize..9,
    ) {
        let exponent = zeros.to_string();
        let scaled = number * 10_i64.pow(u32::try_from(zeros).expect("few zeros"));
        let decimal = format!("{}", number as f64 / 10_f64.powi(i32::try_from(zeros).expect("few zeros")));
        for (notation, whole) in [
            (format!("{number}"), number),
            (format!("{number}.0"), number),
            (format!("{number}."), number),
            (format!("{number}e{exponent}"), scaled),
            (format!("{number}.0E+{exponent}"), scaled),
            (format!("{decimal}e{exponent}"), number),
        ] {
            let whole = Json::from(whole);
            prop_assert_eq!(&read(&format!("a: {notation}\n")).to_json()["a"], &whole, "{}", notation);
            if serde_json::from_str::<Json>(&notation).is_ok() {
                prop_assert_eq!(&read(&format!("{{\"a\": {notation}}}")).to_json()["a"], &whole, "{} in JSON", notation);
            }
        }
    }

    #[test]
    fn json_depends_on_the_canonical_form_alone(value in json()) {
        let document = read(&format!("--- {}", flow(&value)));
        prop_assert_eq!(read(&document.canonical()).to_json(), document.to_json());
    }

    #[test]
    fn reads_json_as_json(value in json()) {
        // A map at the root, because other roots are read as YAML.
        let text = serde_json::json!({"value": value}).to_string();
        let read = read(&text).to_json();
        prop_assert!(alike(&read["value"], &value), "{} is not {}", read, text);
    }

    #[test]
    fn yaml_1_2_reader_reads_canonical_form_alike(value in json()) {
        let document = read(&format!("--- {}", flow(&value)));
        let other: Json = serde_saphyr::from_str(&document.canonical()).expect("YAML");
        prop_assert!(alike(&other, &document.to_json()), "{other} is not {}", document.to_json());
    }

    #[test]
    fn formatting_does_not_change_content(value in json(), dice in vec(any::<u8>(), 1..200)) {
        let mut at = 0;
        let mut roll = || {
            at += 1;
            dice[at % dice.len()].wrapping_add(u8::try_from(at / dice.len() % 256).expect("a byte"))
        };
        let mut loose = String::new();
        write_loosely(&value, &mut roll, 0, &mut loose);
        prop_assert_eq!(read(&format!("--- {loose}")).canonical(), read(&format!("--- {}", flow(&value))).canonical(), "{}", loose);
    }

    #[test]
    fn anchors_do_not_change_content(value in json()) {
        let value = flow(&value);
        let spelled = format!("--- {{\"a\": {value}, \"b\": {value}}}");
        let anchored = format!("--- {{\"a\": &x {value}, \"b\": *x }}");
        prop_assert_eq!(read(&anchored).canonical(), read(&spelled).canonical());
    }
}

/// Compares values. A whole float equals the integer, because YAML writes both the same way.
fn alike(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        (a, b) => a == b,
    }
}
