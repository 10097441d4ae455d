//! Writes assignments, for assigning, rolling back and resetting alike: the one place that turns an [`Assignment`] into a JSON
//! Patch, for the Node itself or for the NodeConfig that stands for it. Every request tests that it is about the Node that the
//! assignment was decided for.

use http::Method;
use serde_json::{Value, json};

use super::binding::Binding;
use super::error::ClusterError;
use super::operation::{Operation, Resource, Verb};
use super::references::Referrer;
use super::transport::{Call, Whole};
use super::writer::{ClusterWriter, FIELD_MANAGER};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{MANAGED_BY_LABEL, MANAGER};
use nodecfg_contract::{Assignment, ConfigSource};

/// Where a Node has its uid, and any other object.
const OWN_UID: &str = "/metadata/uid";
/// Where a NodeConfig has the uid of its Node. nodecfg's own NodeConfigs have one owner.
const OWNER_UID: &str = "/metadata/ownerReferences/0/uid";

impl ClusterWriter {
    /// Carries out an assignment, and returns the `configSource` that the Node, or its NodeConfig, then has.
    ///
    /// When an answer is lost and the request is sent again, its own first effect may fail its test: `PreconditionFailed` means
    /// "read the Node again", not "changed by another client".
    ///
    /// # Errors
    /// `PreconditionFailed`, `NotFound`, `FeatureDropped` when the source that was set is not in what came back, `LockLost`,
    /// and every [`ClusterError`] of a request.
    pub async fn assign(&self, name: &NodeName, change: &Assignment) -> Result<Option<ConfigSource>, ClusterError> {
        let resource = match self.reader.binding {
            Binding::Node => Resource::Nodes,
            Binding::NodeConfig => Resource::NodeConfigs,
        };
        let operation = Operation::on(Verb::Patch, resource, None, name.as_str());
        self.check_lock(&operation)?;
        let source = match self.reader.binding {
            Binding::Node => self.patch(&operation, OWN_UID, &change.uid, change).await?,
            Binding::NodeConfig => self.assign_node_config(&operation, name, change).await?,
        };
        if change.to.is_some() && source.is_none() {
            return Err(ClusterError::FeatureDropped { operation: Box::new(operation) });
        }
        Ok(source)
    }

    /// Patches the NodeConfig that stands for a Node, or creates it.
    async fn assign_node_config(
        &self,
        operation: &Operation,
        name: &NodeName,
        change: &Assignment,
    ) -> Result<Option<ConfigSource>, ClusterError> {
        let changed = || ClusterError::PreconditionFailed { operation: Box::new(operation.clone()) };
        match self.patch(operation, OWNER_UID, &change.uid, change).await {
            Err(ClusterError::NotFound { .. }) if change.from.is_none() && change.to.is_some() => {
                let operation = Operation::on(Verb::Create, Resource::NodeConfigs, None, name.as_str());
                let body = node_config(name, change);
                match self.send(&operation, Method::POST, "application/json", &body).await {
                    // Created by another client, or by this very request, whose answer was lost.
                    Err(ClusterError::AlreadyExists { .. }) => Err(changed()),
                    other => other,
                }
            }
            Err(ClusterError::NotFound { .. }) => Err(changed()),
            Err(error @ ClusterError::PreconditionFailed { .. }) => {
                // A NodeConfig made by hand may have its owner elsewhere in the list, or none: only the Node itself then says
                // which Node it is. The NodeConfig's own uid stands for what was just seen of it.
                let uid = &change.uid;
                let found = self.reader.node_config(name).await?;
                let found = found.filter(|found| found.stands_for(uid) && !found.is_owned_first_by(uid));
                let Some(found) = found else { return Err(error) };
                match self.reader.node(name).await? {
                    Some(node) if node.uid == *uid => self.patch(operation, OWN_UID, &found.metadata.uid, change).await,
                    _ => Err(error),
                }
            }
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
        let body = json_patch(uid_path, uid, change);
        self.send(operation, Method::PATCH, "application/json-patch+json", &body).await
    }

    /// Sends a request, and returns the source of the object that it answers with.
    async fn send(
        &self,
        operation: &Operation,
        method: Method,
        media: &'static str,
        body: &Value,
    ) -> Result<Option<ConfigSource>, ClusterError> {
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(method, uri).content(media, body.to_string());
        let answer = self.reader.transport.call(operation, &call, Whole::<Referrer>::new).await?;
        Ok(answer.into_source())
    }
}

/// The JSON Patch (RFC 6902) of an assignment, for an object that has this uid at this path. The `test` of `null` passes on an
/// absent field (recorded on API servers 1.21 and 1.36), so that "no source" is a precondition like any other.
fn json_patch(uid_path: &str, uid: &str, change: &Assignment) -> Value {
    const FIELD: &str = "/spec/configSource";
    json!([
        {"op": "test", "path": uid_path, "value": uid},
        {"op": "test", "path": FIELD, "value": change.from},
        match &change.to {
            Some(source) => json!({"op": "add", "path": FIELD, "value": source}),
            None => json!({"op": "remove", "path": FIELD}),
        },
    ])
}

/// A NodeConfig that is deleted with its Node. `controller` is unset, since nothing reconciles it. `blockOwnerDeletion` is unset:
/// no deletion waits for it, and setting it needs the right to update the Node's finalizers.
fn node_config(name: &NodeName, change: &Assignment) -> Value {
    json!({
        "apiVersion": "nodecfg.dev/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {
            "name": name,
            "labels": {MANAGED_BY_LABEL: MANAGER},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": change.uid}],
        },
        "spec": {"configSource": change.to},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_tests_the_uid_and_the_source_before_it_changes_one_field() {
        let source = |name: &str| ConfigSource::config_map("kube-system", name, "kubelet");
        let change = Assignment { uid: "u".to_owned(), from: None, to: Some(source("a")) };
        insta::assert_json_snapshot!(json_patch(OWN_UID, "u", &change), @r#"
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
        // The way back.
        assert_eq!(
            json_patch(OWNER_UID, "u", &change.back()),
            json!([
                {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": "u"},
                {"op": "test", "path": "/spec/configSource", "value": source("a")},
                {"op": "remove", "path": "/spec/configSource"},
            ])
        );
    }
}
