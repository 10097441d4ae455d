//! Gates of a pool: conditions outside of the nodes that must hold before its next step.
//!
//! Before the first node, a gate that does not pass holds the pool. Later the pool waits for the gate, and stops after the
//! gate's patience. During a soak of canaries or of a domain, a gate that blocks stops the pool at once.

use std::time::Duration;

use super::MayStart;
use crate::instant::Instant;
use crate::judge::{Asked, GateState, KnownSeries, judge};
use crate::outcome::StopReason;
use crate::pool::Pool;
use crate::pool::node::Node;
use crate::pool::table::Count;
use crate::progress::{Progress, StartGate};
use crate::signals::Mode;
use nodecfg_contract::names::GateName;
use nodecfg_fleet::gates::{Gate, Moment};
use nodecfg_fleet::hold::{Hold, HoldReason};
use nodecfg_plan::{Action, PoolPlan};

/// Time after which a pool whose gates have no answer yet is held.
const FIRST_ANSWER: Duration = Duration::from_secs(60);

/// Gates of a pool in one rollout.
#[derive(Debug)]
pub(in crate::pool) struct Gates {
    gates: Vec<GateRun>,
    /// Age from which an answer proves nothing.
    stale: Duration,
    /// Whether series that fire before the first node are known. A run that continues a rollout cannot tell them from
    /// series that earlier nodes of the rollout caused.
    has_baseline: bool,
    /// Since when the pool waits for the first answers: since its turn has come.
    since: Option<Instant>,
    /// Whether a node of any pool was started in this run. Series that begin to fire later may be its effect.
    baseline_ended: bool,
}

/// One gate in one rollout.
#[derive(Debug)]
struct GateRun {
    gate: Gate,
    /// [`Gate::patience`] in real time.
    patience: Duration,
    /// State by the latest answer, and the time of its request.
    answer: Option<(Instant, GateState)>,
    /// Series that fired before the first node.
    known: KnownSeries,
    /// Since when a gate that delays the pool does not pass.
    closed: Option<Instant>,
}

impl GateRun {
    fn guards(&self, moment: Moment) -> bool {
        self.gate.at.contains(&moment)
    }

    /// Reports whether the gate passes now.
    fn passes(&self, now: Instant, stale: Duration) -> bool {
        self.answer.as_ref().is_some_and(|(at, state)| now.since(*at) <= stale && state.passes())
    }

    /// Why the gate does not pass, and whether it blocks.
    fn why(&self, now: Instant, stale: Duration) -> (String, bool) {
        match &self.answer {
            None => ("unknown: no answer yet".to_owned(), false),
            Some((at, _)) if now.since(*at) > stale => ("unknown: the latest answer is too old".to_owned(), false),
            Some((_, state)) => (state.why().unwrap_or_default(), matches!(state, GateState::Blocks { .. })),
        }
    }
}

impl Gates {
    pub(super) fn new(plan: &PoolPlan, mode: &Mode) -> Self {
        let is_asked = |gate: &&Gate| mode.gates.is_some() && !gate.at.is_empty() && !gate.is_of_nodes();
        let gates = plan.policy.gates.iter().filter(is_asked);
        let run = |gate: &Gate| GateRun {
            gate: gate.clone(),
            patience: mode.real_duration(gate.patience),
            answer: None,
            known: KnownSeries::default(),
            closed: None,
        };
        let on_target = plan.left_alone.iter().any(|left| left.why.runs_target())
            || plan.steps().any(|step| matches!(step.action, Action::Await { .. }));
        Self {
            gates: gates.map(run).collect(),
            stale: mode.gates.unwrap_or_default().saturating_mul(2),
            has_baseline: !on_target,
            since: None,
            baseline_ended: false,
        }
    }

    /// Records an answer.
    fn record(&mut self, asked: &Asked) {
        for run in self.gates.iter_mut().filter(|run| run.gate.question() == asked.question) {
            // Answers may arrive out of order.
            if run.answer.as_ref().is_some_and(|(at, _)| *at > asked.at) {
                continue;
            }
            if self.has_baseline
                && (!self.baseline_ended || run.answer.is_none())
                && let Some(known) = KnownSeries::of(&asked.answer)
            {
                run.known = known;
            }
            run.answer = Some((asked.at, judge(&run.gate, &asked.answer, &run.known)));
        }
    }

    /// The first gate of a step that does not pass.
    fn closed_at(&self, moment: Moment, now: Instant) -> Option<&GateRun> {
        self.gates.iter().find(|run| run.guards(moment) && !run.passes(now, self.stale))
    }
}

