//! What became of an order: a pool that was paused or resumed, a rollout that was aborted; and what the next sync will do.

use std::io::{self, Write};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::document::Kind;
use super::markdown::{code, prose};
use super::review::lines;
use super::style::{good, heading, warning};
use super::{duration, names};
use crate::names::{FleetName, NamespaceName, PoolName};
use crate::observed::{Abort, Pause};
use crate::printable::one_line;

/// What became of orders about pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolOrders {
    /// The fleet.
    pub fleet: FleetName,
    /// Where the Lease is.
    pub namespace: NamespaceName,
    /// The pools, by name.
    pub pools: Vec<PoolOrder>,
    /// Who holds the lock of the fleet meanwhile, if anybody: a rollout notices within a few seconds.
    pub running: Option<Holder>,
}

impl Kind for PoolOrders {
    const KIND: &'static str = "PoolOrders";
}

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The identity: machine, process and a random number.
    pub identity: String,
    /// Since when, if it said.
    pub since: Option<Timestamp>,
}

/// What became of an order about one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolOrder {
    /// The pool.
    pub pool: PoolName,
    /// What happened.
    pub result: PoolResult,
    /// The pause that holds now.
    pub pause: Option<Pause>,
    /// The pause that held before.
    pub before: Option<Pause>,
    /// Whether the fleet has a ConfigMap of this pool. Without one it has never been rolled out, or nobody knows it.
    pub known: bool,
}

/// What happened to the pause of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PoolResult {
    /// It is paused now.
    Paused,
    /// It was paused before, and now is by somebody else, or for another reason.
    Updated,
    /// It is not paused any more.
    Resumed,
    /// It was not.
    NotPaused,
}

/// What became of the order to stop a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    /// The fleet.
    pub fleet: FleetName,
    /// Where the Lease is.
    pub namespace: NamespaceName,
    /// What happened.
    pub result: AbortResult,
    /// Who held the lock of the fleet; null when nobody did.
    pub holder: Option<Holder>,
    /// Until when the lock was held, where its holder has died.
    pub expired: Option<Timestamp>,
    /// The order; null when there was nobody to give it to.
    pub order: Option<Abort>,
    /// How long the end was waited for, in seconds.
    pub seconds: f64,
}

impl Kind for Aborted {
    const KIND: &'static str = "Abort";
}

/// What happened to a rollout that was to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AbortResult {
    /// Nobody held the lock.
    NothingRuns,
    /// Its holder has stopped renewing the lock, and cannot be asked.
    HolderDied,
    /// It has ended, and given up the lock.
    Ended,
    /// It still holds the lock after all the time there was.
    StillRunning,
}

/// Writes orders about pools for people.
///
/// # Errors
/// When the writer does.
pub fn pools(out: &mut dyn Write, orders: &PoolOrders) -> io::Result<()> {
    for order in &orders.pools {
        writeln!(out, "{}: {}", heading(&order.pool), happened(order))?;
        if !order.known && order.pause.is_some() {
            let fleet = &orders.fleet;
            writeln!(out, "  {}: fleet {fleet} has no ConfigMap of a pool of this name", warning("not known"))?;
        }
    }
    let [held, freed] = held_and_freed(orders);
    if !held.is_empty() {
        writeln!(out, "\nThe next sync leaves their nodes as they are.\nTo go on: nodecfg resume {}", held.join(" "))?;
    }
    if !freed.is_empty() {
        writeln!(out, "\n{}", freed_words(&freed))?;
    }
    if let Some(holder) = orders.running.as_ref().filter(|_| !held.is_empty() || !freed.is_empty()) {
        writeln!(out, "\n{} {}\n{}", warning("running now:"), holder_words(holder), running_words(!held.is_empty()))?;
    }
    out.flush()
}

/// The same as markdown.
///
/// # Errors
/// When the writer does.
pub fn pools_markdown(out: &mut dyn Write, orders: &PoolOrders) -> io::Result<()> {
    writeln!(out, "| pool | result | by | since | why |\n|---|---|---|---|---|")?;
    for order in &orders.pools {
        let pool = code(order.pool.as_str());
        let result = match order.result {
            PoolResult::Paused => "paused",
            PoolResult::Updated => "paused anew",
            PoolResult::Resumed => "resumed",
            PoolResult::NotPaused => "was not paused",
        };
        match order.pause.as_ref().or(order.before.as_ref()) {
            Some(Pause { by, at, reason }) => {
                let (by, reason) = (prose(&one_line(by)), prose(&one_line(reason)));
                writeln!(out, "| {pool} | {result} | {by} | {at:.0} | {reason} |")?;
            }
            None => writeln!(out, "| {pool} | {result} | | | |")?,
        }
    }
    let [held, freed] = held_and_freed(orders);
    if !held.is_empty() {
        writeln!(out, "\nThe next sync leaves their nodes as they are, until `nodecfg resume {}`.", held.join(" "))?;
    }
    if !freed.is_empty() {
        writeln!(out, "\n{}", freed_words(&freed).replace('\n', " "))?;
    }
    out.flush()
}

