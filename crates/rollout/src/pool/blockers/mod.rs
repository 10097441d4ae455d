//! What may keep a pending node from starting: a list of blockers, each in a file of its own. A new reason to wait is a new
//! file and a line in [`BLOCKERS`], which tells whether it is asked again before the assignment.

use self::gates::Gates;
use self::order::Room;
use self::permits::Permits;
use self::stages::Stages;
use self::windows::Windows;
use super::node::{Need, Node, Stage};
use super::table::{Count, Id};
use super::{Policy, Pool};
use crate::instant::{Instant, Now};
use crate::progress::StartGate;
use nodecfg_fleet::hold::Hold;
use nodecfg_plan::PoolPlan;

mod budget;
mod canaries;
mod gates;
mod interval;
pub(crate) mod order;
pub(crate) mod permits;
mod requests;
mod stages;
mod windows;

#[cfg(test)]
mod every_second;

/// Answer of a blocker about a node. Except for a hold, it applies to all nodes of the same [place](super::node::Place).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MayStart {
    /// The node may start.
    Yes,
    /// Not before other nodes of the pool get ahead. A pool whose nodes all wait for that has stalled.
    AfterNodes,
    /// Not before this moment.
    NotBefore(Instant),
    /// Other pools or gates decide when.
    AfterOthers,
    /// The node does not start in this run.
    Hold(Hold),
}

/// Tells whether a node may start now.
type Blocker = fn(&Pool, &Node) -> MayStart;

/// When a blocker is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Only when a node leaves the queue. Its own start must not block it later.
    AtStart,
    /// Again right before the assignment: the list of its pods, or a conflict, lies between.
    Again,
}

/// All blockers, in the order in which they are asked. The first answer but [`MayStart::Yes`] counts. A hold is final for the
/// run, so that gates and windows are asked only about nodes whose turn has come, and before the budget, which may delay
/// them for long.
const BLOCKERS: [(Blocker, Asked); 9] = [
    (order::may_start, Asked::Again),
    (canaries::may_start, Asked::Again),
    (stages::may_start, Asked::Again),
    (requests::may_start, Asked::AtStart),
    (interval::may_start, Asked::AtStart),
    (gates::may_start, Asked::Again),
    (windows::may_start, Asked::Again),
    (budget::may_start, Asked::Again),
    (permits::may_start, Asked::AtStart),
];

/// State of the blockers of a pool.
#[derive(Debug)]
pub(super) struct Starts {
    /// The blockers of the pool.
    blockers: Vec<(Blocker, Asked)>,
    /// Whether the turn of the pool among the others has come.
    pub(super) turn: MayStart,
    pub(super) room: Room,
    pub(super) stages: Stages,
    pub(super) gates: Gates,
    windows: Windows,
    pub(in crate::pool) permits: Permits,
    /// Why the first node was held that does not start in this run.
    aside: Option<Hold>,
    /// The next time at which the pool must be looked at without an event.
    pub(super) wakes: Option<Instant>,
    /// Time since which pending nodes only wait for unavailable nodes to recover.
    pub(super) stalled_since: Option<Instant>,
    /// Start of the latest node of the pool in this run. `None`: none was started.
    pub(super) latest: Option<Instant>,
}

impl Starts {
    pub(super) fn new(plan: &PoolPlan, policy: &Policy) -> Self {
        let turn = if policy.rules.after.is_empty() { MayStart::Yes } else { MayStart::AfterOthers };
        Self {
            blockers: BLOCKERS.to_vec(),
            turn,
            room: Room::default(),
            stages: Stages::new(plan),
            gates: Gates::new(plan, &policy.mode),
            windows: Windows::new(plan, policy),
            permits: Permits::new(plan, &policy.mode),
            aside: None,
            wakes: None,
            stalled_since: None,
            latest: None,
        }
    }

    /// Reports whether a node of the pool was started in this run.
    pub(super) fn has_started(&self) -> bool {
        self.latest.is_some()
    }

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
        self.advance_stages();
        let is_idle = self.number(Count::InFlight) == 0 && self.number(Count::PermitsAwaited) == 0;
        let (mut after, mut is_stalled) = (None, is_idle);
        while let Some((place, id)) = self.nodes.next_after(after) {
            match self.may_start(id, Asked::AtStart) {
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
                MayStart::AfterNodes => {}
                MayStart::NotBefore(at) => {
                    is_stalled = false;
                    self.wake(at);
                }
                MayStart::AfterOthers => is_stalled = false,
            }
            after = Some(place);
        }
        // A pool whose canaries are in transition or soak is held once they have passed.
        let goes_on = self.nodes.next_after(None).is_some()
            || self.number(Count::PermitsAwaited) > 0
            || self.gate.soaks_until().is_some()
            || (self.gate == StartGate::Canaries && self.number(Count::CanariesHeld) == 0);
        match self.starts.aside.clone() {
            Some(hold) if self.number(Count::Aside) > 0 && !goes_on => self.hold(hold),
            _ => self.watch_for_stall(is_stalled && self.number(Count::Pending) > 0),
        }
    }

    /// The first answer about a pending node that blocks it. A node that points at its target already is in transition.
    fn may_start(&self, id: Id, asked: Asked) -> MayStart {
        let node = &self.nodes[id];
        if node.place().is_some_and(|place| place.need == Need::Nothing) {
            return MayStart::Yes;
        }
        let blockers = self.starts.blockers.iter().filter(|(_, when)| *when == Asked::Again || asked == Asked::AtStart);
        let mut answers = blockers.map(|(may_start, _)| may_start(self, node));
        answers.find(|answer| *answer != MayStart::Yes).unwrap_or(MayStart::Yes)
    }

    /// Reports whether nothing blocks a node any more that has left the queue, and waits again because its assignment was
    /// delayed.
    pub(super) fn may_go_on(&self, id: Id) -> bool {
        let is_waiting = !self.is_closed() && self.nodes[id].place().is_some();
        is_waiting && self.may_start(id, Asked::Again) == MayStart::Yes
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
        if self.asks_for_permit(id) {
            return;
        }
        self.starts.latest = Some(self.now.instant);
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
