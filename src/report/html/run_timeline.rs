//! What is kept of a rollout while it runs: for each node when it began and ended, for each pool when it soaked and stopped. That is
//! all that a timeline needs, and no more than the nodes of the plan, however often they are waited for.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::page::{Mark, Span, Timeline, Track};
use crate::report::whole_duration;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_planning::rollout::progress::Progress;
use nodecfg_planning::state::State;

/// How many marks a pool keeps: it soaks once and stops once.
const MARKS: usize = 8;

/// What is kept of a rollout.
#[derive(Debug, Clone)]
pub struct RunTimeline {
    start: Timestamp,
    pools: BTreeMap<PoolName, Ways>,
}

#[derive(Debug, Clone, Default)]
struct Ways {
    nodes: BTreeMap<NodeName, NodeSpan>,
    marks: Vec<Mark>,
}

#[derive(Debug, Clone, Copy)]
struct NodeSpan {
    from: f64,
    end: Option<(f64, State)>,
}

impl RunTimeline {
    /// Of a rollout that begins now.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self { start, pools: BTreeMap::new() }
    }

    /// Something happened.
    pub fn tell(&mut self, now: Timestamp, progress: &Progress) {
        let at = now.duration_since(self.start).as_secs_f64().max(0.0);
        let Some(pool) = progress.pool() else { return };
        let ways = self.pools.entry(pool.clone()).or_default();
        match progress {
            Progress::Assigned { node, .. } => {
                ways.nodes.insert(node.clone(), NodeSpan { from: at, end: None });
            }
            // One that was assigned before is watched from the beginning.
            Progress::Waiting { node, .. } => {
                ways.nodes.entry(node.clone()).or_insert(NodeSpan { from: 0.0, end: None });
            }
            Progress::Converged { node, .. } => ways.end(node, at, State::Converged),
            Progress::Failed { node, .. } => ways.end(node, at, State::Failed),
            Progress::Refused { node, .. } => {
                ways.nodes.entry(node.clone()).or_insert(NodeSpan { from: at, end: None });
                ways.end(node, at, State::Failed);
            }
            // One that failed has failed all the same.
            Progress::RolledBack { node, .. } if !ways.has_failed(node) => ways.end(node, at, State::RolledBack),
            Progress::NotBack { node, .. } => ways.end(node, at, State::Failed),
            Progress::Changed { node, .. } => ways.end(node, at, State::Astray),
            Progress::Gone { node, .. } => ways.end(node, at, State::Gone),
            Progress::Soaking { until, .. } => {
                let seconds = until.duration_since(now).as_secs_f64().ceil().max(0.0);
                // Saturating: a time that has passed is no time.
                ways.mark(at, format!("canaries converged, soaking for {}", whole_duration(seconds as u64)));
            }
            Progress::Soaked { .. } => ways.mark(at, "canaries held, the others follow".to_owned()),
            Progress::Stopped { reason, .. } => ways.mark(at, format!("stopped: {reason}")),
            _ => {}
        }
    }

    /// How it went, until now. `totals` is how many nodes of each pool were to move.
    #[must_use]
    pub fn timeline(self, now: Timestamp, totals: &BTreeMap<PoolName, usize>) -> Timeline {
        let seconds = now.duration_since(self.start).as_secs_f64().max(0.0);
        let track = |(pool, ways): (PoolName, Ways)| {
            let total = totals.get(&pool).copied().unwrap_or(0).max(ways.nodes.len());
            let span = |(node, way): (NodeName, NodeSpan)| {
                let (to, end) = way.end.unwrap_or((seconds, State::InFlight));
                Span { node, from: way.from, to, end }
            };
            let mut spans: Vec<Span> = ways.nodes.into_iter().map(span).collect();
            spans.sort_by(|a, b| a.from.total_cmp(&b.from));
            Track { pool, total, spans, marks: ways.marks }
        };
        let tracks = self.pools.into_iter().map(track).collect();
        Timeline { start: self.start, seconds, tracks }
    }
}

impl Ways {
    fn end(&mut self, node: &NodeName, at: f64, state: State) {
        let way = self.nodes.entry(node.clone()).or_insert(NodeSpan { from: 0.0, end: None });
        way.end = Some((at, state));
    }

    fn has_failed(&self, node: &NodeName) -> bool {
        self.nodes.get(node).is_some_and(|way| matches!(way.end, Some((_, State::Failed))))
    }

    fn mark(&mut self, at: f64, text: String) {
        if self.marks.len() < MARKS {
            self.marks.push(Mark { at, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_planning::judge::{Failure, Target, Waiting};
    use nodecfg_planning::plan::fixtures::{node_name, pool_name};
    use nodecfg_planning::rollout::StopReason;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_node_has_one_way_however_often_it_is_waited_for() {
        let mut chronicle = RunTimeline::new(at(100));
        let (pool, node) = (pool_name("gpu"), node_name("n1"));
        let assigned = Progress::Assigned { pool: pool.clone(), node: node.clone(), from: None, to: Target::Local };
        chronicle.tell(at(102), &assigned);
        for second in 103..200 {
            let waiting = if second % 2 == 0 { Waiting::Activating } else { Waiting::NotReady };
            chronicle.tell(at(second), &Progress::Waiting { pool: pool.clone(), node: node.clone(), waiting });
        }
        chronicle.tell(at(200), &Progress::Converged { pool: pool.clone(), node, seconds: 98.0 });
        let late = node_name("n0");
        let failure = Failure::Refused { error: "no".to_owned() };
        chronicle.tell(at(210), &Progress::Failed { pool: pool.clone(), node: late, failure });
        let stopped = Progress::Stopped { pool: pool.clone(), reason: StopReason::Interrupted };
        chronicle.tell(at(211), &stopped);
        let timeline = chronicle.timeline(at(220), &[(pool, 5)].into());
        assert_eq!(timeline.seconds, 120.0);
        let [track] = timeline.tracks.as_slice() else { panic!("one pool") };
        let ways: Vec<_> = track.spans.iter().map(|span| (span.node.as_str(), span.from, span.to, span.end)).collect();
        assert_eq!(ways, [("n0", 0.0, 110.0, State::Failed), ("n1", 2.0, 100.0, State::Converged)]);
        assert_eq!(track.total, 5);
        assert_eq!(track.marks[0].text, "stopped: interrupted");
    }

    #[test]
    fn who_is_taken_back_is_not_in_flight_to_the_end() {
        let mut chronicle = RunTimeline::new(at(0));
        let (pool, node) = (pool_name("gpu"), node_name("n1"));
        let assigned = Progress::Assigned { pool: pool.clone(), node: node.clone(), from: None, to: Target::Local };
        chronicle.tell(at(1), &assigned);
        chronicle.tell(at(9), &Progress::RolledBack { pool: pool.clone(), node, to: None });
        let timeline = chronicle.timeline(at(20), &[(pool, 1)].into());
        let span = &timeline.tracks[0].spans[0];
        assert_eq!((span.to, span.end), (9.0, State::RolledBack));
    }
}
