//! What lies between an agent and the API server: who it is there, what it may do, and what gets through when its host
//! misbehaves.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt as _;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::host::Simulated;
use crate::api::{Api, Rule, User};
use crate::kubelets::{Fault, wire};

/// The ServiceAccount of agents.
const AGENT: &str = "system:serviceaccount:nodecfg-system:nodecfg-agent";
/// Loads, and is refused by every kubelet.
const INVALID: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: -1\n";

/// The agents' user, with what agents need and no more.
pub(super) fn user() -> User {
    let rule = |verbs: &[&str], group: &str, resource: &str, namespace: Option<&str>| Rule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        namespace: namespace.map(str::to_owned),
        names: Vec::new(),
    };
    let rules = vec![
        rule(&["get", "list", "watch"], "nodecfg.dev", "nodeconfigs", None),
        rule(&["patch"], "nodecfg.dev", "nodeconfigs/status", None),
        // Real agents may read those of one namespace. Here any, for repositories that name another.
        rule(&["get"], "", "configmaps", None),
        rule(&["get"], "", "nodes", None),
        rule(&["get"], "coordination.k8s.io", "leases", Some("kube-node-lease")),
        rule(&["create"], "", "events", None),
    ];
    User::with_rules(AGENT, rules)
}

/// A client of the API server on this host.
pub(super) fn client(api: &Api, user: User, host: Arc<Simulated>) -> kube::Client {
    let router = api.router();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (router, host, user) = (router.clone(), Arc::clone(&host), user.clone());
        async move {
            if !host.reaches_server() {
                return Err(away());
            }
            let (mut parts, body) = request.into_parts();
            parts.extensions.insert(user);
            let downloads = parts.method == Method::GET && parts.uri.path().contains("/configmaps/");
            let lease = parts.method == Method::GET && parts.uri.path().contains("/leases/");
            let watches = parts.uri.query().is_some_and(|query| query.contains("watch="));
            let fault = host.fault().filter(|_| downloads);
            if fault == Some(Fault::SyncError) {
                // Only this host may not read it.
                parts.extensions.insert(User::with_rules(AGENT, Vec::new()));
            }
            let Ok(response) = router.oneshot(Request::from_parts(parts, Body::new(body))).await;
            match fault {
                Some(Fault::LoadError) => damaged(response, None).await,
                Some(Fault::ValidateError) => damaged(response, Some(INVALID)).await,
                _ if lease => renewed(response, host.renewed()).await,
                _ if watches => Ok(response.map(|body| until_outage(body, host))),
                _ => Ok(response),
            }
        }
    });
    kube::Client::new(service, "default")
}

fn away() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "the API server is away (--fault api-outage)")
}

/// A stream that breaks off when the server is away.
fn until_outage(body: Body, host: Arc<Simulated>) -> Body {
    let mut changes = host.changes();
    let cut = async move {
        while host.reaches_server() {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    };
    Body::from_stream(body.into_data_stream().take_until(cut))
}

/// A Lease as its kubelet keeps it. Writing it every 10 s for each of thousands of nodes would keep the machine busy, so it is
/// brought up to date where it is read. An agent that a busy machine holds up for longer than its kubelet's start took would
/// otherwise never see it renewed after that start.
async fn renewed(response: Response, at: Option<Timestamp>) -> Result<Response, std::io::Error> {
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let written = serde_json::from_slice::<Value>(&bytes);
    let (Ok(mut lease), Some(at)) = (written, at.map(wire::micro_time)) else {
        return Ok(Response::from_parts(parts, Body::from(bytes)));
    };
    if let Some(Value::String(time)) = lease.pointer_mut("/spec/renewTime")
        && *time < at
    {
        *time = at;
    }
    parts.headers.remove(http::header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(lease.to_string())))
}

/// A ConfigMap as this host sees it: with another content, or with none.
async fn damaged(response: Response, content: Option<&str>) -> Result<Response, std::io::Error> {
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let Ok(mut object) = serde_json::from_slice::<Value>(&bytes) else {
        return Ok(Response::from_parts(parts, Body::from(bytes)));
    };
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(nodecfg_contract::observed::CONTENT_HASH_ANNOTATION);
    }
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        match content {
            Some(content) => data.values_mut().for_each(|value| *value = json!(content)),
            None => data.clear(),
        }
    }
    parts.headers.remove(http::header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(object.to_string())))
}
