//! Trials of converged nodes: their expected ends, and the wait for them at the end of a run.
//!
//! A node on trial is Ready and takes no budget. If its trial fails, it rolls back by itself and reports the error.

use std::time::Duration;

use jiff::Timestamp;

use crate::instant::{Instant, Now};
use crate::outcome::StopReason;
use crate::progress::Progress;
use crate::signals::Mode;
use nodecfg_fleet::schedule::{elapsed, later};
use nodecfg_observed::Node;
use nodecfg_plan::convergence::{KUBELET_TRIAL, Target, Trial, trial};

/// Trial of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialRun {
    pub(crate) trial: Trial,
    /// Time at which a trial that has not ended counts as failed. The first limit stays: a node may report a later end again
    /// and again.
    pub(crate) limit: Instant,
}

/// Trials of a pool.
#[derive(Debug)]
pub(crate) struct Trials {
    /// Whether the run waits for their ends.
    waits: bool,
    /// Time limit after the expected end of a trial.
    limit: Duration,
    /// [`KUBELET_TRIAL`] in real time.
    kubelet_trial: Duration,
    /// Latest known end of a trial.
    end: Option<Timestamp>,
    /// Whether the wait was reported.
    announced: bool,
    /// Stop of the run that ended the wait.
    abandoned: Option<StopReason>,
}

impl Trials {
    pub(crate) fn new(mode: &Mode, limit: Duration) -> Self {
        let kubelet_trial = mode.real_duration(KUBELET_TRIAL);
        Self { waits: mode.wait_trial, limit, kubelet_trial, end: None, announced: false, abandoned: None }
    }

    /// The trial that a node reports which runs its target. `before` is the trial that is known of it; `begins` tells that
    /// it has reached the target just now.
    pub(crate) fn observe(
        &mut self,
        before: Option<TrialRun>,
        begins: bool,
        target: &Target,
        seen: &Node,
        now: Now,
    ) -> Option<TrialRun> {
        // A kubelet reports no end. It cannot start a trial later than now.
        let latest = later(now.time, self.kubelet_trial);
        let first = Trial { ends_at: seen.content.is_none().then_some(latest) };
        let known = if begins { Some(first) } else { before.map(|run| run.trial) };
        let trial = trial(target, seen)?.or_known(known);
        self.end = self.end.max(trial.ends_at);
        let limit = || now.instant.after(elapsed(now.time, trial.ends_at.unwrap_or(latest))).after(self.limit);
        Some(TrialRun { trial, limit: before.map_or_else(limit, |run| run.limit) })
    }

    /// Reports whether the run waits for this number of trials, now or after everything else.
    pub(crate) fn are_awaited(&self, on_trial: usize) -> bool {
        self.waits && self.abandoned.is_none() && on_trial > 0
    }

    /// Ends the wait for trials, unless `reason` only stops a pool from starting nodes. Returns whether it does.
    pub(crate) fn abandon(&mut self, reason: &StopReason) -> bool {
        let ends_run = matches!(
            reason,
            StopReason::Interrupted
                | StopReason::Aborted { .. }
                | StopReason::LockLost
                | StopReason::ClusterFailed { .. }
        );
        if ends_run {
            self.abandoned.get_or_insert_with(|| reason.clone());
        }
        ends_run
    }

    /// Stop that ended the wait for trials, if some have not ended.
    pub(crate) fn stopped(&self, on_trial: usize) -> Option<&StopReason> {
        self.abandoned.as_ref().filter(|_| self.waits && on_trial > 0)
    }

    /// The event of a pool that waits for nothing else, once.
    pub(crate) fn announce(&mut self, nodes: usize) -> Option<Progress> {
        if !self.are_awaited(nodes) || std::mem::replace(&mut self.announced, true) {
            return None;
        }
        Some(Progress::AwaitingTrials { nodes, until: self.end })
    }

    /// Latest known end of a trial, once the wait was reported.
    pub(crate) fn announced_end(&self) -> Option<Timestamp> {
        self.end.filter(|_| self.announced)
    }
}
