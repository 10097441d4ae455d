//! References to ConfigMaps, which prevent their deletion.

use std::collections::{BTreeMap, BTreeSet};

use super::ConfigMapKey;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::pool_pointer::PoolPointer;

/// ConfigMaps that at least one object refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    referrers: BTreeMap<ConfigMapKey, Referrers>,
    /// ConfigMaps that the contents of pool pointers name.
    pointed: BTreeSet<ConfigMapKey>,
}

/// Objects that refer to a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrers {
    /// Number of objects.
    pub count: usize,
    /// Name of the object that was added first.
    pub example: String,
}

impl References {
    /// Adds the references of one object. An object counts once per ConfigMap.
    pub fn add<'s>(&mut self, object: &str, sources: impl IntoIterator<Item = &'s ConfigSource>) {
        let maps = sources.into_iter().filter_map(|source| source.config_map.as_deref());
        let mut maps: Vec<(&str, &str)> = maps.map(|map| (map.namespace.as_str(), map.name.as_str())).collect();
        maps.sort_unstable();
        maps.dedup();
        for (namespace, name) in maps {
            let key = ConfigMapKey { namespace: namespace.to_owned(), name: name.to_owned() };
            let referrers =
                self.referrers.entry(key).or_insert_with(|| Referrers { count: 0, example: object.to_owned() });
            referrers.count += 1;
        }
    }

    /// Adds the ConfigMap that the content of a pool pointer names, valid or not. New nodes may be assigned it.
    pub fn add_pointer(&mut self, pointer: &FetchedConfigMap) {
        let names = PoolPointer::named_by(pointer).map(str::to_owned);
        self.pointed.extend(names.map(|name| ConfigMapKey { namespace: pointer.namespace.clone(), name }));
    }

    /// Reports whether the content of a pool pointer names this ConfigMap.
    #[must_use]
    pub fn is_pointed(&self, key: &ConfigMapKey) -> bool {
        self.pointed.contains(key)
    }

    /// Objects that refer to a ConfigMap, if any.
    #[must_use]
    pub fn of(&self, key: &ConfigMapKey) -> Option<&Referrers> {
        self.referrers.get(key)
    }

    /// All ConfigMaps that objects refer to.
    pub fn keys(&self) -> impl Iterator<Item = &ConfigMapKey> {
        self.referrers.keys()
    }
}

/// Result of deleting a ConfigMap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deletion {
    /// It was deleted.
    Deleted,
    /// It was missing already.
    Gone,
    /// It was changed or recreated after the observation, and is kept.
    Changed,
    /// Its content does not match its name, or is mutable. nodecfg did not create it, so it is kept.
    NotOurs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_object_once() {
        let source = |name: &str| ConfigSource::config_map("kube-system", name, "kubelet");
        let key = |name: &str| ConfigMapKey::of(&source(name)).unwrap();
        let mut references = References::default();
        references.add("n1", [&source("a"), &source("b"), &source("a")]);
        references.add("n2", [&source("a")]);
        assert_eq!(references.of(&key("a")), Some(&Referrers { count: 2, example: "n1".to_owned() }));
        assert_eq!(references.of(&key("b")).map(|referrers| referrers.count), Some(1));
        assert_eq!(references.of(&key("c")), None);
        assert_eq!(references.keys().count(), 2);
    }
}
