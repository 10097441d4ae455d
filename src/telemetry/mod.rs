//! Telemetry of a run: metrics in a file for node_exporter, and metrics and traces for an OpenTelemetry collector.
//!
//! [`facts`] and [`metrics`] are pure: a plan and its outcome become a [`Run`](facts::Run), and the run becomes
//! samples. [`textfile`] and [`otlp`] write the samples. Must not decide, and must not change the result of a run:
//! broken monitoring must not look like a broken rollout. Metrics contain no names of nodes.

pub mod facts;
pub mod metrics;
#[cfg(feature = "opentelemetry")]
pub mod otlp;
#[cfg(not(feature = "opentelemetry"))]
#[path = "otlp_absent.rs"]
pub mod otlp;
pub mod settings;
pub mod spans;
pub mod textfile;

#[cfg(test)]
mod tests;
