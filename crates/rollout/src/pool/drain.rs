//! Drains of nodes: mark, evict, and release.
//!
//! A marked node is unavailable. Every path to an end releases the mark, except when another client removed it, when the
//! policy holds it, or when the API server refuses the release.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Pool;
use super::draining::{Draining, VolumeCount};
use super::evidence::PodCheck;
use super::node::{Goal, Mark, Stage, WayBack};
use super::table::Id;
use crate::evictions::{PodChange, Progress as Evicting};
use crate::instant::Instant;
use crate::outcome::End;
use crate::progress::Progress;
use crate::signals::{Command, Shown};
use nodecfg_contract::Assignment;
use nodecfg_fleet::drain::OnTimeout;
use nodecfg_observed::{Drain, EvictionAnswer, Maintainer, Pod};
use nodecfg_plan::Why;
use nodecfg_plan::convergence::pods::PodsBefore;
use nodecfg_plan::convergence::{ConvergenceFailure, Waiting};
use nodecfg_plan::drain::DrainFailure;
use nodecfg_plan::drain::pods::Stay;

/// Time between two counts of the volumes that are attached to a drained node.
const VOLUME_RETRY: Duration = Duration::from_secs(5);

impl Pool {
    /// Marks a node on the way to its goal.
    pub(super) fn begin_drain(&mut self, id: Id) {
        let node = &self.nodes[id];
        let Some(assignment) = node.intent.assignment() else { return };
        let name = node.intent.name().clone();
        // An earlier run may have marked the node.
        let is_marked = node.is_marked();
        let command = match is_marked {
            true => Command::WatchPods(name),
            false => {
                let drain = Drain {
                    fleet: self.policy.fleet.clone(),
                    pool: self.policy.name.clone(),
                    to: assignment.to.clone(),
                    from: assignment.from.clone(),
                    since: self.now.time,
                    added: BTreeSet::new(),
                };
                let limits = &self.policy.limits;
                let limit = limits.drain.saturating_add(limits.node).saturating_add(limits.settle);
                Command::Mark(name, node.intent.uid().to_owned(), drain, limit)
            }
        };
        self.commands.push(command);
        let since = self.now.instant;
        self.nodes.update(id, |node| {
            // What a rollback must restore is the state before the assignment.
            if !node.goes_back() {
                node.proof.was_ready = node.facts.is_ready;
            }
            node.stage = Stage::Draining(Box::new(Draining::new(since)));
            if !is_marked {
                node.mark = Mark::Sent { was_left: node.mark == Mark::Left };
            }
            node.drain.get_or_insert_default();
        });
        self.report_waiting(id, Waiting::Draining { pods: None, blocked: None });
    }

    /// Handles the answer to the mark of a node.
    pub(crate) fn marked(&mut self, id: Id, result: Result<(), String>) {
        let Mark::Sent { was_left } = self.nodes[id].mark else { return };
        let is_draining = matches!(self.nodes[id].stage, Stage::Draining(_));
        let mark = match result {
            Ok(()) => Mark::On { seen: false },
            Err(_) if was_left => Mark::Left,
            Err(_) => Mark::None,
        };
        self.nodes.update(id, |node| node.mark = mark);
        match result {
            _ if !is_draining => {}
            Ok(()) => self.commands.push(Command::WatchPods(self.nodes[id].intent.name().clone())),
            Err(error) => self.drain_failed(id, DrainFailure::Request { error }),
        }
    }

    /// Handles a request for a mark whose outcome is unknown. The drain fails, and the mark that the node may have is
    /// released.
    pub(crate) fn perhaps_marked(&mut self, id: Id, error: String) {
        let Mark::Sent { .. } = self.nodes[id].mark else { return };
        self.drain_failed(id, DrainFailure::Request { error });
        self.nodes.update(id, |node| node.mark = Mark::On { seen: false });
        self.release(id);
    }

