//! The rim to the terminal: where data and messages go, and whether they are coloured.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

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
}

impl Terminal {
    /// The process's own streams.
    #[must_use]
    pub fn standard(color: Color) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            color,
            out: Box::new(AutoStream::new(io::stdout(), color.choice())),
            err: Box::new(AutoStream::new(io::stderr(), color.choice())),
            interactive: io::stderr().is_terminal() && !dumb && std::env::var_os("CI").is_none(),
        }
    }

    /// Another writer to standard error, for those who keep one.
    #[must_use]
    pub fn another_err(&self) -> Box<dyn Write + Send> {
        Box::new(AutoStream::new(io::stderr(), self.color.choice()))
    }

    /// Another writer to standard output, for those who keep one.
    #[must_use]
    pub fn another_out(&self) -> Box<dyn Write + Send> {
        Box::new(AutoStream::new(io::stdout(), self.color.choice()))
    }

    /// Whether logs on standard error may be coloured.
    #[must_use]
    pub fn colored_logs(&self) -> bool {
        AutoStream::choice(&io::stderr()) != ColorChoice::Never && self.color != Color::Never
    }
}
