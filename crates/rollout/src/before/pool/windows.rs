//! Windows of a pool: nodes that may not start now, and the hold of the pool once no node may.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::PoolRun;
use super::node_state::{Group, Phase};
use crate::before::signals::{Context, Mode};
use crate::progress::StartGate;
use kubelet_config::risk::Class;
use nodecfg_planning::hold::Hold;
use nodecfg_planning::plan::PoolPlan;
use nodecfg_planning::schedule::Schedule;

/// Schedule of a pool in one rollout.
#[derive(Debug)]
pub(super) struct Windows {
    schedule: Schedule,
    /// Highest class of the pool's changes.
    class: Class,
    /// Longest time of a node without a drain, and of a drained one, in real time.
    node_time: [Duration; 2],
    /// Pending nodes that were due when the schedule was closed for them. They do not start in this run.
    late: BTreeSet<usize>,
    /// Why a node without a drain may not start, valid until the next opening.
    closed: Option<Hold>,
    /// Why a drained node may not start, valid until the next opening. A drain takes longer, so this comes first.
    closed_for_drains: Option<Hold>,
}

impl Windows {
    pub(super) fn new(plan: &PoolPlan, mode: &Mode, checks_pods: bool) -> Self {
        let around = |is_drained: bool| mode.real_duration(plan.policy.time_around(is_drained, checks_pods));
        let disruption = &plan.disruption;
        // The class of a change from an unknown configuration is unknown, so nothing may permit it.
        let class = if disruption.unknown > 0 { Class::Never } else { disruption.worst.unwrap_or(Class::None) };
        Self {
            schedule: plan.policy.schedule.clone(),
            class,
            node_time: [false, true].map(|drained| mode.time_limit(&plan.policy).saturating_add(around(drained))),
            late: BTreeSet::new(),
            closed: None,
            closed_for_drains: None,
        }
    }

    /// Checks whether a node may start now.
    fn check(&mut self, is_drained: bool, now: Timestamp) -> bool {
        let [undrained, drained] = self.node_time;
        let (closed, need) =
            if is_drained { (&mut self.closed_for_drains, drained) } else { (&mut self.closed, undrained) };
        // The search for the next opening is expensive, and a pool may have thousands of nodes.
        if closed.as_ref().is_none_or(|closed| closed.next.is_some_and(|next| next <= now)) {
            *closed = self.schedule.check(now, self.class, need).err();
        }
        closed.is_none()
    }
}

impl PoolRun {
    /// Reports whether the schedule permits a pending node to start now. Sets a node aside otherwise. A node that
    /// already points at its target is in transition.
    pub(super) fn is_open_for(&mut self, number: usize, now: Timestamp) -> bool {
        let Some(node) = self.nodes.get(number) else { return false };
        let (is_awaited, needs_drain) = (node.assignment.is_none(), node.needs_drain);
        let is_open = is_awaited || self.windows.check(needs_drain, now);
        if !is_open {
            self.windows.late.insert(number);
        }
        is_open
    }

    /// Holds the pool if nodes were due while the schedule was closed for them, and no other node can start.
    pub(super) fn hold_late_nodes(&mut self, context: &mut Context<'_>) {
        // A late node may have left the cluster, or another program may maintain it by now.
        let is_pending = |number: &usize| self.nodes.in_phase(*number, &Phase::Pending).is_some();
        let late: Vec<usize> = self.windows.late.iter().copied().filter(is_pending).collect();
        let is_canary = |number: &usize| self.nodes.get(*number).is_some_and(|node| node.group == Group::Canary);
        let goes_on = match self.gate {
            // The gate never opens without a late or held canary.
            StartGate::Canaries => {
                let opens = !late.iter().any(is_canary) && self.held_canaries().next().is_none();
                !self.canaries.is_empty() || opens
            }
            StartGate::Soaking { .. } | StartGate::SoakingDomain { .. } => true,
            StartGate::Open => !self.rest.is_empty(),
        };
        if late.is_empty() || goes_on || !self.unavailable_first.is_empty() || !self.unavailable_drains.is_empty() {
            return;
        }
        let hold = self.windows.closed.clone().or_else(|| self.windows.closed_for_drains.clone());
        if let Some(hold) = hold {
            self.hold_pool(hold, context);
        }
    }
}
