//! What is to be done with one node of a pool. Called for every node while planning, and again for the one node whose
//! assignment met a change by another client.

use super::{Action, LeftAlone, Owner, Step, Why};
use crate::desired::Pool;
use crate::judge::{Convergence, Target, WaitContext, Waiting, judge};
use nodecfg_contract::names::FleetName;
use nodecfg_contract::observed::{Node, NodeSupport, Pause, Readiness};
use nodecfg_contract::{Assignment, ConfigSource};

/// What is to be done with a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It makes a transition.
    Step(Step),
    /// It is left alone.
    LeaveAlone(LeftAlone),
}

/// What is known of the ConfigMap that a node points at, as far as the decision needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whose it is.
    pub owner: Holder,
    /// Whether its content is the wanted one.
    pub same_content: bool,
}

/// Whose ConfigMap a node points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// This fleet's.
    Us,
    /// Another fleet's.
    Fleet(FleetName),
    /// Nobody's that nodecfg knows.
    Unknown,
}

/// Whether a pool is held as it is.
#[derive(Debug, Clone, Copy)]
pub struct PoolPause<'a> {
    /// Its policy says so.
    pub by_policy: bool,
    /// Somebody has ordered it, and this plan does not set it aside.
    pub by_order: Option<&'a Pause>,
}

impl<'a> PoolPause<'a> {
    /// Whether a pool is held, by what its policy says, if there is one, and by this order.
    #[must_use]
    pub fn of(pool: Option<&Pool>, by_order: Option<&'a Pause>) -> Self {
        Self { by_policy: pool.is_some_and(|pool| pool.policy.paused), by_order }
    }

    /// Whether it is.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.by_policy || self.by_order.is_some()
    }

    fn why(&self) -> Why {
        Why::Paused { order: self.by_order.cloned() }
    }
}

/// What the decision on one node depends on, apart from the node.
#[derive(Debug, Clone)]
pub struct Rules<'a> {
    /// What the pool's nodes shall run.
    pub target: &'a Target,
    /// Whether the pool is held as it is, and by whose order.
    pub held: PoolPause<'a>,
    /// Whether nodes may be taken over from ConfigMaps that this fleet does not manage.
    pub take_over: bool,
}

/// Decides what to do with `node`. `standing` tells about the ConfigMap that it points at now; it is asked only when that
/// is not the target.
pub fn decide(node: &Node, rules: &Rules<'_>, standing: impl FnOnce(&ConfigSource) -> Standing) -> Decision {
    let ready = node.ready == Readiness::Ready;
    let leave =
        |why| Decision::LeaveAlone(LeftAlone { node: node.name.clone(), unavailable: !is_available(node), why });
    let step = |action, was_ready| {
        let assignment =
            Assignment { uid: node.uid.clone(), from: node.source.clone(), to: rules.target.source().cloned() };
        let (node, available) = (node.name.clone(), is_available(node));
        Decision::Step(Step { node, assignment, action, was_ready, available, can_return: false, back_needs: None })
    };

    if node.deleting {
        return leave(Why::Deleting);
    }
    let assigned = rules.target.is_named_by(node.source.as_ref());
    let verdict = judge(rules.target, node, WaitContext::STATE_ONLY);
    if assigned && verdict == Convergence::Converged {
        return leave(Why::Converged);
    }
    if let Some(why) = unreached(node) {
        return leave(why);
    }
    if assigned {
        return match verdict {
            _ if rules.held.is_held() => leave(rules.held.why()),
            Convergence::Converged => leave(Why::Converged),
            Convergence::Waiting(waiting) => step(Action::Await { waiting: Some(waiting), error: None }, ready),
            Convergence::Failed(failure) => {
                step(Action::Await { waiting: None, error: Some(failure.to_string()) }, ready)
            }
        };
    }
    if let Some(source) = &node.source {
        let standing = standing(source);
        if is_adopted(node, source, &standing) {
            return leave(Why::Adopted { source: source.clone() });
        }
        match standing.owner {
            Holder::Fleet(fleet) if !rules.take_over => {
                return leave(Why::Conflict { source: source.clone(), owner: Owner::Fleet { fleet } });
            }
            Holder::Unknown if !rules.take_over => {
                return leave(Why::Conflict { source: source.clone(), owner: Owner::Unknown });
            }
            _ => {}
        }
    }
    if rules.held.is_held() {
        return leave(rules.held.why());
    }
    step(Action::Assign, ready)
}

/// Why no assignment reaches a node; `None` where something on it follows them.
#[must_use]
pub fn unreached(node: &Node) -> Option<Why> {
    match node.half {
        NodeSupport::Follows => None,
        NodeSupport::KubeletUnable { version } => Some(Why::Unsupported { version }),
        NodeSupport::KubeletSilent => Some(Why::NoDynamicConfig),
        NodeSupport::AgentSilent => Some(Why::AgentSilent),
        NodeSupport::Outlived => Some(Why::Outlived),
    }
}

/// Whether a node that points at `source`, which is not the target, is left there: it runs the wanted content already, under
/// another name, and needs no restart. Never so of another fleet's ConfigMap, which may be gone tomorrow.
#[must_use]
pub fn is_adopted(node: &Node, source: &ConfigSource, standing: &Standing) -> bool {
    matches!(standing, Standing { owner: Holder::Us | Holder::Unknown, same_content: true }) && runs(node, source)
}

/// Invariant 4: a node is available while it is Ready and neither in transition nor failed, with respect to whatever it
/// points at. A node that does not follow what it points at is in no transition; nor is one that cannot fetch it:
/// it goes on running what it has (recorded when a ConfigMap in use is deleted).
#[must_use]
pub fn is_available(node: &Node) -> bool {
    node.ready == Readiness::Ready
        && !node.deleting
        && (!node.follows_config_source()
            || matches!(present_state(node), Convergence::Converged | Convergence::Waiting(Waiting::Syncing { .. })))
}

/// Whether a node is broken by what it runs, so that another configuration may mend it and cannot make it worse: it is not
/// Ready, or it refuses what it points at. A Ready node in transition is unavailable too, but not broken: it would be
/// exposed, and waits for the canaries like any other.
pub(super) fn is_broken(node: &Node) -> bool {
    node.ready != Readiness::Ready || refuses(node)
}

/// Whether a node refuses what it points at.
pub(super) fn refuses(node: &Node) -> bool {
    matches!(present_state(node), Convergence::Failed(_))
}

/// How far a node is on its way to what it points at.
#[must_use]
pub fn present_state(node: &Node) -> Convergence {
    let present = node.source.clone().map_or(Target::Local, Target::Source);
    judge(&present, node, WaitContext::STATE_ONLY)
}

/// Whether the node runs what it points at: content is only adopted from a node that proves that it runs it.
fn runs(node: &Node, source: &ConfigSource) -> bool {
    node.source.as_ref() == Some(source) && present_state(node) == Convergence::Converged
}
