//! Reports of `pause`, `resume` and `abort`: the result of the order, and its effect on the next sync.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use textwrap::fill;

use super::document::{Block, Conclusion, Item, Report, Text};
use super::{duration, names, paused};
use crate::layout::within;
use crate::status::{Grade, Paused};
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::printable::one_line;
use nodecfg_observed::{Abort, Pause};

/// Result of orders for pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolOrders {
    /// The fleet.
    pub fleet: FleetName,
    /// The namespace of the Lease.
    pub namespace: NamespaceName,
    /// The pools, by name.
    pub pools: Vec<PoolOrder>,
    /// The pause of the whole fleet, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// The other pools that are paused by themselves.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub also_paused: BTreeSet<PoolName>,
    /// The holder of the fleet's lock, if any. A running rollout notices the order within a few seconds.
    pub running: Option<Holder>,
}

impl Kind for PoolOrders {
    const KIND: &'static str = "PoolOrders";
}

/// The holder of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The identity: machine, process and a random number.
    pub identity: String,
    /// When the holder took the lock, if known.
    pub since: Option<Timestamp>,
}

/// Result of an order for one pool, or for the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolOrder {
    /// The pool. Null: the whole fleet.
    pub pool: Option<PoolName>,
    /// The result.
    pub result: PoolResult,
    /// The current pause.
    pub pause: Option<Pause>,
    /// The previous pause.
    pub before: Option<Pause>,
    /// Whether the fleet has a ConfigMap for this pool. Without one, the pool was never rolled out or does not exist.
    pub known: bool,
}

/// Name of the whole fleet beside those of pools.
const WHOLE_FLEET: &str = "the whole fleet";

/// Result for the pause of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PoolResult {
    /// The pool is now paused.
    Paused,
    /// The pool was already paused. The author or the reason changed.
    Updated,
    /// The pool is no longer paused.
    Resumed,
    /// The pool was not paused.
    NotPaused,
}

/// Result of the order to stop a rollout.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    /// The fleet.
    pub fleet: FleetName,
    /// The namespace of the Lease.
    pub namespace: NamespaceName,
    /// The result.
    pub result: AbortResult,
    /// The holder of the lock. Null if the lock was free.
    pub holder: Option<Holder>,
    /// When the lock expired, if its holder died.
    pub expired: Option<Timestamp>,
    /// The order. Null without a running rollout.
    pub order: Option<Abort>,
    /// How long the command waited for the end, in seconds.
    pub seconds: f64,
}

impl Kind for Aborted {
    const KIND: &'static str = "Abort";
}

/// Result for a rollout that was ordered to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AbortResult {
    /// The lock was free.
    NothingRuns,
    /// The holder stopped renewing the lock, so it cannot receive the order.
    HolderDied,
    /// The rollout ended and released the lock.
    Ended,
    /// The rollout still held the lock at the timeout.
    StillRunning,
}

/// The results of orders for pools, and their effect on the next sync and on a running rollout. `fleet_arguments` are the
/// arguments that select the fleet, for the suggested command.
#[must_use]
pub fn pools(command: &'static str, orders: &PoolOrders, fleet_arguments: &str) -> Report {
    let [paused, resumed] = paused_and_resumed(orders);
    let by_name = orders.pools.iter().all(|order| order.pool.is_some());
    let first = Paused::of(false, orders.paused.as_ref().filter(|_| by_name));
    let first = paused::items(first.as_ref());
    let results = orders.pools.iter().map(|order| result(&orders.fleet, order));
    let resume = |pools: &str| Text::name(format!("nodecfg resume {pools}{fleet_arguments}"));
    let next = (!paused.is_empty()).then(|| {
        let command = match (by_name, &orders.paused) {
            (false, _) => resume("--all"),
            (true, None) => resume(&paused.join(" ")),
            (true, Some(_)) => resume(&paused.join(" ")).then(" and ").then(resume("--all")),
        };
        Item::labeled("To continue", command)
    });
    let running = orders.running.as_ref().filter(|_| !paused.is_empty() || !resumed.is_empty()).map(|holder| {
        let effect = Item::new(effect_on_running(!paused.is_empty(), by_name));
        Item::warning("running now", holder_text(holder)).with([effect])
    });
    let effects = [
        (!paused.is_empty())
            .then(|| format!("The next sync changes no nodes of {}.", names(paused.iter().copied(), 8))),
        (!resumed.is_empty()).then(|| after_resume(&resumed, orders, by_name)),
    ];
    let effects: Vec<String> = effects.into_iter().flatten().collect();
    let result = if effects.is_empty() { "Nothing changed.".to_owned() } else { effects.join(" ") };
    Report {
        command,
        result: Some(Conclusion::sentence(Grade::Neutral, result)),
        blocks: first.chain(results).chain(running).chain(next).map(Block::Item).collect(),
        complete: true,
        ..Report::default()
    }
}

