//! Writes of assignments: converts an [`Assignment`] to a JSON Patch of the Node or of its NodeConfig. Serves
//! assigning, rolling back and resetting. Every patch tests a uid: that of the Node that the assignment was decided
//! for, or that of a NodeConfig which was read and represents this Node.

use http::Method;
use serde_json::{Value, json};

use super::permission::admitted;
use super::writer::{ClusterWriter, FIELD_MANAGER};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, whole};
use crate::reading::binding::Binding;
use crate::reading::reader::ClusterReader;
use crate::reading::references::Referrer;
use crate::reading::wire::IgnoredContent;
use kubelet_config::risk::Class;
use nodecfg_contract::labels::{MANAGED_BY_LABEL, MANAGER};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{NodeConfig, NodeConfigSpec};
use nodecfg_contract::{Assignment, ConfigSource};

/// Media type of a JSON Patch.
const JSON_PATCH: &str = "application/json-patch+json";
/// Path of an object's own uid.
const OWN_UID: &str = "/metadata/uid";
/// Path of the Node's uid in a NodeConfig. NodeConfigs created by nodecfg have one owner.
const OWNER_UID: &str = "/metadata/ownerReferences/0/uid";
/// Path of the source in a Node and in a NodeConfig.
const SOURCE: &str = "/spec/configSource";
/// Path of the placement in a NodeConfig.
const PLACEMENT: &str = "/spec/placement";

impl ClusterWriter {
    /// Writes an assignment and returns the resulting `configSource` of the Node or its NodeConfig.
    ///
    /// After a lost response the retried request may fail the test because of its own first effect.
    /// `PreconditionFailed` therefore means "read the Node again", not "changed by another client".
    ///
    /// # Errors
    /// `PreconditionFailed`; `NotFound`; `FeatureDropped` when the response lacks the source; `DefinitionOutdated` when
    /// it lacks the content hash or the placement; `LockLost`; every [`ClusterError`] of a request.
    pub async fn assign(&self, name: &NodeName, change: &Assignment) -> Result<Option<ConfigSource>, ClusterError> {
        let resource = match self.reader.binding {
            Binding::Node => Resource::Nodes,
            Binding::NodeConfig => Resource::NodeConfigs,
        };
        let operation = Operation::on(Verb::Patch, resource, None, name.as_str());
        let source = match self.reader.binding {
            Binding::Node => self.patch(&operation, OWN_UID, &change.uid, change).await?,
            Binding::NodeConfig => self.assign_node_config(&operation, name, change).await?,
        };
        has_source(&operation, change, source)
    }

    /// Patches the NodeConfig of a Node, or creates it.
    async fn assign_node_config(
        &self,
        operation: &Operation,
        name: &NodeName,
        change: &Assignment,
    ) -> Result<Option<ConfigSource>, ClusterError> {
        match self.patch(operation, OWNER_UID, &change.uid, change).await {
            Err(ClusterError::NotFound { .. }) if change.from.is_none() && change.to.is_some() => {
                self.create_node_config(operation, name, change).await
            }
            Err(ClusterError::NotFound { .. }) => Err(changed(operation)),
            Err(error @ ClusterError::PreconditionFailed { .. }) => {
                // A NodeConfig created by hand may list its owner at another position, or no owner. Only the Node
                // itself then identifies the Node. The NodeConfig's own uid guards against a replacement since this
                // read.
                let uid = &change.uid;
                let Some(found) = self.reader.node_config(name).await? else { return Err(error) };
                if !found.represents(uid) && change.from.is_none() && change.to.is_some() {
                    return self.replace_leftover(operation, name, &found, change).await;
                }
                if !found.represents(uid) || found.is_owned_first_by(uid) {
                    return Err(error);
                }
                match self.reader.node(name).await? {
                    Some(node) if node.uid == *uid => self.patch(operation, OWN_UID, &found.metadata.uid, change).await,
                    _ => Err(error),
                }
            }
            other => other,
        }
    }

