//! A kubelet process of today and the service manager that keeps it running, without any IO: what `systemctl restart
//! kubelet` does, what `/healthz` answers, and what the kubelet then says of its Node.
//!
//! It loads the configuration that it finds when it starts and exits when it would refuse it; the service manager starts it
//! again 10 s later (`RestartSec=10` of kubeadm's unit), for ever. Time is given, and simulated.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::kubelets::{Fault, Ready};

/// How long `systemctl restart kubelet` takes.
const COMMAND: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(600));
/// From there until `/healthz` answers, or the process has exited.
const START: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// From the exit of the process to the next one.
const RESTART: Duration = Duration::from_secs(10);
/// How often a kubelet that runs renews its Lease.
const RENEW: SignedDuration = SignedDuration::from_secs(10);
/// How long a kubelet lives that dies in its trial.
const LIFE: Duration = Duration::from_secs(15);
/// How long the node lifecycle controller waits before it calls a silent node's readiness unknown.
const NODE_GRACE: Duration = Duration::from_secs(40);
/// From the start to the first flap, and from one to the next.
const FLAP: Duration = Duration::from_secs(20);

/// A configuration file, as it was read.
pub(super) type Text = Arc<[u8]>;

/// What a kubelet writes to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Its Node's Ready condition.
    Ready {
        /// Its state.
        ready: Ready,
        /// Whether it differs from the last one.
        changed: bool,
    },
    /// Its Lease.
    Renew,
    /// The Event that it has started.
    Started,
}

/// Where the process is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Life {
    /// It answers.
    Up { since: Timestamp },
    /// It is loading; at that moment it answers, or it has exited with this reason.
    Starting { until: Timestamp, outcome: Result<(), String> },
    /// It has exited for this reason; the service manager starts it again at that moment.
    Exited { reason: String, again: Timestamp },
    /// The host is down.
    Off,
}

/// The kubelet of one node.
#[derive(Debug)]
pub(super) struct Process {
    fault: Option<Fault>,
    rng: fastrand::Rng,
    life: Life,
    /// What it was started with.
    runs: Text,
    /// The configuration that the node was provisioned with, and the one that it ran when it began to misbehave: on those it
    /// does not.
    trusted: [Text; 2],
    /// Since when nothing has been heard of it.
    silent: Option<Timestamp>,
    ready: Ready,
    /// When readiness changes next by a fault.
    turn: Option<Timestamp>,
    heartbeat: Option<Duration>,
    next_heartbeat: Option<Timestamp>,
    /// What was done and is to be written.
    deeds: Vec<Deed>,
}

impl Process {
    /// A kubelet that has been running on this configuration.
    pub(super) fn new(
        runs: Text,
        fault: Option<Fault>,
        heartbeat: Option<Duration>,
        mut rng: fastrand::Rng,
        now: Timestamp,
    ) -> Self {
        let next_heartbeat = heartbeat.map(|period| now + period.mul_f64(rng.f64()));
        let mut process = Self {
            fault: None,
            rng,
            life: Life::Up { since: now },
            trusted: [Arc::clone(&runs), Arc::clone(&runs)],
            runs,
            silent: None,
            ready: Ready::Yes,
            turn: None,
            heartbeat,
            next_heartbeat,
            deeds: vec![Deed::Renew],
        };
        process.misbehave(fault, now);
        process
    }

    /// Begins to misbehave, or stops to.
    pub(super) fn misbehave(&mut self, fault: Option<Fault>, now: Timestamp) {
        self.fault = fault;
        if matches!(self.life, Life::Up { .. }) && self.ready == Ready::Yes {
            let [_, running] = &mut self.trusted;
            *running = Arc::clone(&self.runs);
        }
        if fault == Some(Fault::Deaf) {
            self.power_off(now);
        }
        self.turn = self.next_turn(now);
    }

    /// Whether the host runs at all.
    pub(super) fn has_power(&self) -> bool {
        self.life != Life::Off
    }

    /// Whether a fault brings the host down with a configuration.
    pub(super) fn takes_host_down(&self, text: &Text) -> bool {
        self.fault == Some(Fault::Crash) && self.is_new(text)
    }

    /// The host goes down.
    pub(super) fn power_off(&mut self, now: Timestamp) {
        self.silent.get_or_insert(now);
        self.life = Life::Off;
        self.turn = (self.fault == Some(Fault::Deaf)).then_some(now);
    }

    /// Whether the host is down and may come up again: what held it down is over.
    pub(super) fn may_power_on(&self) -> bool {
        self.life == Life::Off && !matches!(self.fault, Some(Fault::Crash | Fault::Deaf))
    }

