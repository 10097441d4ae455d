//! The rim to the terminal: where data and messages go, and whether they are coloured.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

use super::status_area::{StatusArea, has_hung_up};
use crate::report::findings::WIDTH;
use crate::telemetry::facts::Record;

/// When to use colours.
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

/// Standard output for data, standard error for everything else.
pub struct Terminal {
    color: Color,
    /// Data.
    pub out: Box<dyn Write + Send>,
    /// Progress, logs and errors.
    pub err: Box<dyn Write + Send>,
    /// Whether somebody watches: standard error is a terminal, and not a dumb one.
    pub interactive: bool,
    /// Whether only warnings, errors and results are wanted.
    pub quiet: bool,
    /// Where progress is drawn.
    pub foot: StatusArea,
    /// What is noted down of the run, for monitoring.
    pub record: Record,
    nowhere: io::Sink,
    /// How wide text on standard output may be, in columns.
    pub out_width: usize,
    /// The same on standard error.
    pub err_width: usize,
}

/// Narrower terminals wrap by themselves.
const NARROWEST: u16 = 50;

/// The width of the terminal behind a stream, within bounds. What is no terminal gets the same bytes everywhere.
fn width(columns: Option<(terminal_size::Width, terminal_size::Height)>) -> usize {
    columns.map_or(WIDTH, |(terminal_size::Width(columns), _)| WIDTH.min(usize::from(columns.max(NARROWEST))))
}

/// Columns and lines of the terminal on standard output, if it is one.
pub(super) fn out_size() -> Option<(usize, usize)> {
    let (terminal_size::Width(columns), terminal_size::Height(lines)) = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(columns), usize::from(lines)))
}

impl Terminal {
    /// The process's own streams.
    #[must_use]
    pub fn standard(color: Color, quiet: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            color,
            out: stream(io::stdout(), color),
            err: stream(io::stderr(), color),
            interactive: io::stderr().is_terminal() && !dumb && std::env::var_os("CI").is_none(),
            quiet,
            foot: StatusArea::of_standard_error(),
            record: Record::default(),
            nowhere: io::sink(),
            out_width: width(terminal_size::terminal_size_of(io::stdout())),
            err_width: width(terminal_size::terminal_size_of(io::stderr())),
        }
    }

    /// Where goes what only helps people along: which cluster it is, how far it is, what to do next. Not so warnings and errors,
    /// which are for [`err`](Self::err).
    pub fn aside(&mut self) -> &mut dyn Write {
        if self.quiet { &mut self.nowhere } else { &mut *self.err }
    }

    /// Another writer to standard error, for those who keep one.
    #[must_use]
    pub fn another_err(&self) -> Box<dyn Write + Send> {
        stream(io::stderr(), self.color)
    }

    /// Another writer to standard output, for those who keep one.
    #[must_use]
    pub fn another_out(&self) -> Box<dyn Write + Send> {
        stream(io::stdout(), self.color)
    }

    /// Whether what goes to standard error may be coloured.
    #[must_use]
    pub fn colored_err(&self) -> bool {
        self.colored(&io::stderr())
    }

    /// The same of standard output.
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

fn stream<S: anstream::stream::RawStream + Send + 'static>(raw: S, color: Color) -> Box<dyn Write + Send>
where
    AutoStream<S>: Write,
{
    let is_terminal = raw.is_terminal();
    Box::new(WhileRead { inner: Some(AutoStream::new(raw, color.choice())), is_terminal })
}

/// Writes as long as there is a reader. `nodecfg diff | head` is no error, and neither may a rollout end half-way because
/// the pager or the terminal that shows it was closed, nor may a command's exit code change for it.
struct WhileRead<W> {
    inner: Option<W>,
    /// Of a terminal, a failed write says that it has hung up; of a file, that something is lost.
    is_terminal: bool,
}

impl<W> WhileRead<W> {
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

impl<W: Write> Write for WhileRead<W> {
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
    fn a_reader_that_went_away_is_no_error_and_any_other_failure_is_one() {
        let mut closed = WhileRead { inner: Some(Fails(io::ErrorKind::BrokenPipe, 0)), is_terminal: false };
        closed.write_all(b"one").unwrap();
        closed.write_all(b"two").unwrap();
        closed.flush().unwrap();
        assert!(closed.inner.is_none());

        let mut full = WhileRead { inner: Some(Fails(io::ErrorKind::StorageFull, 0)), is_terminal: true };
        assert_eq!(full.write_all(b"one").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(full.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
