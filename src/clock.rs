//! The one module that reads the clock. Everything else is given the time.

use jiff::Timestamp;

/// The present moment.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp::now()
}
