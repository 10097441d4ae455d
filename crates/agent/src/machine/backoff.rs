//! Retry delays (1 s, doubling to 1 min, with full jitter), and timestamp arithmetic that saturates.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Upper bound of the first delay.
const FIRST: Duration = Duration::from_secs(1);
/// Upper bound of every delay.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// Lower bound of every delay, since full jitter may return zero.
const SHORTEST: Duration = Duration::from_millis(100);

/// Random number generator for jitter: SplitMix64 (Steele, Lea and Flood, 2014). Part of the state, so that a step
/// depends on nothing but its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JitterRng(pub(super) u64);

impl JitterRng {
    /// Returns the next number in [0, 1).
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let top = u32::try_from((bits ^ (bits >> 31)) >> 32).unwrap_or(u32::MAX);
        f64::from(top) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Consecutive failures and the time of the next attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Timestamp>,
}

impl Backoff {
    /// Records a failure.
    pub(super) fn fail(&mut self, jitter: &mut JitterRng, now: Timestamp) {
        let longest = FIRST.saturating_mul(2_u32.saturating_pow(self.failures.min(10))).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(after(now, longest.mul_f64(jitter.fraction()).max(SHORTEST)));
    }

    /// Delays the next attempt until this time.
    pub(super) fn hold(&mut self, until: Timestamp) {
        self.until = Some(until);
    }

    /// Forgets all failures, after success or when the operation changes.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Reports whether it is too early for the next attempt.
    pub(super) fn waits(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until > now)
    }

    /// Time of the next attempt after a failure.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Adjusts the time after a change of the clock.
    pub(super) fn shift(&mut self, by: SignedDuration) {
        self.until = self.until.map(|until| shifted(until, by));
    }
}

/// Time plus duration, at most the latest representable time.
pub(super) fn after(moment: Timestamp, duration: Duration) -> Timestamp {
    moment.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// Time elapsed since `moment`; zero if it is in the future.
pub(super) fn since(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(moment)).unwrap_or(Duration::ZERO)
}

/// Time after a change of the clock, clamped to the representable range.
pub(super) fn shifted(moment: Timestamp, by: SignedDuration) -> Timestamp {
    let end = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    moment.checked_add(by).unwrap_or(end)
}

/// Duration plus up to a fifth, so that agents that start together spread out.
pub(super) fn jittered(duration: Duration, jitter: &mut JitterRng) -> Duration {
    duration.saturating_add(duration.mul_f64(0.2 * jitter.fraction()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the reference implementation for the seed 1234567, upper halves.
    #[test]
    fn jitter_matches_reference_splitmix64() {
        let mut jitter = JitterRng(1_234_567);
        for bits in [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973] {
            let upper = u32::try_from(bits >> 32).unwrap();
            assert_eq!(jitter.fraction(), f64::from(upper) / 4_294_967_296.0);
        }
    }

    #[test]
    fn limits_delay_to_doubling_bound_of_at_most_one_minute() {
        let mut jitter = JitterRng(1);
        for (failures, longest) in [1_u64, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
            let bound = Duration::from_secs(longest);
            let delays: Vec<Duration> = (0..50)
                .map(|_| {
                    let mut backoff = Backoff { failures: u32::try_from(failures).unwrap(), until: None };
                    backoff.fail(&mut jitter, Timestamp::UNIX_EPOCH);
                    assert_eq!(backoff.failures, u32::try_from(failures).unwrap() + 1);
                    let until = backoff.until().unwrap();
                    assert!(backoff.waits(Timestamp::UNIX_EPOCH) && !backoff.waits(until));
                    since(Timestamp::UNIX_EPOCH, until)
                })
                .collect();
            let (least, most) = (*delays.iter().min().unwrap(), *delays.iter().max().unwrap());
            assert!(least >= SHORTEST && most <= bound, "{failures}: {least:?} to {most:?}");
            // Full jitter spreads over the whole range.
            assert!(least < bound / 4 && most > bound * 3 / 4, "{failures}: {least:?} to {most:?}");
        }
        let mut backoff = Backoff { failures: u32::MAX, until: None };
        backoff.fail(&mut jitter, Timestamp::MAX);
        assert_eq!(backoff.until(), Some(Timestamp::MAX));
    }
}
