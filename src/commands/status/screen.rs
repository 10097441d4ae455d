//! Alternate screen of the terminal on standard output, redrawn in place. The previous content returns at the end.

use std::io::{self, IsTerminal as _, Write as _};

use crate::layout::cut;
use crate::terminal::environment;
use crate::terminal::streams::out_size;

/// Control sequences that enter and leave the alternate screen and hide the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The alternate screen. Dropping it restores the previous content.
pub(super) struct Screen {
    colored: bool,
    size: (usize, usize),
}

impl Screen {
    /// Enters the alternate screen, if standard output is a terminal that supports it.
    pub(super) fn open(colored: bool) -> io::Result<Option<Self>> {
        let dumb = environment::value("TERM").is_none_or(|term| term == "dumb");
        let Some(size) = out_size().filter(|_| !dumb && io::stdout().is_terminal()) else { return Ok(None) };
        put(ENTER)?;
        Ok(Some(Self { colored, size }))
    }

    /// The current columns and lines, and whether they changed.
    pub(super) fn measure(&mut self) -> ((usize, usize), bool) {
        let size = out_size().unwrap_or(self.size);
        let is_new = size != self.size;
        self.size = size;
        (size, is_new)
    }

    /// Draws these lines. If they do not fit, a note replaces the middle, and the last line stays visible.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let rows = self.size.1.max(3);
        let mut shown: Vec<&str> = lines.iter().map(String::as_str).collect();
        let note;
        if shown.len() > rows {
            note = format!("… {} more lines: enlarge the window, or select a --pool", shown.len() - (rows - 2));
            let last = shown.last().copied().unwrap_or_default();
            shown.truncate(rows - 2);
            shown.extend([note.as_str(), last]);
        }
        let mut text = "\x1b[H".to_owned();
        for (index, line) in shown.iter().enumerate() {
            if index > 0 {
                text.push_str("\r\n");
            }
            // A wrapped line would push others off the screen.
            let line = cut(line, self.size.0);
            if self.colored {
                text.push_str(&line);
            } else {
                text.push_str(&anstream::adapter::strip_str(&line).to_string());
            }
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        put(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal needs no cleanup.
        let _ = put(LEAVE);
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
