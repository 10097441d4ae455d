//! What there is to say of a node or a pool, in words.

use super::super::source::short;
use crate::judge::{Target, Verdict};
use crate::observed::Readiness;
use crate::plan::Owner;
use crate::status::{Drift, NodeStatus, Paused, State};

/// What is the matter with a node, in a sentence without its name; nothing where the state says it all.
#[must_use]
pub fn words(node: &NodeStatus) -> Option<String> {
    let wants = || match &node.desired {
        Some(Target::Source(source)) => short(Some(source)),
        Some(Target::Local) | None => "its local configuration".to_owned(),
    };
    let error = || node.error.clone().unwrap_or_default();
    Some(match node.state {
        State::Converged | State::Deleting | State::Unpooled => return None,
        State::Failed | State::CannotFetch => error(),
        State::NotReady => {
            let ready = match node.ready {
                Readiness::Unknown => "its kubelet has not been heard of for a while",
                _ => "its kubelet says that it cannot run pods",
            };
            match &node.verdict {
                Verdict::Converged => ready.to_owned(),
                verdict => format!("{ready}; {}", progress(verdict)),
            }
        }
        State::Blocked => node.blocked.as_ref()?.to_string(),
        State::Drifted => drift(node.drift.as_ref()?),
        State::OnTheWay => progress(&node.verdict),
        State::Behind => format!("the repository wants {}: a sync will move it", wants()),
        State::Paused => format!("the repository wants {}; its pool is paused", wants()),
    })
}

fn progress(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Converged => "converged".to_owned(),
        Verdict::Waiting(waiting) => waiting.to_string(),
        Verdict::Failed(failure) => failure.to_string(),
    }
}

/// What somebody has changed, and the way out.
#[must_use]
pub fn drift(drift: &Drift) -> String {
    match drift {
        Drift::Elsewhere { source, owner: Owner::Fleet { fleet } } => {
            format!("somebody pointed it at {source} of the fleet {fleet}; a sync leaves it so without --take-over")
        }
        Drift::Elsewhere { source, owner: Owner::Unknown } => {
            format!(
                "somebody pointed it at {source}, which nodecfg does not manage; a sync leaves it so without --take-over"
            )
        }
        Drift::OtherPool { source, pool } => {
            format!("points at {source} of the pool {pool}: a sync will move it to its own")
        }
        Drift::Unselected { source } => {
            format!("points at {source}, and no pool of the repository selects it any more: no sync touches it")
        }
        Drift::Contested { pools } => {
            let pools: Vec<&str> = pools.iter().map(|pool| pool.as_str()).collect();
            format!("several pools select it: {}; give one of them a higher priority", pools.join(", "))
        }
        Drift::OtherContent { source } => {
            format!("{source} was deleted and made again after it took it; it runs what was there before")
        }
    }
}

/// By whom a pool is paused, since when and why.
#[must_use]
pub fn pause(paused: &Paused) -> String {
    let order = paused.order.as_ref().map(|order| format!("by {} since {:.0}: {}", order.by, order.at, order.reason));
    match (paused.in_repository, order) {
        (true, Some(order)) => format!("in the repository (spec.rollout.paused), and {order}"),
        (_, Some(order)) => order,
        (_, None) => "in the repository (spec.rollout.paused)".to_owned(),
    }
}
