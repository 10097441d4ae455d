//! One look at a cluster: everything that planning needs, in as few requests as it takes. With nothing to do that is one
//! paged list of Nodes, one list of ConfigMaps' metadata, and two requests for what the server is and can do.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::stream;

use super::{ClusterError, ClusterReader, Operation, Resource, Verb};
use crate::observed::{Binding, ConfigMapKey, Observed};

/// How many ConfigMaps are fetched at a time.
const AT_A_TIME: usize = 8;

/// Looks at the cluster. `questions` says, from what the lists showed, which ConfigMaps must be fetched whole.
///
/// # Errors
/// Every [`ClusterError`] of a request; [`ClusterError::FeatureDropped`] when the server drops `configSource`.
pub async fn observe(
    reader: &ClusterReader,
    namespace: &str,
    questions: impl FnOnce(&Observed) -> BTreeSet<ConfigMapKey>,
) -> Result<Observed, ClusterError> {
    let mut observed = look(reader, Some(namespace)).await?;
    if let Some(node) = observed.nodes.keys().next().cloned() {
        let version = reader.server_version().await?;
        let check = reader.check_binding(&node, &version).await?;
        observed.server_version.clone_from(&version.git_version);
        let dropped = check.binding == Binding::Dropped;
        tracing::info!("configSource is {}, as shown by {}", if dropped { "dropped" } else { "kept" }, check.evidence);
        observed.binding = Some(check);
        if dropped {
            let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
            return Err(ClusterError::FeatureDropped { operation: Box::new(operation) });
        }
    }
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
    let (nodes, resource_version) = reader.list_nodes().await?;
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
        resource_version,
        config_maps: config_maps
            .into_iter()
            .map(|map| (ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() }, map))
            .collect(),
        ..Observed::default()
    })
}
