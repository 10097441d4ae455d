//! Steps of a pool. The oracle knows the commands and the outcome of the machine after each step, and nothing of the machine's
//! own state.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Step;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::convergence::ConvergenceFailure;
use nodecfg_plan::{Action, PoolPlan};
use nodecfg_rollout::instant::{Instant, Now};
use nodecfg_rollout::machine::Command;
use nodecfg_rollout::{End, NodeOutcome};

pub(super) struct StepOracle {
    pool: PoolName,
    /// Limits of the steps that have not been passed.
    limits: Vec<usize>,
    soak: Duration,
    interval: Duration,
    canaries: usize,
    /// Available nodes that started, and so prove something as canaries unless they fail or leave.
    proving: BTreeSet<NodeName>,
    /// Nodes that pointed at their target when the plan was made.
    awaited: BTreeSet<NodeName>,
    /// Nodes that had or got the target after the latest step, and those of them in transition.
    begun: BTreeSet<NodeName>,
    in_flight: BTreeSet<NodeName>,
    /// When the last node ended, or the rollout began.
    last_end: Instant,
    last_start: Option<Instant>,
}

impl StepOracle {
    pub(super) fn new(pool: &PoolPlan) -> Self {
        let awaited = pool.steps().filter(|step| step.action != Action::Assign).map(|step| step.node.clone());
        let awaited: BTreeSet<NodeName> = awaited.collect();
        let settled = pool.left_alone.iter().filter(|left| left.why.runs_target()).map(|left| left.node.clone());
        let begun: BTreeSet<NodeName> = awaited.iter().cloned().chain(settled).collect();
        Self {
            pool: pool.name.clone(),
            limits: pool.step_limits().into_iter().filter(|limit| *limit >= begun.len()).collect(),
            soak: pool.policy.steps.soak,
            interval: pool.policy.interval,
            canaries: pool.policy.canary.as_ref().map_or(0, |canary| canary.nodes as usize),
            proving: BTreeSet::new(),
            awaited,
            begun,
            in_flight: BTreeSet::new(),
            last_end: Now::START.instant,
            last_start: None,
        }
    }

    fn has_begun(&self, node: &NodeOutcome) -> bool {
        match &node.end {
            End::InFlight | End::Converged => true,
            End::Failed { failure, .. } => !matches!(failure, ConvergenceFailure::Drain { .. }),
            End::LeftAlone { why } => why.runs_target(),
            End::NotStarted => self.awaited.contains(&node.node),
            _ => false,
        }
    }

    /// Checks a step. A node that was unavailable right before the step starts without waiting for one, and so does a
    /// node while there are fewer canaries than wanted.
    pub(super) fn check(&mut self, commands: &[Command], step: &Step) {
        let now = step.machine.now.instant;
        let outcome = step.machine.outcome();
        let nodes = &outcome.pools[&self.pool].nodes;
        let of = |is: &dyn Fn(&NodeOutcome) -> bool| -> BTreeSet<NodeName> {
            nodes.iter().filter(|node| is(node)).map(|node| node.node.clone()).collect()
        };
        let in_flight = of(&|node| node.end == End::InFlight);
        if self.in_flight.difference(&in_flight).next().is_some() {
            self.last_end = now;
        }
        let started: BTreeSet<NodeName> =
            commands.iter().filter_map(|command| step.started(command)).cloned().collect();
        let begun = of(&|node| self.has_begun(node));
        let (mut number, moving) = (begun.difference(&started).count(), in_flight.difference(&started).count());
        let waited = now.since(self.last_end);
        if moving == 0 && waited >= self.soak {
            self.limits.retain(|limit| *limit > number);
        }
        for name in commands.iter().filter_map(|command| step.started(command)) {
            if *step.cluster.pool(name) != self.pool {
                continue;
            }
            let is_again = self.begun.contains(name);
            let is_canary = self.proving.intersection(&begun).count() < self.canaries;
            if !is_again && !is_canary && step.cluster.is_available(name) {
                let is_within = self.limits.first().is_none_or(|limit| number < *limit);
                assert!(is_within, "{name} starts beyond {:?}, {moving} move, {waited:?} soaked\n{step}", self.limits);
            }
            if step.cluster.is_available(name) {
                self.proving.insert(name.clone());
            }
            number += 1;
            // A list of pods or a drain may lie between the start and this command.
            if !is_again && step.plan.pools.len() == 1 && !step.mode.list_pods && !step.cluster.drains(name) {
                let waited = self.last_start.map(|last| now.since(last));
                let enough = waited.is_none_or(|waited| waited >= self.interval);
                assert!(enough, "{name} starts {waited:?} after another one\n{step}");
                self.last_start = Some(now);
            }
        }
        (self.begun, self.in_flight) = (begun, in_flight);
    }
}
