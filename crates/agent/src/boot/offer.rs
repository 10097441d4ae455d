//! Configuration that a new node is offered: by the pool pointer on the API server, or by a file.
//!
//! The network of a booting machine may come up late. So every failure is retried until the timeout, except answers
//! that a retry does not change.

use std::path::Path;
use std::time::Duration;

use http::Method;
use serde::de::Error as _;

use super::BootError;
use crate::content;
use crate::disk::Disk;
use crate::disk::durable;
use kubelet_config::capacity::Capacity;
use nodecfg_cluster::connection::retry::RetryPolicy;
use nodecfg_cluster::connection::transport::{Call, Decode, Limits, Transport};
use nodecfg_cluster::{ClusterError, Operation, Resource, Verb, WireConfigMap};
use nodecfg_contract::Placement;
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_contract::{ConfigSource, ContentHash, KUBELET_KEY};

/// Size limit of a response, in bytes. A ConfigMap has up to 1 MiB, and JSON may double its size.
const MAX_RESPONSE: usize = 8 << 20;
/// Size limit of the file, in bytes: that of a ConfigMap.
const MAX_FILE: u64 = 1 << 20;
/// Uid of the assignment of an offline boot. The first download replaces it by that of the ConfigMap.
const OFFLINE_UID: &str = "nodecfg-boot";

/// Time limits of reading the pool pointer. The kubelet waits as long.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Time limit with all retries.
    pub timeout: Duration,
    /// Time limit of one attempt.
    pub attempt: Duration,
    /// Waits between attempts.
    pub retry: RetryPolicy,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            attempt: Duration::from_secs(10),
            retry: RetryPolicy { first_delay: Duration::from_millis(500), longest_delay: Duration::from_secs(5) },
            seed: 0,
        }
    }
}

/// Configuration for a new node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// ConfigMap that the reconciler assigns to nodes of the pool. Uid and resourceVersion are those of the pointer, or
    /// made up offline: the agent reads the ConfigMap later, and adopts equal content.
    pub source: ConfigSource,
    /// Hash of the content.
    pub hash: ContentHash,
    /// The KubeletConfiguration.
    pub kubelet: String,
    /// How the node combines it with its own configuration. `None`: as the agent does without `spec.placement`.
    pub placement: Option<Placement>,
}

/// Pool whose configuration a node starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The fleet.
    pub fleet: FleetName,
    /// The pool.
    pub pool: PoolName,
    /// Namespace of the ConfigMaps.
    pub namespace: NamespaceName,
}

impl Target {
    fn source(&self, config_map: &str, uid: &str, resource_version: &str) -> ConfigSource {
        let mut source = ConfigSource::config_map(self.namespace.as_str(), config_map, KUBELET_KEY);
        if let Some(map) = source.config_map_mut() {
            map.uid = Some(uid.to_owned());
            map.resource_version = Some(resource_version.to_owned());
        }
        source
    }

    /// Reads the pool pointer and verifies owner and hash. `None`: new nodes run their local configuration. `server` is
    /// the address in errors, `capacity` that of the machine.
    ///
    /// # Errors
    /// The pointer could not be read within the timeout, or is refused.
    pub(crate) async fn offered_by_cluster(
        &self,
        client: kube::Client,
        server: &str,
        capacity: Capacity,
        options: ReadOptions,
    ) -> Result<Option<Offer>, BootError> {
        let ReadOptions { timeout, attempt, retry, seed } = options;
        let transport = Transport::new(client, server, retry, Limits { attempt, total: timeout }, seed);
        let name = PoolPointer::name(&self.fleet, &self.pool);
        let operation = Operation::on(Verb::Get, Resource::ConfigMaps, Some(self.namespace.as_str()), &name);
        let map = get(&transport, &operation, timeout).await?;
        let (uid, version) = (map.metadata.uid.clone(), map.metadata.resource_version.clone().unwrap_or_default());
        let refused = |error| BootError::Pointer { name: format!("{}/{name}", self.namespace), error };
        let pointer = PoolPointer::read(&map.into_fetched(), &self.fleet, &self.pool).map_err(refused)?;
        let config = pointer.for_node(capacity).map_err(refused)?.cloned();
        Ok(config.map(|PoolConfig { config_map, hash, kubelet, placement }| Offer {
            source: self.source(&config_map, &uid, &version),
            hash,
            kubelet,
            placement,
        }))
    }

    /// Reads the configuration from a file, as `nodecfg render POOL --format file` writes it. `wanted`: its hash, if it
    /// must be verified.
    ///
    /// # Errors
    /// The file is missing, unreadable, or has another hash.
    pub(crate) fn offered_by_file(
        &self,
        disk: &dyn Disk,
        path: &Path,
        wanted: Option<ContentHash>,
        placement: Option<Placement>,
    ) -> Result<Offer, BootError> {
        let unreadable = |problem: &str| BootError::File { path: path.to_owned(), problem: problem.to_owned() };
        let content = durable::read(disk, path, MAX_FILE)?.ok_or_else(|| unreadable("it is missing"))?;
        let text = String::from_utf8(content).map_err(|_| unreadable("it is not UTF-8 text"))?;
        let kubelet = content::canonical(&text).ok_or_else(|| unreadable("it is not YAML of one document"))?;
        let hash = ContentHash::of(kubelet.as_bytes());
        if let Some(wanted) = wanted.filter(|wanted| *wanted != hash) {
            return Err(BootError::OtherContent { path: path.to_owned(), wanted, found: hash });
        }
        let short = hash.short();
        let source = self.source(&format!("{}-{}-{short}", self.fleet, self.pool), OFFLINE_UID, &short);
        Ok(Offer { source, hash, kubelet, placement })
    }
}

/// Reads a ConfigMap. Unlike the transport, also waits for a server that has never answered.
async fn get(transport: &Transport, operation: &Operation, timeout: Duration) -> Result<WireConfigMap, ClusterError> {
    let call = Call::new(Method::GET, operation.path());
    let began = nodecfg_clock::instant();
    let mut attempts = 0;
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        let error = match transport.within(left).call(operation, &call, Bounded::default).await {
            Ok(map) => return Ok(map),
            Err(error) => error,
        };
        attempts += 1;
        let delay = transport.backoff(attempts);
        if is_final(&error) || began.elapsed().saturating_add(delay) >= timeout {
            return Err(error);
        }
        tracing::info!(attempts, "{error}; trying again");
        tokio::time::sleep(delay).await;
    }
}

/// Reports whether a retry would change nothing. New credentials and certificates may need some time to be accepted.
fn is_final(error: &ClusterError) -> bool {
    matches!(
        error,
        ClusterError::NotFound { .. }
            | ClusterError::NamespaceMissing { .. }
            | ClusterError::Forbidden { .. }
            | ClusterError::Invalid { .. }
            | ClusterError::Unexpected { .. }
    )
}

/// Decoder of a ConfigMap from a response of limited size.
#[derive(Debug, Default)]
struct Bounded(Vec<u8>);

impl Decode for Bounded {
    type Out = WireConfigMap;

    fn chunk(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        if self.0.len().saturating_add(bytes.len()) > MAX_RESPONSE {
            return Err(serde_json::Error::custom(format!("the response is larger than {MAX_RESPONSE} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self) -> Result<WireConfigMap, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}
