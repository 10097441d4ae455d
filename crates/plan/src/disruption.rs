//! Effect of a pool's changes on running pods: the changed fields, the risk class of each, the highest class, and
//! whether the policy allows it.
//!
//! The risk is unknown if the current or the new content is unknown: the local configuration, or a ConfigMap that is
//! missing or unreadable. Reports show that, but the plan is not refused, because every node starts with its local
//! configuration. A [sample](super::sample) of the nodes may show the current content, and then refuse the plan.

use std::collections::{BTreeMap, BTreeSet};

use super::config_maps::ConfigMapIndex;
use super::losses::{harmful_removal, lost_fields};
use super::present::{Start, current_configurations};
use super::returning::Returning;
use super::{Action, Plan, PoolPlan, Problem, Step, sample};
use crate::changes::ChangeSet;
use crate::changes::LostField;
use crate::changes::{ChangedField, OmittedField, changed_fields, omitted_fields, returning_fields, worst};
use crate::target::pool_placement;
use kubelet_config::effective::ValueChange;
use kubelet_config::risk::{Class, StateFile};
use kubelet_config::{Minor, risk};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{ConfigSource, Placement};
use nodecfg_fleet::{Pool, RolloutPolicy, SizedPool, Sizes};
use nodecfg_observed::{Node, OwnValues};

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

impl Disruption {
    /// Reports whether a sync refuses the changes.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused || !self.lost.is_empty()
    }

    /// Summarizes the changes of a pool with this policy.
    pub(super) fn of(sets: &[ChangeSet], unready: usize, policy: &RolloutPolicy) -> Self {
        let fields: Vec<&ChangedField> = sets.iter().flat_map(|set| &set.fields).collect();
        Self {
            unknown: sets.iter().filter(|set| !set.has_risk()).map(|set| set.nodes).sum(),
            unready,
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

/// Class of changes that the policy does not allow, if they follow from the size of the nodes alone: the configuration differs
/// in nothing but computed reservations.
pub(super) fn of_resize(set: &ChangeSet, sizes: &Sizes, policy: &RolloutPolicy) -> Option<Class> {
    let is_computed = |field: &ChangedField| sizes.computed_fields().any(|path| path == field.change.path);
    let worst = worst(&set.fields).filter(|worst| *worst > policy.allow_disruption)?;
    (set.from_known && set.fields.iter().all(is_computed)).then_some(worst)
}

/// Reports whether a policy that allows `allowed` refuses the change of a field.
fn exceeds(field: &ChangedField, allowed: Class) -> bool {
    field.risk.as_ref().is_some_and(|risk| risk.class > allowed)
}

impl PoolPlan {
    /// The effect without samples: the risk is unknown for all nodes whose current content is. Unlike samples, it does
    /// not depend on the rights of the user and the answers of kubelets.
    #[must_use]
    pub(crate) fn disruption_without_samples(&self) -> Disruption {
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
    nodes: Vec<&'a NodeName>,
    /// Kubelet versions with known defaults; `None` stands for all others.
    minors: BTreeSet<Option<Minor>>,
    /// Nodes that were asked what they run.
    asked: Vec<&'a Node>,
}

/// Changes of the assigned nodes of one size.
pub(super) struct Assessed {
    /// Changed fields, by current configuration.
    pub(super) sets: Vec<ChangeSet>,
    /// Number of nodes whose kubelet sets containers with probes to not ready.
    pub(super) unready: usize,
    /// Risk class of the return of a node to a configuration that it has now, where both sides are known.
    pub(super) reversals: BTreeMap<(NodeName, Start), Class>,
}

/// Groups the assigned nodes of one size by the configurations that they may run, and computes the changed fields and
/// their risk per group.
pub(super) fn assess<'a>(
    pool: &SizedPool<'_>,
    assigned: impl Iterator<Item = &'a Node>,
    index: &ConfigMapIndex<'_>,
) -> Assessed {
    let new = pool.target.rendered().map(|rendered| &rendered.document);
    let observed = index.observed();
    let placement = pool_placement(pool, observed);
    let mut returning = Returning::new(index, new, placement);
    let mut groups: BTreeMap<(Start, Option<OwnValues>), Group<'_>> = BTreeMap::new();
    let mut minors: BTreeMap<Option<Minor>, usize> = BTreeMap::new();
    let mut replaced: BTreeSet<ConfigSource> = BTreeSet::new();
    for node in assigned {
        *minors.entry(node.minor()).or_default() += 1;
        for start in current_configurations(node) {
            replaced.extend(start.from.clone().filter(|source| has_other_content(node, source, index)));
            let is_asked = observed.running.contains_key(&node.name) && Start::active(node) == start;
            let own = returning.of(node, &start);
            let group = groups.entry((start, own)).or_default();
            group.nodes.push(&node.name);
            group.minors.insert(node.known_minor());
            group.asked.extend(is_asked.then_some(node));
        }
    }
    let mut reversals = BTreeMap::new();
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
            if sampled.is_none() {
                let class = fields.iter().filter_map(rollback_class).max();
                let of_nodes = nodes.iter().map(|node| ((Clone::clone(*node), start.clone()), class));
                reversals.extend(of_nodes.filter_map(|(node, class)| Some((node, class?))));
            }
            ChangeSet {
                nodes: nodes.len(),
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
                size: pool.size,
            }
        })
        .collect();
    let unready = minors.into_iter().filter(|(minor, _)| risk::restart_resets_readiness(*minor, new));
    Assessed { sets, unready: unready.map(|(_, nodes)| nodes).sum(), reversals }
}

/// Reports whether the ConfigMap of a source has other content than the agent of the node verified for it.
pub(super) fn has_other_content(node: &Node, source: &ConfigSource, index: &ConfigMapIndex<'_>) -> bool {
    let Some(content) = node.content else { return false };
    let is_active = node.status.active.as_ref().is_some_and(|active| active.names_same(source));
    let verified = if is_active { content.active } else { content.assigned };
    verified.zip(index.hash(source)).is_some_and(|(verified, found)| verified != found)
}

/// Sets on each step whose node can be rolled back: the disruption of the rollback, if the policy does not allow it, and
/// whether the rollback needs a drain. What other nodes report about themselves does not count.
pub(super) fn assess_rollbacks<'a>(
    pool: &Pool,
    steps: impl Iterator<Item = &'a mut Step>,
    reversals: &BTreeMap<(NodeName, Start), Class>,
) {
    for step in steps.filter(|step| step.can_return && step.action == Action::Assign) {
        let class = reversals.get(&(step.node.clone(), Start::of(&step.assignment))).copied();
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
