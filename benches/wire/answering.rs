//! Answers of node agents without agents: the status of each assigned NodeConfig reports at once that its node runs
//! the configuration. So a cluster of any size costs one watch.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// Path of the NodeConfigs.
pub const NODE_CONFIGS: &str = "/apis/nodecfg.dev/v1alpha1/nodeconfigs";
/// Writes of a status at the same time.
const CONCURRENCY: usize = 32;

/// ConfigMap of an assignment.
#[derive(Debug, Clone)]
struct Target {
    uid: String,
    resource_version: String,
    pool: String,
}

/// Answers every assignment until the task is aborted.
pub async fn answer(client: kube::Client) {
    let known: Arc<Mutex<BTreeMap<String, Target>>> = Arc::default();
    loop {
        // Without a version, a watch starts with all objects.
        let request = http::Request::get(format!("{NODE_CONFIGS}?watch=true&timeoutSeconds=600")).body(Vec::new());
        let Ok(events) = client.request_events::<Value>(request.unwrap()).await else { continue };
        let assigned = events.filter_map(|event: Result<WatchEvent<Value>, kube::Error>| async {
            let event = event.ok();
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event? else { return None };
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            (!seen).then_some(object)
        });
        assigned.for_each_concurrent(CONCURRENCY, |object| report(&client, &known, object)).await;
    }
}

async fn report(client: &kube::Client, known: &Mutex<BTreeMap<String, Target>>, object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let generation = &object["metadata"]["generation"];
    let mut source = object["spec"]["configSource"].clone();
    let mut status = json!({
        "observedGeneration": generation,
        "config": {},
        "agent": {"version": "0.1.0", "heardAt": now()},
    });
    if source.is_object() {
        let target = target(client, known, &source["configMap"]).await;
        source["configMap"]["uid"] = json!(target.uid);
        source["configMap"]["resourceVersion"] = json!(target.resource_version);
        status["config"] = json!({"assigned": source, "active": source, "lastKnownGood": source});
        status["contentHash"] = object["spec"]["contentHash"].clone();
        status["pool"] = json!(target.pool);
    }
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now(),
            "observedGeneration": generation})
    };
    status["conditions"] = json!([
        condition("Synced", "Accepted", "the assignment was accepted"),
        condition("Active", "Running", "the kubelet runs the assigned configuration"),
        condition("KnownGood", "TrialPassed", "the configuration has passed its trial"),
    ]);
    let request = http::Request::patch(format!("{NODE_CONFIGS}/{name}/status?fieldManager=agent"))
        .header("content-type", "application/merge-patch+json")
        .body(json!({"status": status}).to_string().into_bytes());
    // A write that fails is answered again with the next change.
    let _ = client.request_text(request.unwrap()).await;
}

async fn target(client: &kube::Client, known: &Mutex<BTreeMap<String, Target>>, map: &Value) -> Target {
    let (namespace, name) = (map["namespace"].as_str().unwrap(), map["name"].as_str().unwrap());
    let mut known = known.lock().await;
    if let Some(target) = known.get(name) {
        return target.clone();
    }
    let request = http::Request::get(format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).body(Vec::new());
    let found: Value = client.request(request.unwrap()).await.expect("the assigned ConfigMap exists");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &found["metadata"];
    let target = Target {
        uid: text(&metadata["uid"]),
        resource_version: text(&metadata["resourceVersion"]),
        pool: text(&metadata["labels"]["nodecfg.dev/pool"]),
    };
    known.insert(name.to_owned(), target.clone());
    target
}

fn now() -> String {
    nodecfg_clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
