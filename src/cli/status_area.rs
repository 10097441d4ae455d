//! The foot of the terminal: lines that are drawn over and over, below what scrolls by.
//!
//! What else goes to standard error meanwhile goes through [`StatusArea::print`], or it would be drawn over too. Everything is
//! written in one piece per change, so that nothing flickers, and the cursor rests below the last line, where an echoed `^C`
//! does no harm.
//!
//! Own code, since a terminal that becomes narrower breaks the lines that are drawn. indicatif 0.18 does not count these: it
//! leaves old lines and erases printed ones. ratatui 0.30 clears the whole screen then, has a viewport of fixed height, and asks
//! the terminal for the cursor's position, which fails after two seconds where the terminal does not answer.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::layout::{shorten, width};
use nodecfg_contract::printable::one_line;

/// The size of a terminal that does not tell: columns, lines.
const USUAL: (usize, usize) = (80, 24);

/// The foot of one terminal.
#[derive(Clone)]
pub struct StatusArea(Arc<Mutex<Area>>);

struct Area {
    out: Box<dyn Write + Send>,
    size: Box<dyn Fn() -> Option<(usize, usize)> + Send>,
    /// The size when it was last known.
    last_size: (usize, usize),
    /// What is drawn.
    drawn: Vec<String>,
    /// Whether it was a terminal when the process started: one that has hung up no longer says so.
    is_terminal: bool,
    /// Nobody sees it any more.
    gone: bool,
}

impl StatusArea {
    /// The foot of standard error.
    #[must_use]
    pub fn of_standard_error() -> Self {
        Self::over(Box::new(io::stderr()), || {
            let (terminal_size::Width(columns), terminal_size::Height(lines)) =
                terminal_size::terminal_size_of(io::stderr())?;
            Some((usize::from(columns), usize::from(lines)))
        })
    }

    fn over(out: Box<dyn Write + Send>, size: impl Fn() -> Option<(usize, usize)> + Send + 'static) -> Self {
        let (drawn, gone, is_terminal) = (Vec::new(), false, io::stderr().is_terminal());
        Self(Arc::new(Mutex::new(Area { out, size: Box::new(size), last_size: USUAL, drawn, is_terminal, gone })))
    }

    /// Nothing that holds it leaves it in a state that the next could not go on from.
    fn area(&self) -> MutexGuard<'_, Area> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many columns and lines there are now. A terminal that is gone keeps its last size.
    pub fn size(&self) -> (usize, usize) {
        self.area().size()
    }

    /// Writes whole lines above the foot, or to standard error as it is while nothing is drawn.
    ///
    /// # Errors
    /// When it cannot be written, and a terminal that went away is not the reason.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let mut area = self.area();
        if area.drawn.is_empty() {
            return area.write(text);
        }
        let drawn = area.drawn.clone();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        area.redraw(&format!("{text}{end}"), drawn)
    }

    /// Replaces the foot, with `above` above it if that is not empty. No line may be wider than the terminal.
    ///
    /// # Errors
    /// As [`print`](Self::print).
    pub fn draw(&self, above: &str, lines: Vec<String>) -> io::Result<()> {
        let mut area = self.area();
        if above.is_empty() && lines == area.drawn { Ok(()) } else { area.redraw(above, lines) }
    }

    /// Lets what is drawn stand where it is. What comes next is written below.
    pub fn leave(&self) {
        self.area().drawn.clear();
    }

    /// Terminals have hung up: nothing is written to this one any more, if it was one.
    pub fn abandon(&self) {
        let mut area = self.area();
        area.gone |= area.is_terminal;
    }

    /// Takes away what is drawn.
    ///
    /// # Errors
    /// As [`print`](Self::print).
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
            // A terminal of no size is one that does not tell.
            self.last_size = if columns == 0 || lines == 0 { USUAL } else { (columns, lines) };
        }
        self.last_size
    }

    /// Moves the cursor to where the foot begins, and writes `above` and the lines from there. A terminal that became narrower
    /// has broken its lines, as most do; in one that cuts them instead, the last of what scrolled by is drawn over.
    fn redraw(&mut self, above: &str, lines: Vec<String>) -> io::Result<()> {
        let (columns, height) = self.size();
        let rows: usize = self.drawn.iter().map(|line| width(line).div_ceil(columns).max(1)).sum();
        let mut bytes = match rows.min(height.saturating_sub(1)) {
            0 => "\r".to_owned(),
            rows => format!("\r\x1b[{rows}A"),
        };
        if !above.is_empty() {
            // Texts may wrap: only a cleared screen is clean behind them.
            let _ = write!(bytes, "\x1b[J{above}");
        }
        for line in &lines {
            // All of the row: some terminals take cells that were erased behind a text for written ones, and break the line
            // there when they become narrower.
            let _ = writeln!(bytes, "\x1b[2K{line}");
        }
        bytes.push_str("\x1b[J");
        self.drawn = lines;
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &str) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        let result = self.out.write_all(bytes.as_bytes()).and_then(|()| self.out.flush());
        match result {
            Err(error) if is_gone(&error) => {
                self.gone = true;
                Ok(())
            }
            result => result,
        }
    }
}

/// Whether an error of writing to a terminal or pipe says that nobody is there any more: it was closed, or has hung up.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe || has_hung_up(error)
}

#[cfg(unix)]
pub(super) fn has_hung_up(error: &io::Error) -> bool {
    let hung_up = [rustix::io::Errno::IO, rustix::io::Errno::NXIO].map(rustix::io::Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| hung_up.contains(&code))
}

#[cfg(not(unix))]
pub(super) fn has_hung_up(_: &io::Error) -> bool {
    false
}

/// One line at the foot, for as long as it lives: what is waited for before there is anything to roll out.
#[derive(Debug)]
pub struct FootLine(StatusArea);

impl FootLine {
    /// An empty line.
    #[must_use]
    pub fn new(foot: &StatusArea) -> Self {
        Self(foot.clone())
    }

    /// Replaces the line.
    pub fn show(&self, text: &str) {
        let (columns, _) = self.0.size();
        // What cannot be shown is not missed: it says only what is waited for.
        let _ = self.0.draw("", vec![shorten(&one_line(text), columns.saturating_sub(1))]);
    }
}

impl Drop for FootLine {
    fn drop(&mut self) {
        let _ = self.0.clear();
    }
}

#[cfg(test)]
#[path = "status_area_tests.rs"]
mod tests;
