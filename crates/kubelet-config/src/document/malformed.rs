//! Explanations of YAML syntax errors: the start of the affected construct and a fix. libyaml reports the position
//! where it stopped, often lines below the mistake. The parser alone decides which texts are malformed.

use std::sync::Arc;

use go_yaml::Span;

use super::context::place;
use crate::finding::Finding;

/// The fix for templates such as `{{ .Values.maxPods }}` in YAML files.
pub(super) const TEMPLATE: &str = "render templates first: the file must be what the kubelet reads";

const TAB: &str = "a tab indents this line; YAML allows only spaces";

/// Explains a syntax error, from libyaml's message and position and from the starts of the affected constructs. Rare
/// errors keep libyaml's message. If the text there is a template, the fix is [`TEMPLATE`].
pub(super) fn explain(problem: &str, span: Span, began: &[Span], text: &str, file: &Arc<str>) -> Finding {
    let finding = explain_message(problem, span, began, text, file);
    let rest = finding.place.as_ref().and_then(|place| text.get(place.offset..)).unwrap_or_default();
    if rest.starts_with("{{") || rest.starts_with("{%") { finding.help(TEMPLATE) } else { finding }
}

fn error(message: &str, span: Span, file: &Arc<str>) -> Finding {
    Finding::error("malformed-yaml", format!("the file is not valid YAML: {message}")).at(place(span, file))
}

fn explain_message(problem: &str, span: Span, blocks: &[Span], text: &str, file: &Arc<str>) -> Finding {
    let began = blocks.first().copied();
    let with_help = |message: &str, help: &str| error(message, span, file).help(help);
    let at = |start: Option<Span>, finding: Finding| finding.at(place(start.unwrap_or(span), file));
    let since = |label: &str, finding: Finding| match began {
        Some(start) => finding.related(place(start, file), label),
        None => finding,
    };
    match problem {
        "did not find expected key" | "did not find expected '-' indicator" if starts_line(text, span) => {
            indentation(span, blocks, text, file)
        }
        "did not find expected key" => since(
            "the map starts here",
            with_help(
                "this text is neither part of the value before it nor a key",
                "put the whole value in quotes, or start a new line with the next key",
            ),
        ),
        "did not find expected '-' indicator" => since(
            "the list starts here",
            with_help("this text is not part of a list item", "start each item with `- `"),
        ),
        "did not find expected ',' or ']'" => since(
            "the list starts here",
            with_help("the list is not closed before this text", "close it with `]`, and separate items with `,`"),
        ),
        "did not find expected ',' or '}'" => since(
            "the map starts here",
            with_help("the map is not closed before this text", "close it with `}`, and separate entries with `,`"),
        ),
        "did not find expected node content" => {
            let (message, help) = match char_at(text, span) {
                Some(c) => (format!("expected a value, found `{c}`"), "write a value, or remove the key or item"),
                None => (
                    "expected a value, found the end of the text".to_owned(),
                    "write the value, and close all brackets",
                ),
            };
            since("the enclosing list or map starts here", with_help(&message, help))
        }
        "mapping values are not allowed in this context" => match began {
            Some(value) if value.line < span.line => since(
                "the value above starts here",
                with_help(
                    "this line continues the value above, because it is indented further, and cannot contain a key",
                    "indent the line like the key above, or remove the value of that key",
                ),
            ),
            Some(_) => since(
                "the value starts here",
                with_help(
                    "this is a second colon on the line, and the text before it is already a value",
                    "put the value in quotes if it contains the colon, or start a new line with the next key",
                ),
            ),
            None => with_help("no key precedes this colon", "write a key, or remove the colon"),
        },
        "block sequence entries are not allowed in this context" => with_help(
            "a list cannot start on the line of its key",
            "start it on the next line, or write `[a, b]`; quote text that starts with `- `",
        ),
        "could not find expected ':'" => {
            at(began, with_help("no colon follows this key", "write `key: value`, with a blank after the colon"))
        }
        "found character that cannot start any token" => match char_at(text, span) {
            Some('\t') => with_help(TAB, "indent with spaces"),
            Some(c) => with_help(&format!("a value cannot start with `{c}`"), "put the value in quotes"),
            None => with_help("the text ends too early", "write the value"),
        },
        "found a tab character that violates indentation"
        | "found a tab character where an indentation space is expected" => with_help(TAB, "indent with spaces"),
        "found unexpected end of stream" => {
            at(began, with_help("the quote that opens here is never closed", "close it at the end of the value"))
        }
        "found unexpected document indicator" => at(
            began,
            with_help("the quote that opens here is not closed in this document", "close it at the end of the value"),
        ),
        "found unknown escape character" => with_help(
            "YAML has no such escape in double quotes",
            "write the backslash twice, or use single quotes, in which a backslash is literal",
        ),
        "did not find expected alphabetic or numeric character" => with_help(
            "the name of an alias (`*name`) or an anchor (`&name`) must consist of letters, digits, `-` and `_`",
            "put the value in quotes if it is not an alias or an anchor",
        ),
        "found incompatible YAML document" => {
            with_help("the kubelet reads YAML 1.1, and this line requires another version", "remove the line")
        }
        "did not find expected comment or line break" => {
            with_help("text follows `|` or `>`", "start the text on the next line, indented")
        }
        problem => error(problem, span, file),
    }
}

