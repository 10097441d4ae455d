//! The API server as a node's agent sees it: its own NodeConfig, followed for ever; the ConfigMap that is assigned; its own
//! Node and Lease; and the three things that it writes: the status of its NodeConfig, and Events on its Node.

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
use nodecfg_cluster::error::ClusterError;
use nodecfg_cluster::follow::{Change, Following, follow};
use nodecfg_cluster::list::Collection;
use nodecfg_cluster::operation::{Operation, Resource, Verb};
use nodecfg_cluster::reader::found;
use nodecfg_cluster::retry::RetryPolicy;
use nodecfg_cluster::transport::{Call, Limits, Transport, Whole};
use nodecfg_cluster::writer::{EVENT_NAMESPACE, NodeNotice, event};
use nodecfg_cluster::{Anything, LabelKeys, WireConfigMap, WireNode};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigStatus};
use nodecfg_contract::observed::{CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, Node, Readiness};
use nodecfg_contract::{ConfigMapSource, ConfigSource};

/// Names the agent in managedFields and as the source of Events.
const COMPONENT: &str = "nodecfg-agent";
/// Where kubelets keep their Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// How long a download or a report is retried within one attempt of the agent's: enough for a connection that was closed
/// meanwhile, too short to be an outage.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for what the API server says of the node: it is asked while a kubelet is on trial, which must go on
/// without it.
const HEALTH_PATIENCE: Duration = Duration::from_secs(2);
/// How long the watch struggles by itself before it is begun anew, from a list.
const WATCH_PATIENCE: Duration = Duration::from_secs(60);
/// For how long its watch is asked, plus up to a quarter: there is an agent on every node, and to open a watch anew is all that
/// an idle one costs the API server. A connection that died without a word is noticed only when this is over.
const WATCH: Duration = Duration::from_secs(5 * 60);
/// How long to wait for an Event to be taken.
const EVENT_PATIENCE: Duration = Duration::from_secs(5);

/// How a client of the agent behaves.
#[derive(Debug, Clone)]
pub struct AgentClientOptions {
    /// The time that one attempt of a request may take.
    pub request_timeout: Duration,
    /// The waits between attempts. The longest decides how soon all agents are back after an outage, and how hard they
    /// come.
    pub retry: RetryPolicy,
    /// For how long the API server may refuse the credentials before that is told. Longer than authentication takes to be back
    /// after a change on its side.
    pub refusal_patience: Duration,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for AgentClientOptions {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            retry: RetryPolicy { first_delay: Duration::from_millis(500), longest_delay: Duration::from_secs(30) },
            refusal_patience: Duration::from_secs(5 * 60),
            seed: 0,
        }
    }
}

/// A connection of one node's agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AgentClient {
    transport: Transport,
    node: NodeName,
    refusal_patience: Duration,
}

impl AgentClient {
    /// For the agent of this node. The client must not retry by itself; those that [`connect`](nodecfg_cluster::connect) makes do not.
    /// `server` is the address that errors name.
    #[must_use]
    pub fn new(client: kube::Client, server: &str, node: NodeName, options: AgentClientOptions) -> Self {
        let limits = Limits { attempt: options.request_timeout, total: PATIENCE };
        let transport = Transport::new(client, server, options.retry, limits, options.seed);
        Self { transport, node, refusal_patience: options.refusal_patience }
    }

    /// The node.
    #[must_use]
    pub fn node_name(&self) -> &NodeName {
        &self.node
    }

