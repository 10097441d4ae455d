//! Orders of operators that arrive during a rollout, as inputs of the state machine. Orders from before the plan are
//! part of the plan.

use super::StopReason;
use super::machine::Input;
use nodecfg_observed::Orders;

/// Detects new orders.
#[derive(Debug)]
pub struct OrderWatcher {
    known: Orders,
    aborted: bool,
    rollback_ordered: bool,
}

impl OrderWatcher {
    /// Creates the watcher with the orders that the plan considered.
    pub fn new(planned: &Orders) -> Self {
        Self { known: planned.clone(), aborted: false, rollback_ordered: false }
    }

    /// Returns the inputs for the orders that are new in `orders`, the complete present set. Does not compare the
    /// holder of an abort with this rollout.
    pub fn new_inputs(&mut self, orders: &Orders) -> Vec<Input> {
        let mut inputs = Vec::new();
        if let Some(abort) = &orders.abort {
            let reason = StopReason::Aborted { by: abort.by.clone(), reason: abort.reason.clone() };
            if abort.back && !self.rollback_ordered {
                inputs.push(Input::RollBackAll(reason));
            } else if !self.aborted {
                inputs.push(Input::Stop(reason));
            }
            self.aborted = true;
            self.rollback_ordered |= abort.back;
        }
        for (pool, pause) in &orders.pauses {
            if self.known.pauses.get(pool) != Some(pause) {
                let reason = StopReason::Paused { by: pause.by.clone(), reason: pause.reason.clone() };
                inputs.push(Input::StopPool(pool.clone(), reason));
            }
        }
        self.known.pauses.clone_from(&orders.pauses);
        inputs
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use nodecfg_observed::{Abort, Pause};
    use nodecfg_plan::fixtures::pool_name;

    fn pause(reason: &str) -> Pause {
        Pause { by: "ada".to_owned(), at: Timestamp::UNIX_EPOCH, reason: reason.to_owned(), allowed: None }
    }

    fn paused(pools: &[(&str, &str)]) -> Orders {
        let pauses = pools.iter().map(|(pool, reason)| (pool_name(pool), pause(reason))).collect();
        Orders { pauses, abort: None }
    }

    fn stop(pool: &str, reason: &str) -> Input {
        let reason = StopReason::Paused { by: "ada".to_owned(), reason: reason.to_owned() };
        Input::StopPool(pool_name(pool), reason)
    }

    #[test]
    fn reports_new_pause_once() {
        let mut watcher = OrderWatcher::new(&paused(&[("a", "disks")]));
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
    fn reports_abort_once_and_its_upgrade_to_rollback() {
        let abort = |back| Orders {
            abort: Some(Abort {
                holder: "ci".to_owned(),
                by: "ada".to_owned(),
                at: Timestamp::UNIX_EPOCH,
                reason: None,
                back,
            }),
            ..Orders::default()
        };
        let reason = || StopReason::Aborted { by: "ada".to_owned(), reason: None };
        let mut watcher = OrderWatcher::new(&Orders::default());
        assert_eq!(watcher.new_inputs(&abort(false)), [Input::Stop(reason())]);
        assert_eq!(watcher.new_inputs(&abort(false)), []);
        assert_eq!(watcher.new_inputs(&abort(true)), [Input::RollBackAll(reason())]);
        assert_eq!(watcher.new_inputs(&abort(true)), []);
        assert_eq!(watcher.new_inputs(&abort(false)), []);
    }
}
