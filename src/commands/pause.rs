//! `nodecfg pause`: pauses rollouts of pools.

use super::{CommandResult, Exit, Terminal};
use crate::arguments::fleet::FleetArgs;
use crate::arguments::rollout::parse_reason;
use crate::report::orders::{PoolOrders, PoolResult};
use crate::report::{Format, orders};
use crate::runs::emit::Shown;
use nodecfg_contract::names::PoolName;
use nodecfg_observed::{Orders, Pause};

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
    fleet: FleetArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg pause gpu --reason 'disks are being replaced, until Monday'
  nodecfg resume gpu";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let location = args.fleet.locate_orders(true).await?;
    let by = location.requester().await?;
    let help = "pass --allow-unknown to pause a pool that was never rolled out";
    // The same value in every attempt, so that a write whose response was lost is recognized.
    let mut wanted: Option<Pause> = None;
    let pause = |orders: &mut Orders, pool: &PoolName, at| {
        let pause = || Pause { by: by.clone(), at, reason: args.reason.clone(), allowed: None };
        let pause = wanted.get_or_insert_with(pause);
        orders.pause(pool, pause).filter(|old| old != pause)
    };
    let result = |was_paused| if was_paused { PoolResult::Updated } else { PoolResult::Paused };
    let results = location.order_pools(&args.pools, (!args.allow_unknown).then_some(help), pause, result).await?;
    print_results("pause", &args.fleet, results, format, terminal)
}

/// Prints the result of an order for pools.
pub(super) fn print_results(
    command: &'static str,
    fleet: &FleetArgs,
    results: PoolOrders,
    format: Format,
    terminal: &mut Terminal,
) -> CommandResult {
    let scope_args = fleet.scope_args();
    let report = orders::pools(command, &results, &scope_args);
    Ok(Shown::of(results, report, terminal).print(format, Exit::Done, terminal))
}
