//! Says in plain words why a text is no YAML: where what libyaml gave up on began, and the way out. libyaml names the place
//! where it could not go on, which is often a line or many below the mistake. Nothing here decides what is malformed.

use super::yaml::{Malformed, Mark};

/// What there is to say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Explanation {
    /// What is wrong, to follow "the file is not valid YAML: ".
    pub(super) message: String,
    /// Where.
    pub(super) mark: Mark,
    /// Other places, each with a few words.
    pub(super) related: Vec<(Mark, String)>,
    /// The way out.
    pub(super) help: Option<String>,
}

/// The way out for `{{ .Values.maxPods }}`, which people keep in files that are called YAML.
pub(super) const TEMPLATE: &str =
    "if this is a template, render it first: what is read here is what the kubelet would read";

const TAB: &str = "a tab indents this line, and YAML takes spaces alone";

/// Explains a problem of a text. What people do not write by mistake keeps libyaml's words.
pub(super) fn explain(malformed: &Malformed, text: &str) -> Explanation {
    let told = in_words(malformed, text);
    let rest = text.get(told.mark.offset..).unwrap_or_default();
    if rest.starts_with("{{") || rest.starts_with("{%") {
        return Explanation { help: Some(TEMPLATE.to_owned()), ..told };
    }
    told
}

fn in_words(malformed: &Malformed, text: &str) -> Explanation {
    let mark = malformed.mark;
    let began = malformed.began.first().copied();
    let said = |message: &str, help: &str| Explanation {
        message: message.to_owned(),
        mark,
        related: Vec::new(),
        help: Some(help.to_owned()),
    };
    let at = |mark: Option<Mark>, explanation| match mark {
        Some(mark) => Explanation { mark, ..explanation },
        None => explanation,
    };
    let since = |words: &str, explanation| Explanation {
        related: began.map(|mark| (mark, words.to_owned())).into_iter().collect(),
        ..explanation
    };
    match malformed.problem.as_str() {
        "did not find expected key" | "did not find expected '-' indicator" if starts_line(text, mark) => {
            indentation(malformed, text)
        }
        "did not find expected key" => since(
            "the map begins here",
            said(
                "this belongs neither to the value before it nor to a key",
                "put the whole value in quotes, or begin a new line with the next key",
            ),
        ),
        "did not find expected '-' indicator" => {
            since("the list begins here", said("this belongs to no item of the list", "begin each item with `- `"))
        }
        "did not find expected ',' or ']'" => since(
            "the list begins here",
            said("the list is not closed where this stands", "close it with `]`, and put `,` between its items"),
        ),
        "did not find expected ',' or '}'" => since(
            "the map begins here",
            said("the map is not closed where this stands", "close it with `}`, and put `,` between its entries"),
        ),
        "did not find expected node content" => {
            let (message, help) = match here(text, mark) {
                Some(c) => (format!("a value should stand where `{c}` does"), "write a value, or remove what has none"),
                None => {
                    ("the text ends where a value should stand".to_owned(), "write the value, and close what is open")
                }
            };
            since("what it would be part of begins here", said(&message, help))
        }
        "mapping values are not allowed in this context" => match began {
            Some(value) if value.line < mark.line => since(
                "that value begins here",
                said(
                    "this line continues the value above, since it is indented further, and no key can begin in it",
                    "indent the line like the key above, or remove that key's own value",
                ),
            ),
            Some(_) => since(
                "the value begins here",
                said(
                    "a second colon follows on this line, and what stands before it is a value already",
                    "put the value in quotes if the colon is part of it, or begin a new line with the next key",
                ),
            ),
            None => said("no key stands before this colon", "write a key, or remove the colon"),
        },
        "block sequence entries are not allowed in this context" => said(
            "a list cannot begin on the line of its key",
            "begin it on the next line, or write it as `[a, b]`; quote what is text and begins with `- `",
        ),
        "could not find expected ':'" => {
            at(began, said("no colon follows this key", "write `key: value`, with a blank behind the colon"))
        }
        "found character that cannot start any token" => match here(text, mark) {
            Some('\t') => said(TAB, "indent with spaces"),
            Some(c) => said(&format!("a value cannot begin with `{c}`"), "put the value in quotes"),
            None => said("the text ends too early", "write the value"),
        },
        "found a tab character that violates indentation"
        | "found a tab character where an indentation space is expected" => said(TAB, "indent with spaces"),
        "found unexpected end of stream" => {
            at(began, said("the quote that opens here is never closed", "close it at the end of the value"))
        }
        "found unexpected document indicator" => at(
            began,
            said("the quote that opens here is not closed in this document", "close it at the end of the value"),
        ),
        "found unknown escape character" => said(
            "this is no escape that YAML knows in double quotes",
            "write the backslash twice, or use single quotes, in which it means itself",
        ),
        "did not find expected alphabetic or numeric character" => said(
            "an alias (`*name`) or an anchor (`&name`) has letters, digits, `-` and `_` for a name",
            "put the value in quotes if it is no alias or anchor",
        ),
        "found incompatible YAML document" => {
            said("the kubelet reads YAML 1.1, and this line asks for another version", "remove the line")
        }
        "did not find expected comment or line break" => {
            said("text stands behind `|` or `>`", "begin the text on the next line, indented")
        }
        problem => Explanation { message: problem.to_owned(), mark, related: Vec::new(), help: None },
    }
}