    /// Leaves a node to another program, by which it could not be marked. Its Node does not show that program, so that the
    /// node is not asked for again in this run.
    pub(crate) fn claimed(&mut self, id: Id, by: Maintainer) {
        let Mark::Sent { was_left } = self.nodes[id].mark else { return };
        self.nodes.update(id, |node| node.mark = if was_left { Mark::Left } else { Mark::None });
        if !matches!(self.nodes[id].stage, Stage::Draining(_)) {
            return;
        }
        if self.nodes[id].goes_back() {
            return self.drain_failed(id, DrainFailure::Claimed);
        }
        self.end_drain(id);
        let why = Why::Maintained { by };
        let end = End::LeftAlone { why: why.clone() };
        self.nodes.update(id, |node| node.stage = Stage::Ended { end, seconds: None });
        self.report_node(id, Progress::Held { why });
    }

    /// Handles a change of the pods of a node.
    pub(crate) fn pods_changed(&mut self, id: Id, change: PodChange) {
        let policy = &self.policy.rules.drain;
        if self.nodes.evicting(id, |draining| draining.evictions.observe(change, policy)).is_some() {
            self.advance_drain(id);
        }
    }

    /// Handles the answer to the eviction of a pod.
    pub(crate) fn evicted(&mut self, id: Id, uid: &str, answer: Result<EvictionAnswer, String>) {
        // The pod may be gone, and the drain ended, before the answer arrives.
        if answer == Ok(EvictionAnswer::Evicted) {
            self.nodes.update(id, |node| node.drain.as_mut().map(|record| record.evicted += 1));
        }
        let now = self.now.instant;
        // An answer to an eviction of an earlier drain says nothing about this one.
        let answered = self.nodes.evicting(id, |draining| {
            let is_awaited = draining.evictions.is_unanswered(uid);
            is_awaited.then(|| answer.map(|answer| draining.evictions.answered(uid, answer, now)))
        });
        match answered.flatten() {
            None => {}
            Some(Err(error)) => self.drain_failed(id, DrainFailure::Request { error }),
            Some(Ok(block)) => {
                if let Some((pod, reason)) = block {
                    self.report_node(id, Progress::DrainBlocked { pod, reason });
                }
                self.advance_drain(id);
            }
        }
    }

    /// Handles the number of volumes that are attached to a node.
    pub(crate) fn volumes_counted(&mut self, id: Id, result: Result<usize, String>) {
        let again = self.now.instant.after(VOLUME_RETRY);
        // A count of an earlier drain is outdated.
        let counted = self.nodes.evicting(id, |draining| {
            let is_awaited = matches!(draining.volumes, VolumeCount::Sent);
            is_awaited.then(|| result.map(|volumes| draining.volumes = VolumeCount::Known { volumes, again }))
        });
        match counted.flatten() {
            None => {}
            Some(Ok(())) => self.advance_drain(id),
            Some(Err(error)) => self.drain_failed(id, DrainFailure::Request { error }),
        }
    }

    /// Sends the evictions that are due, or ends the drain.
    fn advance_drain(&mut self, id: Id) {
        let now = self.now.instant;
        let Some(progress) = self.nodes.evicting(id, |draining| draining.evictions.progress()) else { return };
        match progress {
            Evicting::Unknown => {}
            Evicting::Refused(failure) => self.drain_failed(id, failure),
            Evicting::Evicting { left, blocked } => {
                let due = self.nodes.evicting(id, |draining| draining.evictions.next(now)).unwrap_or_default();
                let name = self.nodes[id].intent.name();
                self.commands.extend(due.into_iter().map(|pod| Command::Evict(name.clone(), Box::new(pod))));
                if matches!(self.nodes[id].waiting, Waiting::Draining { pods: None, .. }) {
                    self.report_node(id, Progress::DrainStarted { pods: left });
                }
                let blocked = blocked.map(|(pod, reason)| format!("pod {pod}: {reason}"));
                if blocked.is_some() {
                    self.nodes.update(id, |node| node.drain.as_mut().map(|record| record.blocked.clone_from(&blocked)));
                }
                self.set_waiting(id, Waiting::Draining { pods: Some(left), blocked });
            }
            Evicting::Drained { claims } => self.await_volumes(id, claims),
        }
    }

