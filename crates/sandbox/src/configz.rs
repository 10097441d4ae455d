//! What simulated kubelets answer on their own port, as far as it goes: `/configz`, the configuration that they run.
//!
//! As kubelets do (`cmd/kubelet/app/server.go`, `initConfigz`): their internal configuration with all defaults, converted
//! back, without `apiVersion` and `kind`, and without what Go's `omitempty` leaves away.

use serde_json::{Map, Value as Json, json};

use super::api::{Api, NodeProxy, Proxied};
use super::kubelets::Fault;
use kubelet_config::Minor;
use kubelet_config::defaults::{filled, is_struct, is_zero};
use kubelet_config::document::Document;
use kubelet_config::fields::{FieldType, child};
use kubelet_config::minor::{NEWEST, OLDEST};

/// What nodes are provisioned with (kubeadm's defaults, in short).
pub(super) const PROVISIONED: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous:
    enabled: false
  webhook:
    enabled: true
authorization:
  mode: Webhook
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
rotateCertificates: true
";

/// Fields that the kubelet shows with their zero value: Go's tags of these have no `omitempty`.
const SHOWN_WITH_ZERO: [&str; 3] =
    ["logging.verbosity", "logging.options.json.infoBufferSize", "logging.options.text.infoBufferSize"];

/// The answer of a kubelet of this version that runs this file.
pub(super) fn answer(path: &str, text: &str, minor: Minor, fault: Option<Fault>) -> Proxied {
    let plain = |status, body: &str| Proxied::Answer { status, content_type: "text/plain", body: body.to_owned() };
    let document = Document::parse("config", text).document;
    let configuration = document.map(|document| document.to_json()).unwrap_or_default();
    let configuration = configuration.as_object().cloned().unwrap_or_default();
    let says = |field: &str, value: bool| configuration.get(field) == Some(&Json::Bool(value));
    if says("enableServer", false) {
        return unreachable();
    }
    if fault == Some(Fault::RefusesConfigz) {
        let subresource = if minor >= Minor(33) { "subresource(s)=[configz proxy]" } else { "subresource=proxy" };
        return plain(
            403,
            &format!("Forbidden (user=kube-apiserver-kubelet-client, verb=get, resource=nodes, {subresource})"),
        );
    }
    if path != "/configz" || says("enableDebuggingHandlers", false) {
        return plain(404, "404: Page Not Found");
    }
    let mut whole = filled(&known(configuration, "", minor), minor);
    whole.retain(|key, _| key != "apiVersion" && key != "kind");
    let body = json!({"kubeletconfig": shown(whole, "", minor)}).to_string();
    Proxied::Answer { status: 200, content_type: "application/json", body }
}

/// That nothing listens there.
pub(super) fn unreachable() -> Proxied {
    Proxied::Unreachable("dial tcp 192.0.2.1:10250: connect: connection refused".to_owned())
}

/// Without the fields that this version does not know: the kubelet drops them when it reads the file.
fn known(map: Map<String, Json>, parent: &str, minor: Minor) -> Map<String, Json> {
    let keep = |(key, value): (String, Json)| {
        let field = child(parent, &key).filter(|field| field.is_known_to(minor))?;
        let value = match value {
            Json::Object(inner) if is_struct(field) => Json::Object(known(inner, &field.path, minor)),
            other => other,
        };
        Some((key, value))
    };
    map.into_iter().filter_map(keep).collect()
}

fn shown(map: Map<String, Json>, parent: &str, minor: Minor) -> Map<String, Json> {
    let keep = |(key, value): (String, Json)| {
        let Some(field) = child(parent, &key) else { return Some((key, value)) };
        let value = match value {
            Json::Object(inner) if is_struct(field) => {
                return Some((key, Json::Object(shown(inner, &field.path, minor))));
            }
            other => other,
        };
        let is_empty = match &value {
            Json::Array(list) => list.is_empty(),
            Json::Object(map) => map.is_empty(),
            _ => false,
        };
        let is_duration = field.types.at(minor).is_some_and(|types| types.contains(&FieldType::Duration));
        let stays = field.keeps_zero(minor) || is_duration || SHOWN_WITH_ZERO.contains(&field.path.as_str());
        (!is_empty && (stays || !is_zero(&value))).then_some((key, value))
    };
    map.into_iter().filter_map(keep).collect()
}

