//! Objects on a real API server that scenarios share or leave behind: what `nodecfg install` creates, and the rest of
//! earlier scenarios. No controllers run there that would remove dependent objects.

use http::Request;
use kube::Client;
use nodecfg_contract::installation::NAMESPACE;
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_install::{Agent, DaemonSet, Host, Installation, Join};
use serde_json::{Value, json};

use super::cluster::{NODE_CONFIGS, is_of_kubernetes};
use super::until;

/// Lists of the objects of a scenario, in the order of removal.
const REMOVED: [&str; 11] = [
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/daemonsets",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/pods",
    "/apis/storage.k8s.io/v1/volumeattachments",
    NODE_CONFIGS,
    "/api/v1/nodes",
    "/api/v1/namespaces/kube-system/configmaps",
    "/api/v1/namespaces/nodecfg-system/configmaps",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/events",
];

/// Sends a request. `None` stands for an object or a resource that the server does not have, or an object that exists.
async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Option<Value> {
    let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
    let request = request.body(if body.is_null() { Vec::new() } else { body.to_string().into_bytes() }).unwrap();
    match client.request(request).await {
        Ok(object) => Some(object),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => None,
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

/// Removes the objects of earlier scenarios.
pub(super) async fn remove(client: &Client) {
    for resource in REMOVED {
        let Some(found) = send(client, "GET", resource, &Value::Null).await else { continue };
        let (version, plural) = resource.rsplit_once('/').unwrap();
        let version = version.split("/namespaces/").next().unwrap();
        for object in found["items"].as_array().unwrap() {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap();
            if plural == "configmaps" && is_of_kubernetes(name) {
                continue;
            }
            let place = metadata["namespace"].as_str().map(|name| format!("/namespaces/{name}")).unwrap_or_default();
            let path = format!("{version}{place}/{plural}/{name}");
            if !metadata["finalizers"].is_null() {
                patch(client, &path, &json!({"metadata": {"finalizers": null}})).await;
            }
            let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
            send(client, "DELETE", &path, &options).await;
        }
    }
}

async fn patch(client: &Client, path: &str, patch: &Value) {
    let request = Request::patch(path).header("Content-Type", "application/merge-patch+json");
    let request = request.body(patch.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap_or_else(|error| panic!("PATCH {path}: {error}"));
}

/// Path of an object.
fn path(object: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let version = text(&object["apiVersion"]).unwrap();
    let group = if version.contains('/') { "apis" } else { "api" };
    let kind = text(&object["kind"]).unwrap().to_lowercase();
    let plural = kind.strip_suffix('y').map_or(format!("{kind}s"), |stem| format!("{stem}ies"));
    let place = text(&object["metadata"]["namespace"]).map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    format!("/{group}/{version}{place}/{plural}/{}", object["metadata"]["name"].as_str().unwrap())
}

/// Objects of `nodecfg install` for nodes that join, without the DaemonSet. `writer` and `ci` may change ConfigMaps.
fn objects(writer: &str) -> Vec<Value> {
    let namespace = NamespaceName::new(NAMESPACE).unwrap();
    let join = Join { fleet: FleetName::new("test").unwrap(), namespace: namespace.clone() };
    let host = Host { join: Some(join), ..Host::default() };
    let pods = DaemonSet { namespace: namespace.clone(), image: "unused".to_owned(), host };
    let config_map_writers = vec![writer.to_owned(), "ci".to_owned()];
    let installation = Installation {
        namespace,
        config_map_writers,
        agent: Some(Agent::DaemonSet(pods)),
        joins: true,
        boot: Vec::new(),
    };
    let mut objects = nodecfg_install::objects(&installation);
    objects.retain(|object| object["kind"] != "DaemonSet");
    objects
}

/// Applies the objects of `nodecfg install`, and waits until the API server uses them.
pub(super) async fn install(client: &Client, writer: &str) {
    for object in objects(writer) {
        let path = path(&object);
        let is_definition = object["kind"] == "CustomResourceDefinition";
        let present = send(client, "GET", &path, &Value::Null).await.unwrap_or_default();
        if is_definition && present["metadata"]["generation"].as_u64().is_some_and(|changes| changes > 1) {
            // The API server does not report when it uses a changed definition.
            send(client, "DELETE", &path, &Value::Null).await;
            until_served(client, false).await;
        }
        let request = Request::patch(format!("{path}?fieldManager=scenarios&force=true"));
        let request = request.header("Content-Type", "application/apply-patch+yaml");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        if is_definition {
            until("the definition is established", async || {
                let found = send(client, "GET", &path, &Value::Null).await.unwrap();
                let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
            })
            .await;
            until_served(client, true).await;
        }
    }
}

async fn until_served(client: &Client, served: bool) {
    let what = if served { "NodeConfigs are served" } else { "NodeConfigs are not served" };
    until(what, async || send(client, "GET", NODE_CONFIGS, &Value::Null).await.is_some() == served).await;
}

/// Removes the objects of `nodecfg install`, except namespaces, which only a controller removes.
pub(super) async fn uninstall(client: &Client) {
    let mut objects = objects("");
    objects.retain(|object| object["kind"] != "Namespace");
    for object in objects.iter().rev() {
        send(client, "DELETE", &path(object), &Value::Null).await;
    }
    until_served(client, false).await;
}
