//! The ConfigMaps that kubelets asked for, shared among all of them: one download and one verdict for a whole pool. Pure;
//! the driver does the downloads and tells of changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::signals::Download;
use super::verdict::{Problem, verdict};
use super::wire::ConfigMap;
use kubelet_config::Minor;
use nodecfg_contract::ConfigMapSource;

/// Which kubelet asks, by the driver's number.
pub(super) type Asker = usize;

/// Namespace and name.
pub(super) type Key = (String, String);

/// The answer to a question.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    /// It is known.
    Answer(Download),
    /// It will come out of [`ConfigMaps::loaded`]; a download is under way.
    Wait,
    /// It will come out of [`ConfigMaps::loaded`]; start the download.
    Load(Key),
}

#[derive(Debug)]
enum Entry {
    Loading {
        waiting: Vec<(Asker, Minor, Arc<ConfigMapSource>)>,
        /// The version that a watch told of meanwhile; empty for a deletion.
        told: Option<String>,
    },
    Here(Content),
    Missing,
}

#[derive(Debug)]
struct Content {
    config_map: ConfigMap,
    /// By the version of the kubelet and the key within `data`.
    verdicts: BTreeMap<(Minor, String), Download>,
}

impl Content {
    fn download(&mut self, minor: Minor, wanted: &ConfigMapSource) -> Download {
        let asked = (minor, wanted.kubelet_config_key.clone());
        if let Some(known) = self.verdicts.get(&asked) {
            return known.clone();
        }
        let mut source = wanted.clone();
        source.uid = Some(self.config_map.metadata.uid.clone());
        source.resource_version = Some(self.config_map.metadata.resource_version.clone());
        let judged = match self.config_map.data.get(&wanted.kubelet_config_key) {
            None => Err(Problem::Load),
            Some(text) => verdict(text, minor).map_err(|refusal| {
                tracing::debug!(config_map = %wanted.name, %refusal, "the simulated kubelets refuse a configuration");
                refusal.problem
            }),
        };
        let download = Download::Found(Arc::new(source), judged);
        self.verdicts.insert(asked, download.clone());
        download
    }
}

/// All that is known of ConfigMaps.
#[derive(Debug, Default)]
pub(super) struct ConfigMaps {
    entries: HashMap<Key, Entry>,
}

impl ConfigMaps {
    /// Asks for a key of a ConfigMap, for a kubelet of this version.
    pub(super) fn ask(&mut self, asker: Asker, minor: Minor, wanted: &Arc<ConfigMapSource>) -> Asked {
        let key = (wanted.namespace.clone(), wanted.name.clone());
        match self.entries.get_mut(&key) {
            Some(Entry::Here(content)) => Asked::Answer(content.download(minor, wanted)),
            Some(Entry::Missing) => Asked::Answer(Download::Missing),
            Some(Entry::Loading { waiting, .. }) => {
                waiting.push((asker, minor, Arc::clone(wanted)));
                Asked::Wait
            }
            None => {
                let waiting = vec![(asker, minor, Arc::clone(wanted))];
                self.entries.insert(key.clone(), Entry::Loading { waiting, told: None });
                Asked::Load(key)
            }
        }
    }

    /// Takes the outcome of a download (`None`: could not be asked; `Some(None)`: there is none) and returns what each
    /// waiting kubelet is to be told.
    pub(super) fn loaded(&mut self, key: Key, outcome: Option<Option<ConfigMap>>) -> Vec<(Asker, Download)> {
        let Some(Entry::Loading { waiting, told }) = self.entries.remove(&key) else { return Vec::new() };
        let mut entry = match outcome {
            None => {
                return waiting.into_iter().map(|(asker, ..)| (asker, Download::Unreachable)).collect();
            }
            Some(None) => Entry::Missing,
            Some(Some(config_map)) => Entry::Here(Content { config_map, verdicts: BTreeMap::new() }),
        };
        let answers = waiting
            .into_iter()
            .map(|(asker, minor, wanted)| match &mut entry {
                Entry::Here(content) => (asker, content.download(minor, &wanted)),
                _ => (asker, Download::Missing),
            })
            .collect();
        // What changed during the download may be newer than what it brought.
        if told.is_none_or(|version| version == entry.version()) {
            self.entries.insert(key, entry);
        }
        answers
    }

    /// Takes note of a change that a watch delivered; `version` is empty for a deletion. Returns whether it was news.
    pub(super) fn changed(&mut self, key: &Key, version: &str) -> bool {
        match self.entries.get_mut(key) {
            None => true,
            Some(Entry::Loading { told, .. }) => {
                *told = Some(version.to_owned());
                true
            }
            Some(entry) if entry.version() == version => false,
            Some(_) => {
                self.entries.remove(key);
                true
            }
        }
    }

