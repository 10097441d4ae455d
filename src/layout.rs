//! Text in the columns of a terminal: how many it takes, where its lines break, and what is cut.
//!
//! ANSI styles take no columns, here as in `textwrap`. Text of others has gone through [`printable`](nodecfg_contract::printable) before.

pub use textwrap::core::display_width as width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// How `textwrap` breaks prose into lines of at most so many columns: at spaces. A longer word is kept whole, so that commands
/// and addresses can be copied.
#[must_use]
pub fn within<'a>(columns: usize) -> Options<'a> {
    // Set one by one: the defaults depend on the features that other crates ask for.
    Options::new(columns)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(false)
}

/// The start of a text, in at most so many columns. Styles stay whole.
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

/// A text in at most so many columns, with a mark at its end where it is longer.
#[must_use]
pub fn shorten(text: &str, columns: usize) -> String {
    match columns {
        _ if width(text) <= columns => text.to_owned(),
        0 => String::new(),
        _ => cut(text, columns - 1) + "…",
    }
}

/// A text in at most so many columns, with a mark in its middle where it is longer: names differ at either end.
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

/// A text with spaces to so many columns, behind it or, with `right`, before it.
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
    fn counts_wide_characters_twice_and_marks_never() {
        assert_eq!(["节点", "e\u{301}", "×→…é", "🙂"].map(width), [4, 1, 4, 2]);
        assert_eq!(wrap("节点 节点", within(8)), ["节点", "节点"]);
        assert_eq!(shorten("节点", 3), "节…");
        assert_eq!(pad("节点", 6, false), "节点  ");
        assert_eq!(pad("12", 4, true), "  12");
    }

    #[test]
    fn marks_what_is_cut() {
        assert_eq!([6, 5, 1, 0].map(|columns| shorten("failed", columns)), ["failed", "fail…", "…", ""]);
        assert_eq!(shorten_middle("abcdefgh", 8), "abcdefgh");
        assert_eq!(shorten_middle("abcdefghi", 8), "abcd…ghi");
        assert_eq!(shorten_middle("äöüäöü", 3), "ä…ü");
        assert_eq!(shorten_middle("abc", 1), "…");
    }

    #[test]
    fn cuts_a_line_to_columns_and_ends_its_style() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("\u{1b}[31mabcdef\u{1b}[0m", 3), "\u{1b}[31mabc\u{1b}[0m");
        assert_eq!(cut("a\u{754c}b", 2), "a");
    }
}
