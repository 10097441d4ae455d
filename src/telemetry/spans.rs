//! Spans of a run. They are `tracing` spans with their own target, which logs exclude and an exporter collects.
//! Without an exporter they are disabled.

use std::collections::BTreeMap;

use tracing::Span;

use super::facts::{Run, RunFailure};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::Plan;
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
            Progress::Assigned { .. } => self.step(event, "assigned"),
            Progress::Waiting { waiting } => {
                let Some(span) = self.node(event) else { return };
                tracing::info!(target: TARGET, parent: &span, waiting_for = %waiting, "waiting");
            }
            Progress::Unacknowledged { .. } => self.note(event, "not acknowledged"),
            Progress::DrainStarted { .. } => self.step(event, "drain started"),
            Progress::DrainBlocked { .. } => self.step(event, "drain blocked"),
            Progress::Drained { .. } => self.step(event, "drained"),
            Progress::Converged { .. } => self.ended(event, "converged", None),
            Progress::Failed { failure } => self.ended(event, "failed", Some(&failure.to_string())),
            Progress::Refused { error } => self.ended(event, "refused", Some(error)),
            Progress::Changed { .. } => self.ended(event, "changed by others", Some("changed by others")),
            Progress::Gone => self.ended(event, "gone", None),
            Progress::Held { .. } => self.note(event, "held"),
            Progress::NotPermitted { .. } => self.note(event, "not permitted"),
            Progress::Permitted => self.note(event, "permitted"),
            Progress::RolledBack { .. } => self.note(event, "rolled back"),
            Progress::RollbackFailed { .. } => self.note(event, "not back"),
            Progress::NotRolledBack { .. } => self.note(event, "not pointed back"),
            Progress::NotReleased { .. } => self.note(event, "not released"),
            Progress::PoolHeld { .. } => self.note(event, "pool held"),
            Progress::GateClosed { .. } => self.note(event, "gate closed"),
            Progress::GateOpened { .. } => self.note(event, "gate opened"),
            Progress::Soaking { .. } => self.note(event, "soaking"),
            Progress::Soaked => self.note(event, "soaked"),
            Progress::DomainSoaking { .. } => self.note(event, "soaking after a domain"),
            Progress::DomainStarted { .. } => self.note(event, "domain started"),
            Progress::StepSoaking { .. } => self.note(event, "soaking after a step"),
            Progress::StepStarted { .. } => self.note(event, "step started"),
            Progress::AwaitingTrials { .. } => self.note(event, "awaiting trials"),
            Progress::TrialPassed => self.note(event, "trial passed"),
            Progress::Stopped { reason } => {
                if let Some(span) = event.pool.as_ref().and_then(|pool| self.pools.get(pool)) {
                    span.record("otel.status_code", "ERROR");
                    span.record("otel.status_description", reason.to_string());
                }
                self.note(event, "stopped");
            }
            Progress::PointerMoved { .. } => self.note(event, "pointer moved"),
            Progress::PointerNotMoved { .. } => self.note(event, "pointer not moved"),
            Progress::MarkReleased => tracing::info!(target: TARGET, "mark of a drain released"),
            Progress::ContentHashesAdded { nodes } => {
                tracing::info!(target: TARGET, nodes, "content hashes added");
            }
            Progress::ConfigMapCreated { name } => {
                tracing::info!(target: TARGET, name, "ConfigMap created");
            }
        }
        let Some((name, state)) = event.pool.as_ref().zip(event.state.as_ref()) else { return };
        // The span of a pool ends with its last node, unless its canaries still soak.
        if state.counts.pending + state.counts.in_flight == 0 && state.gate.soaks_until().is_none() {
            self.pools.remove(name);
        }
    }

    /// Span of a node; opens a missing one. `None` when the span of the pool has ended.
    fn node(&mut self, event: &Event) -> Option<Span> {
        let (pool, node) = event.pool.as_ref().zip(event.node.as_ref())?;
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

    fn step(&mut self, event: &Event, what: &'static str) {
        let Some(span) = self.node(event) else { return };
        tracing::info!(target: TARGET, parent: &span, "{what}");
    }

    fn ended(&mut self, event: &Event, how: &'static str, error: Option<&str>) {
        let Some(span) = self.node(event) else { return };
        if let Some(error) = error {
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", error);
        }
        tracing::info!(target: TARGET, parent: &span, "{how}");
        if let Some(node) = &event.node {
            self.nodes.remove(node);
        }
    }

    fn note(&self, event: &Event, what: &'static str) {
        if let Some(span) = event.pool.as_ref().and_then(|pool| self.pools.get(pool)) {
            tracing::info!(target: TARGET, parent: span, "{what}");
        }
    }
}
