//! Cache of the ConfigMaps that kubelets requested: one download per ConfigMap, and one verdict per kubelet version
//! and key. Pure: the driver downloads and reports changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::requests::ConfigMap;
use super::signals::Download;
use super::verdict::{ConfigProblem, verdict};
use kubelet_config::Minor;
use nodecfg_contract::ConfigMapSource;

/// Number of a kubelet in the driver.
pub(super) type KubeletId = usize;

/// Namespace and name.
pub(super) type Key = (String, String);

/// Result of a cache lookup.
#[derive(Debug, PartialEq)]
pub(super) enum Lookup {
    /// The result is cached.
    Cached(Download),
    /// A download is running; its result follows from [`ConfigMaps::loaded`].
    Pending,
    /// Start the download; its result follows from [`ConfigMaps::loaded`].
    Download(Key),
}

#[derive(Debug)]
enum Entry {
    Loading {
        waiting: Vec<(KubeletId, Minor, Arc<ConfigMapSource>)>,
        /// Version that a watch reported during the download; empty for a deletion, `unknown` after
        /// [`ConfigMaps::clear`].
        changed_to: Option<String>,
    },
    Present(Content),
    Missing,
}

#[derive(Debug)]
struct Content {
    config_map: ConfigMap,
    /// Verdicts by kubelet version and key within `data`.
    verdicts: BTreeMap<(Minor, String), Download>,
}

impl Content {
    fn download(&mut self, minor: Minor, wanted: &ConfigMapSource) -> Download {
        let cache_key = (minor, wanted.kubelet_config_key.clone());
        if let Some(known) = self.verdicts.get(&cache_key) {
            return known.clone();
        }
        let mut source = wanted.clone();
        source.uid = Some(self.config_map.metadata.uid.clone());
        source.resource_version = Some(self.config_map.metadata.resource_version.clone());
        let outcome = match self.config_map.data.get(&wanted.kubelet_config_key) {
            None => Err(ConfigProblem::Load),
            Some(text) => verdict(text, minor).map_err(|refusal| {
                tracing::debug!(config_map = %wanted.name, %refusal, "the simulated kubelets refuse a configuration");
                refusal.problem
            }),
        };
        let download = Download::Found(Arc::new(source), outcome);
        self.verdicts.insert(cache_key, download.clone());
        download
    }
}

/// All cached ConfigMaps.
#[derive(Debug, Default)]
pub(super) struct ConfigMaps {
    entries: HashMap<Key, Entry>,
}

impl ConfigMaps {
    /// Looks up a key of a ConfigMap for a kubelet of version `minor`.
    pub(super) fn look_up(&mut self, kubelet: KubeletId, minor: Minor, wanted: &Arc<ConfigMapSource>) -> Lookup {
        let key = (wanted.namespace.clone(), wanted.name.clone());
        match self.entries.get_mut(&key) {
            Some(Entry::Present(content)) => Lookup::Cached(content.download(minor, wanted)),
            Some(Entry::Missing) => Lookup::Cached(Download::Missing),
            Some(Entry::Loading { waiting, .. }) => {
                waiting.push((kubelet, minor, Arc::clone(wanted)));
                Lookup::Pending
            }
            None => {
                let waiting = vec![(kubelet, minor, Arc::clone(wanted))];
                self.entries.insert(key.clone(), Entry::Loading { waiting, changed_to: None });
                Lookup::Download(key)
            }
        }
    }

    /// Returns the result of a download for each waiting kubelet, and caches it unless the request failed or a newer
    /// change arrived. `None` means that the request failed, `Some(None)` that the ConfigMap is missing.
    pub(super) fn loaded(&mut self, key: Key, outcome: Option<Option<Box<ConfigMap>>>) -> Vec<(KubeletId, Download)> {
        let Some(Entry::Loading { waiting, changed_to }) = self.entries.remove(&key) else { return Vec::new() };
        let mut entry = match outcome {
            None => {
                return waiting.into_iter().map(|(kubelet, ..)| (kubelet, Download::Unreachable)).collect();
            }
            Some(None) => Entry::Missing,
            Some(Some(config_map)) => Entry::Present(Content { config_map: *config_map, verdicts: BTreeMap::new() }),
        };
        let results = waiting
            .into_iter()
            .map(|(kubelet, minor, wanted)| match &mut entry {
                Entry::Present(content) => (kubelet, content.download(minor, &wanted)),
                _ => (kubelet, Download::Missing),
            })
            .collect();
        // A change during the download may be newer than the download.
        if changed_to.is_none_or(|version| version == entry.version()) {
            self.entries.insert(key, entry);
        }
        results
    }

    /// Applies a watched change, with an empty `version` for a deletion. Returns `false` if the cache already has
    /// this version.
    pub(super) fn changed(&mut self, key: &Key, version: &str) -> bool {
        match self.entries.get_mut(key) {
            None => true,
            Some(Entry::Loading { changed_to, .. }) => {
                *changed_to = Some(version.to_owned());
                true
            }
            Some(entry) if entry.version() == version => false,
            Some(_) => {
                self.entries.remove(key);
                true
            }
        }
    }

