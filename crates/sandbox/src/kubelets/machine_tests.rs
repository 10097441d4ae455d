//! Tests of the state machine: faults, and edge cases that the recording does not contain.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::aftermath::Aftermath;
use super::fault::Fault;
use super::machine::{Loaded, SimKubelet, supports_dynamic_config};
use super::report::{KubeletWrite, Ready};
use jiff::Timestamp;
use nodecfg_contract::{ConfigSource, error_text};

/// A kubelet on a Node with `status.config: {}`, in a cluster where every ConfigMap exists.
struct SimHarness {
    kubelet: SimKubelet,
    now: Timestamp,
    wake: Option<Timestamp>,
    status: Map<String, Value>,
    /// Error of each downloaded configuration. `None`: the ConfigMap is missing.
    response: Option<Option<&'static str>>,
    fetches: usize,
    patches: usize,
    ready: Vec<(f64, Ready)>,
    aftermath: Vec<(f64, Aftermath)>,
    events: Vec<(f64, String)>,
}

impl SimHarness {
    fn new(fault: Option<Fault>) -> Self {
        Self::with(fault, true, true)
    }

    fn with(fault: Option<Fault>, dynamic: bool, reports: bool) -> Self {
        let mut sim = Self {
            kubelet: SimKubelet::new(dynamic, reports, fault, 11, Timestamp::UNIX_EPOCH),
            now: Timestamp::UNIX_EPOCH,
            wake: None,
            status: Map::new(),
            response: Some(None),
            fetches: 0,
            patches: 0,
            ready: Vec::new(),
            aftermath: Vec::new(),
            events: Vec::new(),
        };
        sim.advance();
        sim
    }

