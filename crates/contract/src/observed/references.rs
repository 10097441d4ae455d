//! Which ConfigMaps are referred to, and by whom: what must not be deleted.

use std::collections::BTreeMap;

use super::ConfigMapKey;
use crate::ConfigSource;

/// The ConfigMaps that something refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    users: BTreeMap<ConfigMapKey, Users>,
}

/// Who refers to a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// How many objects.
    pub count: usize,
    /// One of them, the first that was seen.
    pub example: String,
}

impl References {
    /// Notes what one object refers to. It counts once for each ConfigMap, however often it names it.
    pub fn add<'s>(&mut self, object: &str, sources: impl IntoIterator<Item = &'s ConfigSource>) {
        let mut keys: Vec<ConfigMapKey> = sources.into_iter().filter_map(ConfigMapKey::of).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let users = self.users.entry(key).or_insert_with(|| Users { count: 0, example: object.to_owned() });
            users.count += 1;
        }
    }

    /// Who refers to a ConfigMap; `None`: nobody.
    #[must_use]
    pub fn of(&self, key: &ConfigMapKey) -> Option<&Users> {
        self.users.get(key)
    }

    /// What is referred to.
    pub fn keys(&self) -> impl Iterator<Item = &ConfigMapKey> {
        self.users.keys()
    }
}

/// What became of a ConfigMap that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deletion {
    /// It is deleted.
    Deleted,
    /// It was gone already.
    Gone,
    /// It was changed or made anew since it was looked at, and stays.
    Changed,
    /// Its content is not what its name says, or can be changed: nodecfg has not made it so, and it stays.
    NotOurs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_counts_once() {
        let source = |name: &str| ConfigSource::config_map("kube-system", name, "kubelet");
        let key = |name: &str| ConfigMapKey::of(&source(name)).unwrap();
        let mut references = References::default();
        references.add("n1", [&source("a"), &source("b"), &source("a")]);
        references.add("n2", [&source("a")]);
        assert_eq!(references.of(&key("a")), Some(&Users { count: 2, example: "n1".to_owned() }));
        assert_eq!(references.of(&key("b")).map(|users| users.count), Some(1));
        assert_eq!(references.of(&key("c")), None);
        assert_eq!(references.keys().count(), 2);
    }
}
