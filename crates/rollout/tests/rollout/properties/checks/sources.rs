//! Sources: nodes are assigned the target of their pool, and rolled back to what they had before.

use super::Step;
use nodecfg_rollout::machine::Command;

pub(super) fn check(command: &Command, step: &Step) {
    match command {
        Command::Assign(node, assignment) => {
            assert_eq!(assignment.to.as_ref(), step.cluster.target(node).source(), "{command:?}\n{step}");
        }
        Command::RollBack(node, assignment) => {
            assert_eq!(assignment.to.as_ref(), step.cluster.previous(node), "{command:?}\n{step}");
        }
        _ => {}
    }
}
