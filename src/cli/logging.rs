//! Logs on standard error.

use std::io::{self, Write};

use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use super::foot::Foot;
use crate::telemetry::otlp::Export;
use crate::telemetry::spans;

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
/// NODECFG_LOG overrides, in the syntax of `tracing_subscriber::EnvFilter`. `foot` is drawn below the logs. Spans are no logs,
/// and go to `export` if anywhere.
pub(super) fn start(style: Style, verbose: u8, colored: bool, foot: Foot, export: Option<&Export>) {
    let default = match (style, verbose) {
        (Style::Command, 0) => "nodecfg=warn",
        (Style::Command, 1) | (Style::Service(_), 0) => "nodecfg=info",
        _ => "nodecfg=debug",
    };
    let filter = EnvFilter::try_from_env("NODECFG_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt::layer()
        .with_writer(move || AboveFoot(foot.clone()))
        .with_ansi(colored)
        // The complaint about a closed standard error would itself go to standard error, and panic.
        .log_internal_errors(false)
        .with_target(false);
    let logs = match style {
        Style::Command => logs.compact().without_time().boxed(),
        Style::Service(LogFormat::Text) => logs.compact().boxed(),
        Style::Service(LogFormat::Json) => logs.json().flatten_event(true).with_ansi(false).boxed(),
    };
    let logs = logs.with_filter(filter.and(filter_fn(|metadata| metadata.target() != spans::TARGET)));
    let spans = export.and_then(Export::layer::<Registry>);
    // A second start in one process, as in tests, keeps the first one's logger.
    let _ = Registry::default().with(spans).with(logs).try_init();
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
