//! Estimate of the remaining time of a pool, from the durations of its finished nodes.

use jiff::Timestamp;

use nodecfg_rollout::progress::StartGate;

/// The number of converged nodes after which the measured pace replaces the budget, in multiples of the budget. The
/// first round of nodes ends all at once, so its pace is not representative.
const MEASURED_ROUNDS: usize = 2;
/// The same limit for nodes that another client assigns, in nodes.
const MEASURED_NODES: usize = 5;
/// A node counts as hanging after this multiple of the mean duration.
const OVERDUE: f64 = 2.0;

/// Progress of a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// The nodes that have not started, canaries included.
    pub(super) pending: usize,
    /// The nodes in transition.
    pub(super) in_flight: usize,
    /// The age of the oldest node in transition, in seconds.
    pub(super) oldest: f64,
    /// The age of the youngest node in transition, in seconds.
    pub(super) youngest: f64,
    /// The maximum number of nodes in transition. `None` if another client assigns nodes.
    pub(super) parallel: Option<usize>,
    /// The mean duration of a node, in seconds.
    pub(super) mean: Option<f64>,
    /// The nodes that converged since the gate opened.
    pub(super) finished: usize,
    /// The time since the gate opened, in seconds.
    pub(super) open: f64,
    /// The gate that holds back further nodes.
    pub(super) gate: StartGate,
    /// The canaries that have not converged.
    pub(super) canaries: usize,
    /// The soak time of canaries, in seconds.
    pub(super) soak: f64,
    /// The soak times of domains and steps that are still to come, in seconds.
    pub(super) stage_soaks: f64,
    /// The least time between two starts, in seconds.
    pub(super) interval: f64,
    /// The time after which a node counts as failed, in seconds.
    pub(super) timeout: f64,
}

impl Pace {
    /// The remaining time in seconds if no node fails. `None` if unknown.
    pub(super) fn remaining(&self, now: Timestamp) -> Option<f64> {
        let left = self.pending + self.in_flight;
        if left == 0 && self.gate == StartGate::Open {
            return Some(0.0);
        }
        let remaining = match self.gate {
            StartGate::Open => self.of_rest(left),
            StartGate::Soaking { until } | StartGate::SoakingStage { until } => {
                Some(seconds(now, until) + self.of_round(self.pending)?)
            }
            StartGate::Canaries => {
                let rest = left.saturating_sub(self.canaries);
                Some(self.of_round(self.canaries)? - self.under_way()? + self.soak + self.of_round(rest)?)
            }
        };
        remaining.map(|remaining| remaining + self.stage_soaks)
    }

    /// The maximum remaining time in seconds, while [`remaining`](Self::remaining) is unknown: hanging nodes time
    /// out. `None` while nodes have not started.
    pub(super) fn at_most(&self) -> Option<f64> {
        (self.pending == 0 && self.gate == StartGate::Open).then_some(self.timeout)
    }

    /// The time for `nodes` nodes by the budget: rounds that take the mean duration each, or the intervals between the
    /// starts.
    fn of_round(&self, nodes: usize) -> Option<f64> {
        if nodes == 0 {
            return Some(0.0);
        }
        let parallel = self.parallel.filter(|parallel| *parallel > 0)?;
        Some((nodes.div_ceil(parallel) as f64 * self.mean?).max(nodes as f64 * self.interval))
    }

    /// The time in seconds that the oldest node has already spent, at most the mean duration. `None` if the mean is
    /// unknown.
    fn under_way(&self) -> Option<f64> {
        match self.in_flight {
            0 => Some(0.0),
            _ => Some(self.oldest.min(self.mean?)),
        }
    }

    /// The time for `left` nodes by the measured pace, or by the budget while too few nodes have finished.
    fn of_rest(&self, left: usize) -> Option<f64> {
        let measured = || left as f64 * self.open / self.finished as f64;
        let Some(parallel) = self.parallel else {
            return (self.finished >= MEASURED_NODES && self.open > 0.0).then(measured);
        };
        // While all nodes in transition hang, the start of the next node is unknown.
        if self.in_flight > 0 && self.mean.is_none_or(|mean| self.youngest > mean * OVERDUE) {
            return None;
        }
        if self.pending > 0 && self.open > 0.0 && self.finished >= parallel.max(1).saturating_mul(MEASURED_ROUNDS) {
            return Some(measured());
        }
        if self.pending == 0 && self.mean.is_none_or(|mean| self.oldest > mean * OVERDUE) {
            return None;
        }
        Some((self.of_round(left)? - self.under_way()?).max(0.0))
    }
}