    /// Replaces a NodeConfig that stays although it does not represent the Node of the assignment, for example because a
    /// compromised node gave it finalizers or another Node as owner. Removes what keeps it, so that it is deleted. The
    /// garbage collector deletes what names no existing owner. The precondition of the patch fails until then.
    async fn replace_leftover(
        &self,
        operation: &Operation,
        name: &NodeName,
        found: &NodeConfig,
        change: &Assignment,
    ) -> Result<Option<ConfigSource>, ClusterError> {
        let node = self.reader.node(name).await?;
        if !node.is_some_and(|node| node.uid == change.uid && node.obstacle.is_none()) {
            return Err(changed(operation));
        }
        let uid = &found.metadata.uid;
        let owner = owner_reference(name, uid);
        let patch = match found.is_stuck_in_deletion() {
            true => json!([
                {"op": "test", "path": OWN_UID, "value": uid},
                {"op": "remove", "path": "/metadata/finalizers"},
            ]),
            false => json!([
                {"op": "test", "path": OWN_UID, "value": uid},
                {"op": "add", "path": "/metadata/finalizers", "value": []},
                {"op": "add", "path": "/metadata/ownerReferences", "value": [owner]},
            ]),
        };
        tracing::warn!(
            "the NodeConfig of node {name} belongs to another Node, or finalizers keep it; it is deleted and created again"
        );
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(Method::PATCH, uri).content(JSON_PATCH, patch.to_string());
        match self.call(operation, &call, whole::<IgnoredContent>).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) if found.is_stuck_in_deletion() => {
                self.create_node_config(operation, name, change).await
            }
            Err(lost @ ClusterError::LockLost { .. }) => Err(lost),
            // Some clusters reserve changes of owners for users who may delete the object.
            Err(refused @ ClusterError::Forbidden { .. }) => {
                tracing::warn!("{refused}. Run `kubectl delete nodeconfig {name}`");
                Err(changed(operation))
            }
            // The node is read again.
            _ => Err(changed(operation)),
        }
    }

    /// Creates the NodeConfig of a Node, which the operation would patch.
    async fn create_node_config(
        &self,
        patch: &Operation,
        name: &NodeName,
        change: &Assignment,
    ) -> Result<Option<ConfigSource>, ClusterError> {
        let operation = Operation::on(Verb::Create, Resource::NodeConfigs, None, name.as_str());
        let body = node_config(name, change);
        match self.send(&operation, Method::POST, "application/json", &body, change).await {
            // Created by another client, or by this request, whose response was lost.
            Err(ClusterError::AlreadyExists { .. }) => Err(changed(patch)),
            other => other,
        }
    }

    async fn patch(
        &self,
        operation: &Operation,
        uid_path: &str,
        uid: &str,
        change: &Assignment,
    ) -> Result<Option<ConfigSource>, ClusterError> {
        let body = json_patch(uid_path, uid, change, self.reader.binding);
        self.send(operation, Method::PATCH, JSON_PATCH, &body, change).await
    }

    /// Sends a request and returns the source in the response.
    ///
    /// # Errors
    /// As [`assigned_source`], and every [`ClusterError`] of a request.
    async fn send(
        &self,
        operation: &Operation,
        method: Method,
        media: &'static str,
        body: &Value,
        change: &Assignment,
    ) -> Result<Option<ConfigSource>, ClusterError> {
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(method, uri).content(media, body.to_string());
        let answer = self.call(operation, &call, whole::<Referrer>).await?;
        assigned_source(operation, change, answer, self.reader.binding)
    }
}

