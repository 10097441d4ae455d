//! Domains of a pool whose nodes are ordered by a label: which one is on, and the soak between two.

use super::MayStart;
use crate::instant::Instant;
use crate::pool::Pool;
use crate::pool::node::{Node, Wave};
use crate::pool::table::{Count, Id};
use crate::progress::{Progress, StartGate};
use nodecfg_plan::convergence::Waiting;
use nodecfg_plan::{Domain, PoolPlan, WaveKind};

/// Domains of a pool in one rollout.
#[derive(Debug)]
pub(in crate::pool) struct Domains {
    /// All domains of the pool, in order. Empty without an order.
    names: Vec<Domain>,
    /// Number of domains that have begun in this run, or were skipped.
    begun: usize,
    /// Whether the next domain follows another one, of this run, of an earlier run or of canaries.
    follows: bool,
    /// Time since which all nodes that started have ended.
    ended: Option<Instant>,
}

impl Domains {
    pub(super) fn new(plan: &PoolPlan) -> Self {
        let first = plan.waves.iter().find(|wave| wave.kind == WaveKind::Rest);
        let first = first.and_then(|wave| wave.domain.as_ref());
        Self {
            names: plan.domains.clone(),
            begun: 0,
            follows: first.is_some_and(|domain| domain.soak_seconds.is_some()),
            ended: None,
        }
    }
}

pub(super) fn may_start(pool: &Pool, node: &Node) -> MayStart {
    let domains = &pool.starts.domains;
    let is_later = node.wave == Wave::Rest && !domains.names.is_empty() && node.intent.domain() >= domains.begun;
    match is_later {
        false => MayStart::Yes,
        // The present domain does not end.
        true if pool.number(Count::Aside) > 0 => pool.held_with_others(),
        true => MayStart::AfterNodes,
    }
}

impl Pool {
    /// Begins the next domain once every node that started has ended, and has been well for the soak time.
    pub(super) fn advance_domains(&mut self) {
        let Some((next, pending)) = self.later_domains() else { return };
        let is_open = self.gate == StartGate::Open;
        if !self.starts.domains.follows {
            if is_open {
                self.begin_domain(next);
            }
            return;
        }
        if is_open && self.has_domain_ended(pending) {
            self.watch_lost();
        }
        if !self.has_domain_ended(pending) || self.closed.stopped.is_some() {
            return self.interrupt_domain_soak();
        }
        let ended = *self.starts.domains.ended.get_or_insert(self.now.instant);
        if !is_open {
            return;
        }
        let until = ended.after(self.policy.limits.domain_soak);
        if until <= self.now.instant {
            return self.begin_domain(next);
        }
        let Some(next) = self.starts.domains.names.get(next).cloned() else { return };
        self.gate = StartGate::SoakingDomain { until };
        self.wake(until);
        let until = self.now.time_at(until);
        self.report(Progress::DomainSoaking { until, next });
    }

    /// The next domain with a pending node, and the number of pending nodes in it and in later ones.
    fn later_domains(&self) -> Option<(usize, usize)> {
        let domains = &self.starts.domains;
        self.nodes.domains_from(domains.begun).filter(|_| !domains.names.is_empty())
    }

    /// Whether no node is in transition, and no node is pending but these.
    fn has_domain_ended(&self, later: usize) -> bool {
        let is_idle = self.number(Count::InFlight) == 0 && !self.rollbacks.are_queued();
        is_idle && self.number(Count::Pending) == later
    }

    /// Watches nodes again that converged in this run and are not Ready any more. They end their domain once they are
    /// Ready, or have failed.
    fn watch_lost(&mut self) {
        if self.number(Count::Lost) == 0 {
            return;
        }
        let lost: Vec<Id> = self.nodes.all().filter(|id| self.nodes[*id].is_lost()).collect();
        lost.into_iter().for_each(|id| self.regressed(id, Waiting::NotReady));
    }

    /// Ends the soak between two domains, if there is one. It restarts later.
    pub(in crate::pool) fn interrupt_domain_soak(&mut self) {
        self.starts.domains.ended = None;
        if matches!(self.gate, StartGate::SoakingDomain { .. }) {
            self.gate = StartGate::Open;
        }
    }

    /// Lets the nodes of a domain start, if the gates permit a start.
    fn begin_domain(&mut self, position: usize) {
        if !self.gates_permit() {
            return;
        }
        let Some(domain) = self.starts.domains.names.get(position).cloned() else { return };
        self.interrupt_domain_soak();
        (self.starts.domains.begun, self.starts.domains.follows) = (position + 1, true);
        let nodes = self.nodes.pending_in(position);
        self.report(Progress::DomainStarted { domain, nodes });
    }

    /// Records that a node left its domain for the canaries. A domain without further nodes counts as begun.
    pub(super) fn left_domain(&mut self, position: usize) {
        let is_later = position >= self.starts.domains.begun && !self.starts.domains.names.is_empty();
        self.starts.domains.follows |= is_later && self.nodes.pending_in(position) == 0;
    }
}
