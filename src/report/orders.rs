//! What became of an order: a pool that was paused or resumed, a rollout that was aborted; and what the next sync will do.

use nodecfg_contract::json_document::Kind;
use std::io::{self, Write};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use textwrap::fill;

use super::markdown::{code, prose};
use super::style::{heading, warning};
use super::{duration, names};
use crate::layout::within;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::observed::{Abort, Pause};
use nodecfg_contract::printable::one_line;

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

/// Writes orders about pools for people, in lines of about so many columns. `place` is what was said of where the fleet is, as
/// arguments: whoever goes on says it again.
///
/// # Errors
/// When the writer does.
pub fn pools(out: &mut dyn Write, orders: &PoolOrders, place: &str, width: usize) -> io::Result<()> {
    for order in &orders.pools {
        write_pool(out, &orders.fleet, order, width)?;
    }
    let [held, freed] = held_and_freed(orders);
    if !held.is_empty() {
        writeln!(out, "\nThe next sync leaves their nodes as they are.")?;
        hanging(out, 0, &format!("To go on: {}", resume(&held, place)), width)?;
    }
    if !freed.is_empty() {
        writeln!(out, "\n{}", fill(&freed_words(&freed), within(width)))?;
    }
    if let Some(holder) = orders.running.as_ref().filter(|_| !held.is_empty() || !freed.is_empty()) {
        writeln!(out)?;
        hanging(out, 0, &format!("{} {}", warning("running now:"), holder_words(holder)), width)?;
        writeln!(out, "{}", fill(running_words(!held.is_empty()), within(width)))?;
    }
    out.flush()
}

fn write_pool(out: &mut dyn Write, fleet: &FleetName, order: &PoolOrder, width: usize) -> io::Result<()> {
    let (result, pause) = match (order.result, &order.pause) {
        (PoolResult::Updated, Some(pause)) => ("paused anew", format!(" {pause}")),
        (_, Some(pause)) => ("paused", format!(" {pause}")),
        (PoolResult::Resumed, None) => ("resumed", String::new()),
        (_, None) => ("was not paused", String::new()),
    };
    hanging(out, 0, &format!("{} {result}{pause}", heading(format!("{}:", order.pool))), width)?;
    if let Some(before) = &order.before {
        let label = if order.pause.is_some() { "before:" } else { "was paused" };
        hanging(out, 2, &format!("{label} {before}"), width)?;
    }
    if !order.known && order.pause.is_some() {
        let text = format!("{} fleet {fleet} has no ConfigMap of a pool of this name", warning("not known:"));
        hanging(out, 2, &text, width)?;
    }
    Ok(())
}

/// A text in lines that fit, the first after `indent` columns and the others two columns further in.
fn hanging(out: &mut dyn Write, indent: usize, text: &str, width: usize) -> io::Result<()> {
    let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
    writeln!(out, "{}", fill(text, within(width).initial_indent(&first).subsequent_indent(&rest)))
}

/// The command that lifts pauses.
fn resume(pools: &[&str], place: &str) -> String {
    format!("nodecfg resume {}{place}", pools.join(" "))
}

/// The same as markdown.
///
/// # Errors
/// When the writer does.
pub fn pools_markdown(out: &mut dyn Write, orders: &PoolOrders, place: &str) -> io::Result<()> {
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
        writeln!(out, "\nThe next sync leaves their nodes as they are, until `{}`.", resume(&held, place))?;
    }
    if !freed.is_empty() {
        writeln!(out, "\n{}", freed_words(&freed))?;
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
        "The next sync brings the nodes of {} to what the repository says, unless it says spec.rollout.paused.",
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

/// That an abort has been asked for and the end is waited for, in lines of about so many columns.
#[must_use]
pub fn waiting(running: &Holder, order: Option<&Abort>, width: usize) -> String {
    let asked = order.filter(|order| order.back).map_or("", |_| ", and to point back what has not converged");
    let text = format!("Asked {} to stop{asked}; waiting for it to end.", holder_words(running));
    fill(&text, within(width)) + "\n"
}

/// Writes what became of an abort for people, in lines of about so many columns.
///
/// # Errors
/// When the writer does.
pub fn aborted(out: &mut dyn Write, aborted: &Aborted, width: usize) -> io::Result<()> {
    for sentence in aborted.words() {
        writeln!(out, "{}", fill(&sentence, within(width)))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn paused(pools: &[&str]) -> PoolOrders {
        let pause = Pause {
            by: "somebody-with-a-long-name@a-machine.with.a.long.domain.example".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            reason: "disks are being replaced in both rows, and nobody knows until when it will take".to_owned(),
        };
        let order = |pool: &&str| PoolOrder {
            pool: PoolName::new(*pool).expect("a name"),
            result: PoolResult::Updated,
            pause: Some(pause.clone()),
            before: Some(pause.clone()),
            known: false,
        };
        let identity = format!("{}_4711_00112233445566aa", "h".repeat(40));
        PoolOrders {
            fleet: FleetName::new("default").expect("a name"),
            namespace: NamespaceName::new("kube-system").expect("a name"),
            pools: pools.iter().map(order).collect(),
            running: Some(Holder { identity, since: Some(Timestamp::UNIX_EPOCH) }),
        }
    }

    #[test]
    fn every_line_fits_and_no_name_is_broken() {
        let orders = paused(&["general", "gpu"]);
        let mut out = Vec::new();
        pools(&mut out, &orders, " --fleet default", 80).expect("memory");
        let text = anstream::adapter::strip_str(&String::from_utf8(out).expect("text")).to_string();
        let running = orders.running.as_ref().expect("set");
        let text = text + &waiting(running, None, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("To go on: nodecfg resume general gpu --fleet default\n"), "{text}");
        assert_eq!(text.matches(&running.identity).count(), 2, "{text}");
        assert_eq!(text.matches("somebody-with-a-long-name@a-machine.with.a.long.domain.example").count(), 4, "{text}");
    }
}
