//! Proof that a node works after its assignment: its devices and its pods must return.
//!
//! The resources of a node are those of its last event before the assignment. Its pods are listed right before the
//! assignment, or known from its drain, and listed again when it runs its target. The list is repeated once, for pods that
//! are not Ready again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Pool;
use super::evidence::{CheckState, PodCheck, Proof};
use super::node::{Node, Settling, Stage};
use super::table::Id;
use crate::instant::Instant;
use crate::outcome::{BeforeAfter, Recovery};
use crate::signals::Command;
use nodecfg_observed::{ExtendedResources, Pod};
use nodecfg_plan::convergence::pods::{PodsBefore, PodsVerdict, ready_pods};
use nodecfg_plan::convergence::{ConvergenceFailure, Waiting};

/// Time that a new kubelet has to report its devices and to decide about its pods, before they are checked. Three
/// independent loops of a starting kubelet write `status.config`, the other status of the Node and that of its pods
/// (kubernetes, `pkg/kubelet/kubelet.go`: `fastStatusUpdateOnce`, `pkg/kubelet/config/apiserver.go` and
/// `pkg/kubelet/status/status_manager.go`, 1.23). Until then, the API server has the states of the old kubelet.
pub(super) const FIRST_REPORT: Duration = Duration::from_secs(5);

impl Node {
    /// Remembers the extended resources of a node before its assignment. Until the Node names the target, its kubelet has
    /// not restarted for it. A node that was assigned before this rollout may have restarted already, so its resources
    /// before are unknown.
    pub(super) fn remember_resources(&mut self, seen: &ExtendedResources, on_target: bool) {
        let is_before = self.is_unassigned() || self.is_assigning();
        if !on_target && is_before && self.intent.assignment().is_some() {
            self.proof.resources = Some(seen.clone());
        } else if self.proof.resources.is_some() && self.facts.runs_target == Some(true) {
            self.proof.resources_after = Some(seen.clone());
        }
    }

    /// What the node had before its assignment, and has since.
    pub(super) fn recovery(&self) -> Option<Recovery> {
        // The assignment was not sent.
        if self.is_unassigned() || self.is_assigning() {
            return None;
        }
        let Proof { resources, resources_after, pods, .. } = &self.proof;
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let ready_pods =
            pods.ready_before.map(|before| BeforeAfter { before: number(before), after: pods.ready_after.map(number) });
        let amount = |(name, _): (&str, u64)| {
            let before = resources.as_ref().map_or(0, |before| before.amount(name));
            let after = resources_after.as_ref().map(|after| after.amount(name));
            (name.to_owned(), BeforeAfter { before, after })
        };
        let known = resources.iter().chain(resources_after).flat_map(ExtendedResources::iter);
        let resources: BTreeMap<String, BeforeAfter> = known.map(amount).collect();
        let is_known = ready_pods.is_some() || !resources.is_empty();
        is_known.then_some(Recovery { ready_pods, resources })
    }

    /// Time from which pods that are not Ready count as lost.
    fn last_list(&self, settling: Settling, settle: Duration) -> Instant {
        if self.is_marked() { settling.changed } else { settling.converged }.after(settle)
    }

    /// What a node that settles and is well waits for.
    pub(super) fn settling_reason(&self) -> Waiting {
        match &self.proof.pods.state {
            _ if self.is_marked() => Waiting::Settling,
            CheckState::Again(_, late) => Waiting::PodsNotReady(late.clone()),
            _ => Waiting::Checking,
        }
    }
}

impl Pool {
    /// Assigns a node, after a list of its pods if they are checked.
    pub(super) fn list_or_assign(&mut self, id: Id) {
        if !self.policy.checks_pods {
            return self.assign(id);
        }
        self.commands.push(Command::ListPods(self.nodes[id].intent.name().clone()));
        self.nodes.update(id, |node| node.stage = Stage::Listing);
    }

    pub(super) fn assign(&mut self, id: Id) {
        let intent = &self.nodes[id].intent;
        let assign = intent.assignment().map(|assignment| Command::Assign(intent.name().clone(), assignment.clone()));
        self.commands.extend(assign);
        self.nodes.update(id, |node| {
            node.stage = Stage::Assigning;
            // The readiness of the plan may be outdated.
            node.proof.was_ready = node.facts.is_ready;
        });
    }

    /// Handles the pods of a node. Without the pods before, nothing is checked; without those after, nothing is proven
    /// against the node.
    pub(crate) fn pods_listed(&mut self, id: Id, pods: Result<Vec<Pod>, String>) {
        match &self.nodes[id].stage {
            Stage::Listing => {
                let check = pods.map(|pods| PodCheck::after(PodsBefore::of(&pods))).unwrap_or_default();
                self.nodes.update(id, |node| (node.stage, node.proof.pods) = (Stage::Waiting, check));
                // Something may have changed since the list was requested.
                if self.may_go_on(id) {
                    self.assign(id);
                }
            }
            Stage::Settling(settling) => self.judge_pods(id, *settling, pods),
            _ => {}
        }
    }

    fn judge_pods(&mut self, id: Id, settling: Settling, pods: Result<Vec<Pod>, String>) {
        let is_last =
            settling.is_well && self.nodes[id].last_list(settling, self.policy.limits.settle) <= self.now.instant;
        let late = self.nodes.update(id, |node| {
            let check = &mut node.proof.pods;
            let CheckState::Sent(before) = std::mem::take(&mut check.state) else { return None };
            let pods = pods.ok()?;
            check.ready_after = Some(ready_pods(&pods));
            match before.judge(&pods) {
                PodsVerdict::Back => None,
                PodsVerdict::Refused(refused) => Some(ConvergenceFailure::PodsRefused(refused)),
                PodsVerdict::Late(late) if is_last => Some(ConvergenceFailure::PodsLost(late)),
                PodsVerdict::Late(late) => {
                    check.state = CheckState::Again(before, late);
                    None
                }
            }
        });
        if let Some(failure) = late {
            return self.fail(id, failure, self.now.instant.since(settling.since));
        }
        if matches!(self.nodes[id].proof.pods.state, CheckState::Again(..)) {
            self.set_waiting(id, self.nodes[id].settling_reason());
        }
        self.release_settled(id);
    }

    /// Time of the next list of the pods of a node that settles and is well. A drained node is checked at the end of its
    /// settle time.
    pub(super) fn proves_at(&self, id: Id, settling: Settling) -> Option<Instant> {
        let node = &self.nodes[id];
        let last = node.last_list(settling, self.policy.limits.settle);
        match node.proof.pods.state {
            CheckState::Sent(_) => None,
            CheckState::Done | CheckState::Due(_) if !node.is_marked() => {
                Some(settling.converged.after(self.policy.limits.first_report).min(last))
            }
            CheckState::Done | CheckState::Due(_) | CheckState::Again(..) => Some(last),
        }
    }

    /// Reports whether nothing is left to check of a node that settles and is well. Lists its pods when the time has come.
    pub(super) fn is_proven(&mut self, id: Id, settling: Settling) -> bool {
        if self.proves_at(id, settling).is_none_or(|at| at > self.now.instant) {
            return false;
        }
        if self.nodes[id].proof.pods.is_done() {
            return true;
        }
        self.commands.push(Command::ListPods(self.nodes[id].intent.name().clone()));
        self.nodes.update(id, |node| {
            let state = &mut node.proof.pods.state;
            *state = match std::mem::take(state) {
                CheckState::Due(before) | CheckState::Again(before, _) => CheckState::Sent(before),
                state => state,
            };
        });
        false
    }
}
