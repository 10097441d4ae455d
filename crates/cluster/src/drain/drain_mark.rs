//! Mark of a node that is drained: adds and removes the taint and the annotations. Each change is one JSON Patch that
//! tests the uid, the whole list of taints, and every annotation that it changes. So it never overwrites a change of
//! another client.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::node_conditions::{self, NodeCondition};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, whole};
use crate::reading::binding::Binding;
use crate::reading::reader::found;
use crate::reading::wire::IgnoredContent;
use crate::writing::writer::{ClusterWriter, FIELD_MANAGER};
use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{ConfigStatus, error_text};
use nodecfg_observed::drain::{DRAIN_ANNOTATION, DRAIN_TAINT, DRAIN_TAINT_EFFECT, DRAIN_TAINT_VALUE};
use nodecfg_observed::{Drain, DrainMark, Protection, Released, RemovedMark};

/// Attempts of one change: a Node changes often, for example when its Ready condition adds a taint.
const ATTEMPTS: u32 = 3;
/// Value of a protection.
const PROTECTED: &str = "true";
/// Paths of the fields that the patches test and change.
const UID: &str = "/metadata/uid";
const TAINTS: &str = "/spec/taints";
const ANNOTATIONS: &str = "/metadata/annotations";
const CONFIG_SOURCE: &str = "/spec/configSource";
const MAX_DISRUPTION: &str = "/spec/maxDisruption";

