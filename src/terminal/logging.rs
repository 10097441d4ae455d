//! Logs on standard error, printed above the status area.

use std::io::{self, Write};

use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use super::github_actions::without_commands;
use super::status_area::StatusArea;
use crate::telemetry::otlp::Export;
use crate::telemetry::spans;
use crate::terminal::environment;
use nodecfg_agent::cli::log_field;

/// Starts logging at level warn; `-v` selects info and `-vv` debug, which logs every request.
///
/// NODECFG_LOG overrides the level, in the syntax of `tracing_subscriber::EnvFilter`. Warns if it cannot be read. Spans
/// go to `export` only.
pub(crate) fn start(verbose: u8, colored: bool, status_area: StatusArea, export: Option<&Export>) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let requested = environment::text("NODECFG_LOG").map(EnvFilter::try_new);
    let (requested, problem) = match requested {
        Some(Ok(filter)) => (Some(filter), None),
        Some(Err(problem)) => (None, Some(problem)),
        None => (None, None),
    };
    let filter = requested.unwrap_or_else(|| EnvFilter::new(format!("nodecfg={level},kubelet_config={level}")));
    let logs = tracing_subscriber::fmt::layer()
        .with_writer(move || AboveStatusArea(status_area.clone()))
        .with_ansi(colored)
        // An error about a closed standard error would be printed to standard error, and panic.
        .log_internal_errors(false)
        .with_target(false)
        .compact()
        .fmt_fields(debug_fn(log_field::write).delimited(" "))
        .without_time();
    let logs = logs.with_filter(filter.and(filter_fn(|metadata| metadata.target() != spans::TARGET)));
    let spans = export.and_then(Export::layer::<Registry>);
    // A second start in the same process, as in tests, keeps the first logger.
    let _ = Registry::default().with(spans).with(logs).try_init();
    if let Some(problem) = problem {
        tracing::warn!("NODECFG_LOG is ignored: {problem}");
    }
}

/// Writer to standard error above the status area.
struct AboveStatusArea(StatusArea);

impl Write for AboveStatusArea {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The formatter writes each event with one call, as UTF-8 text.
        self.0.print(&without_commands(&String::from_utf8_lossy(bytes)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
