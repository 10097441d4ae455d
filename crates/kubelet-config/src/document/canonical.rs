//! The canonical form of a document: one notation per content, which YAML 1.1 and 1.2 readers read alike.
//!
//! The form is in block style, with two spaces per level and keys in byte order. Text is plain only if no reader
//! could take it for another type. Other text is ASCII in double quotes with JSON's escapes. Whole numbers are
//! decimal. Empty values are `{}` and `[]`; a null in the tree is `null`.
//!
//! go-yaml writes scalars ([`Reading`]). These rules are version 1. Code that hashes the form records the version, and
//! every change of the rules needs a new version.

use super::{Mapping, Node, Reading, Value};

pub(super) fn document(root: &Node) -> String {
    let mut out = String::new();
    match &root.value {
        Value::Mapping(map) if !map.is_empty() => entries(&mut out, map, 0, false),
        Value::Sequence(list) if !list.is_empty() => items(&mut out, list, 0, false),
        _ => {
            leaf(&mut out, root);
            out.push('\n');
        }
    }
    out
}

/// Writes the entries of a map at `indent`. `inline` means that the first entry follows a dash on the same line.
fn entries(out: &mut String, map: &Mapping, indent: usize, inline: bool) {
    for (at, (key, entry)) in map.iter().enumerate() {
        if !(inline && at == 0) {
            spaces(out, indent);
        }
        out.push_str(&text(key));
        out.push(':');
        match &entry.value.value {
            Value::Mapping(map) if !map.is_empty() => {
                out.push('\n');
                entries(out, map, indent + 2, false);
            }
            Value::Sequence(list) if !list.is_empty() => {
                out.push('\n');
                items(out, list, indent + 2, false);
            }
            _ => {
                out.push(' ');
                leaf(out, &entry.value);
                out.push('\n');
            }
        }
    }
}

fn items(out: &mut String, list: &[Node], indent: usize, inline: bool) {
    for (at, item) in list.iter().enumerate() {
        if !(inline && at == 0) {
            spaces(out, indent);
        }
        out.push_str("- ");
        match &item.value {
            Value::Mapping(map) if !map.is_empty() => entries(out, map, indent + 2, true),
            Value::Sequence(list) if !list.is_empty() => items(out, list, indent + 2, true),
            _ => {
                leaf(out, item);
                out.push('\n');
            }
        }
    }
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

fn leaf(out: &mut String, node: &Node) {
    match &node.value {
        Value::Mapping(_) => out.push_str("{}"),
        Value::Sequence(_) => out.push_str("[]"),
        Value::Scalar(scalar) => out.push_str(&scalar.read().to_string()),
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
