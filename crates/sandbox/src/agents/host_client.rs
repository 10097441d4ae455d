//! API client of a simulated host: the agent's user and permissions, and the effects of faults on its requests.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt as _;
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::host::SimHost;
use crate::api::{Api, Rule, User};
use crate::kubelets::{Fault, requests};
use nodecfg_contract::ContentHash;

/// ServiceAccount of the agents.
const AGENT: &str = "system:serviceaccount:nodecfg-system:nodecfg-agent";
/// Header with the node that a token of an agent names (KEP-4193).
const IMPERSONATE_NODE: &str = "impersonate-extra-authentication.kubernetes.io%2fnode-name";
/// A configuration that no kubelet decodes.
const GARBLED: &str = "maxPods: [\n";
/// A configuration that every kubelet decodes and refuses.
const INVALID: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: -1\n";

/// API server of a host.
#[derive(Clone)]
pub(super) enum Connection {
    /// The sandbox. The user is that of the agents.
    Sandbox { api: Api, user: User },
    /// Another API server. The client may impersonate the agents, which have the ServiceAccount of an installation.
    Remote { client: Client, agent: String },
}

impl Connection {
    /// The sandbox, with the minimal permissions of an agent.
    pub(super) fn sandbox(api: Api, joins: bool) -> Self {
        Self::Sandbox { api, user: user(joins) }
    }

    /// Sends a request of the agent on a node. A user without rights stands for an agent that lost its rights.
    async fn send(
        &self,
        node: &str,
        mut request: Request<kube::client::Body>,
        without_rights: bool,
    ) -> Result<Response, std::io::Error> {
        match self {
            Self::Sandbox { api, user } => {
                let user = if without_rights { User::with_rules(AGENT, Vec::new()) } else { user.clone() };
                let (mut parts, body) = request.into_parts();
                parts.extensions.insert(user);
                let Ok(response) = api.router().oneshot(Request::from_parts(parts, Body::new(body))).await;
                Ok(response)
            }
            Self::Remote { client, agent } => {
                let user = if without_rights { "without-rights" } else { agent };
                let headers = [("impersonate-user", user), (IMPERSONATE_NODE, node)];
                for (name, value) in headers {
                    let value = HeaderValue::from_str(value).map_err(std::io::Error::other)?;
                    request.headers_mut().insert(HeaderName::from_static(name), value);
                }
                let response = client.send(request).await.map_err(std::io::Error::other)?;
                Ok(response.map(Body::new))
            }
        }
    }
}

/// User of the agents with their minimal permissions. `joins`: with those of the option --join-fleet of the installation.
fn user(joins: bool) -> User {
    let rule = |verbs: &[&str], group: &str, resource: &str, namespace: Option<&str>| Rule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        namespace: namespace.map(str::to_owned),
        names: Vec::new(),
    };
    let mut rules = vec![
        rule(&["get", "list", "watch"], "nodecfg.dev", "nodeconfigs", None),
        rule(&["patch"], "nodecfg.dev", "nodeconfigs/status", None),
        // Real agents may read ConfigMaps of one namespace only. The sandbox supports repositories that use another
        // one.
        rule(&["get"], "", "configmaps", None),
        rule(&["get"], "", "nodes", None),
        rule(&["get"], "coordination.k8s.io", "leases", Some("kube-node-lease")),
        rule(&["create"], "", "events", None),
    ];
    if joins {
        rules.extend([rule(&["create"], "nodecfg.dev", "nodeconfigs", None), rule(&["patch"], "", "nodes", None)]);
    }
    User::with_rules(AGENT, rules)
}

