//! Writer of pool pointers. A pointer is replaced only in the version that the caller knows, so that a late request never
//! undoes the move of a later run.

use http::Method;
use serde_json::json;

use super::error::ClusterError;
use super::operation::{Operation, Resource, Verb};
use super::transport::{Call, Whole};
use super::wire::WireMetadata;
use super::writer::{ClusterWriter, FIELD_MANAGER, labels};
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_contract::observed::{COMMIT_ANNOTATION, CONTENT_HASH_ANNOTATION};
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
    /// Resource version of the pointer that is replaced. `None`: the pointer is missing, and is created.
    pub replaces: Option<String>,
}

impl ClusterWriter {
    /// Creates or replaces a pool pointer, and returns its resource version.
    ///
    /// # Errors
    /// [`ClusterError::Conflict`] or [`ClusterError::AlreadyExists`] if another client changed or created the pointer,
    /// unless it has the wanted content; every other [`ClusterError`] of a request.
    pub async fn write_pointer(&self, spec: &PointerSpec) -> Result<String, ClusterError> {
        let name = PoolPointer::name(&spec.fleet, &spec.pool);
        let (verb, method) = match spec.replaces {
            Some(_) => (Verb::Update, Method::PUT),
            None => (Verb::Create, Method::POST),
        };
        let operation = Operation::on(verb, Resource::ConfigMaps, Some(&spec.namespace), &name);
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(method, uri).content("application/json", config_map(&name, spec).to_string());
        match self.call(&operation, &call, Whole::<WireMetadata>::new).await {
            Ok(written) => Ok(written.metadata.resource_version.unwrap_or_default()),
            // The response to an earlier attempt may be lost.
            Err(error @ (ClusterError::Conflict { .. } | ClusterError::AlreadyExists { .. })) => {
                let found = self.reader.config_map(&spec.namespace, &name).await?;
                let same = |map: &_| PoolPointer::read(map, &spec.fleet, &spec.pool).as_ref() == Ok(&spec.pointer);
                match found.filter(same) {
                    Some(map) => Ok(map.resource_version),
                    None => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }
}

fn config_map(name: &str, spec: &PointerSpec) -> serde_json::Value {
    let mut annotations = serde_json::Map::new();
    if let Some(config) = &spec.pointer.config {
        annotations.insert(CONTENT_HASH_ANNOTATION.to_owned(), config.hash.to_string().into());
    }
    if let Some(commit) = &spec.pointer.commit {
        annotations.insert(COMMIT_ANNOTATION.to_owned(), commit.as_str().into());
    }
    let mut metadata = json!({
        "name": name,
        "namespace": spec.namespace,
        "labels": labels(&spec.fleet, &spec.pool),
        "annotations": annotations,
    });
    if let (Some(version), Some(metadata)) = (&spec.replaces, metadata.as_object_mut()) {
        metadata.insert("resourceVersion".to_owned(), version.as_str().into());
    }
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": spec.pointer.data()})
}
