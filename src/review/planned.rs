//! Reviews with the plan of a sync: a review of the plan alone, a plan added to a review of two revisions, and the
//! nodes that move between pools.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Changes, ClusterReview, ConfigMapChange, LeftAlone, Move, Origin, Outlook, PlannedDrain, PlannedSteps, PoolChange,
    PoolReview, PoolRisk, Refusal, Review, Rollout, Side, setting_changes, sizes,
};
use crate::status::Paused;
use nodecfg_contract::Placement;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::Desired;
use nodecfg_observed::Node;
use nodecfg_plan::convergence::Target;
use nodecfg_plan::{Plan, PoolPlan, membership, rollback_fix};
use nodecfg_rollout::PoolStart;
use nodecfg_rollout::forecast::forecast;

/// A pool pointer that a sync moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPointer {
    /// The pool.
    pub pool: PoolName,
    /// The ConfigMap of the configuration that new nodes start with, or `3 sizes` if the nodes of each size have one. Unset:
    /// their local configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<String>,
    /// When the pointer moves.
    pub when: nodecfg_plan::PointerTime,
}

/// The review of a plan, compared with what the nodes run, for a sync that begins now.
#[must_use]
pub fn of_plan(to: Side, desired: &Desired, plan: &Plan, now: Timestamp) -> Review {
    let review = Review {
        from: Side::Cluster,
        to,
        fleet: plan.fleet.clone(),
        paused: None,
        settings: Vec::new(),
        pools: Vec::new(),
        nodes_may_move: false,
        base_findings: Vec::new(),
        findings: Vec::new(),
        assumed_version: None,
        cluster: None,
    };
    review.with_plan(desired, plan, Vec::new(), now)
}

impl Review {
    /// Adds the plan of a sync for the revision under review that begins now.
    #[must_use]
    pub fn with_plan(mut self, desired: &Desired, plan: &Plan, moves: Vec<Move>, now: Timestamp) -> Self {
        let starts = forecast(plan, now);
        for planned in &plan.pools {
            let start = starts.get(&planned.name).cloned().unwrap_or_default();
            match self.pools.iter_mut().find(|pool| pool.name == planned.name) {
                Some(pool) => pool.add(desired, planned, plan, start),
                None => self.pools.push(from_plan(desired, planned, plan, start)),
            }
        }
        let order = plan.pools.iter().filter_map(|pool| pool.paused.as_ref()).find(|pause| pause.whole_fleet);
        self.paused = Paused::of(desired.paused, order);
        self.nodes_may_move = false;
        self.findings = plan.findings.clone();
        self.cluster = Some(ClusterReview {
            plan: plan.id.clone(),
            changed: plan.has_changes(),
            namespace: plan.namespace.clone(),
            counts: plan.counts(),
            outlook: self.outlook(plan),
            budget: plan.budget(),
            releases: plan.releases.clone(),
            pointers: plan.pools.iter().filter_map(planned_pointer).collect(),
            moves,
            unpooled: plan.unpooled.clone(),
            doubtful: plan.doubtful.clone(),
            prunable: plan.prunable.clone(),
        });
        self.sort();
        self
    }

    /// The same review of a rollback, whose refusal an option of the command can lift.
    #[must_use]
    pub fn of_rollback(mut self) -> Self {
        for pool in &mut self.pools {
            if let (Some(refused), Some(worst)) = (&mut pool.risk.refused, pool.risk.worst) {
                refused.help = rollback_fix(&pool.name, worst, &pool.risk.state_files);
                // The configuration of the rollback is fixed.
                refused.omitted.clear();
            }
        }
        self
    }

    fn outlook(&self, plan: &Plan) -> Outlook {
        let refused = !plan.refusals().is_empty();
        let mut outlook = Outlook { refused, assign: 0, stopped: 0, waiting: 0, held: 0 };
        for rollout in self.pools.iter().filter_map(|pool| pool.rollout.as_ref()).filter(|_| !refused) {
            *match rollout.start {
                PoolStart::Starts => &mut outlook.assign,
                PoolStart::Waits => &mut outlook.waiting,
                PoolStart::Held { .. } => &mut outlook.held,
                PoolStart::Stops { .. } => &mut outlook.stopped,
            } += rollout.assign;
        }
        outlook
    }
}

