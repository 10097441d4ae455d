//! Orders of operators that arrive during a rollout, as inputs of the state machine. Orders from before the plan are
//! part of the plan.

use super::StopReason;
use super::machine::Input;
use nodecfg_observed::Orders;

/// Detects new orders.
#[derive(Debug)]
pub struct OrderWatcher {
    known: Orders,
    despite_pause: bool,
    aborted: bool,
    rollback_ordered: bool,
}

impl OrderWatcher {
    /// Creates the watcher with the orders that the plan considered. `despite_pause`: an operator changes these pools
    /// despite a pause, so that a pause of the fleet in the repository stops nothing.
    pub fn new(planned: &Orders, despite_pause: bool) -> Self {
        Self { known: planned.clone(), despite_pause, aborted: false, rollback_ordered: false }
    }

    /// Returns the inputs for the orders that are new in `orders`, the complete present set. Does not compare the
    /// holder of an abort with this rollout.
    pub fn new_inputs(&mut self, orders: &Orders) -> Vec<Input> {
        let mut inputs = Vec::new();
        if let Some(abort) = orders.abort.as_ref().filter(|abort| !(abort.fleet_paused && self.despite_pause)) {
            let reason = StopReason::Aborted { by: abort.by.clone(), reason: abort.reason.clone() };
            if abort.back && !self.rollback_ordered {
                inputs.push(Input::RollBackAll(reason));
            } else if !self.aborted {
                inputs.push(Input::Stop(reason));
            }
            self.aborted = true;
            self.rollback_ordered |= abort.back;
        }
        if let Some(pause) = orders.paused.as_ref().filter(|pause| self.known.paused.as_ref() != Some(pause)) {
            inputs.push(Input::Stop(StopReason::Paused(pause.clone())));
        }
        for (pool, pause) in &orders.pauses {
            if self.known.pauses.get(pool) != Some(pause) {
                inputs.push(Input::StopPool(pool.clone(), StopReason::Paused(pause.clone())));
            }
        }
        self.known.clone_from(orders);
        inputs
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use nodecfg_observed::{Abort, Pause};
    use nodecfg_plan::fixtures::{pause, pool_name};

    fn paused(pools: &[(&str, &str)]) -> Orders {
        let pauses = pools.iter().map(|(pool, reason)| (pool_name(pool), pause(reason))).collect();
        Orders { pauses, ..Orders::default() }
    }

    fn stop(pool: &str, reason: &str) -> Input {
        Input::StopPool(pool_name(pool), StopReason::Paused(pause(reason)))
    }

    #[test]
    fn reports_new_pause_once() {
        let mut watcher = OrderWatcher::new(&paused(&[("a", "disks")]), false);
        assert_eq!(watcher.new_inputs(&paused(&[("a", "disks")])), []);
        assert_eq!(watcher.new_inputs(&paused(&[("a", "disks"), ("b", "quota")])), [stop("b", "quota")]);
        assert_eq!(watcher.new_inputs(&paused(&[("a", "disks"), ("b", "quota")])), []);
        assert_eq!(watcher.new_inputs(&paused(&[])), [], "a resumed pool is for the next run");
        assert_eq!(watcher.new_inputs(&paused(&[("a", "disks")])), [stop("a", "disks")]);
        assert_eq!(
            watcher.new_inputs(&paused(&[("a", "fans")])),
            [stop("a", "fans")],
            "a new pause counts even if the plan overrides the first one"
        );
    }

    #[test]
    fn reports_pause_of_whole_fleet_once() {
        let orders = |reason: &str| {
            let mut orders = paused(&[("a", "fans")]);
            orders.pause(None, &pause(reason));
            orders
        };
        let stop = |reason| Input::Stop(StopReason::Paused(Pause { whole_fleet: true, ..pause(reason) }));
        let mut watcher = OrderWatcher::new(&paused(&[("a", "fans")]), true);
        assert_eq!(watcher.new_inputs(&orders("disks")), [stop("disks")]);
        assert_eq!(watcher.new_inputs(&orders("disks")), []);
        assert_eq!(watcher.new_inputs(&paused(&[("a", "fans")])), []);
        assert_eq!(watcher.new_inputs(&orders("disks")), [stop("disks")]);
        let mut watcher = OrderWatcher::new(&orders("disks"), true);
        assert_eq!(watcher.new_inputs(&orders("disks")), [], "a rollback began despite the pause");
    }

    /// A scheduled sync finds the pause again and again, and must not stop the rollback of an operator.
    #[test]
    fn pause_in_repository_stops_only_syncs() {
        let orders = |fleet_paused| {
            let (holder, by) = ("ci".to_owned(), "ada".to_owned());
            let at = Timestamp::UNIX_EPOCH;
            Orders {
                abort: Some(Abort { holder, by, at, reason: None, back: false, fleet_paused }),
                ..Orders::default()
            }
        };
        let stop = || Input::Stop(StopReason::Aborted { by: "ada".to_owned(), reason: None });
        assert_eq!(OrderWatcher::new(&Orders::default(), false).new_inputs(&orders(true)), [stop()]);
        let mut rollback = OrderWatcher::new(&Orders::default(), true);
        assert_eq!(rollback.new_inputs(&orders(true)), []);
        assert_eq!(rollback.new_inputs(&orders(false)), [stop()]);
    }

    #[test]
    fn reports_abort_once_and_its_upgrade_to_rollback() {
        let abort = |back| Orders {
            abort: Some(Abort {
                holder: "ci".to_owned(),
                by: "ada".to_owned(),
                at: Timestamp::UNIX_EPOCH,
                reason: None,
                back,
                fleet_paused: false,
            }),
            ..Orders::default()
        };
        let reason = || StopReason::Aborted { by: "ada".to_owned(), reason: None };
        let mut watcher = OrderWatcher::new(&Orders::default(), false);
        assert_eq!(watcher.new_inputs(&abort(false)), [Input::Stop(reason())]);
        assert_eq!(watcher.new_inputs(&abort(false)), []);
        assert_eq!(watcher.new_inputs(&abort(true)), [Input::RollBackAll(reason())]);
        assert_eq!(watcher.new_inputs(&abort(true)), []);
        assert_eq!(watcher.new_inputs(&abort(false)), []);
    }
}
