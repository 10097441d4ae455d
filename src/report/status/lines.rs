//! What changes while a fleet is watched: a line each, for people and for programs.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::style::quiet;
use super::super::table::styled;
use super::{Row, words};
use crate::layout::{self, shorten_middle};
use crate::status::{Change, FleetOrders, State};
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::printable::one_line;

/// A change, as programs read it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum Line<'a> {
    /// A node is not as it was, or is new.
    Node {
        /// How it is.
        node: Box<Row<'a>>,
        /// The state it was in; unset for a node that is new.
        was: Option<State>,
    },
    /// A node has left the cluster.
    Gone {
        /// The node.
        node: &'a NodeName,
        /// The pool it was in.
        pool: Option<&'a PoolName>,
    },
    /// Somebody has begun or ended a rollout, paused a pool or resumed one, or ordered a rollout to stop.
    Orders {
        /// How it is.
        orders: &'a FleetOrders,
    },
}

impl Kind for Line<'_> {
    const KIND: &'static str = "StatusChange";
}

/// A change, as programs read it.
#[must_use]
pub fn line_of<'a>(change: &Change<'a>) -> Line<'a> {
    match *change {
        Change::Node { node, was } => Line::Node { node: Box::new(Row::of(node)), was: was.map(|was| was.state) },
        Change::Gone { node, pool } => Line::Gone { node, pool },
        Change::Orders { orders } => Line::Orders { orders },
    }
}

/// A change, as people read it, with the time in UTC. `None`: there is nothing in it that people would read about.
#[must_use]
pub fn line(now: Timestamp, change: &Change<'_>) -> Option<String> {
    let time = quiet(now.strftime("%Y-%m-%dT%H:%M:%SZ"));
    let in_pool = |pool: Option<&PoolName>| pool.map(|pool| format!(" ({pool})")).unwrap_or_default();
    Some(match change {
        Change::Node { node, was: Some(was) } if was.state == node.state && words(was) == words(node) => return None,
        Change::Node { node, was } => {
            let state = styled(&node.state.to_string(), Some(node.state.grade()));
            let state = match was {
                Some(was) if was.state != node.state => format!("{} → {state}", was.state),
                Some(_) => state,
                None => format!("new, {state}"),
            };
            let words = words(node).map(|words| format!(": {}", one_line(&words))).unwrap_or_default();
            format!("{time} {}{}: {state}{words}", node.node, in_pool(node.pool.as_ref()))
        }
        Change::Gone { node, pool } => format!("{time} {node}{}: gone", in_pool(*pool)),
        Change::Orders { orders } => {
            let rollout = match &orders.rollout {
                Some(rollout) => format!("{} holds the lock", one_line(&rollout.holder)),
                None => "nobody holds the lock".to_owned(),
            };
            let abort = orders.abort.as_ref().filter(|_| orders.rollout.is_some());
            let abort = abort.map(|abort| format!(", {} told it to stop", abort.by)).unwrap_or_default();
            let paused: Vec<String> =
                orders.pauses.iter().map(|(pool, pause)| format!("{pool} by {}", pause.by)).collect();
            let paused = if paused.is_empty() { String::new() } else { format!("; paused: {}", paused.join(", ")) };
            let text = match &orders.unknown {
                Some(unknown) => format!("whether a rollout runs and what is paused is not known: {unknown}"),
                None => format!("{rollout}{abort}{paused}"),
            };
            format!("{time} {}: {}", orders.fleet, one_line(&text))
        }
    })
}

/// The first line of a screen that is drawn again and again.
#[must_use]
pub fn headline(server: &str, now: Timestamp, width: usize) -> String {
    let time = now.strftime("%H:%M:%S UTC");
    let tail = format!("  {time}  Ctrl-C ends");
    let room = width.saturating_sub(layout::width(&tail));
    quiet(format!("{}{tail}", shorten_middle(&one_line(server), room)))
}
