//! The canonical form of a document: one notation per content, which YAML 1.1 and 1.2 readers read alike.
//!
//! The form is in block style, with two spaces per level and keys in byte order. Text is plain only if no reader
//! could take it for another type. Other text is ASCII in double quotes with JSON's escapes. Whole numbers are
//! decimal. Empty values are `{}` and `[]`; a null in the tree is `null`.
//!
//! These rules are version 1. Code that hashes the form records the version, and every change of the rules needs a
//! new version.

use std::fmt::Write;

use super::{Mapping, Node, Reading, Scalar, Value, scalar::number};

/// Texts that some YAML reader takes for a boolean or null, in lower case.
const RESERVED: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

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
        Value::Scalar(scalar) => out.push_str(&scalar_text(scalar)),
    }
}

/// Returns the canonical form of a scalar's meaning to the kubelet.
#[must_use]
pub fn scalar_text(scalar: &Scalar) -> String {
    match scalar.read() {
        Reading::Null => "null".to_owned(),
        Reading::Bool(value) => value.to_string(),
        Reading::Int(value) => value.to_string(),
        Reading::Float(value) => number(value),
        Reading::Text(value) => text(value),
    }
}

/// Returns the canonical form of a text: plain if every reader takes it for text, else in double quotes.
#[must_use]
pub fn text(value: &str) -> String {
    if is_safe(value) { value.to_owned() } else { quoted(value) }
}

/// Reports whether a text can be plain. It starts with a letter, `_` or `/`, continues with letters, digits and
/// `_./-`, and is not reserved. No number, date, indicator or separator has this form.
fn is_safe(value: &str) -> bool {
    let mut chars = value.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '/')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'))
        && !RESERVED.contains(&value.to_ascii_lowercase().as_str())
}

/// Returns a text in double quotes, in ASCII. YAML 1.1 and 1.2 share the escapes `\u` and `\U`.
pub(super) fn quoted(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            _ => {
                let code = u32::from(c);
                // Writing to a String cannot fail.
                let _ = if code <= 0xffff { write!(out, "\\u{code:04x}") } else { write!(out, "\\U{code:08x}") };
            }
        }
    }
    out.push('"');
    out
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
