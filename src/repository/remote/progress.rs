//! How far a fetch is: written by the thread that fetches, read by whoever waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::program::Stopper;

/// Shared between the thread that fetches and whoever waits.
#[derive(Debug, Default)]
pub struct Progress {
    /// Grows with everything that happens.
    ticks: AtomicU64,
    received: AtomicU64,
    total: AtomicU64,
    bytes: AtomicU64,
    indexed: AtomicU64,
    stopper: Stopper,
    doing: Mutex<&'static str>,
}

/// How far a fetch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Grows with everything that happens.
    pub ticks: u64,
    /// Objects that have arrived.
    pub received: u64,
    /// Objects that will; 0 until the server has said so.
    pub total: u64,
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Objects and deltas that this machine has worked through.
    pub indexed: u64,
    /// What is being done, for a sentence: "connecting".
    pub doing: &'static str,
}

impl Extent {
    /// Whether the fetch is further than it was then. A server that only says that it is still there does not count.
    #[must_use]
    pub fn got_on(&self, then: &Self) -> bool {
        let arrived = self.received > then.received || self.bytes > then.bytes;
        arrived || self.indexed > then.indexed || self.doing != then.doing
    }
}

impl Progress {
    /// Something happened.
    pub fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    /// Something else is being done.
    pub fn start(&self, doing: &'static str) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing;
        self.tick();
    }

    /// What has arrived.
    pub fn transferred(&self, received: u64, total: u64, bytes: u64) {
        self.received.store(received, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.tick();
    }

    /// What arrived has been worked through so far.
    pub fn indexed(&self, indexed: u64) {
        self.indexed.store(indexed, Ordering::Relaxed);
    }

    /// How far it is.
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

    /// The result is no longer wanted: the program that runs is killed, and the thread that waits for it ends.
    pub fn give_up(&self) {
        self.stopper.stop();
    }

    /// What ends the program that fetches.
    #[must_use]
    pub fn stopper(&self) -> &Stopper {
        &self.stopper
    }

    /// Whether the result is still wanted.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        !self.stopper.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_alone_are_no_headway() {
        let progress = Progress::default();
        progress.start("connecting");
        let before = progress.extent();
        progress.tick();
        assert!(!progress.extent().got_on(&before));
        progress.transferred(0, 9, 1);
        assert!(progress.extent().got_on(&before));
        let before = progress.extent();
        progress.transferred(0, 9, 1);
        assert!(!progress.extent().got_on(&before));
        progress.indexed(1);
        assert!(progress.extent().got_on(&before));
        let before = progress.extent();
        progress.start("downloading");
        assert!(progress.extent().got_on(&before));
    }
}