    /// Forgets everything, because changes may have been missed. Downloads that are under way are not kept.
    pub(super) fn forget(&mut self) {
        self.entries.retain(|_, entry| match entry {
            Entry::Loading { told, .. } => {
                *told = Some("unknown".to_owned());
                true
            }
            _ => false,
        });
    }
}

impl Entry {
    fn version(&self) -> &str {
        match self {
            Self::Here(content) => &content.config_map.metadata.resource_version,
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
        Arc::new(ConfigSource::config_map("ns", "a", key).config_map.unwrap())
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

    fn found(download: &Download) -> (&str, Result<(), Problem>) {
        match download {
            Download::Found(source, judged) => (source.resource_version.as_deref().unwrap(), *judged),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_download_serves_everybody() {
        let mut cache = ConfigMaps::default();
        assert_eq!(cache.ask(1, MINOR, &wanted("kubelet")), Asked::Load(key()));
        assert_eq!(cache.ask(2, MINOR, &wanted("bad")), Asked::Wait);
        assert_eq!(cache.ask(3, MINOR, &wanted("none")), Asked::Wait);
        let answers = cache.loaded(key(), Some(Some(config_map("7"))));
        let answers: Vec<_> = answers.iter().map(|(asker, download)| (*asker, found(download))).collect();
        assert_eq!(answers, [(1, ("7", Ok(()))), (2, ("7", Err(Problem::Load))), (3, ("7", Err(Problem::Load)))]);
        assert!(matches!(cache.ask(4, MINOR, &wanted("kubelet")), Asked::Answer(Download::Found(..))));
    }

    #[test]
    fn each_version_judges_for_itself() {
        let mut config_map = config_map("7");
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    registerWithTaints: [{key: a, effect: Sometimes}]\n";
        config_map.data.insert("kubelet".to_owned(), text.to_owned());
        let mut cache = ConfigMaps::default();
        cache.ask(1, Minor(21), &wanted("kubelet"));
        cache.ask(2, Minor(23), &wanted("kubelet"));
        let answers = cache.loaded(key(), Some(Some(config_map)));
        let answers: Vec<_> = answers.iter().map(|(_, download)| found(download).1).collect();
        assert_eq!(answers, [Ok(()), Err(Problem::Validate)]);
    }

    #[test]
    fn a_change_is_fetched_again_and_an_echo_is_not() {
        let mut cache = ConfigMaps::default();
        cache.ask(1, MINOR, &wanted("kubelet"));
        cache.loaded(key(), Some(Some(config_map("7"))));
        assert!(!cache.changed(&key(), "7"));
        assert!(cache.changed(&key(), "8"));
        assert_eq!(cache.ask(1, MINOR, &wanted("kubelet")), Asked::Load(key()));
        assert_eq!(cache.loaded(key(), Some(None)), [(1, Download::Missing)]);
        assert_eq!(cache.ask(1, MINOR, &wanted("kubelet")), Asked::Answer(Download::Missing));
        assert!(!cache.changed(&key(), ""));
        assert!(cache.changed(&key(), "9"));
        assert_eq!(cache.ask(1, MINOR, &wanted("kubelet")), Asked::Load(key()));
    }

    #[test]
    fn what_changed_during_the_download_is_not_kept() {
        for (told, kept) in [("7", true), ("8", false), ("", false)] {
            let mut cache = ConfigMaps::default();
            cache.ask(1, MINOR, &wanted("kubelet"));
            assert!(cache.changed(&key(), told));
            cache.loaded(key(), Some(Some(config_map("7"))));
            assert_eq!(matches!(cache.ask(1, MINOR, &wanted("kubelet")), Asked::Answer(_)), kept, "{told}");
        }
        let mut cache = ConfigMaps::default();
        cache.ask(1, MINOR, &wanted("kubelet"));
        cache.forget();
        cache.loaded(key(), Some(Some(config_map("7"))));
        assert_eq!(cache.ask(1, MINOR, &wanted("kubelet")), Asked::Load(key()));
    }

    #[test]
    fn a_server_that_is_away_is_asked_again() {
        let mut cache = ConfigMaps::default();
        cache.ask(1, MINOR, &wanted("kubelet"));
        assert_eq!(cache.loaded(key(), None), [(1, Download::Unreachable)]);
        assert_eq!(cache.ask(1, MINOR, &wanted("kubelet")), Asked::Load(key()));
    }
}
