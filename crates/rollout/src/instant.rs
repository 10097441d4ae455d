//! The two clocks of a rollout as values.
//!
//! The time of day may step: an administrator or NTP sets it. So durations are measured with a clock that never steps.
//! The time of day is for schedules, for output, and for comparisons with times that other programs wrote.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodecfg_fleet::schedule::{earlier, later};

/// Moment of a clock that never steps, which is unrelated to the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// The start of the clock.
    pub const START: Self = Self(Duration::ZERO);
    /// A moment that never comes.
    pub const NEVER: Self = Self(Duration::MAX);

    /// The moment this long after the start of the clock.
    #[must_use]
    pub const fn after_start(passed: Duration) -> Self {
        Self(passed)
    }

    /// The moment after a duration.
    #[must_use]
    pub const fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// The duration since an earlier moment; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// The present by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For durations: time limits, soaks, and the ages of answers.
    pub instant: Instant,
    /// Time of day.
    pub time: Timestamp,
}

impl Now {
    /// The start of both clocks.
    pub const START: Self = Self { instant: Instant::START, time: Timestamp::UNIX_EPOCH };

    /// Time of day at a moment, if the time of day does not step until then.
    #[must_use]
    pub(crate) fn time_at(self, moment: Instant) -> Timestamp {
        match moment >= self.instant {
            true => later(self.time, moment.since(self.instant)),
            false => earlier(self.time, self.instant.since(moment)),
        }
    }

    /// The present once the first clock shows this moment.
    #[must_use]
    pub fn at(self, moment: Instant) -> Self {
        Self { instant: moment, time: self.time_at(moment) }
    }

    /// The present this many seconds later.
    #[must_use]
    pub fn after(self, seconds: i64) -> Self {
        self.at(self.instant.after(Duration::from_secs(seconds.unsigned_abs())))
    }

    /// The present after the time of day stepped by this many seconds.
    #[must_use]
    pub fn stepped(self, seconds: i64) -> Self {
        Self { time: self.time + SignedDuration::from_secs(seconds), ..self }
    }
}
