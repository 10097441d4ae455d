//! Writer of pool pointers. A pointer is replaced only in the version or with the content that the caller knows, so that
//! a late request never undoes the move of a later run.

use http::Method;
use serde_json::json;

use super::writer::{ClusterWriter, FIELD_MANAGER, labels};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, whole};
use crate::reading::wire::IgnoredContent;
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;

/// Pointer to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerSpec {
    /// Namespace of the pointer.
    pub namespace: String,
    /// Fleet of the pointer.
    pub fleet: FleetName,
    /// Pool of the pointer.
    pub pool: PoolName,
    /// Content.
    pub pointer: PoolPointer,
    /// What it replaces.
    pub replaces: Replaced,
}

/// What the write of a pointer replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replaced {
    /// The pointer is missing, and is created.
    Missing,
    /// The pointer with this resource version.
    Version(String),
    /// The pointer with this content, which the caller wrote.
    Content(PoolPointer),
}

impl ClusterWriter {
    /// Creates or replaces a pool pointer.
    ///
    /// # Errors
    /// [`ClusterError::Conflict`], [`ClusterError::AlreadyExists`] or [`ClusterError::NotFound`] if another client
    /// changed, created or deleted the pointer, unless it has the wanted content; every other [`ClusterError`] of a
    /// request.
    pub async fn write_pointer(&self, spec: &PointerSpec) -> Result<(), ClusterError> {
        let name = PoolPointer::name(&spec.fleet, &spec.pool);
        let operation = |verb| Operation::on(verb, Resource::ConfigMaps, Some(&spec.namespace), &name);
        let (operation, method, version) = match &spec.replaces {
            Replaced::Missing => (operation(Verb::Create), Method::POST, None),
            Replaced::Version(version) => (operation(Verb::Update), Method::PUT, Some(version.clone())),
            Replaced::Content(written) => {
                let operation = operation(Verb::Update);
                let Some(found) = self.reader.config_map(&spec.namespace, &name).await? else {
                    return Err(ClusterError::NotFound { operation: Box::new(operation) });
                };
                match PoolPointer::read_as_written(&found, &spec.fleet, &spec.pool) {
                    Ok(found) if found == spec.pointer => return Ok(()),
                    Ok(content) if content == *written => (operation, Method::PUT, Some(found.resource_version)),
                    _ => {
                        let message = "it has other content than this run wrote".to_owned();
                        return Err(ClusterError::Conflict { operation: Box::new(operation), message });
                    }
                }
            }
        };
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let body = config_map(&name, spec, version).to_string();
        let call = Call::new(method, uri).content("application/json", body);
        match self.call(&operation, &call, whole::<IgnoredContent>).await {
            // The response to an earlier attempt may be lost.
            Err(error @ (ClusterError::Conflict { .. } | ClusterError::AlreadyExists { .. })) => {
                let found = self.reader.config_map(&spec.namespace, &name).await?;
                let written = |map: &_| PoolPointer::read_as_written(map, &spec.fleet, &spec.pool);
                let same = |map: &_| written(map).as_ref() == Ok(&spec.pointer);
                if found.as_ref().is_some_and(same) { Ok(()) } else { Err(error) }
            }
            written => written.map(drop),
        }
    }
}

fn config_map(name: &str, spec: &PointerSpec, version: Option<String>) -> serde_json::Value {
    let mut metadata = json!({
        "name": name,
        "namespace": spec.namespace,
        "labels": labels(&spec.fleet, &spec.pool),
        "annotations": spec.pointer.annotations(),
    });
    if let (Some(version), Some(metadata)) = (version, metadata.as_object_mut()) {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": spec.pointer.data()})
}
