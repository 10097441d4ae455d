//! When to try again what failed: after 1 s, doubling to a minute, with full jitter. And the arithmetic of moments that
//! every part of the machine needs: a sum that is out of range is the end of time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The longest first delay.
const FIRST: Duration = Duration::from_secs(1);
/// The longest delay of all.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// The shortest delay: jitter may come out as nothing.
const SHORTEST: Duration = Duration::from_millis(100);

/// What failed, how often in a row, and when it may be tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Timestamp>,
}

impl Backoff {
    /// It failed once more.
    pub(super) fn fail(&mut self, rng: &mut fastrand::Rng, now: Timestamp) {
        let longest = FIRST.saturating_mul(2_u32.saturating_pow(self.failures.min(10))).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(after(now, longest.mul_f64(rng.f64()).max(SHORTEST)));
    }

    /// It worked, or there is something else to try.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether it is too early to try again.
    pub(super) fn waits(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until > now)
    }

    /// When it may be tried again, if it failed.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// The clock was set by so much.
    pub(super) fn shift(&mut self, by: SignedDuration) {
        self.until = self.until.map(|until| shifted(until, by));
    }
}

/// So much later.
pub(super) fn after(moment: Timestamp, duration: Duration) -> Timestamp {
    moment.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// How much of this time has passed since a moment; nothing when that is still to come.
pub(super) fn since(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(moment)).unwrap_or(Duration::ZERO)
}

/// A moment on a clock that was set by so much.
pub(super) fn shifted(moment: Timestamp, by: SignedDuration) -> Timestamp {
    let end = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    moment.checked_add(by).unwrap_or(end)
}

/// So long, and up to a fifth longer: agents that start together do not stay together.
pub(super) fn jittered(duration: Duration, rng: &mut fastrand::Rng) -> Duration {
    duration.saturating_add(duration.mul_f64(0.2 * rng.f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_a_minute_and_are_never_nothing() {
        let mut rng = fastrand::Rng::with_seed(1);
        for (failures, longest) in [1_u64, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
            for _ in 0..50 {
                let mut backoff = Backoff { failures: u32::try_from(failures).unwrap(), until: None };
                backoff.fail(&mut rng, Timestamp::UNIX_EPOCH);
                let until = backoff.until().unwrap();
                assert!(backoff.waits(Timestamp::UNIX_EPOCH) && !backoff.waits(until));
                assert!(until <= after(Timestamp::UNIX_EPOCH, Duration::from_secs(longest)), "{failures}: {until}");
            }
        }
        let mut backoff = Backoff { failures: u32::MAX, until: None };
        backoff.fail(&mut rng, Timestamp::MAX);
        assert_eq!(backoff.until(), Some(Timestamp::MAX));
    }
}
