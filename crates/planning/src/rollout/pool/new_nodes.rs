//! Nodes that joined and never had a configuration, in a run that only watches (`verify --new-nodes-within`). Recent ones
//! end as new. Others are watched like every node, and their failure states their age.

use std::time::Duration;

use jiff::Timestamp;

use super::PoolRun;
use crate::convergence::{ConvergenceFailure, Target, Waiting};
use nodecfg_contract::observed::{Age, Node};

impl PoolRun {
    /// Creation time of a new node, if it is recent enough. Remembers the other new nodes.
    pub(super) fn joined_recently(&mut self, number: usize, seen: &Node, now: Timestamp) -> Option<Timestamp> {
        let within: Duration = self.mode.new_nodes_within.filter(|_| !self.mode.assign)?;
        let joined = seen.new_since().filter(|_| matches!(self.target, Target::Source(_)));
        let Some(joined) = joined else {
            self.new_nodes.remove(&number);
            return None;
        };
        if Age::between(joined, now).duration() < within {
            return Some(joined);
        }
        self.new_nodes.insert(number, joined);
        None
    }

    /// Failure of a node. The failure of a new node that was not assigned in time states its age.
    pub(super) fn failure_of_new_node(
        &self,
        number: usize,
        failure: ConvergenceFailure,
        now: Timestamp,
    ) -> ConvergenceFailure {
        match (failure, self.new_nodes.get(&number)) {
            (ConvergenceFailure::TimedOut { waiting: Waiting::NotAssigned }, Some(joined)) => {
                let age_seconds = Age::between(*joined, now).duration().as_secs();
                ConvergenceFailure::TimedOut { waiting: Waiting::NeverAssigned { joined: *joined, age_seconds } }
            }
            (failure, _) => failure,
        }
    }
}
