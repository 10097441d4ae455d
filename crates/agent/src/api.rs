//! Requests of the agent to the API server. Reads its NodeConfig, the assigned ConfigMap, its Node and its Lease.
//! Writes the status of its NodeConfig, one condition of its Node, and Events on it. `join` has the requests of a node that
//! joins.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use crate::events::{Announcement, Download, FetchError, NodeHealth};
use nodecfg_cluster::connection::error::ClusterError;
use nodecfg_cluster::connection::operation::{Operation, Resource, Verb};
use nodecfg_cluster::connection::retry::RetryPolicy;
use nodecfg_cluster::connection::transport::{Call, Limits, Transport, whole};
use nodecfg_cluster::reading::follow::{Change, Following, follow};
use nodecfg_cluster::reading::list::Collection;
use nodecfg_cluster::reading::reader::found;
use nodecfg_cluster::writing::writer::{EVENT_NAMESPACE, NodeNotice, event};
use nodecfg_cluster::{IgnoredContent, LabelKeys, WireConfigMap, WireNode};
use nodecfg_contract::ConfigMapSource;
use nodecfg_contract::installation::AGENT_DAEMON_SET;
use nodecfg_contract::labels::CONFIG_MAP_POOL_LABEL;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{CONFIG_READY, NodeConfig, NodeConfigStatus, READY};
use nodecfg_observed::{Node, Readiness};

mod join;

pub use join::PointerPlace;

/// Field manager in managedFields, by which the admission policies know entries of agents, and source of Events.
const COMPONENT: &str = AGENT_DAEMON_SET;
/// Namespace of the kubelets' Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Default of [`AgentClientOptions::retry_limit`]: enough for a closed connection, too short for an outage.
const RETRY_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for reading the node's health. A trial must go on without the API server.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);
/// Time limit for retries of the watch before it starts again from a list.
const WATCH_RETRY_LIMIT: Duration = Duration::from_secs(60);
/// Requested duration of a watch, plus up to a quarter. Every node has an agent, and an idle one costs the API server
/// only the reopened watches. A silently dropped connection is detected when this time ends.
const WATCH_DURATION: Duration = Duration::from_secs(5 * 60);
/// Time limit for creating an Event.
const EVENT_LIMIT: Duration = Duration::from_secs(5);

/// Timeouts and retries of an agent's client.
#[derive(Debug, Clone)]
pub struct AgentClientOptions {
    /// Timeout of one attempt of a request.
    pub request_timeout: Duration,
    /// Time limit for the retries of a download or a report.
    pub retry_limit: Duration,
    /// Delays between attempts. The longest decides how soon all agents return after an outage, and with how much
    /// load.
    pub retry: RetryPolicy,
    /// Time for which the API server may refuse the credentials before that is reported. Must exceed the time in
    /// which authentication recovers after a change on the server.
    pub refusal_timeout: Duration,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for AgentClientOptions {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            retry_limit: RETRY_LIMIT,
            retry: RetryPolicy { first_delay: Duration::from_millis(500), longest_delay: Duration::from_secs(30) },
            refusal_timeout: Duration::from_secs(5 * 60),
            seed: 0,
        }
    }
}

/// API client of one node's agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AgentClient {
    transport: Transport,
    node: NodeName,
    retry_limit: Duration,
    refusal_timeout: Duration,
    /// Pool pointers that a new node joins by. `None`: it does not.
    pointers: Option<PointerPlace>,
}

impl AgentClient {
    /// Creates the client of this node's agent. `client` must not retry; those of
    /// [`connect`](nodecfg_cluster::connection::connect) do not. `server` is the address in errors.
    #[must_use]
    pub fn new(client: kube::Client, server: &str, node: NodeName, options: AgentClientOptions) -> Self {
        let limits = Limits { attempt: options.request_timeout, total: options.retry_limit };
        let transport = Transport::new(client, server, options.retry, limits, options.seed);
        Self {
            transport,
            node,
            retry_limit: options.retry_limit,
            refusal_timeout: options.refusal_timeout,
            pointers: None,
        }
    }

