//! Replay of recorded exchanges with real API servers. Compares what clients decide by in every response of the
//! embedded server: statuses, reasons, and the content of objects; not the wording of refusals, empty values, and who
//! owns which field.
//!
//! uids, times and revisions differ between runs. The first occurrence of a recorded value maps it to a value of this
//! run. Later occurrences must agree, so that a write that should change nothing is detected. Every excluded case has
//! a reason.

mod normalize;
mod tables;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::StreamExt;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Api, ApiOptions, ServerProfile, User};
use normalize::Mapping;

const TOKEN: &str = "admin-token";

/// Result of a replay.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Cases with equal responses.
    pub(crate) compared: Vec<String>,
    /// Cases that were sent but not compared, with the reason.
    pub(crate) excluded: Vec<(String, &'static str)>,
    /// Cases with different responses, with both responses.
    pub(crate) differing: Vec<String>,
}

/// Returns the reason why a case is not compared, if any.
fn exclusion(profile: ServerProfile, case: &str) -> Option<&'static str> {
    match case {
        "version" => Some("the sandbox has no build of its own"),
        "server-side-apply-conflict" if profile == ServerProfile::V1_36 => {
            Some("managers of the sandbox do not own the fields that it drops")
        }
        "create-crd" | "get-crd-established" | "delete-crd" => {
            Some("the sandbox establishes and deletes definitions at once")
        }
        "watch-list-streaming" => Some("the recorded server had an etcd that cannot stream lists"),
        _ => None,
    }
}

struct Replay {
    api: Api,
    mapping: Mapping,
    report: Report,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn encode(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes().map(|b| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

impl Replay {
    fn new(profile: ServerProfile) -> Self {
        let tokens = BTreeMap::from([(TOKEN.to_owned(), User::admin("admin"))]);
        let api = Api::new(ApiOptions { profile, tokens, ..ApiOptions::default() });
        Self { api, mapping: Mapping::default(), report: Report::default() }
    }

    async fn send(&self, method: &str, uri: &str, headers: &[(String, String)], body: Body) -> Response {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        self.api.router().oneshot(request.body(body).unwrap()).await.unwrap()
    }

    /// Sends a request that is missing in the recording.
    async fn step(&self, method: &str, uri: &str, content_type: &str, body: &Value) -> Value {
        let headers = [
            ("Authorization", format!("Bearer {TOKEN}")),
            ("User-Agent", "python-requests/2".to_owned()),
            ("Content-Type", content_type.to_owned()),
        ];
        let headers: Vec<(String, String)> = headers.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let response = self.send(method, uri, &headers, Body::from(body.to_string())).await;
        assert!(response.status().is_success(), "{method} {uri}: {}", response.status());
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    async fn prepare(&self) {
        if self.api.profile() != ServerProfile::V1_36 {
            return;
        }
        // The recorded 1.36 server already had a node.
        let applied = "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"annotations\":{},\"labels\":{\"pool\":\"a\"},\
                       \"name\":\"n1\"}}\n";
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": "n1",
            "labels": {"pool": "a"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}
        }});
        self.step("POST", "/api/v1/nodes?fieldManager=kubectl-client-side-apply", "application/json", &node).await;
        let source = json!({"configMap": {"kubeletConfigKey": "kubelet", "name": "a", "namespace": "kube-system"}});
        let patch = json!({"spec": {"configSource": source}});
        let merge = "application/merge-patch+json";
        self.step("PATCH", "/api/v1/nodes/n1?fieldManager=kubectl-patch", merge, &patch).await;
    }

    async fn before(&mut self, case: &str, recorded: &Value) {
        if case != "list-continue-expired-410" {
            return;
        }
        // The token is of an unrecorded list. Later writes and a compaction made the token expire.
        let list = self.step("GET", "/api/v1/nodes?labelSelector=rec%3Dy&limit=1", "", &Value::Null).await;
        self.mapping.token(text(recorded, "/request/params/continue"), text(&list, "/metadata/continue"));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gap"}});
        self.step("POST", "/api/v1/namespaces/default/configmaps", "application/json", &map).await;
        self.step("DELETE", "/api/v1/namespaces/default/configmaps/gap", "", &Value::Null).await;
        self.step(
            "PATCH",
            "/api/v1/nodes/rn4",
            "application/merge-patch+json",
            &json!({"metadata": {"labels": {"x": "1"}}}),
        )
        .await;
        self.step(
            "PATCH",
            "/api/v1/nodes/rn4",
            "application/merge-patch+json",
            &json!({"metadata": {"labels": {"x": null}}}),
        )
        .await;
        // A 1.36 server serves compacted revisions from its cache.
        if self.api.profile() == ServerProfile::V1_21 {
            self.api.forget_history();
        }
    }

    async fn during(&self, case: &str) {
        if case != "watch-nodes-label-selector" {
            return;
        }
        let merge = "application/merge-patch+json";
        for labels in [json!({"touched": "1"}), json!({"rec": "n"}), json!({"rec": "y"})] {
            self.step("PATCH", "/api/v1/nodes/rn5", merge, &json!({"metadata": {"labels": labels}})).await;
        }
        self.step("DELETE", "/api/v1/nodes/rn5", "", &Value::Null).await;
    }

    fn uri(&self, case: &str, recorded: &Value) -> String {
        let mut pairs = Vec::new();
        for (key, value) in recorded.pointer("/request/params").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            let value = match key.as_str() {
                "resourceVersion" => self.mapping.revision(value).unwrap_or_else(|| value.to_owned()),
                "continue" => self.mapping.continuation(value).unwrap_or_else(|| value.to_owned()),
                // Long enough for the recorded last bookmark; short for all other cases.
                "timeoutSeconds" if case == "watch-nodes-label-selector" => "5".to_owned(),
                "timeoutSeconds" => "1".to_owned(),
                _ => value.to_owned(),
            };
            pairs.push(format!("{}={}", encode(key), encode(&value)));
        }
        let path = text(recorded, "/request/path");
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }

