//! The course of a rollout: recorded from its events, and summed up per pool.
//!
//! Its size depends on the number of nodes in the plan, not on the number of events.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::progress::event_text;
use super::{count, duration};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::convergence::Waiting;
use nodecfg_plan::state::State;
use nodecfg_rollout::progress::{Event, Progress};

/// The maximum events per pool. A pool soaks once and stops once.
const MAX_MARKS: usize = 8;

/// The recorded timeline of a rollout.
#[derive(Debug, Clone)]
pub struct RunTimeline {
    start: Timestamp,
    pools: BTreeMap<PoolName, PoolRecord>,
}

#[derive(Debug, Clone, Default)]
struct PoolRecord {
    nodes: BTreeMap<NodeName, NodeSpan>,
    marks: Vec<Mark>,
}

#[derive(Debug, Clone, Copy)]
struct NodeSpan {
    from: f64,
    end: Option<(f64, State)>,
}

impl RunTimeline {
    /// A timeline that starts at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self { start, pools: BTreeMap::new() }
    }

    /// Records an event.
    pub fn record(&mut self, now: Timestamp, event: &Event) {
        let at = now.duration_since(self.start).as_secs_f64().max(0.0);
        let Some(pool) = event.pool.clone() else { return };
        let record = self.pools.entry(pool).or_default();
        match (&event.progress, &event.node) {
            (Progress::Assigned { .. }, Some(node)) => {
                // The span of a drained node began with its drain.
                record.nodes.entry(node.clone()).or_insert(NodeSpan { from: at, end: None }).end = None;
            }
            (Progress::Waiting { waiting: Waiting::Draining { .. } }, Some(node)) => {
                record.nodes.entry(node.clone()).or_insert(NodeSpan { from: at, end: None });
            }
            // A node without `Assigned` event was assigned by an earlier run, so its span begins at 0.
            (Progress::Waiting { .. }, Some(node)) => {
                record.nodes.entry(node.clone()).or_insert(NodeSpan { from: 0.0, end: None });
            }
            (Progress::Converged { .. }, Some(node)) => record.end(node, at, State::Converged),
            (Progress::Failed { .. } | Progress::RollbackFailed { .. }, Some(node)) => {
                record.end(node, at, State::Failed)
            }
            (Progress::Refused { .. }, Some(node)) => {
                record.nodes.entry(node.clone()).or_insert(NodeSpan { from: at, end: None });
                record.end(node, at, State::Failed);
            }
            // A failed node stays failed after its rollback.
            (Progress::RolledBack { .. }, Some(node)) if !record.has_failed(node) => {
                record.end(node, at, State::RolledBack)
            }
            (Progress::Changed { .. }, Some(node)) => record.end(node, at, State::ChangedByOthers),
            (Progress::Gone, Some(node)) => record.end(node, at, State::Gone),
            (
                Progress::Soaking { .. }
                | Progress::Soaked
                | Progress::DomainSoaking { .. }
                | Progress::DomainStarted { .. }
                | Progress::StepSoaking { .. }
                | Progress::StepStarted { .. }
                | Progress::GateOpened { .. },
                _,
            ) => record.mark(at, event_text(now, event)),
            (Progress::PoolHeld { hold, .. }, _) => record.mark(at, format!("held: {hold}")),
            (Progress::GateClosed { gate, why }, _) => record.mark(at, format!("waiting for gate {gate}: {why}")),
            (Progress::Stopped { reason }, _) => record.mark(at, format!("stopped: {reason}")),
            _ => {}
        }
    }

    /// The timeline until now. `totals` is the number of nodes to change per pool.
    #[must_use]
    pub fn timeline(self, now: Timestamp, totals: &BTreeMap<PoolName, usize>) -> Timeline {
        let seconds = now.duration_since(self.start).as_secs_f64().max(0.0);
        let track = |(pool, record): (PoolName, PoolRecord)| {
            let total = totals.get(&pool).copied().unwrap_or(0).max(record.nodes.len());
            let span = |(node, span): (NodeName, NodeSpan)| {
                let (to, end) = span.end.unwrap_or((seconds, State::InFlight));
                Span { node, from: span.from, to, end }
            };
            let mut spans: Vec<Span> = record.nodes.into_iter().map(span).collect();
            spans.sort_by(|a, b| a.from.total_cmp(&b.from));
            Track { pool, total, spans, marks: record.marks }
        };
        let tracks = self.pools.into_iter().map(track).collect();
        Timeline { start: self.start, seconds, tracks }
    }
}

impl PoolRecord {
    fn end(&mut self, node: &NodeName, at: f64, state: State) {
        let span = self.nodes.entry(node.clone()).or_insert(NodeSpan { from: 0.0, end: None });
        span.end = Some((at, state));
    }

    fn has_failed(&self, node: &NodeName) -> bool {
        self.nodes.get(node).is_some_and(|span| matches!(span.end, Some((_, State::Failed))))
    }

