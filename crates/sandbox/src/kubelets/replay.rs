//! Replay of the recording of a real kubelet. Given the same assignments at the same times, the machine must go
//! through the same statuses and emit the same events, within the tolerance of its loops.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::machine::{Loaded, SimKubelet};
use super::report::KubeletWrite;
use crate::running::{Inputs, Running};
use jiff::{SignedDuration, Timestamp};
use kubelet_config::Minor;
use nodecfg_contract::{ConfigMapSource, ConfigSource, error_text};

const RECORDING: &str = include_str!("../../../../tests/data/recordings/kubelet-1.21-dynamic-config.jsonl");

/// Seconds of the recording in which the API server was unavailable.
const OUTAGE: std::ops::Range<f64> = 146.18..208.0;

/// Observed statuses and events, in order and with times.
#[derive(Default)]
struct Observations {
    statuses: Vec<(f64, Value)>,
    events: Vec<(f64, String)>,
}

impl Observations {
    fn status(&mut self, t: f64, status: &Value) {
        if self.statuses.last().is_none_or(|(_, last)| last != status) {
            self.statuses.push((t, status.clone()));
        }
    }
}

fn lines() -> Vec<Value> {
    RECORDING.lines().map(|line| serde_json::from_str(line).expect("a line of the recording is JSON")).collect()
}

fn recorded(lines: &[Value]) -> Observations {
    let mut seen = Observations::default();
    for line in lines {
        let t = line["t"].as_f64().expect("every line has a time");
        match line["kind"].as_str() {
            Some("node") => seen.status(t, &line["status_config"]),
            Some("event") => {
                seen.events
                    .push((t, format!("{}: {}", line["reason"].as_str().unwrap(), line["message"].as_str().unwrap())));
            }
            _ => {}
        }
    }
    seen
}

/// uid of every ConfigMap and its resourceVersion at creation, from the recorded events.
fn config_maps(lines: &[Value]) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for line in lines {
        let Some(rest) = line["message"].as_str().and_then(|m| m.split_once("/configmaps/")) else { continue };
        let parts: Vec<&str> = rest.1.split(", ").collect();
        let (uid, version) = (parts[1].trim_start_matches("UID: "), parts[2].trim_start_matches("ResourceVersion: "));
        found.entry(parts[0].to_owned()).or_insert_with(|| (uid.to_owned(), version.to_owned()));
    }
    found
}

/// Content of a recorded ConfigMap by its name; the recording lacks the texts.
fn text(name: &str) -> &'static str {
    match name {
        "bad-yaml" => "kind: [unclosed\n",
        "bad-value" | "bad-value2" => {
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: -5\n"
        }
        "unknown-field" => "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nnoSuchField: 1\n",
        _ => "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 50\n",
    }
}

/// Simulated cluster for one kubelet.
struct SimHarness {
    kubelet: SimKubelet,
    wake: Option<Timestamp>,
    /// uid and resourceVersion by name.
    config_maps: BTreeMap<String, (String, String)>,
    status: Map<String, Value>,
    seen: Observations,
    now: Timestamp,
    /// Delay of the replay relative to the recording, seconds.
    late: f64,
}

fn moment(t: f64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs_f64(t)
}

fn time_of(moment: Timestamp) -> f64 {
    moment.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64()
}

impl SimHarness {
    fn new(seed: u64) -> Self {
        Self {
            kubelet: SimKubelet::new(true, false, None, seed, moment(0.0)),
            wake: None,
            config_maps: BTreeMap::new(),
            status: Map::new(),
            seen: Observations::default(),
            now: moment(0.0),
            late: 0.0,
        }
    }

    /// Lets the kubelet handle a change, and carries out due work.
    fn change(&mut self, change: impl FnOnce(&mut SimKubelet, Timestamp), now: Timestamp) {
        change(&mut self.kubelet, now);
        let t = time_of(now);
        loop {
            let (writes, wake) = self.kubelet.advance(now);
            self.wake = wake;
            for write in writes {
                match write {
                    KubeletWrite::Config(_) if OUTAGE.contains(&t) => {
                        self.kubelet.status_lost(now);
                        self.wake = self.kubelet.advance(now).1;
                    }
                    KubeletWrite::Config(patch) => {
                        self.status.extend(patch);
                        self.status.retain(|_, value| !value.is_null());
                        self.seen.status(t - self.late, &Value::Object(self.status.clone()));
                    }
                    KubeletWrite::Event { reason, message } => {
                        self.seen.events.push((t - self.late, format!("{reason}: {message}")));
                    }
                    KubeletWrite::Ready { .. } | KubeletWrite::Aftermath(_) | KubeletWrite::Renew => {
                        panic!("unexpected {write:?}")
                    }
                }
            }
            let Some(source) = self.kubelet.download() else { return };
            let loaded = self.download(&source, t);
            self.kubelet.downloaded(loaded, now);
        }
    }

