//! The canonical form of a document: one notation per content, which YAML 1.1 and 1.2 readers read alike.
//!
//! The form is in block style, with two spaces per level and keys in byte order. Text is plain only if no reader
//! could take it for another type. Other text is ASCII in double quotes with JSON's escapes. Whole numbers are
//! decimal. Empty values are `{}` and `[]`; a null in the tree is `null`.
//!
//! go-yaml writes scalars ([`Reading`]). These rules are version 1. Code that hashes the form records the version, and
//! every change of the rules needs a new version.

use super::{Node, Reading, Value};

/// What is before a value on its line.
#[derive(PartialEq)]
enum After {
    /// Nothing.
    Start,
    /// A key with its colon.
    Key,
    /// The dash of an item, after which the first entry or item of the value follows on the same line.
    Dash,
}

pub(super) fn document(root: &Node) -> String {
    let mut out = String::new();
    write(&mut out, root, 0, &After::Start);
    out
}

/// Writes a value. The entries of a map and the items of a list start at `indent`.
fn write(out: &mut String, node: &Node, indent: usize, after: &After) {
    let is_nested = match &node.value {
        Value::Mapping(map) => !map.is_empty(),
        Value::Sequence(list) => !list.is_empty(),
        Value::Scalar(_) => false,
    };
    if *after == After::Key {
        out.push(if is_nested { '\n' } else { ' ' });
    }
    let spaces = |at: usize| " ".repeat(if at == 0 && *after == After::Dash { 0 } else { indent });
    match &node.value {
        Value::Mapping(map) if is_nested => {
            for (at, (key, entry)) in map.iter().enumerate() {
                out.push_str(&format!("{}{}:", spaces(at), text(key)));
                write(out, &entry.value, indent + 2, &After::Key);
            }
        }
        Value::Sequence(list) if is_nested => {
            for (at, item) in list.iter().enumerate() {
                out.push_str(&format!("{}- ", spaces(at)));
                write(out, item, indent + 2, &After::Dash);
            }
        }
        Value::Mapping(_) => out.push_str("{}\n"),
        Value::Sequence(_) => out.push_str("[]\n"),
        Value::Scalar(scalar) => out.push_str(&format!("{}\n", scalar.read())),
    }
}

/// Returns the canonical form of a text: plain if every reader takes it for text, else in double quotes.
#[must_use]
pub fn text(value: &str) -> String {
    Reading::Text(value).to_string()
}

#[cfg(test)]
mod tests {
    use crate::document::Document;

    fn canonical(text: &str) -> String {
        let parsed = Document::parse("test.yaml", text);
        assert!(parsed.findings.is_empty(), "{:?}", parsed.findings);
        parsed.document.expect("a document").canonical()
    }

    #[test]
    fn canonical_form_has_one_notation() {
        let text = "b: {'y': [], x: {}}\n'a': |\n  two\n  lines\nlist:\n- [1, [2]]\n- k: v\n  j: 5.0\nnone: ~\nn1: 'no'\nport: 0x10\n\
                    u: \"\\u00e9\\U0001F600\"\nunix: unix:///run\ndate: 2001-01-01\n";
        assert_eq!(
            canonical(text),
            "a: \"two\\nlines\\n\"\nb:\n  x: {}\n  \"y\": []\ndate: \"2001-01-01\"\nlist:\n  - - 1\n    - - 2\n  - j: 5\n    k: v\n\
             n1: \"no\"\nnone: null\nport: 16\nu: \"\\u00e9\\U0001f600\"\nunix: \"unix:///run\"\n"
        );
    }

    #[test]
    fn formats_any_root() {
        assert_eq!(canonical("[]"), "[]\n");
        assert_eq!(canonical("{}"), "{}\n");
        assert_eq!(canonical("x"), "x\n");
        assert_eq!(canonical("[a, 'off']"), "- a\n- \"off\"\n");
    }
}