impl ClusterReader {
    /// Tries out an assignment by a dry run, which passes all admission and stores nothing.
    ///
    /// # Errors
    /// `FeatureDropped` and `DefinitionOutdated` when the server would drop a part of the assignment; every
    /// [`ClusterError`] of a request, except those about the present state of the node.
    pub async fn try_assignment(&self, name: &NodeName, change: &Assignment) -> Result<(), ClusterError> {
        let (resource, uid_path) = match self.binding {
            Binding::Node => (Resource::Nodes, OWN_UID),
            Binding::NodeConfig => (Resource::NodeConfigs, OWNER_UID),
        };
        let mut operation = Operation::on(Verb::Patch, resource, None, name.as_str());
        let body = json_patch(uid_path, &change.uid, change, self.binding);
        let mut result = self.dry_run(&operation, Method::PATCH, JSON_PATCH, &body).await;
        if self.binding == Binding::NodeConfig && matches!(result, Err(ClusterError::NotFound { .. })) {
            operation = Operation::on(Verb::Create, resource, None, name.as_str());
            result = self.dry_run(&operation, Method::POST, "application/json", &node_config(name, change)).await;
        }
        let Some(answer) = admitted(result)? else { return Ok(()) };
        let source = assigned_source(&operation, change, answer, self.binding)?;
        has_source(&operation, change, source).map(drop)
    }
}

/// The source in the answer to an assignment.
///
/// # Errors
/// `DefinitionOutdated` when a NodeConfig lost the content hash or the placement: its agent would take any content, or
/// combine it with the node's own as before.
fn assigned_source(
    operation: &Operation,
    change: &Assignment,
    answer: Referrer,
    binding: Binding,
) -> Result<Option<ConfigSource>, ClusterError> {
    let (source, has_hash, has_placement) = answer.into_assignment();
    let dropped = change.to_hash.is_some() && !has_hash || change.to_placement.is_some() && !has_placement;
    if dropped && binding == Binding::NodeConfig {
        return Err(ClusterError::DefinitionOutdated { operation: Box::new(operation.clone()) });
    }
    Ok(source)
}

/// The source that an object has after an assignment.
///
/// # Errors
/// `FeatureDropped` when the server dropped it.
fn has_source(
    operation: &Operation,
    change: &Assignment,
    source: Option<ConfigSource>,
) -> Result<Option<ConfigSource>, ClusterError> {
    if change.to.is_some() && source.is_none() {
        return Err(ClusterError::FeatureDropped { operation: Box::new(operation.clone()) });
    }
    Ok(source)
}

/// Error of an object that is not as the operation requires it.
fn changed(operation: &Operation) -> ClusterError {
    ClusterError::PreconditionFailed { operation: Box::new(operation.clone()) }
}

/// JSON Patch (RFC 6902) of an assignment, for an object with this uid at this path. A `test` of `null` passes on a
/// missing field (recorded on API servers 1.21 and 1.36), so "no source" is a normal precondition.
fn json_patch(uid_path: &str, uid: &str, change: &Assignment, binding: Binding) -> Value {
    let mut patch = vec![
        json!({"op": "test", "path": uid_path, "value": uid}),
        json!({"op": "test", "path": SOURCE, "value": change.from}),
    ];
    match binding {
        Binding::Node => patch.push(source_only(change)),
        Binding::NodeConfig => {
            patch.push(json!({"op": "test", "path": PLACEMENT, "value": change.from_placement}));
            patch.push(json!({"op": "add", "path": "/spec", "value": spec(change)}));
        }
    }
    Value::Array(patch)
}

/// Operation that writes the source of a Node, beside the other fields of its spec.
fn source_only(change: &Assignment) -> Value {
    match &change.to {
        Some(source) => json!({"op": "add", "path": SOURCE, "value": source}),
        None => json!({"op": "remove", "path": SOURCE}),
    }
}

/// Spec of a NodeConfig. Written as a whole, so that source, content hash, placement and highest disruption change
/// together.
fn spec(change: &Assignment) -> NodeConfigSpec {
    NodeConfigSpec {
        config_source: change.to.clone(),
        content_hash: change.to_hash.map(String::from),
        // The schema has no `never`: no preparation of a node allows such a change.
        max_disruption: Some(change.max_disruption.min(Class::Replace)),
        placement: change.to_placement,
        self_assigned: false,
    }
}

