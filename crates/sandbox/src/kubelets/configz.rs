//! Responses of simulated kubelets on their own port: `/configz` with the running configuration.
//!
//! The content follows the kubelet (`cmd/kubelet/app/server.go`, `initConfigz`): the internal configuration with all
//! defaults, converted back. `apiVersion`, `kind` and the values that Go's `omitempty` drops are missing.

use serde_json::{Value as Json, json};

use super::fault::Fault;
use super::host_spec::HostSpec;
use crate::api::{Api, NodeProxy, ProxyResult};
use crate::running::{Inputs, Running, minor_of};
use kubelet_config::Minor;

/// Response of a kubelet.
pub(crate) fn respond(path: &str, running: &Running, fault: Option<&Fault>) -> ProxyResult {
    let plain =
        |status, body: &str| ProxyResult::Response { status, content_type: "text/plain", body: body.to_owned() };
    let Ok(configuration) = running.configuration() else { return unreachable() };
    let is_off = |field: &str| configuration.get(field) == Some(&Json::Bool(false));
    if is_off("enableServer") {
        return unreachable();
    }
    if fault == Some(&Fault::RefusesConfigz) {
        let recent = running.inputs.minor >= Minor(33);
        let subresource = if recent { "subresource(s)=[configz proxy]" } else { "subresource=proxy" };
        return plain(
            403,
            &format!("Forbidden (user=kube-apiserver-kubelet-client, verb=get, resource=nodes, {subresource})"),
        );
    }
    if path != "/configz" || is_off("enableDebuggingHandlers") {
        return plain(404, "404: Page Not Found");
    }
    let body = json!({"kubeletconfig": configuration}).to_string();
    ProxyResult::Response { status: 200, content_type: "application/json", body }
}

/// Error for a kubelet port without a listener.
pub(crate) fn unreachable() -> ProxyResult {
    ProxyResult::Unreachable("dial tcp 192.0.2.1:10250: connect: connection refused".to_owned())
}

/// What a kubelet with Dynamic Kubelet Configuration runs, according to its Node's status: the active ConfigMap or its
/// own file, with its flags.
///
/// `None` if the active ConfigMap or its key is missing. A real kubelet would have a copy on its disk.
fn running(api: &Api, node: &Json, fault: Option<&Fault>) -> Option<Running> {
    let annotations = node.pointer("/metadata/annotations").cloned().unwrap_or_default();
    let host = HostSpec::of(&serde_json::from_value(annotations).unwrap_or_default());
    let version = node.pointer("/status/nodeInfo/kubeletVersion").and_then(Json::as_str).unwrap_or_default();
    let mut inputs = Inputs::of_file(minor_of(version), host.own_file().as_bytes());
    inputs.flags = host.arguments(fault);
    if let Some(active) = node.pointer("/status/config/active/configMap") {
        let text = |key: &str| active.get(key).and_then(Json::as_str).unwrap_or_default();
        let map = api.get("", "configmaps", text("namespace"), text("name"))?;
        inputs.file = map.get("data")?.get(text("kubeletConfigKey"))?.as_str()?.as_bytes().into();
    }
    Some(Running::new(inputs))
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
        let conditions = object.pointer("/status/conditions").and_then(Json::as_array);
        let silent = conditions.into_iter().flatten().any(|condition| {
            condition.get("type").is_some_and(|kind| kind == "Ready")
                && condition.get("status").is_some_and(|status| status == "Unknown")
        });
        match running(api, &object, fault.as_ref()) {
            Some(running) if !silent && fault != Some(Fault::Deaf) => respond(path, &running, fault.as_ref()),
            _ => unreachable(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelets::host_spec::KUBEADM_FILE;

    const KIND: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn respond_with(text: &str, minor: u32) -> ProxyResult {
        respond("/configz", &Running::new(Inputs::of_file(Minor(minor), text.as_bytes())), None)
    }

    fn configz(body: &str, minor: u32) -> Json {
        let text = format!("{KIND}{body}");
        let ProxyResult::Response { status: 200, body, .. } = respond_with(&text, minor) else {
            panic!("no response");
        };
        serde_json::from_str::<Json>(&body).unwrap()["kubeletconfig"].clone()
    }

    #[test]
    fn configz_contains_defaults_and_omits_empty_fields() {
        let ProxyResult::Response { body, .. } = respond_with(KUBEADM_FILE, 36) else { panic!("no response") };
        let shown = serde_json::from_str::<Json>(&body).unwrap()["kubeletconfig"].clone();
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
        let response = respond_with(&format!("{KIND}enableDebuggingHandlers: false"), 30);
        assert!(matches!(response, ProxyResult::Response { status: 404, .. }));
    }
}
