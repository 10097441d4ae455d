//! Proof that a node works after its assignment: its devices and its pods must return.
//!
//! The resources of a node are those of its last event before the assignment. Its pods are listed right before the
//! assignment, or known from its drain, and listed again when it has converged. The list is repeated once, for pods that
//! are not Ready again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PoolRun;
use super::node_state::{Group, NodeState, Phase};
use crate::before::signals::{Command, Context};
use crate::{BeforeAfter, Recovery};
use nodecfg_contract::Assignment;
use nodecfg_contract::observed::{ExtendedResources, Node, Pod};
use nodecfg_planning::convergence::pods::{LatePods, PodsBefore, PodsVerdict, ready_pods};
use nodecfg_planning::convergence::{ConvergenceFailure, WaitContext, Waiting};
use nodecfg_planning::instant::Instant;

/// Time that a new kubelet has to report its devices and to decide about its pods, before they are checked. Three
/// independent loops of a starting kubelet write `status.config`, the other status of the Node and that of its pods
/// (kubernetes, `pkg/kubelet/kubelet.go`: `fastStatusUpdateOnce`, `pkg/kubelet/config/apiserver.go` and
/// `pkg/kubelet/status/status_manager.go`, 1.23). Until then, the API server has the states of the old kubelet.
const FIRST_REPORT: Duration = Duration::from_secs(5);

/// Check of the pods of a node. The default checks nothing.
#[derive(Debug, Default)]
pub(super) struct PodCheck {
    state: CheckState,
    /// Number of Ready pods before the assignment; unset if they were not listed.
    pub(super) ready_before: Option<usize>,
    /// Number of Ready pods by the latest list after the convergence.
    pub(super) ready_after: Option<usize>,
}

#[derive(Debug, Default)]
enum CheckState {
    /// Nothing is left to check.
    #[default]
    Done,
    /// The pods before are known, and are compared when the node has converged.
    Due(PodsBefore),
    /// The list is requested.
    Sent(PodsBefore),
    /// These pods are not Ready again. The list is repeated.
    Again(PodsBefore, LatePods),
}

impl PodCheck {
    /// Check of a node that had these pods before its assignment. Without running pods, nothing is checked.
    pub(super) fn after(before: PodsBefore) -> Self {
        if before.is_idle() {
            return Self::default();
        }
        Self { ready_before: Some(before.ready()), state: CheckState::Due(before), ready_after: None }
    }

    fn is_done(&self) -> bool {
        matches!(self.state, CheckState::Done)
    }
}

impl NodeState {
    /// What must be as before the assignment, as long as no time limit applies. The state of a node that was not Ready
    /// may have been outdated, so its resources need not return.
    pub(super) fn expected(&self) -> WaitContext<'_> {
        let resources = self.resources.as_ref().filter(|_| self.was_ready);
        WaitContext { was_ready: self.was_ready, resources, ..WaitContext::STATE_ONLY }
    }

    /// Reports whether the node must settle when it runs its target, because it had devices or pods.
    pub(super) fn must_prove(&self) -> bool {
        !self.pods.is_done() || self.expected().resources.is_some_and(|before| !before.is_empty())
    }

    /// What the node had before its assignment, and has since.
    pub(super) fn recovery(&self) -> Option<Recovery> {
        // The assignment was not sent.
        if self.is_unassigned() || self.phase == Phase::Assigning {
            return None;
        }
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let ready_pods = self
            .pods
            .ready_before
            .map(|before| BeforeAfter { before: number(before), after: self.pods.ready_after.map(number) });
        let amounts = self.resources.iter().chain(&self.resources_after).flat_map(ExtendedResources::iter);
        let resources: BTreeMap<String, BeforeAfter> = amounts
            .map(|(name, _)| {
                let before = self.resources.as_ref().map_or(0, |before| before.amount(name));
                let after = self.resources_after.as_ref().map(|after| after.amount(name));
                (name.to_owned(), BeforeAfter { before, after })
            })
            .collect();
        let is_known = ready_pods.is_some() || !resources.is_empty();
        is_known.then_some(Recovery { ready_pods, resources })
    }

    /// Reports whether the node has left the queue, and its assignment may not have been sent.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.phase, Phase::Listing | Phase::Assigning | Phase::Draining { .. })
    }
}

impl PoolRun {
    /// Remembers the extended resources of a node before its assignment. Until the Node names the target, its kubelet
    /// has not restarted for it. A node that was assigned before this rollout may have restarted already, so its
    /// resources before are unknown.
    pub(super) fn remember_resources(&mut self, number: usize, seen: &Node, on_target: bool) {
        let is_before =
            |node: &NodeState| node.assignment.is_some() && (node.is_unassigned() || node.phase == Phase::Assigning);
        let Some(node) = self.nodes.get(number) else { return };
        let resources = || Some(seen.extended_resources.clone());
        if !on_target && is_before(node) {
            self.nodes.update(number, |node| node.resources = resources());
        } else if node.resources.is_some() && node.runs_target == Some(true) {
            self.nodes.update(number, |node| node.resources_after = resources());
        }
    }

    /// Assigns a node, after a list of its pods if they are checked.
    pub(super) fn list_or_assign(&mut self, number: usize, assignment: Assignment, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        if self.checks_pods {
            context.commands.push(Command::ListPods(node.name.clone()));
            self.nodes.set(number, Phase::Listing);
        } else {
            self.assign(number, assignment, context);
        }
    }

    fn assign(&mut self, number: usize, assignment: Assignment, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        context.commands.push(Command::Assign(node.name.clone(), assignment));
        // The readiness of the plan may be outdated.
        self.nodes.update(number, |node| (node.phase, node.was_ready) = (Phase::Assigning, node.ready));
    }

