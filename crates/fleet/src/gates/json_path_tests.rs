//! Tests of JSONPaths.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::{JsonPath, MAX_STEPS, PathError, Step};

fn steps(text: &str) -> Vec<Step> {
    JsonPath::parse(text).unwrap_or_else(|error| panic!("{text} {error}")).0
}

fn refusal(text: &str) -> PathError {
    JsonPath::parse(text).expect_err(text)
}

#[test]
fn reads_names_and_indexes() {
    let name = |name: &str| Step::Name(name.to_owned());
    let labels = [name("metadata"), name("labels"), name("nodecfg.dev/pool")];
    for text in [
        ".metadata.labels['nodecfg.dev/pool']",
        ".metadata.labels[\"nodecfg.dev/pool\"]",
        // kubectl requires the backslash in both forms.
        ".metadata.labels['nodecfg\\.dev/pool']",
        ".metadata.labels.nodecfg\\.dev/pool",
        "$['metadata'].labels['nodecfg.dev/pool']",
    ] {
        assert_eq!(steps(text), labels, "{text}");
    }
    assert_eq!(steps(".a[0][-1].b-c_d"), [name("a"), Step::Index(0), Step::Index(-1), name("b-c_d")]);
    assert_eq!(steps("['it\\'s'][\"a'b\"]['ü .*[0]']"), [name("it's"), name("a'b"), name("ü .*[0]")]);
    assert_eq!(JsonPath::parse(".a['b.c/d'][0]['it\\'s']").unwrap().to_string(), ".a['b.c/d'][0]['it\\'s']");
}

#[test]
fn names_the_unsupported_part() {
    for (text, part) in [
        (".status.conditions[?(@.type==\"Ready\")].status", "a filter"),
        (".a[?@.b]", "a filter"),
        (".a[*].b", "a wildcard"),
        (".a.*", "a wildcard"),
        (".a..b", "a descendant"),
        ("..", "a descendant"),
        ("$..*..*", "a descendant"),
        (".a[0:2]", "a slice"),
        (".a[:]", "a slice"),
        (".a[0,1]", "a union"),
        (".a['b','c']", "a union"),
        (".a.length()", "a function"),
        (".a[(@.length-1)]", "an expression"),
    ] {
        let error = refusal(text);
        assert!(matches!(error, PathError::Unsupported(found) if found.starts_with(part)), "{text}: {error}");
    }
}

#[test]
fn refuses_other_texts() {
    for text in [
        "a",
        ".",
        ".a.",
        ".a.[0]",
        ".a b",
        ".a~",
        ".[",
        "[",
        "[]",
        "[a]",
        "[+1]",
        "[--1]",
        "[1",
        "[1]a",
        "['a'",
        "['a",
        "['']",
        "['a'x]",
        "['\\n']",
        "['a\\",
        ".a\\",
        "[9223372036854775808]",
        "@.a",
        "{.a}",
        "$$.a",
        ".a}",
        ".a\\}\\=b",
    ] {
        assert!(matches!(refusal(text), PathError::Invalid(_)), "{text}");
    }
    for text in ["", "$"] {
        assert_eq!(refusal(text), PathError::Empty, "{text}");
    }
    let long = refusal(&format!(".a.b#{}", "#".repeat(500)));
    assert!(long.to_string().chars().count() < 150, "{long}");
}

#[test]
fn limits_the_steps() {
    assert_eq!(steps(&".a".repeat(MAX_STEPS)).len(), MAX_STEPS);
    assert_eq!(refusal(&".a".repeat(MAX_STEPS + 1)), PathError::TooManySteps);
    assert_eq!(refusal(&"[0]".repeat(100_000)), PathError::TooManySteps);
}

/// With another parser, these nested filters of 310 characters took hours, and the time doubled with each level.
#[test]
fn refuses_nested_filters_without_reading_them() {
    for depth in [13, 100_000] {
        let nested = format!(".a{}{}", "[?(@.b".repeat(depth), ")]".repeat(depth));
        assert_eq!(refusal(&nested), PathError::Unsupported("a filter ([?…])"));
        let brackets = "[".repeat(depth);
        assert!(matches!(refusal(&brackets), PathError::Invalid(_)));
    }
}

