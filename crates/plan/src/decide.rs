//! Decision on one node of a pool: assign, watch, or leave unchanged. Planning calls [`decide`] for every node in
//! scope. A rollout calls it again for a node whose assignment conflicts with another client.

use super::drains::{DrainNeed, drain_by, drain_by_other};
use super::{Action, LeftAlone, Owner, Step, Why};
use crate::config_maps::CurrentSource;
use crate::convergence::{Convergence, Target, WaitContext, evaluate};
use crate::present::is_available;
use nodecfg_contract::names::FleetName;
use nodecfg_contract::{Assignment, ConfigSource, Placement};
use nodecfg_fleet::{Pool, RolloutPolicy};
use nodecfg_observed::{Node, Pause, Readiness};

/// Decision on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The node gets a step.
    Step(Step),
    /// The node is left unchanged.
    LeaveAlone(LeftAlone),
}

/// Pause state of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolPause<'a> {
    /// Whether the policy pauses the pool.
    pub by_policy: bool,
    /// Pause by an operator that this plan does not override.
    pub by_order: Option<&'a Pause>,
}

impl<'a> PoolPause<'a> {
    /// Combines the policy of the pool, if any, with the order of an operator.
    #[must_use]
    pub fn of(pool: Option<&Pool>, by_order: Option<&'a Pause>) -> Self {
        Self { by_policy: pool.is_some_and(|pool| pool.policy.is_paused()), by_order }
    }

    /// Reports whether the pool is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.by_policy || self.by_order.is_some()
    }

    fn why(&self) -> Why {
        Why::Paused { order: self.by_order.cloned().map(Box::new) }
    }
}

/// Inputs of the decision apart from the node.
#[derive(Debug, Clone)]
pub struct Rules<'a> {
    /// Target of the pool.
    pub target: &'a Target,
    /// Pause state of the pool.
    pub pause: PoolPause<'a>,
    /// Whether nodes may be moved from ConfigMaps that this fleet does not manage.
    pub take_over: bool,
    /// Rollout policy of the pool.
    pub policy: &'a RolloutPolicy,
    /// The fleet.
    pub fleet: &'a FleetName,
}

/// Decides on `node`. `current_source` describes the ConfigMap that the node points at. It is called only for a
/// supported node that points at a ConfigMap other than the target. `drain_need` returns whether the node must be
/// drained for its assignment.
pub fn decide(
    node: &Node,
    rules: &Rules<'_>,
    current_source: impl FnOnce(&ConfigSource) -> CurrentSource,
    drain_need: impl Fn() -> DrainNeed,
) -> Decision {
    let ready = node.ready == Readiness::Ready;
    let content = node.content.unwrap_or_default();
    let leave = |why| Decision::LeaveAlone(LeftAlone::new(node, why));
    let step = |action, from_hash| {
        if let Some(by) = node.maintainer {
            return leave(Why::Maintained { by });
        }
        if let Some(drain) = drain_by_other(node, rules.fleet) {
            return leave(Why::DrainedBy { fleet: drain.fleet.clone() });
        }
        let need = if action == Action::Assign { drain_need() } else { DrainNeed::None };
        let drain = need != DrainNeed::None;
        let assignment = Assignment {
            uid: node.uid.clone(),
            from: node.source.clone(),
            to: rules.target.source().cloned(),
            from_hash,
            to_hash: rules.target.hash(),
            from_placement: content.placement,
            to_placement: placement_to(rules.target, node),
            present_placement: Some(node.assigned_placement()),
            max_disruption: rules.policy.max_disruption(drain),
        };
        let marked = drain_by(node, rules.fleet).is_some();
        let self_assigned = node.is_self_assigned();
        let (node, available) = (node.name.clone(), is_available(node));
        let (was_ready, can_return, rollback_needs) = (ready, false, None);
        Decision::Step(Step {
            node,
            assignment,
            action,
            was_ready,
            available,
            can_return,
            rollback_needs,
            rollback_drain: drain,
            drain,
            domain: 0,
            drain_unknown: need == DrainNeed::Unknown,
            marked,
            self_assigned,
        })
    };
    let assigned_hash = content.assigned;

    if node.deleting {
        return leave(Why::Deleting);
    }
    let assigned = rules.target.is_named_by(node.source.as_ref());
    let verdict = evaluate(rules.target, node, WaitContext::STATE_ONLY);
    // What a node omitted from its own assignment is not added beside the rollout, but by an assignment in its turn.
    let is_unverified = node.is_self_assigned() && lacks(node, rules.target);
    if assigned && verdict == Convergence::Converged && (!is_unverified || node.obstacle.is_some()) {
        return Decision::LeaveAlone(completed(LeftAlone::new(node, Why::Converged), node, rules));
    }
    if let Some(obstacle) = &node.obstacle {
        return leave(Why::Obstacle(obstacle.clone()));
    }
    if let Some(why) = outdated_agent(node, rules.target) {
        return leave(why);
    }
    if assigned {
        return match verdict {
            _ if rules.pause.is_paused() => leave(rules.pause.why()),
            _ if is_incomplete(node, rules, || drain_need() != DrainNeed::None) => step(Action::Assign, assigned_hash),
            Convergence::Converged => leave(Why::Converged),
            Convergence::Waiting(waiting) => {
                step(Action::Await { waiting: Some(waiting), failure: None }, assigned_hash)
            }
            Convergence::Failed(failure) => {
                step(Action::Await { waiting: None, failure: Some(Box::new(failure)) }, assigned_hash)
            }
        };
    }
    let mut from_hash = None;
    if let Some(source) = &node.source {
        let current = current_source(source);
        if is_adopted(node, &current) {
            let left = LeftAlone::new(node, Why::Adopted { source: source.clone() });
            return Decision::LeaveAlone(completed(left, node, rules));
        }
        from_hash = assigned_hash.or(current.wanted.hash);
        if let Some(owner) = current.other_owner
            && !rules.take_over
        {
            return leave(Why::Conflict { source: source.clone(), owner });
        }
    }
    if rules.pause.is_paused() {
        return leave(rules.pause.why());
    }
    step(Action::Assign, from_hash)
}

