//! API client of a simulated host: the agent's user and permissions, and the effects of faults on its requests.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderName, HeaderValue, Method, Request};
use kube::Client;
use serde_json::{Value, json};

use super::host::SimHost;
use crate::api::{Api, Rule, User};
use crate::kubelets::Fault;
use crate::kubelets::report::micro_time;
use crate::machines::Machine as _;
use crate::server::wire::stream::lines;
use nodecfg_contract::ContentHash;

/// ServiceAccount of the agents in the sandbox.
const AGENT: &str = "system:serviceaccount:nodecfg-system:nodecfg-agent";
/// User without rights.
const NOBODY: &str = "without-rights";
/// Header with the node that a token of an agent names (KEP-4193).
const IMPERSONATE_NODE: &str = "impersonate-extra-authentication.kubernetes.io%2fnode-name";
/// A configuration that no kubelet decodes.
const GARBLED: &str = "maxPods: [\n";
/// A configuration that every kubelet decodes and refuses.
const INVALID: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: -1\n";

/// API server of the hosts, as their agents reach it. The sandbox knows the user of a client; another API server lets the
/// client impersonate it.
#[derive(Clone)]
pub(super) struct Connection {
    client: Client,
    user: String,
    /// Client of an agent that lost its rights.
    without_rights: Client,
}

impl Connection {
    /// The sandbox, with the minimal permissions of an agent.
    pub(super) fn sandbox(api: &Api, joins: bool) -> Self {
        let nobody = api.client_as(User::with_rules(NOBODY, Vec::new()));
        Self { client: api.client_as(user(joins)), user: AGENT.to_owned(), without_rights: nobody }
    }

    /// Another API server. The agents have the ServiceAccount of an installation.
    pub(super) fn remote(client: &Client, agent: &str) -> Self {
        Self { client: client.clone(), user: agent.to_owned(), without_rights: client.clone() }
    }

    /// Sends a request of the agent on a node.
    async fn send(
        &self,
        node: &str,
        mut request: Request<kube::client::Body>,
        without_rights: bool,
    ) -> Result<Response, std::io::Error> {
        let (client, user) = if without_rights { (&self.without_rights, NOBODY) } else { (&self.client, &*self.user) };
        for (name, value) in [("impersonate-user", user), (IMPERSONATE_NODE, node)] {
            let value = HeaderValue::from_str(value).map_err(std::io::Error::other)?;
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        Ok(client.send(request).await.map_err(std::io::Error::other)?.map(Body::new))
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
        rule(&["patch"], "", "nodes/status", None),
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
                let why = "the API server is unreachable (--fault api-outage)";
                return Err(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, why));
            }
            let reads = |part| request.method() == Method::GET && request.uri().path().contains(part);
            let [downloads, reads_node_config, reads_lease] = ["/configmaps/", "/nodeconfigs", "/leases/"].map(reads);
            let rewrite: Option<fn(&mut Value, &SimHost)> = if downloads {
                Some(replace_content)
            } else if reads_node_config {
                Some(require_content)
            } else if reads_lease {
                Some(renew_lease)
            } else {
                None
            };
            let without_rights = downloads && host.fault() == Some(Fault::SyncError);
            let response = connection.send(host.name.as_str(), request, without_rights).await?;
            let (mut parts, body) = response.into_parts();
            let body = until_outage(body, Arc::clone(&host));
            let Some(rewrite) = rewrite else { return Ok(Response::from_parts(parts, body)) };
            parts.headers.remove(http::header::CONTENT_LENGTH);
            Ok(Response::from_parts(parts, rewritten(body, rewrite, host)))
        }
    });
    Client::new(service, "default")
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

/// Rewrites the objects of a response. An object, a list, and each event of a watch are one line.
fn rewritten(body: Body, rewrite: fn(&mut Value, &SimHost), host: Arc<SimHost>) -> Body {
    let rewritten = move |line: Bytes| {
        let Ok(mut whole) = serde_json::from_slice::<Value>(&line) else { return line };
        rewrite(&mut whole, &host);
        whole.get_mut("object").into_iter().for_each(|object| rewrite(object, &host));
        let items = whole.get_mut("items").and_then(Value::as_array_mut);
        items.into_iter().flatten().for_each(|item| rewrite(item, &host));
        format!("{whole}\n").into()
    };
    Body::from_stream(lines(body.into_data_stream()).map(move |line| line.map(&rewritten)))
}

/// Content that a host with this fault downloads, and refuses, in place of every configuration.
fn refused_content(host: &SimHost) -> Option<&'static str> {
    match host.fault()? {
        Fault::LoadError => Some(GARBLED),
        Fault::ValidateError => Some(INVALID),
        _ => None,
    }
}

/// Replaces every value of a ConfigMap, if the host refuses each content.
fn replace_content(config_map: &mut Value, host: &SimHost) {
    if let (Some(content), Some(data)) =
        (refused_content(host), config_map.get_mut("data").and_then(Value::as_object_mut))
    {
        data.values_mut().for_each(|value| *value = content.into());
    }
}

/// Requires the refused content in a NodeConfig, because the agent must get to the check of a content that it takes for
/// reviewed.
fn require_content(node_config: &mut Value, host: &SimHost) {
    if let (Some(content), Some(required)) = (refused_content(host), node_config.pointer_mut("/spec/contentHash")) {
        *required = json!(ContentHash::of(content.as_bytes()));
    }
}

/// Sets the renewal time of a Lease to that of its kubelet, if that is later.
///
/// Writing the Leases of thousands of nodes every 10 s would overload the machine. Without this update, a delayed
/// agent would never see a renewal after its kubelet's start.
fn renew_lease(lease: &mut Value, host: &SimHost) {
    if let (Some(Value::String(time)), Some(at)) =
        (lease.pointer_mut("/spec/renewTime"), host.renewed().map(micro_time))
        && *time < at
    {
        *time = at;
    }
}
