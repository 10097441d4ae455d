//! Values that many nodes have in common, kept once: ConfigMaps that sources name, and sets of labels. A cluster of
//! 65,000 nodes has thousands of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nodecfg_contract::distinct::Distinct;
use nodecfg_contract::{ConfigMapSource, ConfigSource, ConfigStatus};
use nodecfg_observed::Node;

/// Length of the texts of a value up to which it is shared, in bytes. A kubelet can report sources of any length, which
/// would stay while the others are used.
const MAX_SHARED: usize = 1 << 10;

/// Values of the lists and watches of one reader.
#[derive(Debug, Default)]
pub(crate) struct SharedValues {
    sources: Mutex<Distinct<ConfigMapSource>>,
    labels: Mutex<Distinct<BTreeMap<String, String>>>,
}

impl SharedValues {
    /// Replaces the parts of a Node that it has in common with others by shared ones.
    pub(crate) fn share(&self, node: &mut Node) {
        let length: usize = node.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        if length <= MAX_SHARED {
            node.labels = lock(&self.labels).share(std::mem::take(&mut node.labels));
        }
        self.share_sources(&mut node.source, Some(&mut node.status));
    }

    /// Replaces the ConfigMaps of sources by shared ones.
    pub(crate) fn share_sources(&self, source: &mut Option<ConfigSource>, status: Option<&mut ConfigStatus>) {
        let of_status = status.map(|status| [&mut status.assigned, &mut status.active, &mut status.last_known_good]);
        let sources = [source].into_iter().chain(of_status.into_iter().flatten()).flatten();
        let mut shared = lock(&self.sources);
        for source in sources {
            source.config_map =
                source.config_map.take().map(|map| if length(&map) <= MAX_SHARED { shared.share(map) } else { map });
        }
    }
}

fn length(map: &ConfigMapSource) -> usize {
    let ConfigMapSource { kubelet_config_key, name, namespace, resource_version, uid } = map;
    let optional = [resource_version, uid].into_iter().flatten();
    [kubelet_config_key, name, namespace].into_iter().chain(optional).map(String::len).sum()
}

/// A panic cannot leave half a value behind.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nodecfg_contract::names::NodeName;

    fn node(pool: &str) -> Node {
        let source = || Some(ConfigSource::config_map("kube-system", pool, "kubelet"));
        Node {
            labels: Arc::new(BTreeMap::from([("pool".to_owned(), pool.to_owned())])),
            source: source(),
            status: ConfigStatus { assigned: source(), active: source(), ..ConfigStatus::default() },
            ..Node::named(NodeName::new("n1").expect("a name"))
        }
    }

    #[test]
    fn nodes_share_equal_labels_and_sources() {
        let shared = SharedValues::default();
        let (mut first, mut second, mut other) = (node("a"), node("a"), node("b"));
        [&mut first, &mut second, &mut other].into_iter().for_each(|node| shared.share(node));
        assert_eq!((&first, &second, &other), (&node("a"), &node("a"), &node("b")));
        let map = |source: &Option<ConfigSource>| source.clone().and_then(|source| source.config_map).expect("a map");
        assert!(Arc::ptr_eq(&map(&first.source), &map(&second.status.active)));
        assert!(Arc::ptr_eq(&map(&first.source), &map(&first.status.assigned)));
        assert!(Arc::ptr_eq(&first.labels, &second.labels));
        assert!(!Arc::ptr_eq(&first.labels, &other.labels));
    }

    #[test]
    fn long_values_are_not_kept() {
        let shared = SharedValues::default();
        let mut long = node(&"a".repeat(2000));
        let before = long.clone();
        shared.share(&mut long);
        assert_eq!(long, before);
        let mut source = ConfigSource::config_map("kube-system", "a", "kubelet");
        source.config_map_mut().expect("a map").uid = Some("u".repeat(2000));
        shared.share_sources(&mut Some(source), None);
        assert_eq!((lock(&shared.sources).iter().count(), lock(&shared.labels).iter().count()), (0, 0));
    }
}
