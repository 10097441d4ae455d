//! Stages of a pool: the domains of an order by a label, and steps, which are shares of the pool. A stage ends when every node
//! that started has ended, and has been well for the soak time.

use super::MayStart;
use crate::instant::Instant;
use crate::pool::Pool;
use crate::pool::node::{Node, Wave};
use crate::pool::table::{Count, Id};
use crate::progress::{Progress, StartGate};
use nodecfg_plan::convergence::Waiting;
use nodecfg_plan::{Domain, PoolPlan, WaveKind};

/// Stages of a pool in one rollout.
#[derive(Debug)]
pub(in crate::pool) struct Stages {
    /// All domains of the pool, in order. Empty without an order.
    domains: Vec<Domain>,
    /// Number of domains that have begun in this run, or were skipped.
    begun: usize,
    /// Whether the next domain follows another one, of this run, of an earlier run or of canaries.
    follows: bool,
    /// The largest number of begun nodes of the present step and of each later one. Empty after the last step.
    steps: Vec<usize>,
    /// Time since which all nodes that started have ended.
    ended: Option<Instant>,
}

/// A stage that ends now, or has ended and soaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The domains before this one, which begins next.
    Domain(usize),
    Step,
}

impl Stages {
    pub(super) fn new(plan: &PoolPlan) -> Self {
        let first = plan.waves.iter().find(|wave| wave.kind == WaveKind::Rest);
        let first = first.and_then(|wave| wave.domain.as_ref());
        Self {
            domains: plan.domains.clone(),
            begun: 0,
            follows: first.is_some_and(|domain| domain.soak_seconds.is_some()),
            steps: plan.step_limits(),
            ended: None,
        }
    }
}

pub(super) fn may_start(pool: &Pool, node: &Node) -> MayStart {
    let stages = &pool.starts.stages;
    if node.wave != Wave::Rest {
        return MayStart::Yes;
    }
    let is_later = !stages.domains.is_empty() && node.intent.domain() >= stages.begun;
    match (is_later, pool.is_step_full()) {
        (false, false) => MayStart::Yes,
        // The present domain does not end.
        (true, _) if pool.number(Count::Aside) > 0 => pool.held_with_others(),
        _ if pool.gates_permit() => MayStart::AfterNodes,
        // The next stage waits for a gate, whose patience has a timer of its own.
        _ => MayStart::AfterOthers,
    }
}

impl Pool {
    /// Ends the steps that earlier runs have passed. A step that its nodes fill exactly may not have soaked.
    pub(in crate::pool) fn resume_steps(&mut self) {
        let begun = self.number(Count::Begun);
        self.starts.stages.steps.retain(|limit| *limit >= begun);
    }

    /// Begins the next stage once every node that started has ended, and has been well for the soak time.
    pub(super) fn advance_stages(&mut self) {
        let is_open = self.gate == StartGate::Open;
        if let Some((next, _)) = self.later_domains().filter(|_| !self.starts.stages.follows) {
            if is_open {
                self.begin_domain(next);
            }
            return;
        }
        if is_open && self.ending().is_some() {
            self.watch_lost();
        }
        let Some(ending) = self.ending().filter(|_| self.closed.stopped.is_none()) else {
            return self.interrupt_soak();
        };
        let ended = *self.starts.stages.ended.get_or_insert(self.now.instant);
        if !is_open {
            return;
        }
        let limits = self.policy.limits;
        let until = ended.after(if ending == Ending::Step { limits.step_soak } else { limits.domain_soak });
        if until <= self.now.instant {
            return match ending {
                Ending::Domain(next) => self.begin_domain(next),
                Ending::Step => self.begin_step(),
            };
        }
        self.gate = StartGate::SoakingStage { until };
        self.wake(until);
        let until = self.now.time_at(until);
        match ending {
            Ending::Step => self.report(Progress::StepSoaking { until, begun: self.number(Count::Begun) }),
            Ending::Domain(next) => {
                let next = self.starts.stages.domains.get(next).cloned();
                next.into_iter().for_each(|next| self.report(Progress::DomainSoaking { until, next }));
            }
        }
    }

    /// The next domain with a pending node, and the number of pending nodes in it and in later ones.
    fn later_domains(&self) -> Option<(usize, usize)> {
        let stages = &self.starts.stages;
        self.nodes.domains_from(stages.begun).filter(|_| !stages.domains.is_empty())
    }

    /// The stage whose nodes have all started and ended, while others wait for its end.
    fn ending(&self) -> Option<Ending> {
        if self.number(Count::InFlight) > 0 || self.rollbacks.are_queued() {
            return None;
        }
        let pending = self.number(Count::Pending);
        if let Some((next, _)) = self.later_domains().filter(|(_, later)| *later == pending) {
            return Some(Ending::Domain(next));
        }
        (self.is_step_full() && pending > 0).then_some(Ending::Step)
    }

    /// Reports whether as many nodes have or get the target as the present step allows.
    fn is_step_full(&self) -> bool {
        self.starts.stages.steps.first().is_some_and(|limit| self.number(Count::Begun) >= *limit)
    }

    /// Watches nodes again that converged in this run and are not Ready any more. They end their stage once they are
    /// Ready, or have failed.
    fn watch_lost(&mut self) {
        if self.number(Count::Lost) == 0 {
            return;
        }
        let lost: Vec<Id> = self.nodes.all().filter(|id| self.nodes[*id].is_lost()).collect();
        lost.into_iter().for_each(|id| self.regressed(id, Waiting::NotReady));
    }

    /// Ends the soak of a stage, if there is one. It restarts later.
    pub(in crate::pool) fn interrupt_soak(&mut self) {
        self.starts.stages.ended = None;
        if matches!(self.gate, StartGate::SoakingStage { .. }) {
            self.gate = StartGate::Open;
        }
    }

    /// Lets the nodes of a domain start, if the gates permit a start.
    fn begin_domain(&mut self, position: usize) {
        if !self.gates_permit() {
            return;
        }
        let Some(domain) = self.starts.stages.domains.get(position).cloned() else { return };
        (self.starts.stages.begun, self.starts.stages.follows) = (position + 1, true);
        let nodes = self.nodes.pending_in(position);
        self.report(Progress::DomainStarted { domain, nodes });
    }

    /// Lets nodes start up to the next step, if the gates permit a start.
    fn begin_step(&mut self) {
        if !self.gates_permit() {
            return;
        }
        let begun = self.number(Count::Begun);
        self.starts.stages.steps.retain(|limit| *limit > begun);
        let limit = self.starts.stages.steps.first().copied();
        self.report(Progress::StepStarted { limit });
    }

    /// Records that a node left its domain for the canaries. A domain without further nodes counts as begun.
    pub(super) fn left_domain(&mut self, position: usize) {
        let stages = &self.starts.stages;
        let is_later = position >= stages.begun && !stages.domains.is_empty();
        self.starts.stages.follows |= is_later && self.nodes.pending_in(position) == 0;
    }
}
