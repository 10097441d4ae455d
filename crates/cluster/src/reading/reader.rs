//! Reader of a cluster. Must not change the cluster: it sends only GET requests and requests of which the server
//! stores nothing, namely reviews of the user's name and permissions, and the dry-run patch of
//! [`binding`](super::binding).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::Method;

use super::binding::Binding;
use super::list::{Collection, list};
use super::node_decoder::NodeDecoder;
use super::node_join::join;
use super::salvage::read_node_config;
pub use super::wire::LabelKeys;
use super::wire::{WireConfigMap, WireMetadata, WireVersion};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::retry::RetryPolicy;
use crate::connection::transport::{Call, Limits, One, Transport, whole};
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::labels::{MANAGED_BY_LABEL, MANAGER};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::NodeConfig;
use nodecfg_observed::{ManagedConfigMap, Node, NodeConfigState, ServerVersion};

/// Requests only metadata (meta/v1 `PartialObjectMetadataList`).
pub(crate) const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Options of a reader.
#[derive(Debug, Clone)]
pub struct ReaderOptions {
    /// Labels of Nodes to keep.
    pub label_keys: LabelKeys,
    /// Time limit of one attempt of a request.
    pub request_timeout: Duration,
    /// Time limit of a request with all its retries; see [`ClusterReader::within`].
    pub patience: Duration,
    /// Waits between retries.
    pub retry: RetryPolicy,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self {
            label_keys: LabelKeys::All,
            request_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(60),
            retry: RetryPolicy::default(),
            seed: 0,
        }
    }
}

/// A read-only view of a cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClusterReader {
    pub(crate) transport: Transport,
    pub(crate) decoder: NodeDecoder,
    pub(crate) binding: Binding,
    /// Whether the server is expected to have streaming lists. False after the first that failed.
    pub(crate) streams_lists: Arc<AtomicBool>,
}

impl ClusterReader {
    /// Binding of this cluster.
    #[must_use]
    pub fn binding(&self) -> Binding {
        self.binding
    }

    /// Reader over a client, for the Node binding; see [`with_binding`](Self::with_binding). The client must not
    /// retry by itself; clients made by [`connect`](crate::connection::connect) do not. `server` is the address printed in
    /// errors.
    #[must_use]
    pub fn new(client: kube::Client, server: &str, options: ReaderOptions) -> Self {
        let limits = Limits { attempt: options.request_timeout, total: options.patience };
        Self {
            transport: Transport::new(client, server, options.retry, limits, options.seed),
            decoder: NodeDecoder::new(options.label_keys),
            binding: Binding::default(),
            streams_lists: Arc::default(),
        }
    }

    /// Copy with another time limit for each request and its retries.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Self {
        Self { transport: self.transport.within(patience), ..self.clone() }
    }

    /// Copy that keeps other labels of Nodes.
    #[must_use]
    pub fn keeping(&self, label_keys: LabelKeys) -> Self {
        Self { decoder: self.decoder.keeping(label_keys), ..self.clone() }
    }

    /// The server's time according to its last response. Machines with different clocks agree on it.
    #[must_use]
    pub fn server_time(&self) -> jiff::Timestamp {
        self.transport.server_time()
    }

    /// Address of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        self.transport.server()
    }

    /// Version of the server.
    pub async fn server_version(&self) -> Result<ServerVersion, ClusterError> {
        let operation = Operation::on_all(Verb::Get, Resource::Version, None);
        let version: WireVersion = self.get(&operation).await?;
        Ok(ServerVersion::read(&version.git_version, &version.major, &version.minor))
    }

    /// Identity of this cluster: the uid of the namespace kube-system, which is created with the cluster and cannot
    /// be deleted. OpenTelemetry's semantic conventions use the same value for `k8s.cluster.uid`.
    pub async fn cluster_uid(&self) -> Result<String, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::Namespaces, None, "kube-system");
        let namespace: WireMetadata = self.get(&operation).await?;
        Some(namespace.metadata.uid).filter(|uid| !uid.is_empty()).ok_or_else(|| {
            let message = "the namespace has no uid".to_owned();
            ClusterError::Unexpected { operation: Box::new(operation), message }
        })
    }

    /// Nodes that match a label selector. They include their assignments only with the Node binding.
    ///
    /// # Errors
    /// `Invalid` when the server rejects the selector; every other [`ClusterError`] of a request.
    pub async fn nodes_labelled(&self, selector: &str) -> Result<Vec<Node>, ClusterError> {
        let operation = Operation::on_all(Verb::List, Resource::Nodes, None);
        let nodes = Collection::labelled(operation, selector.to_owned());
        let keep = |item: &[u8]| self.decoder.node(item);
        Ok(list(&self.transport, &nodes, "application/json", keep).await?.0)
    }

    /// One Node with its assignment, or `None` when the Node is missing.
    pub async fn node(&self, name: &NodeName) -> Result<Option<Node>, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::Nodes, None, name.as_str());
        let call = Call::new(Method::GET, operation.path());
        let read = |item: &[u8]| self.decoder.node(item);
        let node = found(self.transport.call(&operation, &call, || One::new(read)).await)?.flatten();
        Ok(match (node, self.binding) {
            (Some(mut node), Binding::NodeConfig) => {
                let config = self.node_config(name).await?.map(NodeConfigState::of);
                join(&mut node, config.as_ref(), self.transport.server_time());
                Some(node)
            }
            (node, _) => node,
        })
    }

    /// NodeConfig of this name, or `None` when it is missing.
    pub(crate) async fn node_config(&self, name: &NodeName) -> Result<Option<NodeConfig>, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::NodeConfigs, None, name.as_str());
        let call = Call::new(Method::GET, operation.path());
        found(self.transport.call(&operation, &call, || One::new(read_node_config)).await)
    }

    /// Metadata of the ConfigMaps in a namespace with nodecfg's label, of every fleet. Empty when the namespace is
    /// missing.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
    pub async fn list_config_maps(&self, namespace: &str) -> Result<Vec<ManagedConfigMap>, ClusterError> {
        let operation = Operation::on_all(Verb::List, Resource::ConfigMaps, Some(namespace));
        let managed = Collection::labelled(operation, format!("{MANAGED_BY_LABEL}={MANAGER}"));
        let keep = |item: &[u8]| Ok(Some(serde_json::from_slice::<WireMetadata>(item)?.into_managed()));
        Ok(list(&self.transport, &managed, METADATA_ONLY, keep).await?.0)
    }

    /// One ConfigMap with its content, or `None` when the ConfigMap or the namespace is missing.
    pub async fn config_map(&self, namespace: &str, name: &str) -> Result<Option<FetchedConfigMap>, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::ConfigMaps, Some(namespace), name);
        let wire: Option<WireConfigMap> = found(self.get(&operation).await)?;
        Ok(wire.map(WireConfigMap::into_fetched))
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, operation: &Operation) -> Result<T, ClusterError> {
        self.transport.call(operation, &Call::new(Method::GET, operation.path()), whole).await
    }
}

/// Converts the error of a missing object or namespace to `None`.
pub fn found<T>(result: Result<T, ClusterError>) -> Result<Option<T>, ClusterError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(ClusterError::NotFound { .. } | ClusterError::NamespaceMissing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
