//! What a run tells those who were not there: metrics in a file for node_exporter, metrics and traces for an OpenTelemetry
//! collector.
//!
//! [`facts`] and [`metrics`] are pure: what a plan and its outcome say becomes a [`Run`](facts::Run), and that a list of
//! samples, which [`textfile`] and [`otlp`] write down each in its form. Nothing here decides anything, or changes how a run
//! ends: monitoring that is broken must not make a rollout look as if it were.

pub mod facts;
pub mod metrics;
pub mod otlp;
pub mod settings;
pub mod spans;
pub mod textfile;

#[cfg(test)]
mod tests;