    /// Carries out due work.
    fn advance(&mut self) {
        let t = self.now.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
        loop {
            let (writes, wake) = self.kubelet.advance(self.now);
            for write in writes {
                match write {
                    KubeletWrite::Config(patch) => {
                        self.patches += 1;
                        self.status.extend(patch);
                        self.status.retain(|_, value| !value.is_null());
                    }
                    KubeletWrite::Event { reason, message } => self.events.push((t, format!("{reason}: {message}"))),
                    KubeletWrite::Ready { ready, .. } => self.ready.push((t, ready)),
                    KubeletWrite::Aftermath(aftermath) => self.aftermath.push((t, aftermath)),
                    KubeletWrite::Renew => panic!("these kubelets renew no Lease"),
                }
            }
            let Some(source) = self.kubelet.download() else {
                assert!(wake.is_none_or(|wake| wake > self.now), "the kubelet wakes itself in an endless loop");
                self.wake = wake;
                return;
            };
            self.fetches += 1;
            let loaded = self.response.map(|problem| {
                let mut found = source.as_ref().clone();
                found.uid = Some(format!("uid-{}", source.name));
                found.resource_version = Some("1".to_owned());
                Loaded { source: Arc::new(found), text: Arc::from([]), problem }
            });
            self.kubelet.downloaded(loaded, self.now);
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while let Some(at) = self.wake.filter(|at| *at <= end) {
            self.now = at;
            self.advance();
        }
        self.now = end;
    }

    fn assign(&mut self, name: &str) {
        self.kubelet.assign(ConfigSource::config_map("ns", name, "kubelet").config_map, self.now);
        self.advance();
    }

    fn inject(&mut self, fault: Option<Fault>) {
        self.kubelet.set_fault(fault, self.now);
        self.advance();
    }

    fn named(&self, field: &str) -> Option<&str> {
        self.status.get(field).and_then(|source| source["configMap"]["name"].as_str())
    }

    /// Names of the assigned, active and last known good ConfigMaps.
    fn names(&self) -> [Option<&str>; 3] {
        ["assigned", "active", "lastKnownGood"].map(|field| self.named(field))
    }

    fn error(&self) -> Option<&str> {
        self.status.get("error").and_then(Value::as_str)
    }
}

#[test]
fn healthy_kubelet_converges_and_becomes_idle() {
    let mut sim = SimHarness::new(None);
    assert_eq!(sim.wake, None, "no work is pending");
    sim.assign("a");
    sim.run(18);
    assert_eq!(sim.names(), [Some("a"), Some("a"), None]);
    sim.run(700);
    assert_eq!(sim.names(), [Some("a"), Some("a"), Some("a")]);
    assert_eq!((sim.wake, sim.patches, sim.ready.len()), (None, 2, 0));
}

#[test]
fn crash_keeps_status_and_sets_readiness_unknown() {
    let mut sim = SimHarness::new(None);
    sim.assign("a");
    sim.run(30);
    sim.inject(Some(Fault::Crash));
    sim.run(300);
    assert!(sim.ready.is_empty(), "only a new configuration crashes it");
    sim.assign("b");
    sim.run(40);
    assert!(sim.ready.is_empty(), "readiness becomes Unknown after 40 s");
    sim.run(30);
    assert_eq!(sim.ready.last().unwrap().1, Ready::Unknown);
    sim.assign("c");
    sim.run(300);
    assert_eq!(sim.named("assigned"), Some("a"));
    sim.inject(None);
    sim.run(30);
    assert_eq!(sim.ready.last().unwrap().1, Ready::Yes);
    sim.run(30);
    assert_eq!(sim.names()[..2], [Some("c"), Some("c")]);
}

#[test]
fn slow_fault_multiplies_durations() {
    let mut sim = SimHarness::new(Some(Fault::Slow(10.0)));
    sim.assign("a");
    sim.run(55);
    assert_eq!(sim.names(), [None; 3]);
    sim.run(130);
    assert_eq!(sim.names()[..2], [Some("a"), Some("a")]);
}

#[test]
fn not_ready_fault_ends_with_local_configuration() {
    let mut sim = SimHarness::new(Some(Fault::NotReady));
    sim.run(100);
    assert!(sim.ready.is_empty());
    sim.assign("a");
    sim.run(20);
    assert_eq!(sim.names()[..2], [Some("a"), Some("a")]);
    assert_eq!(sim.ready.last().unwrap().1, Ready::No);
    sim.run(1000);
    assert_eq!(sim.ready.len(), 1);
    sim.kubelet.assign(None, sim.now);
    sim.advance();
    sim.run(20);
    assert_eq!((sim.names(), sim.ready.last().unwrap().1), ([None; 3], Ready::Yes));
}

#[test]
fn never_acknowledges_and_deaf_keep_status() {
    for (fault, ready) in [(Fault::NeverAcknowledges, None), (Fault::Deaf, Some(Ready::Unknown))] {
        let mut sim = SimHarness::new(Some(fault));
        assert_eq!(sim.ready.last().map(|(_, ready)| *ready), ready);
        sim.assign("a");
        sim.run(1000);
        assert_eq!((sim.names(), sim.fetches, sim.patches, sim.events.len()), ([None; 3], 0, 0, 0));
        sim.inject(None);
        sim.run(30);
        assert_eq!(sim.names()[..2], [Some("a"), Some("a")]);
        assert_eq!(sim.ready.last().map(|(_, ready)| *ready), ready.map(|_| Ready::Yes));
    }
}

#[test]
fn deaf_fault_takes_effect_during_restart() {
    let mut sim = SimHarness::new(None);
    sim.assign("a");
    while sim.events.is_empty() {
        sim.run(1);
    }
    sim.inject(Some(Fault::Deaf));
    assert_eq!(sim.ready.last().unwrap().1, Ready::Unknown);
    sim.run(100);
    assert_eq!(sim.names(), [None; 3]);
    sim.inject(None);
    assert_eq!(sim.names()[..2], [Some("a"), Some("a")]);
    assert_eq!(sim.ready.last().unwrap().1, Ready::Yes);
}

#[test]
fn sync_error_keeps_old_assignment_and_retries() {
    let mut sim = SimHarness::new(None);
    sim.assign("a");
    sim.run(30);
    sim.inject(Some(Fault::SyncError));
    sim.assign("b");
    sim.run(30);
    assert_eq!(sim.names()[..2], [Some("a"), Some("a")]);
    assert_eq!(sim.error(), Some("failed to sync: failed to download config, see Kubelet log for details"));
    sim.inject(None);
    sim.run(40);
    assert_eq!((sim.named("assigned"), sim.error()), (Some("b"), None));
}

#[test]
fn sync_error_ends_without_restart_when_spec_reverts() {
    let mut sim = SimHarness::new(None);
    sim.assign("a");
    sim.run(30);
    sim.response = None;
    sim.assign("b");
    sim.run(30);
    assert!(sim.error().is_some());
    sim.response = Some(None);
    sim.assign("a");
    let events = sim.events.len();
    sim.run(30);
    assert_eq!((sim.error(), sim.events.len()), (None, events));
}

#[test]
fn refused_configuration_falls_back() {
    for (fault, text) in [(Fault::LoadError, error_text::LOAD), (Fault::ValidateError, error_text::VALIDATE)] {
        let mut sim = SimHarness::new(Some(fault.clone()));
        sim.assign("a");
        sim.run(20);
        assert_eq!((sim.names(), sim.error()), ([Some("a"), None, None], Some(text)));
        sim.inject(None);
        sim.assign("b");
        sim.run(700);
        assert_eq!((sim.names(), sim.error()), ([Some("b"); 3], None));
        sim.inject(Some(fault));
        sim.assign("c");
        sim.run(30);
        assert_eq!((sim.names(), sim.error()), ([Some("c"), Some("b"), Some("b")], Some(text)));
        sim.run(1000);
        assert_eq!(sim.named("lastKnownGood"), Some("b"), "a refused configuration has no trial");
    }
}

#[test]
fn flapping_node_converges_first() {
    let mut sim = SimHarness::new(Some(Fault::Flap));
    sim.run(100);
    assert!(sim.ready.is_empty(), "no assignment exists");
    sim.assign("a");
    sim.run(100);
    let up = sim.events.last().unwrap().0;
    let turns: Vec<_> = sim.ready.iter().map(|(t, ready)| ((t - up).round(), *ready)).collect();
    assert_eq!(turns[..3], [(20.0, Ready::No), (40.0, Ready::Yes), (60.0, Ready::No)]);
    sim.inject(None);
    assert_eq!(sim.ready.last().unwrap().1, Ready::Yes);
    let turns = sim.ready.len();
    sim.run(100);
    assert_eq!(sim.ready.len(), turns);
}

#[test]
fn restart_takes_devices_until_their_plugins_register() {
    for (fault, returns) in [(Fault::SlowDevices, true), (Fault::LostDevices, false)] {
        let mut sim = SimHarness::new(Some(fault));
        sim.assign("b");
        sim.run(60);
        assert_eq!(sim.names(), [Some("b"), Some("b"), None]);
        let [(gone, Aftermath::DevicesGone), later @ ..] = &sim.aftermath[..] else { panic!("{:?}", sim.aftermath) };
        match later {
            [(back, Aftermath::DevicesBack)] if returns => assert!((back - gone - 15.0).abs() < 0.01, "{back} {gone}"),
            [] if !returns => {}
            other => panic!("{other:?}"),
        }
        sim.inject(None);
        sim.run(1);
        assert_eq!(sim.aftermath.last().unwrap().1, Aftermath::DevicesBack, "the fault ended");
        assert_eq!(sim.aftermath.len(), 2);
    }
}

#[test]
fn lost_status_is_written_again_in_full() {
    let mut sim = SimHarness::new(None);
    sim.assign("a");
    sim.run(20);
    sim.status = json!({"error": "left over"}).as_object().cloned().unwrap();
    sim.kubelet.status_lost(sim.now);
    sim.advance();
    sim.run(13);
    assert_eq!((sim.names(), sim.error()), ([Some("a"), Some("a"), None], None));
}

#[test]
fn only_kubelet_with_dynamic_config_writes_status() {
    assert_eq!(SimHarness::with(None, true, false).patches, 1);
    let mut sim = SimHarness::with(None, false, false);
    sim.assign("a");
    sim.run(1000);
    assert_eq!((sim.fetches, sim.patches, sim.wake), (0, 0, None));
}

#[test]
fn parses_versions_with_dynamic_config() {
    for (version, has) in [
        ("v1.21.1", true),
        ("v1.11.0", true),
        ("v1.23.17-eks-a5565ad", true),
        ("v1.21.14+k3s1", true),
        ("v1.10.13", false),
        ("v1.24.0", false),
        ("v1.36.2", false),
        ("v2.21.0", false),
        ("", false),
        ("unknown", false),
        // Servers write their minor version in this form, kubelets do not.
        ("v1.21+", false),
    ] {
        assert_eq!(supports_dynamic_config(version), has, "{version}");
    }
}

#[test]
fn kubelet_is_small() {
    // A sandbox can have 15,000 kubelets.
    assert!(size_of::<SimKubelet>() <= 512, "{}", size_of::<SimKubelet>());
}
