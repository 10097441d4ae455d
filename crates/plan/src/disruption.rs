//! Effect of a pool's changes on running pods: the changed fields, the risk class of each, the highest class, and
//! whether the policy allows it.
//!
//! The risk is unknown if the current or the new content is unknown: the local configuration, or a ConfigMap that is
//! missing or unreadable. Reports show that, but the plan is not refused, because every node starts with its local
//! configuration. A [sample](super::sample) of the nodes may show the current content, and then refuse the plan.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::config_maps::ConfigMapIndex;
use super::losses::{LostField, harmful_removal, lost_fields};
use super::required_config_maps::pool_placement;
use super::returning::Returning;
use super::sample::Sample;
use super::start::{Start, current_configurations};
use super::verdicts::known_minor;
use super::{Action, Plan, PoolPlan, Problem, Step, returning, sample};
use kubelet_config::document::{Document, FieldChange, Node as Value, changes};
use kubelet_config::effective::{EffectiveChange, ValueChange};
use kubelet_config::removals::Removal;
use kubelet_config::risk::{Class, Risk, StateFile};
use kubelet_config::{Minor, effective, fields, removals, risk, secrets};
use nodecfg_contract::{ConfigSource, Placement};
use nodecfg_fleet::{Pool, RolloutPolicy};
use nodecfg_observed::{Node, OwnValues};

/// Changed fields of the nodes that leave one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// Current configuration; `None`: the local configuration, whose content is unknown.
    pub from: Option<ConfigSource>,
    /// Placement of the current configuration; `None` if it is unknown, and for the local configuration.
    pub placement: Option<Placement>,
    /// Number of nodes. A node in transition counts for both its configurations.
    pub nodes: usize,
    /// Whether kubelets merge the new configuration over the node's own. A field that it does not name then has the node's
    /// own value.
    pub merged: bool,
    /// Whether fields may change that no configuration names: with another placement, they get the nodes' own values, or
    /// lose them.
    pub may_change_more: bool,
    /// Whether the current content is known, if only of sampled nodes. If not, every field of the new content is listed
    /// as added.
    pub from_known: bool,
    /// Sample of the nodes, if their current content is unknown and some were asked.
    pub sample: Option<Sample>,
    /// Changes per field.
    pub fields: Vec<ChangedField>,
}

/// A changed field with its risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedField {
    /// The change as written. Both values are unset if only a default changes.
    #[serde(flatten)]
    pub change: FieldChange,
    /// The default in effect instead of the old value. Unset without one, and if the kubelet versions of the nodes have
    /// different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_default: Option<String>,
    /// The default in effect instead of the new value. Unset without one, and if the kubelet versions of the nodes have
    /// different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_default: Option<String>,
    /// Whether the value in effect stays the same, so that no kubelet notices the change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_effect: bool,
    /// The distinct changes of the value in effect, over the kubelet versions of the nodes. Empty if both sides of the
    /// change are known and no kubelet notices it.
    #[serde(skip)]
    pub in_effect: Vec<ValueChange>,
    /// Effect on a node with running pods; `None` if only one side of the change is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// What the nodes lose if the loss harms them: the configuration replaces theirs and omits the field, or has another
    /// place for static pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<&'static Removal>,
}

/// Total effect of a pool's changes on running pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disruption {
    /// Highest class of a changed field; `None` if no change has a known class.
    pub worst: Option<Class>,
    /// State files that must be deleted before the kubelet starts again.
    pub state_files: Vec<StateFile>,
    /// Number of nodes whose current or new content is unknown, so that the risk is unknown. A node in transition
    /// between two unknown configurations counts twice.
    pub unknown: usize,
    /// Whether the highest class exceeds the policy of the pool. Such a plan must not be carried out.
    pub refused: bool,
    /// Omitted fields whose loss harms the nodes and is not accepted, by path. Such a plan must not be carried out.
    pub lost: Vec<LostField>,
    /// Fields whose class exceeds the policy only because the new configuration omits them, by path.
    pub omitted: Vec<OmittedField>,
    /// Number of nodes whose kubelet sets containers with probes to not ready when it restarts.
    pub unready: usize,
}

