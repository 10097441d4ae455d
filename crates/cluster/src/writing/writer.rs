//! Writer of a cluster. This file creates ConfigMaps and Events; `assignment_writer`, `pointer_writer`, `drain_mark`,
//! `evict` and `references` add assignments, pool pointers, marks of drains, evictions and deletions. Each request
//! except an Event can be sent repeatedly. Requires a held lock, and sends nothing except Events after the loss of the
//! lock. The plan decides what to write and the precondition of every patch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, Decode, whole};
use crate::lock::{HeldLock, LockView};
use crate::reading::reader::ClusterReader;
use crate::reading::wire::{IgnoredContent, WireConfigMap};
use nodecfg_contract::KUBELET_KEY;
use nodecfg_contract::config_map::{FetchedConfigMap, PoolConfigMap};
use nodecfg_contract::labels::{
    COMMIT_ANNOTATION, CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, FLEET_LABEL, MANAGED_BY_LABEL, MANAGER,
    PATH_ANNOTATION, PLACEMENT_ANNOTATION,
};
use nodecfg_contract::names::{FleetName, NodeName, PoolName};

/// Name of nodecfg in managedFields.
pub(crate) const FIELD_MANAGER: &str = "nodecfg";
/// Namespace of Events about Nodes, since Nodes have no namespace.
pub const EVENT_NAMESPACE: &str = "default";
/// Source of the Events of a rollout.
const COMPONENT: &str = "nodecfg";
/// Time limit of one Event: a rollout does not wait for its Events.
const EVENT_PATIENCE: Duration = Duration::from_secs(5);
/// Longest message that the API server accepts, in bytes.
const EVENT_MESSAGE_LIMIT: usize = 1024;

/// Result of creating a ConfigMap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The ConfigMap was created.
    Created,
    /// A ConfigMap with the same content existed already.
    AlreadyThere,
}

/// Event about a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNotice {
    /// The Node.
    pub node: NodeName,
    /// True if the Event is a warning.
    pub warning: bool,
    /// Reason: one word in CamelCase.
    pub reason: &'static str,
    /// Message for users.
    pub message: String,
    /// Time of the event.
    pub at: Timestamp,
}

/// Writer of a cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClusterWriter {
    pub(crate) reader: ClusterReader,
    lock: LockView,
    events_failed: Arc<AtomicBool>,
    /// Whether no node of this cluster has a Lease of Medik8s, or the user may not write them.
    pub(crate) node_leases_absent: Arc<AtomicBool>,
    /// `apiVersion` of Evictions, once known.
    pub(crate) eviction: Arc<OnceCell<&'static str>>,
}

impl ClusterWriter {
    /// Writer that works while the lock is held.
    #[must_use]
    pub fn new(reader: ClusterReader, lock: &HeldLock) -> Self {
        Self {
            reader,
            lock: lock.view(),
            events_failed: Arc::default(),
            node_leases_absent: Arc::default(),
            eviction: Arc::default(),
        }
    }