/// The version whose rules hold for a kubelet that calls itself so.
pub(super) fn minor_of(version: &str) -> Minor {
    Minor::parse(version).unwrap_or(NEWEST).clamp(OLDEST, NEWEST)
}

/// What a kubelet with Dynamic Kubelet Configuration runs, as its Node says: the ConfigMap that is active, or the file that
/// it was provisioned with. `None` when that ConfigMap is no longer there: the real one has it on its disk.
pub(super) fn active(api: &Api, node: &Json) -> Option<String> {
    let Some(active) = node.pointer("/status/config/active/configMap") else { return Some(PROVISIONED.to_owned()) };
    let text = |key: &str| active.get(key).and_then(Json::as_str).unwrap_or_default();
    let map = api.get("", "configmaps", text("namespace"), text("name"))?;
    map.get("data")?.get(text("kubeletConfigKey"))?.as_str().map(str::to_owned)
}

/// Kubelets that follow their Nodes.
pub(super) struct OfNodes<F> {
    /// The fault of a node.
    pub(super) fault: F,
}

impl<F: Fn(&str) -> Option<Fault> + Send + Sync> NodeProxy for OfNodes<F> {
    fn get(&self, api: &Api, node: &str, path: &str) -> Proxied {
        let Some(object) = api.get("", "nodes", "", node) else { return unreachable() };
        let fault = (self.fault)(node);
        let text = |pointer: &str| object.pointer(pointer).and_then(Json::as_str).unwrap_or_default();
        let conditions = object.pointer("/status/conditions").and_then(Json::as_array);
        let silent = conditions.into_iter().flatten().any(|condition| {
            condition.get("type").is_some_and(|kind| kind == "Ready")
                && condition.get("status").is_some_and(|status| status == "Unknown")
        });
        match active(api, &object) {
            Some(running) if !silent && fault != Some(Fault::Deaf) => {
                answer(path, &running, minor_of(text("/status/nodeInfo/kubeletVersion")), fault)
            }
            _ => unreachable(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(text: &str, minor: u32) -> Json {
        let Proxied::Answer { status: 200, body, .. } = answer("/configz", text, Minor(minor), None) else {
            panic!("no answer");
        };
        serde_json::from_str::<Json>(&body).unwrap()["kubeletconfig"].clone()
    }

    #[test]
    fn a_kubelet_shows_what_it_made_of_its_file() {
        let shown = shows(PROVISIONED, 36);
        assert_eq!((&shown["cgroupDriver"], &shown["clusterDNS"][0]), (&json!("systemd"), &json!("10.96.0.10")));
        assert_eq!((&shown["syncFrequency"], &shown["imageMaximumGCAge"]), (&json!("1m0s"), &json!("0s")));
        assert_eq!((&shown["authentication"]["x509"], &shown["memorySwap"]), (&json!({}), &json!({})));
        assert_eq!((&shown["podPidsLimit"], &shown["failSwapOn"]), (&json!(-1), &json!(true)));
        for left_away in ["apiVersion", "kind", "readOnlyPort", "providerID", "featureGates", "tracing"] {
            assert_eq!(shown.get(left_away), None, "{left_away}");
        }
        let old = shows("maxPods: 7\nseccompDefault: true\nevictionHard: {}", 21);
        assert_eq!((&old["maxPods"], &old["eventBurst"]), (&json!(7), &json!(10)));
        assert_eq!((old.get("seccompDefault"), old.get("evictionHard")), (None, None));
    }

    #[test]
    fn a_kubelet_without_debugging_handlers_shows_nothing() {
        let answer = answer("/configz", "enableDebuggingHandlers: false", Minor(30), None);
        assert!(matches!(answer, Proxied::Answer { status: 404, .. }));
    }
}
