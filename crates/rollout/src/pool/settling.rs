//! Nodes that run their target and settle: they must stay well, and prove what they had before.

use super::Pool;
use super::node::{Settling, Stage};
use super::table::Id;
use crate::instant::Instant;
use crate::signals::Command;
use nodecfg_observed::Node as Seen;
use nodecfg_plan::convergence::{Convergence, ConvergenceFailure, evaluate};
use nodecfg_plan::drain::DrainFailure;

impl Pool {
    /// Starts the time that a node must stay well, and deletes the DaemonSet pods whose exclusive CPUs the new
    /// configuration does not know.
    pub(super) fn begin_settling(&mut self, id: Id, seen: &Seen, since: Instant) {
        self.observe_trial(id, seen, true);
        let node = &self.nodes[id];
        let delete = |pod: &_| Command::DeletePod(node.intent.name().clone(), Box::new(Clone::clone(pod)));
        self.commands.extend(node.proof.cpu_owners.iter().map(delete));
        let now = self.now.instant;
        let settling = Settling { since, converged: now, is_well: false, changed: now };
        self.nodes.update(id, |node| node.stage = Stage::Settling(settling));
        self.evaluate_settling(id, seen, settling);
    }

    /// Handles an event of a node that settles.
    pub(super) fn evaluate_settling(&mut self, id: Id, seen: &Seen, settling: Settling) {
        let node = &self.nodes[id];
        let (is_well, waiting) = match evaluate(&node.intent.target, seen, node.proof.expected()) {
            Convergence::Converged => (true, node.settling_reason()),
            Convergence::Waiting(waiting) => (false, waiting),
            Convergence::Failed(failure) => return self.fail(id, failure, self.now.instant.since(settling.since)),
        };
        if settling.is_well && !is_well && !self.may_regress(id) {
            return self.fail(id, ConvergenceFailure::TimedOut { waiting }, self.now.instant.since(settling.since));
        }
        if is_well != settling.is_well {
            let changed = self.now.instant;
            self.nodes.update(id, |node| node.stage = Stage::Settling(Settling { is_well, changed, ..settling }));
        }
        self.observe_trial(id, seen, false);
        self.set_waiting(id, waiting);
        self.release_settled(id);
    }

    /// Handles the answer to the deletion of a DaemonSet pod.
    pub(crate) fn pod_deleted(&mut self, id: Id, uid: &str, result: Result<(), String>) {
        let Stage::Settling(settling) = self.nodes[id].stage else { return };
        match result {
            Ok(()) => {
                self.nodes.update(id, |node| node.proof.cpu_owners.retain(|pod| pod.uid != uid));
                self.release_settled(id);
            }
            Err(error) => {
                let failure = ConvergenceFailure::Drain { failure: DrainFailure::PodKept { error } };
                self.fail(id, failure, self.now.instant.since(settling.since));
            }
        }
    }

    /// Handles the time of a node that settles.
    pub(super) fn settling_due(&mut self, id: Id, settling: Settling) {
        if !settling.is_well && self.now.instant.since(settling.changed) >= self.policy.limits.node {
            let failure = ConvergenceFailure::TimedOut { waiting: self.nodes[id].waiting.clone() };
            return self.fail(id, failure, self.now.instant.since(settling.since));
        }
        self.release_settled(id);
    }

    /// Releases a drained node that has settled. A node that was not drained has converged when its pods are back.
    pub(super) fn release_settled(&mut self, id: Id) {
        let node = &self.nodes[id];
        let Stage::Settling(settling @ Settling { is_well: true, .. }) = node.stage else { return };
        if node.awaits_mark_answer() || (node.is_marked() && !node.proof.cpu_owners.is_empty()) {
            return;
        }
        if !self.is_proven(id, settling) {
            return;
        }
        match self.nodes[id].is_marked() {
            true => self.release(id),
            false => self.converged(id, settling.converged.since(settling.since)),
        }
    }
}