impl ClusterWriter {
    /// Marks a node for a drain, shows it to other programs, and returns the mark as stored. `added` of `drain` is ignored:
    /// the mark adds the protections that are absent. `since` is stored in whole seconds. A mark in effect of the same fleet
    /// and target is left unchanged.
    ///
    /// # Errors
    /// `PreconditionFailed` for another uid, for a mark of another fleet, and when the Node changes repeatedly;
    /// `NotFound`; `LockLost`; every [`ClusterError`] of a request.
    pub async fn mark_for_drain(&self, node: &NodeName, uid: &str, drain: &Drain) -> Result<Drain, ClusterError> {
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
        let mut attempt = 1;
        loop {
            let read = self.read_marked(node).await?;
            let shown = node_conditions::changes(read.conditions(), &node_conditions::DRAINING);
            let marking = if read.metadata.uid == uid { marking(&read, drain) } else { Marking::Refused };
            // Before the mark: a release that follows the mark at once must find what it ends.
            if !matches!(marking, Marking::Refused) {
                self.show_conditions(node, uid, &shown).await?;
            }
            let stored = match marking {
                Marking::Done(stored) => stored,
                Marking::Patch(patch, stored) => match self.json_patch(&operation, &patch).await {
                    Ok(()) => stored,
                    Err(ClusterError::PreconditionFailed { .. }) if attempt < ATTEMPTS => {
                        attempt += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                Marking::Refused => return Err(ClusterError::PreconditionFailed { operation: Box::new(operation) }),
            };
            return Ok(stored);
        }
    }

    /// Removes the mark of a node: the taint, the annotation, and the protections that the mark added and that are
    /// unchanged. Cordons, other taints and other annotations stay. A mark with an unreadable annotation loses only
    /// taint and annotation. First the NodeConfig of the node loses its permission for changes that need a drained node,
    /// also if a person has removed the mark: pods return to that node, too. In the end other programs may have the node:
    /// its conditions and its Lease of nodecfg go.
    ///
    /// # Errors
    /// `PreconditionFailed` when the Node changes repeatedly; `LockLost`; every [`ClusterError`] of a request.
    pub async fn release_drain(&self, node: &NodeName, uid: &str) -> Result<Released, ClusterError> {
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
        let mut attempt = 1;
        loop {
            let Some(read) = found(self.read_marked(node).await)?.filter(|read| read.metadata.uid == uid) else {
                return Ok(Released::Gone);
            };
            if attempt == 1 {
                self.lower_disruption(node, uid).await?;
            }
            let shown = node_conditions::changes(read.conditions(), &[]);
            let released = match releasing(&read) {
                None => Released::Unmarked,
                Some((patch, removed)) => match self.json_patch(&operation, &patch).await {
                    Ok(()) => Released::Removed(removed),
                    Err(ClusterError::NotFound { .. }) => return Ok(Released::Gone),
                    Err(ClusterError::PreconditionFailed { .. }) if attempt < ATTEMPTS => {
                        attempt += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            self.leave_to_others(node, uid, &shown).await?;
            return Ok(released);
        }
    }

    /// Ends what other programs see of a drain whose mark another client removed. A failure is only logged, because it
    /// changes nothing of the rollout.
    ///
    /// # Errors
    /// `LockLost`.
    pub async fn show_unmarked(&self, node: &NodeName, uid: &str) -> Result<(), ClusterError> {
        let read = match found(self.read_marked(node).await) {
            Ok(read) => read.filter(|read| read.metadata.uid == uid),
            Err(error) => {
                tracing::warn!("node {node} may still show the drain whose mark is gone: {error}");
                return Ok(());
            }
        };
        // Another fleet may have marked the node since.
        match read.filter(|read| read.mark().is_none_or(|mark| mark.in_effect().is_none())) {
            Some(read) => self.leave_to_others(node, uid, &node_conditions::changes(read.conditions(), &[])).await,
            None => Ok(()),
        }
    }

    /// Ends what other programs see of a drain. A failure is only logged: the Lease expires.
    async fn leave_to_others(
        &self,
        node: &NodeName,
        uid: &str,
        conditions: &[(&'static str, bool)],
    ) -> Result<(), ClusterError> {
        self.show_conditions(node, uid, conditions).await?;
        match self.return_node_lease(node).await {
            Err(error @ ClusterError::LockLost { .. }) => Err(error),
            Err(error) => {
                tracing::warn!("the Lease of the released node {node} stays until it expires: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Sets `spec.maxDisruption` of a NodeConfig to `restart`, the default, if it allows more: pods may start on the node
    /// again, so it is not prepared for such a change any more. Otherwise an agent that was down could make the change
    /// later, with running pods. A node that refused the configuration keeps the permission: with a lower one, every sync
    /// would drain it again for nothing. A failure is only logged, because the release matters more.
    async fn lower_disruption(&self, node: &NodeName, uid: &str) -> Result<(), ClusterError> {
        if self.reader.binding != Binding::NodeConfig {
            return Ok(());
        }
        let lowered = async {
            let Some(config) = self.reader.node_config(node).await?.filter(|config| config.represents(uid)) else {
                return Ok(());
            };
            let allowed = config.spec.max_disruption.filter(|allowed| *allowed > Class::Restart);
            let error = config.status.config.as_ref().and_then(ConfigStatus::error);
            // The agent retries what it could not accept.
            let has_failed = error.is_some_and(|error| !error.starts_with(error_text::SYNC_PREFIX));
            let Some(allowed) = allowed.filter(|_| !has_failed) else { return Ok(()) };
            let patch = json!([
                test(UID, json!(config.metadata.uid)),
                test(CONFIG_SOURCE, json!(config.spec.config_source)),
                test(MAX_DISRUPTION, json!(allowed)),
                add(MAX_DISRUPTION, json!(Class::Restart)),
            ]);
            let operation = Operation::on(Verb::Patch, Resource::NodeConfigs, None, node.as_str());
            self.json_patch(&operation, &patch).await
        };
        match lowered.await {
            Err(error @ ClusterError::LockLost { .. }) => Err(error),
            Err(error) => {
                tracing::warn!(
                    "the NodeConfig of the released node {node} still allows changes that need a drain: {error}"
                );
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    async fn read_marked(&self, node: &NodeName) -> Result<MarkedNode, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::Nodes, None, node.as_str());
        let call = Call::new(Method::GET, operation.path());
        self.reader.transport.call(&operation, &call, whole).await
    }

    async fn json_patch(&self, operation: &Operation, patch: &Value) -> Result<(), ClusterError> {
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/json-patch+json", patch.to_string());
        self.call(operation, &call, whole::<IgnoredContent>).await.map(drop)
    }
}

/// The parts of a Node that a mark concerns.
#[derive(Debug, Deserialize)]
struct MarkedNode {
    metadata: MarkedMeta,
    #[serde(default)]
    spec: MarkedSpec,
    #[serde(default)]
    status: MarkedStatus,
}

#[derive(Debug, Default, Deserialize)]
struct MarkedStatus {
    #[serde(default)]
    conditions: Option<Vec<NodeCondition>>,
}

#[derive(Debug, Deserialize)]
struct MarkedMeta {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
struct MarkedSpec {
    /// As they are, because a patch writes the whole list and must keep unknown fields.
    #[serde(default)]
    taints: Option<Vec<Value>>,
    #[serde(default)]
    unschedulable: Option<bool>,
}

impl MarkedNode {
    fn conditions(&self) -> &[NodeCondition] {
        self.status.conditions.as_deref().unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Taints of other programs and people.
    fn other_taints(&self) -> Vec<&Value> {
        let taints = self.spec.taints.iter().flatten();
        taints.filter(|taint| taint.get("key").and_then(Value::as_str) != Some(DRAIN_TAINT)).collect()
    }

    fn is_tainted(&self) -> bool {
        self.other_taints().len() != self.spec.taints.iter().flatten().count()
    }

    fn mark(&self) -> Option<DrainMark> {
        DrainMark::read(self.is_tainted(), self.annotation(DRAIN_ANNOTATION))
    }

    /// Tests of a patch. A `test` of `null` passes on a missing field (recorded on API servers 1.21 and 1.36).
    fn tests<'k>(&self, annotations: impl IntoIterator<Item = &'k str>) -> Vec<Value> {
        let mut tests = vec![test(UID, json!(self.metadata.uid)), test(TAINTS, json!(self.spec.taints))];
        match &self.metadata.annotations {
            Some(_) => tests.extend(annotations.into_iter().map(|key| test(&path(key), json!(self.annotation(key))))),
            None => tests.push(test(ANNOTATIONS, Value::Null)),
        }
        tests
    }
}

/// Result of planning a mark.
enum Marking {
    /// The Node has this mark already.
    Done(Drain),
    /// The JSON Patch, and the mark that it stores.
    Patch(Value, Drain),
    /// Another fleet drains the Node.
    Refused,
}

fn marking(node: &MarkedNode, drain: &Drain) -> Marking {
    let mark = node.mark();
    if let Some(present) = mark.as_ref().and_then(DrainMark::in_effect)
        && present.fleet == drain.fleet
        && present.to == drain.to
    {
        return Marking::Done(present.clone());
    }
    let earlier = mark.and_then(|mark| mark.drain);
    if earlier.as_ref().is_some_and(|earlier| earlier.fleet != drain.fleet) {
        return Marking::Refused;
    }
    let absent: Vec<Protection> =
        Protection::ALL.into_iter().filter(|protection| node.annotation(protection.annotation()).is_none()).collect();
    // What an earlier mark added is still to be removed by the release of this one.
    let still = earlier.map(|earlier| unchanged(node, &earlier)).unwrap_or_default();
    // Whole seconds, as all times of Kubernetes.
    let since = Timestamp::from_second(drain.since.as_second()).unwrap_or(drain.since);
    let stored = Drain { since, added: absent.iter().copied().chain(still).collect(), ..drain.clone() };

    let keys = absent.iter().map(|protection| protection.annotation());
    let mut patch = node.tests(keys.clone().chain([DRAIN_ANNOTATION]));
    if node.metadata.annotations.is_none() {
        patch.push(add(ANNOTATIONS, json!({})));
    }
    let mut taints = node.other_taints();
    let taint = json!({"key": DRAIN_TAINT, "value": DRAIN_TAINT_VALUE, "effect": DRAIN_TAINT_EFFECT});
    taints.push(&taint);
    patch.push(add(TAINTS, json!(taints)));
    patch.push(add(&path(DRAIN_ANNOTATION), json!(json!(stored).to_string())));
    patch.extend(keys.map(|key| add(&path(key), json!(PROTECTED))));
    Marking::Patch(Value::Array(patch), stored)
}

/// JSON Patch that removes a mark, and what it removes. `None` without a mark.
fn releasing(node: &MarkedNode) -> Option<(Value, RemovedMark)> {
    let mark = node.mark()?;
    let removed = RemovedMark {
        taint: mark.tainted,
        annotation: node.annotation(DRAIN_ANNOTATION).is_some(),
        protections: mark.drain.map(|drain| unchanged(node, &drain)).unwrap_or_default(),
        cordoned: node.spec.unschedulable.unwrap_or_default(),
    };
    let protections = removed.protections.iter().map(|protection| protection.annotation());
    let mut patch = node.tests(protections.clone().chain([DRAIN_ANNOTATION]));
    if removed.taint {
        patch.push(add(TAINTS, json!(node.other_taints())));
    }
    let annotation = removed.annotation.then_some(DRAIN_ANNOTATION);
    patch.extend(protections.chain(annotation).map(|key| json!({"op": "remove", "path": path(key)})));
    Some((Value::Array(patch), removed))
}

/// Protections that a mark added and that have its value.
fn unchanged(node: &MarkedNode, drain: &Drain) -> BTreeSet<Protection> {
    let added = drain.added.iter().copied();
    added.filter(|protection| node.annotation(protection.annotation()) == Some(PROTECTED)).collect()
}

fn test(path: &str, value: Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// Operation that sets a field. It replaces a present value.
fn add(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

/// JSON Pointer (RFC 6901) of an annotation.
fn path(key: &str) -> String {
    format!("{ANNOTATIONS}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
#[path = "drain_mark_tests.rs"]
mod tests;
