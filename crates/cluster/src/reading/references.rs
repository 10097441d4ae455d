//! References to ConfigMaps from every Node and NodeConfig. A failed read is an error, never an empty result.

use serde::Deserialize;

use super::binding::Binding;
use super::list::{Collection, list};
use super::reader::ClusterReader;
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use nodecfg_contract::{ConfigSource, ConfigStatus};
use nodecfg_observed::References;

/// A Node or a NodeConfig.
#[derive(Debug, Deserialize)]
pub(crate) struct Referrer {
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
    pub(crate) fn into_assignment(self) -> (Option<ConfigSource>, bool, bool) {
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