    fn download(&self, source: &ConfigMapSource, t: f64) -> Option<Loaded> {
        if OUTAGE.contains(&t) {
            return None;
        }
        let (uid, version) = self.config_maps.get(&source.name)?;
        let mut found = source.clone();
        found.uid = Some(uid.clone());
        found.resource_version = Some(version.clone());
        let problem = match source.kubelet_config_key.as_str() {
            "kubelet" => Running::new(Inputs::of_file(Minor(21), text(&source.name).as_bytes())).dynamic_error(),
            _ => Some(error_text::LOAD),
        };
        Some(Loaded { source: Arc::new(found), text: Arc::from([]), problem })
    }

    /// Runs to `end`, then up to a minute longer until `statuses` statuses were written.
    fn run_until_statuses(&mut self, statuses: usize, end: Timestamp) {
        self.run_until(end);
        while self.seen.statuses.len() < statuses {
            let at = self.wake.filter(|at| *at < end + Duration::from_secs(60)).expect("the status comes");
            self.run_until(at);
        }
    }

    fn run_until(&mut self, end: Timestamp) {
        while let Some(at) = self.wake.filter(|at| *at <= end) {
            self.change(|_, _| {}, at);
        }
        self.now = self.now.max(end);
    }
}

fn replay(lines: &[Value], seed: u64) -> Observations {
    let all = config_maps(lines);
    let mut sim = SimHarness::new(seed);
    // The recorder waited for the expected status before each step, so the replay does too.
    let (mut late, mut expected) = (0.0, Observations::default());
    for line in lines {
        let t = line["t"].as_f64().unwrap();
        let name = line["name"].as_str().unwrap_or_default();
        if line["kind"] == "node" {
            expected.status(t, &line["status_config"]);
        }
        if line["kind"] == "step" {
            sim.run_until_statuses(expected.statuses.len(), moment(t + late));
            late = time_of(sim.now) - t;
        }
        let now = moment(t + late);
        sim.run_until(now);
        sim.late = late;
        match line["kind"].as_str().unwrap() {
            "create-configmap" => {
                sim.config_maps.insert(name.to_owned(), all[name].clone());
            }
            "update-configmap" => {
                let version = line["resourceVersion"].as_str().unwrap().to_owned();
                sim.config_maps.get_mut(name).unwrap().1 = version;
                sim.change(SimKubelet::config_map_changed, now);
            }
            "delete-configmap" => {
                sim.config_maps.remove("b-config");
                sim.change(SimKubelet::config_map_changed, now);
            }
            "assign" => {
                let key = line["key"].as_str().unwrap();
                let source = ConfigSource::config_map("kube-system", name, key).config_map.unwrap();
                sim.change(|kubelet, now| kubelet.assign(Some(source), now), now);
            }
            "reset" => sim.change(|kubelet, now| kubelet.assign(None, now), now),
            "node" if sim.seen.statuses.is_empty() => sim.change(|kubelet, now| kubelet.assign(None, now), now),
            _ => {}
        }
    }
    sim.seen
}

/// Maximum time difference to the real kubelet, seconds. Both wait up to a loop period; at the end of a trial,
/// several periods add up.
fn tolerance(t: f64) -> f64 {
    if t > 1_000.0 && t < 1_015.0 { 24.0 } else { 13.0 }
}

#[test]
fn machine_matches_recorded_statuses_and_events() {
    let lines = lines();
    assert_eq!(lines.len(), 83);
    let real = recorded(&lines);
    assert_eq!((real.statuses.len(), real.events.len()), (15, 22));
    for seed in 0..300 {
        let simulated = replay(&lines, seed);
        let statuses = |seen: &Observations| seen.statuses.iter().map(|(_, status)| status.clone()).collect::<Vec<_>>();
        assert_eq!(statuses(&simulated), statuses(&real), "seed {seed}");
        let messages = |seen: &Observations| seen.events.iter().map(|(_, event)| event.clone()).collect::<Vec<_>>();
        assert_eq!(messages(&simulated), messages(&real), "seed {seed}");
        for ((at, status), (recorded_at, _)) in simulated.statuses.iter().zip(&real.statuses) {
            assert!((at - recorded_at).abs() < tolerance(*recorded_at), "seed {seed}: {at} {recorded_at} {status}");
        }
        for ((at, event), (recorded_at, _)) in simulated.events.iter().zip(&real.events) {
            assert!((at - recorded_at).abs() < tolerance(*recorded_at), "seed {seed}: {at} {recorded_at} {event}");
        }
    }
}

#[test]
fn restart_takes_recorded_time() {
    let real = recorded(&lines());
    let simulated = replay(&lines(), 7);
    for seen in [&real, &simulated] {
        for pair in seen.events.windows(2).filter(|pair| pair[1].1.starts_with("Starting")) {
            let pause = pair[1].0 - pair[0].0;
            assert!((5.49..5.70).contains(&pause), "{pause} s before {:?}", pair[1]);
        }
    }
}

#[test]
fn runs_are_deterministic_by_seed() {
    let lines = lines();
    let (a, b, c) = (replay(&lines, 1), replay(&lines, 1), replay(&lines, 2));
    assert_eq!((&a.statuses, &a.events), (&b.statuses, &b.events));
    assert_ne!(a.events, c.events);
    assert_eq!(
        a.statuses.last().map(|(_, status)| status["lastKnownGood"]["configMap"]["name"].clone()),
        Some(json!("c-config"))
    );
}
