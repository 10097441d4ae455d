//! What a prune deletes, and what it keeps.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::count;
use super::markdown::{code, prose};
use super::style::{heading, quiet, warning};
use nodecfg_contract::json_document::{Document, Kind};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::observed::{Deletion, ManagedConfigMap};
use nodecfg_planning::plan::{Kept, PrunePlan};

/// What a prune does to the ConfigMaps of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pruning {
    /// The fleet.
    pub fleet: FleetName,
    /// Where its ConfigMaps are.
    pub namespace: NamespaceName,
    /// How many of each pool are kept, the newest.
    pub keep: usize,
    /// Whether this is what would be deleted, and nothing was.
    pub dry_run: bool,
    /// Its ConfigMaps, by name.
    pub config_maps: Vec<PrunedConfigMap>,
}

/// One ConfigMap.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrunedConfigMap {
    /// Its name.
    pub name: String,
    /// Its pool, where it names one.
    pub pool: Option<PoolName>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The commit that it was made from, as it says itself.
    pub commit: Option<String>,
    /// What became of it.
    pub end: PruneEnd,
}

/// What became of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum PruneEnd {
    /// It is to be deleted: nothing refers to it.
    ToDelete,
    /// It was deleted.
    Deleted,
    /// It was gone already when it was to be deleted.
    Gone,
    /// It was changed, made anew or put to use since it was looked at, and stays.
    Changed,
    /// It is kept.
    Kept {
        /// Why.
        why: Kept,
        /// Why, in words.
        reason: String,
    },
}

impl Kind for Pruning {
    const KIND: &'static str = "Pruning";
}

impl Pruning {
    /// What a plan would do; `dry_run`: and will not.
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

    /// The same after it was done; what is not among `ends` was not tried.
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

fn line(map: &PrunedConfigMap) -> String {
    let created = map.created.map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let commit = map.commit.as_deref().map(|commit| format!("commit {}", commit.chars().take(10).collect::<String>()));
    let created = created.map(|at| format!("created {at}"));
    let said: Vec<String> = [created, commit].into_iter().flatten().collect();
    nodecfg_contract::printable::remark(&said.join(", "))
}

/// Writes what is deleted, one by one, and what is kept, in numbers; with `all` that one by one too.
///
/// # Errors
/// When the writer does.
pub fn text(out: &mut dyn Write, pruning: &Pruning, all: bool) -> io::Result<()> {
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    let mut told = false;
    for map in &pruning.config_maps {
        let word = match &map.end {
            PruneEnd::ToDelete => "to delete",
            PruneEnd::Deleted => "deleted",
            PruneEnd::Gone => "gone already",
            PruneEnd::Changed => "changed since, left as it is",
            PruneEnd::Kept { why, reason } => {
                let group = match why {
                    Kept::InUse { .. } => "in use",
                    _ => reason.as_str(),
                };
                *kept.entry(group).or_default() += 1;
                if all {
                    told = true;
                    writeln!(out, "{} {}: {reason}", quiet("kept:"), map.name)?;
                }
                continue;
            }
        };
        told = true;
        writeln!(out, "{} {}\n    {}", warning(format!("{word}:")), map.name, quiet(line(map)))?;
    }
    if told {
        writeln!(out)?;
    }
    writeln!(out, "{}", heading(totals(pruning)))?;
    for (reason, number) in kept {
        writeln!(out, "{}", quiet(format!("{number} kept: {reason}")))?;
    }
    Ok(())
}

fn totals(pruning: &Pruning) -> String {
    let of = |end: &PruneEnd| pruning.number(|other| other == end);
    let (to_delete, deleted) = (of(&PruneEnd::ToDelete), of(&PruneEnd::Deleted));
    let untouched = pruning.number(|end| !matches!(end, PruneEnd::ToDelete | PruneEnd::Kept { .. })) == 0;
    match (untouched, to_delete, deleted) {
        (true, 0, _) => "Nothing to delete.".to_owned(),
        (true, number, _) => format!("{} to delete.", count(number, "ConfigMap")),
        (false, 0, number) => format!("Deleted: {}.", count(number, "ConfigMap")),
        (false, left, number) => {
            format!("Deleted: {}; {left} not tried any more.", count(number, "ConfigMap"))
        }
    }
}

/// The same as a table.
///
/// # Errors
/// When the writer does.
pub fn markdown(out: &mut dyn Write, pruning: &Pruning) -> io::Result<()> {
    writeln!(out, "| ConfigMap | pool | what became of it |\n|---|---|---|")?;
    for map in &pruning.config_maps {
        let end = match &map.end {
            PruneEnd::ToDelete => "to delete".to_owned(),
            PruneEnd::Deleted => "deleted".to_owned(),
            PruneEnd::Gone => "gone already".to_owned(),
            PruneEnd::Changed => "changed since, left as it is".to_owned(),
            PruneEnd::Kept { reason, .. } => format!("kept: {reason}"),
        };
        let pool = map.pool.as_ref().map_or_else(|| "–".to_owned(), |pool| code(pool.as_str()));
        writeln!(out, "| {} | {pool} | {} |", code(&map.name), prose(&end))?;
    }
    writeln!(out, "\n{}", totals(pruning))
}

/// `{formatVersion, kind, fleet, namespace, keep, dryRun, configMaps}`.
///
/// # Errors
/// When it cannot be serialised, which would be a bug.
pub fn document(pruning: &Pruning) -> serde_json::Result<Value> {
    Document::value(pruning.clone())
}