/// A field that nodes run and the new configuration omits, so that it returns to the default.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OmittedField {
    /// Path of the field.
    pub path: String,
    /// The value that the nodes run, in canonical form. Unset if nodes run different ones, or if it may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
}

impl ChangedField {
    /// Reports whether the new configuration has a value. Null means unset.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.change.new.as_deref().is_some_and(|new| new != "null")
    }
}

impl ChangeSet {
    /// Reports whether both sides of all changes are known, so that the risk is known.
    #[must_use]
    pub fn has_risk(&self) -> bool {
        self.from_known && !self.may_change_more && self.fields.iter().all(|field| field.risk.is_some())
    }

    /// Reports whether the current content is known only of sampled nodes.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.sample.is_some_and(|sample| sample.read > 0)
    }
}

impl Disruption {
    /// Reports whether a sync refuses the changes.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused || !self.lost.is_empty()
    }

    /// Summarizes the changes of a pool with this policy.
    fn of(sets: &[ChangeSet], policy: &RolloutPolicy) -> Self {
        let fields: Vec<&ChangedField> = sets.iter().flat_map(|set| &set.fields).collect();
        Self {
            unknown: sets.iter().filter(|set| !set.has_risk()).map(|set| set.nodes).sum(),
            ..Self::of_fields(fields, policy)
        }
    }

    /// Summarizes changed fields for a pool with this policy, regardless of nodes.
    #[must_use]
    pub fn of_fields<'a>(fields: impl IntoIterator<Item = &'a ChangedField>, policy: &RolloutPolicy) -> Self {
        let (fields, allowed) = (fields.into_iter().collect::<Vec<&ChangedField>>(), policy.allow_disruption);
        let lost = lost_fields(fields.iter().copied(), policy);
        let worst = worst(fields.iter().copied());
        let omitted = omitted_fields(fields.iter().copied().filter(|field| exceeds(field, allowed)));
        let risks = fields.into_iter().filter_map(|field| field.risk.as_ref());
        let state_files: BTreeSet<StateFile> = risks.flat_map(|risk| risk.state_files.iter().copied()).collect();
        Self {
            worst,
            state_files: state_files.into_iter().collect(),
            unknown: 0,
            refused: worst.is_some_and(|worst| worst > allowed),
            lost,
            omitted,
            unready: 0,
        }
    }
}

/// Reports whether a policy that allows `allowed` refuses the change of a field.
fn exceeds(field: &ChangedField, allowed: Class) -> bool {
    field.risk.as_ref().is_some_and(|risk| risk.class > allowed)
}

/// The omitted ones of these fields, by path.
pub(super) fn omitted_fields<'a>(fields: impl Iterator<Item = &'a ChangedField>) -> Vec<OmittedField> {
    let mut omitted: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for field in fields {
        let ChangedField { change, old_default, .. } = field;
        let Some(old) = change.old.as_deref().or(old_default.as_deref()).filter(|_| !field.is_set()) else {
            continue;
        };
        // A field that no kubelet knows has no effect.
        if fields::lookup(change.path.split(['.', '[']).next().unwrap_or_default()).is_none() {
            continue;
        }
        let running = Some(old).filter(|old| !old.contains(secrets::NOT_SHOWN));
        let known = omitted.entry(&change.path).or_insert(running);
        *known = known.filter(|known| Some(*known) == running);
    }
    let field = |(path, running): (&str, Option<&str>)| OmittedField {
        path: path.to_owned(),
        running: running.map(str::to_owned),
    };
    omitted.into_iter().map(field).collect()
}

/// The highest class of changed fields; `None` if none has a known class.
pub(super) fn worst<'a>(fields: impl IntoIterator<Item = &'a ChangedField>) -> Option<Class> {
    fields.into_iter().filter_map(|field| field.risk.as_ref()).map(|risk| risk.class).max()
}

