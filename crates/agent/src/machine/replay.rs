//! Replay of the recorded kubelet 1.21 with Dynamic Kubelet Configuration (`tests/data/recordings`) against the
//! machine.
//!
//! The same actions must lead to the same values of `status.config`, in the same order. They must also lead to the
//! same `KubeletConfigChanged` events, in the same order, with the same names, texts, uids and resourceVersions, except
//! for refused configurations: the kubelet restarts to refuse them, and the agent does not restart it.
//! Times are not compared: the agent is faster, except after a change of a ConfigMap.

use serde_json::Value;

use super::sim_harness::{SimHarness, at};
use super::sim_inputs::SimConfigMap;
use crate::events::ConfigCheck;
use nodecfg_contract::{ConfigSource, ConfigStatus};

fn lines() -> Vec<Value> {
    let text = include_str!("../../../../tests/data/recordings/kubelet-1.21-dynamic-config.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Config check that matches the recorded kubelet's reaction to a ConfigMap.
fn config_check(name: &str) -> ConfigCheck {
    let (message, kubelet) = (String::new(), None);
    match name {
        "bad-value" | "bad-value2" => ConfigCheck::NotValid { message, kubelet },
        "bad-yaml" => ConfigCheck::NotLoaded { message, kubelet },
        _ => ConfigCheck::Accepted,
    }
}

/// Uid and first resourceVersion of a ConfigMap, from the first event that names it.
fn identity(lines: &[Value], name: &str) -> (String, String) {
    let message = lines
        .iter()
        .filter_map(|line| line["message"].as_str())
        .find(|message| message.contains(&format!("/configmaps/{name}, UID")))
        .unwrap();
    let field = |label: &str| message.split(label).nth(1).unwrap().split(',').next().unwrap().to_owned();
    (field("UID: "), field("ResourceVersion: "))
}

#[test]
fn reports_the_same_as_the_recorded_kubelet() {
    let lines = lines();
    for seed in 0..20 {
        let mut sim = SimHarness::new(seed);
        // After a change of a ConfigMap, the recording leaves less time than the agent may take, so later actions are
        // delayed.
        let mut late = 0.0;
        for line in &lines {
            sim.run_until(at(line["t"].as_f64().unwrap() + late));
            let name = line["name"].as_str().unwrap_or_default().to_owned();
            match line["kind"].as_str().unwrap() {
                "create-configmap" => {
                    let (uid, version) = identity(&lines, &name);
                    sim.config_maps.insert(
                        name.clone(),
                        SimConfigMap { uid, version, immutable: false, hash: None, config_check: config_check(&name) },
                    );
                }
                "update-configmap" => {
                    let version = line["resourceVersion"].as_str().unwrap().to_owned();
                    sim.config_maps.get_mut(&name).unwrap().version = version;
                    late += 100.0;
                    sim.run_for(100.0);
                }
                "delete-configmap" => {
                    sim.config_maps.remove("b-config");
                    late += 100.0;
                    sim.run_for(100.0);
                }
                "assign" => {
                    let key = line["key"].as_str().unwrap();
                    sim.assign(Some(ConfigSource::config_map("kube-system", &name, key)));
                }
                "reset" => sim.assign(None),
                _ => {}
            }
        }
        let mut statuses: Vec<String> = Vec::new();
        for line in lines.iter().filter(|line| line["kind"] == "node") {
            let status: ConfigStatus = serde_json::from_value(line["status_config"].clone()).unwrap();
            let status = serde_json::to_string(&status).unwrap();
            if statuses.last() != Some(&status) {
                statuses.push(status);
            }
        }
        assert_eq!(statuses.len(), 15);
        let reported: Vec<String> = sim.statuses.iter().map(|status| serde_json::to_string(status).unwrap()).collect();
        assert_eq!(reported, statuses, "seed {seed}");
        let events: Vec<&str> = lines
            .iter()
            .filter(|line| line["reason"] == "KubeletConfigChanged")
            .map(|line| line["message"].as_str().unwrap())
            .collect();
        let is_refused =
            |message: &&str| ["configmaps/bad-", "KubeletConfigKey: nokey"].iter().any(|it| message.contains(it));
        let events: Vec<&str> = events.into_iter().filter(|message| !is_refused(message)).collect();
        let mut announced = Vec::new();
        let mut was_refused = false;
        for event in &sim.announcements {
            match event.reason {
                // After a refusal, the agent returns to its last known good without a trial of the refused one.
                "KubeletConfigChanged" if was_refused && event.message.ends_with("local config") => {}
                "KubeletConfigChanged" => announced.push(event.message.as_str()),
                reason => assert_eq!((reason, event.warning), ("KubeletConfigRefused", true)),
            }
            was_refused = event.reason == "KubeletConfigRefused";
        }
        assert_eq!(announced, events, "seed {seed}");
    }
}