fn planned_pointer(pool: &PoolPlan) -> Option<PlannedPointer> {
    let pointer = pool.pointer.as_ref()?;
    let config_map = pointer.to.config_map();
    Some(PlannedPointer { pool: pool.name.clone(), config_map, when: pointer.when })
}

/// The nodes whose pool changes, by name. Includes nodes that join their first pool or leave their last one. A node
/// that several pools select without precedence belongs to none.
#[must_use]
pub fn moves(old: &Desired, new: &Desired, nodes: &BTreeMap<NodeName, Node>) -> Vec<Move> {
    let pool_by_node = |desired| {
        let members = membership(desired, nodes);
        let pairs = members.pools.into_iter().flat_map(|(pool, nodes)| nodes.into_iter().map(move |node| (node, pool)));
        pairs.map(|(node, pool)| (node.name.clone(), pool.clone())).collect::<BTreeMap<NodeName, PoolName>>()
    };
    let (before, after) = (pool_by_node(old), pool_by_node(new));
    let move_of = |node: &NodeName| {
        let (from, to) = (before.get(node).cloned(), after.get(node).cloned());
        (from != to).then(|| Move { node: node.clone(), from, to })
    };
    nodes.keys().filter_map(move_of).collect()
}

/// The review of a pool from its plan alone.
fn from_plan(desired: &Desired, planned: &PoolPlan, plan: &Plan, start: PoolStart) -> PoolReview {
    let change = match (planned.assignments(), planned.targets.is_local()) {
        (0, _) => PoolChange::Unchanged,
        (_, true) => PoolChange::ToLocal,
        (_, false) => PoolChange::Changed,
    };
    let mut pool = PoolReview {
        name: planned.name.clone(),
        change,
        scope: desired.pools.get(&planned.name).map(setting_changes::scope).unwrap_or_default(),
        risk: PoolRisk::default(),
        config_map: ConfigMapChange::default(),
        placement: None,
        changes: Vec::new(),
        sizes: Vec::new(),
        reserve: None,
        settings: Vec::new(),
        files: Vec::new(),
        rollout: None,
    };
    pool.add(desired, planned, plan, start);
    pool
}

impl PoolReview {
    fn add(&mut self, desired: &Desired, planned: &PoolPlan, plan: &Plan, start: PoolStart) {
        if self.change == PoolChange::Unchanged && planned.assignments() > 0 {
            self.change = PoolChange::Drift;
        }
        self.placement = planned.targets.placement();
        self.add_changes(planned);
        if let Some(pool) = desired.pools.get(&planned.name)
            && let Some(sizes) = pool.targets.sizes()
        {
            self.sizes = sizes::planned(pool, planned);
            self.reserve = Some(sizes.reserve.value.to_string());
        } else {
            // The plan has the fields that the nodes lose.
            self.sizes.clear();
        }
        self.without_computed_fields();
        self.risk = risk(&self.risk, planned);
        let only = planned.targets.only().and_then(Target::source);
        self.config_map.after = only.and_then(|source| source.config_map.as_ref()).map(|map| map.name.clone());
        self.config_map.create =
            plan.config_maps.iter().find(|found| found.map.pool == planned.name).map(|found| found.create);
        self.rollout = Some(rollout(planned, start));
    }

