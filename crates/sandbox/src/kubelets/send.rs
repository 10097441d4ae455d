//! Sends the requests of simulated kubelets, with retries for requests that the kubelet does not repeat.

use kube::Client;

use super::aftermath::Aftermath;
use super::attempts::{ATTEMPTS, attempt};
use super::config_maps::Key;
use super::report_aftermath::carry_out;
use super::requests::{self, ConfigMap};
use super::signals::Ready;
use nodecfg_contract::names::NodeName;

/// A write request of a kubelet.
pub(super) enum Effect {
    Config(serde_json::Map<String, serde_json::Value>),
    Ready { ready: Ready, changed: bool },
    Event { reason: &'static str, message: String },
    Aftermath(Aftermath),
}

/// Result of a finished task.
pub(super) enum TaskResult {
    Sent { slot: usize, config_lost: bool },
    Loaded { key: Key, outcome: Option<Option<Box<ConfigMap>>> },
}

pub(super) async fn load(client: Client, key: Key) -> TaskResult {
    let outcome = match requests::get_config_map(&key.0, &key.1) {
        // A name that is invalid in a path matches no ConfigMap.
        Err(_) => Some(None),
        Ok(request) => match client.request::<ConfigMap>(request).await {
            Ok(config_map) => Some(Some(Box::new(config_map))),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Some(None),
            Err(error) => {
                tracing::debug!(namespace = key.0, name = key.1, %error, "a simulated kubelet's download failed");
                None
            }
        },
    };
    TaskResult::Loaded { key, outcome }
}

/// Sends the writes of one kubelet in order.
pub(super) async fn send(client: Client, name: NodeName, slot: usize, effects: Vec<Effect>) -> TaskResult {
    let mut config_lost = false;
    for effect in effects {
        let node = name.as_str();
        let now = nodecfg_clock::now();
        let (what, request, attempts) = match &effect {
            Effect::Aftermath(aftermath) => {
                if let Err(error) = carry_out(&client, node, *aftermath).await {
                    tracing::debug!(node, ?aftermath, %error, "a simulated kubelet could not write");
                }
                continue;
            }
            // The status loop repeats a failed write.
            Effect::Config(config) => ("status.config", requests::patch_config(node, config), 1),
            Effect::Ready { ready, changed } => ("Ready", requests::patch_ready(node, *ready, *changed, now), ATTEMPTS),
            Effect::Event { reason, message } => ("an Event", requests::post_event(node, reason, message, now), 2),
        };
        let sent = match request {
            Ok(request) => attempt(&client, request, attempts).await,
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        let lost = match sent {
            Ok(()) => false,
            // The Node was deleted, and its kubelet follows.
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => {
                tracing::debug!(node, what, %error, "a simulated kubelet could not write");
                true
            }
        };
        if matches!(effect, Effect::Config(_)) {
            config_lost = lost;
        }
    }
    TaskResult::Sent { slot, config_lost }
}
