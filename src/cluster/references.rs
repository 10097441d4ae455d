//! What refers to ConfigMaps: every Node and every NodeConfig, whether it has a Node or not. Asked before ConfigMaps are deleted,
//! so that what cannot be read is an error, never nothing.

use http::Method;
use serde::Deserialize;

use super::binding::Binding;
use super::error::ClusterError;
use super::list::{Collection, list};
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::transport::{Call, Whole};
use super::wire::Anything;
use super::writer::ClusterWriter;
use crate::contract::{ConfigSource, ConfigStatus};
use crate::observed::{Deletion, ManagedConfigMap, References};

/// A Node or a NodeConfig.
#[derive(Debug, Deserialize)]
struct Referrer {
    metadata: Named,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    config_source: Option<ConfigSource>,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    config: Option<ConfigStatus>,
}

impl Referrer {
    /// Its name, and all that it refers to. Most refer to little: what is kept of a list is small.
    fn into_sources(self) -> (String, Vec<ConfigSource>) {
        let status = self.status.unwrap_or_default().config.unwrap_or_default();
        let spec = self.spec.unwrap_or_default().config_source;
        let mut sources: Vec<ConfigSource> =
            [spec, status.assigned, status.active, status.last_known_good].into_iter().flatten().collect();
        sources.dedup();
        (self.metadata.name, sources)
    }
}

impl ClusterReader {
    /// All that refers to ConfigMaps, by specs and by statuses. Nodes are asked whatever the binding, and NodeConfigs wherever
    /// the server knows them: a cluster that moves from one to the other has both.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request.
    pub async fn references(&self) -> Result<References, ClusterError> {
        let mut resources = vec![Resource::Nodes];
        let node_configs = Operation::on_all(Verb::List, Resource::NodeConfigs, None);
        if self.binding == Binding::NodeConfig || self.knows_node_configs(&node_configs).await? {
            resources.push(Resource::NodeConfigs);
        }
        let mut references = References::default();
        for resource in resources {
            let all = Collection::all(Operation::on_all(Verb::List, resource, None));
            let keep = |referrer: Referrer| Some(referrer.into_sources());
            let (found, _) = list(&self.transport, &all, "application/json", keep).await?;
            for (name, sources) in found {
                references.add(&name, &sources);
            }
        }
        Ok(references)
    }
}

impl ClusterWriter {
    /// Deletes a ConfigMap as it was seen: one that was changed since, or made anew under its name, stays.
    ///
    /// # Errors
    /// `LockLost`, and every [`ClusterError`] of a request.
    pub async fn delete_config_map(&self, map: &ManagedConfigMap) -> Result<Deletion, ClusterError> {
        let operation = Operation::on(Verb::Delete, Resource::ConfigMaps, Some(&map.namespace), &map.name);
        self.check_lock(&operation)?;
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": map.uid, "resourceVersion": map.resource_version},
        });
        let call = Call::new(Method::DELETE, operation.path()).content("application/json", body.to_string());
        match self.reader.transport.call(&operation, &call, Whole::<Anything>::new).await {
            Ok(_) => Ok(Deletion::Deleted),
            Err(ClusterError::NotFound { .. } | ClusterError::NamespaceMissing { .. }) => Ok(Deletion::Gone),
            Err(ClusterError::Conflict { .. }) => Ok(Deletion::Changed),
            Err(error) => Err(error),
        }
    }
}