    /// Address of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        self.transport.server()
    }

    /// Follows the node's own NodeConfig: as it is now, and then whenever it changes. `None`: there is none. Never ends.
    /// Whatever goes wrong is logged when it is new, and tried again; a CustomResourceDefinition that is not there yet is
    /// waited for. Not one of these is an instruction, so nothing of it is told, but one thing: `Unauthorized`, when the
    /// credentials have been refused for long. A client reads its certificate once, and kubelets renew theirs on disk.
    pub fn follow(&self) -> impl Stream<Item = Result<Option<NodeConfig>, ClusterError>> + Send + use<> {
        let client = self.clone();
        let begin = move |client: &Self| {
            let following = Following {
                collection: Collection::one(
                    Operation::on_all(Verb::Watch, Resource::NodeConfigs, None),
                    client.node.as_str(),
                ),
                version: None,
                watch: WATCH,
            };
            let transport = client.transport.within(WATCH_PATIENCE);
            follow(&transport, following, |config: NodeConfig| Some(config)).boxed()
        };
        let changes = begin(&client);
        let state = (client, changes, WatchErrors::default(), Belonging::default());
        futures::stream::unfold(state, move |(client, mut changes, mut trouble, mut belonging)| async move {
            loop {
                match changes.next().await {
                    Some(Ok(change)) => {
                        trouble.over();
                        let seen = match change {
                            Change::Upsert(config) => Some(config),
                            Change::Deleted(_) => None,
                            Change::Relisted(all) => all.into_iter().next(),
                        };
                        let seen = client.obeyed(seen, &mut belonging).await;
                        return Some((Ok(seen), (client, changes, trouble, belonging)));
                    }
                    Some(Err(error)) => {
                        trouble.met(&error);
                        let refused = matches!(error, ClusterError::Unauthorized { .. });
                        if refused && trouble.is_refused_longer_than(client.refusal_patience) {
                            trouble.refused = None;
                            return Some((Err(error), (client, changes, trouble, belonging)));
                        }
                    }
                    None => {}
                }
                tokio::time::sleep(client.transport.backoff(trouble.attempts)).await;
                changes = begin(&client);
            }
        })
    }

    /// The node's own NodeConfig; `None` when there is none that is to be obeyed.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request but `NotFound`.
    pub async fn node_config(&self, patience: Duration) -> Result<Option<NodeConfig>, ClusterError> {
        let config = found(self.get(&self.own(Verb::Get), patience).await)?;
        Ok(self.obeyed(config, &mut Belonging::default()).await)
    }

    /// A NodeConfig; `None` when it is being deleted, or belongs to an earlier Node of this name: the garbage collector
    /// has not come to it yet, and what it says was meant for another machine. When the Node cannot be read, it counts.
    async fn obeyed(&self, config: Option<NodeConfig>, belonging: &mut Belonging) -> Option<NodeConfig> {
        let config = config.filter(|config| config.metadata.deletion_timestamp.is_none())?;
        let owners = config.nodes();
        if !owners.is_empty() && belonging.owners != owners {
            let Some(node) = self.node().await else { return Some(config) };
            let owners = owners.into_iter().map(str::to_owned).collect();
            *belonging = Belonging { foreign: !config.stands_for(&node.uid), owners };
            if belonging.foreign {
                tracing::warn!("the NodeConfig belongs to an earlier Node of this name, and counts as absent");
            }
        } else if owners.is_empty() {
            *belonging = Belonging::default();
        }
        (!belonging.foreign).then_some(config)
    }

    /// Downloads a ConfigMap, whatever it holds.
    ///
    /// # Errors
    /// `Missing`, `Forbidden` or `Unreachable`; a hash is not compared here.
    pub async fn config_map(&self, source: &ConfigMapSource) -> Result<Download, FetchError> {
        let operation = Operation::on(Verb::Get, Resource::ConfigMaps, Some(&source.namespace), &source.name);
        let map = self.get(&operation, PATIENCE).await.map_err(|error| {
            let text = error.to_string();
            match error {
                ClusterError::NotFound { .. } | ClusterError::NamespaceMissing { .. } => FetchError::Missing(text),
                ClusterError::Forbidden { .. } => FetchError::Forbidden(text),
                _ => FetchError::Unreachable(text),
            }
        })?;
        Ok(download(map, source))
    }

    /// The Node, without its labels; `None` when the API server does not say.
    pub async fn node(&self) -> Option<Node> {
        let operation = Operation::on(Verb::Get, Resource::Nodes, None, self.node.as_str());
        let wire: Result<WireNode, _> = self.get(&operation, HEALTH_PATIENCE).await;
        wire.inspect_err(|error| tracing::debug!("{error}")).ok()?.into_node(&LabelKeys::Only(BTreeSet::new()))
    }

    /// How the API server sees the node; `None` when it does not say.
    pub async fn node_health(&self) -> Option<NodeHealth> {
        let (node, lease) = tokio::join!(self.node(), self.lease());
        Some(NodeHealth { ready: node?.ready == Readiness::Ready, lease_renewed: lease.ok()? })
    }

    /// When the node's Lease was renewed. `None`: there is no Lease, or the agent may not read it, which does not change
    /// from one moment to the next.
    async fn lease(&self) -> Result<Option<Timestamp>, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::Leases, Some(LEASE_NAMESPACE), self.node.as_str());
        match found(self.get::<WireLease>(&operation, HEALTH_PATIENCE).await) {
            Ok(lease) => Ok(lease.and_then(|lease| lease.spec.renew_time)),
            Err(ClusterError::Forbidden { .. }) => Ok(None),
            Err(error) => {
                tracing::debug!("{error}");
                Err(error)
            }
        }
    }

    /// Writes the status of the node's NodeConfig. The agent alone writes it, hence without a precondition.
    ///
    /// # Errors
    /// The reason in full.
    pub async fn report(&self, status: &NodeConfigStatus) -> Result<(), ClusterError> {
        let operation = self.own(Verb::Patch);
        let patch = json!([{"op": "add", "path": "/status", "value": status}]);
        let uri = format!("{}/status?fieldManager={COMPONENT}", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/json-patch+json", patch.to_string());
        self.transport.call(&operation, &call, Whole::<Anything>::new).await.map(drop)
    }

    /// Emits an Event on the Node, once; one that is not taken is logged.
    pub async fn announce(&self, announcement: &Announcement, at: Timestamp) {
        let Announcement { reason, message, warning } = announcement;
        let notice = NodeNotice { node: self.node.clone(), warning: *warning, reason, message: message.clone(), at };
        let operation = Operation::on_all(Verb::Create, Resource::Events, Some(EVENT_NAMESPACE));
        let body = event(&notice, COMPONENT).to_string();
        let call = Call::new(Method::POST, operation.path()).content("application/json", body);
        let sent = self.transport.call_once(&operation, &call, Whole::<Anything>::new());
        match tokio::time::timeout(EVENT_PATIENCE, sent).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::info!(reason, "an Event was not taken: {error}"),
            Err(_) => tracing::info!(reason, "an Event was not taken: no answer in time"),
        }
    }

    async fn get<T: DeserializeOwned>(&self, operation: &Operation, patience: Duration) -> Result<T, ClusterError> {
        let call = Call::new(Method::GET, operation.path());
        self.transport.within(patience).call(operation, &call, Whole::new).await
    }

    fn own(&self, verb: Verb) -> Operation {
        Operation::on(verb, Resource::NodeConfigs, None, self.node.as_str())
    }
}

