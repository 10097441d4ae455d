//! The only reader of the clock, and a clock that can be simulated. All other code receives the time as a value.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use simulation::Simulation;

mod simulation;

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

/// Time since the start of this machine, with the time that it was suspended, which [`instant`] does not count. It never
/// steps. For what expires on other machines.
#[must_use]
pub fn uptime() -> Duration {
    // CLOCK_MONOTONIC of macOS counts that time, too.
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    // The kernel returns no negative time.
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// A clock: that of the system, or a simulated one that starts at the present time. A sandbox agent can pass a trial of
/// ten minutes in seconds, and a busy machine slows its time down instead of making it late.
#[derive(Debug, Clone)]
pub struct ScaledClock(Option<Simulated>);

#[derive(Debug, Clone)]
struct Simulated {
    origin: Timestamp,
    /// Speed of this clock on an idle machine.
    speed: f64,
    /// Simulated time in a second of this clock.
    second: Duration,
    simulation: Arc<Simulation>,
}

impl ScaledClock {
    /// The clock of the system.
    #[must_use]
    pub const fn real() -> Self {
        Self(None)
    }

    /// Clock at most at this multiple of real speed, for tasks of the current runtime. It stands still while they work.
    /// A speed that is not a number above 0 counts as 1.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[must_use]
    pub fn simulated(speed: f64) -> Self {
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        let second = Duration::from_secs(1);
        Self(Some(Simulated { origin: now(), speed, second, simulation: Simulation::start(speed) }))
    }

    /// Clock that starts at the present time, has real speed on an idle machine, and stands still whenever this one does.
    /// For limits in real time on what depends on this clock.
    #[must_use]
    pub fn at_real_speed(&self) -> Self {
        Self(self.0.as_ref().map(|clock| {
            let second = clock.second.mul_f64(clock.speed);
            let passed = clock.simulation.passed().div_duration_f64(second);
            let passed = SignedDuration::try_from_secs_f64(passed).unwrap_or_default();
            let origin = now().checked_sub(passed).unwrap_or(clock.origin);
            Simulated { origin, speed: 1.0, second, simulation: Arc::clone(&clock.simulation) }
        }))
    }

    /// Time since the start of this clock, by a clock that never steps. For durations.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(instant);
        match &self.0 {
            None => instant().saturating_duration_since(*START),
            Some(simulated) => {
                let seconds = simulated.simulation.passed().div_duration_f64(simulated.second);
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
        }
    }

    /// Present time of this clock. The system's includes its adjustments; a simulated one is monotonic.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            None => now(),
            Some(simulated) => {
                let passed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
                simulated.origin.checked_add(passed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Real time at which this clock shows `moment`, for timestamps that other programs compare with their clocks.
    #[must_use]
    pub fn to_real_time(&self, moment: Timestamp) -> Timestamp {
        let Some(simulated) = &self.0 else { return moment };
        let ahead = moment.duration_since(self.now()).as_secs_f64() / simulated.speed;
        let ahead = SignedDuration::try_from_secs_f64(ahead).ok();
        ahead.and_then(|ahead| now().checked_add(ahead).ok()).unwrap_or(moment)
    }

    /// Shortest real duration of a duration of this clock.
    #[must_use]
    pub fn real_duration(&self, duration: Duration) -> Duration {
        let speed = self.0.as_ref().map_or(1.0, |simulated| simulated.speed);
        Duration::try_from_secs_f64(duration.as_secs_f64() / speed).unwrap_or(Duration::MAX)
    }

    /// Completes once this clock shows `moment`, at once if that has passed.
    pub fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + use<> {
        let left = Duration::try_from(moment.duration_since(self.now())).unwrap_or_default();
        let simulated = self.0.as_ref().map(|simulated| {
            let seconds = moment.duration_since(simulated.origin).as_secs_f64() * simulated.second.as_secs_f64();
            simulated.simulation.sleep_until(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
        });
        async move {
            match simulated {
                Some(sleep) => sleep.await,
                None => tokio::time::sleep(left).await,
            }
        }
    }

    /// Completes after this duration of this clock.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        let simulated = self.0.as_ref().map(|simulated| {
            let seconds = duration.as_secs_f64() * simulated.second.as_secs_f64();
            let left = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            simulated.simulation.sleep_until(simulated.simulation.passed().saturating_add(left))
        });
        async move {
            match simulated {
                Some(sleep) => sleep.await,
                None => tokio::time::sleep(duration).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn faster_clock_waits_less() {
        let clock = ScaledClock::simulated(10.0);
        assert_eq!(clock.real_duration(Duration::from_secs(20)), Duration::from_secs(2));
        let (begun, instant) = (clock.now(), instant());
        clock.sleep_until(begun - SignedDuration::from_secs(1)).await;
        clock.sleep(Duration::from_secs(2)).await;
        assert!(clock.now() >= begun + SignedDuration::from_secs(2));
        assert!(instant.elapsed() >= Duration::from_millis(190), "{:?}", instant.elapsed());
        let hour = clock.to_real_time(clock.now() + SignedDuration::from_hours(1)).duration_since(now());
        assert!(hour <= SignedDuration::from_mins(6) && hour > SignedDuration::from_secs(350), "{hour:?}");
        let slow = clock.at_real_speed();
        let begun = (slow.now(), clock.now());
        slow.sleep(Duration::from_millis(100)).await;
        let passed = (slow.now().duration_since(begun.0), clock.now().duration_since(begun.1));
        assert!(
            passed.0 >= SignedDuration::from_millis(99) && passed.1 >= SignedDuration::from_millis(999),
            "{passed:?}"
        );
        assert_eq!(slow.real_duration(Duration::from_secs(20)), Duration::from_secs(20));
        let real = ScaledClock::real();
        assert_eq!(real.to_real_time(begun.0), begun.0);
        assert_eq!(real.real_duration(Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(ScaledClock::simulated(0.0).real_duration(Duration::from_secs(1)), Duration::from_secs(1));
    }

    #[tokio::test]
    async fn clocks_for_durations_advance_with_the_time() {
        let before = (ScaledClock::real().elapsed(), uptime());
        ScaledClock::real().sleep(Duration::from_millis(20)).await;
        let after = (ScaledClock::real().elapsed(), uptime());
        // The kernel's clocks differ in resolution.
        let least = Duration::from_millis(19);
        assert!(after.0 - before.0 >= least && after.1 - before.1 >= least, "{before:?} {after:?}");
    }
}
