//! Faults, and the corners that the recording does not show, on the machine alone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::machine::{Seen, SimKubelet, supports_dynamic_config};
use super::signals::{Download, Input, Moment, Output, Ready, Wanted};
use super::verdict::Problem;
use nodecfg_contract::{ConfigMapSource, ConfigSource, ConfigStatus, error_text};

/// A kubelet on a Node that already says `status.config: {}`, with a cluster in which every ConfigMap exists.
struct Bench {
    kubelet: SimKubelet,
    now: Moment,
    wake: Option<Moment>,
    status: Map<String, Value>,
    /// The answer to every download, with the version that the ConfigMap has.
    answer: Result<(&'static str, Result<(), Problem>), Download>,
    fetches: usize,
    patches: usize,
    ready: Vec<(f64, Ready)>,
    events: Vec<(f64, String)>,
}

impl Bench {
    fn new(fault: Option<Fault>) -> Self {
        Self::with(fault, true, Some(ConfigStatus::default()), None)
    }

    fn with(fault: Option<Fault>, dynamic: bool, seen: Option<ConfigStatus>, heartbeat: Option<Duration>) -> Self {
        let rng = fastrand::Rng::with_seed(11);
        let kubelet = SimKubelet::new(
            Seen { dynamic, wanted: Wanted::Local, status: seen.as_ref() },
            fault,
            heartbeat,
            rng,
            Moment::default(),
        );
        let status = seen.and_then(|seen| serde_json::to_value(seen).unwrap().as_object().cloned()).unwrap_or_default();
        let mut bench = Self {
            kubelet,
            now: Moment::default(),
            wake: None,
            status,
            answer: Ok(("1", Ok(()))),
            fetches: 0,
            patches: 0,
            ready: Vec::new(),
            events: Vec::new(),
        };
        bench.input(Input::Node(Wanted::Local));
        bench
    }

    fn input(&mut self, input: Input) {
        let t = self.now.0.as_secs_f64();
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.wake = None;
            for output in self.kubelet.step(input, self.now) {
                match output {
                    Output::WakeAt(at) => {
                        assert!(at > self.now, "a kubelet that wakes itself without end");
                        self.wake = Some(at);
                    }
                    Output::Fetch(source) => {
                        self.fetches += 1;
                        inputs.push(Input::Fetched(self.download(&source)));
                    }
                    Output::PatchConfig(patch) => {
                        self.patches += 1;
                        for (field, value) in patch {
                            if value.is_null() {
                                self.status.remove(&field)
                            } else {
                                self.status.insert(field, value)
                            };
                        }
                    }
                    Output::Event { reason, message } => self.events.push((t, format!("{reason}: {message}"))),
                    Output::Ready { ready, .. } => self.ready.push((t, ready)),
                }
            }
        }
    }

    fn download(&self, source: &ConfigMapSource) -> Download {
        let (version, verdict) = match &self.answer {
            Ok(answer) => *answer,
            Err(download) => return download.clone(),
        };
        let mut found = source.clone();
        found.uid = Some(format!("uid-{}", source.name));
        found.resource_version = Some(version.to_owned());
        Download::Found(Arc::new(found), verdict)
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while let Some(at) = self.wake.filter(|at| *at <= end) {
            self.now = at;
            self.input(Input::Timer);
        }
        self.now = end;
    }

    fn assign(&mut self, name: &str) {
        let source = ConfigSource::config_map("ns", name, "kubelet").config_map.unwrap();
        self.input(Input::Node(Wanted::ConfigMap(Arc::new(source))));
    }

    fn named(&self, field: &str) -> Option<&str> {
        self.status.get(field).and_then(|source| source["configMap"]["name"].as_str())
    }

    /// Names of assigned, active and last known good.
    fn names(&self) -> [Option<&str>; 3] {
        ["assigned", "active", "lastKnownGood"].map(|field| self.named(field))
    }

    fn error(&self) -> Option<&str> {
        self.status.get("error").and_then(Value::as_str)
    }
}

#[test]
fn a_sound_kubelet_converges_and_then_sleeps() {
    let mut bench = Bench::new(None);
    assert_eq!(bench.wake, None, "nothing to do");
    bench.assign("a");
    bench.run(18);
    assert_eq!(bench.names(), [Some("a"), Some("a"), None]);
    bench.run(700);
    assert_eq!(bench.names(), [Some("a"), Some("a"), Some("a")]);
    assert_eq!((bench.wake, bench.patches, bench.ready.len()), (None, 2, 0));
}

