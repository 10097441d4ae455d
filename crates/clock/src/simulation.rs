//! Simulated time, which advances with the work done: a busy machine slows it down.
//!
//! A thread advances the time. It waits until every worker of the runtime was without work, and until the tasks of all
//! timers that are due have run. So a task that waits for the processor never finds that too much time has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeMetrics};

/// Longest real time between two advances of an idle clock.
const TICK: Duration = Duration::from_millis(5);
/// Real time between two looks at a runtime that has work.
const BUSY_PAUSE: Duration = Duration::from_micros(200);
/// Simulated time by which a timer may be late, so that timers in quick succession share one advance.
const STEP: Duration = Duration::from_millis(200);
/// Longest real time that one advance stands for. The rest is lost: the clock is slower than its speed.
const LONGEST: Duration = Duration::from_millis(10);

/// A simulated clock. Durations count from its start.
#[derive(Debug)]
pub(crate) struct Simulation {
    speed: f64,
    state: Mutex<Timeline>,
    /// Notified when the next timer is earlier than before.
    earlier: Condvar,
}

#[derive(Debug)]
struct Timeline {
    passed: Duration,
    /// Real time that `passed` stands for.
    since: Instant,
    timers: BTreeMap<(Duration, u64), Waker>,
    /// Timers that are due and whose tasks have not run since.
    due: BTreeSet<u64>,
    next_timer: u64,
}

impl Simulation {
    /// Starts the clock of the current runtime. Its thread ends with the last reference.
    pub(crate) fn start(speed: f64) -> Arc<Self> {
        let state = Timeline {
            passed: Duration::ZERO,
            since: Instant::now(),
            timers: BTreeMap::new(),
            due: BTreeSet::new(),
            next_timer: 0,
        };
        let simulation = Arc::new(Self { speed, state: Mutex::new(state), earlier: Condvar::new() });
        let (clock, workers) = (Arc::downgrade(&simulation), Workers::new(Handle::current().metrics()));
        std::thread::spawn(move || run(&clock, workers));
        simulation
    }

    fn lock(&self) -> MutexGuard<'_, Timeline> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn passed(&self) -> Duration {
        self.lock().passed
    }

    /// Completes once this much time has passed since the start.
    pub(crate) fn sleep_until(self: &Arc<Self>, at: Duration) -> Sleep {
        Sleep { simulation: Arc::clone(self), at, timer: None }
    }

    /// Waits until the next timer may be due.
    fn wait(&self) {
        let state = self.lock();
        let left = state.timers.first_key_value().map_or(TICK, |((at, _), _)| {
            let real = at.saturating_sub(state.passed).div_f64(self.speed);
            real.saturating_sub(state.since.elapsed()).min(TICK)
        });
        if !left.is_zero() {
            // The caller looks at the timers whatever the reason of the end.
            drop(self.earlier.wait_timeout(state, left));
        }
    }

    /// Advances the time, at most to the next timer. Returns false if tasks of due timers have not run yet.
    fn advance(&self) -> bool {
        let mut state = self.lock();
        if !state.due.is_empty() {
            return false;
        }
        let now = Instant::now();
        let backlog = now.saturating_duration_since(state.since).min(LONGEST);
        let mut passed = state.passed + backlog.mul_f64(self.speed);
        if let Some(((next, _), _)) = state.timers.first_key_value() {
            passed = passed.min((*next).max(state.passed) + STEP);
        }
        let used = (passed - state.passed).div_f64(self.speed).min(backlog);
        state.since = now - (backlog - used);
        state.passed = passed;
        let mut woken = Vec::new();
        while let Some(timer) = state.timers.first_entry().filter(|timer| timer.key().0 <= passed) {
            let ((_, number), waker) = timer.remove_entry();
            state.due.insert(number);
            woken.push(waker);
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        true
    }
}

fn run(clock: &Weak<Simulation>, mut workers: Workers) {
    while let Some(clock) = clock.upgrade() {
        clock.wait();
        if workers.were_idle() && clock.advance() {
            workers.advanced();
        } else {
            drop(clock);
            std::thread::sleep(BUSY_PAUSE);
        }
    }
}

