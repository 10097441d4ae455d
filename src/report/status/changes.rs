//! Changes during `status --watch`: one line each, as text and JSON.

use std::iter;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::progress;
use super::super::style::{quiet, warning};
use super::super::table::styled;
use super::Row;
use super::build::draining;
use super::sentences::problem;
use crate::layout::{self, shorten_middle};
use crate::status::{Change, Compared, FleetOrders, FleetStatus, NodeStatus, State};
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::printable::one_line;

/// A change of the status.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum Line<'a> {
    /// A node changed or is new.
    Node {
        /// The node's new status.
        node: Box<Row<'a>>,
        /// The previous state. Unset for a new node.
        was: Option<State>,
    },
    /// A node was deleted.
    Gone {
        /// The name of the node.
        node: &'a NodeName,
        /// The pool of the node.
        pool: Option<&'a PoolName>,
    },
    /// The repository has another revision, with which the nodes are compared from now on.
    Compared {
        /// The revision.
        compared: &'a Compared,
    },
    /// A rollout started, ended or was ordered to stop, or a pool was paused or resumed.
    Orders {
        /// The orders of the fleet.
        orders: &'a FleetOrders,
    },
}

impl Kind for Line<'_> {
    const KIND: &'static str = "StatusChange";
}

/// The JSON form of a change.
#[must_use]
pub fn change_event<'a>(change: &Change<'a>) -> Line<'a> {
    match *change {
        Change::Node { node, was } => Line::Node { node: Box::new(Row::of(node)), was: was.map(|was| was.state) },
        Change::Gone { node, pool } => Line::Gone { node, pool },
        Change::Compared { compared } => Line::Compared { compared },
        Change::Orders { orders } => Line::Orders { orders },
    }
}

/// The text form of a change, with the time in UTC. `None` if the text would not change.
#[must_use]
pub fn change_line(now: Timestamp, change: &Change<'_>) -> Option<String> {
    let time = quiet(now.strftime("%Y-%m-%dT%H:%M:%SZ"));
    let in_pool = |pool: Option<&PoolName>| pool.map(|pool| format!(" ({pool})")).unwrap_or_default();
    Some(match change {
        Change::Node { node, was: Some(was) }
            if was.state == node.state && problem(was) == problem(node) && marked(was, now) == marked(node, now) =>
        {
            return None;
        }
        Change::Node { node, was } => {
            let state = styled(&node.state.to_string(), Some(node.state.grade()));
            let state = match was {
                Some(was) if was.state != node.state => format!("{} → {state}", was.state),
                Some(_) => state,
                None => format!("new, {state}"),
            };
            let released = was.is_some_and(|was| was.drain_mark.is_some()).then(|| "no longer draining".to_owned());
            let mark = marked(node, now).or(released).map(|mark| format!(", {mark}")).unwrap_or_default();
            let text = problem(node).map(|text| format!(": {}", one_line(&text))).unwrap_or_default();
            format!("{time} {}{}: {state}{mark}{text}", node.node, in_pool(node.pool.as_ref()))
        }
        Change::Gone { node, pool } => format!("{time} {node}{}: deleted", in_pool(*pool)),
        Change::Compared { compared } => format!("{time} compared with {}", revision(compared)),
        Change::Orders { orders } => {
            let rollout = match &orders.rollout {
                Some(rollout) => format!("{} holds the lock", one_line(&rollout.holder)),
                None => "the lock is free".to_owned(),
            };
            let abort = orders.orders.abort.as_ref().filter(|_| orders.rollout.is_some());
            let abort = abort.map(|abort| format!(", ordered to stop by {}", abort.by)).unwrap_or_default();
            let whole = orders.orders.paused.iter().map(|pause| format!("the whole fleet by {}", pause.by));
            let of_pools = orders.orders.pauses.iter().map(|(pool, pause)| format!("{pool} by {}", pause.by));
            let paused: Vec<String> = whole.chain(of_pools).collect();
            let paused = if paused.is_empty() { String::new() } else { format!("; paused: {}", paused.join(", ")) };
            let text = match &orders.unknown {
                Some(unknown) => format!("rollout and pauses unknown: {unknown}"),
                None => format!("{rollout}{abort}{paused}"),
            };
            format!("{time} {}: {}", orders.fleet, one_line(&text))
        }
    })
}

/// The mark of a drain, if the node has one.
fn marked(node: &NodeStatus, now: Timestamp) -> Option<String> {
    Some(draining(node.drain_mark.as_deref()?, now))
}

/// The fleet and the revision that nodes are compared with.
fn revision(compared: &Compared) -> String {
    format!("fleet {} {}", compared.fleet, progress::revision(compared.commit.as_ref()))
}

/// The first lines of the redrawn screen: the revision if any, the server and the time, then the problem if any, and an
/// empty line.
#[must_use]
pub fn screen_header(status: &FleetStatus, server: &str, problem: Option<&str>, width: usize) -> Vec<String> {
    let compared = status.compared.as_ref().map(|compared| format!("{}, on ", revision(compared))).unwrap_or_default();
    let tail = format!("  {}  Ctrl-C to exit", status.at.strftime("%H:%M:%S UTC"));
    let room = width.saturating_sub(layout::width(&tail));
    let first = quiet(format!("{}{tail}", shorten_middle(&format!("{compared}{}", one_line(server)), room)));
    let problem = problem.map(|problem| warning(shorten_middle(problem, width)));
    iter::once(first).chain(problem).chain([String::new()]).collect()
}