#[test]
fn a_crash_leaves_the_status_as_it_was_and_readiness_unknown_until_the_fault_is_lifted() {
    let mut bench = Bench::new(None);
    bench.assign("a");
    bench.run(30);
    bench.input(Input::Fault(Some(Fault::Crash)));
    bench.run(300);
    assert!(bench.ready.is_empty(), "it dies of a new configuration only");
    bench.assign("b");
    bench.run(40);
    assert!(bench.ready.is_empty(), "silence is noticed after 40 s");
    bench.run(30);
    assert_eq!(bench.ready.last().unwrap().1, Ready::Unknown);
    bench.assign("c");
    bench.run(300);
    assert_eq!(bench.named("assigned"), Some("a"));
    bench.input(Input::Fault(None));
    bench.run(30);
    assert_eq!(bench.ready.last().unwrap().1, Ready::Yes);
    bench.run(30);
    assert_eq!(bench.names()[..2], [Some("c"), Some("c")]);
}

#[test]
fn a_slow_kubelet_takes_so_much_longer() {
    let mut bench = Bench::new(Some(Fault::Slow(10.0)));
    bench.assign("a");
    bench.run(55);
    assert_eq!(bench.names(), [None; 3]);
    bench.run(130);
    assert_eq!(bench.names()[..2], [Some("a"), Some("a")]);
}

#[test]
fn not_ready_comes_with_a_configuration_and_goes_with_the_local_one() {
    let mut bench = Bench::new(Some(Fault::NotReady));
    bench.run(100);
    assert!(bench.ready.is_empty());
    bench.assign("a");
    bench.run(20);
    assert_eq!(bench.names()[..2], [Some("a"), Some("a")]);
    assert_eq!(bench.ready.last().unwrap().1, Ready::No);
    bench.run(1000);
    assert_eq!(bench.ready.len(), 1);
    bench.input(Input::Node(Wanted::Local));
    bench.run(20);
    assert_eq!((bench.names(), bench.ready.last().unwrap().1), ([None; 3], Ready::Yes));
}

#[test]
fn one_that_never_acknowledges_and_a_deaf_one_leave_the_status_alone() {
    for (fault, ready) in [(Fault::NeverAcknowledges, None), (Fault::Deaf, Some(Ready::Unknown))] {
        let mut bench = Bench::new(Some(fault));
        assert_eq!(bench.ready.last().map(|(_, ready)| *ready), ready);
        bench.assign("a");
        bench.run(1000);
        assert_eq!((bench.names(), bench.fetches, bench.patches, bench.events.len()), ([None; 3], 0, 0, 0));
        bench.input(Input::Fault(None));
        bench.run(30);
        assert_eq!(bench.names()[..2], [Some("a"), Some("a")]);
        assert_eq!(bench.ready.last().map(|(_, ready)| *ready), ready.map(|_| Ready::Yes));
    }
}

#[test]
fn a_deaf_fault_shows_even_in_the_middle_of_a_restart() {
    let mut bench = Bench::new(None);
    bench.assign("a");
    while bench.events.is_empty() {
        bench.run(1);
    }
    bench.input(Input::Fault(Some(Fault::Deaf)));
    assert_eq!(bench.ready.last().unwrap().1, Ready::Unknown);
    bench.run(100);
    assert_eq!(bench.names(), [None; 3]);
    bench.input(Input::Fault(None));
    assert_eq!(bench.names()[..2], [Some("a"), Some("a")]);
    assert_eq!(bench.ready.last().unwrap().1, Ready::Yes);
}

#[test]
fn a_sync_error_is_reported_beside_the_old_assignment_and_retried() {
    let mut bench = Bench::new(None);
    bench.assign("a");
    bench.run(30);
    bench.input(Input::Fault(Some(Fault::SyncError)));
    bench.assign("b");
    bench.run(30);
    assert_eq!(bench.names()[..2], [Some("a"), Some("a")]);
    assert_eq!(bench.error(), Some("failed to sync: failed to download config, see Kubelet log for details"));
    bench.input(Input::Fault(None));
    bench.run(40);
    assert_eq!((bench.named("assigned"), bench.error()), (Some("b"), None));
}

#[test]
fn a_sync_error_goes_without_a_restart_when_spec_goes_back() {
    let mut bench = Bench::new(None);
    bench.assign("a");
    bench.run(30);
    bench.answer = Err(Download::Missing);
    bench.assign("b");
    bench.run(30);
    assert!(bench.error().is_some());
    bench.answer = Ok(("1", Ok(())));
    bench.assign("a");
    let events = bench.events.len();
    bench.run(30);
    assert_eq!((bench.error(), bench.events.len()), (None, events));
}

