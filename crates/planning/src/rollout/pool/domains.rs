//! Domains of a pool whose nodes are ordered by a label: which one is on, and the soak between two.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::PoolRun;
use super::node_state::{NodeState, Phase};
use crate::convergence::Waiting;
use crate::instant::later;
use crate::plan::{Domain, PoolPlan, WaveKind};
use crate::rollout::progress::{Progress, StartGate};
use crate::rollout::signals::{Context, Mode};

/// Domains of a pool in one rollout.
#[derive(Debug)]
pub(super) struct Domains {
    /// All domains of the pool, in order. Empty without an order.
    names: Vec<Domain>,
    /// Time from the end of the last node of a domain to the start of the next one, in real time.
    soak: Duration,
    /// Nodes of the domains that have not begun, by the position of their domain.
    waiting: BTreeMap<usize, BTreeSet<usize>>,
    /// Position of the domain that began last in this run.
    current: Option<usize>,
    /// Whether the first domain of this run follows another one, of an earlier run or of canaries.
    continues: bool,
    /// Time since which all nodes that started have ended.
    ended: Option<Timestamp>,
}

impl Domains {
    pub(super) fn new(plan: &PoolPlan, mode: &Mode) -> Self {
        let first = plan.waves.iter().find(|wave| wave.kind == WaveKind::Rest);
        let first_soak = first.and_then(|wave| wave.domain.as_ref()).map_or(0, |domain| domain.soak_seconds);
        Self {
            names: plan.domains.clone(),
            soak: plan.policy.order.as_ref().map_or(Duration::ZERO, |order| mode.real_duration(order.soak)),
            waiting: BTreeMap::new(),
            current: None,
            continues: first_soak > 0,
            ended: None,
        }
    }

    /// Reports whether the domain at this position has not begun.
    fn is_later(&self, domain: usize) -> bool {
        !self.names.is_empty() && self.current.is_none_or(|current| domain > current)
    }

    /// Forgets the domains that have not begun.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl PoolRun {
    /// Queues a node that needs budget, or keeps it until its domain begins.
    pub(super) fn queue_rest(&mut self, number: usize) {
        match self.nodes.get(number).map(|node| node.domain).filter(|domain| self.domains.is_later(*domain)) {
            Some(domain) => {
                self.domains.waiting.entry(domain).or_default().insert(number);
            }
            None => self.rest.push_back(number),
        }
    }

    /// Reports whether the domain of a node has begun.
    pub(super) fn is_turn_of(&self, node: &NodeState) -> bool {
        !self.domains.is_later(node.domain)
    }

    /// Removes the first node that waits for the canaries.
    pub(super) fn next_of_rest(&mut self) -> Option<usize> {
        if let Some(next) = self.rest.pop_front() {
            return Some(next);
        }
        let mut first = self.domains.waiting.first_entry()?;
        let next = first.get_mut().pop_first();
        if first.get().is_empty() {
            first.remove();
            self.domains.continues = true;
        }
        next
    }

    /// Begins the next domain once every node that started has ended, and has been well for the soak time.
    pub(super) fn advance_domains(&mut self, context: &mut Context<'_>) {
        if self.domains.waiting.is_empty() {
            return;
        }
        let is_open = self.gate == StartGate::Open;
        if self.domains.current.is_none() && !self.domains.continues {
            if is_open && self.gates_permit(context.now) {
                self.begin_domain(context);
            }
            return;
        }
        if !self.has_domain_ended() || (is_open && self.watch_lost(context)) {
            return self.interrupt_domain_soak();
        }
        let ended = *self.domains.ended.get_or_insert(context.now);
        if !is_open {
            return;
        }
        let until = later(ended, self.domains.soak);
        if until <= context.now {
            return self.begin_domain(context);
        }
        let next = self.domains.waiting.keys().next().and_then(|next| self.domains.names.get(*next)).cloned();
        if let Some(next) = next {
            self.gate = StartGate::SoakingDomain { until };
            context.timers.wake(until, &self.name, None);
            self.report(Progress::DomainSoaking { pool: self.name.clone(), until, next }, context);
        }
    }

    /// Whether no node is in transition, and no node is pending but those of later domains.
    fn has_domain_ended(&self) -> bool {
        if self.nodes.in_flight() > 0 || !self.rollback_drains.is_empty() {
            return false;
        }
        let is_pending = |number: &&usize| self.nodes.in_phase(**number, &Phase::Pending).is_some();
        self.nodes.pending() == self.domains.waiting.values().flatten().filter(is_pending).count()
    }

    /// Watches nodes again that converged in this run and are not Ready any more. They end their domain once they are
    /// Ready, or have failed. Reports whether there are any.
    fn watch_lost(&mut self, context: &mut Context<'_>) -> bool {
        if self.nodes.lost() == 0 {
            return false;
        }
        let lost = |number: &usize| self.nodes.get(*number).is_some_and(NodeState::is_lost);
        let lost: Vec<usize> = self.nodes.numbers().filter(lost).collect();
        lost.iter().for_each(|number| self.regressed(*number, Waiting::NotReady, context));
        !lost.is_empty()
    }

    /// Ends the soak between two domains, if there is one. It begins anew.
    pub(super) fn interrupt_domain_soak(&mut self) {
        self.domains.ended = None;
        if matches!(self.gate, StartGate::SoakingDomain { .. }) {
            self.gate = StartGate::Open;
        }
    }

    /// Starts the nodes of the next domain.
    pub(super) fn begin_domain(&mut self, context: &mut Context<'_>) {
        self.interrupt_domain_soak();
        let Some((position, nodes)) = self.domains.waiting.pop_first() else { return };
        self.domains.current = Some(position);
        let is_pending = |number: &&usize| self.nodes.in_phase(**number, &Phase::Pending).is_some();
        let pending = nodes.iter().filter(is_pending).count();
        self.rest.extend(nodes);
        if let Some(domain) = self.domains.names.get(position).cloned() {
            self.report(Progress::DomainStarted { pool: self.name.clone(), domain, nodes: pending }, context);
        }
        self.queue_broken();
    }
}
