//! `nodecfg pause`: pauses rollouts of pools.

use std::collections::BTreeMap;

use super::{CommandResult, Exit, Terminal};
use crate::arguments::orders::{FleetLocation, OrderArgs, holder, parse_reason};
use crate::report::orders::{PoolOrder, PoolOrders, PoolResult};
use crate::report::{Format, orders};
use crate::runs::emit::Shown;
use crate::runs::run;
use nodecfg_cluster::lock;
use nodecfg_cluster::lock::LeaseSnapshot;
use nodecfg_contract::names::PoolName;
use nodecfg_observed::Pause;

/// Pause rollouts of pools until they are resumed.
///
/// A running or later sync starts no node of a paused pool; nodes in transition finish. status, diff and sync print who
/// paused a pool, when and why.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Pause these pools.
    #[arg(required = true, value_name = "POOL")]
    pools: Vec<PoolName>,
    /// Record this reason; status, diff and sync print it.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: String,
    /// Accept pools that have no ConfigMap yet because they were never rolled out.
    #[arg(long)]
    allow_unknown: bool,
    #[command(flatten)]
    order: OrderArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg pause gpu --reason 'disks are being replaced, until Monday'
  nodecfg resume gpu";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let location = args.order.locate(true).await?;
    let known = location.pools().await?;
    let by = location.requester().await?;
    let mut before: BTreeMap<PoolName, Pause> = BTreeMap::new();
    let mut wanted: Option<Pause> = None;
    let mut unknown = None;
    let _held = run::defer_signals("finishing the current change");
    let snapshot = lock::update_orders(&location.reader, location.namespace.as_str(), &location.fleet, |snapshot| {
        // The same value in every attempt, so that a write whose response was lost is recognized.
        let pause = wanted.get_or_insert_with(|| Pause {
            by: by.clone(),
            at: snapshot.now,
            reason: args.reason.clone(),
            allowed: None,
        });
        let is_known = |pool: &PoolName| known.contains(pool) || snapshot.orders.pauses.contains_key(pool);
        unknown = args.pools.iter().find(|pool| !args.allow_unknown && !is_known(pool)).cloned();
        if unknown.is_some() {
            return None;
        }
        let mut orders = snapshot.orders.clone();
        for pool in &args.pools {
            if let Some(old) = orders.pause(pool, pause).filter(|old| old != pause) {
                before.insert(pool.clone(), old);
            }
        }
        (orders != snapshot.orders).then_some(orders)
    })
    .await?;
    if let Some(pool) = unknown {
        let help = "pass --allow-unknown to pause a pool that was never rolled out";
        return Err(location.unknown_pool(&pool, &known, help));
    }
    let order = |pool: &PoolName| {
        let before = before.get(pool).cloned();
        PoolOrder {
            pool: pool.clone(),
            result: if before.is_some() { PoolResult::Updated } else { PoolResult::Paused },
            pause: snapshot.orders.pauses.get(pool).cloned(),
            before,
            known: known.contains(pool),
        }
    };
    print_results("pause", &args.order, location, &snapshot, args.pools.iter().map(order).collect(), format, terminal)
}

/// Prints the result of an order, once for each pool.
pub(super) fn print_results(
    command: &'static str,
    order: &OrderArgs,
    location: FleetLocation,
    snapshot: &LeaseSnapshot,
    mut pools: Vec<PoolOrder>,
    format: Format,
    terminal: &mut Terminal,
) -> CommandResult {
    pools.sort_by(|a, b| a.pool.cmp(&b.pool));
    pools.dedup_by(|a, b| a.pool == b.pool);
    let results = PoolOrders {
        fleet: location.fleet,
        namespace: location.namespace,
        pools,
        running: holder(snapshot.view.as_ref(), snapshot.now),
    };
    let scope_args = order.scope_args();
    let report = orders::pools(command, &results, &scope_args);
    Ok(Shown::of(results, report, terminal).print(format.into(), Exit::Done, terminal))
}