#[test]
fn a_refused_configuration_falls_back_to_the_last_known_good_or_the_local_one() {
    for (fault, text) in [(Fault::LoadError, error_text::LOAD), (Fault::ValidateError, error_text::VALIDATE)] {
        let mut bench = Bench::new(Some(fault));
        bench.assign("a");
        bench.run(20);
        assert_eq!((bench.names(), bench.error()), ([Some("a"), None, None], Some(text)));
        bench.input(Input::Fault(None));
        bench.assign("b");
        bench.run(700);
        assert_eq!((bench.names(), bench.error()), ([Some("b"); 3], None));
        bench.input(Input::Fault(Some(fault)));
        bench.assign("c");
        bench.run(30);
        assert_eq!((bench.names(), bench.error()), ([Some("c"), Some("b"), Some("b")], Some(text)));
        bench.run(1000);
        assert_eq!(bench.named("lastKnownGood"), Some("b"), "a refused configuration has no trial");
    }
}

#[test]
fn a_flapping_node_converges_first() {
    let mut bench = Bench::new(Some(Fault::Flap));
    bench.run(100);
    assert!(bench.ready.is_empty(), "there is nothing to converge to");
    bench.assign("a");
    bench.run(100);
    let up = bench.events.last().unwrap().0;
    let turns: Vec<_> = bench.ready.iter().map(|(t, ready)| ((t - up).round(), *ready)).collect();
    assert_eq!(turns[..3], [(20.0, Ready::No), (40.0, Ready::Yes), (60.0, Ready::No)]);
    bench.input(Input::Fault(None));
    assert_eq!(bench.ready.last().unwrap().1, Ready::Yes);
    let turns = bench.ready.len();
    bench.run(100);
    assert_eq!(bench.ready.len(), turns);
}

#[test]
fn a_lost_status_is_written_again_in_full() {
    let mut bench = Bench::new(None);
    bench.assign("a");
    bench.run(20);
    bench.status = json!({"error": "left over"}).as_object().cloned().unwrap();
    bench.input(Input::StatusLost);
    bench.run(13);
    assert_eq!((bench.names(), bench.error()), ([Some("a"), Some("a"), None], None));
}

#[test]
fn a_kubelet_goes_on_from_the_status_of_its_node() {
    let mut bench = Bench::new(None);
    bench.assign("a");
    bench.run(700);
    let left: ConfigStatus = serde_json::from_value(Value::Object(bench.status.clone())).unwrap();
    let mut next = Bench::with(None, true, Some(left), None);
    next.assign("a");
    next.run(100);
    assert_eq!((next.names(), next.patches, next.events.len()), ([Some("a"); 3], 0, 0));
    next.answer = Ok(("1", Err(Problem::Validate)));
    next.assign("b");
    next.run(30);
    assert_eq!(next.names(), [Some("b"), Some("a"), Some("a")]);
}

#[test]
fn what_changed_while_no_kubelet_ran_is_noticed() {
    let left = json!({"error": "failed to sync: failed to download config, see Kubelet log for details"});
    let mut bench = Bench::with(None, true, Some(serde_json::from_value(left).unwrap()), None);
    bench.run(30);
    assert_eq!((bench.error(), bench.events.len()), (None, 0));

    let mut bench = Bench::new(None);
    bench.assign("a");
    bench.run(700);
    let left: ConfigStatus = serde_json::from_value(Value::Object(bench.status.clone())).unwrap();
    let mut reset = Bench::with(None, true, Some(left), None);
    reset.run(30);
    assert_eq!(reset.names(), [None; 3]);
}

#[test]
fn a_new_kubelet_writes_an_empty_status_and_one_without_the_feature_nothing() {
    assert_eq!(Bench::with(None, true, None, None).patches, 1);
    let mut bench = Bench::with(None, false, None, None);
    bench.assign("a");
    bench.run(1000);
    assert_eq!((bench.fetches, bench.patches, bench.wake), (0, 0, None));
}

#[test]
fn heartbeats_come_regularly_and_end_with_the_kubelet() {
    let mut bench = Bench::with(None, true, Some(ConfigStatus::default()), Some(Duration::from_secs(300)));
    bench.run(3000);
    assert_eq!(bench.ready.len(), 10);
    bench.input(Input::Fault(Some(Fault::Deaf)));
    bench.run(3000);
    assert_eq!(bench.ready.len(), 11);
}

#[test]
fn versions_with_the_feature() {
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
        // Servers write their minor version like that, kubelets never do.
        ("v1.21+", false),
    ] {
        assert_eq!(supports_dynamic_config(version), has, "{version}");
    }
}

#[test]
fn a_kubelet_is_small() {
    // 15,000 of them are part of a sandbox.
    assert!(size_of::<SimKubelet>() <= 512, "{}", size_of::<SimKubelet>());
}
