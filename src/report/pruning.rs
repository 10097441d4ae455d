//! Report of `prune`: the ConfigMaps to delete and to keep.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::count;
use super::document::{Block, Conclusion, Item, Report, Section, Text};
use crate::status::Grade;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_observed::{Deletion, ManagedConfigMap};
use nodecfg_plan::{Kept, PrunePlan};

/// Result of a prune of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pruning {
    /// The fleet.
    pub fleet: FleetName,
    /// The namespace of the ConfigMaps.
    pub namespace: NamespaceName,
    /// How many ConfigMaps of each pool are kept, newest first.
    pub keep: usize,
    /// Whether this is a dry run, which deletes nothing.
    pub dry_run: bool,
    /// The ConfigMaps, by name.
    pub config_maps: Vec<PrunedConfigMap>,
}

/// One ConfigMap.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrunedConfigMap {
    /// The name.
    pub name: String,
    /// The pool, if the ConfigMap names one.
    pub pool: Option<PoolName>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The source commit in the ConfigMap's annotation.
    pub commit: Option<String>,
    /// The result.
    pub end: PruneEnd,
}

/// Result for a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum PruneEnd {
    /// To be deleted: no object refers to it.
    ToDelete,
    /// Deleted.
    Deleted,
    /// Already deleted by another client.
    Gone,
    /// Kept: changed, recreated or used since the plan.
    Changed,
    /// Kept.
    Kept {
        /// The reason.
        why: Kept,
        /// The reason as text.
        reason: String,
    },
}

impl Kind for Pruning {
    const KIND: &'static str = "Pruning";
}

impl Pruning {
    /// The report of a plan. With `dry_run`, the plan is not executed.
    #[must_use]
    pub fn of(plan: &PrunePlan, dry_run: bool, fleet: FleetName, namespace: NamespaceName, keep: usize) -> Self {
        let entry = |map: &ManagedConfigMap, end| PrunedConfigMap {
            name: map.name.clone(),
            pool: map.pool.clone(),
            created: map.created,
            commit: map.commit.clone(),
            end,
        };
        let kept = plan.keep.iter().map(|kept| {
            let (why, reason) = (kept.why.clone(), kept.why.to_string());
            entry(&kept.map, PruneEnd::Kept { why, reason })
        });
        let mut config_maps: Vec<PrunedConfigMap> =
            plan.delete.iter().map(|map| entry(map, PruneEnd::ToDelete)).chain(kept).collect();
        config_maps.sort_by(|a, b| a.name.cmp(&b.name));
        Self { fleet, namespace, keep, dry_run, config_maps }
    }

    /// The report after the prune. ConfigMaps missing in `ends` were not tried.
    #[must_use]
    pub fn done(mut self, ends: &BTreeMap<String, Deletion>) -> Self {
        for map in &mut self.config_maps {
            match ends.get(&map.name) {
                Some(Deletion::Deleted) => map.end = PruneEnd::Deleted,
                Some(Deletion::Gone) => map.end = PruneEnd::Gone,
                Some(Deletion::Changed) => map.end = PruneEnd::Changed,
                Some(Deletion::NotOurs) => {
                    map.end = PruneEnd::Kept { why: Kept::NotOurs, reason: Kept::NotOurs.to_string() };
                }
                None => {}
            }
        }
        self
    }

    fn number(&self, is: impl Fn(&PruneEnd) -> bool) -> usize {
        self.config_maps.iter().filter(|map| is(&map.end)).count()
    }
}

/// The pool, the time of creation and the commit of a ConfigMap, as far as they are known.
fn about(map: &PrunedConfigMap) -> String {
    let pool = map.pool.as_ref().map(|pool| format!("pool {pool}"));
    let created = map.created.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let commit = map.commit.as_deref().map(|commit| format!("commit {}", commit.chars().take(10).collect::<String>()));
    let created = created.map(|at| format!("created {at}"));
    let parts: Vec<String> = [pool, created, commit].into_iter().flatten().collect();
    nodecfg_contract::printable::remark(&parts.join(", "))
}

/// Deleted ConfigMaps, those to delete and those changed since the plan one by one, the other kept ones as counts per
/// reason and in detail, and the totals.
#[must_use]
pub fn report(pruning: &Pruning) -> Report {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut listed, mut kept) = (Vec::new(), Vec::new());
    for map in &pruning.config_maps {
        let name = Text::name(map.name.as_str());
        let word = match &map.end {
            PruneEnd::ToDelete => "to delete",
            PruneEnd::Deleted => "deleted",
            PruneEnd::Gone => "already deleted",
            PruneEnd::Changed => "kept, changed since the plan",
            PruneEnd::Kept { why, reason } => {
                let group = match why {
                    Kept::InUse { .. } => "in use",
                    _ => reason.as_str(),
                };
                *counts.entry(group).or_default() += 1;
                kept.push(Item::quiet(name.then(format!(": {reason}"))).into());
                continue;
            }
        };
        let about = Some(about(map)).filter(|about| !about.is_empty());
        listed.push(Item::warning(word, name).with(about.map(Item::quiet)).into());
    }
    if !kept.is_empty() {
        let counts = counts.iter().map(|(reason, number)| format!("{number} {reason}"));
        listed.push(Block::Section(Section::on_demand("Kept", counts, kept)));
    }
    Report {
        command: "prune",
        result: Some(Conclusion::sentence(Grade::Neutral, totals(pruning))),
        blocks: listed,
        complete: true,
        ..Report::default()
    }
}

fn totals(pruning: &Pruning) -> String {
    let of = |end: &PruneEnd| pruning.number(|other| other == end);
    let (to_delete, deleted) = (of(&PruneEnd::ToDelete), of(&PruneEnd::Deleted));
    let kept = match pruning.number(|end| matches!(end, PruneEnd::Kept { .. } | PruneEnd::Changed)) {
        0 => String::new(),
        kept => format!(", {kept} kept"),
    };
    let untouched = pruning.number(|end| !matches!(end, PruneEnd::ToDelete | PruneEnd::Kept { .. })) == 0;
    match (untouched, to_delete, deleted) {
        (true, 0, _) => format!("Nothing to delete{kept}."),
        (true, number, _) => format!("{} to delete{kept}.", count(number, "ConfigMap")),
        (false, 0, number) => format!("{} deleted{kept}.", count(number, "ConfigMap")),
        (false, left, number) => format!("{} deleted, {left} not tried{kept}.", count(number, "ConfigMap")),
    }
}
