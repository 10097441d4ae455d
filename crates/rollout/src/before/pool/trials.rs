//! Trials of converged nodes: their expected ends, and the wait for them at the end of a rollout.
//!
//! A node on trial is Ready and takes no budget. If its trial fails, it rolls back by itself and reports the error.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;

use super::PoolRun;
use crate::StopReason;
use crate::before::pool::node_state::Phase;
use crate::before::signals::Context;
use crate::progress::Progress;
use nodecfg_contract::observed::Node;
use nodecfg_planning::convergence::{self, ConvergenceFailure, KUBELET_TRIAL, Target, Trial, Waiting};
use nodecfg_planning::instant::{elapsed, later};
use nodecfg_planning::plan::Why;

/// Wait of a pool for trials.
#[derive(Debug, Default)]
pub(super) struct TrialWait {
    /// Latest known end of a trial.
    pub(super) end: Option<Timestamp>,
    /// Whether the wait was reported.
    pub(super) announced: bool,
    /// Stop of the rollout that ended the wait.
    abandoned: Option<StopReason>,
}

impl PoolRun {
    /// Reports whether the pool waits for trials, now or after its rollout.
    pub(super) fn awaits_trials(&self) -> bool {
        self.mode.wait_trial && self.trials.abandoned.is_none() && self.nodes.on_trial() > 0
    }

    /// Ends the wait for trials, unless `reason` stops this pool only from starting nodes. Returns whether the pool
    /// waited for nothing else.
    pub(super) fn abandon_trials(&mut self, reason: &StopReason) -> bool {
        let ends_run = matches!(
            reason,
            StopReason::Interrupted
                | StopReason::Aborted { .. }
                | StopReason::LockLost
                | StopReason::ClusterFailed { .. }
        );
        let waited = ends_run && self.awaits_trials() && self.is_finished_but_for_trials();
        if ends_run {
            self.trials.abandoned.get_or_insert_with(|| reason.clone());
        }
        waited
    }

    /// Stop of the rollout that ended the wait for trials, if some have not ended.
    pub(super) fn stop_before_trials_ended(&self) -> Option<&StopReason> {
        self.trials.abandoned.as_ref().filter(|_| self.mode.wait_trial && self.nodes.on_trial() > 0)
    }

    /// Target that a converged node runs: that of the pool, or the same content under another name.
    pub(super) fn target_of(&self, number: usize) -> Cow<'_, Target> {
        match self.nodes.get(number).map(|node| &node.phase) {
            Some(Phase::LeftAlone(Why::Adopted { source })) => Cow::Owned(Target::named(Some(source))),
            _ => Cow::Borrowed(&self.target),
        }
    }

    /// Records the trial of a node that converged just now, and returns it.
    pub(super) fn begin_trial(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) -> Option<Trial> {
        // A kubelet reports no end. It cannot have started the trial later than now.
        let latest = seen.content.is_none().then(|| self.latest_end(context.time));
        let trial = convergence::trial(&self.target, seen).map(|trial| trial.or_known(Some(Trial { ends_at: latest })));
        self.set_trial(number, trial, context);
        trial
    }

    /// Records the trial that a converged node reports, and its end.
    pub(super) fn update_trial(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        let before = self.nodes.get(number).and_then(|node| node.trial);
        let trial = convergence::trial(&self.target_of(number), seen).map(|trial| trial.or_known(before));
        self.set_trial(number, trial, context);
        if before.is_some() && trial.is_none() {
            self.report_node(number, context, |pool, node| Progress::TrialPassed { pool, node });
        }
    }

    /// Records the trial of a node that converged and settles.
    pub(super) fn refresh_trial(&mut self, number: usize, seen: &Node, context: &mut Context<'_>) {
        let before = self.nodes.get(number).and_then(|node| node.trial);
        let trial = convergence::trial(&self.target, seen).map(|trial| trial.or_known(before));
        let Some(waiting) = self.nodes.get(number).map(|node| node.waiting.clone()) else { return };
        self.set_trial(number, trial, context);
        self.nodes.update(number, |node| node.waiting = waiting);
    }

    /// Latest end of a trial that a kubelet started before `now`.
    fn latest_end(&self, now: Timestamp) -> Timestamp {
        later(now, self.mode.real_duration(KUBELET_TRIAL))
    }

    fn set_trial(&mut self, number: usize, trial: Option<Trial>, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number) else { return };
        let mut limit = node.trial_limit;
        if let Some(trial) = trial.filter(|_| self.mode.wait_trial && limit.is_none()) {
            let end = trial.ends_at.unwrap_or_else(|| self.latest_end(context.time));
            // The first limit stays: a node may report a later end again and again.
            let first = context.now.after(elapsed(context.time, end)).after(self.timeout);
            limit = Some(first);
            context.timers.wake(first, &self.name, Some(number));
        }
        self.trials.end = self.trials.end.max(trial.and_then(|trial| trial.ends_at));
        self.nodes.update(number, |node| {
            (node.trial, node.trial_limit) = (trial, limit.filter(|_| trial.is_some()));
            if trial.is_some() {
                node.waiting = Waiting::OnTrial;
            }
        });
    }

    /// Fails a node whose trial has not ended in time.
    pub(super) fn end_overdue_trial(&mut self, number: usize, context: &mut Context<'_>) {
        let Some(node) = self.nodes.get(number).filter(|node| node.current_trial().is_some()) else { return };
        if self.awaits_trials() && node.trial_limit.is_some_and(|limit| limit <= context.now) {
            let failure = ConvergenceFailure::TimedOut { waiting: node.waiting.clone() };
            self.fail(number, failure, Duration::ZERO, context);
        }
    }

    /// Reports once that the pool waits for trials only.
    pub(crate) fn announce_trials(&mut self, context: &mut Context<'_>) {
        // Before the start, not all trials are known.
        if !self.started || self.trials.announced || !self.awaits_trials() || !self.is_finished_but_for_trials() {
            return;
        }
        self.trials.announced = true;
        let (nodes, until) = (self.nodes.on_trial(), self.trials.end);
        self.report(Progress::AwaitingTrials { pool: self.name.clone(), nodes, until }, context);
    }
}