    /// Sets the place of the pool pointers that a new node joins by.
    #[must_use]
    pub fn with_pointers(self, pointers: Option<PointerPlace>) -> Self {
        Self { pointers, ..self }
    }

    /// Name of the node.
    #[must_use]
    pub fn node_name(&self) -> &NodeName {
        &self.node
    }

    /// Address of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        self.transport.server()
    }

    /// Follows the node's NodeConfig: its current value, then every change. `None` if it is missing or does not apply
    /// to this node. The stream never ends.
    ///
    /// Every error is retried, including a missing CustomResourceDefinition; repeated ones are logged once. Only
    /// persistent `Unauthorized` is also returned: a client reads its certificate once, and kubelets renew theirs on
    /// disk.
    pub fn follow(&self) -> impl Stream<Item = Result<Option<NodeConfig>, ClusterError>> + Send + use<> {
        let client = self.clone();
        let start_watch = move |client: &Self| {
            let following = Following {
                collection: Collection::one(
                    Operation::on_all(Verb::Watch, Resource::NodeConfigs, None),
                    client.node.as_str(),
                ),
                version: None,
                watch: WATCH_DURATION,
            };
            let transport = client.transport.within(WATCH_RETRY_LIMIT);
            follow(&transport, following, |item| serde_json::from_slice(item).map(Some)).boxed()
        };
        let changes = start_watch(&client);
        let state = (client, changes, WatchErrors::default(), Ownership::default());
        futures::stream::unfold(state, move |(client, mut changes, mut errors, mut ownership)| async move {
            loop {
                match changes.next().await {
                    Some(Ok(change)) => {
                        errors.clear();
                        let seen = match change {
                            Change::Upsert(config) => Some(config),
                            Change::Deleted(_) => None,
                            Change::Relisted(all) => all.into_iter().next(),
                        };
                        let seen = client.applicable(seen, &mut ownership).await;
                        return Some((Ok(seen), (client, changes, errors, ownership)));
                    }
                    Some(Err(error)) => {
                        errors.record(&error);
                        let refused = matches!(error, ClusterError::Unauthorized { .. });
                        if refused && errors.is_refused_longer_than(client.refusal_timeout) {
                            errors.refused_since = None;
                            return Some((Err(error), (client, changes, errors, ownership)));
                        }
                    }
                    None => {}
                }
                tokio::time::sleep(client.transport.backoff(errors.attempts)).await;
                changes = start_watch(&client);
            }
        })
    }

    /// Reads the node's NodeConfig. `None` if it is missing or does not apply to this node.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request except `NotFound`.
    pub async fn node_config(&self, timeout: Duration) -> Result<Option<NodeConfig>, ClusterError> {
        let config = found(self.get(&self.own(Verb::Get), timeout).await)?;
        Ok(self.applicable(config, &mut Ownership::default()).await)
    }

    /// Filters out a NodeConfig that is being deleted or belongs to an earlier Node of this name. The garbage
    /// collector deletes the latter late, and its spec was meant for another machine. If the Node cannot be read, the
    /// NodeConfig applies.
    async fn applicable(&self, config: Option<NodeConfig>, ownership: &mut Ownership) -> Option<NodeConfig> {
        let config = config.filter(|config| config.metadata.deletion_timestamp.is_none())?;
        let owners = config.nodes();
        if !owners.is_empty() && ownership.owners != owners {
            let Some(node) = self.node().await else { return Some(config) };
            let owners = owners.into_iter().map(str::to_owned).collect();
            *ownership = Ownership { foreign: !config.represents(&node.uid), owners };
            if ownership.foreign {
                tracing::warn!("the NodeConfig belongs to an earlier Node of this name and is ignored");
            }
        } else if owners.is_empty() {
            *ownership = Ownership::default();
        }
        (!ownership.foreign).then_some(config)
    }

    /// Downloads a ConfigMap.
    ///
    /// # Errors
    /// `Missing`, `Forbidden` or `Unreachable`. The content hash is not verified here.
    pub async fn config_map(&self, source: &ConfigMapSource) -> Result<Download, FetchError> {
        let operation = Operation::on(Verb::Get, Resource::ConfigMaps, Some(&source.namespace), &source.name);
        let map = self.get(&operation, self.retry_limit).await.map_err(|error| {
            let text = error.to_string();
            match error {
                ClusterError::NotFound { .. } | ClusterError::NamespaceMissing { .. } => FetchError::Missing(text),
                ClusterError::Forbidden { .. } => FetchError::Forbidden(text),
                _ => FetchError::Unreachable(text),
            }
        })?;
        Ok(download(map, source))
    }

    /// Reads the Node, without its labels. `None` if that fails for any reason.
    pub async fn node(&self) -> Option<Node> {
        self.wire_node()
            .await
            .inspect_err(|error| tracing::debug!("{error}"))
            .ok()?
            .into_node(&LabelKeys::Only(BTreeSet::new()))
    }

    /// Reports whether the API server knows no Node of this name. False if it does not answer.
    pub async fn lacks_node(&self) -> bool {
        matches!(found(self.wire_node().await), Ok(None))
    }

    async fn wire_node(&self) -> Result<WireNode, ClusterError> {
        self.get(&Operation::on(Verb::Get, Resource::Nodes, None, self.node.as_str()), HEALTH_LIMIT).await
    }

    /// Reads the health of the node. `None` if its Node or Lease cannot be read. A Lease that is missing or forbidden
    /// counts as no Lease.
    pub async fn node_health(&self) -> Option<NodeHealth> {
        let (node, lease) = tokio::join!(self.node(), self.lease());
        Some(NodeHealth { ready: node?.ready == Readiness::Ready, lease_renewed: lease.ok()? })
    }

    /// Last renewal of the node's Lease. `None` if the Lease is missing or the agent may not read it: unlike a
    /// temporary error, these do not make the node's health unknown.
    async fn lease(&self) -> Result<Option<Timestamp>, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::Leases, Some(LEASE_NAMESPACE), self.node.as_str());
        match found(self.get::<WireLease>(&operation, HEALTH_LIMIT).await) {
            Ok(lease) => Ok(lease.and_then(|lease| lease.spec.renew_time)),
            Err(ClusterError::Forbidden { .. }) => Ok(None),
            Err(error) => {
                tracing::debug!("{error}");
                Err(error)
            }
        }
    }

    /// Writes the status of the node's NodeConfig, and then its condition Ready as a condition of the Node. No
    /// precondition, since the agent is the only writer of both. A Node that is missing, that the agent may not write or
    /// that a webhook protects is only logged.
    ///
    /// # Errors
    /// The error after the last retry.
    pub async fn report(&self, status: &NodeConfigStatus) -> Result<(), ClusterError> {
        let operation = self.own(Verb::Patch);
        let patch = json!([{"op": "add", "path": "/status", "value": status}]);
        let uri = format!("{}/status?fieldManager={COMPONENT}", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/json-patch+json", patch.to_string());
        self.transport.call(&operation, &call, whole::<IgnoredContent>).await?;
        match self.show_ready(status).await {
            Err(
                error @ (ClusterError::Forbidden { .. } | ClusterError::Invalid { .. } | ClusterError::NotFound { .. }),
            ) => {
                tracing::info!("the Node does not show {CONFIG_READY}: {error}");
                Ok(())
            }
            shown => shown,
        }
    }

    /// Repeats the condition Ready of a report on the Node. The strategic merge keeps the conditions of others.
    async fn show_ready(&self, status: &NodeConfigStatus) -> Result<(), ClusterError> {
        let Some(ready) = status.conditions.iter().find(|condition| condition.kind == READY) else { return Ok(()) };
        let condition = json!({
            "type": CONFIG_READY,
            "status": ready.status,
            "reason": ready.reason,
            "message": ready.message,
            "lastTransitionTime": ready.last_transition_time,
            "lastHeartbeatTime": status.agent.as_ref().map(|agent| agent.heard_at.as_str()),
        });
        let patch = json!({"status": {"conditions": [condition]}});
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, self.node.as_str());
        let uri = format!("{}/status?fieldManager={COMPONENT}", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/strategic-merge-patch+json", patch.to_string());
        self.transport.call(&operation, &call, whole::<IgnoredContent>).await.map(drop)
    }

    /// Emits an Event on the Node, without retries. A failure is logged.
    pub async fn announce(&self, announcement: &Announcement, at: Timestamp) {
        let Announcement { reason, message, warning } = announcement;
        let notice = NodeNotice { node: self.node.clone(), warning: *warning, reason, message: message.clone(), at };
        let operation = Operation::on_all(Verb::Create, Resource::Events, Some(EVENT_NAMESPACE));
        let body = event(&notice, COMPONENT).to_string();
        let call = Call::new(Method::POST, operation.path()).content("application/json", body);
        let sent = self.transport.call_once(&operation, &call, whole::<IgnoredContent>());
        match tokio::time::timeout(EVENT_LIMIT, sent).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::info!(reason, "cannot create an Event: {error}"),
            Err(_) => tracing::info!(reason, "cannot create an Event: no answer in time"),
        }
    }

    async fn get<T: DeserializeOwned>(&self, operation: &Operation, timeout: Duration) -> Result<T, ClusterError> {
        let call = Call::new(Method::GET, operation.path());
        self.transport.within(timeout).call(operation, &call, whole).await
    }

    fn own(&self, verb: Verb) -> Operation {
        Operation::on(verb, Resource::NodeConfigs, None, self.node.as_str())
    }
}

