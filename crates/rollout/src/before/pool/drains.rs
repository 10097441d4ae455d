//! Drains of a pool's nodes: mark, evict, assign or roll back, settle and release.
//!
//! A marked node is unavailable. Every path to a final phase releases the mark, except when another client removed it,
//! when the policy holds it, or when the API server refuses the release.

use std::collections::BTreeSet;
use std::time::Duration;

use super::PoolRun;
use super::node_state::{BeforeRollback, Mark, NodeState, Phase, Purpose};
use super::proof::PodCheck;
use crate::before::signals::{Command, Context};
use crate::evictions::{self, Evictions, PodChange};
use crate::progress::Progress;
use nodecfg_contract::Assignment;
use nodecfg_contract::observed::{Drain, EvictionAnswer, Node, Pod};
use nodecfg_planning::convergence::pods::PodsBefore;
use nodecfg_planning::convergence::{Convergence, ConvergenceFailure, Waiting, evaluate};
use nodecfg_planning::drain::pods::Stay;
use nodecfg_planning::drain::{DrainFailure, OnTimeout};
use nodecfg_planning::instant::Instant;

/// Time between two counts of the volumes that are attached to a drained node.
const VOLUME_RETRY: Duration = Duration::from_secs(5);

impl PoolRun {
    /// Marks a node that must be drained before `purpose`.
    pub(super) fn begin_drain(&mut self, number: usize, purpose: Purpose, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let Some(assignment) = &node.assignment else { return };
        let drain = Drain {
            fleet: self.fleet.clone(),
            pool: self.name.clone(),
            to: assignment.to.clone(),
            from: assignment.from.clone(),
            since: context.time,
            added: BTreeSet::new(),
        };
        // An earlier run has marked the node.
        let is_marked = node.is_marked();
        context.commands.push(if is_marked {
            Command::WatchPods(node.name.clone())
        } else {
            Command::Mark(node.name.clone(), node.uid.clone(), drain)
        });
        let waiting = Waiting::Draining { pods: None, blocked: None };
        self.nodes.update(number, |node| {
            // What a rollback must restore is the state before the assignment.
            if purpose == Purpose::Assign {
                node.was_ready = node.ready;
            }
            node.phase = Phase::Draining { since: context.now, purpose };
            if !is_marked {
                node.mark = Mark::Sent;
            }
            node.drained = Drained::default();
            node.drain_record.get_or_insert_default();
        });
        self.marked.insert(number);
        context.timers.wake(context.now.after(self.drain_timeout), &self.name, Some(number));
        self.set_waiting(number, waiting, context);
    }

