//! Responses of simulated kubelets on their own port: `/configz` with the running configuration.
//!
//! The content follows the kubelet (`cmd/kubelet/app/server.go`, `initConfigz`): the internal configuration with all
//! defaults, converted back. `apiVersion`, `kind` and the values that Go's `omitempty` drops are missing.

use serde_json::{Map, Value as Json, json};

use super::api::{Api, NodeProxy, ProxyResult};
use super::kubelets::Fault;
use super::nodes::HostSpec;
use kubelet_config::Minor;
use kubelet_config::defaults::{is_struct, is_zero, with_defaults};
use kubelet_config::document::Document;
use kubelet_config::fields::{FieldType, child};
use kubelet_config::filled_in::fill_in_certificate;
use kubelet_config::minor::{NEWEST, OLDEST};

/// Fields that the kubelet prints with their zero value, because their Go tags have no `omitempty`.
const SHOWN_WITH_ZERO: [&str; 3] =
    ["logging.verbosity", "logging.options.json.infoBufferSize", "logging.options.text.infoBufferSize"];

/// Response of a kubelet of version `minor` that runs the configuration `text`.
pub(super) fn respond(path: &str, text: &str, minor: Minor, fault: Option<Fault>) -> ProxyResult {
    let plain =
        |status, body: &str| ProxyResult::Response { status, content_type: "text/plain", body: body.to_owned() };
    let document = Document::parse("config", text).document;
    let configuration = document.map(|document| document.to_json()).unwrap_or_default();
    let configuration = configuration.as_object().cloned().unwrap_or_default();
    let is_set_to = |field: &str, value: bool| configuration.get(field) == Some(&Json::Bool(value));
    if is_set_to("enableServer", false) {
        return unreachable();
    }
    if fault == Some(Fault::RefusesConfigz) {
        let subresource = if minor >= Minor(33) { "subresource(s)=[configz proxy]" } else { "subresource=proxy" };
        return plain(
            403,
            &format!("Forbidden (user=kube-apiserver-kubelet-client, verb=get, resource=nodes, {subresource})"),
        );
    }
    if path != "/configz" || is_set_to("enableDebuggingHandlers", false) {
        return plain(404, "404: Page Not Found");
    }
    let mut known = known_fields(configuration, "", minor);
    fill_in_certificate(&mut known);
    let mut whole = with_defaults(&known, minor);
    whole.retain(|key, _| key != "apiVersion" && key != "kind");
    let body = json!({"kubeletconfig": printed_fields(whole, "", minor)}).to_string();
    ProxyResult::Response { status: 200, content_type: "application/json", body }
}

/// Error for a kubelet port without a listener.
pub(super) fn unreachable() -> ProxyResult {
    ProxyResult::Unreachable("dial tcp 192.0.2.1:10250: connect: connection refused".to_owned())
}

/// Drops fields that version `minor` does not have, as the kubelet does when it reads the file.
fn known_fields(map: Map<String, Json>, parent: &str, minor: Minor) -> Map<String, Json> {
    let keep = |(key, value): (String, Json)| {
        let field = child(parent, &key).filter(|field| field.is_known_to(minor))?;
        let value = match value {
            Json::Object(inner) if is_struct(field) => Json::Object(known_fields(inner, &field.path, minor)),
            other => other,
        };
        Some((key, value))
    };
    map.into_iter().filter_map(keep).collect()
}

fn printed_fields(map: Map<String, Json>, parent: &str, minor: Minor) -> Map<String, Json> {
    let keep = |(key, value): (String, Json)| {
        let Some(field) = child(parent, &key) else { return Some((key, value)) };
        let value = match value {
            Json::Object(inner) if is_struct(field) => {
                return Some((key, Json::Object(printed_fields(inner, &field.path, minor))));
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

/// Supported Kubernetes version closest to a kubelet's version string.
pub(super) fn minor_of(version: &str) -> Minor {
    Minor::parse(version).unwrap_or(NEWEST).clamp(OLDEST, NEWEST)
}

/// Configuration that a kubelet with Dynamic Kubelet Configuration runs, according to its Node's status: the active
/// ConfigMap or the local configuration, which an annotation may set.
///
/// `None` if the active ConfigMap or its key is missing. A real kubelet would have a copy on its disk.
pub(super) fn active(api: &Api, node: &Json) -> Option<String> {
    let Some(active) = node.pointer("/status/config/active/configMap") else {
        let annotations = node.pointer("/metadata/annotations").cloned().unwrap_or_default();
        let host = HostSpec::of(&serde_json::from_value(annotations).unwrap_or_default());
        return Some(host.own_file().to_owned());
    };
    let text = |key: &str| active.get(key).and_then(Json::as_str).unwrap_or_default();
    let map = api.get("", "configmaps", text("namespace"), text("name"))?;
    map.get("data")?.get(text("kubeletConfigKey"))?.as_str().map(str::to_owned)
}

/// Proxy to simulated kubelets that follow `configSource`.
pub(super) struct KubeletProxy<F> {
    /// Returns the fault of a node.
    pub(super) fault: F,
}

impl<F: Fn(&str) -> Option<Fault> + Send + Sync> NodeProxy for KubeletProxy<F> {
    fn get(&self, api: &Api, node: &str, path: &str) -> ProxyResult {
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
                respond(path, &running, minor_of(text("/status/nodeInfo/kubeletVersion")), fault)
            }
            _ => unreachable(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::KUBEADM_FILE;

    fn configz(text: &str, minor: u32) -> Json {
        let ProxyResult::Response { status: 200, body, .. } = respond("/configz", text, Minor(minor), None) else {
            panic!("no response");
        };
        serde_json::from_str::<Json>(&body).unwrap()["kubeletconfig"].clone()
    }

    #[test]
    fn configz_contains_defaults_and_omits_empty_fields() {
        let shown = configz(KUBEADM_FILE, 36);
        assert_eq!((&shown["cgroupDriver"], &shown["clusterDNS"][0]), (&json!("systemd"), &json!("10.96.0.10")));
        assert_eq!((&shown["syncFrequency"], &shown["imageMaximumGCAge"]), (&json!("1m0s"), &json!("0s")));
        assert_eq!((&configz("", 36)["authentication"]["x509"], &shown["memorySwap"]), (&json!({}), &json!({})));
        assert_eq!(shown["tlsCertFile"], json!("/var/lib/kubelet/pki/kubelet.crt"));
        assert_eq!((&shown["podPidsLimit"], &shown["failSwapOn"]), (&json!(-1), &json!(true)));
        for omitted in ["apiVersion", "kind", "readOnlyPort", "providerID", "featureGates", "tracing"] {
            assert_eq!(shown.get(omitted), None, "{omitted}");
        }
        let old = configz("maxPods: 7\nseccompDefault: true\nevictionHard: {}", 21);
        assert_eq!((&old["maxPods"], &old["eventBurst"]), (&json!(7), &json!(10)));
        assert_eq!((old.get("seccompDefault"), old.get("evictionHard")), (None, None));
    }

    #[test]
    fn configz_returns_404_without_debugging_handlers() {
        let response = respond("/configz", "enableDebuggingHandlers: false", Minor(30), None);
        assert!(matches!(response, ProxyResult::Response { status: 404, .. }));
    }
}
