//! State of the drain of one node: its evictions, and the volumes that are still attached.

use crate::evictions::Evictions;
use crate::instant::Instant;

/// Drain of a node since the request of its mark.
#[derive(Debug)]
pub(super) struct Draining {
    pub(super) since: Instant,
    pub(super) evictions: Evictions,
    pub(super) volumes: VolumeCount,
}

/// Number of volumes that are attached to a node.
#[derive(Debug, Clone, Copy)]
pub(super) enum VolumeCount {
    Unknown,
    /// The request is unanswered.
    Sent,
    /// The number, and the time from which it is counted again.
    Known {
        volumes: usize,
        again: Instant,
    },
}

impl Draining {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, evictions: Evictions::new(), volumes: VolumeCount::Unknown }
    }

    /// The next time after `now` at which the drain continues without an event.
    pub(super) fn wakes(&self, now: Instant) -> Option<Instant> {
        let again = match self.volumes {
            VolumeCount::Known { again, .. } => Some(again),
            VolumeCount::Unknown | VolumeCount::Sent => None,
        };
        self.evictions.next_wake(now).into_iter().chain(again.filter(|again| *again > now)).min()
    }
}
