//! `--metrics-textfile` and OpenTelemetry variables: metrics and traces of `sync`, `verify` and `diff`.
//!
//! Telemetry errors are warnings and never change the exit code. A pipeline could otherwise roll back because of a
//! full disk. The age of an old textfile is visible in `nodecfg_run_timestamp_seconds`.

use std::path::PathBuf;

use tokio::time::Instant;
use tracing::Span;

use crate::telemetry::facts::{Run, RunRecord};
use crate::telemetry::otlp::Export;
use crate::telemetry::settings::Settings;
use crate::telemetry::{metrics, spans, textfile};
use crate::terminal::exit::Exit;

/// Argument that requests metrics.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct MetricsArgs {
    /// Write metrics of the run to this file (*.prom), for node_exporter's textfile collector.
    #[arg(long, value_name = "FILE", value_parser = textfile::path, help_heading = "Monitoring")]
    metrics_textfile: Option<PathBuf>,
}

/// Telemetry of one run.
pub(crate) struct Telemetry {
    command: &'static str,
    textfile: Option<PathBuf>,
    export: Option<Export>,
    problems: Vec<String>,
    started: Instant,
}

impl Telemetry {
    /// Reads the settings. Without `--metrics-textfile` and the variables, nothing is recorded.
    pub(crate) fn of(command: &'static str, args: &MetricsArgs) -> Self {
        let mut settings = Settings::read(|name| std::env::var(name).ok());
        let mut problems = std::mem::take(&mut settings.problems);
        let textfile = args.metrics_textfile.clone();
        let export = Export::new(&mut settings);
        problems.append(&mut settings.problems);
        Self { command, textfile, export, problems, started: nodecfg_clock::instant() }
    }

    /// The exporter of spans.
    pub(crate) fn export(&self) -> Option<&Export> {
        self.export.as_ref()
    }

    /// The root span of the run.
    pub(crate) fn span(&self) -> Span {
        for problem in &self.problems {
            tracing::warn!("OpenTelemetry: {problem}");
        }
        let Some(export) = &self.export else { return Span::none() };
        let span = spans::command(self.command);
        export.join(&span);
        span
    }

    /// Writes and exports metrics and spans of the finished run.
    pub(crate) fn finish(self, span: Span, record: RunRecord, exit: Exit) {
        if self.textfile.is_none() && self.export.is_none() {
            return;
        }
        let before = self.textfile.as_deref().and_then(|path| textfile::before(path, self.command));
        let (took, ended, exit) = (self.started.elapsed(), nodecfg_clock::now(), exit as u8);
        let run = Run { command: self.command, took, ended, exit, record, before };
        spans::finish(&span, &run);
        drop(span);
        let samples = metrics::samples(&run);
        if let Some(path) = &self.textfile
            && let Err(error) = textfile::write(path, &textfile::render(&samples))
        {
            tracing::warn!("cannot write the metrics to {}: {error}", path.display());
        }
        for problem in self.export.into_iter().flat_map(|export| export.finish(&samples).err().unwrap_or_default()) {
            tracing::warn!("OpenTelemetry: {problem}");
        }
    }
}