/// Rounds an estimate to a precision that fits its size, in whole seconds.
pub(super) fn rounded(remaining: f64) -> u64 {
    let step = match remaining {
        under if under < 60.0 => 5.0,
        under if under < 600.0 => 10.0,
        under if under < 3600.0 => 60.0,
        _ => 300.0,
    };
    // Saturating: an unrepresentable duration becomes the largest value.
    ((remaining / step).ceil() * step).max(step) as u64
}

/// The seconds between two times. 0 if `to` is before `from`.
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
        gate: StartGate::Open,
        canaries: 0,
        soak: 300.0,
        stage_soaks: 0.0,
        interval: 0.0,
        timeout: 300.0,
    };

    #[test]
    fn has_no_estimate_before_the_first_duration() {
        let start = Pace { pending: 90, in_flight: 10, ..PACE };
        assert_eq!(start.remaining(at(0)), None);
        assert_eq!(Pace { mean: Some(12.0), ..start }.remaining(at(0)), Some(120.0));
        assert_eq!(Pace { mean: Some(12.0), oldest: 5.0, ..start }.remaining(at(0)), Some(115.0));
        assert_eq!(Pace { mean: Some(12.0), oldest: 99.0, ..start }.remaining(at(0)), Some(108.0));
        assert_eq!(Pace { mean: Some(12.0), interval: 30.0, ..start }.remaining(at(0)), Some(3000.0));
    }

    #[test]
    fn prefers_measured_pace_to_budget() {
        let pace = Pace { pending: 60, in_flight: 10, mean: Some(12.0), open: 90.0, ..PACE };
        assert_eq!(Pace { finished: 19, ..pace }.remaining(at(0)), Some(84.0));
        assert_eq!(Pace { finished: 30, ..pace }.remaining(at(0)), Some(210.0));
    }

    #[test]
    fn includes_canaries_and_soak() {
        let pace = Pace {
            pending: 100,
            in_flight: 2,
            oldest: 4.0,
            mean: Some(20.0),
            parallel: Some(10),
            gate: StartGate::Canaries,
            canaries: 2,
            ..PACE
        };
        assert_eq!(pace.remaining(at(0)), Some(20.0 - 4.0 + 300.0 + 200.0));
        let soaking = StartGate::Soaking { until: at(130) };
        assert_eq!(Pace { in_flight: 0, gate: soaking, ..pace }.remaining(at(30)), Some(100.0 + 200.0));
        assert_eq!(Pace { mean: None, pending: 0, in_flight: 0, gate: soaking, ..pace }.remaining(at(30)), Some(100.0));
        assert_eq!(Pace { mean: None, ..pace }.remaining(at(0)), None);
    }

    #[test]
    fn includes_soaks_between_stages() {
        let pace = Pace { pending: 20, mean: Some(12.0), stage_soaks: 600.0, ..PACE };
        assert_eq!(pace.remaining(at(0)), Some(24.0 + 600.0));
        let soaking = StartGate::SoakingStage { until: at(130) };
        assert_eq!(Pace { gate: soaking, ..pace }.remaining(at(30)), Some(100.0 + 24.0 + 600.0));
    }

    #[test]
    fn has_no_estimate_for_hanging_nodes_and_empty_budget() {
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
    fn uses_pace_alone_if_another_client_assigns() {
        let watched = Pace { in_flight: 50, mean: Some(10.0), parallel: None, open: 60.0, oldest: 15.0, ..PACE };
        assert_eq!(Pace { finished: 4, ..watched }.remaining(at(0)), None);
        assert_eq!(Pace { finished: 10, ..watched }.remaining(at(0)), Some(300.0));
    }

    #[test]
    fn finished_pool_takes_no_time() {
        assert_eq!(PACE.remaining(at(0)), Some(0.0));
    }

    #[test]
    fn rounds_by_size() {
        for (seconds, shown) in [(0.0, 5), (7.0, 10), (61.0, 70), (601.0, 660), (3601.0, 3900)] {
            assert_eq!(rounded(seconds), shown);
        }
    }
}