/// Names that need quotes, that look like other steps, and a plain one.
const NAMES: [&str; 9] = ["a", "b-1", "a.b/c", "it's", "x\"y", "back\\slash", "*", "0", "é"];

/// What a path selects, by another route than the product: the document is taken apart from its root on.
fn naive(document: Value, steps: &[Step]) -> Option<Value> {
    let Some((first, rest)) = steps.split_first() else { return Some(document) };
    let inner = match (first, document) {
        (Step::Name(name), Value::Object(fields)) => fields.into_iter().find(|(key, _)| key == name)?.1,
        (Step::Index(index), Value::Array(mut items)) => {
            if *index < 0 {
                items.reverse();
            }
            let at = if *index < 0 { -index - 1 } else { *index };
            items.into_iter().enumerate().find(|(place, _)| i64::try_from(*place) == Ok(at))?.1
        }
        _ => return None,
    };
    naive(inner, rest)
}

/// One of the notations of a step.
fn written(step: &Step, notation: u8) -> String {
    let escaped = |name: &str, special: &[char]| -> String {
        name.chars().flat_map(|c| special.contains(&c).then_some('\\').into_iter().chain([c])).collect()
    };
    match step {
        Step::Index(index) => format!("[{index}]"),
        Step::Name(name) => match notation % 3 {
            0 => format!(".{}", escaped(name, &['.', '\'', '"', '\\', '*'])),
            1 => format!("['{}']", escaped(name, &['\'', '\\'])),
            _ => format!("[\"{}\"]", escaped(name, &['"', '\\', '.'])),
        },
    }
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(null)), any::<bool>().prop_map(Value::from), any::<i32>().prop_map(Value::from)];
    leaf.prop_recursive(4, 60, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((select(&NAMES[..]), inner), 0..5).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(fields.collect::<Map<_, _>>())
            }),
        ]
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![select(&NAMES[..]).prop_map(|name| Step::Name(name.to_owned())), (-5_i64..5).prop_map(Step::Index)]
}

/// A document, and a path that follows it as long as `choices` last, with `tail` after that.
fn followed(document: &Value, choices: &[u8], tail: &[Step]) -> Vec<Step> {
    let (mut value, mut steps) = (document, Vec::new());
    for choice in choices {
        let choice = usize::from(*choice);
        (value, steps) = match value {
            Value::Array(items) if !items.is_empty() => {
                let at = choice % items.len();
                // Half of the indexes count from the end.
                let shown = i64::try_from(at).unwrap();
                let length = i64::try_from(items.len()).unwrap();
                steps.push(Step::Index(if choice >= 128 { shown - length } else { shown }));
                (&items[at], steps)
            }
            Value::Object(fields) if !fields.is_empty() => {
                let (name, inner) = fields.iter().nth(choice % fields.len()).unwrap();
                steps.push(Step::Name(name.clone()));
                (inner, steps)
            }
            _ => break,
        };
    }
    steps.extend_from_slice(tail);
    steps
}

proptest! {
    #[test]
    fn printed_paths_are_read_back(steps in vec(step(), 1..10)) {
        let path = JsonPath(steps);
        prop_assert_eq!(JsonPath::parse(&path.to_string()), Ok(path));
    }

    #[test]
    fn every_notation_means_the_same(steps in vec(step(), 1..10), notations in vec(any::<u8>(), 10)) {
        let text: String = steps.iter().zip(notations).map(|(step, notation)| written(step, notation)).collect();
        prop_assert_eq!(JsonPath::parse(&text), Ok(JsonPath(steps)));
    }

    #[test]
    fn selects_what_a_walk_through_the_document_finds(
        document in documents(), choices in vec(any::<u8>(), 0..5), tail in vec(step(), 0..2),
    ) {
        let path = JsonPath(followed(&document, &choices, &tail));
        prop_assert_eq!(path.select(&document).cloned(), naive(document.clone(), &path.0));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[.$a0'\"\\\\\\[\\]*?(){}:,@ -]{0,40}") {
        if let Ok(path) = JsonPath::parse(&text) {
            prop_assert_eq!(JsonPath::parse(&path.to_string()), Ok(path));
        }
    }
}
