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

/// Chance as a value: SplitMix64 (Steele, Lea and Flood, 2014). Jitter asks for no more, and the machine names no crate that
/// could also seed itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    /// The next number from 0 to below 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let top = u32::try_from((bits ^ (bits >> 31)) >> 32).unwrap_or(u32::MAX);
        f64::from(top) / (f64::from(u32::MAX) + 1.0)
    }
}

/// What failed, how often in a row, and when it may be tried again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Timestamp>,
}

impl Backoff {
    /// It failed once more.
    pub(super) fn fail(&mut self, chance: &mut Chance, now: Timestamp) {
        let longest = FIRST.saturating_mul(2_u32.saturating_pow(self.failures.min(10))).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(after(now, longest.mul_f64(chance.fraction()).max(SHORTEST)));
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
pub(super) fn jittered(duration: Duration, chance: &mut Chance) -> Duration {
    duration.saturating_add(duration.mul_f64(0.2 * chance.fraction()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the reference implementation for the seed 1234567, their upper halves.
    #[test]
    fn chance_is_as_published() {
        let mut chance = Chance(1_234_567);
        for bits in [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973] {
            let upper = u32::try_from(bits >> 32).unwrap();
            assert_eq!(chance.fraction(), f64::from(upper) / 4_294_967_296.0);
        }
    }

    #[test]
    fn delays_double_to_a_minute_and_are_never_nothing() {
        let mut chance = Chance(1);
        for (failures, longest) in [1_u64, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
            for _ in 0..50 {
                let mut backoff = Backoff { failures: u32::try_from(failures).unwrap(), until: None };
                backoff.fail(&mut chance, Timestamp::UNIX_EPOCH);
                let until = backoff.until().unwrap();
                assert!(backoff.waits(Timestamp::UNIX_EPOCH) && !backoff.waits(until));
                assert!(until <= after(Timestamp::UNIX_EPOCH, Duration::from_secs(longest)), "{failures}: {until}");
            }
        }
        let mut backoff = Backoff { failures: u32::MAX, until: None };
        backoff.fail(&mut chance, Timestamp::MAX);
        assert_eq!(backoff.until(), Some(Timestamp::MAX));
    }
}