    /// How long the service manager's command takes.
    pub(super) fn command_time(&mut self) -> Duration {
        self.between(COMMAND)
    }

    /// Why the service manager's command fails, if it does.
    pub(super) fn refuses_restart(&self, text: &Text) -> bool {
        self.fault == Some(Fault::RestartFails) && self.is_new(text)
    }

    /// The service manager starts the process, anew if it runs. `verdict` is what a kubelet of this version says of the
    /// configuration.
    pub(super) fn start(&mut self, text: Text, verdict: Result<(), String>, now: Timestamp) {
        self.silent.get_or_insert(now);
        let new = self.is_new(&text);
        let outcome = match (verdict, self.fault) {
            (Ok(()), Some(Fault::NoStart)) if new => Err("panic: the simulated kubelet does not start".to_owned()),
            (verdict, _) => verdict,
        };
        self.runs = text;
        let until = now + self.between(START);
        self.life = Life::Starting { until, outcome };
        self.turn = None;
    }

    /// Whether `/healthz` answers.
    fn healthz(&self) -> Result<(), String> {
        match &self.life {
            Life::Up { .. } => Ok(()),
            Life::Starting { .. } | Life::Off => Err("connection refused".to_owned()),
            Life::Exited { reason, .. } => Err(format!("connection refused; the kubelet has exited: {reason}")),
        }
    }

    /// The configuration that it was started with.
    pub(super) fn running(&self) -> Text {
        Arc::clone(&self.runs)
    }

    /// Whether the service manager starts it again now.
    pub(super) fn is_to_start(&self, now: Timestamp) -> bool {
        matches!(self.life, Life::Exited { again, .. } if again <= now)
    }

    /// Whether `/healthz` answers at this moment.
    pub(super) fn look(&mut self, now: Timestamp) -> Result<(), String> {
        self.catch_up(now);
        self.healthz()
    }

    /// When the kubelet last renewed its Lease, which it does every 10 s while it runs. Most of that is never written.
    pub(super) fn renewed(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.catch_up(now);
        let Life::Up { since } = self.life else { return None };
        let renewals = now.duration_since(since).as_secs() / RENEW.as_secs();
        Some(since + RENEW * i32::try_from(renewals).unwrap_or(i32::MAX))
    }

    /// Does all that is due, and says what is to be written.
    pub(super) fn advance(&mut self, now: Timestamp) -> Vec<Deed> {
        self.catch_up(now);
        std::mem::take(&mut self.deeds)
    }

    fn catch_up(&mut self, now: Timestamp) {
        match &self.life {
            Life::Starting { until, outcome } if *until <= now => {
                let until = *until;
                match outcome.clone() {
                    Ok(()) => self.up(until),
                    Err(reason) => self.life = Life::Exited { reason, again: until + RESTART },
                }
            }
            _ => {}
        }
        if let Life::Up { since } = self.life
            && self.fault == Some(Fault::Dies)
            && self.is_new(&self.runs)
            && since + LIFE <= now
        {
            let died = since + LIFE;
            self.silent.get_or_insert(died);
            let reason = "signal: killed".to_owned();
            self.life = Life::Exited { reason, again: died + RESTART };
        }
        self.keep_readiness(now);
        if let (Some(period), Some(at), Life::Up { .. }) = (self.heartbeat, self.next_heartbeat, &self.life)
            && at <= now
        {
            self.next_heartbeat = Some(now + period);
            self.deeds.extend([Deed::Renew, Deed::Ready { ready: self.ready, changed: false }]);
        }
    }

