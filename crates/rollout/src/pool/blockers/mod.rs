//! What may keep a pending node from starting: a list of blockers, each in a file of its own. A new reason to wait is a new
//! file and a line in [`BLOCKERS`].

use self::domains::Domains;
use self::gates::Gates;
use self::order::Room;
use self::windows::Windows;
use super::node::{Need, Node, Stage};
use super::table::{Count, Id};
use super::{Policy, Pool};
use crate::progress::StartGate;
use nodecfg_planning::hold::Hold;
use nodecfg_planning::instant::{Instant, Now};
use nodecfg_planning::plan::PoolPlan;

mod budget;
mod canaries;
mod domains;
mod gates;
pub(crate) mod order;
mod requests;
mod windows;

#[cfg(test)]
mod every_second;

/// Answer of a blocker about a node. Except for a hold, it applies to all nodes of the same [place](super::node::Place).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MayStart {
    /// The node may start.
    Yes,
    /// Not before this moment. [`Instant::NEVER`]: not before other nodes of the pool get ahead.
    NotBefore(Instant),
    /// Not before other pools get ahead.
    AfterOthers,
    /// The node does not start in this run.
    Hold(Hold),
}

impl MayStart {
    /// Not before other nodes of the pool get ahead.
    const AFTER_NODES: Self = Self::NotBefore(Instant::NEVER);
}

/// Reports whether a node may start now.
type Blocker = fn(&Pool, &Node) -> MayStart;

/// All blockers, in the order in which they are asked. The first answer but [`MayStart::Yes`] counts.
pub(super) const BLOCKERS: &[Blocker] = &[
    order::may_start,
    canaries::may_start,
    domains::may_start,
    requests::may_start,
    gates::may_start,
    windows::may_start,
    budget::may_start,
];

/// State of the blockers of a pool.
#[derive(Debug)]
pub(super) struct Starts {
    /// The blockers of the pool.
    blockers: Vec<Blocker>,
    /// Whether the turn of the pool among the others has come.
    pub(super) turn: MayStart,
    pub(super) room: Room,
    pub(super) domains: Domains,
    pub(super) gates: Gates,
    windows: Windows,
    /// Why the first node was held that does not start in this run.
    aside: Option<Hold>,
    /// The next time at which the pool must be looked at without an event.
    pub(super) wakes: Option<Instant>,
    /// Time since which pending nodes only wait for unavailable nodes to recover.
    pub(super) stalled_since: Option<Instant>,
    /// Whether a node of the pool was started in this run.
    pub(super) has_started: bool,
}

impl Starts {
    pub(super) fn new(plan: &PoolPlan, policy: &Policy) -> Self {
        let turn = if policy.rules.after.is_empty() { MayStart::Yes } else { MayStart::AfterOthers };
        Self {
            blockers: BLOCKERS.to_vec(),
            turn,
            room: Room::default(),
            domains: Domains::new(plan),
            gates: Gates::new(plan, &policy.mode),
            windows: Windows::new(plan, policy),
            aside: None,
            wakes: None,
            stalled_since: None,
            has_started: false,
        }
    }
}

impl Starts {
    /// Looks at the clock.
    pub(super) fn look(&mut self, now: Now) {
        self.windows.look(now);
    }
}

impl Pool {
    /// Starts every node that may start now.
    pub(super) fn start_nodes(&mut self) {
        if self.is_closed() {
            return;
        }
        self.advance_domains();
        let (mut after, mut is_stalled) = (None, self.number(Count::InFlight) == 0);
        while let Some((place, id)) = self.nodes.next_after(after) {
            match self.may_start(id) {
                MayStart::Yes => {
                    is_stalled = false;
                    self.start_node(id);
                    continue;
                }
                MayStart::Hold(hold) => {
                    self.set_aside(id, hold);
                    // Nodes that wait for this one are held with it.
                    after = None;
                    continue;
                }
                MayStart::NotBefore(at) if at < Instant::NEVER => {
                    is_stalled = false;
                    self.wake(at);
                }
                MayStart::NotBefore(_) => {}
                MayStart::AfterOthers => is_stalled = false,
            }
            after = Some(place);
        }
        // A pool whose canaries are in transition or soak is held once they have passed.
        let goes_on = self.nodes.next_after(None).is_some()
            || self.gate.soaks_until().is_some()
            || (self.gate == StartGate::Canaries && self.number(Count::CanariesHeld) == 0);
        match self.starts.aside.clone() {
            Some(hold) if self.number(Count::Aside) > 0 && !goes_on => self.hold(hold),
            _ => self.watch_for_stall(is_stalled && self.number(Count::Pending) > 0),
        }
    }

    /// Reports whether a pending node may start now. A node that points at its target already is in transition.
    pub(super) fn may_start(&self, id: Id) -> MayStart {
        let node = &self.nodes[id];
        if node.place().is_some_and(|place| place.need == Need::Nothing) {
            return MayStart::Yes;
        }
        let mut answers = self.starts.blockers.iter().map(|may_start| may_start(self, node));
        answers.find(|answer| *answer != MayStart::Yes).unwrap_or(MayStart::Yes)
    }

    /// Lets a node wait for the next run.
    fn set_aside(&mut self, id: Id, hold: Hold) {
        self.nodes.update(id, |node| node.stage = Stage::Aside);
        self.starts.aside.get_or_insert(hold);
    }

    fn start_node(&mut self, id: Id) {
        let node = &self.nodes[id];
        if node.intent.assignment().is_none() {
            return self.watch(id);
        }
        let needs_drain = node.intent.needs_drain();
        self.starts.has_started = true;
        match needs_drain {
            true => self.begin_drain(id),
            false => self.list_or_assign(id),
        }
    }

    /// Stops a pool whose pending nodes only wait for unavailable nodes to recover: at once if failed nodes use up the
    /// budget, and otherwise after the time limit of one node.
    fn watch_for_stall(&mut self, is_stalled: bool) {
        if !is_stalled {
            self.starts.stalled_since = None;
            return;
        }
        let now = self.now;
        let is_hopeless = self.starts.stalled_since.is_none() && self.number(Count::Failed) >= self.policy.budget;
        let since = *self.starts.stalled_since.get_or_insert(now.instant);
        let ends = since.after(self.policy.limits.node);
        if is_hopeless || ends <= now.instant {
            let reason = self.budget_exhausted();
            self.starts.stalled_since = None;
            return self.stop(&reason);
        }
        self.wake(ends);
    }
}
