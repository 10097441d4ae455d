//! Timers and context of the old machine.

use std::collections::BTreeSet;

use jiff::Timestamp;

pub(super) use crate::signals::{Command, Mode};
use nodecfg_contract::names::PoolName;
use nodecfg_planning::instant::{Instant, Now};

/// Times at which a node (by its number) or a pool (`None`) needs a check.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, PoolName, Option<usize>)>);

impl Timers {
    pub(super) fn wake(&mut self, at: Instant, pool: &PoolName, node: Option<usize>) {
        self.0.insert((at, pool.clone(), node));
    }

    /// The earliest time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _, _)| *at)
    }

    /// Removes and returns the earliest timer that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<(PoolName, Option<usize>)> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, pool, node)| (pool, node))
    }
}

/// Time of an input, and the commands and timers that a pool adds while it handles the input.
pub(super) struct Context<'a> {
    /// For durations.
    pub(super) now: Instant,
    /// Time of day, for schedules, marks, and times that other programs wrote.
    pub(super) time: Timestamp,
    pub(super) commands: &'a mut Vec<Command>,
    pub(super) timers: &'a mut Timers,
}

impl<'a> Context<'a> {
    pub(super) fn new(now: Now, commands: &'a mut Vec<Command>, timers: &'a mut Timers) -> Self {
        Self { now: now.instant, time: now.time, commands, timers }
    }

    /// Time of day at a moment, for events.
    pub(super) fn time_at(&self, moment: Instant) -> Timestamp {
        Now { instant: self.now, time: self.time }.time_at(moment)
    }
}
