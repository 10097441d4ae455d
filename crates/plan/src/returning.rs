//! Fields that leave an overlay. They return to the values of each node's own configuration, as far as its agent reports them.

use std::collections::{BTreeMap, BTreeSet};

use super::config_maps::ConfigMapIndex;
use super::present::Start;
use crate::changes::leaving;
use kubelet_config::document::Document;
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
