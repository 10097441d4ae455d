//! Permits: a node of a pool whose gates name the node starts only shortly after all of them have passed for it, and each node
//! is asked about at most once per interval.

use std::collections::BTreeMap;

use super::Step;
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::gates::Gate;
use nodecfg_rollout::instant::Instant;
use nodecfg_rollout::machine::Command;

#[derive(Default)]
pub(in crate::properties) struct PermitOracle {
    asked: BTreeMap<NodeName, Instant>,
    granted: BTreeMap<NodeName, Instant>,
}

impl PermitOracle {
    pub(in crate::properties) fn answered(&mut self, node: &NodeName, at: Instant, is_granted: bool) {
        match is_granted {
            true => drop(self.granted.insert(node.clone(), at)),
            false => drop(self.granted.remove(node)),
        }
    }

    pub(super) fn check(&mut self, command: &Command, step: &Step) {
        let (now, Some(interval)) = (step.machine.now.instant, step.mode.gates) else { return };
        if let Command::AskPermit(name, _) = command
            && let Some(before) = self.asked.insert(name.clone(), now)
        {
            assert!(now.since(before) >= interval, "{name} is asked about again after {:?}\n{step}", now.since(before));
        }
        let Some(name) = step.started(command) else { return };
        if step.pool_of(name).policy.gates.iter().any(Gate::is_of_nodes) {
            let is_recent = self.granted.get(name).is_some_and(|at| now.since(*at) <= 2 * interval);
            // After a conflict, the node continues with the permit that it started with.
            let is_again = step.log.iter().flat_map(|(.., sent)| sent).filter(|sent| step.started(sent) == Some(name));
            assert!(is_recent || is_again.count() > 1, "{name} starts without a permit\n{step}");
        }
    }
}
