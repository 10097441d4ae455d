//! Page on which a review is written as text: wraps lines at its width.

use std::io;
use std::io::Write;

use textwrap::wrap;

use crate::layout::within;

/// An output with its width.
pub(super) struct Page<'a> {
    pub(super) out: &'a mut dyn Write,
    pub(super) width: usize,
}

impl Page<'_> {
    /// Writes wrapped text: the first line indented by `indent` columns, the others by two more.
    pub(super) fn prose(&mut self, indent: usize, text: &str, style: fn(&str) -> String) -> io::Result<()> {
        self.wrapped(indent, text, style, false)
    }

    /// Writes a change as [`prose`](Self::prose). Breaks long words, because a value may have no spaces.
    pub(super) fn change(&mut self, indent: usize, text: &str, style: fn(&str) -> String) -> io::Result<()> {
        self.wrapped(indent, text, style, true)
    }

    fn wrapped(&mut self, indent: usize, text: &str, style: fn(&str) -> String, breaks_words: bool) -> io::Result<()> {
        let mut margin = indent;
        let columns = within(self.width.saturating_sub(indent + 2)).break_words(breaks_words);
        for line in wrap(text, columns) {
            writeln!(self.out, "{}{}", " ".repeat(margin), style(&line))?;
            margin = indent + 2;
        }
        Ok(())
    }
}
