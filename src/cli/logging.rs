//! Logs on standard error.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::report::bars::Foot;

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// For programs: an object a line.
    Json,
}

/// What logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A command that somebody waits for: what goes wrong, and what it does only when asked.
    Command,
    /// A process that runs for long, whose log is kept: what it does, and when.
    Service(LogFormat),
}

/// Starts logging: warnings, with `-v` what nodecfg does, with `-vv` every request; of a service always what it does.
/// NODECFG_LOG overrides, in the syntax of `tracing_subscriber::EnvFilter`. `foot` is drawn below the logs.
pub(super) fn start(style: Style, verbose: u8, colored: bool, foot: Foot) {
    let default = match (style, verbose) {
        (Style::Command, 0) => "nodecfg=warn",
        (Style::Command, 1) | (Style::Service(_), 0) => "nodecfg=info",
        _ => "nodecfg=debug",
    };
    let filter = EnvFilter::try_from_env("NODECFG_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || AboveFoot(foot.clone()))
        .with_ansi(colored)
        // The complaint about a closed standard error would itself go to standard error, and panic.
        .log_internal_errors(false)
        .with_target(false);
    // A second start in one process, as in tests, keeps the first one's logger.
    let _ = match style {
        Style::Command => subscriber.compact().without_time().try_init(),
        Style::Service(LogFormat::Text) => subscriber.compact().try_init(),
        Style::Service(LogFormat::Json) => subscriber.json().flatten_event(true).with_ansi(false).try_init(),
    };
}

/// Standard error above what is drawn at the foot of the terminal.
struct AboveFoot(Foot);

impl Write for AboveFoot {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Each event comes whole, and is text.
        self.0.print(&String::from_utf8_lossy(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