fn result(fleet: &FleetName, order: &PoolOrder) -> Item {
    // The item begins with what is paused.
    let shown = |pause: &Option<Pause>| pause.clone().map(|pause| Pause { whole_fleet: false, ..pause });
    let (result, pause) = match (order.result, shown(&order.pause)) {
        (PoolResult::Updated, Some(pause)) => ("pause updated:", format!(" {pause}")),
        (_, Some(pause)) => ("paused", format!(" {pause}")),
        (PoolResult::Resumed, None) => ("resumed", String::new()),
        (_, None) => ("was not paused", String::new()),
    };
    let before = shown(&order.before).map(|before| {
        let label = if order.pause.is_some() { "previously:" } else { "was paused" };
        Item::new(format!("{label} {before}"))
    });
    let unknown = (!order.known && order.pause.is_some())
        .then(|| Item::warning("unknown pool", format!("fleet {fleet} has no ConfigMap for a pool of this name")));
    Item::new(name(order).then(format!(": {result}{pause}"))).with(before.into_iter().chain(unknown))
}

fn name(order: &PoolOrder) -> Text {
    order.pool.as_ref().map_or_else(|| WHOLE_FLEET.into(), |pool| Text::name(pool.as_str()))
}

/// The pools that are now paused, and those that were resumed.
fn paused_and_resumed(orders: &PoolOrders) -> [Vec<&str>; 2] {
    let of = |results: &[PoolResult]| {
        let these = orders.pools.iter().filter(|order| results.contains(&order.result));
        these.map(|order| order.pool.as_ref().map_or(WHOLE_FLEET, PoolName::as_str)).collect::<Vec<_>>()
    };
    [of(&[PoolResult::Paused, PoolResult::Updated]), of(&[PoolResult::Resumed])]
}

fn after_resume(resumed: &[&str], orders: &PoolOrders, by_name: bool) -> String {
    let resumed = names(resumed.iter().copied(), 8);
    let also = &orders.also_paused;
    if by_name && orders.paused.is_some() {
        format!("The next sync changes no nodes of {resumed}: the whole fleet is paused.")
    } else if !by_name && !also.is_empty() {
        let (but, is) = (names(also.iter().map(PoolName::as_str), 8), if also.len() == 1 { "is" } else { "are" });
        format!(
            "The next sync includes {resumed} but {but}, which {is} paused by name, unless the repository pauses more."
        )
    } else {
        format!("The next sync includes {resumed}, unless it is paused in the repository.")
    }
}

fn effect_on_running(paused: bool, by_name: bool) -> &'static str {
    match (paused, by_name) {
        (true, true) => "Within a few seconds it starts no further nodes of these pools; nodes in transition finish.",
        (true, false) => "Within a few seconds it starts no further nodes; nodes in transition finish.",
        (false, _) => "It continues without pools that were paused when it made its plan, or that it saw paused since.",
    }
}

fn holder_text(holder: &Holder) -> String {
    let since = holder.since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
    format!("{}{since}", one_line(&holder.identity))
}