    /// Makes nodes pending again whose pods are listed before their assignment.
    pub(super) fn abandon_lists(&mut self) {
        for number in self.nodes.numbers() {
            if self.nodes.in_phase(number, &Phase::Listing).is_some() {
                self.nodes.set(number, Phase::Pending);
            }
        }
    }

    /// Handles the pods of a node. Without the pods before, nothing is checked; without those after, nothing is proven
    /// against the node.
    pub(crate) fn pods_listed(&mut self, number: usize, pods: Result<Vec<Pod>, String>, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        match (&node.phase, &node.pods.state) {
            (Phase::Listing, _) => {
                let Some(assignment) = node.assignment.clone() else { return };
                let check = pods.map(|pods| PodCheck::after(PodsBefore::of(&pods))).unwrap_or_default();
                self.nodes.update(number, |node| node.pods = check);
                if !self.is_open_for(number, context.time) {
                    // A window ended, and the node is set aside.
                    self.nodes.set(number, Phase::Pending);
                    self.start_more(context);
                } else if self.needs_budget_now(number) || !self.gates_permit(context.now) {
                    self.return_to_queue(number, context);
                } else {
                    self.assign(number, assignment, context);
                }
            }
            (Phase::Settling { .. }, CheckState::Sent(_)) => {
                self.judge_pods(number, pods, context);
                self.advance_canaries(context);
                self.start_more(context);
            }
            _ => {}
        }
    }

    /// Reports whether a node that was about to be assigned may not be yet: it recovered meanwhile, or other nodes became
    /// unavailable.
    pub(super) fn needs_budget_now(&self, number: usize) -> bool {
        let needs_budget =
            |node: &NodeState| node.group == Group::Unavailable || self.nodes.unavailable() > self.limit();
        self.nodes.get(number).is_some_and(|node| node.healthy && needs_budget(node))
    }

    pub(super) fn return_to_queue(&mut self, number: usize, context: &mut Context<'_>) {
        let Some((group, healthy)) = self.nodes.get(number).map(|node| (node.group, node.healthy)) else { return };
        self.nodes.set(number, Phase::Pending);
        match group {
            Group::Canary => self.canaries.push_front(number),
            Group::Unavailable if !healthy => self.queue_unavailable(number),
            Group::Unavailable | Group::Rest => {
                self.nodes.update(number, |node| node.group = Group::Rest);
                self.rest.push_front(number);
            }
        }
        self.start_more(context);
    }

    fn judge_pods(&mut self, number: usize, pods: Result<Vec<Pod>, String>, context: &mut Context<'_>) {
        let mut state = CheckState::Done;
        self.nodes.update(number, |node| std::mem::swap(&mut node.pods.state, &mut state));
        let (CheckState::Sent(before), Ok(pods)) = (state, pods) else { return self.release_settled(number, context) };
        let Some(node) = self.nodes.get(number) else { return };
        let Phase::Settling { since, well, .. } = node.phase else { return };
        let is_last = well && self.last_list(node) <= context.now;
        self.nodes.update(number, |node| node.pods.ready_after = Some(ready_pods(&pods)));
        let failure = match before.judge(&pods) {
            PodsVerdict::Back => return self.release_settled(number, context),
            PodsVerdict::Refused(refused) => ConvergenceFailure::PodsRefused(refused),
            PodsVerdict::Late(late) if is_last => ConvergenceFailure::PodsLost(late),
            PodsVerdict::Late(late) => {
                self.nodes.update(number, |node| node.pods.state = CheckState::Again(before, late));
                let waiting = self.settling_reason(number);
                self.set_waiting_once(number, waiting, context);
                return self.release_settled(number, context);
            }
        };
        self.fail(number, failure, context.now.since(since), context);
    }

    /// Reports whether nothing is left to check of a node that settles and is well. Lists its pods when the time has come.
    pub(super) fn is_proven(&mut self, number: usize, context: &mut Context<'_>) -> bool {
        let Some(node) = self.nodes.get(number) else { return false };
        let at = match node.pods.state {
            CheckState::Sent(_) => return false,
            CheckState::Done | CheckState::Due(_) => self.first_list(node),
            CheckState::Again(..) => self.last_list(node),
        };
        if context.now < at {
            context.timers.wake(at, &self.name, Some(number));
            return false;
        }
        if node.pods.is_done() {
            return true;
        }
        context.commands.push(Command::ListPods(node.name.clone()));
        self.nodes.update(number, |node| {
            node.pods.state = match std::mem::take(&mut node.pods.state) {
                CheckState::Due(before) | CheckState::Again(before, _) => CheckState::Sent(before),
                state => state,
            };
        });
        false
    }

    /// Time of the first list after the convergence. A drained node is checked at the end of its settle time.
    fn first_list(&self, node: &NodeState) -> Instant {
        match node.phase {
            Phase::Settling { converged, .. } if !node.is_marked() => {
                converged.after(self.mode.real_duration(FIRST_REPORT)).min(self.last_list(node))
            }
            _ => self.last_list(node),
        }
    }

    /// Time from which pods that are not Ready count as lost.
    fn last_list(&self, node: &NodeState) -> Instant {
        match node.phase {
            Phase::Settling { changed, .. } if node.is_marked() => changed.after(self.settle),
            Phase::Settling { converged, .. } => converged.after(self.settle),
            _ => Instant::NEVER,
        }
    }

    /// What a node that settles and is well waits for.
    pub(super) fn settling_reason(&self, number: usize) -> Waiting {
        match self.nodes.get(number) {
            Some(node) if node.is_marked() => Waiting::Settling,
            Some(NodeState { pods: PodCheck { state: CheckState::Again(_, late), .. }, .. }) => {
                Waiting::PodsNotReady(late.clone())
            }
            _ => Waiting::Checking,
        }
    }
}
