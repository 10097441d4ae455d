//! Changed and removed fields: what the changes of a pool mean for its nodes, decided once for each configuration that
//! they have. No step takes a field away whose loss harms its node, unless the pool accepts that or the plan is refused.
//! Compares the observed ConfigMaps themselves, and shares no code with the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::changes::ChangedField;
use crate::check::{Checker, drains_nodes};
use crate::{Action, ChangeSet, PoolPlan};
use kubelet_config::capacity::Capacity;
use kubelet_config::document::Document;
use kubelet_config::effective::ValueChange;
use kubelet_config::risk::Class;
use kubelet_config::risk::removals;
use kubelet_config::{Minor, risk};
use nodecfg_contract::{ConfigSource, ContentHash, Placement};
use nodecfg_fleet::{PoolTarget, Rendered};
use nodecfg_observed::{ConfigMapKey, Node};

impl Checker<'_> {
    pub(super) fn removals(&mut self, pool: &PoolPlan, subject: fmt::Arguments<'_>) {
        let Some(desired) = self.desired.pools.get(&pool.name) else { return };
        let steps = pool.steps().filter(|step| step.action == Action::Assign);
        let nodes = steps.filter_map(|step| {
            let node = self.observed.nodes.get(&step.node)?;
            let placement = step.assignment.to_placement.unwrap_or_else(|| node.assigned_placement());
            (placement == Placement::Replace).then_some(node)
        });
        let mut running: BTreeMap<(Option<Capacity>, ConfigMapKey, &str), Vec<&Node>> = BTreeMap::new();
        for node in nodes {
            let Some(active) = node.status.active.as_ref() else { continue };
            let (Some(key), Some(map)) = (ConfigMapKey::of(active), &active.config_map) else { continue };
            let size = pool.targets.size_of(&node.name);
            running.entry((size, key, map.kubelet_config_key.as_str())).or_default().push(node);
        }
        let refused: BTreeSet<&str> = pool.disruption.lost.iter().map(|lost| lost.omitted.path.as_str()).collect();
        let mut hidden = BTreeSet::new();
        for ((size, key, name), nodes) in running {
            let of_size = desired.for_node(size.unwrap_or_default());
            let Some(PoolTarget::Config(rendered)) = of_size.as_ref().map(|pool| &*pool.target) else { continue };
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

/// What nodes of a size have: a configuration with its placement.
pub(super) type Start<'a> = (Option<Capacity>, &'a ConfigSource, Option<Placement>);

/// What the changes of a pool mean for its nodes, by the configuration that a node has. Thousands of nodes have the same.
pub(super) struct PoolChanges<'a> {
    /// Configurations from which a field of the change has a class that needs a drain, each with its placement. Empty if the
    /// pool drains no nodes. A sample does not tell what the change needs on other nodes.
    pub(super) needing_drain: Vec<Start<'a>>,
    /// Configurations whose changes are known, each with the highest class of the reverted changes. A sample does not tell
    /// what a rollback does to other nodes.
    pub(super) reverted: Vec<(Start<'a>, Option<Class>)>,
}

impl<'a> PoolChanges<'a> {
    /// `same_version`: whether the kubelets of all nodes have the same version.
    pub(super) fn of(pool: &'a PoolPlan, same_version: bool) -> Self {
        Self { needing_drain: needing_drain(pool, same_version), reverted: reverted(pool) }
    }
}

/// See [`PoolChanges::needing_drain`].
fn needing_drain(pool: &PoolPlan, same_version: bool) -> Vec<Start<'_>> {
    // The defaults of a node's own version may differ from those of other nodes in the set.
    if !same_version || !drains_nodes(pool) {
        return Vec::new();
    }
    let needs = |pair: &ValueChange, path: &str| {
        risk::of_change(path, pair.old.as_deref(), pair.new.as_deref()).class >= Class::Drain
    };
    let known: Vec<&ChangeSet> = pool.changes.iter().filter(|set| !set.is_sampled()).collect();
    let any_needs = |set: &&ChangeSet| {
        set.fields.iter().any(|field| field.in_effect.iter().any(|pair| needs(pair, &field.change.path)))
    };
    // Nodes with different own values leave one overlay by different changes.
    let all_need = |set: &&&ChangeSet| {
        let start = |set: &ChangeSet| (set.size, set.from.clone(), set.placement);
        let is_same = |other: &&&ChangeSet| start(other) == start(set);
        known.iter().filter(is_same).all(any_needs)
    };
    known.iter().filter(all_need).filter_map(|set| Some((set.size, set.from.as_ref()?, set.placement))).collect()
}

/// See [`PoolChanges::reverted`].
fn reverted(pool: &PoolPlan) -> Vec<(Start<'_>, Option<Class>)> {
    let is_config = !pool.targets.is_local();
    let known = pool.changes.iter().filter(|set| set.from_known && !set.is_sampled() && is_config);
    let reverted = known.filter_map(|set| {
        let back = |field: &ChangedField| {
            let path = &field.change.path;
            let class = |pair: &ValueChange| risk::of_change(path, pair.new.as_deref(), pair.old.as_deref()).class;
            field.in_effect.iter().map(class).max().unwrap_or(Class::None)
        };
        Some(((set.size, set.from.as_ref()?, set.placement), set.fields.iter().map(back).max()))
    });
    reverted.collect()
}
