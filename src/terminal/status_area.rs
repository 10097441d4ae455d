//! Status area: lines at the bottom of the terminal that are redrawn in place, below scrolling output.
//!
//! All other output to standard error must go through [`StatusArea::print`] while lines are drawn, or it is
//! overwritten. Each change is one write, which prevents flicker. The cursor rests below the last line, where an
//! echoed `^C` overwrites nothing.
//!
//! Custom code, because a terminal that becomes narrower wraps the drawn lines. indicatif 0.18 does not count wrapped
//! lines: it leaves old lines and erases printed ones. ratatui 0.30 clears the whole screen on a resize and has a
//! viewport of fixed height. It also queries the cursor position, which fails after two seconds on terminals that do
//! not answer.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::layout::{shorten, width};
use nodecfg_contract::printable::one_line;

/// Columns and lines of a terminal that does not report its size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Status area of one terminal.
#[derive(Clone)]
pub struct StatusArea(Arc<Mutex<Area>>);

struct Area {
    out: Box<dyn Write + Send>,
    size: Box<dyn Fn() -> Option<(usize, usize)> + Send>,
    /// Last known size.
    last_size: (usize, usize),
    /// The lines on screen.
    drawn: Vec<String>,
    /// Whether the stream was a terminal when the process started. A terminal that hung up no longer reports this.
    is_terminal: bool,
    /// Whether the terminal was closed.
    closed: bool,
}

impl StatusArea {
    /// Status area of standard error.
    #[must_use]
    pub fn of_standard_error() -> Self {
        Self::over(Box::new(io::stderr()), || {
            let (terminal_size::Width(columns), terminal_size::Height(lines)) =
                terminal_size::terminal_size_of(io::stderr())?;
            Some((usize::from(columns), usize::from(lines)))
        })
    }

    fn over(out: Box<dyn Write + Send>, size: impl Fn() -> Option<(usize, usize)> + Send + 'static) -> Self {
        let (drawn, closed, is_terminal) = (Vec::new(), false, io::stderr().is_terminal());
        Self(Arc::new(Mutex::new(Area {
            out,
            size: Box::new(size),
            last_size: DEFAULT_SIZE,
            drawn,
            is_terminal,
            closed,
        })))
    }

    /// Ignores poisoning: every operation leaves the state valid.
    fn area(&self) -> MutexGuard<'_, Area> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of columns and lines. A closed terminal keeps its last size.
    pub fn size(&self) -> (usize, usize) {
        self.area().size()
    }

    /// Prints whole lines above the status area. Without drawn lines, writes to standard error directly.
    ///
    /// # Errors
    /// Write error, except that of a closed terminal.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let mut area = self.area();
        if area.drawn.is_empty() {
            return area.write(text);
        }
        let drawn = area.drawn.clone();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        area.redraw(&format!("{text}{end}"), drawn)
    }

    /// Redraws the status area, and prints `above` above it. Lines must not be wider than the terminal.
    ///
    /// # Errors
    /// Same as [`print`](Self::print).
    pub fn draw(&self, above: &str, lines: Vec<String>) -> io::Result<()> {
        let mut area = self.area();
        if above.is_empty() && lines == area.drawn { Ok(()) } else { area.redraw(above, lines) }
    }

    /// Keeps the drawn lines on screen as ordinary output.
    pub fn leave(&self) {
        self.area().drawn.clear();
    }

    /// Stops all writes after SIGHUP, if the stream was a terminal.
    pub fn abandon(&self) {
        let mut area = self.area();
        area.closed |= area.is_terminal;
    }

    /// Erases the drawn lines.
    ///
    /// # Errors
    /// Same as [`print`](Self::print).
    pub fn clear(&self) -> io::Result<()> {
        self.draw("", Vec::new())
    }
}

impl std::fmt::Debug for StatusArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusArea").finish_non_exhaustive()
    }
}

impl Area {
    fn size(&mut self) -> (usize, usize) {
        if let Some((columns, lines)) = (self.size)() {
            // A terminal of size 0 does not report its size.
            self.last_size = if columns == 0 || lines == 0 { DEFAULT_SIZE } else { (columns, lines) };
        }
        self.last_size
    }

    /// Moves the cursor to the first drawn line, and writes `above` and the lines from there. Assumes that a narrower
    /// terminal wrapped the drawn lines, as most do. In a terminal that truncates lines, the last scrolled lines are
    /// overwritten.
    fn redraw(&mut self, above: &str, lines: Vec<String>) -> io::Result<()> {
        let (columns, height) = self.size();
        let rows: usize = self.drawn.iter().map(|line| width(line).div_ceil(columns).max(1)).sum();
        let mut bytes = match rows.min(height.saturating_sub(1)) {
            0 => "\r".to_owned(),
            rows => format!("\r\x1b[{rows}A"),
        };
        if !above.is_empty() {
            // Texts may wrap, so the screen below must be cleared first.
            let _ = write!(bytes, "\x1b[J{above}");
        }
        for line in &lines {
            // Erases the whole row: some terminals treat cells erased behind a text as written, and wrap them when
            // they become narrower.
            let _ = writeln!(bytes, "\x1b[2K{line}");
        }
        bytes.push_str("\x1b[J");
        self.drawn = lines;
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &str) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let result = self.out.write_all(bytes.as_bytes()).and_then(|()| self.out.flush());
        match result {
            Err(error) if is_closed(&error) => {
                self.closed = true;
                Ok(())
            }
            result => result,
        }
    }
}

/// Reports whether a write error means that the pipe or terminal was closed.
pub(crate) fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe || has_hung_up(error)
}

#[cfg(unix)]
pub(crate) fn has_hung_up(error: &io::Error) -> bool {
    let hung_up = [rustix::io::Errno::IO, rustix::io::Errno::NXIO].map(rustix::io::Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| hung_up.contains(&code))
}

#[cfg(not(unix))]
pub(crate) fn has_hung_up(_: &io::Error) -> bool {
    false
}

/// One status line, erased when dropped. Shows progress before a rollout starts.
#[derive(Debug)]
pub struct StatusLine(StatusArea);

impl StatusLine {
    /// Creates an empty line.
    #[must_use]
    pub fn new(status_area: &StatusArea) -> Self {
        Self(status_area.clone())
    }

    /// Replaces the line.
    pub fn show(&self, text: &str) {
        let (columns, _) = self.0.size();
        // A failed redraw is ignored, because the line only shows progress.
        let _ = self.0.draw("", vec![shorten(&one_line(text), columns.saturating_sub(1))]);
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        let _ = self.0.clear();
    }
}

#[cfg(test)]
#[path = "status_area_tests.rs"]
mod tests;