/// Client of the API server for this host.
pub(super) fn client(connection: Connection, host: Arc<SimHost>) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (connection, host) = (connection.clone(), Arc::clone(&host));
        async move {
            if !host.reaches_server() {
                return Err(unavailable());
            }
            let (method, uri) = (request.method(), request.uri());
            let downloads = method == Method::GET && uri.path().contains("/configmaps/");
            let lease = method == Method::GET && uri.path().contains("/leases/");
            let watches = uri.query().is_some_and(|query| query.contains("watch="));
            let node_config = method == Method::GET && uri.path().contains("/nodeconfigs");
            let fault = host.fault().filter(|_| downloads);
            let without_rights = fault == Some(Fault::SyncError);
            let response = connection.send(host.name.as_str(), request, without_rights).await?;
            match fault.and_then(refused_content) {
                Some(content) => with_replaced_content(response, content).await,
                None if node_config => {
                    Ok(response.map(|body| with_required_content(until_outage(body, Arc::clone(&host)), host)))
                }
                None if lease => with_renewed_lease(response, host.renewed()).await,
                None if watches => Ok(response.map(|body| until_outage(body, host))),
                None => Ok(response),
            }
        }
    });
    Client::new(service, "default")
}

fn unavailable() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "the API server is unreachable (--fault api-outage)")
}

/// Ends a response stream when an outage begins.
fn until_outage(body: Body, host: Arc<SimHost>) -> Body {
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

/// Sets the renewal time of a Lease in a response to that of its kubelet, if that is later.
///
/// Writing the Leases of thousands of nodes every 10 s would overload the machine. Without this update, a delayed
/// agent would never see a renewal after its kubelet's start.
async fn with_renewed_lease(response: Response, at: Option<Timestamp>) -> Result<Response, std::io::Error> {
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let written = serde_json::from_slice::<Value>(&bytes);
    let (Ok(mut lease), Some(at)) = (written, at.map(requests::micro_time)) else {
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

/// Content that a host with this fault downloads, and refuses, in place of every configuration.
fn refused_content(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::LoadError => Some(GARBLED),
        Fault::ValidateError => Some(INVALID),
        _ => None,
    }
}

/// Requires the refused content in each NodeConfig of a response, as long as the host has the fault: its agent must
/// get to the check of a content that it takes for reviewed. A list and each event of a watch are one line.
fn with_required_content(body: Body, host: Arc<SimHost>) -> Body {
    let lines = (body.into_data_stream(), Vec::new());
    Body::from_stream(futures::stream::unfold(lines, move |(mut chunks, mut rest)| {
        let host = Arc::clone(&host);
        async move {
            loop {
                if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    return Some((Ok(with_required_hash(line, &host)), (chunks, rest)));
                }
                match chunks.next().await {
                    Some(Ok(chunk)) => rest.extend_from_slice(&chunk),
                    Some(Err(error)) => return Some((Err(error), (chunks, rest))),
                    None if rest.is_empty() => return None,
                    None => {
                        let last = std::mem::take(&mut rest);
                        return Some((Ok(with_required_hash(last, &host)), (chunks, rest)));
                    }
                }
            }
        }
    }))
}

fn with_required_hash(line: Vec<u8>, host: &SimHost) -> Vec<u8> {
    let Some(content) = host.fault().and_then(refused_content) else { return line };
    let Ok(mut value) = serde_json::from_slice::<Value>(&line) else { return line };
    let hash = json!(ContentHash::of(content.as_bytes()));
    let mut require = |object: &mut Value| {
        if let Some(required) = object.pointer_mut("/spec/contentHash") {
            *required = hash.clone();
        }
    };
    require(&mut value);
    value.get_mut("object").into_iter().for_each(&mut require);
    value.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten().for_each(&mut require);
    let mut text = value.to_string().into_bytes();
    text.push(b'\n');
    text
}

/// Replaces every value of a ConfigMap in a response.
async fn with_replaced_content(response: Response, content: &str) -> Result<Response, std::io::Error> {
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let Ok(mut object) = serde_json::from_slice::<Value>(&bytes) else {
        return Ok(Response::from_parts(parts, Body::from(bytes)));
    };
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        data.values_mut().for_each(|value| *value = json!(content));
    }
    parts.headers.remove(http::header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(object.to_string())))
}