/// Returns the changed fields between two configurations with their risk: the highest over kubelets of these versions,
/// whose defaults count as set. An unknown configuration counts as empty, and its changes have no known risk.
#[must_use]
pub fn changed_fields(
    old: Option<&Document>,
    new: Option<&Document>,
    minors: &BTreeSet<Option<Minor>>,
) -> Vec<ChangedField> {
    let (Some(old), Some(new)) = (old, new) else {
        return changes(old, new).into_iter().map(without_risk).collect();
    };
    let field = |found: EffectiveChange| {
        let loss = removals::loss(&found, new);
        // Redacted first, so that the checker computes the same risk.
        let (path, change) = (found.change.path.clone(), redacted(found.change));
        let in_effect: Vec<ValueChange> = found.in_effect.into_iter().map(|pair| redacted_pair(&path, pair)).collect();
        let risks = in_effect.iter().map(|pair| risk_of(&path, pair, old, new));
        let worst = risks.reduce(|worst, next| if next.class > worst.class { next } else { worst });
        ChangedField {
            change,
            old_default: found.old_default.map(|value| secrets::redacted(&path, &value)),
            new_default: found.new_default.map(|value| secrets::redacted(&path, &value)),
            no_effect: in_effect.is_empty(),
            in_effect,
            risk: Some(worst.unwrap_or_else(Risk::no_effect)),
            loss,
        }
    };
    effective::changes(old, new, minors).into_iter().map(field).collect()
}

/// Returns the changed fields between two configurations with these placements. The risk of a field is unknown if an
/// overlay does not name it, because the node's own value takes its place. The placement of the old configuration may be
/// unknown.
#[must_use]
pub fn placed_fields(
    old: (&Document, Option<Placement>),
    new: (&Document, Placement),
    minors: &BTreeSet<Option<Minor>>,
) -> Vec<ChangedField> {
    returning_fields(old, new, None, minors)
}

/// As [`placed_fields`], for nodes whose own values are known for the fields that leave an overlay: these are the next
/// values.
pub(super) fn returning_fields(
    old: (&Document, Option<Placement>),
    new: (&Document, Placement),
    own: Option<&OwnValues>,
    minors: &BTreeSet<Option<Minor>>,
) -> Vec<ChangedField> {
    let replaces = (old.1 == Some(Placement::Replace), new.1 == Placement::Replace);
    let left = own.map(|_| returning::leaving(old.0, new.0)).unwrap_or_default();
    let next = own.map(|own| returning::with_own(new.0, old.0, own));
    let placed = |mut field: ChangedField| {
        if left.contains(&field.change.path) {
            // The value is on no line of the repository.
            field.change.place = None;
        }
        match (&field.change.old, &field.change.new) {
            // A default that depends on another field. The node's own value decides.
            (None, None) if replaces != (true, true) => None,
            (named, renamed) => {
                let has_no_own = || own.is_some_and(|own| own.complete) && !field.change.path.contains(['.', '[']);
                let is_known = (named.is_some() || replaces.0) && (renamed.is_some() || replaces.1 || has_no_own());
                Some(if is_known { field } else { without_risk(field.change) })
            }
        }
    };
    changed_fields(Some(old.0), Some(next.as_ref().unwrap_or(new.0)), minors).into_iter().filter_map(placed).collect()
}

/// A change of which only one side is known.
pub(super) fn without_risk(change: FieldChange) -> ChangedField {
    let change = redacted(change);
    ChangedField {
        change,
        old_default: None,
        new_default: None,
        no_effect: false,
        in_effect: Vec::new(),
        risk: None,
        loss: None,
    }
}

impl PoolPlan {
    /// The effect without samples: the risk is unknown for all nodes whose current content is. Unlike samples, it does
    /// not depend on the rights of the user and the answers of kubelets.
    #[must_use]
    pub fn disruption_without_samples(&self) -> Disruption {
        // Without an answer, the risk of a merged configuration may be unknown, too.
        let is_merged = |set: &ChangeSet| set.merged || set.placement == Some(Placement::Overlay);
        let (sampled, known): (Vec<&ChangeSet>, Vec<&ChangeSet>) =
            self.changes.iter().partition(|set| set.is_sampled() || (is_merged(set) && !set.has_risk()));
        let unknown = sampled.into_iter().chain(known.iter().copied().filter(|set| !set.has_risk()));
        let fields = known.iter().flat_map(|set| &set.fields);
        Disruption {
            unknown: unknown.map(|set| set.nodes).sum(),
            unready: self.disruption.unready,
            ..Disruption::of_fields(fields, &self.policy)
        }
    }
}

