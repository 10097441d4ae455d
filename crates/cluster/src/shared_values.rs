//! Values that many nodes have in common, kept once: ConfigMaps that sources name, and sets of labels. A cluster of
//! 65,000 nodes has some thousand of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nodecfg_contract::distinct::Distinct;
use nodecfg_contract::observed::Node;
use nodecfg_contract::{ConfigMapSource, ConfigSource, ConfigStatus};

/// Values of the lists and watches of one reader.
#[derive(Debug, Default)]
pub(super) struct SharedValues {
    sources: Mutex<Distinct<ConfigMapSource>>,
    labels: Mutex<Distinct<BTreeMap<String, String>>>,
}

impl SharedValues {
    /// Replaces the parts of a Node that it has in common with others by shared ones.
    pub(super) fn share(&self, node: &mut Node) {
        node.labels = lock(&self.labels).share(std::mem::take(&mut node.labels));
        self.share_sources(&mut node.source, Some(&mut node.status));
    }

    /// Replaces the ConfigMaps of sources by shared ones.
    pub(super) fn share_sources(&self, source: &mut Option<ConfigSource>, status: Option<&mut ConfigStatus>) {
        let of_status = status.map(|status| [&mut status.assigned, &mut status.active, &mut status.last_known_good]);
        let sources = [source].into_iter().chain(of_status.into_iter().flatten()).flatten();
        let mut shared = lock(&self.sources);
        for source in sources {
            source.config_map = source.config_map.take().map(|map| shared.share(map));
        }
    }
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
}
