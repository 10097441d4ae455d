//! References to ConfigMaps from every Node and NodeConfig, and the deletion of unreferenced ConfigMaps. A failed
//! read is an error, never an empty result.

use http::Method;
use serde::Deserialize;

use super::binding::Binding;
use super::error::ClusterError;
use super::list::{Collection, list};
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::transport::{Call, Whole};
use super::wire::IgnoredContent;
use super::writer::ClusterWriter;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::{ConfigSource, ConfigStatus, ContentHash, KUBELET_KEY};
use nodecfg_observed::{Deletion, ManagedConfigMap, References};

/// A Node or a NodeConfig.
#[derive(Debug, Deserialize)]
pub(super) struct Referrer {
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
    #[serde(default)]
    content_hash: Option<String>,
    #[serde(default)]
    placement: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    config: Option<ConfigStatus>,
}

impl Referrer {
    /// Source in the spec, and whether it has a content hash and a placement.
    pub(super) fn into_assignment(self) -> (Option<ConfigSource>, bool, bool) {
        let spec = self.spec.unwrap_or_default();
        (spec.config_source, spec.content_hash.is_some(), spec.placement.is_some())
    }

    /// Name and all sources of the object. Most objects refer to few sources, so a list stays small.
    fn into_sources(self) -> (String, Vec<ConfigSource>) {
        let status = self.status.unwrap_or_default().config.unwrap_or_default();
        let spec = self.spec.unwrap_or_default().config_source;
        let mut sources: Vec<ConfigSource> = spec.iter().chain(status.sources()).cloned().collect();
        sources.dedup();
        (self.metadata.name, sources)
    }
}

impl ClusterReader {
    /// All references to ConfigMaps, from specs and statuses. Reads Nodes for every binding, and NodeConfigs where
    /// the server serves them: a cluster that moves from one binding to the other has both.
    pub async fn references(&self) -> Result<References, ClusterError> {
        let mut resources = vec![Resource::Nodes];
        let node_configs = Operation::on_all(Verb::List, Resource::NodeConfigs, None);
        if self.binding == Binding::NodeConfig || self.serves_node_configs(&node_configs).await? {
            resources.push(Resource::NodeConfigs);
        }
        let mut references = References::default();
        for resource in resources {
            let all = Collection::all(Operation::on_all(Verb::List, resource, None));
            let keep = |item: &[u8]| Ok(Some(serde_json::from_slice::<Referrer>(item)?.into_sources()));
            let (found, _) = list(&self.transport, &all, "application/json", keep).await?;
            for (name, sources) in found {
                references.add(&name, &sources);
            }
        }
        Ok(references)
    }
}

/// Reports whether a ConfigMap has the shape that nodecfg creates: one key, immutable, named after its content.
fn is_made_by_us(map: &FetchedConfigMap) -> bool {
    let mut contents = map.data.iter();
    let (Some((key, text)), None, true) = (contents.next(), contents.next(), map.binary_keys.is_empty()) else {
        return false;
    };
    let named = map.name.rsplit_once('-').map(|(_, short)| short);
    map.immutable && key == KUBELET_KEY && named == Some(ContentHash::of(text.as_bytes()).short().as_str())
}

impl ClusterWriter {
    /// Deletes a ConfigMap in the listed version. Keeps a ConfigMap that was changed or recreated since, and one
    /// whose content, read just before, nodecfg did not create. Preconditions catch later changes.
    pub async fn delete_config_map(&self, map: &ManagedConfigMap) -> Result<Deletion, ClusterError> {
        let operation = Operation::on(Verb::Delete, Resource::ConfigMaps, Some(&map.namespace), &map.name);
        self.check_lock(&operation)?;
        match self.reader.config_map(&map.namespace, &map.name).await? {
            None => return Ok(Deletion::Gone),
            Some(found) if found.uid != map.uid => return Ok(Deletion::Changed),
            Some(found) if !is_made_by_us(&found) => return Ok(Deletion::NotOurs),
            Some(_) => {}
        }
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": map.uid, "resourceVersion": map.resource_version},
        });
        let call = Call::new(Method::DELETE, operation.path()).content("application/json", body.to_string());
        match self.call(&operation, &call, Whole::<IgnoredContent>::new).await {
            Ok(_) => Ok(Deletion::Deleted),
            Err(ClusterError::NotFound { .. } | ClusterError::NamespaceMissing { .. }) => Ok(Deletion::Gone),
            Err(ClusterError::Conflict { .. }) => Ok(Deletion::Changed),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_immutable_maps_named_after_their_content() {
        let text = "a: 1\n";
        let ours = FetchedConfigMap {
            name: format!("prod-a-{}", ContentHash::of(text.as_bytes()).short()),
            immutable: true,
            data: [(KUBELET_KEY.to_owned(), text.to_owned())].into(),
            ..FetchedConfigMap::default()
        };
        assert!(is_made_by_us(&ours));
        let with = |key: &str, text: &str| {
            let more = [(key.to_owned(), text.to_owned())];
            ours.data.clone().into_iter().chain(more).collect()
        };
        for other in [
            FetchedConfigMap { immutable: false, ..ours.clone() },
            FetchedConfigMap { data: with("more", ""), ..ours.clone() },
            FetchedConfigMap { data: with(KUBELET_KEY, "a: 2\n"), ..ours.clone() },
            FetchedConfigMap { data: [("config".to_owned(), text.to_owned())].into(), ..ours.clone() },
            FetchedConfigMap { binary_keys: vec!["more".to_owned()], ..ours.clone() },
            FetchedConfigMap { name: "prod-a-bbbbbbbbbb".to_owned(), ..ours.clone() },
        ] {
            assert!(!is_made_by_us(&other), "{other:?}");
        }
    }
}