/// A line that belongs to none of the blocks above it: by how much each of them is indented.
fn indentation(malformed: &Malformed, text: &str) -> Explanation {
    let depth = malformed.mark.column.saturating_sub(1);
    let mut blocks: Vec<(Mark, usize)> =
        malformed.began.iter().map(|mark| (*mark, mark.column.saturating_sub(1))).collect();
    blocks.sort_by_key(|(mark, _)| mark.offset);
    if blocks.iter().any(|(_, block)| *block == depth) {
        // It is in line with a block, and not what the block is made of.
        let list = here(text, malformed.mark) == Some('-');
        let (message, help) = if list {
            (
                "an item of a list stands among the keys of a map",
                "indent it below the key that it is for, or remove the `- `",
            )
        } else {
            (
                "this is not what the block that it is in line with is made of",
                "write `key: value` in a map and `- value` in a list",
            )
        };
        let related = malformed.began.first().map(|mark| (*mark, "the block begins here".to_owned()));
        return Explanation {
            message: message.to_owned(),
            mark: malformed.mark,
            related: related.into_iter().collect(),
            help: Some(help.to_owned()),
        };
    }
    let depths: Vec<String> = blocks.iter().map(|(_, depth)| depth.to_string()).collect();
    let what = if depths.len() == 1 { "the block that it is in" } else { "the blocks around it" };
    Explanation {
        message: format!("this line is indented by {depth}, and {what} by {}", depths.join(" and ")),
        mark: malformed.mark,
        related: blocks.iter().map(|(mark, depth)| (*mark, format!("indented by {depth}"))).collect(),
        help: Some(format!("indent it by {}", depths.join(" or "))),
    }
}

fn here(text: &str, mark: Mark) -> Option<char> {
    text.get(mark.offset..).and_then(|rest| rest.chars().next())
}

/// Whether nothing but blanks stands before a place on its line.
fn starts_line(text: &str, mark: Mark) -> bool {
    let before = text.get(..mark.offset).unwrap_or_default();
    let line = before.rsplit(['\n', '\r']).next().unwrap_or_default();
    line.trim_start_matches('\u{feff}').trim().is_empty() && here(text, mark).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::yaml::Events;
    use super::*;

    /// The place, the words and, in brackets, the related places.
    fn told(text: &str) -> String {
        let mut events = Events::new(text);
        let malformed = (0..100).find_map(|_| events.next().err()).unwrap();
        let told = explain(&malformed, text);
        let related: Vec<String> =
            told.related.iter().map(|(mark, words)| format!("{}:{} {words}", mark.line, mark.column)).collect();
        format!("{}:{} {} [{}]", told.mark.line, told.mark.column, told.message, related.join(", "))
    }

    #[test]
    fn usual_mistakes_are_told_where_they_are() {
        for (text, says) in [
            (
                "a:\n  b: 1\n c: 2",
                "3:2 this line is indented by 1, and the blocks around it by 0 and 2 [1:1 indented by 0, 2:3 indented by 2]",
            ),
            (
                "a:\n  - b\n - c",
                "3:2 this line is indented by 1, and the blocks around it by 0 and 2 [1:1 indented by 0, 2:3 indented by 2]",
            ),
            (
                "a: \"b\"\n  c: d",
                "2:3 this line is indented by 2, and the block that it is in by 0 [1:1 indented by 0]",
            ),
            ("a: b\n- c", "2:1 an item of a list stands among the keys of a map [1:1 the block begins here]"),
            (
                "- a\nb: c",
                "2:1 this is not what the block that it is in line with is made of [1:1 the block begins here]",
            ),
            ("a: 'b' c", "1:8 this belongs neither to the value before it nor to a key [1:1 the map begins here]"),
            ("a: [b,\n  c\nd: e", "3:2 the list is not closed where this stands [1:4 the list begins here]"),
            ("a: {b: c\nd: e", "2:2 the map is not closed where this stands [1:4 the map begins here]"),
            ("a: [b,, c]", "1:7 a value should stand where `,` does [1:4 what it would be part of begins here]"),
            (
                "a: b: c",
                "1:5 a second colon follows on this line, and what stands before it is a value already [1:4 the value begins here]",
            ),
            (
                "a: b\n  c: d",
                "2:4 this line continues the value above, since it is indented further, and no key can begin in it [1:4 that value begins here]",
            ),
            ("a: - b", "1:4 a list cannot begin on the line of its key []"),
            ("a: 1\nb 2\nc: 3", "2:1 no colon follows this key []"),
            ("a: 1\n\tb: 2", "2:1 a tab indents this line, and YAML takes spaces alone []"),
            ("a: @b", "1:4 a value cannot begin with `@` []"),
            ("a: \"b\nc: d\ne: f", "1:4 the quote that opens here is never closed []"),
            ("a: *.b", "1:5 an alias (`*name`) or an anchor (`&name`) has letters, digits, `-` and `_` for a name []"),
            ("a: !x!y z", "1:4 found undefined tag handle []"),
        ] {
            assert_eq!(told(text), says, "{text:?}");
        }
    }
}
