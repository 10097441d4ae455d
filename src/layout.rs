//! Layout of text in terminal columns: width, line breaks, truncation and padding.
//!
//! On a terminal, lines are not wider than the terminal, or than 50 columns: text wraps at spaces, and tables shorten
//! names. Words, and commands in backticks, stay whole on any width, so that they can be copied. Elsewhere, results of
//! runs, status and history have lines of any length, because programs search them; reviews, findings and explanations
//! have a fixed width.
//!
//! ANSI styles have no width, here as in `textwrap`. Text from outside must pass
//! [`printable`](nodecfg_contract::printable) first.

use textwrap::core::Word;
pub use textwrap::core::display_width as width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm, fill};

/// `textwrap` options for prose of at most `columns` columns: breaks at spaces outside of backticks only. Longer words
/// stay whole, so that commands and addresses can be copied.
#[must_use]
pub fn within<'a>(columns: usize) -> Options<'a> {
    // Explicit options: the defaults depend on the features that other crates enable.
    Options::new(columns)
        .word_separator(WordSeparator::Custom(words))
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(false)
}

/// The words of a line. A text in backticks is one word.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    // A last backtick without a partner is a character like others.
    let mut backticks = line.matches('`').count() / 2 * 2;
    let (mut starts, mut is_code, mut after_space) = (vec![0], false, false);
    for (at, character) in line.char_indices() {
        if after_space && character != ' ' {
            starts.push(at);
        }
        if character == '`' && backticks > 0 {
            backticks -= 1;
            is_code = !is_code;
        }
        after_space = character == ' ' && !is_code;
    }
    let ends = starts.clone().into_iter().skip(1).chain([line.len()]);
    Box::new(starts.into_iter().zip(ends).filter_map(|(start, end)| line.get(start..end)).map(Word::from))
}

/// A line that wraps at `columns` columns, with later lines indented by `indent` columns.
#[must_use]
pub fn hanging(line: &str, indent: usize, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    fill(line, within(columns).subsequent_indent(&" ".repeat(indent)))
}

/// Start of a text, in at most `columns` columns. Styles stay whole.
#[must_use]
pub fn cut(text: &str, columns: usize) -> String {
    let (mut used, mut is_style) = (0, false);
    let fits = |c: &char| {
        if is_style || *c == '\u{1b}' {
            is_style = !c.is_ascii_alphabetic();
            return true;
        }
        used += width(c.encode_utf8(&mut [0; 4]));
        used <= columns
    };
    text.chars().filter(fits).collect()
}

/// Text in at most `columns` columns, with `…` at the end of a truncated text.
#[must_use]
pub fn shorten(text: &str, columns: usize) -> String {
    match columns {
        _ if width(text) <= columns => text.to_owned(),
        0 => String::new(),
        _ => cut(text, columns - 1) + "…",
    }
}

/// Text in at most `columns` columns, with `…` in the middle of a truncated text: names differ at either end.
#[must_use]
pub fn shorten_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let backwards = |text: &str| text.chars().rev().collect::<String>();
    let kept = columns.saturating_sub(1);
    let tail = cut(&backwards(text), kept / 2);
    format!("{}…{}", cut(text, kept.div_ceil(2)), backwards(&tail))
}

/// Text padded with spaces to `columns` columns: at its end, or at its start with `right`.
#[must_use]
pub fn pad(text: &str, columns: usize, right: bool) -> String {
    let space = " ".repeat(columns.saturating_sub(width(text)));
    if right { space + text } else { text.to_owned() + &space }
}

#[cfg(test)]
mod tests {
    use textwrap::wrap;

    use super::*;

    #[test]
    fn breaks_lines_at_spaces_only() {
        assert_eq!(wrap("one two-three four", within(9)), ["one", "two-three", "four"]);
        assert_eq!(wrap("see https://a.example/b ok", within(8)), ["see", "https://a.example/b", "ok"]);
        assert_eq!(wrap("a  b", within(9)), ["a  b"]);
        assert_eq!(wrap("", within(4)), [""]);
        assert_eq!(wrap("abcdefghij k", within(4).break_words(true)), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("\u{1b}[1mab\u{1b}[0m cd ef", within(5)), ["\u{1b}[1mab\u{1b}[0m cd", "ef"]);
    }

    #[test]
    fn keeps_commands_whole() {
        assert_eq!(wrap("run `a b c` or d", within(9)), ["run", "`a b c`", "or d"]);
        assert_eq!(wrap("run (`a b c`), or", within(9)), ["run", "(`a b c`),", "or"]);
        assert_eq!(wrap("it`s a b c d", within(6)), ["it`s a", "b c d"], "no pair");
        assert_eq!(wrap("``  x y", within(4)), ["``", "x y"]);
    }

    #[test]
    fn hangs_later_lines() {
        assert_eq!(hanging("  see: one two", 7, 11), "  see: one\n       two");
        assert_eq!(hanging("  see: one two", 7, usize::MAX), "  see: one two");
        assert_eq!(hanging("", 2, 3), "");
    }

    #[test]
    fn counts_wide_characters_twice_and_combining_marks_never() {
        assert_eq!(["节点", "e\u{301}", "×→…é", "🙂"].map(width), [4, 1, 4, 2]);
        assert_eq!(wrap("节点 节点", within(8)), ["节点", "节点"]);
        assert_eq!(shorten("节点", 3), "节…");
        assert_eq!(pad("节点", 6, false), "节点  ");
        assert_eq!(pad("12", 4, true), "  12");
    }

    #[test]
    fn marks_truncated_text() {
        assert_eq!([6, 5, 1, 0].map(|columns| shorten("failed", columns)), ["failed", "fail…", "…", ""]);
        assert_eq!(shorten_middle("abcdefgh", 8), "abcdefgh");
        assert_eq!(shorten_middle("abcdefghi", 8), "abcd…ghi");
        assert_eq!(shorten_middle("äöüäöü", 3), "ä…ü");
        assert_eq!(shorten_middle("abc", 1), "…");
    }

    #[test]
    fn truncates_a_line_and_keeps_its_styles() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("\u{1b}[31mabcdef\u{1b}[0m", 3), "\u{1b}[31mabc\u{1b}[0m");
        assert_eq!(cut("a\u{754c}b", 2), "a");
    }
}
