//! One line of a terminal: words with a tone each, cut to the terminal's width.

use std::fmt::{self, Display};

use super::super::style::{bad, good, heading, quiet, warning};
use crate::layout::{cut, shorten, width, within};
use crate::printable::{is_hidden, one_line};

/// How words look where colours are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As they come.
    Plain,
    /// To be found again.
    Strong,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// Somebody should look.
    Warning,
    /// Of less weight.
    Quiet,
}

/// A line. Its words come from the cluster too: nothing in it moves the cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    spans: Vec<(Tone, String)>,
}

impl Line {
    /// A line of plain words.
    #[must_use]
    pub fn plain(text: impl Display) -> Self {
        Self::default().and(Tone::Plain, text)
    }

    /// The line with more words at its end.
    #[must_use]
    pub fn and(mut self, tone: Tone, text: impl Display) -> Self {
        self.push(tone, text);
        self
    }

    /// Adds words at the end.
    pub fn push(&mut self, tone: Tone, text: impl Display) {
        let text: String = text.to_string().chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect();
        if !text.is_empty() {
            self.spans.push((tone, text));
        }
    }

    /// How many columns it takes at most.
    #[must_use]
    pub fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| width(text)).sum()
    }

    /// The line in so many columns: what has no room is cut, and that shows.
    #[must_use]
    pub fn fit(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns.saturating_sub(1);
        let mut line = Self::default();
        for (tone, text) in self.spans {
            let taken = cut(&text, left);
            left -= width(&taken);
            let whole = taken.len() == text.len();
            line.push(tone, taken);
            if !whole {
                break;
            }
        }
        if columns > 0 {
            line.push(Tone::Plain, '…');
        }
        line
    }

    /// The line with ANSI styles.
    #[must_use]
    pub fn styled(&self) -> String {
        let style = |(tone, text): &(Tone, String)| match tone {
            Tone::Plain => text.clone(),
            Tone::Strong => heading(text),
            Tone::Good => good(text),
            Tone::Bad => bad(text),
            Tone::Warning => warning(text),
            Tone::Quiet => quiet(text),
        };
        self.spans.iter().map(style).collect()
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spans.iter().try_for_each(|(_, text)| f.write_str(text))
    }
}

/// A text over so many lines of so many columns. What has no room is cut, and that shows.
pub(super) fn wrap(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let text = one_line(text);
    let all = textwrap::wrap(&text, within(columns.max(1)).break_words(true));
    let (whole, rest) = all.split_at_checked(lines.saturating_sub(1)).unwrap_or((&all, &[]));
    let last = shorten(&rest.join(" "), columns);
    whole.iter().map(ToString::to_string).chain((lines > 0 && !last.is_empty()).then_some(last)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_cut_and_that_shows() {
        let line = Line::plain("pool ").and(Tone::Bad, "3 failed");
        assert_eq!(line.clone().fit(13).to_string(), "pool 3 failed");
        assert_eq!(line.clone().fit(12).to_string(), "pool 3 fail…");
        assert_eq!(line.clone().fit(1).to_string(), "…");
        assert_eq!(line.fit(0).to_string(), "");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(Line::plain("节点").width(), 4);
        assert_eq!(Line::plain("节点").fit(3).to_string(), "节…");
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(Line::plain("a\u{1b}[2Jb\nc\u{202e}d").to_string(), "a [2Jb c d");
    }

    #[test]
    fn texts_break_between_words_and_are_cut_at_their_end() {
        assert_eq!(wrap("one two three", 7, 3), ["one two", "three"]);
        assert_eq!(wrap("one two three four", 7, 2), ["one two", "three …"]);
        assert_eq!(wrap("unbreakable", 4, 9), ["unbr", "eaka", "ble"]);
        assert_eq!(wrap("x", 4, 0), [""; 0]);
        assert_eq!(wrap("one two three four", 5, 2), ["one", "two …"]);
        assert_eq!(wrap("one\ntwo", 9, 2), ["one two"]);
        assert_eq!(wrap(" \n ", 4, 3), [""; 0]);
    }
}