/// Owners of the NodeConfig, looked up once for each set of owners.
#[derive(Debug, Default)]
struct Ownership {
    /// Uids of the owners that are Nodes.
    owners: Vec<String>,
    /// Whether the present Node is not among the owners.
    foreign: bool,
}

/// Errors of the watch, to log repeated ones once and to detect refused credentials.
#[derive(Debug, Default)]
struct WatchErrors {
    attempts: u32,
    last_logged: Option<String>,
    /// Start of the period of refused credentials. Other errors in between do not end it.
    refused_since: Option<Instant>,
}

impl WatchErrors {
    fn record(&mut self, error: &ClusterError) {
        self.attempts = self.attempts.saturating_add(1);
        if matches!(error, ClusterError::Unauthorized { .. }) {
            self.refused_since.get_or_insert_with(nodecfg_clock::instant);
        }
        let help = match error {
            ClusterError::DefinitionMissing { .. } => {
                "`nodecfg install` adds it; until then the node keeps its configuration".to_owned()
            }
            _ => error.help(),
        };
        let text = error.to_string();
        if self.last_logged.as_ref() == Some(&text) {
            tracing::debug!(attempts = self.attempts, "{text}");
        } else {
            tracing::warn!("{text}; retrying. {help}");
            self.last_logged = Some(text);
        }
    }

    fn is_refused_longer_than(&self, timeout: Duration) -> bool {
        self.refused_since.is_some_and(|since| since.elapsed() > timeout)
    }

    fn clear(&mut self) {
        self.refused_since = None;
        if self.last_logged.take().is_some() {
            tracing::info!("following the NodeConfig again");
        }
        self.attempts = 0;
    }
}

fn download(map: WireConfigMap, asked: &ConfigMapSource) -> Download {
    let mut labels = map.metadata.labels.unwrap_or_default();
    let source = ConfigMapSource {
        uid: Some(map.metadata.uid),
        resource_version: map.metadata.resource_version,
        ..asked.clone()
    };
    Download {
        source: source.into(),
        payload: map.data.unwrap_or_default(),
        immutable: map.immutable.unwrap_or_default(),
        content_hash: None,
        pool: labels.remove(CONFIG_MAP_POOL_LABEL),
    }
}

#[derive(Debug, Default, Deserialize)]
struct WireLease {
    #[serde(default)]
    spec: WireLeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireLeaseSpec {
    #[serde(default)]
    renew_time: Option<Timestamp>,
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