    /// When something is due next.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        let life = match &self.life {
            Life::Up { since } if self.fault == Some(Fault::Dies) && self.is_new(&self.runs) => Some(*since + LIFE),
            Life::Starting { until, .. } => Some(*until),
            Life::Exited { again, .. } => Some(*again),
            Life::Up { .. } | Life::Off => None,
        };
        let up = matches!(self.life, Life::Up { .. });
        let grace = self.silent.filter(|_| self.ready != Ready::Unknown).map(|since| since + NODE_GRACE);
        let turn = self.turn.filter(|_| up || self.life == Life::Off);
        [life, turn, grace, self.next_heartbeat.filter(|_| up)].into_iter().flatten().min()
    }

    fn up(&mut self, now: Timestamp) {
        self.life = Life::Up { since: now };
        self.silent = None;
        let before = self.ready;
        self.ready =
            if self.fault == Some(Fault::NotReady) && self.is_new(&self.runs) { Ready::No } else { Ready::Yes };
        self.turn = self.next_turn(now);
        let changed = self.ready != before;
        self.deeds.extend([Deed::Ready { ready: self.ready, changed }, Deed::Renew, Deed::Started]);
    }

    fn next_turn(&self, now: Timestamp) -> Option<Timestamp> {
        let up = matches!(self.life, Life::Up { .. });
        match self.fault {
            Some(Fault::Flap) if up && self.is_new(&self.runs) => Some(now + FLAP),
            Some(Fault::Deaf) => Some(now),
            _ if up && self.ready == Ready::No => Some(now),
            _ => None,
        }
    }

    fn keep_readiness(&mut self, now: Timestamp) {
        let before = self.ready;
        if self.silent.is_some_and(|since| since + NODE_GRACE <= now) {
            self.ready = Ready::Unknown;
        }
        if self.turn.is_some_and(|turn| turn <= now) {
            self.turn = None;
            match (&self.life, self.fault) {
                (_, Some(Fault::Deaf)) => self.ready = Ready::Unknown,
                (Life::Up { .. }, Some(Fault::Flap)) => {
                    self.ready = if before == Ready::Yes { Ready::No } else { Ready::Yes };
                    self.turn = Some(now + FLAP);
                }
                (Life::Up { .. }, Some(Fault::NotReady)) if self.is_new(&self.runs) => self.ready = Ready::No,
                (Life::Up { .. }, _) => self.ready = Ready::Yes,
                _ => {}
            }
        }
        if self.ready != before {
            self.deeds.push(Deed::Ready { ready: self.ready, changed: true });
        }
    }

    /// Whether faults that need a new configuration break on this one.
    fn is_new(&self, text: &Text) -> bool {
        !self.trusted.contains(text)
    }

    fn between(&mut self, (least, most): (Duration, Duration)) -> Duration {
        let slowness = if let Some(Fault::Slow(factor)) = self.fault { factor } else { 1.0 };
        (least + (most - least).mul_f64(self.rng.f64())).mul_f64(slowness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubelet over time.
    struct Bench {
        process: Process,
        now: Timestamp,
        deeds: Vec<(i64, Deed)>,
    }

    fn text(content: &str) -> Text {
        content.as_bytes().into()
    }

    impl Bench {
        fn new(fault: Option<Fault>) -> Self {
            let now = Timestamp::UNIX_EPOCH;
            let rng = fastrand::Rng::with_seed(3);
            let process = Process::new(text("local"), fault, None, rng, now);
            let mut bench = Self { process, now, deeds: Vec::new() };
            bench.run(0);
            bench.deeds.clear();
            bench
        }

        fn seconds(&self) -> i64 {
            self.now.duration_since(Timestamp::UNIX_EPOCH).as_secs()
        }

        fn restart(&mut self, content: &str) {
            self.process.start(text(content), Ok(()), self.now);
        }

        fn run(&mut self, seconds: i64) {
            let end = self.now + SignedDuration::from_secs(seconds);
            loop {
                let at = self.seconds();
                self.deeds.extend(self.process.advance(self.now).into_iter().map(|deed| (at, deed)));
                if self.process.is_to_start(self.now) {
                    let runs = Arc::clone(&self.process.runs);
                    self.process.start(runs, Ok(()), self.now);
                }
                match self.process.wake().filter(|wake| *wake <= end) {
                    Some(wake) => {
                        assert!(wake > self.now, "a kubelet that wakes itself without end");
                        self.now = wake;
                    }
                    None => break,
                }
            }
            self.now = end;
        }

        fn readiness(&self) -> Vec<(i64, Ready)> {
            let ready = |(at, deed): &(i64, Deed)| match deed {
                Deed::Ready { ready, changed: true } => Some((*at, *ready)),
                _ => None,
            };
            self.deeds.iter().filter_map(ready).collect()
        }

        fn count(&self, wanted: Deed) -> usize {
            self.deeds.iter().filter(|(_, deed)| *deed == wanted).count()
        }
    }

    #[test]
    fn a_restart_takes_seconds_and_then_the_kubelet_says_so() {
        let mut bench = Bench::new(None);
        bench.restart("a");
        assert!(bench.process.healthz().is_err());
        bench.run(6);
        assert_eq!(bench.process.healthz(), Ok(()));
        let heartbeat = Deed::Ready { ready: Ready::Yes, changed: false };
        assert_eq!(
            bench.deeds.iter().map(|(_, deed)| *deed).collect::<Vec<_>>(),
            [heartbeat, Deed::Renew, Deed::Started]
        );
        bench.run(3600);
        assert_eq!((bench.deeds.len(), bench.process.wake()), (3, None), "nothing happens, and nothing is written");
    }

    #[test]
    fn what_is_refused_is_tried_again_and_again() {
        let mut bench = Bench::new(None);
        bench.process.start(text("bad"), Err("invalid".to_owned()), bench.now);
        bench.run(7);
        let why = bench.process.healthz().unwrap_err();
        assert!(why.contains("has exited: invalid"), "{why}");
        // The test's service manager starts it with a better one.
        bench.run(10);
        assert_eq!(bench.process.healthz(), Ok(()));
    }

    #[test]
    fn one_that_does_not_start_spares_what_ran_before() {
        let mut bench = Bench::new(Some(Fault::NoStart));
        bench.restart("a");
        bench.run(300);
        assert!(bench.process.healthz().is_err());
        assert_eq!(bench.readiness(), [(40, Ready::Unknown)]);
        bench.restart("local");
        bench.run(10);
        assert_eq!(bench.process.healthz(), Ok(()));
        assert_eq!(bench.readiness().last().map(|(_, ready)| *ready), Some(Ready::Yes));
    }

    #[test]
    fn one_that_dies_comes_up_again_and_dies_again() {
        let mut bench = Bench::new(Some(Fault::Dies));
        bench.restart("a");
        bench.run(120);
        assert!((4..=5).contains(&bench.count(Deed::Started)), "{:?}", bench.deeds);
        assert_eq!(bench.readiness(), [], "it is never away for long");
        bench.process.misbehave(None, bench.now);
        bench.run(60);
        assert_eq!(bench.process.healthz(), Ok(()));
    }

    #[test]
    fn readiness_follows_the_faults() {
        let mut bench = Bench::new(Some(Fault::NotReady));
        bench.restart("a");
        bench.run(100);
        assert_eq!(bench.readiness().iter().map(|(_, ready)| *ready).collect::<Vec<_>>(), [Ready::No]);
        bench.restart("local");
        bench.run(100);
        assert_eq!(bench.readiness().len(), 2);

        let mut bench = Bench::new(Some(Fault::Flap));
        bench.run(100);
        assert_eq!(bench.readiness(), [], "its old configuration is fine");
        bench.restart("a");
        bench.run(105);
        assert_eq!(bench.readiness().len(), 5);
        bench.process.misbehave(None, bench.now);
        bench.run(100);
        assert_eq!((bench.readiness().len(), bench.process.ready), (6, Ready::Yes));

        let mut bench = Bench::new(Some(Fault::Deaf));
        assert!(!bench.process.has_power());
        bench.run(100);
        assert_eq!((bench.process.ready, bench.process.may_power_on()), (Ready::Unknown, false));
        bench.process.misbehave(None, bench.now);
        assert!(bench.process.may_power_on());
        bench.restart("local");
        bench.run(10);
        assert_eq!(bench.readiness().last().map(|(_, ready)| *ready), Some(Ready::Yes));
    }

    #[test]
    fn slow_ones_take_longer_and_commands_fail_on_something_new_alone() {
        let mut bench = Bench::new(Some(Fault::Slow(10.0)));
        bench.restart("a");
        bench.run(9);
        assert!(bench.process.healthz().is_err());
        bench.run(42);
        assert_eq!(bench.process.healthz(), Ok(()));
        assert!(bench.process.command_time() >= Duration::from_secs(2));
        let bench = Bench::new(Some(Fault::RestartFails));
        assert!(bench.process.refuses_restart(&text("a")) && !bench.process.refuses_restart(&text("local")));
        let bench = Bench::new(Some(Fault::Crash));
        assert!(bench.process.takes_host_down(&text("a")) && !bench.process.takes_host_down(&text("local")));
    }

    #[test]
    fn a_kubelet_that_runs_renews_its_lease_every_ten_seconds() {
        let mut bench = Bench::new(None);
        let renewed = |bench: &mut Bench, seconds: i64| {
            let now = bench.now + SignedDuration::from_secs(seconds);
            bench.process.renewed(now).map(|at| at.duration_since(bench.now).as_secs())
        };
        assert_eq!(renewed(&mut bench, 9), Some(0));
        assert_eq!(renewed(&mut bench, 25), Some(20));
        bench.process.power_off(bench.now);
        assert_eq!(renewed(&mut bench, 30), None);
    }
}
