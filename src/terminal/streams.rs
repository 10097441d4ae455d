//! Output streams of the process: data, messages, colors and widths.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

use super::github_actions::{self, WithoutCommands};
use super::status_area::{StatusArea, has_hung_up};
use crate::report::findings::WIDTH;
use crate::telemetry::facts::RunRecord;
use crate::terminal::environment;

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    fn choice(self) -> ColorChoice {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::AlwaysAnsi,
            Self::Never => ColorChoice::Never,
        }
    }
}

/// Standard output for data, and standard error for everything else.
pub struct Terminal {
    color: Color,
    /// Data.
    pub out: Box<dyn Write + Send>,
    /// Progress, logs and errors.
    pub err: Box<dyn Write + Send>,
    /// Whether standard error is a terminal that supports redraws.
    pub interactive: bool,
    /// Whether only warnings, errors and results are printed.
    pub quiet: bool,
    /// The lines that show progress.
    pub status_area: StatusArea,
    /// Facts of the run, for monitoring.
    pub record: RunRecord,
    sink: io::Sink,
    /// Width of text on standard output, in columns.
    pub out_width: usize,
    /// Width of text on standard error, in columns.
    pub err_width: usize,
    /// Width of results on standard output, in columns.
    pub out_line: usize,
    /// Width of progress on standard error, in columns.
    pub err_line: usize,
}

/// Minimum width. Narrower terminals wrap lines.
const NARROWEST: u16 = 50;

/// Width of the terminal behind a stream, within bounds. Other streams have a fixed width, for reproducible output.
fn width(columns: Option<(terminal_size::Width, terminal_size::Height)>) -> usize {
    columns.map_or(WIDTH, |(terminal_size::Width(columns), _)| WIDTH.min(usize::from(columns.max(NARROWEST))))
}

/// Width of the terminal behind a stream for results. Other streams have lines of any length.
fn line_width(columns: Option<(terminal_size::Width, terminal_size::Height)>) -> usize {
    columns.map_or(usize::MAX, |(terminal_size::Width(columns), _)| usize::from(columns.max(NARROWEST)))
}

/// Columns and lines of the terminal on standard output, if any.
pub(crate) fn out_size() -> Option<(usize, usize)> {
    let (terminal_size::Width(columns), terminal_size::Height(lines)) = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(columns), usize::from(lines)))
}

impl Terminal {
    /// The streams of the process.
    #[must_use]
    pub fn standard(color: Color, quiet: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            color,
            out: stream(io::stdout(), color),
            err: stream(io::stderr(), color),
            interactive: io::stderr().is_terminal() && !dumb && environment::value("CI").is_none(),
            quiet,
            status_area: StatusArea::of_standard_error(),
            record: RunRecord::default(),
            sink: io::sink(),
            out_width: width(terminal_size::terminal_size_of(io::stdout())),
            err_width: width(terminal_size::terminal_size_of(io::stderr())),
            out_line: line_width(terminal_size::terminal_size_of(io::stdout())),
            err_line: line_width(terminal_size::terminal_size_of(io::stderr())),
        }
    }

    /// Stream for messages that --quiet suppresses: header, progress and next steps. Warnings and errors go to
    /// [`err`](Self::err).
    pub fn info(&mut self) -> &mut dyn Write {
        if self.quiet { &mut self.sink } else { &mut *self.err }
    }

    /// Discards further data: a write that failed would fail again, and be reported again.
    pub(crate) fn close_out(&mut self) {
        self.out = Box::new(io::sink());
    }

    /// The lines that show progress, if standard error shows any.
    #[must_use]
    pub fn progress(&self) -> Option<&StatusArea> {
        (self.interactive && !self.quiet).then_some(&self.status_area)
    }

    /// Writes data of a repository or node to standard output, whose bytes must stay. No runner of GitHub should read it.
    pub(crate) fn print_data(&mut self, text: &str) -> io::Result<()> {
        self.out.flush()?;
        plain(io::stdout(), self.color).write_all(text.as_bytes())
    }

    /// Writer of workflow commands, for GitHub Actions.
    #[must_use]
    pub(crate) fn commands(&self) -> Box<dyn Write + Send> {
        plain(io::stderr(), self.color)
    }

    /// Another writer to standard error.
    #[must_use]
    pub fn new_err(&self) -> Box<dyn Write + Send> {
        stream(io::stderr(), self.color)
    }

    /// Another writer to standard output.
    #[must_use]
    pub fn new_out(&self) -> Box<dyn Write + Send> {
        stream(io::stdout(), self.color)
    }

    /// Reports whether standard error is colored.
    #[must_use]
    pub fn colored_err(&self) -> bool {
        self.colored(&io::stderr())
    }

    /// Reports whether standard output is colored.
    #[must_use]
    pub fn colored_out(&self) -> bool {
        self.colored(&io::stdout())
    }

    fn colored(&self, stream: &impl anstream::stream::RawStream) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => AutoStream::choice(stream) != ColorChoice::Never,
        }
    }
}

/// Stream for text, which GitHub Actions does not take for workflow commands.
fn stream<S: anstream::stream::RawStream + Send + 'static>(raw: S, color: Color) -> Box<dyn Write + Send>
where
    AutoStream<S>: Write,
{
    let plain = plain(raw, color);
    if github_actions::is_active() { Box::new(WithoutCommands::new(plain)) } else { plain }
}

/// Stream that changes no character.
fn plain<S: anstream::stream::RawStream + Send + 'static>(raw: S, color: Color) -> Box<dyn Write + Send>
where
    AutoStream<S>: Write,
{
    let is_terminal = raw.is_terminal();
    Box::new(IgnoreClosed { inner: Some(AutoStream::new(raw, color.choice())), is_terminal })
}

/// Writer that ignores a closed pipe or terminal. `nodecfg diff | head` is no error. A closed pager must not stop a
/// rollout or change the exit code.
struct IgnoreClosed<W> {
    inner: Option<W>,
    /// On a terminal, a failed write means that it was closed; on a file, that output is lost.
    is_terminal: bool,
}

impl<W> IgnoreClosed<W> {
    fn tolerate<T>(&mut self, result: io::Result<T>, otherwise: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe || (self.is_terminal && has_hung_up(&error)) => {
                self.inner = None;
                Ok(otherwise)
            }
            result => result,
        }
    }
}

impl<W: Write> Write for IgnoreClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(inner) = &mut self.inner else { return Ok(bytes.len()) };
        let result = inner.write(bytes);
        self.tolerate(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(inner) = &mut self.inner else { return Ok(()) };
        let result = inner.flush();
        self.tolerate(result, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails(io::ErrorKind, usize);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn ignores_closed_pipe_only() {
        let mut closed = IgnoreClosed { inner: Some(Fails(io::ErrorKind::BrokenPipe, 0)), is_terminal: false };
        closed.write_all(b"one").unwrap();
        closed.write_all(b"two").unwrap();
        closed.flush().unwrap();
        assert!(closed.inner.is_none());

        let mut full = IgnoreClosed { inner: Some(Fails(io::ErrorKind::StorageFull, 0)), is_terminal: true };
        assert_eq!(full.write_all(b"one").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(full.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
