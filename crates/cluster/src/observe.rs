//! One look at a cluster: everything that planning needs, in as few requests as it takes. With nothing to do that is one
//! paged list of Nodes (and one of what carries their assignments, where that is not the Nodes) and one list of ConfigMaps'
//! metadata.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::stream;

use super::{ClusterError, ClusterReader};
use nodecfg_contract::observed::{ConfigMapKey, Observed};

/// How many ConfigMaps are fetched at a time.
const AT_A_TIME: usize = 8;

/// Looks at the cluster. `questions` says, from what the lists showed, which ConfigMaps must be fetched whole.
///
/// # Errors
/// Every [`ClusterError`] of a request.
pub async fn observe(
    reader: &ClusterReader,
    namespace: &str,
    questions: impl FnOnce(&Observed) -> BTreeSet<ConfigMapKey>,
) -> Result<Observed, ClusterError> {
    let mut observed = look(reader, Some(namespace)).await?;
    let wanted = questions(&observed);
    let mut fetched = stream::iter(wanted)
        .map(|key| async move {
            let map = reader.config_map(&key.namespace, &key.name).await;
            (key, map)
        })
        .buffer_unordered(AT_A_TIME);
    while let Some((key, map)) = fetched.next().await {
        observed.contents.insert(key, map?);
    }
    Ok(observed)
}

/// Nodes and the metadata of managed ConfigMaps alone: what `status` shows. Without a namespace, ConfigMaps are listed
/// wherever nodes point at some.
///
/// # Errors
/// Every [`ClusterError`] of a request.
pub async fn look(reader: &ClusterReader, namespace: Option<&str>) -> Result<Observed, ClusterError> {
    let (nodes, versions, references) = reader.list_nodes_with_references().await?;
    let named = nodes.iter().filter_map(|node| node.source.as_ref()?.config_map.as_ref());
    let namespaces: BTreeSet<&str> = match namespace {
        Some(namespace) => BTreeSet::from([namespace]),
        None => named.map(|map| map.namespace.as_str()).collect(),
    };
    let mut config_maps = Vec::new();
    for listed in namespaces {
        match reader.list_config_maps(listed).await {
            // Nobody asked for this namespace: its nodes are shown without the pool that they belong to.
            Err(error @ ClusterError::Forbidden { .. }) if namespace.is_none() => tracing::warn!("{error}"),
            other => config_maps.extend(other?),
        }
    }
    Ok(Observed {
        nodes: nodes.into_iter().map(|node| (node.name.clone(), node)).collect(),
        versions,
        references,
        config_maps: config_maps
            .into_iter()
            .map(|map| (ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() }, map))
            .collect(),
        ..Observed::default()
    })
}