/// The workers of a runtime. Each counts when it parks for lack of work, and when it resumes: an odd count is that of a
/// parked worker.
struct Workers {
    metrics: RuntimeMetrics,
    /// Counts at the last advance.
    counts: Vec<u64>,
}

impl Workers {
    fn new(metrics: RuntimeMetrics) -> Self {
        let mut workers = Self { metrics, counts: Vec::new() };
        workers.advanced();
        workers
    }

    fn advanced(&mut self) {
        self.counts =
            (0..self.metrics.num_workers()).map(|worker| self.metrics.worker_park_unpark_count(worker)).collect();
    }

    /// Reports whether each worker was without work at some time since the last advance.
    fn were_idle(&self) -> bool {
        self.counts.iter().enumerate().all(|(worker, before)| {
            let count = self.metrics.worker_park_unpark_count(worker);
            count % 2 == 1 || count > before + 1
        })
    }
}

/// Future that completes at a simulated time.
pub(crate) struct Sleep {
    simulation: Arc<Simulation>,
    at: Duration,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.simulation.lock();
        if state.passed >= this.at {
            if let Some(timer) = this.timer.take() {
                state.remove(this.at, timer);
            }
            return Poll::Ready(());
        }
        let timer = *this.timer.get_or_insert(state.next_timer);
        state.next_timer = state.next_timer.max(timer + 1);
        state.timers.insert((this.at, timer), context.waker().clone());
        let is_first = state.timers.first_key_value().is_some_and(|(key, _)| *key == (this.at, timer));
        drop(state);
        if is_first {
            this.simulation.earlier.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.simulation.lock().remove(self.at, timer);
        }
    }
}

impl Timeline {
    fn remove(&mut self, at: Duration, timer: u64) {
        self.timers.remove(&(at, timer));
        self.due.remove(&timer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_stops_the_time() {
        let clock = Simulation::start(1000.0);
        // The task of a timer that is due, and a task that a timer knows nothing of.
        for woken in [true, false] {
            let begun = clock.passed();
            if woken {
                clock.sleep_until(begun + Duration::from_secs(10)).await;
            }
            let other = Arc::clone(&clock);
            let worked = tokio::spawn(async move {
                if woken {
                    other.sleep_until(other.passed() + Duration::from_secs(10)).await;
                }
                let before = other.passed();
                std::thread::sleep(Duration::from_millis(300));
                other.passed() - before
            });
            // 300 s at this speed, if the time were not stopped.
            let passed = worked.await.unwrap();
            // A worker that was idle since the last advance permits one more.
            assert!(passed <= LONGEST.mul_f64(2000.0), "{passed:?}");
        }
    }

    #[tokio::test]
    async fn timers_complete_in_order_at_the_speed() {
        let clock = Simulation::start(100.0);
        let begun = Instant::now();
        let mut order = Vec::new();
        for seconds in [1, 2, 3, 3, 10, 9] {
            clock.sleep_until(Duration::from_secs(seconds)).await;
            order.push(clock.passed());
        }
        assert!(order.is_sorted(), "{order:?}");
        assert!(clock.passed() >= Duration::from_secs(10));
        assert!(begun.elapsed() >= Duration::from_millis(90), "{:?}", begun.elapsed());
        // An idle clock of this speed advances by seconds.
        let clock = Simulation::start(1000.0);
        for at in (7..60).step_by(7).map(Duration::from_secs) {
            clock.sleep_until(at).await;
            let late = clock.passed() - at;
            assert!(late <= Duration::from_millis(200), "{late:?}");
        }
    }

    #[tokio::test]
    async fn dropped_timer_does_not_hold_the_time() {
        let clock = Simulation::start(1000.0);
        let mut sleeping = Box::pin(clock.sleep_until(Duration::from_secs(1)));
        assert!(futures_poll(&mut sleeping).is_pending());
        // The timer becomes due, and nobody polls it.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let held = clock.passed();
        assert!(held < Duration::from_secs(2), "{held:?}");
        drop(sleeping);
        clock.sleep_until(Duration::from_secs(20)).await;
        assert!(clock.lock().timers.is_empty() && clock.lock().due.is_empty());
    }

    fn futures_poll(sleeping: &mut Pin<Box<Sleep>>) -> Poll<()> {
        sleeping.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }
}
