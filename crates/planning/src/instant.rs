//! Arithmetic of timestamps that saturates.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The time after a duration.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| now.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// The time before a duration.
pub(crate) fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| now.checked_sub(by).ok()).unwrap_or(Timestamp::MIN)
}

/// The duration since a time; zero if the time is in the future.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