    /// Counts nodes whose change equals the one between the revisions, and adds other changes separately. Removes
    /// assumed changes that apply to no node. The plan knows the kubelet versions and so their defaults, so its fields
    /// replace those between the revisions.
    fn add_changes(&mut self, planned: &PoolPlan) {
        for set in &mut self.changes {
            set.nodes = Some(0);
        }
        let base = self.config_map.before.clone();
        for set in &planned.changes {
            let is_kept = |placement: &Placement| (*placement == Placement::Overlay) == set.merged;
            let moved = set.placement.filter(|placement| self.placement.is_some() && !is_kept(placement));
            let named = set.from.as_ref().and_then(|source| source.config_map.as_ref()).map(|map| &map.name);
            let is_base = base.is_some() && named == base.as_ref();
            let same = |known: &&mut Changes| {
                let is_alike = known.from_known == set.from_known;
                let is_placed_alike =
                    known.nodes == Some(0) || (known.merged, known.from_placement) == (set.merged, moved);
                is_alike && is_placed_alike && (is_base || known.fields == set.fields)
            };
            if let Some(known) = self.changes.iter_mut().filter(|known| known.from == Origin::Base).find(same) {
                known.nodes = known.nodes.map(|nodes| nodes + set.nodes);
                known.fields.clone_from(&set.fields);
                (known.merged, known.from_placement) = (set.merged, moved);
                continue;
            }
            let from = set.from.clone().map_or(Origin::Local, |source| Origin::ConfigMap { source });
            let (fields, from_known, merged) = (set.fields.clone(), set.from_known, set.merged);
            let (nodes, sample) = (Some(set.nodes), set.sample);
            self.changes.push(Changes { from, nodes, merged, from_placement: moved, from_known, sample, fields });
        }
        // The plan reads the current configuration of nodes from the cluster, so it replaces assumptions about it.
        let is_assumed = |set: &Changes| matches!(set.from, Origin::Nothing | Origin::Unreadable | Origin::Local);
        if !planned.changes.is_empty() {
            self.changes.retain(|set| !(is_assumed(set) && set.nodes == Some(0)));
        }
    }
}

/// The risk in the plan. At least the risk between the revisions, if the pool has no nodes or the risk of some is
/// unknown.
fn risk(between: &PoolRisk, planned: &PoolPlan) -> PoolRisk {
    let disruption = &planned.disruption;
    let is_complete = planned.nodes > 0 && disruption.unknown == 0;
    let refused = Refusal::of(&planned.name, disruption, &planned.policy);
    let (mut worst, mut state_files) = (disruption.worst, disruption.state_files.clone());
    if !is_complete && between.worst > worst {
        worst = between.worst;
        state_files.clone_from(&between.state_files);
    }
    let unknown = disruption.unknown > 0 || (planned.nodes == 0 && between.unknown);
    let (unknown_nodes, unready_nodes) = (Some(disruption.unknown), Some(disruption.unready));
    PoolRisk { worst, state_files, unknown, unknown_nodes, refused, unready_nodes }
}

fn steps(planned: &PoolPlan) -> Option<PlannedSteps> {
    let (begun, steps) = (planned.begun(), &planned.policy.steps);
    let limits: Vec<usize> = planned.step_limits().into_iter().filter(|limit| *limit >= begun).collect();
    let shares: Vec<String> = steps.shares.iter().map(ToString::to_string).collect();
    let soak_seconds = rounded_up(steps.soak);
    (!limits.is_empty()).then(|| PlannedSteps { shares: shares.join(", "), limits, soak_seconds })
}

/// Whole seconds, so that no time vanishes.
fn rounded_up(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn rollout(planned: &PoolPlan, start: PoolStart) -> Rollout {
    let left = |left: &nodecfg_plan::LeftAlone| LeftAlone {
        node: left.node.clone(),
        why: left.why.clone(),
        reason: left.why.to_string(),
        blocked: left.why.is_blocked(),
    };
    Rollout {
        nodes: planned.nodes,
        budget: planned.budget,
        paused: planned.is_paused(),
        pause: planned.paused.clone(),
        despite_pause: planned.despite_pause,
        assign: planned.assignments(),
        drain: PlannedDrain::of(planned).filter(|_| !matches!(start, PoolStart::Stops { .. })),
        start,
        steps: steps(planned),
        interval_seconds: Some(rounded_up(planned.policy.interval)).filter(|seconds| *seconds > 0),
        after: planned.policy.after.clone(),
        waves: planned.waves.clone(),
        left_alone: planned.left_alone.iter().map(left).collect(),
    }
}