/// The pools that are held as they are now, and those that are not any more.
fn held_and_freed(orders: &PoolOrders) -> [Vec<&str>; 2] {
    let of = |results: &[PoolResult]| {
        let these = orders.pools.iter().filter(|order| results.contains(&order.result));
        these.map(|order| order.pool.as_str()).collect::<Vec<_>>()
    };
    [of(&[PoolResult::Paused, PoolResult::Updated]), of(&[PoolResult::Resumed])]
}

fn freed_words(freed: &[&str]) -> String {
    format!(
        "The next sync brings the nodes of {} to what the repository says,\nunless it says spec.rollout.paused.",
        names(freed.iter().copied(), 8)
    )
}

fn running_words(held: bool) -> &'static str {
    if held {
        "It starts no further nodes of them, within a few seconds; nodes on their way finish."
    } else {
        "It goes on without them: its plan was made while they were paused."
    }
}

fn happened(order: &PoolOrder) -> String {
    let before = order.before.as_ref().map(Pause::to_string).unwrap_or_default();
    match (order.result, &order.pause) {
        (PoolResult::Updated, Some(pause)) => format!("{} {pause}\n  before: {before}", good("paused anew")),
        (_, Some(pause)) => format!("{} {pause}", good("paused")),
        (PoolResult::Resumed, None) => format!("{}\n  was paused {before}", good("resumed")),
        (_, None) => "was not paused".to_owned(),
    }
}

fn holder_words(holder: &Holder) -> String {
    let since = holder.since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
    format!("{}{since}", one_line(&holder.identity))
}

impl Aborted {
    /// What happened, in sentences, and what the next sync will do.
    fn words(&self) -> Vec<String> {
        let fleet = &self.fleet;
        let holder = self.holder.as_ref().map(holder_words).unwrap_or_default();
        let next = "The next sync goes on from where the cluster is; pause a pool to keep it from that \
                    (nodecfg pause POOL --reason …)."
            .to_owned();
        let back = self.order.as_ref().is_some_and(|order| order.back);
        match self.result {
            AbortResult::NothingRuns => {
                vec![format!("Nothing to abort: nobody holds the lock of fleet {fleet}."), next]
            }
            AbortResult::HolderDied => {
                let expired = self.expired.map(|at| format!(", which expired at {at:.0}")).unwrap_or_default();
                vec![
                    format!("The rollout is dead: {holder} stopped renewing the lock of fleet {fleet}{expired}."),
                    "It starts nothing any more. Nodes that it had assigned go on to what they were pointed at."
                        .to_owned(),
                    next,
                ]
            }
            AbortResult::Ended => vec![
                format!("The rollout of fleet {fleet} has ended, after {}.", duration(self.seconds)),
                format!("It was run by {holder}."),
                if back {
                    "Nodes that had not converged were pointed back at what they had, where that was still there; \
                     the output of the rollout names them."
                        .to_owned()
                } else {
                    "Nodes that were on their way were watched to their end; no others were started.".to_owned()
                },
                next,
            ],
            AbortResult::StillRunning => vec![
                format!("The rollout of fleet {fleet} has not ended, after {}.", duration(self.seconds)),
                format!(
                    "{holder} still holds the lock. It has been told to stop; a node may take as long as the \
                         convergenceTimeout of its pool."
                ),
                "Ask again to go on waiting (--timeout), or have the nodes on their way pointed back (--back)."
                    .to_owned(),
            ],
        }
    }
}

/// That an abort has been asked for and the end is waited for, in a line.
#[must_use]
pub fn waiting(running: &Holder, order: Option<&Abort>) -> String {
    let asked = order.filter(|order| order.back).map_or("", |_| ", and to point back what has not converged");
    format!("asked {} to stop{asked}; waiting for it to end\n", holder_words(running))
}

/// Writes what became of an abort for people.
///
/// # Errors
/// When the writer does.
pub fn aborted(out: &mut dyn Write, aborted: &Aborted) -> io::Result<()> {
    for sentence in aborted.words() {
        for line in lines(&sentence, 80) {
            writeln!(out, "{line}")?;
        }
    }
    out.flush()
}

/// The same as markdown.
///
/// # Errors
/// When the writer does.
pub fn aborted_markdown(out: &mut dyn Write, aborted: &Aborted) -> io::Result<()> {
    for sentence in aborted.words() {
        writeln!(out, "- {}", prose(&sentence))?;
    }
    out.flush()
}
