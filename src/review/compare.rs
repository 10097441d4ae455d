//! Comparison of two revisions of a repository.

use std::collections::BTreeSet;

use super::{
    Changes, ConfigMapChange, Origin, PoolChange, PoolReview, PoolRisk, Refusal, Review, Side, files, setting_changes,
    sizes,
};
use crate::status::Paused;
use kubelet_config::document::Document;
use kubelet_config::effective::overlaid;
use kubelet_config::finding::Finding;
use kubelet_config::{Minor, NEWEST_RELEASED};
use nodecfg_contract::Placement;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Desired, Pool, Rendered};
use nodecfg_plan::{ChangedField, Disruption, changed_fields, loss_warnings, placed_fields};

/// The base revision. May be invalid, because its errors are not part of the change.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The identity of the revision.
    pub side: &'a Side,
    /// The readable configuration. Unset if unreadable.
    pub desired: Option<&'a Desired>,
    /// The files of the revision.
    pub snapshot: &'a Snapshot,
    /// The errors of the revision.
    pub errors: &'a [Finding],
}

/// The revision under review. Always valid.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The identity of the revision.
    pub side: &'a Side,
    /// The configuration.
    pub desired: &'a Desired,
    /// The files of the revision.
    pub snapshot: &'a Snapshot,
}

/// Compares two revisions, without a cluster.
#[must_use]
pub fn compare(base: &Base<'_>, head: &Head<'_>) -> Review {
    let old = |name: &PoolName| base.desired.and_then(|desired| desired.pools.get(name));
    let new = |name: &PoolName| head.desired.pools.get(name);
    let names: BTreeSet<&PoolName> =
        base.desired.iter().flat_map(|desired| desired.pools.keys()).chain(head.desired.pools.keys()).collect();
    let mut pools: Vec<PoolReview> =
        names.into_iter().filter_map(|name| pool(base, head, name, old(name), new(name))).collect();
    let nodes_may_move = pools.iter().any(|pool| {
        matches!(pool.change, PoolChange::Added | PoolChange::Removed | PoolChange::Unknown)
            || setting_changes::any_affects_membership(&pool.settings)
    });
    let losses = |pool: &PoolReview| {
        let fields = pool.changes.iter().flat_map(|set| &set.fields);
        new(&pool.name).map(|pool| loss_warnings(pool, fields)).unwrap_or_default()
    };
    let findings = pools.iter().flat_map(losses).collect();
    pools.iter_mut().for_each(PoolReview::without_computed_fields);
    let mut review = Review {
        from: base.side.clone(),
        to: head.side.clone(),
        fleet: head.desired.fleet.clone(),
        paused: Paused::of(head.desired.paused, None),
        settings: base.desired.map(|desired| setting_changes::of_fleet(desired, head.desired)).unwrap_or_default(),
        pools,
        nodes_may_move,
        base_findings: base.errors.to_vec(),
        findings,
        assumed_version: None,
        cluster: None,
    };
    review.sort();
    review
}

/// Reports whether the base has files of a pool, but has errors. For pools that are missing in `base.desired`.
fn is_unreadable(base: &Base<'_>, name: &PoolName) -> bool {
    let folder = format!("pools/{name}/");
    !base.errors.is_empty() && base.snapshot.files.keys().any(|path| path.starts_with(&folder))
}