    /// Handles the answer to the mark of a node.
    pub(crate) fn marked(&mut self, number: usize, result: Result<(), String>, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number).filter(|node| node.mark == Mark::Sent) else { return };
        let (name, is_draining) = (node.name.clone(), matches!(node.phase, Phase::Draining { .. }));
        match result {
            Ok(()) => {
                self.nodes.update(number, |node| node.mark = Mark::On { seen: false });
                if is_draining {
                    context.commands.push(Command::WatchPods(name));
                }
            }
            Err(error) => {
                self.nodes.update(number, |node| node.mark = Mark::None);
                self.marked.remove(&number);
                if is_draining {
                    self.drain_failed(number, DrainFailure::Request { error }, context);
                }
            }
        }
        self.start_more(context);
    }

    /// Handles a request for a mark whose outcome is unknown. The drain fails, and the mark that the node may have is
    /// released.
    pub(crate) fn perhaps_marked(&mut self, number: usize, error: String, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number).filter(|node| node.mark == Mark::Sent) else { return };
        if matches!(node.phase, Phase::Draining { .. }) {
            self.drain_failed(number, DrainFailure::Request { error }, context);
        }
        self.nodes.update(number, |node| node.mark = Mark::On { seen: false });
        self.release(number, context);
        self.start_more(context);
    }

    /// Handles a change of the pods of a node.
    pub(crate) fn pods_changed(&mut self, number: usize, change: PodChange, context: &mut Context<'_>) {
        if self.is_evicting(number) {
            let policy = &self.drain_policy;
            self.nodes.update(number, |node| node.drained.evictions.observe(change, policy));
            self.advance_drain(number, context);
        }
    }

    /// Handles the answer to the eviction of a pod.
    pub(crate) fn evicted(
        &mut self,
        number: usize,
        uid: &str,
        answer: Result<EvictionAnswer, String>,
        context: &mut Context<'_>,
    ) {
        // The pod may be gone, and the drain ended, before the answer arrives.
        if answer == Ok(EvictionAnswer::Evicted) {
            self.nodes.update(number, |node| node.record_drain(|record| record.evicted += 1));
        }
        // An answer to an eviction of an earlier drain says nothing about this one.
        let is_awaited = |node: &NodeState| node.drained.evictions.is_unanswered(uid);
        if !self.is_evicting(number) || !self.nodes.get(number).is_some_and(is_awaited) {
            return;
        }
        match answer {
            Ok(answer) => {
                let now = context.now;
                let mut block = None;
                self.nodes.update(number, |node| block = node.drained.evictions.answered(uid, answer, now));
                if let Some((pod, reason)) = block {
                    self.report_node(number, context, |pool, node| Progress::DrainBlocked { pool, node, pod, reason });
                }
                self.advance_drain(number, context);
            }
            Err(error) => self.drain_failed(number, DrainFailure::Request { error }, context),
        }
    }

    /// Handles the number of volumes that are attached to a node.
    pub(crate) fn volumes_counted(&mut self, number: usize, result: Result<usize, String>, context: &mut Context<'_>) {
        // A count of an earlier drain is outdated.
        let is_awaited = |node: &NodeState| matches!(node.drained.volumes, VolumeCount::Sent);
        if !self.is_evicting(number) || !self.nodes.get(number).is_some_and(is_awaited) {
            return;
        }
        match result {
            Ok(volumes) => {
                let again = context.now.after(VOLUME_RETRY);
                self.nodes.update(number, |node| node.drained.volumes = VolumeCount::Known { volumes, again });
                self.advance_drain(number, context);
            }
            Err(error) => self.drain_failed(number, DrainFailure::Request { error }, context),
        }
    }

    /// Reports whether the node is marked and its pods are evicted.
    fn is_evicting(&self, number: usize) -> bool {
        let evicting =
            |node: &NodeState| matches!(node.phase, Phase::Draining { .. }) && matches!(node.mark, Mark::On { .. });
        self.nodes.get(number).is_some_and(evicting)
    }

    /// Sends the evictions that are due, or ends the drain.
    fn advance_drain(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        match node.drained.evictions.progress() {
            evictions::Progress::Unknown => {}
            evictions::Progress::Refused(failure) => self.drain_failed(number, failure, context),
            evictions::Progress::Evicting { left, blocked } => {
                let now = context.now;
                let mut due = Vec::new();
                self.nodes.update(number, |node| due = node.drained.evictions.next(now));
                let Some(node) = self.nodes.get(number) else { return };
                context.commands.extend(due.into_iter().map(|pod| Command::Evict(node.name.clone(), Box::new(pod))));
                if let Some(at) = node.drained.evictions.next_wake(now) {
                    context.timers.wake(at, &self.name, Some(number));
                }
                if matches!(node.waiting, Waiting::Draining { pods: None, .. }) {
                    self.report_node(number, context, |pool, node| Progress::DrainStarted { pool, node, pods: left });
                }
                let blocked = blocked.map(|(pod, reason)| format!("pod {pod}: {reason}"));
                if blocked.is_some() {
                    self.nodes.update(number, |node| node.record_drain(|record| record.blocked.clone_from(&blocked)));
                }
                self.set_waiting_once(number, Waiting::Draining { pods: Some(left), blocked }, context);
            }
            evictions::Progress::Drained { claims } => match node.drained.volumes {
                VolumeCount::Known { volumes, .. } if volumes <= claims => self.drained(number, context),
                VolumeCount::Known { volumes, again } if again > context.now => {
                    context.timers.wake(again, &self.name, Some(number));
                    self.set_waiting_once(number, Waiting::Detaching { volumes: volumes - claims }, context);
                }
                VolumeCount::Sent => {}
                VolumeCount::Unknown | VolumeCount::Known { .. } => {
                    context.commands.push(Command::CountVolumes(node.name.clone()));
                    self.nodes.update(number, |node| node.drained.volumes = VolumeCount::Sent);
                }
            },
        }
    }

    /// Continues with the purpose of the drain.
    fn drained(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let (Some(assignment), Phase::Draining { purpose, since }) = (node.assignment.clone(), node.phase.clone())
        else {
            return;
        };
        let name = node.name.clone();
        let owners = |(pod, why): (&Pod, Stay)| (why == Stay::DaemonSet && pod.exclusive_cpus).then(|| pod.clone());
        let cpu_owners: Vec<Pod> = node.drained.evictions.staying().filter_map(owners).collect();
        if self.checks_pods && purpose == Purpose::Assign {
            let before = PodsBefore::of(node.drained.evictions.staying().map(|(pod, _)| pod));
            self.nodes.update(number, |node| node.pods = PodCheck::after(before));
        }
        context.commands.push(Command::UnwatchPods(name.clone()));
        let (phase, command) = match purpose {
            Purpose::Assign => (Phase::Assigning, Command::Assign(name, assignment)),
            Purpose::RollBack(before) => {
                let Some(phase) = before.phase.rolled_back(since) else { return };
                let max_disruption = self.drained_disruption;
                (phase, Command::RollBack(name, Assignment { max_disruption, ..assignment.reversed() }))
            }
        };
        context.commands.push(command);
        let took = context.now.since(since);
        self.nodes.update(number, |node| {
            node.record_drain(|record| record.end(took));
            (node.phase, node.seen_rolled_back) = (phase, false);
            node.drained = Drained { cpu_owners, ..Drained::default() };
        });
        let seconds = took.as_secs_f64();
        self.report_node(number, context, |pool, node| Progress::Drained { pool, node, seconds });
    }

    /// Ends a drain without a change of the node.
    pub(crate) fn drain_failed(&mut self, number: usize, failure: DrainFailure, context: &mut Context<'_>) {
        let Some(Phase::Draining { since, .. }) = self.nodes.get(number).map(|node| node.phase.clone()) else { return };
        let timed_out = matches!(failure, DrainFailure::Blocked { .. } | DrainFailure::TimedOut { .. });
        let holds = timed_out && self.drain_policy.on_timeout == OnTimeout::Hold;
        self.end_drain(number, context);
        if holds {
            self.nodes.update(number, |node| node.mark = Mark::Left);
            self.marked.remove(&number);
        }
        self.not_drained(number, failure, since, context);
    }

    /// Ends the part of a node that was not drained since this time. A node that was to be rolled back stays on its
    /// target: its rollback failed, and not the node.
    fn not_drained(&mut self, number: usize, failure: DrainFailure, since: Instant, context: &mut Context<'_>) {
        let phase = self.nodes.get(number).map(|node| node.phase.clone());
        let Some(Phase::Draining { purpose: Purpose::RollBack(before), .. }) = phase else {
            let failure = ConvergenceFailure::Drain { failure };
            return self.fail(number, failure, context.now.since(since), context);
        };
        let BeforeRollback { phase, waiting } = *before;
        // The drain may have evicted the pods that were to be proven.
        self.nodes.update(number, |node| (node.waiting, node.pods) = (waiting, PodCheck::default()));
        match phase {
            Phase::Settling { since, converged, well: true, .. } => {
                self.converged(number, converged.since(since), context);
            }
            // The time limit may have passed during the drain.
            Phase::Settling { .. } | Phase::Watching { .. } => self.watch(number, context),
            phase => self.nodes.set(number, phase),
        }
        self.stays_on_target(number, failure, context);
    }

    /// Sends no further eviction for a node.
    pub(super) fn end_drain(&mut self, number: usize, context: &mut Context<'_>) {
        if !self.is_evicting(number) {
            return;
        }
        let Some(node) = self.nodes.get(number) else { return };
        context.commands.push(Command::UnwatchPods(node.name.clone()));
        let Phase::Draining { since, .. } = node.phase else { return };
        let took = context.now.since(since);
        self.nodes.update(number, |node| {
            node.record_drain(|record| record.end(took));
            node.drained = Drained::default();
        });
    }

    /// Makes nodes pending again whose drain has not ended. They were not changed.
    pub(super) fn abandon_drains(&mut self, context: &mut Context<'_>) {
        for number in self.marked.clone() {
            if let Some(Phase::Draining { purpose: Purpose::Assign, .. }) =
                self.nodes.get(number).map(|node| node.phase.clone())
            {
                self.end_drain(number, context);
                self.nodes.set(number, Phase::Pending);
            }
        }
    }

    /// Handles an event of a marked node: detects a lost mark, and the state of a node that settles.
    pub(super) fn observe_mark(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let is_marked = seen.drain_mark.as_ref().is_some_and(|mark| mark.tainted);
        match node.mark {
            // The watch event may arrive before the response. It must not be lost.
            Mark::Sent if is_marked => self.marked(number, Ok(()), context),
            Mark::On { .. } if is_marked => {}
            Mark::On { seen: true } => return self.mark_lost(number, context),
            _ => return,
        }
        self.nodes.update(number, |node| {
            if let Mark::On { seen } = &mut node.mark {
                *seen = true;
            }
        });
    }

    fn mark_lost(&mut self, number: usize, context: &mut Context<'_>) {
        self.end_drain(number, context);
        self.nodes.update(number, |node| node.mark = Mark::None);
        self.marked.remove(&number);
        let Some(node) = self.nodes.get(number) else { return };
        let since = match node.phase {
            // Its rollback was given up, and so was the drain.
            Phase::Watching { .. } | Phase::Settling { .. } if node.keeps_target => return,
            Phase::Draining { since, .. } | Phase::Watching { since } | Phase::Settling { since, .. } => since,
            // The response to the assignment does not arrive any more.
            Phase::Assigning => context.now,
            _ => return,
        };
        self.not_drained(number, DrainFailure::MarkLost, since, context);
    }

    /// Starts the time that a converged node must stay Ready before its release, and deletes the DaemonSet pods whose
    /// exclusive CPUs the new configuration does not know.
    pub(super) fn begin_settling(&mut self, number: usize, seen: &Node, since: Instant, context: &mut Context<'_>) {
        self.begin_trial(number, seen, context);
        let Some(node) = self.nodes.get(number) else { return };
        let name = node.name.clone();
        let pods = node.drained.cpu_owners.clone();
        context.commands.extend(pods.into_iter().map(|pod| Command::DeletePod(name.clone(), Box::new(pod))));
        let now = context.now;
        self.nodes.update(number, |node| {
            node.phase = Phase::Settling { since, converged: now, well: false, changed: now };
        });
        context.timers.wake(now.after(self.timeout), &self.name, Some(number));
        self.evaluate_settling(number, seen, context);
    }

    /// Handles the answer to the deletion of a DaemonSet pod.
    pub(crate) fn pod_deleted(
        &mut self,
        number: usize,
        uid: &str,
        result: Result<(), String>,
        context: &mut Context<'_>,
    ) {
        let Some(Phase::Settling { since, .. }) = self.nodes.get(number).map(|node| node.phase.clone()) else { return };
        match result {
            Ok(()) => {
                self.nodes.update(number, |node| node.drained.cpu_owners.retain(|pod| pod.uid != uid));
                self.release_settled(number, context);
            }
            Err(error) => {
                let failure = ConvergenceFailure::Drain { failure: DrainFailure::PodKept { error } };
                self.fail(number, failure, context.now.since(since), context);
            }
        }
    }

    /// Handles an event of a node that settles.
    pub(super) fn evaluate_settling(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let Phase::Settling { since, converged, well: was_well, .. } = node.phase else { return };
        let (well, waiting) = match evaluate(&self.target, seen, node.expected()) {
            Convergence::Converged => (true, self.settling_reason(number)),
            Convergence::Waiting(waiting) => (false, waiting),
            Convergence::Failed(failure) => return self.fail(number, failure, context.now.since(since), context),
        };
        if well != was_well {
            let changed = context.now;
            self.nodes.update(number, |node| node.phase = Phase::Settling { since, converged, well, changed });
            let limit = if well { self.settle } else { self.timeout };
            context.timers.wake(changed.after(limit), &self.name, Some(number));
        }
        self.refresh_trial(number, seen, context);
        self.set_waiting_once(number, waiting, context);
        self.release_settled(number, context);
    }

    /// Releases a drained node that has settled. A node that was not drained has converged when its pods are back.
    pub(super) fn release_settled(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let Phase::Settling { well: true, changed, since, converged } = node.phase else { return };
        if !node.is_marked() {
            if self.is_proven(number, context) {
                self.converged(number, converged.since(since), context);
            }
        } else if node.drained.cpu_owners.is_empty()
            && context.now.since(changed) >= self.settle
            && self.is_proven(number, context)
        {
            self.release(number, context);
        }
    }

    fn release(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let Mark::On { .. } = node.mark else { return };
        context.commands.push(Command::Release(node.name.clone(), node.uid.clone()));
        self.nodes.update(number, |node| node.mark = Mark::Releasing);
    }

    /// Releases the marked nodes whose part in the rollout has ended.
    pub(crate) fn release_ended(&mut self, context: &mut Context<'_>) {
        let stopped = self.stopped.is_some() || self.held.is_some();
        let ended = |number: &usize| self.nodes.get(*number).is_some_and(|node| node.needs_no_mark(stopped));
        let ended: Vec<usize> = self.marked.iter().copied().filter(ended).collect();
        for number in ended {
            self.release(number, context);
        }
    }

    /// Handles the answer to the release of a node.
    pub(crate) fn released(&mut self, number: usize, result: Result<(), String>, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number).filter(|node| node.mark == Mark::Releasing) else { return };
        let phase = node.phase.clone();
        let mark = if result.is_ok() { Mark::None } else { Mark::Left };
        self.marked.remove(&number);
        self.nodes.update(number, |node| node.mark = mark);
        if let Err(error) = result {
            self.report_node(number, context, |pool, node| Progress::NotReleased { pool, node, error });
        }
        if let Phase::Settling { since, converged, .. } = phase {
            self.converged(number, converged.since(since), context);
        }
        self.advance_canaries(context);
        self.start_more(context);
    }

    /// Handles the timer of a node that is drained or settles. Returns whether the node was one.
    pub(super) fn drain_timer(&mut self, number: usize, context: &mut Context<'_>) -> bool {
        let Some(node) = self.nodes.get(number) else { return false };
        match node.phase {
            Phase::Draining { since, .. } if context.now.since(since) >= self.drain_timeout => {
                let volumes = match node.drained.volumes {
                    VolumeCount::Known { volumes, .. } => volumes,
                    VolumeCount::Unknown | VolumeCount::Sent => 0,
                };
                let failure = node.drained.evictions.overdue(volumes);
                self.drain_failed(number, failure, context);
            }
            Phase::Draining { .. } if self.is_evicting(number) => self.advance_drain(number, context),
            Phase::Settling { since, well: false, changed, .. } if context.now.since(changed) >= self.timeout => {
                let failure = ConvergenceFailure::TimedOut { waiting: node.waiting.clone() };
                self.fail(number, failure, context.now.since(since), context);
            }
            Phase::Settling { .. } => self.release_settled(number, context),
            Phase::Draining { .. } => {}
            _ => return false,
        }
        true
    }

    pub(super) fn set_waiting_once(&mut self, number: usize, waiting: Waiting, context: &mut Context<'_>) {
        if self.nodes.get(number).is_some_and(|node| node.waiting != waiting) {
            self.set_waiting(number, waiting, context);
        }
    }
}

/// Evictions of a node, and what is known about its volumes and about pods that stay.
#[derive(Debug, Default)]
pub(super) struct Drained {
    evictions: Evictions,
    volumes: VolumeCount,
    /// DaemonSet pods with exclusive CPUs that must be deleted before the release.
    cpu_owners: Vec<Pod>,
}

/// Number of volumes that are attached to a node.
#[derive(Debug, Clone, Copy, Default)]
enum VolumeCount {
    #[default]
    Unknown,
    /// The request is unanswered.
    Sent,
    /// The number, and the time from which it is counted again.
    Known { volumes: usize, again: Instant },
}