    /// Copy with another time limit for each request and its retries.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Self {
        Self { reader: self.reader.within(patience), ..self.clone() }
    }

    /// Refuses an operation when the lock is no longer held.
    pub(crate) fn check_lock(&self, operation: &Operation) -> Result<(), ClusterError> {
        self.lock.check(operation)
    }

    /// Sends a write while the lock is held. A retry may follow a minute after the first attempt, so each attempt checks
    /// the lock.
    pub(crate) async fn call<D: Decode>(
        &self,
        operation: &Operation,
        call: &Call,
        decoder: impl Fn() -> D,
    ) -> Result<D::Out, ClusterError> {
        self.reader.transport.call_while(operation, call, decoder, || self.check_lock(operation)).await
    }

    /// Creates an immutable ConfigMap and never overwrites one. Accepts an existing ConfigMap with the same content,
    /// created by any client; other content is an error.
    pub async fn create_config_map(&self, map: &PoolConfigMap) -> Result<Created, ClusterError> {
        let (namespace, name) = (map.namespace.as_str(), &map.config.config_map);
        let operation = Operation::on(Verb::Create, Resource::ConfigMaps, Some(namespace), name);
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(Method::POST, uri).content("application/json", config_map(map).to_string());
        match self.call(&operation, &call, whole::<WireConfigMap>).await {
            Ok(_) => Ok(Created::Created),
            Err(error @ ClusterError::AlreadyExists { .. }) => {
                // Missing again: another client deletes ConfigMaps. Return the first error.
                let found = self.reader.config_map(namespace, name).await?.ok_or(error)?;
                match difference(&found, &map.config.kubelet) {
                    None => Ok(Created::AlreadyThere),
                    Some(difference) => {
                        Err(ClusterError::ContentMismatch { operation: Box::new(operation), difference })
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Writes an Event about a Node, in the format of the kubelet. Best effort: sends it once, and warns only of the
    /// first failure.
    pub async fn emit_event(&self, notice: &NodeNotice) {
        let operation = Operation::on_all(Verb::Create, Resource::Events, Some(EVENT_NAMESPACE));
        let call =
            Call::new(Method::POST, operation.path()).content("application/json", event(notice, COMPONENT).to_string());
        let sent = self.reader.transport.call_once(&operation, &call, whole::<IgnoredContent>());
        let problem = match tokio::time::timeout(EVENT_PATIENCE, sent).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("cannot {operation}: no response in time"),
        };
        if self.events_failed.swap(true, Ordering::Relaxed) {
            tracing::debug!("{problem}");
        } else {
            tracing::warn!("{problem}; the rollout continues without events");
        }
    }
}

/// Labels of a ConfigMap of a pool.
pub(crate) fn labels(fleet: &FleetName, pool: &PoolName) -> serde_json::Value {
    json!({
        MANAGED_BY_LABEL: MANAGER,
        FLEET_LABEL: fleet.as_str(),
        CONFIG_MAP_POOL_LABEL: pool.as_str(),
    })
}

/// The object of a ConfigMap to create.
pub(crate) fn config_map(map: &PoolConfigMap) -> serde_json::Value {
    let PoolConfigMap { config, namespace, fleet, pool, commit, path } = map;
    let annotations: BTreeMap<&str, String> = [
        (CONTENT_HASH_ANNOTATION, Some(config.hash.to_string())),
        (COMMIT_ANNOTATION, commit.as_ref().map(ToString::to_string)),
        (PATH_ANNOTATION, Some(path.clone())),
        (PLACEMENT_ANNOTATION, config.placement.map(|placement| placement.to_string())),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config.config_map,
            "namespace": namespace.as_str(),
            "labels": labels(fleet, pool),
            "annotations": annotations,
        },
        "immutable": true,
        "data": {KUBELET_KEY: config.kubelet},
    })
}

/// ConfigMap for a dry run, to which the same admission policies apply.
pub(crate) fn probe(namespace: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "nodecfg-admission-check",
            "namespace": namespace,
            "labels": {MANAGED_BY_LABEL: MANAGER},
        },
        "immutable": true,
    })
}

/// Difference between a ConfigMap and the one to create, or `None`.
fn difference(found: &FetchedConfigMap, text: &str) -> Option<String> {
    if found.deleting {
        return Some("is being deleted".to_owned());
    }
    if !found.holds_exactly(KUBELET_KEY, text) {
        return Some(match found.text(KUBELET_KEY) {
            None => format!("has no key {KUBELET_KEY:?}"),
            Some(other) if other != text => "holds another configuration".to_owned(),
            Some(_) => "holds more than the configuration".to_owned(),
        });
    }
    (!found.immutable).then(|| "is not immutable, so that its content could change under the nodes".to_owned())
}

/// core/v1 Event in the format of the kubelet: the Node's name is also its uid, which `kubectl describe node`
/// searches for.
pub fn event(notice: &NodeNotice, component: &str) -> serde_json::Value {
    let time = notice.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let end = (0..=EVENT_MESSAGE_LIMIT.min(notice.message.len())).rev().find(|at| notice.message.is_char_boundary(*at));
    let message = notice.message.get(..end.unwrap_or_default()).unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": format!("{}.", notice.node), "namespace": EVENT_NAMESPACE},
        "involvedObject": {"kind": "Node", "name": notice.node.as_str(), "uid": notice.node.as_str()},
        "type": if notice.warning { "Warning" } else { "Normal" },
        "reason": notice.reason,
        "message": message,
        "source": {"component": component},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    })
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
