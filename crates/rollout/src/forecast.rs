//! Forecast of the start of a sync, computed by the state machine of the rollout itself.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::machine::{Input, Machine, Mode, StateMachine as _};
use super::outcome::PoolStart;
use crate::instant::Now;
use nodecfg_contract::names::PoolName;
use nodecfg_plan::Plan;

/// Starts of all pools of a plan in a sync that begins now.
#[must_use]
pub fn forecast(plan: &Plan, now: Timestamp) -> BTreeMap<PoolName, PoolStart> {
    let mut machine = Machine::new(plan, Mode::ASSIGN);
    machine.step(Input::Start, Now { time: now, ..Now::START });
    machine.starts()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StopReason;
    use nodecfg_fleet::Pool;
    use nodecfg_observed::{Node, Observed, Readiness};
    use nodecfg_plan::fixtures::{
        canary, desired, namespace, node, observed, options, policy, pool, refusing, rendered, with_config_map,
    };
    use nodecfg_plan::make;

    fn starts(pools: impl IntoIterator<Item = Pool>, observed: &Observed) -> Vec<PoolStart> {
        let plan = make(&desired(pools), observed, &options()).expect("can be planned");
        forecast(&plan, Timestamp::UNIX_EPOCH).into_values().collect()
    }

    fn failed(name: &str, pool: &str) -> Node {
        refusing(node(name, pool), &rendered(pool, 64).source(&namespace()), "unknown field")
    }

    #[test]
    fn pool_with_a_known_failure_stops_at_once() {
        let with_canary = Pool {
            policy: nodecfg_fleet::RolloutPolicy { canary: canary(1, 60), ..policy(2) },
            ..pool("b", 64, policy(2))
        };
        let tolerant =
            Pool { policy: nodecfg_fleet::RolloutPolicy { max_failures: 1, ..policy(3) }, ..pool("c", 64, policy(3)) };
        let nodes = ["a", "b", "c"].into_iter().flat_map(|pool| {
            [failed(&format!("{pool}1"), pool), node(&format!("{pool}2"), pool), node(&format!("{pool}3"), pool)]
        });
        let mut cluster = observed(nodes);
        for name in ["a", "b", "c"] {
            with_config_map(&mut cluster, name, &rendered(name, 64));
        }
        let found = starts([pool("a", 64, policy(2)), with_canary, tolerant, pool("d", 64, policy(1))], &cluster);
        assert_eq!(found[0], PoolStart::Stops { reason: StopReason::TooManyFailures { failures: 1, max_failures: 0 } });
        // Failed nodes go before the canaries.
        assert_eq!(found[1], found[0]);
        assert_eq!(found[2..], [PoolStart::Starts, PoolStart::Starts]);
    }

    #[test]
    fn pool_without_budget_waits() {
        let maintained = Node { deleting: true, ready: Readiness::NotReady, ..node("n1", "a") };
        let found = starts([pool("a", 64, policy(1))], &observed([maintained, node("n2", "a")]));
        assert_eq!(found, [PoolStart::Waits]);
        assert_eq!(starts([pool("a", 64, policy(1))], &observed([node("n2", "a")])), [PoolStart::Starts]);
    }
}