fn pool(
    base: &Base<'_>,
    head: &Head<'_>,
    name: &PoolName,
    old: Option<&Pool>,
    new: Option<&Pool>,
) -> Option<PoolReview> {
    let (was, becomes): (Option<&Rendered>, Option<&Rendered>) = [old, new].map(|pool| pool?.rendered()).into();
    let settings = setting_changes::changes(old, new);
    let placement =
        |pool: Option<&Pool>| pool.filter(|pool| pool.rendered().is_some()).map(Pool::placement_of_kubelets);
    let change = match (old, new) {
        (None, None) => return None,
        (Some(_), None) => PoolChange::Removed,
        (None, Some(_)) if is_unreadable(base, name) => PoolChange::Unknown,
        (None, Some(_)) => PoolChange::Added,
        (Some(_), Some(_)) => match (was, becomes) {
            (None, Some(_)) => PoolChange::FromLocal,
            (Some(_), None) => PoolChange::ToLocal,
            (Some(_), Some(_)) if !is_same(old, new) || placement(old) != placement(new) => PoolChange::Changed,
            _ if setting_changes::any_affects_membership(&settings) => PoolChange::Selection,
            _ if !settings.is_empty() => PoolChange::PolicyOnly,
            _ => PoolChange::Unchanged,
        },
    };
    let from = match change {
        PoolChange::Added => Origin::Nothing,
        PoolChange::Unknown => Origin::Unreadable,
        PoolChange::FromLocal => Origin::Local,
        _ => Origin::Base,
    };
    let own = new.or(old).and_then(|pool| Some(&*pool.own.as_ref()?.document));
    let content = |pool: Option<&Pool>| {
        let pool = pool?;
        let document = &pool.rendered()?.document;
        let placement = pool.placement_of_kubelets();
        let document = match (placement, own) {
            (Placement::Overlay, Some(own)) => overlaid(Some(own), document),
            _ => document.clone(),
        };
        Some((document, placement))
    };
    let changes = change_set(from, change, (content(old).as_ref(), content(new).as_ref()), own.is_some(), &minors(new));
    let risk = risk(name, &changes, new);
    let paths: BTreeSet<&str> = old.into_iter().chain(new).flat_map(|pool| &pool.files).map(String::as_str).collect();
    let is_sized = |pool: Option<&Pool>| pool.is_some_and(|pool| pool.targets.sizes().is_some());
    let config_map = |pool: Option<&Pool>, rendered: Option<&Rendered>| {
        rendered.filter(|_| !is_sized(pool)).map(|rendered| rendered.config_map.clone())
    };
    Some(PoolReview {
        name: name.clone(),
        change,
        scope: new.or(old).map(setting_changes::scope).unwrap_or_default(),
        risk,
        config_map: ConfigMapChange { before: config_map(old, was), after: config_map(new, becomes), create: None },
        placement: placement(new),
        changes,
        sizes: if change == PoolChange::Removed { Vec::new() } else { sizes::typical(old, new) },
        reserve: new.and_then(|pool| Some(pool.targets.sizes()?.reserve.value.to_string())),
        settings,
        files: files::changes(&paths, base.snapshot, head.snapshot),
        rollout: None,
    })
}

/// Reports whether nodes run the same configurations by both.
fn is_same(old: Option<&Pool>, new: Option<&Pool>) -> bool {
    old.zip(new).is_some_and(|(old, new)| old.targets.is_same(&new.targets))
}

/// The kubelet versions of a pool without a cluster: the declared ones, or the newest release.
fn minors(pool: Option<&Pool>) -> BTreeSet<Option<Minor>> {
    let declared = pool.map(|pool| pool.kubelets.as_slice()).unwrap_or_default();
    let minors = if declared.is_empty() { &[NEWEST_RELEASED] } else { declared };
    minors.iter().copied().map(Some).collect()
}

/// A configuration and how nodes combine it with their own.
type Placed = (Document, Placement);

/// The changed fields. Empty if the configuration does not change, for a removed pool, because its nodes keep their
/// configuration, and for a new pool with the local configuration.
fn change_set(
    from: Origin,
    change: PoolChange,
    (old, new): (Option<&Placed>, Option<&Placed>),
    is_own_known: bool,
    minors: &BTreeSet<Option<Minor>>,
) -> Vec<Changes> {
    let same =
        matches!(change, PoolChange::Unchanged | PoolChange::PolicyOnly | PoolChange::Selection | PoolChange::Removed);
    if same || (old.is_none() && new.is_none()) {
        return Vec::new();
    }
    let fields = match (old, new) {
        // Laid over the nodes' own configuration, an overlay is the whole.
        (Some((old, _)), Some((new, _))) if is_own_known => changed_fields(Some(old), Some(new), minors),
        (Some((old, was)), Some((new, becomes))) => placed_fields((old, Some(*was)), (new, *becomes), minors),
        _ => changed_fields(old.map(|(old, _)| old), new.map(|(new, _)| new), minors),
    };
    let merged = new.is_some_and(|(_, placement)| *placement == Placement::Overlay);
    let from_placement = old.zip(new).filter(|(old, new)| old.1 != new.1).map(|(old, _)| old.1);
    vec![Changes { from, nodes: None, merged, from_placement, from_known: old.is_some(), sample: None, fields }]
}

/// The risk of changes from one revision to another.
fn risk(name: &PoolName, changes: &[Changes], new: Option<&Pool>) -> PoolRisk {
    let Some(pool) = new else { return PoolRisk::default() };
    let fields: Vec<&ChangedField> = changes.iter().flat_map(|set| &set.fields).collect();
    let disruption = Disruption::of_fields(fields, &pool.policy);
    let refused = Refusal::of(name, &disruption, &pool.policy);
    let Disruption { worst, state_files, .. } = disruption;
    let unknown = changes.iter().any(|set| !set.has_risk());
    PoolRisk { worst, state_files, unknown, unknown_nodes: None, refused, unready_nodes: None }
}

impl Changes {
    /// Reports whether the current configuration and the risk of every changed field are known.
    #[must_use]
    pub fn has_risk(&self) -> bool {
        // A kubelet returns all fields that a configuration then takes away, but no value beneath an overlay.
        let is_shown = !self.merged && self.sample.is_some_and(|sample| sample.read > 0);
        let is_complete = self.from_placement.is_none() || is_shown;
        self.from_known && is_complete && self.fields.iter().all(|field| field.risk.is_some())
    }
}
