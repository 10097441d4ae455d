//! The metrics of a run: what they are called, and their values. docs/metrics.md has the same table (a test compares them).

use super::facts::{NodeFailure, Run, seconds};

/// A metric. All are gauges: a run is over when they are seen, and the next one knows nothing of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Its name in OpenTelemetry, from which a collector's Prometheus exporter makes `name`.
    pub otel: &'static str,
    /// Its unit, in UCUM as OpenTelemetry has it.
    pub unit: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Its labels beyond [`COMMON`].
    pub labels: &'static [&'static str],
}

/// Labels of every metric. Several files lie in one folder, and the same series twice would spoil them all.
pub const COMMON: [&str; 2] = ["command", "fleet"];

macro_rules! metrics {
    ($($id:ident: $name:literal, $otel:literal, $unit:literal, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric { name: $name, otel: $otel, unit: $unit, help: $help, labels: &[$($label),*] };
        )*
        /// Every metric, in the order in which they are written.
        pub const ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    BUILD_INFO: "nodecfg_build_info", "nodecfg.build_info", "", ["version"],
        "The version of nodecfg that ran. Always 1";
    RUN_INFO: "nodecfg_run_info", "nodecfg.run.info", "", ["commit"],
        "The commit that the run was about, empty when it was none or the repository could not be read. Always 1";
    EXIT_CODE: "nodecfg_run_exit_code", "nodecfg.run.exit_code", "", [],
        "The exit code of the run";
    FAILURE: "nodecfg_run_failure", "nodecfg.run.failure", "", ["kind"],
        "What ended the run before it was through with its nodes. Always 1; missing when nothing did";
    DURATION: "nodecfg_run_duration_seconds", "nodecfg.run.duration", "s", [],
        "How long the run took";
    ENDED: "nodecfg_run_timestamp_seconds", "nodecfg.run.timestamp", "s", [],
        "When the run ended, in seconds since 1970";
    LAST_SUCCESS: "nodecfg_run_last_success_timestamp_seconds", "nodecfg.run.last_success.timestamp", "s", [],
        "When a run of this command last succeeded, in seconds since 1970; missing when none is known to have";
    NODES: "nodecfg_nodes", "nodecfg.nodes", "", ["pool", "state"],
        "Nodes by pool and state at the end of the run; missing when there was no plan";
    DRIFTED: "nodecfg_drifted_nodes", "nodecfg.drifted_nodes", "", ["pool"],
        "Nodes that do not run what the repository says, and should";
    NODE_FAILURES: "nodecfg_node_failures", "nodecfg.node_failures", "", ["pool", "kind"],
        "Failed nodes by pool and kind of failure";
}

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric.
    pub metric: &'static Metric,
    /// Its labels, [`COMMON`] first.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// The state of nodes that are in no pool; their label `pool` is empty.
pub const UNPOOLED: &str = "unpooled";

/// What there is to say of a run. Samples of one metric are together, in the order of [`ALL`].
#[must_use]
pub fn samples(run: &Run) -> Vec<Sample> {
    let common = COMMON.into_iter().zip([run.command.to_owned(), run.fleet().to_owned()]).collect::<Vec<_>>();
    let mut samples = Vec::new();
    let mut add = |metric: &'static Metric, values: &[&str], value: f64| {
        let own = metric.labels.iter().copied().zip(values.iter().map(|&value| value.to_owned()));
        samples.push(Sample { metric, labels: common.iter().cloned().chain(own).collect(), value });
    };
    add(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1.0);
    let commit = run.record.commit.as_ref().map(ToString::to_string).unwrap_or_default();
    add(&RUN_INFO, &[&commit], 1.0);
    add(&EXIT_CODE, &[], f64::from(run.exit));
    if let Some(kind) = run.record.failure {
        add(&FAILURE, &[kind.name()], 1.0);
    }
    add(&DURATION, &[], run.ended.duration_since(run.started).as_secs_f64().max(0.0));
    add(&ENDED, &[], seconds(run.ended));
    if let Some(success) = run.last_success() {
        add(&LAST_SUCCESS, &[], success);
    }
    let Some(nodes) = &run.record.nodes else { return samples };
    for (pool, facts) in &nodes.pools {
        for (label, count) in facts.labelled() {
            add(&NODES, &[pool.as_str(), label], number(count));
        }
    }
    add(&NODES, &["", UNPOOLED], number(nodes.unpooled));
    for (pool, facts) in &nodes.pools {
        let drifted = facts.labelled().into_iter().filter(|(label, _)| !["converged", "skipped"].contains(label));
        add(&DRIFTED, &[pool.as_str()], number(drifted.map(|(_, count)| count).sum()));
    }
    for (pool, facts) in &nodes.pools {
        for kind in NodeFailure::ALL {
            let count = facts.failures.get(&kind).copied().unwrap_or_default();
            add(&NODE_FAILURES, &[pool.as_str(), kind.name()], number(count));
        }
    }
    samples
}

fn number(count: usize) -> f64 {
    count as f64
}
