//! Gates of a pool: conditions outside of the nodes that must hold before its next step.
//!
//! Before the first node, a gate that does not pass holds the pool. Later the pool waits for the gate, and stops after
//! the gate's patience. During a soak of canaries or of a domain, a gate that blocks stops the pool at once.

use std::time::Duration;

use super::PoolRun;
use crate::StopReason;
use crate::before::signals::{Context, Mode};
use crate::judge::{Asked, GateState, KnownSeries, judge};
use crate::progress::{Progress, StartGate};
use nodecfg_contract::names::GateName;
use nodecfg_planning::gates::{Gate, Moment};
use nodecfg_planning::hold::{Hold, HoldReason};
use nodecfg_planning::instant::Instant;
use nodecfg_planning::plan::{Action, PoolPlan, Why};

/// Time after which a pool whose gates have no answer yet is held.
const FIRST_ANSWER: Duration = Duration::from_secs(60);

/// Gates of a pool in one rollout.
#[derive(Debug)]
pub(super) struct Gates {
    gates: Vec<GateRun>,
    /// Age from which an answer proves nothing.
    stale: Duration,
    /// Whether series that fire before the first node are known. A run that continues a rollout cannot tell them from
    /// series that earlier nodes of the rollout caused.
    has_baseline: bool,
    /// Since when the pool waits for the first answers.
    since: Option<Instant>,
    /// Whether a node of the pool was started in this run.
    started: bool,
    /// Whether a node of any pool was started in this run. Series that begin to fire later may be its effect.
    run_started: bool,
    /// Latest time at which the pool wakes up for its gates.
    wakes: Option<Instant>,
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

    /// Why the gate does not pass now, and whether it blocks.
    fn closed_now(&self, now: Instant, stale: Duration) -> Option<(String, bool)> {
        match &self.answer {
            None => Some(("unknown: no answer yet".to_owned(), false)),
            Some((at, _)) if now.since(*at) > stale => {
                Some(("unknown: the latest answer is too old".to_owned(), false))
            }
            Some((_, state)) => state.why().map(|why| (why, matches!(state, GateState::Blocks { .. }))),
        }
    }
}

impl Gates {
    pub(super) fn new(plan: &PoolPlan, mode: &Mode) -> Self {
        let active = mode.gates.filter(|_| mode.assign);
        let gates = plan.policy.gates.iter().filter(|gate| active.is_some() && !gate.at.is_empty());
        let run = |gate: &Gate| GateRun {
            gate: gate.clone(),
            patience: mode.real_duration(gate.patience),
            answer: None,
            known: KnownSeries::default(),
            closed: None,
        };
        let on_target = plan.left_alone.iter().any(|left| matches!(left.why, Why::Converged | Why::Adopted { .. }))
            || plan.steps().any(|step| matches!(step.action, Action::Await { .. }));
        Self {
            gates: gates.map(run).collect(),
            stale: active.unwrap_or_default().saturating_mul(2),
            has_baseline: !on_target,
            since: None,
            started: false,
            run_started: false,
            wakes: None,
        }
    }

    /// Records an answer. Reports whether it is about a gate of the pool.
    fn record(&mut self, asked: &Asked) -> bool {
        let (mut is_own, has_baseline, run_started) = (false, self.has_baseline, self.run_started);
        for run in self.gates.iter_mut().filter(|run| run.gate.question() == asked.question) {
            is_own = true;
            // Answers may arrive out of order.
            if run.answer.as_ref().is_some_and(|(at, _)| *at > asked.at) {
                continue;
            }
            if has_baseline
                && (!run_started || run.answer.is_none())
                && let Some(known) = KnownSeries::of(&asked.answer)
            {
                run.known = known;
            }
            run.answer = Some((asked.at, judge(&run.gate, &asked.answer, &run.known)));
        }
        is_own
    }

    fn all_answered(&self) -> bool {
        self.gates.iter().all(|run| run.answer.is_some())
    }

    /// The first gate of a step that does not pass.
    fn closed_at(&self, moment: Moment, now: Instant) -> Option<(GateName, String)> {
        let mut guards = self.gates.iter().filter(|run| run.guards(moment));
        guards.find_map(|run| run.closed_now(now, self.stale).map(|(why, _)| (run.gate.name.clone(), why)))
    }

    /// Reports whether another node may start.
    fn permit(&self, now: Instant) -> bool {
        let moment = if self.started { Moment::Node } else { Moment::Start };
        (self.started || self.all_answered()) && self.closed_at(moment, now).is_none()
    }
}

impl PoolRun {
    /// Reports whether the gates permit another node to start.
    pub(super) fn gates_permit(&self, now: Instant) -> bool {
        self.gates.gates.is_empty() || self.gates.permit(now)
    }

    /// Records that a node starts.
    pub(super) fn node_started(&mut self) {
        self.gates.started = true;
    }

    /// Reports whether a node of the pool was started in this run.
    pub(crate) fn has_started(&self) -> bool {
        self.gates.started
    }

    /// Ends the baseline of the gates, because a node of some pool was started. Only first answers still belong to it.
    pub(crate) fn end_baseline(&mut self) {
        self.gates.run_started = true;
    }

    /// Handles an answer.
    pub(crate) fn gate_answered(&mut self, asked: &Asked, context: &mut Context<'_>) {
        if self.gates.record(asked) {
            self.advance_canaries(context);
            self.advance_gates(context);
            self.start_more(context);
            // The first node may have started just now.
            self.advance_gates(context);
        }
    }

