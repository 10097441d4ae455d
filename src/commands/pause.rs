//! `nodecfg pause`: pauses rollouts of pools, or of the whole fleet.

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
/// paused a pool, when and why. --all pauses every pool, also those of later revisions: one switch that stops everything.
/// Pauses of single pools stay when it ends.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("what").required(true))]
pub(super) struct Args {
    /// Pause these pools.
    #[arg(group = "what", value_name = "POOL")]
    pools: Vec<PoolName>,
    /// Pause the whole fleet.
    #[arg(long, group = "what")]
    all: bool,
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
  nodecfg resume gpu
  nodecfg pause --all --reason 'incident 4711'";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let location = args.fleet.locate_orders(true).await?;
    let by = location.requester().await?;
    let help = "pass --allow-unknown to pause a pool that was never rolled out";
    // The same value in every attempt, so that a write whose response was lost is recognized.
    let mut wanted: Option<Pause> = None;
    let pause = |orders: &mut Orders, pool: Option<&PoolName>, at| {
        let whole_fleet = pool.is_none();
        let pause = || Pause { by: by.clone(), at, reason: args.reason.clone(), whole_fleet, allowed: None };
        let pause = wanted.get_or_insert_with(pause);
        orders.pause(pool, pause).filter(|old| old != pause)
    };
    let result = |was_paused| if was_paused { PoolResult::Updated } else { PoolResult::Paused };
    let results = location
        .order_pools(&targets(&args.pools, args.all), (!args.allow_unknown).then_some(help), pause, result)
        .await?;
    print_results("pause", &args.fleet, results, format, terminal)
}

/// The named pools, or the whole fleet.
pub(super) fn targets(pools: &[PoolName], all: bool) -> Vec<Option<PoolName>> {
    if all { vec![None] } else { pools.iter().cloned().map(Some).collect() }
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
