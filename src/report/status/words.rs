//! What there is to say of a node or a pool, in words.

use super::super::source::short;
use crate::status::{Drift, FleetOrders, NodeStatus, Paused, State};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::observed::Readiness;
use nodecfg_planning::judge::{Convergence, Target, Waiting};
use nodecfg_planning::plan::Owner;

/// What is the matter with a node, in a sentence without its name; nothing where the state says it all.
#[must_use]
pub fn words(node: &NodeStatus) -> Option<String> {
    let wants = || wants(node);
    let error = || node.error.clone().unwrap_or_default();
    Some(match node.state {
        State::Failed | State::CannotFetch => error(),
        State::NotReady => {
            let ready = match node.ready {
                Readiness::Unknown => "its kubelet has not been heard of for a while",
                _ => "its kubelet says that it cannot run pods",
            };
            match &node.verdict {
                Convergence::Converged => ready.to_owned(),
                _ => format!("{ready}; {}", progress(node)),
            }
        }
        State::Blocked => node.blocked.as_ref()?.to_string(),
        State::Drifted => drift(node.drift.as_ref()?),
        State::OnTheWay => progress(node),
        State::Behind => format!("the repository wants {}: a sync will move it", wants()),
        State::Paused => format!("the repository wants {}; its pool is paused", wants()),
        _ => return None,
    })
}

fn wants(node: &NodeStatus) -> String {
    match &node.desired {
        Some(Target::Source(source)) => short(Some(source)),
        Some(Target::Local) | None => "its local configuration".to_owned(),
    }
}

/// How far a node is. Where it points elsewhere than it shall, that comes first: it is what happens next.
fn progress(node: &NodeStatus) -> String {
    let aim = node.wanted.as_ref();
    let is_aim = |source: Option<&ConfigSource>| match (aim, source) {
        (Some(aim), Some(source)) => source.names_same(aim),
        (aim, source) => aim.is_none() && source.is_none(),
    };
    match &node.verdict {
        Convergence::Waiting(Waiting::NotAssigned) if !is_aim(node.assigned.as_ref()) => {
            format!("it is pointed at {} now, and has not taken that yet", short(aim))
        }
        Convergence::Waiting(Waiting::NotAssigned) if !is_aim(node.active.as_ref()) => {
            format!("it is pointed at {} now, and does not run that yet", short(aim))
        }
        Convergence::Waiting(Waiting::NotAssigned) => format!("the repository wants {}", wants(node)),
        Convergence::Converged => "converged".to_owned(),
        Convergence::Waiting(waiting) => waiting.to_string(),
        Convergence::Failed(failure) => failure.to_string(),
    }
}

/// What there is to know of a fleet as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What kind of thing it is, in a word.
    pub word: &'static str,
    /// The same as it begins a line.
    pub label: &'static str,
    /// What there is to know. Parts of it come from the cluster.
    pub text: String,
    /// Whether it is more than a fact.
    pub is_warning: bool,
}

/// Who rolls out a fleet, whether they were told to stop, and what is not known of it.
#[must_use]
pub fn of_fleet(orders: &FleetOrders) -> Vec<Told> {
    let fleet = &orders.fleet;
    let mut told = Vec::new();
    if let Some(rollout) = &orders.rollout {
        let since = rollout.since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
        let text = format!("of {fleet}, by {}{since}", rollout.holder);
        told.push(Told { word: "rollout", label: "Rollout:", text, is_warning: false });
        if let Some(abort) = orders.abort.as_ref().filter(|abort| abort.holder == rollout.holder) {
            let reason = abort.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let text = format!("the rollout of {fleet}: told to by {} at {:.0}{reason}", abort.by, abort.at);
            told.push(Told { word: "stopping", label: "Stopping:", text, is_warning: true });
        }
    }
    if let Some(unknown) = &orders.unknown {
        let text = format!("{fleet}: whether a rollout runs and what is paused is not known: {unknown}");
        told.push(Told { word: "note", label: "Note:", text, is_warning: true });
    }
    told
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
