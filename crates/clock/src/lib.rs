//! The only reader of the clock, and a clock with adjustable speed. All other code receives the time as a value.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The present time.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Monotonic clock of the runtime, for deadlines of requests. It is unrelated to the time of day.
#[must_use]
pub fn instant() -> Instant {
    Instant::now()
}

/// Clock that starts at the present time and runs at a given speed. A sandbox agent can pass a trial of ten minutes
/// in seconds.
#[derive(Debug, Clone, Copy)]
pub struct ScaledClock {
    origin: Timestamp,
    started: Instant,
    speed: f64,
}

impl ScaledClock {
    /// Clock at real speed.
    #[must_use]
    pub fn real() -> Self {
        Self::times(1.0)
    }

    /// Clock at this multiple of real speed. A speed that is not a number above 0 counts as 1.
    #[must_use]
    pub fn times(speed: f64) -> Self {
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Self { origin: now(), started: instant(), speed }
    }

    /// Present time of this clock. At real speed this is the system clock, including its adjustments; otherwise it is
    /// monotonic.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        if self.speed == 1.0 {
            return now();
        }
        let passed =
            SignedDuration::try_from(self.started.elapsed().mul_f64(self.speed)).unwrap_or(SignedDuration::MAX);
        self.origin.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Real time at which this clock shows `moment`, for timestamps that other programs compare with their clocks.
    #[must_use]
    pub fn to_real_time(&self, moment: Timestamp) -> Timestamp {
        if self.speed == 1.0 {
            return moment;
        }
        let passed = SignedDuration::try_from_secs_f64(moment.duration_since(self.origin).as_secs_f64() / self.speed);
        passed.ok().and_then(|passed| self.origin.checked_add(passed).ok()).unwrap_or(moment)
    }

    /// Real duration of a duration of this clock.
    #[must_use]
    pub fn real_duration(&self, duration: Duration) -> Duration {
        Duration::try_from_secs_f64(duration.as_secs_f64() / self.speed).unwrap_or(Duration::MAX)
    }

    /// Real duration until this clock shows `moment`; zero if it has passed.
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
    fn faster_clock_waits_less() {
        let pace = ScaledClock::times(10.0);
        assert_eq!(pace.real_duration(Duration::from_secs(20)), Duration::from_secs(2));
        assert_eq!(pace.until(pace.now() - SignedDuration::from_secs(1)), Duration::ZERO);
        let ahead = pace.until(pace.now() + SignedDuration::from_secs(100));
        assert!(ahead <= Duration::from_secs(10) && ahead > Duration::from_secs(8), "{ahead:?}");
        let hour = pace.origin + SignedDuration::from_hours(1);
        assert_eq!(pace.to_real_time(hour), pace.origin + SignedDuration::from_mins(6));
        assert_eq!(ScaledClock::real().to_real_time(hour), hour);
        assert_eq!(ScaledClock::times(0.0).real_duration(Duration::from_secs(1)), Duration::from_secs(1));
    }
}
