//! Domains of a pool whose nodes are ordered by a label: which one is on, and the soak between two.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::PoolRun;
use super::node_state::{NodeState, Phase};
use crate::before::signals::{Context, Mode};
use crate::progress::{Progress, StartGate};
use nodecfg_planning::convergence::Waiting;
use nodecfg_planning::instant::Instant;
use nodecfg_planning::plan::{Domain, PoolPlan, WaveKind};

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
    ended: Option<Instant>,
}

impl Domains {
    pub(super) fn new(plan: &PoolPlan, mode: &Mode) -> Self {
        let first = plan.waves.iter().find(|wave| wave.kind == WaveKind::Rest);
        let first = first.and_then(|wave| wave.domain.as_ref());
        Self {
            names: plan.domains.clone(),
            soak: plan.policy.order.as_ref().map_or(Duration::ZERO, |order| mode.real_duration(order.soak)),
            waiting: BTreeMap::new(),
            current: None,
            continues: first.is_some_and(|domain| domain.soak_seconds.is_some()),
            ended: None,
        }
    }

    /// Reports whether the domain at this position has not begun.
    fn is_later(&self, domain: usize) -> bool {
        !self.names.is_empty() && self.current.is_none_or(|current| domain > current)
    }
}

impl PoolRun {
    /// Queues a node that needs budget, or keeps it until its domain begins.
    pub(super) fn queue_rest(&mut self, number: usize) {
        match self.nodes.get(number).map(|node| node.domain).filter(|domain| self.domains.is_later(*domain)) {
            Some(domain) => {
                self.domains.waiting.entry(domain).or_default().insert(number);
                self.nodes.update(number, |node| node.awaits_domain = true);
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
        self.nodes.update(next?, |node| node.awaits_domain = false);
        next
    }

    /// Begins the next domain once every node that started has ended, and has been well for the soak time.
    pub(super) fn advance_domains(&mut self, context: &mut Context<'_>) {
        if self.domains.waiting.is_empty() {
            return;
        }
        let is_open = self.gate == StartGate::Open;
        if self.domains.current.is_none() && !self.domains.continues {
            if is_open {
                self.begin_domain(context);
            }
            return;
        }
        if is_open && self.has_domain_ended() {
            self.watch_lost(context);
        }
        if !self.has_domain_ended() || self.stopped.is_some() {
            return self.interrupt_domain_soak();
        }
        let ended = *self.domains.ended.get_or_insert(context.now);
        if !is_open {
            return;
        }
        let until = ended.after(self.domains.soak);
        if until <= context.now {
            return self.begin_domain(context);
        }
        if let Some(next) = self.next_domain() {
            self.gate = StartGate::SoakingDomain { until };
            context.timers.wake(until, &self.name, None);
            let until = context.time_at(until);
            self.report(Progress::DomainSoaking { pool: self.name.clone(), until, next }, context);
        }
    }

    /// Whether no node is in transition, and no node is pending but those of later domains.
    fn has_domain_ended(&self) -> bool {
        let is_idle = self.nodes.in_flight() == 0 && self.rollback_drains.is_empty();
        is_idle && self.nodes.pending() == self.nodes.awaiting_domain()
    }

    /// Watches nodes again that converged in this run and are not Ready any more. They end their domain once they are
    /// Ready, or have failed.
    fn watch_lost(&mut self, context: &mut Context<'_>) {
        if self.nodes.lost() == 0 {
            return;
        }
        let is_lost = |number: &usize| self.nodes.get(*number).is_some_and(NodeState::is_lost);
        let lost: Vec<usize> = self.nodes.numbers().filter(is_lost).collect();
        for number in lost {
            self.regressed(number, Waiting::NotReady, context);
        }
    }

    /// The next domain with a pending node. Forgets domains whose nodes have left the cluster or may not start now.
    fn next_domain(&mut self) -> Option<Domain> {
        while let Some((position, numbers)) = self.domains.waiting.first_key_value() {
            if numbers.iter().any(|number| self.nodes.in_phase(*number, &Phase::Pending).is_some()) {
                return self.domains.names.get(*position).cloned();
            }
            for number in self.domains.waiting.pop_first().into_iter().flat_map(|(_, numbers)| numbers) {
                self.nodes.update(number, |node| node.awaits_domain = false);
            }
        }
        None
    }

    /// Ends the soak between two domains, if there is one. It restarts later.
    pub(super) fn interrupt_domain_soak(&mut self) {
        self.domains.ended = None;
        if matches!(self.gate, StartGate::SoakingDomain { .. }) {
            self.gate = StartGate::Open;
        }
    }

    /// Begins the next domain after its soak.
    pub(super) fn end_domain_soak(&mut self, context: &mut Context<'_>) {
        self.gate = StartGate::Open;
        self.advance_domains(context);
    }

    /// Starts the nodes of the next domain, if the gates permit a start.
    fn begin_domain(&mut self, context: &mut Context<'_>) {
        if !self.gates_permit(context.now) {
            return;
        }
        let Some(domain) = self.next_domain() else { return };
        let Some((position, numbers)) = self.domains.waiting.pop_first() else { return };
        self.interrupt_domain_soak();
        self.domains.current = Some(position);
        let is_pending = |number: &&usize| self.nodes.in_phase(**number, &Phase::Pending).is_some();
        let nodes = numbers.iter().filter(is_pending).count();
        for number in numbers {
            self.nodes.update(number, |node| node.awaits_domain = false);
            self.rest.push_back(number);
        }
        self.report(Progress::DomainStarted { pool: self.name.clone(), domain, nodes }, context);
        self.queue_broken();
    }
}