    fn headers(case: &str, recorded: &Value) -> Vec<(String, String)> {
        let given = recorded.pointer("/request/headers").and_then(Value::as_object);
        let mut headers: Vec<(String, String)> = given
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        headers.push(("User-Agent".to_owned(), "python-requests/2.32".to_owned()));
        let authorized = headers.iter().any(|(name, _)| name == "Authorization");
        if !authorized && !case.starts_with("anonymous") {
            headers.push(("Authorization".to_owned(), format!("Bearer {TOKEN}")));
        }
        headers
    }

    async fn case(&mut self, recorded: &Value) {
        let case = text(recorded, "/case").to_owned();
        self.before(&case, recorded).await;
        let body = match recorded.pointer("/request/body") {
            None | Some(Value::Null) => Body::empty(),
            Some(body) => Body::from(self.mapping.request(body).to_string()),
        };
        let headers = Self::headers(&case, recorded);
        let uri = self.uri(&case, recorded);
        let response = self.send(text(recorded, "/request/method"), &uri, &headers, body).await;
        let status = response.status().as_u16();
        let mut found = json!({"status": status});
        let shown = ["Content-Type", "Warning"];
        for name in shown {
            if let (Some(value), Some(_)) = (response.headers().get(name), recorded.pointer("/response/headers")) {
                found[name] = value.to_str().unwrap().into();
            }
        }
        let mut wanted = json!({"status": recorded.pointer("/response/status")});
        for name in shown {
            if let Some(value) = recorded.pointer(&format!("/response/headers/{name}")) {
                wanted[name] = value.clone();
            }
        }
        match recorded.pointer("/response/stream").and_then(Value::as_array) {
            Some(lines) => {
                wanted["stream"] = lines.clone().into();
                found["stream"] = self.read_stream(&case, response, lines.len()).await.into();
            }
            None => {
                wanted["body"] = recorded.pointer("/response/body").cloned().unwrap_or_default();
                let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                found["body"] = serde_json::from_slice(&bytes).unwrap_or(Value::String(text));
            }
        }
        if let Some(why) = exclusion(self.api.profile(), &case) {
            self.report.excluded.push((case, why));
            return;
        }
        self.compare(case, wanted, found);
    }

    async fn read_stream(&self, case: &str, response: Response, expected: usize) -> Vec<Value> {
        let mut frames = response.into_body().into_data_stream();
        self.during(case).await;
        let mut bytes = Vec::new();
        let mut lines = 0;
        // The recorder stopped at the first event. Further events would be the history of another run.
        let first_only = case == "watch-expired-rv";
        while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_secs(10), frames.next()).await {
            let frame = frame.unwrap();
            lines += frame.iter().filter(|byte| **byte == b'\n').count();
            bytes.extend_from_slice(&frame);
            if first_only && lines >= expected {
                break;
            }
        }
        let all = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>().map(Result::unwrap);
        if first_only { all.take(expected).collect() } else { all.collect() }
    }

    fn compare(&mut self, case: String, wanted: Value, found: Value) {
        let (wanted, found) = tables::reduce(&case, wanted, found);
        let (mut wanted, mut found) = self.mapping.normalize(&case, wanted, found);
        normalize::reduce(&mut wanted);
        normalize::reduce(&mut found);
        if wanted == found {
            self.report.compared.push(case);
        } else {
            let show = |value: &Value| serde_json::to_string_pretty(&normalize::sorted(value)).unwrap();
            let differences = normalize::differences(&wanted, &found);
            self.report.differing.push(format!(
                "{case}: {differences}\nrecorded {}\nanswered {}",
                show(&wanted),
                show(&found)
            ));
        }
    }
}

fn recording(profile: ServerProfile) -> &'static str {
    match profile {
        ServerProfile::V1_21 => include_str!("../../../../tests/data/recordings/apiserver-1.21.jsonl"),
        ServerProfile::V1_36 => include_str!("../../../../tests/data/recordings/apiserver-1.36.jsonl"),
    }
}

/// Replays every recorded case of a server, in order.
pub(crate) async fn replay(profile: ServerProfile) -> Report {
    let mut replay = Replay::new(profile);
    replay.prepare().await;
    for line in recording(profile).lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        replay.case(&recorded).await;
    }
    replay.report
}

/// Prints the number of compared cases and every excluded case. Panics if a response differs or a case is missing.
pub(crate) fn assert_all_agree(profile: ServerProfile, report: &Report) {
    println!("{profile:?}: {} cases agree with the recording", report.compared.len());
    for (case, why) in &report.excluded {
        println!("{profile:?}: {case} is not compared: {why}");
    }
    assert!(report.differing.is_empty(), "{}", report.differing.join("\n\n"));
    let sent = report.compared.len() + report.excluded.len();
    assert_eq!(sent, recording(profile).lines().count());
}

#[tokio::test]
async fn matches_the_recorded_1_21_server() {
    let report = replay(ServerProfile::V1_21).await;
    assert_all_agree(ServerProfile::V1_21, &report);
}

#[tokio::test]
async fn matches_the_recorded_1_36_server() {
    let report = replay(ServerProfile::V1_36).await;
    assert_all_agree(ServerProfile::V1_36, &report);
}

/// Decodes a continue token, to compare its contents.
fn decode_token(token: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()
}
