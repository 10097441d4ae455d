//! Nodes of a pool, their counts, and the order in which they start. Every change of a node updates them, so that no event
//! needs an iteration over all nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Index};

use super::blockers::permits::PermitState;
use super::draining::Draining;
use super::node::{Node, Place, Stage, Wave};
use crate::instant::Instant;
use crate::outcome::End;
use crate::progress::NodeCounts;

/// Number of a node in the table that made it. Nodes keep their numbers, in plan order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(usize);

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// Nodes that count against the budget.
    Unavailable,
    /// Nodes in transition.
    InFlight,
    /// Nodes that may start once their turn comes.
    Pending,
    /// Nodes that do not start in their present state.
    Held,
    /// Pending nodes that do not start in this run.
    Aside,
    /// Canaries that do not start in this run, or not in their present state.
    CanariesHeld,
    /// Pending nodes that wait for their permit to start, and those of them whose question is unanswered.
    PermitsAwaited,
    PermitsAsked,
    /// Nodes whose pods are listed before their assignment, or whose assignment is unanswered.
    Assigning,
    /// Nodes that are drained, or were drained and await the answer to their change.
    Draining,
    /// Nodes that run their target.
    OnTarget,
    /// Nodes that run their target by an assignment of the reconciler.
    Proving,
    /// Those of them that converged in this rollout.
    Proven,
    /// Nodes that have the target or get it, by the reconciler.
    Begun,
    /// Nodes that converged in this rollout and are not Ready any more.
    Lost,
    /// Nodes that failed with their assignment.
    Failed,
    Gone,
    /// Canaries that have not converged.
    CanariesLeft,
    /// As [`NodeCounts`] has them.
    ReportedPending,
    ReportedInFlight,
    ReportedDone,
    ReportedFailed,
    OnTrial,
}

impl Count {
    const ALL: [Self; 23] = [
        Self::Unavailable,
        Self::InFlight,
        Self::Pending,
        Self::Held,
        Self::Aside,
        Self::CanariesHeld,
        Self::PermitsAwaited,
        Self::PermitsAsked,
        Self::Assigning,
        Self::Draining,
        Self::OnTarget,
        Self::Proving,
        Self::Proven,
        Self::Begun,
        Self::Lost,
        Self::Failed,
        Self::Gone,
        Self::CanariesLeft,
        Self::ReportedPending,
        Self::ReportedInFlight,
        Self::ReportedDone,
        Self::ReportedFailed,
        Self::OnTrial,
    ];

    const fn bit(self) -> u32 {
        1 << self as u32
    }

    fn includes(self, node: &Node) -> bool {
        let is_assigning = |node: &Node| matches!(node.stage, Stage::Listing) || node.is_assigning();
        // An event shows a node that points at its target from the start as in transition, and one with an unanswered
        // patch as pending.
        let is_reported_pending =
            |node: &Node| node.intent.assignment().is_some() && (node.is_pending() || is_assigning(node));
        match self {
            Self::Unavailable => node.is_unavailable(),
            Self::InFlight => node.is_in_flight(),
            Self::Pending => node.is_pending(),
            Self::Held => node.is_held(),
            Self::Aside => node.is_pending() && matches!(node.stage, Stage::Aside),
            Self::CanariesHeld => node.wave == Wave::Canary && (Self::Aside.includes(node) || node.is_held()),
            Self::PermitsAwaited => node.is_pending() && node.permit.is_awaited(),
            Self::PermitsAsked => node.is_pending() && node.permit.state == PermitState::Asked,
            Self::Assigning => is_assigning(node),
            Self::Draining => match node.stage {
                Stage::Draining(_) => true,
                Stage::Assigning => node.is_marked(),
                _ => false,
            },
            Self::OnTarget => node.is_on_target(),
            Self::Proving => node.is_on_target() && !node.facts.is_self_assigned,
            Self::Proven => node.has_converged() && !node.facts.is_self_assigned,
            Self::Begun => node.has_begun(),
            Self::Lost => node.is_lost(),
            Self::Failed => node.has_failed(),
            Self::Gone => matches!(node.end(), Some(End::Gone)),
            Self::CanariesLeft => node.wave == Wave::Canary && !node.has_converged(),
            Self::ReportedPending => is_reported_pending(node),
            Self::ReportedInFlight => {
                let moves =
                    !matches!(node.stage, Stage::Waiting | Stage::Aside | Stage::Ended { .. }) || node.is_pending();
                moves && !is_reported_pending(node) && node.failure().is_none()
            }
            Self::ReportedDone => node.has_converged(),
            Self::ReportedFailed => node.failure().is_some() || matches!(node.end(), Some(End::Refused { .. })),
            Self::OnTrial => node.current_trial().is_some(),
        }
    }
}

