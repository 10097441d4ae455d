//! What people order while a rollout runs, as the machine is told it. What was ordered before the plan was made is in the plan
//! already, and no news.

use super::StopReason;
use super::machine::Input;
use nodecfg_contract::observed::Orders;

/// Tells what is new of the orders.
#[derive(Debug)]
pub struct OrderWatcher {
    known: Orders,
    aborted: bool,
    taken_back: bool,
}

impl OrderWatcher {
    /// Knows what the plan was made with.
    pub fn new(planned: &Orders) -> Self {
        Self { known: planned.clone(), aborted: false, taken_back: false }
    }

    /// What the machine is to be told of these orders, which are all that there are now. An abort is taken to be for this
    /// rollout.
    pub fn hear(&mut self, orders: &Orders) -> Vec<Input> {
        let mut inputs = Vec::new();
        if let Some(abort) = &orders.abort {
            let reason = StopReason::Aborted { by: abort.by.clone(), reason: abort.reason.clone() };
            if abort.back && !self.taken_back {
                inputs.push(Input::TakeBack(reason));
            } else if !self.aborted {
                inputs.push(Input::Stop(reason));
            }
            self.aborted = true;
            self.taken_back |= abort.back;
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
    use crate::plan::fixtures::pool_name;
    use nodecfg_contract::observed::{Abort, Pause};

    fn pause(reason: &str) -> Pause {
        Pause { by: "ada".to_owned(), at: Timestamp::UNIX_EPOCH, reason: reason.to_owned() }
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
    fn a_pause_is_news_once_and_not_when_the_plan_knew_it() {
        let mut ear = OrderWatcher::new(&paused(&[("a", "disks")]));
        assert_eq!(ear.hear(&paused(&[("a", "disks")])), []);
        assert_eq!(ear.hear(&paused(&[("a", "disks"), ("b", "quota")])), [stop("b", "quota")]);
        assert_eq!(ear.hear(&paused(&[("a", "disks"), ("b", "quota")])), []);
        assert_eq!(ear.hear(&paused(&[])), [], "that one is lifted is for the next run");
        assert_eq!(ear.hear(&paused(&[("a", "disks")])), [stop("a", "disks")]);
        assert_eq!(
            ear.hear(&paused(&[("a", "fans")])),
            [stop("a", "fans")],
            "ordered anew, of a plan despite the first"
        );
    }

    #[test]
    fn an_abort_is_news_once_and_can_be_raised_to_take_nodes_back() {
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
        let mut ear = OrderWatcher::new(&Orders::default());
        assert_eq!(ear.hear(&abort(false)), [Input::Stop(reason())]);
        assert_eq!(ear.hear(&abort(false)), []);
        assert_eq!(ear.hear(&abort(true)), [Input::TakeBack(reason())]);
        assert_eq!(ear.hear(&abort(true)), []);
        assert_eq!(ear.hear(&abort(false)), []);
    }
}
