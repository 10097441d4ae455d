//! The requests that simulated kubelets make, one function each: what is tried again here, and what is left to the
//! kubelet.

use std::time::Duration;

use kube::Client;

use super::config_maps::Key;
use super::signals::Ready;
use super::wire::{self, ConfigMap};
use nodecfg_contract::names::NodeName;

/// How often a request whose outcome must arrive is tried.
pub(crate) const ATTEMPTS: u32 = 8;

/// What a kubelet sends.
pub(super) enum Effect {
    Config(serde_json::Map<String, serde_json::Value>),
    Ready { ready: Ready, changed: bool },
    Event { reason: &'static str, message: String },
}

/// A finished task.
pub(super) enum Done {
    Sent { slot: usize, config_lost: bool },
    Loaded { key: Key, outcome: Option<Option<ConfigMap>> },
}

pub(super) async fn load(client: Client, key: Key) -> Done {
    let outcome = match wire::get_config_map(&key.0, &key.1) {
        // A name that cannot be put into a path names no ConfigMap.
        Err(_) => Some(None),
        Ok(request) => match client.request::<ConfigMap>(request).await {
            Ok(config_map) => Some(Some(config_map)),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Some(None),
            Err(error) => {
                tracing::debug!(namespace = key.0, name = key.1, %error, "a simulated kubelet's download failed");
                None
            }
        },
    };
    Done::Loaded { key, outcome }
}

/// Sends what one kubelet has to send, in order.
pub(super) async fn send(client: Client, name: NodeName, slot: usize, effects: Vec<Effect>) -> Done {
    let mut config_lost = false;
    for effect in effects {
        let node = name.as_str();
        let now = nodecfg_clock::now();
        let (what, request, attempts) = match &effect {
            // The status loop brings it again.
            Effect::Config(config) => ("status.config", wire::patch_config(node, config), 1),
            Effect::Ready { ready, changed } => ("Ready", wire::patch_ready(node, *ready, *changed, now), ATTEMPTS),
            Effect::Event { reason, message } => ("an Event", wire::post_event(node, reason, message, now), 2),
        };
        let sent = match request {
            Ok(request) => attempt(&client, request, attempts).await,
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        let lost = match sent {
            Ok(()) => false,
            // The Node is gone, and its kubelet is about to be.
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
    Done::Sent { slot, config_lost }
}

/// Sends a request until it is answered or refused for good, so many times at most.
pub(crate) async fn attempt(
    client: &Client,
    request: http::Request<Vec<u8>>,
    attempts: u32,
) -> Result<(), kube::Error> {
    let mut pause = Duration::from_millis(50);
    for _ in 1..attempts {
        match client.request_text(request.clone()).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                return Err(kube::Error::Api(status));
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause *= 2;
    }
    client.request_text(request).await.map(|_| ())
}