    /// Clears the cache after possibly missed changes. Running downloads will not be cached.
    pub(super) fn clear(&mut self) {
        self.entries.retain(|_, entry| match entry {
            Entry::Loading { changed_to, .. } => {
                *changed_to = Some("unknown".to_owned());
                true
            }
            _ => false,
        });
    }
}

impl Entry {
    fn version(&self) -> &str {
        match self {
            Self::Present(content) => &content.config_map.metadata.resource_version,
            Self::Missing | Self::Loading { .. } => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::ConfigSource;
    use serde_json::json;

    const MINOR: Minor = Minor(21);

    fn wanted(key: &str) -> Arc<ConfigMapSource> {
        ConfigSource::config_map("ns", "a", key).config_map.unwrap()
    }

    fn key() -> Key {
        ("ns".to_owned(), "a".to_owned())
    }

    fn config_map(version: &str) -> ConfigMap {
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        let object = json!({
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": version},
            "data": {"kubelet": text, "bad": "["},
        });
        serde_json::from_value(object).unwrap()
    }

    fn found(download: &Download) -> (&str, Result<(), ConfigProblem>) {
        match download {
            Download::Found(source, outcome) => (source.resource_version.as_deref().unwrap(), *outcome),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn kubelets_share_one_download() {
        let mut cache = ConfigMaps::default();
        assert_eq!(cache.look_up(1, MINOR, &wanted("kubelet")), Lookup::Download(key()));
        assert_eq!(cache.look_up(2, MINOR, &wanted("bad")), Lookup::Pending);
        assert_eq!(cache.look_up(3, MINOR, &wanted("none")), Lookup::Pending);
        let results = cache.loaded(key(), Some(Some(Box::new(config_map("7")))));
        let results: Vec<_> = results.iter().map(|(kubelet, download)| (*kubelet, found(download))).collect();
        assert_eq!(
            results,
            [(1, ("7", Ok(()))), (2, ("7", Err(ConfigProblem::Load))), (3, ("7", Err(ConfigProblem::Load)))]
        );
        assert!(matches!(cache.look_up(4, MINOR, &wanted("kubelet")), Lookup::Cached(Download::Found(..))));
    }

    #[test]
    fn verdict_depends_on_version() {
        let mut config_map = config_map("7");
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    registerWithTaints: [{key: a, effect: Sometimes}]\n";
        config_map.data.insert("kubelet".to_owned(), text.to_owned());
        let mut cache = ConfigMaps::default();
        cache.look_up(1, Minor(21), &wanted("kubelet"));
        cache.look_up(2, Minor(23), &wanted("kubelet"));
        let results = cache.loaded(key(), Some(Some(Box::new(config_map))));
        let results: Vec<_> = results.iter().map(|(_, download)| found(download).1).collect();
        assert_eq!(results, [Ok(()), Err(ConfigProblem::Validate)]);
    }

    #[test]
    fn changed_config_map_is_downloaded_again() {
        let mut cache = ConfigMaps::default();
        cache.look_up(1, MINOR, &wanted("kubelet"));
        cache.loaded(key(), Some(Some(Box::new(config_map("7")))));
        assert!(!cache.changed(&key(), "7"));
        assert!(cache.changed(&key(), "8"));
        assert_eq!(cache.look_up(1, MINOR, &wanted("kubelet")), Lookup::Download(key()));
        assert_eq!(cache.loaded(key(), Some(None)), [(1, Download::Missing)]);
        assert_eq!(cache.look_up(1, MINOR, &wanted("kubelet")), Lookup::Cached(Download::Missing));
        assert!(!cache.changed(&key(), ""));
        assert!(cache.changed(&key(), "9"));
        assert_eq!(cache.look_up(1, MINOR, &wanted("kubelet")), Lookup::Download(key()));
    }

    #[test]
    fn newer_change_during_download_prevents_caching() {
        for (changed_to, kept) in [("7", true), ("8", false), ("", false)] {
            let mut cache = ConfigMaps::default();
            cache.look_up(1, MINOR, &wanted("kubelet"));
            assert!(cache.changed(&key(), changed_to));
            cache.loaded(key(), Some(Some(Box::new(config_map("7")))));
            assert_eq!(matches!(cache.look_up(1, MINOR, &wanted("kubelet")), Lookup::Cached(_)), kept, "{changed_to}");
        }
        let mut cache = ConfigMaps::default();
        cache.look_up(1, MINOR, &wanted("kubelet"));
        cache.clear();
        cache.loaded(key(), Some(Some(Box::new(config_map("7")))));
        assert_eq!(cache.look_up(1, MINOR, &wanted("kubelet")), Lookup::Download(key()));
    }

    #[test]
    fn failed_download_is_repeated() {
        let mut cache = ConfigMaps::default();
        cache.look_up(1, MINOR, &wanted("kubelet"));
        assert_eq!(cache.loaded(key(), None), [(1, Download::Unreachable)]);
        assert_eq!(cache.look_up(1, MINOR, &wanted("kubelet")), Lookup::Download(key()));
    }
}