/// Whose the NodeConfig is, found out once for each set of owners.
#[derive(Debug, Default)]
struct Belonging {
    /// The uids of its owners that are Nodes, as far as they have been looked at.
    owners: Vec<String>,
    /// Whether none of them is the present Node's.
    foreign: bool,
}

/// What keeps the watch from working, so that each thing is said once.
#[derive(Debug, Default)]
struct WatchErrors {
    attempts: u32,
    said: Option<String>,
    /// Since when the credentials are refused. An outage meanwhile changes nothing about that.
    refused: Option<Instant>,
}

impl WatchErrors {
    fn met(&mut self, error: &ClusterError) {
        self.attempts = self.attempts.saturating_add(1);
        if matches!(error, ClusterError::Unauthorized { .. }) {
            self.refused.get_or_insert_with(nodecfg_clock::instant);
        }
        let help = match error {
            ClusterError::DefinitionMissing { .. } => {
                "`nodecfg install` adds it; until then the node keeps what it has".to_owned()
            }
            _ => error.help(),
        };
        let text = error.to_string();
        if self.said.as_ref() == Some(&text) {
            tracing::debug!(attempts = self.attempts, "{text}");
        } else {
            tracing::warn!("{text}; trying again. {help}");
            self.said = Some(text);
        }
    }

    fn is_refused_longer_than(&self, patience: Duration) -> bool {
        self.refused.is_some_and(|since| since.elapsed() > patience)
    }

    fn over(&mut self) {
        self.refused = None;
        if self.said.take().is_some() {
            tracing::info!("the NodeConfig is followed again");
        }
        self.attempts = 0;
    }
}

fn download(map: WireConfigMap, asked: &ConfigMapSource) -> Download {
    let mut annotations = map.metadata.annotations.unwrap_or_default();
    let mut labels = map.metadata.labels.unwrap_or_default();
    let source = ConfigMapSource {
        uid: Some(map.metadata.uid),
        resource_version: map.metadata.resource_version,
        ..asked.clone()
    };
    Download {
        source: ConfigSource { config_map: Some(source) },
        payload: map.data.unwrap_or_default(),
        immutable: map.immutable.unwrap_or_default(),
        // What is longer than any hash is none, and would not fit into the status either.
        content_hash: annotations.remove(CONTENT_HASH_ANNOTATION).filter(|hash| (1..=128).contains(&hash.len())),
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
