//! Observation of a cluster: reads everything that planning needs with few requests. Without changes these are one
//! list of Nodes, one of NodeConfigs with that binding, one list of ConfigMap metadata, and one read of each pool
//! pointer.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};

use crate::{ClusterError, ClusterReader};
use nodecfg_observed::{ConfigMapKey, Observed};

/// Number of concurrent reads of ConfigMaps.
const MAX_CONCURRENT: usize = 8;

/// Observes the cluster. `to_fetch` returns, from the lists, the ConfigMaps to fetch with their content.
pub async fn observe(
    reader: &ClusterReader,
    namespace: &str,
    to_fetch: impl FnOnce(&Observed) -> BTreeSet<ConfigMapKey>,
) -> Result<Observed, ClusterError> {
    let mut observed = list(reader, Some(namespace)).await?;
    let wanted = to_fetch(&observed);
    read_contents(reader, namespace, wanted, &mut observed).await?;
    Ok(observed)
}

/// Reads the contents of these ConfigMaps. `namespace`: that of the fleet.
///
/// # Errors
/// Any error of a request, except for a ConfigMap of another namespace that only the own agent of a node names.
pub async fn read_contents(
    reader: &ClusterReader,
    namespace: &str,
    wanted: impl IntoIterator<Item = ConfigMapKey>,
    observed: &mut Observed,
) -> Result<(), ClusterError> {
    let mut fetched = stream::iter(wanted)
        .map(|key| async move {
            let map = reader.config_map(&key.namespace, &key.name).await;
            (key, map)
        })
        .buffer_unordered(MAX_CONCURRENT);
    while let Some((key, map)) = fetched.next().await {
        match map {
            // The credentials of one node suffice to name any ConfigMap, in its status or as it joins. Without its content, planning
            // only does not know what the node runs.
            Err(error @ (ClusterError::Forbidden { .. } | ClusterError::Invalid { .. }))
                if key.namespace != namespace && !is_assigned(observed, &key) =>
            {
                tracing::warn!("{error}. Only the own agent of a node names this ConfigMap");
            }
            map => drop(observed.contents.insert(key, map?)),
        }
    }
    Ok(())
}

/// Reports whether a node is assigned this ConfigMap, other than by its own agent.
fn is_assigned(observed: &Observed, key: &ConfigMapKey) -> bool {
    observed
        .nodes
        .values()
        .filter(|node| !node.is_self_assigned())
        .filter_map(|node| node.source.as_ref())
        .any(|source| ConfigMapKey::of(source).as_ref() == Some(key))
}

/// Lists Nodes and the metadata of managed ConfigMaps, for `status`. Without a namespace, lists the ConfigMaps of all
/// namespaces that the desired sources of Nodes name.
pub async fn list(reader: &ClusterReader, namespace: Option<&str>) -> Result<Observed, ClusterError> {
    let (nodes, versions, references) = reader.list_nodes_with_references().await?;
    let named = nodes.values().filter_map(|node| node.source.as_ref()?.config_map.as_ref());
    let namespaces: BTreeSet<&str> = match namespace {
        Some(namespace) => BTreeSet::from([namespace]),
        None => named.map(|map| map.namespace.as_str()).collect(),
    };
    let mut config_maps = Vec::new();
    for listed in namespaces {
        match reader.list_config_maps(listed).await {
            // Only derived namespaces may be forbidden: their nodes are shown without a pool.
            Err(error @ ClusterError::Forbidden { .. }) if namespace.is_none() => tracing::warn!("{error}"),
            other => config_maps.extend(other?),
        }
    }
    let mut observed = Observed { nodes, versions, references, ..Observed::default() };
    observed.add_config_maps(config_maps);
    Ok(observed)
}
