//! Removed fields: no step takes a field away whose loss harms its node, unless the pool accepts that or the plan is
//! refused. Compares the observed ConfigMaps themselves, and shares no code with the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::super::{Action, PoolPlan};
use super::Checker;
use kubelet_config::Minor;
use kubelet_config::document::Document;
use kubelet_config::risk::removals;
use nodecfg_contract::{ContentHash, Placement};
use nodecfg_fleet::{PoolTarget, Rendered};
use nodecfg_observed::{ConfigMapKey, Node};

impl Checker<'_> {
    pub(super) fn removals(&mut self, pool: &PoolPlan, subject: fmt::Arguments<'_>) {
        let target = self.desired.pools.get(&pool.name).map(|pool| &pool.target);
        let Some(PoolTarget::Config(rendered)) = target else { return };
        let steps = pool.steps().filter(|step| step.action == Action::Assign);
        let nodes = steps.filter_map(|step| {
            let node = self.observed.nodes.get(&step.node)?;
            let placement = step.assignment.to_placement.unwrap_or_else(|| node.assigned_placement());
            (placement == Placement::Replace).then_some(node)
        });
        let mut running: BTreeMap<(ConfigMapKey, &str), Vec<&Node>> = BTreeMap::new();
        for node in nodes {
            let Some(active) = node.status.active.as_ref() else { continue };
            let (Some(key), Some(map)) = (ConfigMapKey::of(active), &active.config_map) else { continue };
            running.entry((key, map.kubelet_config_key.as_str())).or_default().push(node);
        }
        let refused: BTreeSet<&str> = pool.disruption.lost.iter().map(|lost| lost.omitted.path.as_str()).collect();
        let mut hidden = BTreeSet::new();
        for ((key, name), nodes) in running {
            let text = self.observed.contents.get(&key).and_then(Option::as_ref).and_then(|map| map.data.get(name));
            let lost = text.map(|text| lost(text, rendered, &nodes)).unwrap_or_default().into_iter();
            let accepts = |field: &String| pool.policy.accept_removed.contains(field);
            hidden.extend(lost.filter(|(path, field)| !accepts(field) && !refused.contains(path.as_str())));
        }
        for (path, _) in hidden {
            self.require(false, subject, format_args!("its nodes lose {path} without acceptance"));
        }
    }
}

/// What these nodes lose that run a configuration: paths with their field of the table. Empty if one of them verified
/// another content than the ConfigMap has now.
fn lost(text: &str, rendered: &Rendered, nodes: &[&Node]) -> Vec<(String, String)> {
    let verified: BTreeSet<ContentHash> = nodes.iter().filter_map(|node| node.content?.active).collect();
    let Some(old) = Document::parse("running", text).document else { return Vec::new() };
    // nodecfg writes canonical text. Hashing it as it is saves formatting it again.
    let is_other = |text: &str| verified != BTreeSet::from([ContentHash::of(text.as_bytes())]);
    if !verified.is_empty() && is_other(text) && is_other(&old.canonical()) {
        return Vec::new();
    }
    let minors: BTreeSet<Option<Minor>> = nodes.iter().map(|node| node.known_minor()).collect();
    let lost = removals::between(&old, &rendered.document, &minors);
    lost.into_iter().map(|(path, removal)| (path, removal.field.clone())).collect()
}