impl Plan {
    /// Problems that prevent execution of this plan: pools whose changes disrupt running pods more than their policy
    /// allows, or take away what their nodes need.
    #[must_use]
    pub fn refusals(&self) -> Vec<Problem> {
        self.pools.iter().flat_map(|pool| too_disruptive(pool).into_iter().chain(harmful_removal(pool))).collect()
    }
}

fn too_disruptive(pool: &PoolPlan) -> Option<Problem> {
    let worst = pool.disruption.worst.filter(|_| pool.disruption.refused)?;
    let allowed = pool.policy.allow_disruption;
    let mut fields: BTreeMap<&str, Class> = BTreeMap::new();
    for field in pool.changes.iter().flat_map(|set| &set.fields) {
        if let Some(risk) = field.risk.as_ref().filter(|_| exceeds(field, allowed)) {
            let class = fields.entry(&field.change.path).or_insert(risk.class);
            *class = (*class).max(risk.class);
        }
    }
    Some(Problem::TooDisruptive {
        pool: pool.name.clone(),
        worst,
        allowed,
        fields: fields.into_iter().map(|(path, class)| (path.to_owned(), class)).collect(),
        omitted: pool.disruption.omitted.clone(),
        state_files: pool.disruption.state_files.clone(),
        rollback: false,
    })
}

/// Nodes that leave one configuration.
#[derive(Default)]
struct Group<'a> {
    nodes: usize,
    /// Kubelet versions with known defaults; `None` stands for all others.
    minors: BTreeSet<Option<Minor>>,
    /// Nodes that were asked what they run.
    asked: Vec<&'a Node>,
}

/// Groups the assigned nodes by the configurations that they may run, and computes the changed fields and their risk
/// per group.
pub(super) fn assess<'a>(
    pool: &Pool,
    assigned: impl Iterator<Item = &'a Node>,
    index: &ConfigMapIndex<'_>,
) -> (Vec<ChangeSet>, Disruption) {
    let new = pool.target.rendered().map(|rendered| &rendered.document);
    let observed = index.observed();
    let placement = pool_placement(pool, observed);
    let mut returning = Returning::new(index, new, placement);
    let mut groups: BTreeMap<(Start, Option<OwnValues>), Group<'_>> = BTreeMap::new();
    let mut minors: BTreeMap<Option<Minor>, usize> = BTreeMap::new();
    let mut replaced: BTreeSet<ConfigSource> = BTreeSet::new();
    for node in assigned {
        *minors.entry(minor(node)).or_default() += 1;
        for start in current_configurations(node) {
            replaced.extend(start.from.clone().filter(|source| has_other_content(node, source, index)));
            let is_asked = observed.running.contains_key(&node.name) && Start::active(node) == start;
            let own = returning.of(node, &start);
            let group = groups.entry((start, own)).or_default();
            group.nodes += 1;
            group.minors.insert(known_minor(node));
            group.asked.extend(is_asked.then_some(node));
        }
    }
    let sets: Vec<ChangeSet> = groups
        .into_iter()
        .map(|((start, own), Group { nodes, minors, asked })| {
            // A ConfigMap with other content does not show what the nodes run.
            let known = start.from.as_ref().filter(|source| !replaced.contains(*source));
            let old = known.and_then(|source| index.document(source));
            let fields = match (&old, new) {
                (Some(old), Some(new)) => {
                    returning_fields((old, start.placement), (new, placement), own.as_ref(), &minors)
                }
                _ => changed_fields(old.as_ref(), new, &minors),
            };
            let may_change_more = new.is_some() && start.may_change_more(placement);
            let is_unknown = old.is_none() || may_change_more || fields.iter().any(|field| field.risk.is_none());
            let answers = match new {
                Some(new) if is_unknown => {
                    sample::changes_of(asked.into_iter(), observed, old.as_ref(), (new, placement))
                }
                _ => None,
            };
            let (sampled, sample) = answers.map_or((None, None), |(fields, sample)| (fields, Some(sample)));
            // The kubelet returns what it runs, but not what the node's own configuration has beneath.
            let may_change_more = may_change_more && (placement == Placement::Overlay || sampled.is_none());
            ChangeSet {
                nodes,
                merged: new.is_some() && placement == Placement::Overlay,
                may_change_more,
                from_known: old.is_some() || sampled.is_some(),
                sample,
                fields: match sampled {
                    Some(sampled) => sample::with_known(sampled, fields),
                    None => fields,
                },
                from: start.from,
                placement: start.placement,
            }
        })
        .collect();
    let unready = minors.into_iter().filter(|(minor, _)| risk::restart_resets_readiness(*minor, new));
    let unready = unready.map(|(_, nodes)| nodes).sum();
    let disruption = Disruption { unready, ..Disruption::of(&sets, &pool.policy) };
    (sets, disruption)
}