/// Placement that an assignment to a target writes. A target without one keeps that of the NodeConfig.
fn placement_to(target: &Target, node: &Node) -> Option<Placement> {
    let present = node.content.and_then(|content| content.placement);
    target.placement().or(present).filter(|_| target.source().is_some())
}

/// Reports whether the assignment of a node requires other content or another placement than the target.
fn lacks(node: &Node, target: &Target) -> bool {
    node.content.is_some_and(|content| content.assigned != target.hash() || content.placement != target.placement())
}

/// Reports whether an assignment to the target must be written again: it [lacks](lacks) something, or it allows less
/// disruption than the pool, which may be what keeps the node from its target.
pub(super) fn is_incomplete(node: &Node, rules: &Rules<'_>, needs_drain: impl Fn() -> bool) -> bool {
    let Some(content) = node.content else { return false };
    lacks(node, rules.target) || content.allows_less_than(rules.policy.max_disruption(needs_drain()))
}

/// Adds content hash and placement to the NodeConfig of a node that runs the desired content with this placement, unless
/// the pool is paused. An assignment of a reconciler before `spec.contentHash` or `spec.placement` has none.
fn completed(left: LeftAlone, node: &Node, rules: &Rules<'_>) -> LeftAlone {
    // The write would end `spec.selfAssigned`, although only its own agent has chosen the configuration.
    if !lacks(node, rules.target)
        || node.is_self_assigned()
        || node.source.is_none()
        || rules.pause.is_paused()
        || node.obstacle.is_some()
    {
        return left;
    }
    let content = node.content.unwrap_or_default();
    let added = Assignment {
        uid: node.uid.clone(),
        from: node.source.clone(),
        to: node.source.clone(),
        from_hash: None,
        to_hash: rules.target.hash(),
        from_placement: content.placement,
        to_placement: placement_to(rules.target, node),
        present_placement: Some(node.assigned_placement()),
        max_disruption: rules.policy.max_disruption(false),
    };
    LeftAlone { completion: Some(Box::new(added)), ..left }
}

/// Reason why no assignment may be sent to the node: it does not follow assignments, its state is unknown, or another
/// program maintains it.
#[must_use]
pub fn blocked_reason(node: &Node) -> Option<Why> {
    node.obstacle.clone().map(Why::Obstacle).or_else(|| node.maintainer.map(|by| Why::Maintained { by }))
}

/// Reason why the agent of a node would ignore the placement of a target.
#[must_use]
pub fn outdated_agent(node: &Node, target: &Target) -> Option<Why> {
    let is_outdated = node.content.is_some_and(|content| content.lacks_placements());
    (target.placement().is_some() && is_outdated).then_some(Why::AgentOutdated)
}

/// Reason why a rollout must not start the node in its present state.
#[must_use]
pub fn hold_reason(node: &Node) -> Option<Why> {
    if node.deleting {
        return Some(Why::Deleting);
    }
    blocked_reason(node).filter(Why::may_end)
}

/// Reports whether a node that points at another ConfigMap than its target is left unchanged because its status proves
/// that it runs the desired content already. Never true for the ConfigMap of another fleet, which that fleet may delete.
#[must_use]
pub fn is_adopted(node: &Node, current: &CurrentSource) -> bool {
    let runs = || evaluate(&Target::Source(current.wanted.clone()), node, WaitContext::STATE_ONLY);
    !matches!(current.other_owner, Some(Owner::Fleet { .. }))
        && current.same_content
        && runs() == Convergence::Converged
}
