//! Simulated events, and their distributions.

use proptest::prelude::*;

/// A simulated event, with the index of its node.
#[derive(Debug, Clone, Copy)]
pub(super) enum SimEvent {
    /// Answers the request of this index, counted from the oldest: 0 refused, 1 and 2 conflict, blocked or lost,
    /// otherwise applied.
    Answer(usize, u8),
    /// Applies the request of this index, after which its node runs its configuration or refuses it.
    Finish(usize, bool),
    /// A node runs the configuration that it points at, or refuses it.
    Follow(usize, bool),
    Ready(usize, bool),
    /// A heartbeat without a change.
    Heartbeat(usize),
    /// A person cordons or uncordons a node.
    Cordon(usize, bool),
    /// Another program claims or releases a node.
    Maintain(usize, bool),
    /// The values of a node become unreadable or readable.
    Unreadable(usize, bool),
    /// A finalizer delays the deletion of a node.
    Delete(usize),
    Vanish(usize),
    /// Another client removes the mark of a node.
    Unmark(usize),
    /// A pod that is being deleted ends.
    PodEnds(usize),
    /// A pod that was bound before the mark starts on a node.
    PodStarts(usize),
    /// The gates are answered.
    Gate(Says),
    Wait(i64),
    /// The time of day steps.
    StepClock(i64),
    Interrupt,
    /// An operator aborts the rollout with a rollback.
    RollBackAll,
    /// An operator pauses the pool `a`.
    Pause,
}

/// Kind of an answer about a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Passes,
    Blocks,
    Unknown,
}

/// An event of any node.
pub(super) fn of_node(event: fn(usize) -> SimEvent) -> impl Strategy<Value = SimEvent> {
    (0..100_usize).prop_map(event)
}

/// An event of any node that turns something on with this probability, and off otherwise.
pub(super) fn switch(on: f64, event: fn(usize, bool) -> SimEvent) -> impl Strategy<Value = SimEvent> {
    (0..100_usize, prop::bool::weighted(on)).prop_map(move |(index, on)| event(index, on))
}

/// An event of the clock with a number of seconds.
pub(super) fn clock(seconds: std::ops::Range<i64>, event: fn(i64) -> SimEvent) -> impl Strategy<Value = SimEvent> {
    seconds.prop_map(event)
}

pub(super) fn step_clock() -> impl Strategy<Value = SimEvent> {
    clock(-7200..7200, SimEvent::StepClock)
}

/// An order of an operator, or a signal.
pub(super) fn stop() -> impl Strategy<Value = SimEvent> {
    prop_oneof![Just(SimEvent::Interrupt), Just(SimEvent::RollBackAll), Just(SimEvent::Pause)]
}
