//! Spans of a run. They are `tracing` spans with their own target, which logs exclude and an exporter collects.
//! Without an exporter they are disabled.

use std::collections::BTreeMap;

use tracing::Span;

use super::facts::{Run, RunFailure};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_planning::plan::Plan;
use nodecfg_rollout::progress::{Event, Progress};

/// Target of all spans and their events.
pub const TARGET: &str = "nodecfg::spans";

/// Span of a command. `process.*` and `error.type` follow OpenTelemetry's semantic conventions.
#[must_use]
pub fn command(command: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "command",
        otel.name = format!("nodecfg {command}"),
        otel.status_code = tracing::field::Empty,
        process.executable.name = "nodecfg",
        process.pid = std::process::id(),
        process.exit.code = tracing::field::Empty,
        error.type = tracing::field::Empty,
        nodecfg.fleet = tracing::field::Empty,
        vcs.ref.head.revision = tracing::field::Empty,
    )
}

/// Records the result of a command in its span.
pub fn finish(span: &Span, run: &Run) {
    span.record("process.exit.code", run.exit);
    if let Some(fleet) = &run.record.fleet {
        span.record("nodecfg.fleet", fleet.as_str());
    }
    if let Some(commit) = &run.record.commit {
        span.record("vcs.ref.head.revision", commit.to_string());
    }
    if !run.succeeded() {
        span.record("otel.status_code", "ERROR");
        // The conventions require few distinct values.
        span.record("error.type", run.record.failure.map_or("exit-code", RunFailure::name));
    }
}

/// Span of a stage: reading the repository, reading the cluster, planning, waiting for the lock.
#[must_use]
pub fn stage(stage: &'static str) -> Span {
    tracing::info_span!(target: TARGET, "stage", otel.name = stage)
}

/// Spans of a rollout: one for each pool with steps, which contains one for each node, from its first event to its
/// end.
#[derive(Default)]
pub struct RolloutSpans {
    pools: BTreeMap<PoolName, Span>,
    nodes: BTreeMap<NodeName, Span>,
}

impl RolloutSpans {
    /// Opens the spans of the pools with steps.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let mut rollout = Self::default();
        if Span::current().is_disabled() {
            return rollout;
        }
        for pool in plan.pools.iter().filter(|pool| pool.steps().next().is_some()) {
            let span = tracing::info_span!(
                target: TARGET,
                "rollout",
                otel.name = "rollout",
                otel.status_code = tracing::field::Empty,
                otel.status_description = tracing::field::Empty,
                nodecfg.pool = %pool.name,
                nodecfg.pool.nodes = pool.nodes,
                nodecfg.pool.to_assign = pool.assignments(),
            );
            rollout.pools.insert(pool.name.clone(), span);
        }
        rollout
    }

    /// Records an event of the rollout.
    pub fn record(&mut self, event: &Event) {
        if self.pools.is_empty() {
            return;
        }
        match &event.progress {
            Progress::Assigned { pool, node, .. } => self.step(pool, node, "assigned"),
            Progress::Waiting { pool, node, waiting } => {
                let Some(span) = self.node(pool, node) else { return };
                tracing::info!(target: TARGET, parent: &span, waiting_for = %waiting, "waiting");
            }
            Progress::DrainStarted { pool, node, .. } => self.step(pool, node, "drain started"),
            Progress::DrainBlocked { pool, node, .. } => self.step(pool, node, "drain blocked"),
            Progress::Drained { pool, node, .. } => self.step(pool, node, "drained"),
            Progress::Converged { pool, node, .. } => self.ended(pool, node, "converged", None),
            Progress::Failed { pool, node, failure } => self.ended(pool, node, "failed", Some(&failure.to_string())),
            Progress::Refused { pool, node, error } => self.ended(pool, node, "refused", Some(error)),
            Progress::Changed { pool, node, .. } => {
                self.ended(pool, node, "changed by others", Some("changed by others"))
            }
            Progress::Gone { pool, node } => self.ended(pool, node, "gone", None),
            Progress::Held { pool, .. } => self.note(pool, "held"),
            Progress::RolledBack { pool, .. } => self.note(pool, "rolled back"),
            Progress::RollbackFailed { pool, .. } => self.note(pool, "not back"),
            Progress::NotRolledBack { pool, .. } => self.note(pool, "not pointed back"),
            Progress::NotReleased { pool, .. } => self.note(pool, "not released"),
            Progress::PoolHeld { pool, .. } => self.note(pool, "pool held"),
            Progress::GateClosed { pool, .. } => self.note(pool, "gate closed"),
            Progress::GateOpened { pool, .. } => self.note(pool, "gate opened"),
            Progress::Soaking { pool, .. } => self.note(pool, "soaking"),
            Progress::Soaked { pool } => self.note(pool, "soaked"),
            Progress::DomainSoaking { pool, .. } => self.note(pool, "soaking after a domain"),
            Progress::DomainStarted { pool, .. } => self.note(pool, "domain started"),
            Progress::AwaitingTrials { pool, .. } => self.note(pool, "awaiting trials"),
            Progress::TrialPassed { pool, .. } => self.note(pool, "trial passed"),
            Progress::Stopped { pool, reason } => {
                if let Some(span) = self.pools.get(pool) {
                    span.record("otel.status_code", "ERROR");
                    span.record("otel.status_description", reason.to_string());
                }
                self.note(pool, "stopped");
            }
            Progress::PointerMoved { pool, .. } => self.note(pool, "pointer moved"),
            Progress::PointerNotMoved { pool, .. } => self.note(pool, "pointer not moved"),
            Progress::MarkReleased { .. } => tracing::info!(target: TARGET, "mark of a drain released"),
            Progress::ContentHashesAdded { nodes } => {
                tracing::info!(target: TARGET, nodes, "content hashes added");
            }
            Progress::ConfigMapCreated { name } => {
                tracing::info!(target: TARGET, name, "ConfigMap created");
            }
        }
        let Some((name, state)) = event.progress.pool().zip(event.pool.as_ref()) else { return };
        // The span of a pool ends with its last node, unless its canaries still soak.
        if state.counts.pending + state.counts.in_flight == 0 && state.gate.soaks_until().is_none() {
            self.pools.remove(name);
        }
    }

    /// Span of a node; opens a missing one. `None` when the span of the pool has ended.
    fn node(&mut self, pool: &PoolName, node: &NodeName) -> Option<Span> {
        let parent = self.pools.get(pool)?;
        let open = || {
            tracing::info_span!(
                target: TARGET,
                parent: parent,
                "transition",
                otel.name = "transition",
                otel.status_code = tracing::field::Empty,
                otel.status_description = tracing::field::Empty,
                k8s.node.name = %node,
                nodecfg.pool = %pool,
            )
        };
        Some(self.nodes.entry(node.clone()).or_insert_with(open).clone())
    }

    fn step(&mut self, pool: &PoolName, node: &NodeName, what: &'static str) {
        let Some(span) = self.node(pool, node) else { return };
        tracing::info!(target: TARGET, parent: &span, "{what}");
    }

    fn ended(&mut self, pool: &PoolName, node: &NodeName, how: &'static str, error: Option<&str>) {
        let Some(span) = self.node(pool, node) else { return };
        if let Some(error) = error {
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", error);
        }
        tracing::info!(target: TARGET, parent: &span, "{how}");
        self.nodes.remove(node);
    }

    fn note(&self, pool: &PoolName, what: &'static str) {
        if let Some(span) = self.pools.get(pool) {
            tracing::info!(target: TARGET, parent: span, "{what}");
        }
    }
}