    /// Ends a drain once only the volumes of the pods that stay are attached.
    fn await_volumes(&mut self, id: Id, claims: usize) {
        let now = self.now.instant;
        match self.nodes.evicting(id, |draining| draining.volumes) {
            Some(VolumeCount::Known { volumes, .. }) if volumes <= claims => self.drained(id),
            Some(VolumeCount::Known { volumes, again }) if again > now => {
                self.set_waiting(id, Waiting::Detaching { volumes: volumes - claims });
            }
            Some(VolumeCount::Unknown | VolumeCount::Known { .. }) => {
                self.commands.push(Command::CountVolumes(self.nodes[id].intent.name().clone()));
                self.nodes.evicting(id, |draining| draining.volumes = VolumeCount::Sent);
            }
            Some(VolumeCount::Sent) | None => {}
        }
    }

    /// Continues a drained node on the way to its goal.
    fn drained(&mut self, id: Id) {
        let Some(draining) = self.end_drain(id) else { return };
        let staying = || draining.evictions.staying();
        let owners = |(pod, why): (&Pod, Stay)| (why == Stay::DaemonSet && pod.exclusive_cpus).then(|| pod.clone());
        let checks_pods = self.policy.checks_pods;
        self.nodes.update(id, |node| {
            node.stage = Stage::Assigning;
            node.proof.cpu_owners = staying().filter_map(owners).collect();
            if checks_pods && !node.goes_back() {
                node.proof.pods = PodCheck::after(PodsBefore::of(staying().map(|(pod, _)| pod)));
            }
        });
        let node = &self.nodes[id];
        let Some(assignment) = node.intent.assignment().cloned() else { return };
        let (name, uid) = (node.intent.name().clone(), node.intent.uid().to_owned());
        self.commands.push(Command::Show(name.clone(), uid, Shown::Drained));
        self.commands.push(match node.goal {
            Goal::Target => Command::Assign(name, assignment),
            Goal::Previous(_) => {
                let max_disruption = self.policy.drained_disruption;
                Command::RollBack(name, Assignment { max_disruption, ..assignment.reversed() })
            }
        });
        let seconds = self.now.instant.since(draining.since).as_secs_f64();
        self.report_node(id, Progress::Drained { seconds });
    }

    /// Ends a drain without a change of the node.
    pub(crate) fn drain_failed(&mut self, id: Id, failure: DrainFailure) {
        let Some(draining) = self.end_drain(id) else { return };
        let timed_out = matches!(failure, DrainFailure::Blocked { .. } | DrainFailure::TimedOut { .. });
        if timed_out && self.policy.rules.drain.on_timeout == OnTimeout::Hold {
            self.nodes.update(id, |node| node.mark = Mark::Left);
        }
        self.not_drained(id, failure, draining.since);
    }

    /// Ends the part of a node that was not drained since this time. A node that was to be rolled back stays on its
    /// target: its rollback failed, and not the node.
    fn not_drained(&mut self, id: Id, failure: DrainFailure, since: Instant) {
        match self.take_before(id) {
            None => self.fail(id, ConvergenceFailure::Drain { failure }, self.now.instant.since(since)),
            Some(before) => {
                // The drain may have evicted the pods that were to be proven.
                self.nodes.update(id, |node| (node.waiting, node.proof.pods) = (before.waiting, PodCheck::default()));
                match before.stage {
                    Stage::Settling(settling) if settling.is_well => {
                        self.converged(id, settling.converged.since(settling.since));
                    }
                    // The time limit may have passed during the drain.
                    Stage::Settling(_) | Stage::Converging { .. } => self.watch(id),
                    stage => self.nodes.update(id, |node| node.stage = stage),
                }
                self.stays_on_target(id, failure);
            }
        }
    }

