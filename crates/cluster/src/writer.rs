//! Writes to a cluster: the few requests that change something, each safe to send again. Made from a reader and a lock that
//! is held; once the lock is lost, every method refuses before it sends anything. Decides nothing: what to write, and the
//! precondition of every patch, comes from the plan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::json;

use super::error::ClusterError;
use super::lease::{HeldLock, LockView};
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::transport::{Call, Whole};
use super::wire::{Anything, WireConfigMap};
use nodecfg_contract::ContentHash;
use nodecfg_contract::KUBELET_KEY;
use nodecfg_contract::names::{CommitId, FleetName, NodeName, PoolName};
use nodecfg_contract::observed::{
    COMMIT_ANNOTATION, CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, FLEET_LABEL, FetchedConfigMap, MANAGED_BY_LABEL,
    MANAGER, PATH_ANNOTATION,
};

/// Names nodecfg in managedFields.
pub(super) const FIELD_MANAGER: &str = "nodecfg";
/// Events about Nodes live here, since Nodes have no namespace.
pub const EVENT_NAMESPACE: &str = "default";
/// Who the events of a rollout are from.
const COMPONENT: &str = "nodecfg";
/// An event that takes longer is given up: a rollout does not wait for its commentary.
const EVENT_PATIENCE: Duration = Duration::from_secs(5);
/// The API server refuses longer messages.
const EVENT_MESSAGE_LIMIT: usize = 1024;

/// A ConfigMap to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapSpec {
    /// Its namespace.
    pub namespace: String,
    /// Its name: `<fleet>-<pool>-<hash>`.
    pub name: String,
    /// The canonical configuration.
    pub text: String,
    /// The fleet it belongs to.
    pub fleet: FleetName,
    /// The pool it is for.
    pub pool: PoolName,
    /// The hash of the text.
    pub content_hash: ContentHash,
    /// The commit it was rendered from; unset for a working tree.
    pub commit: Option<CommitId>,
    /// The path of the pool's configuration in the repository.
    pub path: String,
}

/// How a ConfigMap came to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It was created.
    Created,
    /// It was there already, with just this content.
    AlreadyThere,
}

/// An event about a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNotice {
    /// The Node.
    pub node: NodeName,
    /// Whether it is a warning.
    pub warning: bool,
    /// One word in CamelCase.
    pub reason: &'static str,
    /// What happened, for people.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// A view of a cluster that may write. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClusterWriter {
    pub(super) reader: ClusterReader,
    lock: LockView,
    events_failed: Arc<AtomicBool>,
}

impl ClusterWriter {
    /// A writer for as long as the lock is held.
    #[must_use]
    pub fn new(reader: ClusterReader, lock: &HeldLock) -> Self {
        Self { reader, lock: lock.view(), events_failed: Arc::default() }
    }

    /// The same writer, giving each request this long with all its retries.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Self {
        Self { reader: self.reader.within(patience), ..self.clone() }
    }

    /// Refuses an operation when the lock is not held any more.
    pub(super) fn check_lock(&self, operation: &Operation) -> Result<(), ClusterError> {
        self.lock.check(operation)
    }

    /// Creates an immutable ConfigMap. One that is there already is looked at: the same content is fine, whoever made it;
    /// anything else is an error. Nothing is ever overwritten.
    ///
    /// # Errors
    /// `ContentDiffers`, `NamespaceMissing`, `LockLost`, and every [`ClusterError`] of a request.
    pub async fn create_config_map(&self, spec: &ConfigMapSpec) -> Result<Created, ClusterError> {
        let operation = Operation::on(Verb::Create, Resource::ConfigMaps, Some(&spec.namespace), &spec.name);
        self.lock.check(&operation)?;
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(Method::POST, uri).content("application/json", config_map(spec).to_string());
        match self.reader.transport.call(&operation, &call, Whole::<WireConfigMap>::new).await {
            Ok(_) => Ok(Created::Created),
            Err(error @ ClusterError::AlreadyExists { .. }) => {
                // Gone again since: somebody deletes what this creates, and has to be asked why.
                let found = self.reader.config_map(&spec.namespace, &spec.name).await?.ok_or(error)?;
                match difference(&found, &spec.text) {
                    None => Ok(Created::AlreadyThere),
                    Some(difference) => {
                        Err(ClusterError::ContentDiffers { operation: Box::new(operation), difference })
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Writes an event about a Node, as the kubelet writes its own. Best effort: sent once, and a failure is logged, the
    /// first time only.
    pub async fn emit_event(&self, notice: &NodeNotice) {
        let operation = Operation::on_all(Verb::Create, Resource::Events, Some(EVENT_NAMESPACE));
        let call =
            Call::new(Method::POST, operation.path()).content("application/json", event(notice, COMPONENT).to_string());
        let sent = self.reader.transport.call_once(&operation, &call, Whole::<Anything>::new());
        let problem = match tokio::time::timeout(EVENT_PATIENCE, sent).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("cannot {operation}: no answer in time"),
        };
        if self.events_failed.swap(true, Ordering::Relaxed) {
            tracing::debug!("{problem}");
        } else {
            tracing::warn!("{problem}; the rollout goes on without events");
        }
    }
}

fn config_map(spec: &ConfigMapSpec) -> serde_json::Value {
    let annotations: BTreeMap<&str, String> = [
        (CONTENT_HASH_ANNOTATION, Some(spec.content_hash.to_string())),
        (COMMIT_ANNOTATION, spec.commit.as_ref().map(ToString::to_string)),
        (PATH_ANNOTATION, Some(spec.path.clone())),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": spec.name,
            "namespace": spec.namespace,
            "labels": {
                MANAGED_BY_LABEL: MANAGER,
                FLEET_LABEL: spec.fleet.as_str(),
                CONFIG_MAP_POOL_LABEL: spec.pool.as_str(),
            },
            "annotations": annotations,
        },
        "immutable": true,
        "data": {KUBELET_KEY: spec.text},
    })
}

/// In what a ConfigMap differs from the one that would have been created, if it does.
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

/// core/v1 Event as the kubelet writes them: the Node's name serves as its uid, which is what `kubectl describe node` looks
/// for.
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