/// What the table derives from a node.
#[derive(Debug, Clone, Copy, Default)]
struct Derived {
    /// A bit for each count that includes the node.
    counts: u32,
    place: Option<Place>,
    is_marked: bool,
    is_canary: bool,
}

impl Derived {
    fn of(node: &Node) -> Self {
        let counts = Count::ALL.into_iter().filter(|count| count.includes(node));
        Self {
            counts: counts.fold(0, |bits, count| bits | count.bit()),
            place: node.place(),
            is_marked: node.is_marked(),
            is_canary: node.wave == Wave::Canary,
        }
    }

    fn is_in(&self, count: Count) -> bool {
        self.counts & count.bit() != 0
    }
}

/// All nodes of a pool.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    by_name: Vec<Id>,
    counts: [usize; Count::ALL.len()],
    /// Pending nodes in the order of their starts.
    order: BTreeSet<(Place, Id)>,
    /// Number of pending nodes of the rest by domain.
    domains: BTreeMap<usize, usize>,
    /// Marked nodes.
    marked: BTreeSet<Id>,
    canaries: BTreeSet<Id>,
    /// Times at which a node needs attention. A node may need none by then.
    timers: BTreeSet<(Instant, Id)>,
    /// Nodes that changed since the last [`Nodes::take_changed`].
    changed: Vec<Id>,
}

impl Index<Id> for Nodes {
    type Output = Node;

    #[expect(clippy::indexing_slicing, reason = "the table makes its numbers and loses no node")]
    fn index(&self, id: Id) -> &Node {
        &self.nodes[id.0]
    }
}

impl Nodes {
    pub(super) fn new(nodes: impl Iterator<Item = Node>) -> Self {
        let mut table = Self { nodes: nodes.collect(), ..Self::default() };
        let mut by_name: Vec<Id> = table.all().collect();
        by_name.sort_by(|a, b| table[*a].intent.name().cmp(table[*b].intent.name()));
        table.by_name = by_name;
        for id in table.all() {
            let node = Derived::of(&table[id]);
            table.replace(id, Derived::default(), node);
        }
        table
    }

    /// Changes a node.
    #[expect(clippy::indexing_slicing, reason = "the table makes its numbers and loses no node")]
    pub(super) fn update<T>(&mut self, id: Id, change: impl FnOnce(&mut Node) -> T) -> T {
        let node = &mut self.nodes[id.0];
        let before = Derived::of(node);
        let result = change(node);
        let after = Derived::of(node);
        self.replace(id, before, after);
        self.changed.push(id);
        result
    }

    /// Changes the drain of a node whose pods are evicted. `None`: they are not.
    pub(super) fn evicting<T>(&mut self, id: Id, change: impl FnOnce(&mut Draining) -> T) -> Option<T> {
        self.update(id, |node| {
            let is_marked = node.is_marked();
            match &mut node.stage {
                Stage::Draining(draining) if is_marked => Some(change(draining)),
                _ => None,
            }
        })
    }

