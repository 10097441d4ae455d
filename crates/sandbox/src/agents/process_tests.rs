//! Tests of the kubelet process and its service manager.

use super::*;
use crate::kubelets::aftermath::Aftermath;
use crate::running::Inputs;
use kubelet_config::NEWEST;

/// A kubelet with a simulated clock.
struct SimHarness {
    process: Process,
    now: Timestamp,
    writes: Vec<(i64, KubeletWrite)>,
}

fn text(content: &str) -> Arc<Running> {
    Arc::new(Running::new(Inputs::of_file(NEWEST, content.as_bytes())))
}

impl SimHarness {
    fn new(fault: Option<Fault>) -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let process = Process::new(text("local"), fault, now);
        let mut sim = Self { process, now, writes: Vec::new() };
        sim.run(0);
        sim.writes.clear();
        sim
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
            self.writes.extend(self.process.advance(self.now).into_iter().map(|write| (at, write)));
            if self.process.is_to_start(self.now) {
                let config = Arc::clone(&self.process.config);
                self.process.start(config, Ok(()), self.now);
            }
            match self.process.wake(self.now).filter(|wake| *wake <= end) {
                Some(wake) => {
                    assert!(wake > self.now, "the kubelet wakes itself in an endless loop");
                    self.now = wake;
                }
                None => break,
            }
        }
        self.now = end;
    }

    fn readiness(&self) -> Vec<(i64, Ready)> {
        let ready = |(at, write): &(i64, KubeletWrite)| match write {
            KubeletWrite::Ready { ready, changed: true } => Some((*at, *ready)),
            _ => None,
        };
        self.writes.iter().filter_map(ready).collect()
    }

    fn count(&self, wanted: &KubeletWrite) -> usize {
        self.writes.iter().filter(|(_, write)| write == wanted).count()
    }
}

#[test]
fn restart_reports_start_to_api_server() {
    let mut sim = SimHarness::new(None);
    sim.restart("a");
    assert!(sim.process.healthz(sim.now).is_err());
    sim.run(6);
    assert_eq!(sim.process.healthz(sim.now), Ok(()));
    let heartbeat = KubeletWrite::Ready { ready: Ready::Yes, changed: false };
    assert_eq!(
        sim.writes.iter().map(|(_, write)| write.clone()).collect::<Vec<_>>(),
        [heartbeat, KubeletWrite::Renew, KubeletWrite::started()]
    );
    sim.run(3600);
    assert_eq!((sim.writes.len(), sim.process.wake(sim.now)), (3, None), "an idle kubelet writes nothing");
}

#[test]
fn refused_configuration_is_retried() {
    let mut sim = SimHarness::new(None);
    sim.process.start(text("bad"), Err("invalid".to_owned()), sim.now);
    let started = sim.now;
    sim.run(7);
    assert!(sim.process.healthz(sim.now).is_err());
    assert_eq!(sim.process.service_report(started, sim.now).last_error, LastError::in_log("Error: invalid"));
    // The service manager of the test restarts it with a valid verdict.
    sim.run(10);
    assert_eq!(sim.process.healthz(sim.now), Ok(()));
}

/// A service manager counts its own restarts only, and a kubelet that was killed logs nothing.
#[test]
fn service_manager_reports_restarts_and_last_error() {
    let mut sim = SimHarness::new(Some(Fault::NoStart));
    let report = |sim: &mut SimHarness, since| sim.process.service_report(since, sim.now);
    let started = sim.now;
    sim.restart("a");
    assert_eq!(report(&mut sim, started), ServiceReport { restarts: Some(0), last_error: None });
    sim.run(6);
    let last_error = LastError::in_log("Error: panic: the simulated kubelet does not start");
    assert_eq!(report(&mut sim, started), ServiceReport { restarts: Some(0), last_error: last_error.clone() });
    // Before the service manager restarts it.
    sim.restart("a");
    let restarted = sim.now;
    assert_eq!(report(&mut sim, restarted), ServiceReport { restarts: Some(0), last_error: None });
    sim.run(60);
    let crash_loop = report(&mut sim, restarted);
    assert!((3..=5).contains(&crash_loop.restarts.unwrap()), "{crash_loop:?}");
    assert_eq!(crash_loop.last_error, last_error);

    let mut sim = SimHarness::new(Some(Fault::Dies));
    sim.restart("a");
    sim.run(60);
    assert_eq!(report(&mut sim, started), ServiceReport { restarts: Some(2), last_error: None });
}