    /// Ends the evictions of a node. Its next stage follows.
    pub(super) fn end_drain(&mut self, id: Id) -> Option<Box<Draining>> {
        let now = self.now.instant;
        let is_marked = self.nodes[id].is_marked();
        let draining = self.nodes.update(id, |node| {
            let Stage::Draining(draining) = &mut node.stage else { return None };
            let draining = std::mem::replace(draining, Box::new(Draining::new(now)));
            if let Some(record) = node.drain.as_mut().filter(|_| is_marked) {
                record.end(now.since(draining.since));
            }
            Some(draining)
        })?;
        if is_marked {
            self.commands.push(Command::UnwatchPods(self.nodes[id].intent.name().clone()));
        }
        Some(draining)
    }

    /// Handles the time limit of a drain, and evictions and volumes that are due.
    pub(super) fn drain_due(&mut self, id: Id, since: Instant) {
        if self.now.instant.since(since) < self.policy.limits.drain {
            return self.advance_drain(id);
        }
        let Stage::Draining(draining) = &self.nodes[id].stage else { return };
        let volumes = match draining.volumes {
            VolumeCount::Known { volumes, .. } => volumes,
            VolumeCount::Unknown | VolumeCount::Sent => 0,
        };
        self.drain_failed(id, draining.evictions.overdue(volumes));
    }

    /// Handles the mark that the latest event of a node shows.
    pub(super) fn observe_mark(&mut self, id: Id) {
        let is_marked = self.nodes[id].facts.shows_mark;
        // The watch event may arrive before the response. It must not be lost.
        if is_marked {
            self.marked(id, Ok(()));
        }
        match self.nodes[id].mark {
            Mark::On { seen: false } if is_marked => self.nodes.update(id, |node| node.mark = Mark::On { seen: true }),
            Mark::On { seen: true } if !is_marked => self.mark_lost(id),
            _ => {}
        }
    }

    /// Ends the part of a node whose mark another client removed. An assignment that is unanswered may be applied, so that
    /// the answer comes first.
    pub(super) fn mark_lost(&mut self, id: Id) {
        let draining = self.end_drain(id);
        self.nodes.update(id, |node| node.mark = Mark::None);
        let node = &self.nodes[id];
        let (name, uid) = (node.intent.name().clone(), node.intent.uid().to_owned());
        self.commands.push(Command::Show(name, uid, Shown::Unmarked));
        let since = match &node.stage {
            _ if let Some(draining) = &draining => draining.since,
            // A rollback that was given up has given up its drain, too.
            _ if node.goes_back() || node.way_back == WayBack::GivenUp => return,
            Stage::Converging { since } => *since,
            Stage::Settling(settling) => settling.since,
            _ => return,
        };
        self.not_drained(id, DrainFailure::MarkLost, since);
    }

    pub(super) fn release(&mut self, id: Id) {
        let intent = &self.nodes[id].intent;
        self.commands.push(Command::Release(intent.name().clone(), intent.uid().to_owned()));
        self.nodes.update(id, |node| node.mark = Mark::Releasing);
    }

    /// Releases the marked nodes whose part in the rollout has ended.
    pub(super) fn release_ended(&mut self) {
        for id in self.nodes.marked() {
            if self.nodes[id].needs_no_mark(self.is_closed()) {
                self.release(id);
            }
        }
    }

    /// Handles the answer to the release of a node.
    pub(crate) fn released(&mut self, id: Id, result: Result<(), String>) {
        if self.nodes[id].mark != Mark::Releasing {
            return;
        }
        let mark = if result.is_ok() { Mark::None } else { Mark::Left };
        self.nodes.update(id, |node| node.mark = mark);
        if let Err(error) = result {
            self.report_node(id, Progress::NotReleased { error });
        }
        if let Stage::Settling(settling) = self.nodes[id].stage {
            self.converged(id, settling.converged.since(settling.since));
        }
    }
}