/// Explains a line that is not an entry of any enclosing block: its indentation matches no block, or its text does
/// not fit the block that it is aligned with.
fn indentation(span: Span, began: &[Span], text: &str, file: &Arc<str>) -> Finding {
    let depth = span.column.saturating_sub(1);
    let mut blocks: Vec<(Span, usize)> = began.iter().map(|span| (*span, span.column.saturating_sub(1))).collect();
    blocks.sort_by_key(|(span, _)| span.offset);
    let aligned = blocks.iter().any(|(_, block)| *block == depth);
    if let (true, Some(start)) = (aligned, began.first()) {
        // The line is aligned with a block, but is not an entry of it.
        let (message, help) = if char_at(text, span) == Some('-') {
            ("a list item is between the keys of a map", "indent it below its key, or remove the `- `")
        } else {
            (
                "this line is not an entry of the block that it is aligned with",
                "write `key: value` in a map and `- value` in a list",
            )
        };
        return error(message, span, file).related(place(*start, file), "the block starts here").help(help);
    }
    let depths: Vec<String> = blocks.iter().map(|(_, depth)| depth.to_string()).collect();
    let what = if depths.len() == 1 { "the enclosing block" } else { "the enclosing blocks" };
    let message = format!("this line is indented by {depth}, and {what} by {}", depths.join(" and "));
    let finding = error(&message, span, file).help(format!("indent it by {}", depths.join(" or ")));
    blocks
        .iter()
        .fold(finding, |finding, (span, depth)| finding.related(place(*span, file), format!("indented by {depth}")))
}

fn char_at(text: &str, span: Span) -> Option<char> {
    text.get(span.offset..).and_then(|rest| rest.chars().next())
}

/// Reports whether only blanks precede a position on its line.
fn starts_line(text: &str, span: Span) -> bool {
    let before = text.get(..span.offset).unwrap_or_default();
    let line = before.rsplit(['\n', '\r']).next().unwrap_or_default();
    line.trim_start_matches('\u{feff}').trim().is_empty() && char_at(text, span).is_some()
}

#[cfg(test)]
mod tests {
    use go_yaml::{Limits, Problem, ProblemKind, parse};

    use super::*;

    /// Formats the position and the message, with related places in brackets.
    fn explained(text: &str) -> String {
        let problem = parse(text, &Limits::default()).problems.pop().unwrap();
        let Problem { kind: ProblemKind::Syntax { message, began }, span } = problem else { panic!("{problem:?}") };
        let finding = explain(&message, span, &began, text, &"".into());
        let related: Vec<String> =
            finding.related.iter().map(|(place, label)| format!("{}:{} {label}", place.line, place.column)).collect();
        let place = finding.place.unwrap();
        let message = finding.message.strip_prefix("the file is not valid YAML: ").unwrap();
        format!("{}:{} {message} [{}]", place.line, place.column, related.join(", "))
    }

    #[test]
    fn explains_common_mistakes() {
        for (text, message) in [
            (
                "a:\n  b: 1\n c: 2",
                "3:2 this line is indented by 1, and the enclosing blocks by 0 and 2 [1:1 indented by 0, 2:3 indented by 2]",
            ),
            (
                "a:\n  - b\n - c",
                "3:2 this line is indented by 1, and the enclosing blocks by 0 and 2 [1:1 indented by 0, 2:3 indented by 2]",
            ),
            ("a: \"b\"\n  c: d", "2:3 this line is indented by 2, and the enclosing block by 0 [1:1 indented by 0]"),
            ("a: b\n- c", "2:1 a list item is between the keys of a map [1:1 the block starts here]"),
            (
                "- a\nb: c",
                "2:1 this line is not an entry of the block that it is aligned with [1:1 the block starts here]",
            ),
            ("a: 'b' c", "1:8 this text is neither part of the value before it nor a key [1:1 the map starts here]"),
            ("a: [b,\n  c\nd: e", "3:2 the list is not closed before this text [1:4 the list starts here]"),
            ("a: {b: c\nd: e", "2:2 the map is not closed before this text [1:4 the map starts here]"),
            ("a: [b,, c]", "1:7 expected a value, found `,` [1:4 the enclosing list or map starts here]"),
            (
                "a: b: c",
                "1:5 this is a second colon on the line, and the text before it is already a value [1:4 the value starts here]",
            ),
            (
                "a: b\n  c: d",
                "2:4 this line continues the value above, because it is indented further, and cannot contain a key [1:4 the value above starts here]",
            ),
            ("a: - b", "1:4 a list cannot start on the line of its key []"),
            ("a: 1\nb 2\nc: 3", "2:1 no colon follows this key []"),
            ("a: 1\n\tb: 2", "2:1 a tab indents this line; YAML allows only spaces []"),
            ("a: @b", "1:4 a value cannot start with `@` []"),
            ("a: \"b\nc: d\ne: f", "1:4 the quote that opens here is never closed []"),
            (
                "a: *.b",
                "1:5 the name of an alias (`*name`) or an anchor (`&name`) must consist of letters, digits, `-` and `_` []",
            ),
            ("a: !x!y z", "1:4 found undefined tag handle []"),
        ] {
            assert_eq!(explained(text), message, "{text:?}");
        }
    }
}
