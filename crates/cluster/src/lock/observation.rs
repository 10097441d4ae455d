//! Time in this module comes from the clocks of this machine only. Two reconcilers whose clocks differ must not both
//! hold a lock, so a time that another machine wrote never decides.
//!
//! The rule is that of client-go's leader election (`observedTime` in k8s.io/client-go/tools/leaderelection): a Lease is
//! expired after this process has seen it unchanged for its duration. A holder counts the same duration from before it
//! sends a renewal. It therefore stops writing before any observer takes the lock.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::LeaseView;

/// A moment by the clocks of this machine. The runtime's may stand still while the machine is suspended, which its uptime
/// counts. Neither steps, unlike the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    uptime: Duration,
    /// Time of day, for display.
    pub(super) time: Timestamp,
}

impl Moment {
    /// The present moment.
    pub(super) fn now() -> Self {
        Self { instant: nodecfg_clock::instant(), uptime: nodecfg_clock::uptime(), time: nodecfg_clock::now() }
    }

    /// The moment this much later.
    pub(super) fn after(self, duration: Duration) -> Self {
        let time = SignedDuration::try_from(duration).ok().and_then(|duration| self.time.checked_add(duration).ok());
        Self { instant: self.instant + duration, uptime: self.uptime + duration, time: time.unwrap_or(self.time) }
    }

    /// True when either clock shows that this moment has come.
    pub(super) fn has_come(self, now: Self) -> bool {
        now.instant >= self.instant || now.uptime >= self.uptime
    }
}

/// The Lease of another client as this process has seen it.
#[derive(Debug, Default)]
pub(super) struct Observation {
    seen: Option<(LeaseView, Instant)>,
    renewed: bool,
}

impl Observation {
    /// Stores a Lease whose read ended at `now`. Returns for how long this process has seen it unchanged.
    pub(super) fn see(&mut self, lease: &LeaseView, now: Instant) -> Duration {
        // Orders change annotations and version, and renew nothing.
        let lease = LeaseView { annotations: BTreeMap::new(), resource_version: String::new(), ..lease.clone() };
        match &self.seen {
            Some((seen, since)) if *seen == lease => return now.saturating_duration_since(*since),
            Some(_) => self.renewed = true,
            None => {}
        }
        self.seen = Some((lease, now));
        Duration::ZERO
    }

    /// True when the Lease changed while this process observed it, which proves a living holder.
    pub(super) fn renewed(&self) -> bool {
        self.renewed
    }
}

#[cfg(test)]
#[path = "observation_tests.rs"]
mod tests;
