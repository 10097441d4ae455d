//! Logs on standard error.

use std::io::{self, Write};

use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use super::status_area::StatusArea;
use crate::telemetry::otlp::Export;
use crate::telemetry::spans;

/// Starts logging: warnings, with `-v` what nodecfg does, with `-vv` every request.
/// NODECFG_LOG overrides, in the syntax of `tracing_subscriber::EnvFilter`. `foot` is drawn below the logs. Spans are no logs,
/// and go to `export` if anywhere.
pub(super) fn start(verbose: u8, colored: bool, foot: StatusArea, export: Option<&Export>) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("NODECFG_LOG")
        .unwrap_or_else(|_| EnvFilter::new(format!("nodecfg={level},kubelet_config={level}")));
    let logs = tracing_subscriber::fmt::layer()
        .with_writer(move || AboveFoot(foot.clone()))
        .with_ansi(colored)
        // The complaint about a closed standard error would itself go to standard error, and panic.
        .log_internal_errors(false)
        .with_target(false)
        .compact()
        .without_time();
    let logs = logs.with_filter(filter.and(filter_fn(|metadata| metadata.target() != spans::TARGET)));
    let spans = export.and_then(Export::layer::<Registry>);
    // A second start in one process, as in tests, keeps the first one's logger.
    let _ = Registry::default().with(spans).with(logs).try_init();
}

/// Standard error above what is drawn at the foot of the terminal.
struct AboveFoot(StatusArea);

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
