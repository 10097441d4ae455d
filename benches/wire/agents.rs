//! Measures simulated nodes with the real agent in one process, each with its own watch on one API server.
//!
//! Reports memory, idle CPU, assignment latency, and the cost of a write that one node watches.

use std::fs;
use std::time::{Duration, Instant};

use nodecfg_agent::settings::Settings;
use nodecfg_contract::ContentHash;
use nodecfg_sandbox::api::{Api, ServerProfile};
use nodecfg_sandbox::{Embedded, EmbeddedOptions, agents, nodes};
use serde_json::{Value, json};

use super::figures::Figures;
use super::quantile;

/// Cluster sizes, in nodes.
const SIZES: [usize; 3] = [10, 1000, 5000];
/// Nodes that are assigned one by one.
const ONE_BY_ONE: usize = 100;
/// Number of timed writes of one NodeConfig.
const WRITES: usize = 500;
/// Duration of the idle measurement.
const REST: Duration = Duration::from_secs(10);

pub async fn measure(figures: &mut Figures) {
    println!(
        "{:>6} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "nodes", "start s", "MB", "kB/node", "idle CPU %", "write µs", "median s", "p90 s", "all s", "CPU s"
    );
    for size in SIZES {
        cluster(figures, size).await;
    }
    println!(
        "median, p90: from an assignment to the status that says active, one node at a time; of that the simulated kubelet"
    );
    println!("takes 1.2 to 5.6 s, 3.4 s on average. all: every node assigned at once, until the last is active.");
}

async fn cluster(figures: &mut Figures, size: usize) {
    let empty = resident();
    let began = Instant::now();
    let options = EmbeddedOptions {
        profile: ServerProfile::V1_36,
        images: 0,
        // A short trial, because only the time before the trial is measured.
        agents: agents::Options {
            settings: Settings { trial_period: Duration::from_secs(1), ..Settings::default() },
            ..agents::Options::default()
        },
        ..EmbeddedOptions::default()
    };
    let specs = nodes::generic(size, &[], "v1.36.2").unwrap();
    let names: Vec<String> = specs.iter().map(|spec| spec.name.to_string()).collect();
    let embedded = Embedded::start(options, specs).await.expect("a sandbox");
    let api = embedded.api();
    for version in ["a", "b"] {
        let text = configuration(version);
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": version}, "immutable": true,
            "data": {"kubelet": text}});
        api.create("", "configmaps", "nodecfg-system", config_map, "bench").unwrap();
    }
    for name in &names {
        let object =
            json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": name}, "spec": {}});
        api.create("nodecfg.dev", "nodeconfigs", "", object, "bench").unwrap();
    }
    for name in &names {
        until(api, name, |config| *config == json!({})).await;
    }
    let start = began.elapsed().as_secs_f64();
    let held = resident() - empty;

    let before = cpu();
    tokio::time::sleep(REST).await;
    let idle = (cpu() - before) / REST.as_secs_f64() * 100.0;

    let client = embedded.client();
    let last = names.last().unwrap();
    let began = Instant::now();
    for write in 0..WRITES {
        patch(&client, last, &json!({"metadata": {"labels": {"write": write.to_string()}}})).await;
    }
    let write = began.elapsed().as_secs_f64() / WRITES as f64 * 1e6;

    let mut latencies = Vec::new();
    for name in names.iter().take(ONE_BY_ONE) {
        let began = Instant::now();
        patch(&client, name, &assignment("a")).await;
        until(api, name, |config| config["active"]["configMap"]["name"] == "a").await;
        latencies.push(began.elapsed().as_secs_f64());
        if latencies.iter().sum::<f64>() > 60.0 {
            break;
        }
    }

    let (began, before) = (Instant::now(), cpu());
    for name in &names {
        patch(&client, name, &assignment("b")).await;
    }
    for name in &names {
        until(api, name, |config| config["active"]["configMap"]["name"] == "b").await;
    }
    let all = began.elapsed().as_secs_f64();
    if size == 5000 {
        for (name, value) in [
            ("memory for each", held / 1e3 / size as f64),
            ("CPU at rest", idle),
            ("a PATCH that one agent sees", write / 1e3),
            ("assigned to active, median", quantile(&latencies, 0.5)),
            ("all assigned at once, CPU", cpu() - before),
        ] {
            figures.note(&format!("5,000 agents in one process: {name}"), value);
        }
    }
    println!(
        "{size:>6} {start:>9.1} {:>9.0} {:>9.0} {idle:>10.1} {write:>10.0} {:>10.2} {:>10.2} {all:>10.1} {:>10.1}",
        held / 1e6,
        held / 1e3 / size as f64,
        quantile(&latencies, 0.5),
        quantile(&latencies, 0.9),
        cpu() - before,
    );
    embedded.stop(None).await;
}

fn configuration(name: &str) -> String {
    let pods = if name == "a" { 50 } else { 60 };
    format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: {pods}\n")
}

fn assignment(name: &str) -> Value {
    let source = json!({"configMap": {"namespace": "nodecfg-system", "name": name, "kubeletConfigKey": "kubelet"}});
    let hash = ContentHash::of(configuration(name).as_bytes()).to_string();
    json!({"spec": {"configSource": source, "contentHash": hash, "maxDisruption": "replace"}})
}

async fn patch(client: &kube::Client, name: &str, patch: &Value) {
    let request = kube::core::Request::new("/apis/nodecfg.dev/v1alpha1/nodeconfigs");
    let patch = kube::core::params::Patch::Merge(patch);
    let request = request.patch(name, &kube::core::params::PatchParams::default(), &patch).unwrap();
    client.request_text(request).await.unwrap();
}

async fn until(api: &Api, name: &str, holds: impl Fn(&Value) -> bool) {
    loop {
        let object = api.get("nodecfg.dev", "nodeconfigs", "", name).unwrap();
        if holds(&object["status"]["config"]) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Resident memory of this process, bytes; NaN without /proc.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0)
}

/// User and system time of this process, seconds; NaN without /proc.
fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    if ticks.len() == 2 { ticks.iter().sum::<f64>() / 100.0 } else { f64::NAN }
}
