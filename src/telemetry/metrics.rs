//! Metrics of a run: names, labels and values. docs/reference/metrics.md has the same table; a test compares them.

use super::facts::{HOLD_REASONS, NodeFailure, Run, seconds};

/// Metric of a run. All metrics are gauges: a run has ended when they are read, and the next run starts anew.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in Prometheus.
    pub name: &'static str,
    /// Name in OpenTelemetry. A collector's Prometheus exporter derives `name` from it.
    pub otel: &'static str,
    /// Unit in UCUM, as in OpenTelemetry.
    pub unit: &'static str,
    /// Description.
    pub help: &'static str,
    /// Labels in addition to [`COMMON`].
    pub labels: &'static [&'static str],
}

/// Labels of every metric. They distinguish the files of one folder: a duplicate series would make all of them
/// invalid.
pub const COMMON: [&str; 2] = ["command", "fleet"];

macro_rules! metrics {
    ($($id:ident: $name:literal, $otel:literal, $unit:literal, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric { name: $name, otel: $otel, unit: $unit, help: $help, labels: &[$($label),*] };
        )*
        /// Every metric, in output order.
        pub const ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    BUILD_INFO: "nodecfg_build_info", "nodecfg.build_info", "", ["version"],
        "Version of nodecfg. Always 1";
    RUN_INFO: "nodecfg_run_info", "nodecfg.run.info", "", ["commit"],
        "Commit of the run; empty for a working tree or an unreadable repository. Always 1";
    EXIT_CODE: "nodecfg_run_exit_code", "nodecfg.run.exit_code", "", [],
        "Exit code of the run";
    FAILURE: "nodecfg_run_failure", "nodecfg.run.failure", "", ["kind"],
        "Failure that ended the run early. Always 1; missing without such a failure";
    DURATION: "nodecfg_run_duration_seconds", "nodecfg.run.duration", "s", [],
        "Duration of the run";
    ENDED: "nodecfg_run_timestamp_seconds", "nodecfg.run.timestamp", "s", [],
        "End of the run, in seconds since 1970";
    LAST_SUCCESS: "nodecfg_run_last_success_timestamp_seconds", "nodecfg.run.last_success.timestamp", "s", [],
        "End of the last successful run of this command, in seconds since 1970; missing when unknown";
    NODES: "nodecfg_nodes", "nodecfg.nodes", "", ["pool", "state"],
        "Nodes by pool and state at the end of the run; missing without a plan";
    DRIFTED: "nodecfg_drifted_nodes", "nodecfg.drifted_nodes", "", ["pool"],
        "Nodes that should run the configuration of the repository and do not";
    ON_TRIAL: "nodecfg_nodes_on_trial", "nodecfg.nodes_on_trial", "", ["pool"],
        "Converged nodes whose configuration was on trial at the end of the run; missing without a rollout";
    HELD: "nodecfg_held_nodes", "nodecfg.held_nodes", "", ["pool", "reason"],
        "Nodes that the run did not start without a failure of their pool, by reason; missing without a rollout";
    MARKED: "nodecfg_nodes_draining", "nodecfg.nodes_draining", "", [],
        "Nodes with the mark of a drain when the run read them; missing without a plan";
    NODE_FAILURES: "nodecfg_node_failures", "nodecfg.node_failures", "", ["pool", "kind"],
        "Failed nodes by pool and kind of failure";
}

/// Value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric.
    pub metric: &'static Metric,
    /// Labels, [`COMMON`] first.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// State of nodes without a pool; their label `pool` is empty.
pub const UNPOOLED: &str = "unpooled";

/// Samples of a run. Samples of one metric are adjacent, in the order of [`ALL`].
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
    add(&DURATION, &[], run.took.as_secs_f64());
    add(&ENDED, &[], seconds(run.ended));
    if let Some(success) = run.last_success() {
        add(&LAST_SUCCESS, &[], success);
    }
    let Some(nodes) = &run.record.nodes else { return samples };
    for (pool, facts) in &nodes.pools {
        let (pool, labelled) = (pool.as_str(), facts.labelled());
        for (label, count) in labelled {
            add(&NODES, &[pool, label], number(count));
        }
        let drifted = labelled.into_iter().filter(|(label, _)| !["converged", "skipped"].contains(label));
        add(&DRIFTED, &[pool], number(drifted.map(|(_, count)| count).sum()));
        if let Some(nodes) = facts.on_trial {
            add(&ON_TRIAL, &[pool], number(nodes));
            for reason in HOLD_REASONS {
                add(&HELD, &[pool, reason], number(facts.held.get(reason).copied().unwrap_or_default()));
            }
        }
        for kind in NodeFailure::ALL {
            let count = facts.failures.get(&kind).copied().unwrap_or_default();
            add(&NODE_FAILURES, &[pool, kind.name()], number(count));
        }
    }
    add(&NODES, &["", UNPOOLED], number(nodes.unpooled));
    add(&MARKED, &[], number(nodes.marked));
    // The formats of metrics require that the samples of a metric are adjacent.
    samples.sort_by_key(|sample| ALL.iter().position(|metric| *metric == sample.metric));
    samples
}

fn number(count: usize) -> f64 {
    count as f64
}
