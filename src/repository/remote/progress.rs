//! Progress of a fetch, shared between the fetching thread and the waiting one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::program::Stopper;

/// Shared state of a fetch.
#[derive(Debug, Default)]
pub struct Progress {
    /// Incremented by every event.
    ticks: AtomicU64,
    received: AtomicU64,
    total: AtomicU64,
    bytes: AtomicU64,
    indexed: AtomicU64,
    stopper: Stopper,
    doing: Mutex<&'static str>,
}

/// A snapshot of the progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Incremented by every event.
    pub ticks: u64,
    /// Received objects.
    pub received: u64,
    /// Objects in total. 0 until the server reports the number.
    pub total: u64,
    /// Received bytes.
    pub bytes: u64,
    /// Processed objects and deltas.
    pub indexed: u64,
    /// The current operation, as in "connecting".
    pub doing: &'static str,
}

impl Extent {
    /// Reports whether the fetch made progress since `then`. Keep-alive messages of the server do not count.
    #[must_use]
    pub fn has_progressed_since(&self, then: &Self) -> bool {
        let arrived = self.received > then.received || self.bytes > then.bytes;
        arrived || self.indexed > then.indexed || self.doing != then.doing
    }
}

impl Progress {
    /// Counts an event.
    pub fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts another operation.
    pub fn start(&self, doing: &'static str) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing;
        self.tick();
    }

    /// Stores the received amounts.
    pub fn transferred(&self, received: u64, total: u64, bytes: u64) {
        self.received.store(received, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.tick();
    }

    /// Stores the number of processed objects and deltas.
    pub fn indexed(&self, indexed: u64) {
        self.indexed.store(indexed, Ordering::Relaxed);
    }

    /// The current progress.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent {
            ticks: self.ticks.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            indexed: self.indexed.load(Ordering::Relaxed),
            doing: *self.doing.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Stops the running program, which ends the fetching thread.
    pub fn cancel(&self) {
        self.stopper.stop();
    }

    /// The stopper of the fetching program.
    #[must_use]
    pub fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// Reports whether the fetch was not stopped.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.stopper.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alives_are_no_progress() {
        let progress = Progress::default();
        progress.start("connecting");
        let before = progress.extent();
        progress.tick();
        assert!(!progress.extent().has_progressed_since(&before));
        progress.transferred(0, 9, 1);
        assert!(progress.extent().has_progressed_since(&before));
        let before = progress.extent();
        progress.transferred(0, 9, 1);
        assert!(!progress.extent().has_progressed_since(&before));
        progress.indexed(1);
        assert!(progress.extent().has_progressed_since(&before));
        let before = progress.extent();
        progress.start("downloading");
        assert!(progress.extent().has_progressed_since(&before));
    }
}
