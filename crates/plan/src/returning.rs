//! Fields that leave an overlay. They return to the values of each node's own configuration, as far as its agent reports them.

use std::collections::{BTreeMap, BTreeSet};

use super::config_maps::ConfigMapIndex;
use super::start::Start;
use kubelet_config::document::{Document, Entry, Mapping, Node, Value, changes, path_of};
use nodecfg_contract::Placement;
use nodecfg_observed::OwnValues;

/// Maximum number of different own values with which nodes leave one configuration. Further ones count as unknown: a plan does
/// not list each node.
const MAX_DISTINCT: usize = 8;

/// Own values to which fields return, by the configuration that the nodes leave.
pub(super) struct Returning<'a> {
    index: &'a ConfigMapIndex<'a>,
    /// The future configuration, if it is an overlay.
    overlay: Option<&'a Document>,
    left: BTreeMap<Start, Left>,
}

/// The fields that leave one configuration.
struct Left {
    paths: BTreeSet<String>,
    /// The different own values of the nodes.
    seen: BTreeSet<OwnValues>,
}

impl<'a> Returning<'a> {
    pub(super) fn new(index: &'a ConfigMapIndex<'a>, new: Option<&'a Document>, placement: Placement) -> Self {
        let overlay = new.filter(|_| placement == Placement::Overlay);
        Self { index, overlay, left: BTreeMap::new() }
    }

    /// The own values of a node for the fields that leave this configuration. `None` if nothing leaves, or the values are
    /// unknown: an agent reports those beneath its active overlay only.
    pub(super) fn of(&mut self, node: &nodecfg_observed::Node, start: &Start) -> Option<OwnValues> {
        let overlay = self.overlay.filter(|_| start.placement == Some(Placement::Overlay))?;
        let own = node.own_values.as_ref().filter(|_| Start::active(node) == *start)?;
        let index = self.index;
        let left = self.left.entry(start.clone()).or_insert_with(|| {
            let old = start.from.as_ref().and_then(|source| index.document(source));
            Left { paths: old.map(|old| leaving(&old, overlay)).unwrap_or_default(), seen: BTreeSet::new() }
        });
        let own = Some(own.at(left.paths.iter().map(String::as_str))).filter(|_| !left.paths.is_empty())?;
        let is_listed = left.seen.contains(&own) || left.seen.len() < MAX_DISTINCT && left.seen.insert(own.clone());
        is_listed.then_some(own)
    }
}

/// Paths of the fields that one overlay names and the next one does not.
pub(super) fn leaving(old: &Document, new: &Document) -> BTreeSet<String> {
    let left = changes(Some(old), Some(new)).into_iter().filter(|change| change.old.is_some() && change.new.is_none());
    left.map(|change| change.path).collect()
}

/// The next overlay with the own values of the fields that leave the old one.
pub(super) fn with_own(new: &Document, old: &Document, own: &OwnValues) -> Document {
    let root = node_with_own(Some(&new.root), &old.root, "", own);
    Document { root: root.unwrap_or_else(|| new.root.clone()), syntax: new.syntax }
}

/// `new` with the own values of the fields that only `old` names. `None` without any value.
fn node_with_own(new: Option<&Node>, old: &Node, parent: &str, own: &OwnValues) -> Option<Node> {
    let Some(fields) = old.mapping().filter(|_| new.is_none_or(|new| new.mapping().is_some())) else {
        return new.cloned();
    };
    let mut map: Mapping = new.and_then(Node::mapping).cloned().unwrap_or_default();
    for (key, entry) in fields {
        let path = path_of(parent, key);
        let named = map.get(key).map(|entry| &entry.value);
        let value = match own.values.get(&path).filter(|_| named.is_none()) {
            Some(text) => value_of(text),
            None => node_with_own(named, &entry.value, &path, own),
        };
        if let Some(value) = value {
            map.insert(key.clone(), Entry { value, ..entry.clone() });
        }
    }
    let place = new.unwrap_or(old).place.clone();
    (new.is_some() || !map.is_empty()).then_some(Node { value: Value::Mapping(map), place })
}

/// Reads a value in JSON.
fn value_of(text: &str) -> Option<Node> {
    const KEY: &str = "value";
    Document::parse("own", &format!("{{\"{KEY}\": {text}}}")).document?.root.get(KEY).cloned()
}