    fn replace(&mut self, id: Id, before: Derived, after: Derived) {
        for (total, count) in self.counts.iter_mut().zip(Count::ALL) {
            *total = *total + usize::from(after.is_in(count)) - usize::from(before.is_in(count));
        }
        if before.place != after.place {
            if let Some(place) = before.place {
                self.order.remove(&(place, id));
                *self.domains.entry(place.domain).or_default() -= usize::from(place.wave == Wave::Rest);
            }
            if let Some(place) = after.place {
                self.order.insert((place, id));
                *self.domains.entry(place.domain).or_default() += usize::from(place.wave == Wave::Rest);
            }
        }
        for (set, was, is) in [
            (&mut self.marked, before.is_marked, after.is_marked),
            (&mut self.canaries, before.is_canary, after.is_canary),
        ] {
            match (was, is) {
                (false, true) => drop(set.insert(id)),
                (true, false) => drop(set.remove(&id)),
                _ => {}
            }
        }
    }

    pub(super) fn number(&self, count: Count) -> usize {
        self.counts.get(count as usize).copied().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Numbers of all nodes.
    pub(super) fn all(&self) -> impl Iterator<Item = Id> + use<> {
        (0..self.nodes.len()).map(Id)
    }

    /// Nodes in plan order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// Nodes sorted by name.
    pub(super) fn by_name(&self) -> impl Iterator<Item = &Node> {
        self.by_name.iter().map(|id| &self[*id])
    }

    /// Marked nodes.
    pub(super) fn marked(&self) -> Vec<Id> {
        self.marked.iter().copied().collect()
    }

    /// Canaries, in plan order.
    pub(super) fn canaries(&self) -> Vec<Id> {
        self.canaries.iter().copied().collect()
    }

    /// The next pending node after a place, or the first.
    pub(super) fn next_after(&self, place: Option<Place>) -> Option<(Place, Id)> {
        let from = place.map_or(Bound::Unbounded, |place| Bound::Excluded((place, Id(usize::MAX))));
        self.order.range((from, Bound::Unbounded)).next().copied()
    }

    /// The first pending node of the rest whose permit was not refused: of the earliest domain, in plan order.
    pub(super) fn first_of_rest(&self) -> Option<Id> {
        let is_rest = |id: &Id| self[*id].is_pending() && self[*id].wave == Wave::Rest && !self[*id].is_refused();
        let rest = self.all().filter(|_| self.number(Count::Pending) > 0).filter(is_rest);
        rest.min_by_key(|id| (self[*id].intent.domain(), *id))
    }

    /// Number of pending nodes of the rest in a domain.
    pub(super) fn pending_in(&self, domain: usize) -> usize {
        self.domains.get(&domain).copied().unwrap_or_default()
    }

    /// The first domain from this position on with a pending node of the rest, and the number of pending nodes in all
    /// domains from there.
    pub(super) fn domains_from(&self, position: usize) -> Option<(usize, usize)> {
        let mut later = self.domains.range(position..).filter(|(_, pending)| **pending > 0).peekable();
        let first = later.peek().map(|(domain, _)| **domain)?;
        Some((first, later.map(|(_, pending)| pending).sum()))
    }

    /// Counts of the nodes that the plan has a step for; `steps` is their number.
    pub(super) fn reported(&self, steps: usize) -> NodeCounts {
        let counts = NodeCounts {
            pending: self.number(Count::ReportedPending),
            in_flight: self.number(Count::ReportedInFlight),
            done: self.number(Count::ReportedDone),
            failed: self.number(Count::ReportedFailed),
            left: 0,
            on_trial: self.number(Count::OnTrial),
        };
        NodeCounts { left: steps.saturating_sub(counts.total()), ..counts }
    }

    /// Remembers that a node needs attention at this time.
    pub(super) fn wake(&mut self, at: Instant, id: Id) {
        self.timers.insert((at, id));
    }

    /// The earliest time at which a node needs attention.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest node that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<Id> {
        self.next_due().filter(|at| *at <= now)?;
        self.timers.pop_first().map(|(_, id)| id)
    }

    /// Nodes that changed since the last call, some of them repeatedly.
    pub(super) fn take_changed(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.changed)
    }
}
