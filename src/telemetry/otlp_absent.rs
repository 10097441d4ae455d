//! Export to an OpenTelemetry collector, in a build without it: a run that requests it gets a warning.

use tracing_subscriber::layer::Layer;

use super::metrics::Sample;
use super::settings::Settings;

/// An export, which does not exist in this build.
#[derive(Debug)]
pub enum Export {}

impl Export {
    /// None, with a problem in the settings if they request an export.
    #[must_use]
    pub fn new(settings: &mut Settings) -> Option<Self> {
        if settings.traces.is_some() || settings.metrics.is_some() {
            settings.problems.push(
                "this build exports nothing; use an image or a release, or build with `--features opentelemetry`"
                    .to_owned(),
            );
        }
        None
    }

    /// Layer that collects the spans.
    #[must_use]
    pub fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>> {
        match *self {}
    }

    /// Adds a span to the trace of the parent process.
    pub fn join(&self, _: &tracing::Span) {
        match *self {}
    }

    /// Sends all data.
    ///
    /// # Errors
    /// None.
    pub fn finish(self, _: &[Sample]) -> Result<(), Vec<String>> {
        match self {}
    }
}
