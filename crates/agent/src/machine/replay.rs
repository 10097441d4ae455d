//! The recorded kubelet 1.21 with Dynamic Kubelet Configuration (`tests/data/recordings`), lived through by the machine: the
//! same steps at the same moments, and in the end the same values of `status.config` and the same `KubeletConfigChanged`
//! events, in the same order, with their names, texts, uids and resourceVersions. When each comes is not compared: the agent
//! is faster.

use serde_json::Value;

use super::world::{Map, World, at};
use crate::events::ConfigCheck;
use nodecfg_contract::{ConfigSource, ConfigStatus};

fn lines() -> Vec<Value> {
    let text = include_str!("../../../../tests/data/recordings/kubelet-1.21-dynamic-config.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the kubelet said of each ConfigMap of the recording.
fn verdict(name: &str) -> ConfigCheck {
    let (message, kubelet) = (String::new(), None);
    match name {
        "bad-value" | "bad-value2" => ConfigCheck::NotValid { message, kubelet },
        "bad-yaml" => ConfigCheck::NotLoaded { message, kubelet },
        _ => ConfigCheck::Accepted,
    }
}

/// The uid and first resourceVersion of a ConfigMap, from the first event that names it.
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
fn the_agent_says_what_the_recorded_kubelet_said() {
    let lines = lines();
    for seed in 0..20 {
        let mut world = World::new(seed);
        // The recording leaves less time to follow a change of a ConfigMap than the agent may take: what comes after is late.
        let mut late = 0.0;
        for line in &lines {
            world.run_until(at(line["t"].as_f64().unwrap() + late));
            let name = line["name"].as_str().unwrap_or_default().to_owned();
            match line["kind"].as_str().unwrap() {
                "create-configmap" => {
                    let (uid, version) = identity(&lines, &name);
                    world.maps.insert(
                        name.clone(),
                        Map { uid, version, immutable: false, hash: None, verdict: verdict(&name) },
                    );
                }
                "update-configmap" => {
                    let version = line["resourceVersion"].as_str().unwrap().to_owned();
                    world.maps.get_mut(&name).unwrap().version = version;
                    late += 100.0;
                    world.run_for(100.0);
                }
                "delete-configmap" => {
                    world.maps.remove("b-config");
                    late += 100.0;
                    world.run_for(100.0);
                }
                "assign" => {
                    let key = line["key"].as_str().unwrap();
                    world.assign(Some(ConfigSource::config_map("kube-system", &name, key)));
                }
                "reset" => world.assign(None),
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
        let told: Vec<String> = world.statuses.iter().map(|status| serde_json::to_string(status).unwrap()).collect();
        assert_eq!(told, statuses, "seed {seed}");
        let events: Vec<&str> = lines
            .iter()
            .filter(|line| line["reason"] == "KubeletConfigChanged")
            .map(|line| line["message"].as_str().unwrap())
            .collect();
        let announced: Vec<&str> = world.announcements.iter().map(|said| said.message.as_str()).collect();
        assert_eq!(announced, events, "seed {seed}");
        assert!(world.announcements.iter().all(|said| said.reason == "KubeletConfigChanged" && !said.warning));
    }
}