    fn mark(&mut self, at: f64, text: String) {
        if self.marks.len() < MAX_MARKS {
            self.marks.push(Mark { at, text });
        }
    }
}

/// The course of a rollout.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// The start.
    pub start: Timestamp,
    /// The duration of the observation, in seconds.
    pub seconds: f64,
    /// The pools with events, by name.
    pub tracks: Vec<Track>,
}

/// The course of one pool.
#[derive(Debug, Clone)]
pub struct Track {
    /// The pool.
    pub pool: PoolName,
    /// The number of nodes to change.
    pub total: usize,
    /// The changed nodes, by start and name.
    pub spans: Vec<Span>,
    /// Events of the whole pool, in order.
    pub marks: Vec<Mark>,
}

/// The time span in which a node changed.
#[derive(Debug, Clone)]
pub struct Span {
    /// The node.
    pub node: NodeName,
    /// The assignment, in seconds since the start. 0 if earlier.
    pub from: f64,
    /// The time of the final state, or the end of the observation, in seconds since the start.
    pub to: f64,
    /// The final state.
    pub end: State,
}

/// An event of a whole pool.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The time in seconds since the start.
    pub at: f64,
    /// The event.
    pub text: String,
}

/// The course of a pool in a sentence.
pub(super) fn summary(track: &Track) -> String {
    let took = |end: State| {
        let mut took: Vec<f64> =
            track.spans.iter().filter(|span| span.end == end).map(|span| span.to - span.from).collect();
        took.sort_by(f64::total_cmp);
        took
    };
    let converged = took(State::Converged);
    let started = format!("{} of {} started", track.spans.len(), count(track.total, "node"));
    let mut parts = vec![started];
    if let (Some(middle), Some(longest)) = (converged.get(converged.len() / 2), converged.last()) {
        parts.push(format!(
            "{} converged, half of them within {}, the slowest in {}",
            converged.len(),
            duration(*middle),
            duration(*longest)
        ));
    }
    for (end, what) in
        [(State::Failed, "failed"), (State::RolledBack, "rolled back"), (State::InFlight, "still in transition")]
    {
        let number = took(end).len();
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_plan::convergence::{ConvergenceFailure, Target, Waiting};
    use nodecfg_plan::fixtures::{node_name, pool_name};
    use nodecfg_rollout::StopReason;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn node_has_one_span_for_many_waiting_events() {
        let mut timeline = RunTimeline::new(at(100));
        let (pool, node) = (pool_name("gpu"), node_name("n1"));
        let assigned =
            Event::from(Progress::Assigned { from: None, to: Target::Local }).of(pool.clone()).about(node.clone());
        timeline.record(at(102), &assigned);
        for second in 103..200 {
            let waiting = if second % 2 == 0 { Waiting::Activating } else { Waiting::NotReady };
            timeline
                .record(at(second), &Event::from(Progress::Waiting { waiting }).of(pool.clone()).about(node.clone()));
        }
        timeline.record(
            at(200),
            &Event::from(Progress::Converged { seconds: 98.0, trial: None }).of(pool.clone()).about(node),
        );
        let late = node_name("n0");
        let failure = ConvergenceFailure::Refused { error: "no".to_owned() };
        timeline.record(at(210), &Event::from(Progress::Failed { failure }).of(pool.clone()).about(late));
        let stopped = Event::from(Progress::Stopped { reason: StopReason::Interrupted }).of(pool.clone());
        timeline.record(at(211), &stopped);
        let timeline = timeline.timeline(at(220), &[(pool, 5)].into());
        assert_eq!(timeline.seconds, 120.0);
        let [track] = timeline.tracks.as_slice() else { panic!("one pool") };
        let record: Vec<_> =
            track.spans.iter().map(|span| (span.node.as_str(), span.from, span.to, span.end)).collect();
        assert_eq!(record, [("n0", 0.0, 110.0, State::Failed), ("n1", 2.0, 100.0, State::Converged)]);
        assert_eq!(track.total, 5);
        assert_eq!(track.marks[0].text, "stopped: interrupted");
    }

    #[test]
    fn rolled_back_node_is_not_in_transition() {
        let mut timeline = RunTimeline::new(at(0));
        let (pool, node) = (pool_name("gpu"), node_name("n1"));
        let assigned =
            Event::from(Progress::Assigned { from: None, to: Target::Local }).of(pool.clone()).about(node.clone());
        timeline.record(at(1), &assigned);
        timeline.record(at(9), &Event::from(Progress::RolledBack { to: None }).of(pool.clone()).about(node));
        let timeline = timeline.timeline(at(20), &[(pool, 1)].into());
        let span = &timeline.tracks[0].spans[0];
        assert_eq!((span.to, span.end), (9.0, State::RolledBack));
    }
}
