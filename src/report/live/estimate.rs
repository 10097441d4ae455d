//! How long a pool still takes, from what its nodes took so far. Says nothing before it can know.

use jiff::Timestamp;

use nodecfg_planning::rollout::progress::Gate;

/// How many nodes beyond the canaries must have converged before their pace is trusted more than the budget, in rounds of
/// that budget. The first round ends all at once.
const ROUNDS: usize = 2;
/// The same where somebody else assigns the nodes, in nodes.
const WATCHED: usize = 5;
/// A node that takes so many times as long as others is no longer like them.
const OVERDUE: f64 = 2.0;

/// How a pool gets on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// How many nodes have not started, canaries included.
    pub(super) pending: usize,
    /// How many are on their way.
    pub(super) in_flight: usize,
    /// For how long the first of these, in seconds.
    pub(super) oldest: f64,
    /// For how long the last of them, in seconds.
    pub(super) youngest: f64,
    /// How many may be on their way at once. `None`: somebody else decides that.
    pub(super) parallel: Option<usize>,
    /// How long a node takes, in seconds.
    pub(super) mean: Option<f64>,
    /// How many nodes have converged since nothing but the budget held them back.
    pub(super) finished: usize,
    /// How long ago that began, in seconds.
    pub(super) open: f64,
    /// What holds the others back.
    pub(super) gate: Gate,
    /// How many canaries have not converged.
    pub(super) canaries: usize,
    /// How long canaries soak, in seconds.
    pub(super) soak: f64,
    /// How long a node may take before it counts as failed, in seconds.
    pub(super) timeout: f64,
}

impl Pace {
    /// How long until the last node is done, in seconds, when none fails. `None`: nobody can know yet.
    pub(super) fn remaining(&self, now: Timestamp) -> Option<f64> {
        let left = self.pending + self.in_flight;
        if left == 0 && self.gate == Gate::Open {
            return Some(0.0);
        }
        match self.gate {
            Gate::Open => self.of_rest(left),
            Gate::Soaking { until } => Some(seconds(now, until) + self.of_round(self.pending)?),
            Gate::Canaries => {
                let rest = left.saturating_sub(self.canaries);
                Some(self.of_round(self.canaries)? - self.under_way()? + self.soak + self.of_round(rest)?)
            }
        }
    }

    /// How long it takes at most, in seconds, where that is known though [`remaining`](Self::remaining) is not: nodes that hang
    /// are given up.
    pub(super) fn at_most(&self) -> Option<f64> {
        (self.pending == 0 && self.gate == Gate::Open).then_some(self.timeout)
    }

    /// The time of so many nodes by the budget: in rounds that take as long as a node does.
    fn of_round(&self, nodes: usize) -> Option<f64> {
        if nodes == 0 {
            return Some(0.0);
        }
        let parallel = self.parallel.filter(|parallel| *parallel > 0)?;
        Some(nodes.div_ceil(parallel) as f64 * self.mean?)
    }

    /// What the first node has of its time behind it.
    fn under_way(&self) -> Option<f64> {
        match self.in_flight {
            0 => Some(0.0),
            _ => Some(self.oldest.min(self.mean?)),
        }
    }

    fn of_rest(&self, left: usize) -> Option<f64> {
        let measured = || left as f64 * self.open / self.finished as f64;
        let Some(parallel) = self.parallel else {
            return (self.finished >= WATCHED && self.open > 0.0).then(measured);
        };
        // When all of them hang, nobody knows when the next may start.
        if self.in_flight > 0 && self.mean.is_none_or(|mean| self.youngest > mean * OVERDUE) {
            return None;
        }
        if self.pending > 0 && self.open > 0.0 && self.finished >= parallel.max(1).saturating_mul(ROUNDS) {
            return Some(measured());
        }
        if self.pending == 0 && self.mean.is_none_or(|mean| self.oldest > mean * OVERDUE) {
            return None;
        }
        Some((self.of_round(left)? - self.under_way()?).max(0.0))
    }
}

/// A duration as exact as an estimate can be, in whole seconds.
pub(super) fn rounded(remaining: f64) -> u64 {
    let step = match remaining {
        under if under < 60.0 => 5.0,
        under if under < 600.0 => 10.0,
        under if under < 3600.0 => 60.0,
        _ => 300.0,
    };
    // Saturating: what is beyond all bounds shows as the largest bound.
    ((remaining / step).ceil() * step).max(step) as u64
}

