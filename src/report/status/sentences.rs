//! Texts about nodes, pools and fleets in the status.

use super::super::document::Item;
use super::super::source::short;
use crate::status::{Drift, FleetOrders, FleetStatus, NodeStatus, Paused, PoolStatus, State, UnprovenNodes};
use nodecfg_contract::ConfigSource;
use nodecfg_observed::{Abort, Readiness};
use nodecfg_plan::Owner;
use nodecfg_plan::convergence::{Convergence, ConvergenceFailure, Target, Waiting};

/// The problem of a node in a sentence without its name. `None` if the state needs no text.
#[must_use]
pub fn problem(node: &NodeStatus) -> Option<String> {
    let error = || node.error.clone().unwrap_or_default();
    Some(match node.state {
        State::Failed => match &node.verdict {
            Convergence::Failed(failure @ ConvergenceFailure::Overridden { .. }) => failure.to_string(),
            _ => error(),
        },
        State::CannotFetch => error(),
        State::NotReady => {
            let ready = match node.ready {
                Readiness::Unknown => "the kubelet stopped reporting its status",
                _ => "the kubelet reports NotReady",
            };
            match &node.verdict {
                Convergence::Converged => ready.to_owned(),
                _ => format!("{ready}; {}", progress(node)),
            }
        }
        State::Blocked => node.blocked.as_ref()?.to_string(),
        State::Drifted => drift(node.drift.as_ref()?),
        State::InTransition => progress(node),
        State::Behind => format!("desired: {}; not assigned yet", desired(node)),
        State::Paused => format!("desired: {}; the pool is paused", desired(node)),
        _ => return None,
    })
}

fn desired(node: &NodeStatus) -> String {
    match &node.desired {
        Some(Target::Source(wanted)) => short(Some(&wanted.source)),
        Some(Target::Local) | None => "local configuration".to_owned(),
    }
}

/// The progress of a node. An assignment that differs from the desired one comes first, because it takes effect next.
fn progress(node: &NodeStatus) -> String {
    let wanted = node.wanted.as_ref();
    let is_wanted = |source: Option<&ConfigSource>| match (wanted, source) {
        (Some(wanted), Some(source)) => source.names_same(wanted),
        (wanted, source) => wanted.is_none() && source.is_none(),
    };
    match &node.verdict {
        Convergence::Waiting(Waiting::NotAssigned) if !is_wanted(node.assigned.as_ref()) => {
            format!("assigned to {}, not yet acknowledged", short(wanted))
        }
        Convergence::Waiting(Waiting::NotAssigned) if !is_wanted(node.active.as_ref()) => {
            format!("assigned to {}, not yet running it", short(wanted))
        }
        Convergence::Waiting(Waiting::NotAssigned) => format!("desired: {}", desired(node)),
        Convergence::Converged => "converged".to_owned(),
        Convergence::Waiting(waiting) => waiting.to_string(),
        Convergence::Failed(failure) => failure.to_string(),
    }
}

/// The notes about a fleet: a running rollout, an order to stop, and unknown orders.
pub(super) fn fleet_notes(orders: &FleetOrders) -> Vec<Item> {
    let fleet = &orders.fleet;
    let rollout = orders.rollout.as_ref().map(|rollout| {
        let since = rollout.since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
        Item::labeled("rollout", format!("of {fleet}, by {}{since}", rollout.holder))
    });
    let of_rollout = |abort: &&Abort| orders.rollout.as_ref().is_some_and(|rollout| rollout.holder == abort.holder);
    let stopping = orders.orders.abort.as_ref().filter(of_rollout).map(|abort| {
        let reason = abort.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let text = format!("the rollout of {fleet}, ordered by {} at {:.0}{reason}", abort.by, abort.at);
        Item::warning("stopping", text)
    });
    let unknown = orders.unknown.as_ref();
    let unknown =
        unknown.map(|unknown| Item::warning("note", format!("{fleet}: rollout and pauses unknown: {unknown}")));
    [rollout, stopping, unknown].into_iter().flatten().collect()
}

/// The notes about a pool, with their labels: why its nodes wait, which domain is on, which nodes are new, and which may
/// run other values. Without a pause if the whole fleet is paused, which stands above.
pub(super) fn pool_notes(pool: &PoolStatus, status: &FleetStatus) -> Vec<(&'static str, String)> {
    let at = status.at;
    let is_own = pool.fleet.as_ref().is_none_or(|fleet| status.pause_of(fleet).is_none());
    let notes = [
        ("paused", pool.paused.as_ref().filter(|_| is_own).map(pause)),
        ("held", pool.held.as_ref().map(ToString::to_string)),
        ("order", pool.domain.as_ref().map(ToString::to_string)),
        ("step", pool.step.as_ref().map(ToString::to_string)),
        ("new", pool.new_nodes.as_ref().map(|new| new.text(at))),
        ("unproven", pool.unproven.as_ref().map(UnprovenNodes::text)),
    ];
    notes.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
}

/// Describes a drift and its fix.
#[must_use]
pub fn drift(drift: &Drift) -> String {
    match drift {
        Drift::Elsewhere { source, owner: Owner::Fleet { fleet } } => {
            format!("another client assigned {source} of the fleet {fleet}; a sync changes it only with --take-over")
        }
        Drift::Elsewhere { source, owner: Owner::Unknown } => {
            format!(
                "another client assigned {source}, which nodecfg does not manage; a sync changes it only with \
                 --take-over"
            )
        }
        Drift::OtherPool { source, pool } => {
            format!("assigned {source} of the pool {pool} instead of the configuration of its own pool")
        }
        Drift::Unselected { source } => {
            format!("assigned {source}, but no pool in the repository selects the node; a sync does not change it")
        }
        Drift::OtherContent { source } => {
            format!("{source} was deleted and recreated; the node still runs the previous content")
        }
    }
}

/// The author, start and reason of a pause.
fn pause(paused: &Paused) -> String {
    let order = paused.order.as_ref().map(|order| {
        let allowed = order.allowed.as_ref().map(|allowed| format!("; {allowed}")).unwrap_or_default();
        format!("by {} since {:.0}: {}{allowed}", order.by, order.at, order.reason)
    });
    match (paused.in_repository, order) {
        (true, Some(order)) => format!("in the repository (spec.rollout.paused), and {order}"),
        (_, Some(order)) => order,
        (_, None) => "in the repository (spec.rollout.paused)".to_owned(),
    }
}