pub(super) fn may_start(pool: &Pool, _: &Node) -> MayStart {
    let (gates, now) = (&pool.starts.gates, pool.now.instant);
    if pool.starts.has_started() {
        // The gate's patience, and the age of its answer, have timers of their own.
        let closed = gates.closed_at(Moment::Node, now);
        return if closed.is_some() { MayStart::AfterOthers } else { MayStart::Yes };
    }
    let unanswered = gates.gates.iter().find(|run| run.answer.is_none());
    let Some(closed) = gates.closed_at(Moment::Start, now).or(unanswered) else { return MayStart::Yes };
    let ends = gates.since.unwrap_or(now).after(FIRST_ANSWER);
    if unanswered.is_some() && now < ends {
        return MayStart::NotBefore(ends);
    }
    let (reason, _) = closed.why(now, gates.stale);
    MayStart::Hold(Hold { why: HoldReason::Gate { gate: closed.gate.name.clone(), reason }, next: None })
}

impl Pool {
    /// Reports whether the gates permit another node to start.
    pub(super) fn gates_permit(&self) -> bool {
        let (gates, now) = (&self.starts.gates, self.now.instant);
        let moment = if self.starts.has_started() { Moment::Node } else { Moment::Start };
        let is_known = self.starts.has_started() || gates.gates.iter().all(|run| run.answer.is_some());
        is_known && gates.closed_at(moment, now).is_none()
    }

    /// Ends the baseline of the gates, because a node of some pool was started. Only first answers still belong to it.
    pub(crate) fn end_baseline(&mut self) {
        self.starts.gates.baseline_ended = true;
    }

    /// Handles an answer.
    pub(crate) fn gate_answered(&mut self, asked: &Asked) {
        self.starts.gates.record(asked);
    }

    /// Ends a soak whose time has passed if its gates pass, and stops the pool if a gate does not pass for too long.
    pub(in crate::pool) fn advance_gates(&mut self) {
        if self.is_closed() {
            return;
        }
        if self.starts.turn == MayStart::Yes {
            self.starts.gates.since.get_or_insert(self.now.instant);
        }
        let is_needed = self.number(Count::Pending) > 0 || self.pointer_awaits_soak();
        let has_turn = self.starts.gates.since.is_some();
        if has_turn
            && is_needed
            && let Some(closed) = self.overdue_gate()
        {
            self.stop(&closed);
            if self.closed.stopped.is_some() && self.policy.rules.rollback_on_gate_failure {
                self.return_all();
            }
            return;
        }
        let Some(until) = self.gate.soaks_until() else { return };
        self.wake(until);
        let is_over = until <= self.now.instant;
        if !is_over || self.starts.gates.closed_at(Moment::Soak, self.now.instant).is_some() {
            return;
        }
        if matches!(std::mem::replace(&mut self.gate, StartGate::Open), StartGate::Soaking { .. }) {
            self.report(Progress::Soaked);
        }
    }

    /// Updates how long the gates of the present step have been closed, and reports changes. Returns a gate that stops
    /// the pool: one that blocks a soak, or one whose patience is over.
    fn overdue_gate(&mut self) -> Option<StopReason> {
        let (now, stale) = (self.now.instant, self.starts.gates.stale);
        let soak_end = self.gate.soaks_until();
        let of_canaries = !self.gate.has_passed_canaries();
        let has_started = self.starts.has_started();
        let (mut events, mut overdue, mut wakes) = (Vec::new(), None, Vec::new());
        for run in &mut self.starts.gates.gates {
            let of_soak = soak_end.filter(|_| run.guards(Moment::Soak));
            let delays = of_soak.is_some() || (soak_end.is_none() && has_started && run.guards(Moment::Node));
            if !delays || run.passes(now, stale) {
                if run.closed.take().is_some() {
                    events.push((run.gate.name.clone(), None));
                }
                // An answer of exactly that age still counts.
                let too_old = stale + Duration::from_millis(1);
                wakes.extend(run.answer.as_ref().map(|(at, _)| at.after(too_old)));
                continue;
            }
            let (why, blocks) = run.why(now, stale);
            if run.closed.is_none() {
                events.push((run.gate.name.clone(), Some(why.clone())));
            }
            let closed = *run.closed.get_or_insert(now);
            let patience_ends = of_soak.map_or(closed, |until| until.max(closed)).after(run.patience);
            wakes.push(patience_ends);
            if overdue.is_none() && ((of_soak.is_some() && blocks) || now >= patience_ends) {
                let canaries = of_soak.is_some() && of_canaries;
                overdue = Some(StopReason::GateClosed { gate: run.gate.name.clone(), why, canaries });
            }
        }
        events.into_iter().for_each(|(gate, why)| self.report_gate(gate, why));
        wakes.into_iter().min().into_iter().for_each(|at| self.wake(at));
        overdue
    }

    fn report_gate(&mut self, gate: GateName, why: Option<String>) {
        self.report(match why {
            Some(why) => Progress::GateClosed { gate, why },
            None => Progress::GateOpened { gate },
        });
    }
}