/// The seconds between two times, none where they are the other way round.
pub(super) fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(second.seconds()).unwrap()
    }

    const PACE: Pace = Pace {
        pending: 0,
        in_flight: 0,
        oldest: 0.0,
        youngest: 0.0,
        parallel: Some(10),
        mean: None,
        finished: 0,
        open: 0.0,
        gate: Gate::Open,
        canaries: 0,
        soak: 300.0,
        timeout: 300.0,
    };

    #[test]
    fn nothing_is_said_before_a_node_has_shown_how_long_it_takes() {
        let start = Pace { pending: 90, in_flight: 10, ..PACE };
        assert_eq!(start.remaining(at(0)), None);
        assert_eq!(Pace { mean: Some(12.0), ..start }.remaining(at(0)), Some(120.0));
        assert_eq!(Pace { mean: Some(12.0), oldest: 5.0, ..start }.remaining(at(0)), Some(115.0));
        assert_eq!(Pace { mean: Some(12.0), oldest: 99.0, ..start }.remaining(at(0)), Some(108.0));
    }

    #[test]
    fn what_was_measured_counts_more_than_the_budget() {
        let pace = Pace { pending: 60, in_flight: 10, mean: Some(12.0), open: 90.0, ..PACE };
        assert_eq!(Pace { finished: 19, ..pace }.remaining(at(0)), Some(84.0));
        assert_eq!(Pace { finished: 30, ..pace }.remaining(at(0)), Some(210.0));
    }

    #[test]
    fn canaries_and_their_soak_come_first() {
        let pace = Pace {
            pending: 100,
            in_flight: 2,
            oldest: 4.0,
            mean: Some(20.0),
            parallel: Some(10),
            gate: Gate::Canaries,
            canaries: 2,
            ..PACE
        };
        assert_eq!(pace.remaining(at(0)), Some(20.0 - 4.0 + 300.0 + 200.0));
        let soaking = Gate::Soaking { until: at(130) };
        assert_eq!(Pace { in_flight: 0, gate: soaking, ..pace }.remaining(at(30)), Some(100.0 + 200.0));
        assert_eq!(Pace { mean: None, pending: 0, in_flight: 0, gate: soaking, ..pace }.remaining(at(30)), Some(100.0));
        assert_eq!(Pace { mean: None, ..pace }.remaining(at(0)), None);
    }

    #[test]
    fn a_node_that_hangs_and_a_budget_that_is_gone_make_no_estimate() {
        let last = Pace { in_flight: 1, mean: Some(10.0), oldest: 19.0, ..PACE };
        assert_eq!(last.remaining(at(0)), Some(0.0));
        assert_eq!(Pace { oldest: 21.0, ..last }.remaining(at(0)), None);
        let hanging = Pace { pending: 5, oldest: 99.0, ..last };
        assert_eq!(hanging.remaining(at(0)), Some(0.0));
        assert_eq!(Pace { youngest: 21.0, ..hanging }.remaining(at(0)), None);
        assert_eq!(last.at_most(), Some(300.0));
        assert_eq!(Pace { pending: 1, ..last }.at_most(), None);
        assert_eq!(Pace { pending: 5, parallel: Some(0), ..last }.remaining(at(0)), None);
    }

    #[test]
    fn of_nodes_that_others_assign_only_the_pace_is_known() {
        let watched = Pace { in_flight: 50, mean: Some(10.0), parallel: None, open: 60.0, oldest: 15.0, ..PACE };
        assert_eq!(Pace { finished: 4, ..watched }.remaining(at(0)), None);
        assert_eq!(Pace { finished: 10, ..watched }.remaining(at(0)), Some(300.0));
    }

    #[test]
    fn a_finished_pool_takes_no_time() {
        assert_eq!(PACE.remaining(at(0)), Some(0.0));
    }

    #[test]
    fn an_estimate_is_no_more_exact_than_it_can_be() {
        for (seconds, shown) in [(0.0, 5), (7.0, 10), (61.0, 70), (601.0, 660), (3601.0, 3900)] {
            assert_eq!(rounded(seconds), shown);
        }
    }
}
