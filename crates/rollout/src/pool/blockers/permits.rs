//! Permits of single nodes: gates that name the node (`{node}`), asked right before its start.
//!
//! Only nodes that could start are asked about, each at most once per interval. A node without its permit waits, and others
//! start. After the patience of the gate it does not start in this run.

use std::time::Duration;

use super::MayStart;
use crate::instant::Instant;
use crate::judge::{Asked, KnownSeries, judge};
use crate::pool::Pool;
use crate::pool::node::Node;
use crate::pool::table::{Count, Id};
use crate::progress::Progress;
use crate::signals::{Command, Mode};
use nodecfg_contract::names::GateName;
use nodecfg_fleet::gates::{Gate, Moment};
use nodecfg_plan::PoolPlan;

/// Maximum number of nodes of a pool that wait for their permits at a time. It limits the requests of an interval.
const MAX_WAITING: usize = 100;

/// Gates of a pool that name its nodes.
#[derive(Debug)]
pub(in crate::pool) struct Permits {
    gates: Vec<Gate>,
    interval: Duration,
    speed: Mode,
}

impl Permits {
    pub(super) fn new(plan: &PoolPlan, mode: &Mode) -> Self {
        let is_asked = |gate: &&Gate| mode.gates.is_some() && gate.is_of_nodes() && gate.at.contains(&Moment::Node);
        let gates = plan.policy.gates.iter().filter(is_asked).cloned().collect();
        Self { gates, interval: mode.gates.unwrap_or_default(), speed: *mode }
    }
}

/// Permit of a node to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pool) struct Permit {
    pub(in crate::pool) state: PermitState,
    /// Since when the node has been refused.
    refused_since: Option<Instant>,
}

/// State of a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pool) enum PermitState {
    /// No gate of the pool names its nodes.
    NotNeeded,
    /// It has to be asked for.
    Needed,
    /// The question is unanswered.
    Asked,
    /// The node may start if it does so soon after this time.
    Granted { at: Instant },
    /// A gate did not pass. It is asked again at this time.
    Refused { again: Instant },
    /// A gate did not pass for the whole of its patience.
    Withheld { gate: GateName, why: String },
}

impl Permit {
    pub(in crate::pool) const NOT_NEEDED: Self = Self { state: PermitState::NotNeeded, refused_since: None };

    /// When the question is asked again, if it was refused.
    pub(in crate::pool) fn asked_again_at(&self) -> Option<Instant> {
        match self.state {
            PermitState::Refused { again } => Some(again),
            _ => None,
        }
    }

    /// Reports whether the node waits for an answer, or for the time to ask again.
    pub(in crate::pool) fn is_awaited(&self) -> bool {
        matches!(self.state, PermitState::Asked | PermitState::Refused { .. })
    }
}

pub(super) fn may_start(pool: &Pool, node: &Node) -> MayStart {
    let is_full = pool.number(Count::PermitsAsked) >= pool.policy.budget.min(pool.policy.mode.concurrency.max(1))
        || pool.number(Count::PermitsAwaited) >= MAX_WAITING;
    match node.permit.state {
        PermitState::Needed if is_full => MayStart::AfterOthers,
        _ => MayStart::Yes,
    }
}

impl Pool {
    /// Makes every node that this run assigns need a permit, if a gate names the nodes.
    pub(in crate::pool) fn need_permits(&mut self) {
        if self.starts.permits.gates.is_empty() {
            return;
        }
        for id in self.nodes.all().filter(|id| self.nodes[*id].intent.assignment().is_some()).collect::<Vec<Id>>() {
            self.nodes.update(id, |node| node.permit.state = PermitState::Needed);
        }
    }

    /// Asks for the permit of a node that may start otherwise. Reports whether it has none that is recent enough.
    pub(super) fn asks_for_permit(&mut self, id: Id) -> bool {
        let (now, permits) = (self.now.instant, &self.starts.permits);
        let is_recent = |at: Instant| now.since(at) <= permits.interval.saturating_mul(2);
        match self.nodes[id].permit.state {
            PermitState::NotNeeded => return false,
            PermitState::Granted { at } if is_recent(at) => return false,
            _ => {}
        }
        let name = self.nodes[id].intent.name().clone();
        let questions = permits.gates.iter().map(|gate| gate.of_node(&name).question()).collect();
        self.commands.push(Command::AskPermit(name, questions));
        self.nodes.update(id, |node| node.permit.state = PermitState::Asked);
        true
    }

    /// Handles the answers to the questions of a node's permit.
    pub(crate) fn permit_answered(&mut self, id: Id, answers: &[Asked]) {
        let (node, now) = (&self.nodes[id], self.now.instant);
        if node.permit.state != PermitState::Asked {
            return;
        }
        let (name, since) = (node.intent.name().clone(), node.permit.refused_since);
        let asked_at = answers.iter().map(|asked| asked.at).min().unwrap_or(now);
        let permits = &self.starts.permits;
        let refusal = permits.gates.iter().find_map(|gate| {
            let gate = gate.of_node(&name);
            let answer = answers.iter().find(|asked| asked.question == gate.question());
            let why = match answer {
                Some(asked) => judge(&gate, &asked.answer, &KnownSeries::default()).why()?,
                None => "unknown: no answer".to_owned(),
            };
            Some((gate, why))
        });
        let Some((gate, why)) = refusal else {
            self.nodes.update(id, |node| {
                node.permit = Permit { state: PermitState::Granted { at: asked_at }, refused_since: None };
            });
            if since.is_some() {
                self.report_node(id, Progress::Permitted);
            }
            return;
        };
        let refused_since = since.unwrap_or(asked_at);
        let patience = permits.speed.real_duration(gate.patience);
        let is_over = now.since(refused_since) >= patience;
        let again = asked_at.after(permits.interval);
        let name = gate.name;
        if since.is_none() {
            let until = self.now.time_at(refused_since.after(patience));
            self.report_node(id, Progress::NotPermitted { gate: name.clone(), why: why.clone(), until });
        }
        let state = match is_over {
            true => PermitState::Withheld { gate: name, why },
            false => PermitState::Refused { again },
        };
        self.nodes.update(id, |node| node.permit = Permit { state, refused_since: Some(refused_since) });
    }

    /// Lets a refused node be asked about again, once it could start.
    pub(in crate::pool) fn permit_due(&mut self, id: Id) {
        let is_due = |again: Instant| again <= self.now.instant;
        if matches!(self.nodes[id].permit.state, PermitState::Refused { again } if is_due(again)) {
            self.nodes.update(id, |node| node.permit.state = PermitState::Needed);
        }
    }
}