impl Aborted {
    /// The result in sentences, with the effect on the next sync.
    fn sentences(&self) -> Vec<String> {
        let fleet = &self.fleet;
        let holder = self.holder.as_ref().map(holder_text).unwrap_or_default();
        let next = "The next sync continues from the current state; to prevent that, pause the pool \
                    (`nodecfg pause POOL --reason TEXT`) or the fleet (`nodecfg pause --all --reason TEXT`)."
            .to_owned();
        let back = self.order.as_ref().is_some_and(|order| order.back);
        match self.result {
            AbortResult::NothingRuns => {
                vec![format!("Nothing to abort: the lock of fleet {fleet} is free."), next]
            }
            AbortResult::HolderDied => {
                let expired = self.expired.map(|at| format!(", which expired at {at:.0}")).unwrap_or_default();
                vec![
                    format!("The rollout is dead: {holder} stopped renewing the lock of fleet {fleet}{expired}."),
                    "It starts no further nodes. Nodes that it assigned continue to their new configuration."
                        .to_owned(),
                    next,
                ]
            }
            AbortResult::Ended => vec![
                format!("The rollout of fleet {fleet} ended after {}.", duration(self.seconds)),
                format!("Its holder was {holder}."),
                if back {
                    "Nodes that had not converged returned to their previous configuration, unless it was deleted; \
                     the output of the rollout lists them."
                        .to_owned()
                } else {
                    "It waited for nodes in transition and started no others.".to_owned()
                },
                next,
            ],
            AbortResult::StillRunning => vec![
                format!("The rollout of fleet {fleet} still runs after {}.", duration(self.seconds)),
                format!(
                    "{holder} still holds the lock. It received the order to stop; a node may take as long as the \
                         convergenceTimeout of its pool."
                ),
                "Run the command again to wait longer (--timeout), or to roll back the nodes in transition (--back)."
                    .to_owned(),
            ],
        }
    }
}

/// The message while `abort` waits for the end of the rollout.
#[must_use]
pub fn waiting(running: &Holder, order: Option<&Abort>, width: usize) -> String {
    let back = order.filter(|order| order.back).map_or("", |_| " and to roll back nodes that have not converged");
    let text = format!("Ordered {} to stop{back}; waiting for it to end.", holder_text(running));
    fill(&text, within(width)) + "\n"
}

/// The result of an abort.
#[must_use]
pub fn aborted(aborted: &Aborted) -> Report {
    let mut sentences = aborted.sentences().into_iter();
    let result = sentences.next().map(|first| Conclusion::sentence(Grade::Neutral, first));
    let mut items: Vec<Item> = sentences.map(Item::new).collect();
    if let Some(next) = items.last_mut() {
        next.label = Some("next");
    }
    Report {
        command: "abort",
        result,
        blocks: items.into_iter().map(Block::Item).collect(),
        complete: true,
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::tests::text;

    fn paused(pools: &[&str]) -> PoolOrders {
        let pause = Pause {
            by: "somebody-with-a-long-name@a-machine.with.a.long.domain.example".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            reason: "disks are being replaced in both rows, and nobody knows until when it will take".to_owned(),
            whole_fleet: false,
            allowed: None,
        };
        let order = |pool: &&str| PoolOrder {
            pool: Some(PoolName::new(*pool).expect("a name")),
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
            paused: None,
            also_paused: BTreeSet::new(),
            running: Some(Holder { identity, since: Some(Timestamp::UNIX_EPOCH) }),
        }
    }

    #[test]
    fn fits_every_line_without_breaking_names() {
        let orders = paused(&["general", "gpu"]);
        let text = text(&pools("pause", &orders, " --fleet default"), 80, true);
        let running = orders.running.as_ref().expect("set");
        let text = text + &waiting(running, None, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("To continue: nodecfg resume general gpu --fleet default\n"), "{text}");
        assert_eq!(text.matches(&running.identity).count(), 2, "{text}");
        assert_eq!(text.matches("somebody-with-a-long-name@a-machine.with.a.long.domain.example").count(), 4, "{text}");
    }
}
