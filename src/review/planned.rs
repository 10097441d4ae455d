//! What a sync would do to a cluster, within a review.

use std::collections::BTreeMap;

use super::{
    Changes, ClusterReview, ConfigMapChange, LeftAlone, Move, PoolChange, PoolReview, PoolRisk, Refusal, Review,
    Rollout, Side, Start, setting_changes,
};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::observed::Node;
use nodecfg_planning::desired::Desired;
use nodecfg_planning::judge::Target;
use nodecfg_planning::plan::{self, Plan, PoolPlan, membership, way_out};

/// What a plan does, compared with what the nodes run.
#[must_use]
pub fn of_plan(to: Side, desired: &Desired, plan: &Plan) -> Review {
    let review = Review {
        from: Side::Cluster,
        to,
        fleet: plan.fleet.clone(),
        settings: Vec::new(),
        pools: Vec::new(),
        nodes_may_move: false,
        base_findings: Vec::new(),
        findings: Vec::new(),
        assumed_version: None,
        cluster: None,
    };
    review.with_plan(desired, plan, Vec::new())
}

impl Review {
    /// Adds what a sync would do to a cluster: `plan` is one for what the revision under review asks for.
    #[must_use]
    pub fn with_plan(mut self, desired: &Desired, plan: &Plan, moves: Vec<Move>) -> Self {
        for planned in &plan.pools {
            match self.pools.iter_mut().find(|pool| pool.name == planned.name) {
                Some(pool) => pool.add(planned, plan),
                None => self.pools.push(fresh(desired, planned, plan)),
            }
        }
        self.nodes_may_move = false;
        self.findings = plan.findings.clone();
        self.cluster = Some(ClusterReview {
            plan: plan.id.clone(),
            changed: plan.has_changes(),
            namespace: plan.namespace.clone(),
            counts: plan.counts(),
            moves,
            unpooled: plan.unpooled.clone(),
            prunable: plan.prunable.clone(),
        });
        self.sort();
        self
    }
}

/// The nodes that come to another pool, by name. One that several pools contest is in none.
#[must_use]
pub fn moves(old: &Desired, new: &Desired, nodes: &BTreeMap<NodeName, Node>) -> Vec<Move> {
    let homes = |desired| {
        let members = membership(desired, nodes);
        let homes = members.pools.into_iter().flat_map(|(pool, nodes)| nodes.into_iter().map(move |node| (node, pool)));
        homes.map(|(node, pool)| (node.clone(), pool.clone())).collect::<BTreeMap<NodeName, PoolName>>()
    };
    let (was, becomes) = (homes(old), homes(new));
    let one = |node: &NodeName| {
        let (from, to) = (was.get(node).cloned(), becomes.get(node).cloned());
        (from != to).then(|| Move { node: node.clone(), from, to })
    };
    nodes.keys().filter_map(one).collect()
}

/// A pool of which nothing is known but the plan.
fn fresh(desired: &Desired, planned: &PoolPlan, plan: &Plan) -> PoolReview {
    let change = match (planned.assignments(), &planned.target) {
        (0, _) => PoolChange::Unchanged,
        (_, Target::Local) => PoolChange::ToLocal,
        _ => PoolChange::Changed,
    };
    let mut pool = PoolReview {
        name: planned.name.clone(),
        change,
        scope: desired.pools.get(&planned.name).map(setting_changes::scope).unwrap_or_default(),
        risk: PoolRisk::default(),
        config_map: ConfigMapChange::default(),
        changes: Vec::new(),
        settings: Vec::new(),
        files: Vec::new(),
        rollout: None,
    };
    pool.add(planned, plan);
    pool
}

impl PoolReview {
    fn add(&mut self, planned: &PoolPlan, plan: &Plan) {
        if self.change == PoolChange::Unchanged && planned.assignments() > 0 {
            self.change = PoolChange::Drift;
        }
        self.add_changes(planned);
        self.risk = risk(&self.risk, planned);
        self.config_map.after =
            planned.target.source().and_then(|source| source.config_map.as_ref()).map(|map| map.name.clone());
        self.config_map.create = plan.config_maps.iter().find(|map| map.pool == planned.name).map(|map| map.create);
        self.rollout = Some(rollout(planned));
    }

    /// Nodes whose change is the one between the revisions are counted there; what others leave is told apart.
    fn add_changes(&mut self, planned: &PoolPlan) {
        for set in &mut self.changes {
            set.nodes = Some(0);
        }
        for set in &planned.changes {
            let same = |known: &&mut Changes| known.from_known == set.from_known && known.fields == set.fields;
            if let Some(known) = self.changes.iter_mut().filter(|known| known.from == Start::Base).find(same) {
                known.nodes = known.nodes.map(|nodes| nodes + set.nodes);
                continue;
            }
            let from = set.from.clone().map_or(Start::Local, |source| Start::ConfigMap { source });
            let (fields, from_known) = (set.fields.clone(), set.from_known);
            self.changes.push(Changes { from, nodes: Some(set.nodes), from_known, fields });
        }
        // What cannot be known without a cluster is known now: from what the nodes of a new pool start.
        let guess = |set: &Changes| matches!(set.from, Start::Nothing | Start::Unreadable | Start::Local);
        if !planned.changes.is_empty() {
            self.changes.retain(|set| !(guess(set) && set.nodes == Some(0)));
        }
    }
}

/// What the plan says, and where it cannot tell for some nodes, what the revisions say as well.
fn risk(between: &PoolRisk, planned: &PoolPlan) -> PoolRisk {
    let says = &planned.disruption;
    let tells = planned.nodes > 0 && says.unknown == 0;
    let refused = says.worst.filter(|_| says.refused).map(|worst| Refusal {
        allowed: planned.policy.allow_disruption,
        help: way_out(&planned.name, worst, &says.state_files),
    });
    let (mut worst, mut state_files) = (says.worst, says.state_files.clone());
    if !tells && between.worst > worst {
        worst = between.worst;
        state_files.clone_from(&between.state_files);
    }
    let unknown = says.unknown > 0 || (planned.nodes == 0 && between.unknown);
    PoolRisk { worst, state_files, unknown, unknown_nodes: Some(says.unknown), refused }
}

fn rollout(planned: &PoolPlan) -> Rollout {
    let left = |left: &plan::LeftAlone| LeftAlone {
        node: left.node.clone(),
        why: left.why.clone(),
        reason: left.why.to_string(),
        blocked: left.why.is_blocked(),
    };
    Rollout {
        nodes: planned.nodes,
        budget: planned.budget,
        paused: planned.is_held(),
        pause: planned.paused.clone(),
        despite_pause: planned.despite_pause,
        assign: planned.assignments(),
        waves: planned.waves.clone(),
        left_alone: planned.left_alone.iter().map(left).collect(),
    }
}
