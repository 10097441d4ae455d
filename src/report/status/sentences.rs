//! Texts about nodes, pools and fleets in the status.

use jiff::Timestamp;

use super::super::source::short;
use crate::status::{Drift, FleetOrders, NodeStatus, Paused, PoolStatus, State, UnprovenNodes};
use nodecfg_contract::ConfigSource;
use nodecfg_observed::Readiness;
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

/// A note about a whole fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetNote {
    /// The kind of note.
    pub kind: &'static str,
    /// The kind of note as the start of a line.
    pub label: &'static str,
    /// The text. Parts come from the cluster.
    pub text: String,
    /// Whether the note is a warning.
    pub is_warning: bool,
}

/// The notes about a fleet: a running rollout, an order to stop, and unknown orders.
#[must_use]
pub fn fleet_notes(orders: &FleetOrders) -> Vec<FleetNote> {
    let fleet = &orders.fleet;
    let mut notes = Vec::new();
    if let Some(rollout) = &orders.rollout {
        let since = rollout.since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
        let text = format!("of {fleet}, by {}{since}", rollout.holder);
        notes.push(FleetNote { kind: "rollout", label: "Rollout:", text, is_warning: false });
        if let Some(abort) = orders.abort.as_ref().filter(|abort| abort.holder == rollout.holder) {
            let reason = abort.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let text = format!("the rollout of {fleet}, ordered by {} at {:.0}{reason}", abort.by, abort.at);
            notes.push(FleetNote { kind: "stopping", label: "Stopping:", text, is_warning: true });
        }
    }
    if let Some(unknown) = &orders.unknown {
        let text = format!("{fleet}: rollout and pauses unknown: {unknown}");
        notes.push(FleetNote { kind: "note", label: "Note:", text, is_warning: true });
    }
    notes
}

/// The kinds of notes about a pool, in display order.
pub const POOL_NOTES: [&str; 5] = ["paused", "held", "order", "new", "unproven"];

/// The note of a kind about a pool, without its name: why its nodes wait, which domain is on, which nodes are
/// new, and which may run other values.
#[must_use]
pub fn pool_note(pool: &PoolStatus, kind: &str, at: Timestamp) -> Option<String> {
    match kind {
        "paused" => pool.paused.as_ref().map(pause),
        "held" => pool.held.as_ref().map(ToString::to_string),
        "order" => pool.domain.as_ref().map(ToString::to_string),
        "new" => pool.new_nodes.as_ref().map(|new| new.text(at)),
        _ => pool.unproven.as_ref().map(UnprovenNodes::text),
    }
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
