//! Report of `prune`: the ConfigMaps to delete and to keep.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::count;
use super::markdown::{code, prose};
use super::style::{heading, quiet, warning};
use crate::layout::hanging;
use nodecfg_contract::json_document::{Document, Kind};
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

fn created_and_commit(map: &PrunedConfigMap) -> String {
    let created = map.created.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let commit = map.commit.as_deref().map(|commit| format!("commit {}", commit.chars().take(10).collect::<String>()));
    let created = created.map(|at| format!("created {at}"));
    let parts: Vec<String> = [created, commit].into_iter().flatten().collect();
    nodecfg_contract::printable::remark(&parts.join(", "))
}

/// Writes deleted ConfigMaps, those to delete and those changed since the plan one by one, the other kept ones as counts
/// per reason, and the totals. With `all`, lists the kept ones too.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, pruning: &Pruning, all: bool, width: usize) -> io::Result<()> {
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    let mut any_listed = false;
    for map in &pruning.config_maps {
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
                *kept.entry(group).or_default() += 1;
                if all {
                    any_listed = true;
                    let line = format!("{} {}: {reason}", quiet("kept:"), map.name);
                    writeln!(out, "{}", hanging(&line, 4, width))?;
                }
                continue;
            }
        };
        any_listed = true;
        let line = format!("{} {}", warning(format!("{word}:")), map.name);
        writeln!(out, "{}\n    {}", hanging(&line, 4, width), quiet(created_and_commit(map)))?;
    }
    if any_listed {
        writeln!(out)?;
    }
    for (reason, number) in &kept {
        let line = format!("{} kept: {reason}", count(*number, "ConfigMap"));
        writeln!(out, "{}", hanging(&quiet(line), 4, width))?;
    }
    writeln!(out, "{}", hanging(&heading(totals(pruning)), 4, width))
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

/// Writes the ConfigMaps as a markdown table.
///
/// # Errors
/// When `out` cannot be written.
pub fn markdown(out: &mut dyn Write, pruning: &Pruning) -> io::Result<()> {
    writeln!(out, "| ConfigMap | pool | result |\n|---|---|---|")?;
    for map in &pruning.config_maps {
        let end = match &map.end {
            PruneEnd::ToDelete => "to delete".to_owned(),
            PruneEnd::Deleted => "deleted".to_owned(),
            PruneEnd::Gone => "already deleted".to_owned(),
            PruneEnd::Changed => "kept, changed since the plan".to_owned(),
            PruneEnd::Kept { reason, .. } => format!("kept: {reason}"),
        };
        let pool = map.pool.as_ref().map_or_else(|| "–".to_owned(), |pool| code(pool.as_str()));
        writeln!(out, "| {} | {pool} | {} |", code(&map.name), prose(&end))?;
    }
    writeln!(out, "\n{}", totals(pruning))
}

/// The JSON document: `{formatVersion, kind, fleet, namespace, keep, dryRun, configMaps}`.
///
/// # Errors
/// When serialization fails, which is a bug.
pub fn document(pruning: &Pruning) -> serde_json::Result<Value> {
    Document::value(pruning.clone())
}
