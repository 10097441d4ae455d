//! One line of a terminal: words with a tone each, cut to the terminal's width.

use std::fmt::{self, Display};

use super::super::style::{bad, good, heading, quiet, warning};
use nodecfg_contract::printable::is_hidden;

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

/// What stands for words that have no room.
const CUT: char = '…';

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
            let taken = within(&text, left);
            left -= width(taken);
            let whole = taken.len() == text.len();
            line.push(tone, taken);
            if !whole {
                break;
            }
        }
        if columns > 0 {
            line.push(Tone::Plain, CUT);
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

/// A text over so many lines of so many columns, broken between words where it can be. What has no room is cut.
pub(super) fn wrap(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && wrapped.len() + 1 < lines && width(rest) > columns {
        let taken = within(rest, columns.max(1));
        let ends_a_word = rest.get(taken.len()..).is_some_and(|next| next.starts_with(char::is_whitespace));
        let taken = match taken.rfind(char::is_whitespace) {
            Some(space) if !ends_a_word => rest.get(..space).unwrap_or(taken),
            _ => taken,
        };
        if taken.is_empty() {
            break;
        }
        wrapped.push(taken.trim_end().to_owned());
        rest = rest.get(taken.len()..).unwrap_or_default().trim_start();
    }
    if !rest.is_empty() && lines > 0 {
        wrapped.push(Line::plain(rest).fit(columns).to_string());
    }
    wrapped
}

/// The beginning of a text that takes at most so many columns.
fn within(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += width_of(c);
        if taken > columns {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// How many columns a character takes at most. Some that are counted as two take one or none: then a line is shorter than
/// it might be, and never longer.
fn width_of(c: char) -> usize {
    if u32::from(c) < 0x1100 || c == CUT { 1 } else { 2 }
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
        assert_eq!(wrap(" \n ", 4, 3), [""; 0]);
        assert_eq!(wrap("节节", 1, 3), ["…"]);
    }
}
