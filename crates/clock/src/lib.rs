//! The one module that reads the clock. Everything else is given the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The present moment.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The runtime's monotonic clock, for the deadlines of requests. Says nothing about the time of day.
#[must_use]
pub fn instant() -> Instant {
    Instant::now()
}

/// A time of day that begins now and passes as fast as is wished: an agent of the sandbox lives through a trial of ten
/// minutes in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    origin: Timestamp,
    started: Instant,
    speed: f64,
}

impl Pace {
    /// Real time.
    #[must_use]
    pub fn real() -> Self {
        Self::times(1.0)
    }

    /// Time that passes this many times faster than real. A speed that is no number above 0 counts as real.
    #[must_use]
    pub fn times(speed: f64) -> Self {
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Self { origin: now(), started: instant(), speed }
    }

    /// The present moment. At real speed that is the system's clock, whatever is done to it; otherwise it only goes forward.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        if self.speed == 1.0 {
            return now();
        }
        let passed =
            SignedDuration::try_from(self.started.elapsed().mul_f64(self.speed)).unwrap_or(SignedDuration::MAX);
        self.origin.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// What clocks outside show at this moment of its time: others compare what is written with theirs.
    #[must_use]
    pub fn outside(&self, moment: Timestamp) -> Timestamp {
        if self.speed == 1.0 {
            return moment;
        }
        let passed = SignedDuration::try_from_secs_f64(moment.duration_since(self.origin).as_secs_f64() / self.speed);
        passed.ok().and_then(|passed| self.origin.checked_add(passed).ok()).unwrap_or(moment)
    }

    /// How long really to wait for this much of its time.
    #[must_use]
    pub fn real_duration(&self, duration: Duration) -> Duration {
        Duration::try_from_secs_f64(duration.as_secs_f64() / self.speed).unwrap_or(Duration::MAX)
    }

    /// How long really to wait until this moment of its time; nothing when it has passed.
    #[must_use]
    pub fn until(&self, moment: Timestamp) -> Duration {
        let left = Duration::try_from(moment.duration_since(self.now())).unwrap_or(Duration::ZERO);
        self.real_duration(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faster_time_waits_less() {
        let pace = Pace::times(10.0);
        assert_eq!(pace.real_duration(Duration::from_secs(20)), Duration::from_secs(2));
        assert_eq!(pace.until(pace.now() - SignedDuration::from_secs(1)), Duration::ZERO);
        let ahead = pace.until(pace.now() + SignedDuration::from_secs(100));
        assert!(ahead <= Duration::from_secs(10) && ahead > Duration::from_secs(8), "{ahead:?}");
        let hour = pace.origin + SignedDuration::from_hours(1);
        assert_eq!(pace.outside(hour), pace.origin + SignedDuration::from_mins(6));
        assert_eq!(Pace::real().outside(hour), hour);
        assert_eq!(Pace::times(0.0).real_duration(Duration::from_secs(1)), Duration::from_secs(1));
    }
}