    /// Starts to wait for the first answers, once it is the turn of the pool.
    pub(super) fn await_gates(&mut self, context: &mut Context<'_>) {
        if !self.gates.gates.is_empty() {
            self.gates.since = Some(context.now);
            context.timers.wake(context.now.after(FIRST_ANSWER), &self.name, None);
        }
    }

    /// Holds or stops the pool, or ends its soak, as far as the gates decide that.
    pub(super) fn advance_gates(&mut self, context: &mut Context<'_>) {
        let Some(since) = self.gates.since.filter(|_| self.stopped.is_none() && self.held.is_none()) else { return };
        if self.nodes.pending() == 0 && !self.pointer_awaits_soak() {
            return;
        }
        if !self.gates.started {
            let is_due = self.gates.all_answered() || context.now.since(since) >= FIRST_ANSWER;
            let unanswered = self.gates.gates.iter().find(|run| run.answer.is_none());
            let unanswered = unanswered.map(|run| (run.gate.name.clone(), "unknown: no answer yet".to_owned()));
            let closed = self.gates.closed_at(Moment::Start, context.now);
            if let Some((gate, why)) = closed.or(unanswered).filter(|_| is_due) {
                self.hold_for_gate(gate, why, context);
            }
            // A run that continues a rollout may soak before its first node.
            if self.held.is_some() || self.gate.soaks_until().is_none() {
                return;
            }
        }
        if let Some(closed) = self.overdue_gate(context) {
            self.stop_for_gate(closed, context);
            return;
        }
        if let Some(until) = self.gate.soaks_until()
            && context.now >= until
        {
            self.end_soak(context);
        }
    }

    /// Opens the gate after the soak time, unless a gate of the soak does not pass.
    pub(super) fn end_soak(&mut self, context: &mut Context<'_>) {
        let starts = self.stopped.is_none() && self.held.is_none();
        if starts && self.gates.closed_at(Moment::Soak, context.now).is_none() {
            match self.gate {
                StartGate::SoakingDomain { .. } => self.end_domain_soak(context),
                _ => self.open_gate(context),
            }
        }
    }

    /// Updates how long the gates of the present step have been closed, and reports changes. Returns a gate that stops
    /// the pool: one that blocks a soak, or one whose patience is over.
    fn overdue_gate(&mut self, context: &mut Context<'_>) -> Option<StopReason> {
        let (now, stale) = (context.now, self.gates.stale);
        let soak_end = self.gate.soaks_until();
        let of_canaries = !self.gate.has_passed_canaries();
        let (mut events, mut overdue, mut wakes) = (Vec::new(), None, None::<Instant>);
        for run in &mut self.gates.gates {
            let of_soak = soak_end.filter(|_| run.guards(Moment::Soak));
            let delays = of_soak.is_some() || (soak_end.is_none() && run.guards(Moment::Node));
            let Some((why, blocks)) = run.closed_now(now, stale).filter(|_| delays) else {
                if run.closed.take().is_some() {
                    events.push((run.gate.name.clone(), None));
                }
                // An answer of exactly that age still counts.
                let too_old = stale + Duration::from_millis(1);
                wakes = run.answer.as_ref().map(|(at, _)| at.after(too_old)).into_iter().chain(wakes).min();
                continue;
            };
            if run.closed.is_none() {
                events.push((run.gate.name.clone(), Some(why.clone())));
            }
            let closed = *run.closed.get_or_insert(now);
            let patience_ends = of_soak.map_or(closed, |until| until.max(closed)).after(run.patience);
            wakes = Some(wakes.map_or(patience_ends, |wakes| wakes.min(patience_ends)));
            if overdue.is_none() && ((of_soak.is_some() && blocks) || now >= patience_ends) {
                let canaries = of_soak.is_some() && of_canaries;
                overdue = Some(StopReason::GateClosed { gate: run.gate.name.clone(), why, canaries });
            }
        }
        for (gate, why) in events {
            let pool = self.name.clone();
            let progress = match why {
                Some(why) => Progress::GateClosed { pool, gate, why },
                None => Progress::GateOpened { pool, gate },
            };
            self.report(progress, context);
        }
        if overdue.is_none() {
            self.wake_for_gates(wakes, context);
        }
        overdue
    }

    /// Wakes the pool up when an answer becomes too old, or the patience of a gate ends.
    fn wake_for_gates(&mut self, at: Option<Instant>, context: &mut Context<'_>) {
        let Some(at) = at.filter(|at| *at > context.now) else { return };
        let is_planned = self.gates.wakes.is_some_and(|planned| planned > context.now && planned <= at);
        if !is_planned {
            self.gates.wakes = Some(at);
            context.timers.wake(at, &self.name, None);
        }
    }

    /// Starts no node in this run. Nodes that point at their target already are watched.
    fn hold_for_gate(&mut self, gate: GateName, why: String, context: &mut Context<'_>) {
        self.watch_awaited(context);
        if self.nodes.pending() > 0 {
            self.hold_pool(Hold { why: HoldReason::Gate { gate, reason: why }, next: None }, context);
        }
    }

    fn stop_for_gate(&mut self, reason: StopReason, context: &mut Context<'_>) {
        self.stop(&reason, context);
        if self.stopped.is_some() && self.rollback_on_gate_failure {
            self.return_all(context);
        }
    }
}