#[test]
fn no_start_fault_spares_previous_configuration() {
    let mut sim = SimHarness::new(Some(Fault::NoStart));
    sim.restart("a");
    sim.run(300);
    assert!(sim.process.healthz(sim.now).is_err());
    assert_eq!(sim.readiness(), [(40, Ready::Unknown)]);
    sim.restart("local");
    sim.run(10);
    assert_eq!(sim.process.healthz(sim.now), Ok(()));
    assert_eq!(sim.readiness().last().map(|(_, ready)| *ready), Some(Ready::Yes));
}

#[test]
fn dies_fault_repeats_after_each_restart() {
    let mut sim = SimHarness::new(Some(Fault::Dies));
    sim.restart("a");
    sim.run(120);
    assert!((4..=5).contains(&sim.count(&KubeletWrite::started())), "{:?}", sim.writes);
    assert_eq!(sim.readiness(), [], "each interruption is short");
    sim.process.set_fault(None, sim.now);
    sim.run(60);
    assert_eq!(sim.process.healthz(sim.now), Ok(()));
}

#[test]
fn readiness_follows_faults() {
    let mut sim = SimHarness::new(Some(Fault::NotReady));
    sim.restart("a");
    sim.run(100);
    assert_eq!(sim.readiness().iter().map(|(_, ready)| *ready).collect::<Vec<_>>(), [Ready::No]);
    sim.restart("local");
    sim.run(100);
    assert_eq!(sim.readiness().len(), 2);

    let mut sim = SimHarness::new(Some(Fault::Flap));
    sim.run(100);
    assert_eq!(sim.readiness(), [], "the old configuration works");
    sim.restart("a");
    sim.run(105);
    assert_eq!(sim.readiness().len(), 5);
    sim.process.set_fault(None, sim.now);
    sim.run(100);
    assert_eq!((sim.readiness().len(), sim.process.ready), (6, Ready::Yes));

    let mut sim = SimHarness::new(Some(Fault::Deaf));
    assert!(!sim.process.has_power());
    sim.run(100);
    assert_eq!((sim.process.ready, sim.process.may_power_on()), (Ready::Unknown, false));
    sim.process.set_fault(None, sim.now);
    assert!(sim.process.may_power_on());
    sim.restart("local");
    sim.run(10);
    assert_eq!(sim.readiness().last().map(|(_, ready)| *ready), Some(Ready::Yes));
}

#[test]
fn slow_fault_delays_and_restart_fails_only_for_new_configuration() {
    let mut sim = SimHarness::new(Some(Fault::Slow(10.0)));
    sim.restart("a");
    sim.run(9);
    assert!(sim.process.healthz(sim.now).is_err());
    sim.run(42);
    assert_eq!(sim.process.healthz(sim.now), Ok(()));
    assert!(sim.process.command_time() >= Duration::from_secs(2));
    let sim = SimHarness::new(Some(Fault::RestartFails));
    assert!(sim.process.refuses_restart(&text("a")) && !sim.process.refuses_restart(&text("local")));
    let sim = SimHarness::new(Some(Fault::Crash));
    assert!(sim.process.takes_host_down(&text("a")) && !sim.process.takes_host_down(&text("local")));
}

#[test]
fn running_kubelet_renews_lease_every_10_s() {
    let mut sim = SimHarness::new(None);
    let renewed = |sim: &mut SimHarness, seconds: i64| {
        let now = sim.now + SignedDuration::from_secs(seconds);
        sim.process.renewed(now).map(|at| at.duration_since(sim.now).as_secs())
    };
    assert_eq!(renewed(&mut sim, 9), Some(0));
    assert_eq!(renewed(&mut sim, 25), Some(20));
    sim.process.power_off(sim.now);
    assert_eq!(renewed(&mut sim, 30), None);
}

#[test]
fn restart_takes_devices_until_their_plugins_register() {
    let aftermath = |sim: &SimHarness| -> Vec<Aftermath> {
        let of = |(_, write): &(i64, KubeletWrite)| match write {
            KubeletWrite::Aftermath(aftermath) => Some(*aftermath),
            _ => None,
        };
        sim.writes.iter().filter_map(of).collect()
    };
    let mut sim = SimHarness::new(Some(Fault::SlowDevices));
    sim.restart("b");
    sim.run(10);
    assert_eq!(aftermath(&sim), [Aftermath::DevicesGone]);
    sim.run(20);
    assert_eq!(aftermath(&sim), [Aftermath::DevicesGone, Aftermath::DevicesBack]);
    let mut sim = SimHarness::new(Some(Fault::LostDevices));
    sim.restart("b");
    sim.run(60);
    assert_eq!(aftermath(&sim), [Aftermath::DevicesGone]);
}
