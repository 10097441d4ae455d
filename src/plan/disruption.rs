//! What the transitions of a pool do to pods that run on its nodes: which fields change from what each node runs now, the
//! class of each, the worst, and whether the pool's policy lets that happen.
//!
//! A node whose present configuration nodecfg cannot know, because it was provisioned with it or its ConfigMap is gone, has
//! no risk that could be known either. That is said, and no reason to refuse: every node begins like that.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::config_maps::Shelf;
use super::decide::refuses;
use super::{Plan, PoolPlan, Problem};
use crate::contract::ConfigSource;
use crate::desired::{Pool, PoolTarget};
use crate::document::{FieldChange, changes};
use crate::kubelet::risk::{self, Class, Risk, StateFile};
use crate::names::PoolName;
use crate::observed::Node;

/// The fields that change for the nodes that leave one configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSet {
    /// What they run now; unset: the local configuration, whose content is not known.
    pub from: Option<ConfigSource>,
    /// How many nodes. One that is on its way from one configuration to another counts for both.
    pub nodes: usize,
    /// Whether the present content is known. If not, every field of the new one is listed as set.
    pub from_known: bool,
    /// Field by field.
    pub fields: Vec<ChangedField>,
}

/// A field that changes, and what that does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedField {
    /// The change.
    #[serde(flatten)]
    pub change: FieldChange,
    /// What it does to a node that runs pods. Unset when only one side of the change is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
}

/// What all transitions of a pool together do to pods that run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// The worst class of a field that changes; unset when no such change is known.
    pub worst: Option<Class>,
    /// State files that must be gone when the kubelet starts again.
    pub state_files: Vec<StateFile>,
    /// How many nodes run, or shall run, something whose content nodecfg does not know, and so with what risk.
    pub unknown: usize,
    /// Whether the worst is more than the pool's policy allows: then the plan must not be carried out.
    pub refused: bool,
}

impl ChangeSet {
    /// Whether both sides of its changes are known, so that their risk is.
    #[must_use]
    pub fn has_risk(&self) -> bool {
        self.from_known && self.fields.iter().all(|field| field.risk.is_some())
    }
}

impl Disruption {
    /// Sums up the changes of a pool that allows no more than `allowed`.
    fn of(sets: &[ChangeSet], allowed: Class) -> Self {
        let risks = || sets.iter().flat_map(|set| &set.fields).filter_map(|field| field.risk.as_ref());
        let worst = risks().map(|risk| risk.class).max();
        let state_files: BTreeSet<StateFile> = risks().flat_map(|risk| risk.state_files.iter().copied()).collect();
        Self {
            worst,
            state_files: state_files.into_iter().collect(),
            unknown: sets.iter().filter(|set| !set.has_risk()).map(|set| set.nodes).sum(),
            refused: worst.is_some_and(|worst| worst > allowed),
        }
    }
}

impl Plan {
    /// Why this plan must not be carried out, although it can be shown: pools whose changes do more to running pods than
    /// their policy allows.
    #[must_use]
    pub fn refusals(&self) -> Vec<Problem> {
        self.pools.iter().filter_map(refusal).collect()
    }
}

fn refusal(pool: &PoolPlan) -> Option<Problem> {
    let worst = pool.disruption.worst.filter(|_| pool.disruption.refused)?;
    let allowed = pool.policy.allow_disruption;
    let mut fields: BTreeMap<&str, Class> = BTreeMap::new();
    for field in pool.changes.iter().flat_map(|set| &set.fields) {
        if let Some(risk) = field.risk.as_ref().filter(|risk| risk.class > allowed) {
            let class = fields.entry(&field.change.path).or_insert(risk.class);
            *class = (*class).max(risk.class);
        }
    }
    Some(Problem::TooDisruptive {
        pool: pool.name.clone(),
        worst,
        allowed,
        fields: fields.into_iter().map(|(path, class)| (path.to_owned(), class)).collect(),
        state_files: pool.disruption.state_files.clone(),
    })
}

/// What a node runs now, or may be about to: what its kubelet reports as active, and what it was pointed at if it has not
/// refused that. Unset stands for the local configuration.
pub(super) fn starts(node: &Node) -> BTreeSet<Option<ConfigSource>> {
    let mut starts = BTreeSet::from([node.status.active.as_ref().map(named)]);
    if !refuses(node) {
        starts.insert(node.source.as_ref().map(named));
    }
    starts
}

/// A source as spec has it, without the version that a status names.
fn named(source: &ConfigSource) -> ConfigSource {
    match &source.config_map {
        Some(map) => ConfigSource::config_map(&map.namespace, &map.name, &map.kubelet_config_key),
        None => source.clone(),
    }
}

/// Groups the nodes that are to be assigned by what they run, and says for each group which fields change and what that
/// does.
pub(super) fn assess<'a>(
    pool: &Pool,
    assigned: impl Iterator<Item = &'a Node>,
    shelf: &Shelf<'_>,
) -> (Vec<ChangeSet>, Disruption) {
    let mut groups: BTreeMap<Option<ConfigSource>, usize> = BTreeMap::new();
    for start in assigned.flat_map(starts) {
        *groups.entry(start).or_default() += 1;
    }
    let new = match &pool.target {
        PoolTarget::Local => None,
        PoolTarget::Config(rendered) => Some(&rendered.document),
    };
    let sets: Vec<ChangeSet> = groups
        .into_iter()
        .map(|(from, nodes)| {
            let old = from.as_ref().and_then(|source| shelf.document(source));
            let known = old.is_some() && new.is_some();
            let field = |change: FieldChange| {
                let risk = known.then(|| risk::of_change(&change.path, change.old.as_deref(), change.new.as_deref()));
                ChangedField { change, risk }
            };
            let fields = changes(old.as_ref(), new).into_iter().map(field).collect();
            ChangeSet { from, nodes, from_known: old.is_some(), fields }
        })
        .collect();
    let disruption = Disruption::of(&sets, pool.policy.allow_disruption);
    (sets, disruption)
}

/// The way out of a refusal.
pub(super) fn way_out(pool: &PoolName, worst: Class, state_files: &[StateFile]) -> String {
    let allow = format!("set spec.rollout.allowDisruption: {worst} in pools/{pool}/pool.yaml");
    let first = match worst {
        Class::None | Class::Restart => String::new(),
        Class::Drain if state_files.is_empty() => "drain the nodes first, which nodecfg does not, then ".to_owned(),
        Class::Drain => {
            let files: Vec<String> = state_files.iter().map(|file| format!("/var/lib/kubelet/{file}")).collect();
            let files = files.join(" and ");
            format!(
                "drain the nodes first, which nodecfg does not, see to it that {files} is gone when the kubelet starts, then "
            )
        }
        Class::Replace => {
            "better make new nodes with it. To reboot these ones after the change, drain them first, then ".to_owned()
        }
        Class::Never => "take it back. If no pod of these nodes matters, ".to_owned(),
    };
    format!("{first}{allow}. `nodecfg diff -v` says why")
}