/// NodeConfig that is deleted with its Node. `controller` is unset, since no controller reconciles it.
/// `blockOwnerDeletion` is unset: no deletion waits for it, and setting it requires permission to update the Node's
/// finalizers.
fn node_config(name: &NodeName, change: &Assignment) -> Value {
    json!({
        "apiVersion": "nodecfg.dev/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {
            "name": name,
            "labels": {MANAGED_BY_LABEL: MANAGER},
            "ownerReferences": [owner_reference(name, &change.uid)],
        },
        "spec": spec(change),
    })
}

/// Reference to the Node with this uid.
fn owner_reference(name: &NodeName, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid})
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::{ContentHash, Placement};

    fn change(from: Option<&str>, to: Option<&str>) -> Assignment {
        let source = |name: &str| ConfigSource::config_map("kube-system", name, "kubelet");
        let hash = |name: &str| ContentHash::of(name.as_bytes());
        Assignment {
            uid: "u".to_owned(),
            from: from.map(source),
            to: to.map(source),
            from_hash: from.map(hash),
            to_hash: to.map(hash),
            from_placement: None,
            to_placement: to.map(|_| Placement::Overlay),
            present_placement: from.map(|_| Placement::Replace),
            max_disruption: Class::Never,
        }
    }

    #[test]
    fn patch_tests_uid_and_source_before_its_change() {
        let assigned = change(None, Some("a"));
        insta::assert_json_snapshot!(json_patch(OWN_UID, "u", &assigned, Binding::Node), @r#"
        [
          {
            "op": "test",
            "path": "/metadata/uid",
            "value": "u"
          },
          {
            "op": "test",
            "path": "/spec/configSource",
            "value": null
          },
          {
            "op": "add",
            "path": "/spec/configSource",
            "value": {
              "configMap": {
                "kubeletConfigKey": "kubelet",
                "name": "a",
                "namespace": "kube-system"
              }
            }
          }
        ]
        "#);
        let rollback = assigned.reversed();
        assert_eq!(
            json_patch(OWN_UID, "u", &rollback, Binding::Node),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "u"},
                {"op": "test", "path": "/spec/configSource", "value": rollback.from},
                {"op": "remove", "path": "/spec/configSource"},
            ])
        );
    }

    #[test]
    fn spec_pins_the_content_of_its_source() {
        let assigned = change(Some("a"), Some("b"));
        let hash = |name: &str| ContentHash::of(name.as_bytes()).to_string();
        let as_json = |change: &Assignment| serde_json::to_value(spec(change)).expect("JSON");
        assert_eq!(
            as_json(&assigned),
            json!({
                "configSource": assigned.to, "contentHash": hash("b"), "maxDisruption": "replace",
                "placement": "overlay",
            })
        );
        let rollback = assigned.clone().reversed();
        assert_eq!(
            as_json(&rollback),
            json!({
                "configSource": assigned.from, "contentHash": hash("a"), "maxDisruption": "replace",
                "placement": "replace",
            })
        );
        assert_eq!(as_json(&change(Some("a"), None)), json!({"maxDisruption": "replace"}));
    }

    /// Another client may have changed the placement alone.
    #[test]
    fn patch_of_a_node_config_tests_the_placement() {
        let assigned = change(Some("a"), Some("a"));
        let rollback = assigned.clone().reversed();
        for (change, placement) in [(&assigned, Value::Null), (&rollback, json!("overlay"))] {
            let patch = json_patch(OWNER_UID, "u", change, Binding::NodeConfig);
            assert_eq!(
                patch,
                json!([
                    {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": "u"},
                    {"op": "test", "path": "/spec/configSource", "value": change.from},
                    {"op": "test", "path": "/spec/placement", "value": placement},
                    {"op": "add", "path": "/spec", "value": spec(change)},
                ])
            );
        }
    }
}