/// Version of a node's kubelet, also if nodecfg's tables lack it.
fn minor(node: &Node) -> Option<Minor> {
    node.kubelet_version.filter(|version| version.major == 1).map(|version| Minor(version.minor))
}

/// Reports whether the ConfigMap of a source has other content than the agent of the node verified for it.
pub(super) fn has_other_content(node: &Node, source: &ConfigSource, index: &ConfigMapIndex<'_>) -> bool {
    let Some(content) = node.content else { return false };
    let is_active = node.status.active.as_ref().is_some_and(|active| active.names_same(source));
    let verified = if is_active { content.active } else { content.assigned };
    verified.zip(index.hash(source)).is_some_and(|(verified, found)| verified != found)
}

/// Sets on each step whose node can be rolled back: the disruption of the rollback, if the policy does not allow it, and
/// whether the rollback needs a drain.
pub(super) fn assess_rollbacks<'a>(pool: &Pool, steps: impl Iterator<Item = &'a mut Step>, sets: &[ChangeSet]) {
    let mut needs: BTreeMap<Start, Option<Class>> = BTreeMap::new();
    for set in sets.iter().filter(|set| !set.is_sampled()) {
        let class = needs.entry(Start { from: set.from.clone(), placement: set.placement }).or_default();
        *class = (*class).max(set.fields.iter().filter_map(rollback_class).max());
    }
    for step in steps.filter(|step| step.can_return && step.action == Action::Assign) {
        let class = needs.get(&Start::of(&step.assignment)).copied().flatten();
        step.rollback_needs = class.filter(|class| *class > pool.policy.allow_disruption);
        step.rollback_drain = step.drain || (pool.policy.drains_nodes() && class >= Some(Class::Drain));
    }
}

/// Risk class of reverting a change, if both sides are known.
fn rollback_class(field: &ChangedField) -> Option<Class> {
    let reverted =
        |pair: &ValueChange| risk::of_change(&field.change.path, pair.new.as_deref(), pair.old.as_deref()).class;
    field.risk.as_ref().map(|_| field.in_effect.iter().map(reverted).max().unwrap_or(Class::None))
}

/// Redacts values that may be secrets, or contain one.
fn redacted(mut change: FieldChange) -> FieldChange {
    for value in change.old.iter_mut().chain(&mut change.new) {
        *value = secrets::redacted(&change.path, value);
    }
    change
}

fn redacted_pair(path: &str, mut pair: ValueChange) -> ValueChange {
    for value in pair.old.iter_mut().chain(&mut pair.new) {
        *value = secrets::redacted(path, value);
    }
    pair
}

/// Risk of a change by the risk table, without state files that neither configuration uses.
fn risk_of(path: &str, pair: &ValueChange, old: &Document, new: &Document) -> Risk {
    let mut risk = risk::of_change(path, pair.old.as_deref(), pair.new.as_deref());
    risk.state_files.retain(|file| {
        let (field, value) = file.policy();
        [old, new].iter().any(|document| document.root.get(field).and_then(Value::text) == Some(value))
    });
    risk
}
