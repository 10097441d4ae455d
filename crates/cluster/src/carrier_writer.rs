//! Writes assignments to NodeConfigs. The plan's patch is that of a Node; what it tests of the Node is asked of the NodeConfig
//! that stands for it, and the rest is the same field under the same path.

use http::Method;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, TestOperation};
use serde_json::{Value, json};

use super::error::ClusterError;
use super::operation::{Operation, Resource, Verb};
use super::transport::{Call, Whole};
use super::writer::{CONFIG_SOURCE, ClusterWriter, FIELD_MANAGER};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::NodeConfig;
use nodecfg_contract::observed::{MANAGED_BY_LABEL, MANAGER};

/// A patch of a Node, taken apart.
struct Change<'a> {
    /// The uid that the Node must have.
    node_uid: Option<&'a str>,
    /// Everything else.
    rest: &'a [PatchOperation],
}

impl<'a> Change<'a> {
    fn of(patch: &'a Patch) -> Self {
        match patch.0.as_slice() {
            [PatchOperation::Test(test), rest @ ..] if test.path.as_str() == "/metadata/uid" => {
                Self { node_uid: test.value.as_str(), rest }
            }
            rest => Self { node_uid: None, rest },
        }
    }

    /// The patch with this test in place of that of the Node's uid.
    fn testing(&self, path: &[&str], value: &str) -> Patch {
        let path = PointerBuf::from_tokens(path.iter().copied());
        let test = PatchOperation::Test(TestOperation { path, value: Value::String(value.to_owned()) });
        Patch(std::iter::once(test).chain(self.rest.iter().cloned()).collect())
    }

    /// The source of a NodeConfig that is not there yet. `None`: the patch expects one, or takes one away.
    fn first_source(&self) -> Option<&Value> {
        match self.rest {
            [PatchOperation::Test(test), PatchOperation::Add(add)] => {
                let first = test.path.as_str() == CONFIG_SOURCE && test.value.is_null();
                (first && add.path.as_str() == CONFIG_SOURCE).then_some(&add.value)
            }
            _ => None,
        }
    }
}

impl ClusterWriter {
    /// Applies the patch of a Node to the NodeConfig that stands for it, or makes that.
    pub(super) async fn patch_node_config(
        &self,
        name: &NodeName,
        patch: &Patch,
    ) -> Result<Option<ConfigSource>, ClusterError> {
        let change = Change::of(patch);
        let operation = Operation::on(Verb::Patch, Resource::NodeConfigs, None, name.as_str());
        let changed = || ClusterError::PreconditionFailed { operation: Box::new(operation.clone()) };
        // nodecfg's own NodeConfigs have one owner.
        let first = match change.node_uid {
            Some(uid) => change.testing(&["metadata", "ownerReferences", "0", "uid"], uid),
            None => patch.clone(),
        };
        match self.send_patch(&operation, &first).await {
            Err(ClusterError::NotFound { .. }) => match change.first_source() {
                Some(source) => self.create_node_config(name, change.node_uid, source, changed).await,
                None => Err(changed()),
            },
            Err(error @ ClusterError::PreconditionFailed { .. }) => {
                // Another's NodeConfig may have its owner elsewhere in the list, or none. Its own uid then stands for
                // what was just seen of it.
                let found = self.reader.node_config(name).await?;
                let owned_first_by = |found: &NodeConfig, uid: &str| {
                    found.metadata.owner_references.iter().flatten().next().is_some_and(|owner| owner.uid == uid)
                };
                match (change.node_uid, found) {
                    (Some(uid), Some(found)) if found.stands_for(uid) && !owned_first_by(&found, uid) => {
                        self.send_patch(&operation, &change.testing(&["metadata", "uid"], &found.metadata.uid)).await
                    }
                    _ => Err(error),
                }
            }
            other => other,
        }
        .map(|config| config.spec.config_source)
    }

    async fn send_patch(&self, operation: &Operation, patch: &Patch) -> Result<NodeConfig, ClusterError> {
        let body = serde_json::to_vec(patch).map_err(|_| ClusterError::Unexpected {
            operation: Box::new(operation.clone()),
            message: "the patch cannot be written as JSON".to_owned(),
        })?;
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/json-patch+json", body);
        self.reader.transport.call(operation, &call, Whole::new).await
    }

    async fn create_node_config(
        &self,
        name: &NodeName,
        node_uid: Option<&str>,
        source: &Value,
        changed: impl Fn() -> ClusterError,
    ) -> Result<NodeConfig, ClusterError> {
        let operation = Operation::on(Verb::Create, Resource::NodeConfigs, None, name.as_str());
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let body = node_config(name, node_uid, source).to_string();
        let call = Call::new(Method::POST, uri).content("application/json", body);
        match self.reader.transport.call(&operation, &call, Whole::new).await {
            // Made by somebody meanwhile, or by this very request, whose answer was lost.
            Err(ClusterError::AlreadyExists { .. }) => Err(changed()),
            other => other,
        }
    }
}

/// A NodeConfig that goes with its Node. No controller: nobody reconciles it. No blockOwnerDeletion: nothing shall wait for
/// it, and to set it takes the right to update the Node's finalizers.
fn node_config(name: &NodeName, node_uid: Option<&str>, source: &Value) -> Value {
    let owners: Vec<Value> =
        node_uid.map(|uid| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid})).into_iter().collect();
    json!({
        "apiVersion": "nodecfg.dev/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {"name": name, "labels": {MANAGED_BY_LABEL: MANAGER}, "ownerReferences": owners},
        "spec": {"configSource": source},
    })
}
