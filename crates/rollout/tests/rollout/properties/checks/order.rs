//! Order of pools: a node starts only when all nodes of the pools before its own have converged.

use super::Step;
use nodecfg_rollout::machine::Command;

pub(super) fn check(command: &Command, step: &Step) {
    let Some(name) = step.started(command) else { return };
    for first in &step.pool_of(name).policy.after {
        let undone = step.cluster.in_pool(first).find(|node| !step.cluster.is_done(&step.cluster.nodes[*node]));
        assert_eq!(undone, None, "{name} starts early\n{step}");
    }
}
