//! The one module that reads the clock. Everything else is given the time.

use jiff::Timestamp;

/// The present moment.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The runtime's monotonic clock, for the deadlines of requests. Says nothing about the time of day.
#[must_use]
pub fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
