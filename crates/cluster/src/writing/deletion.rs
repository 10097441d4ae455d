//! Deletion of ConfigMaps that nothing refers to.

use http::Method;

use super::writer::ClusterWriter;
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, whole};
use crate::reading::wire::IgnoredContent;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::{ContentHash, KUBELET_KEY};
use nodecfg_observed::{Deletion, ManagedConfigMap};

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
        match self.call(&operation, &call, whole::<IgnoredContent>).await {
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
