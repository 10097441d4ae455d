//! `nodecfg resume`: resumes rollouts of paused pools, or of the whole fleet.

use super::pause::{print_results, targets};
use super::{CommandResult, Terminal};
use crate::arguments::fleet::FleetArgs;
use crate::report::Format;
use crate::report::orders::PoolResult;
use nodecfg_contract::names::PoolName;
use nodecfg_observed::Orders;

/// Resume rollouts of paused pools.
///
/// The next sync brings their nodes to the configuration in git. A pool that is paused in git (spec.rollout.paused, or
/// spec.paused of the Fleet) stays paused.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(super) struct Args {
    /// Resume these pools.
    #[arg(group = "what", value_name = "POOL")]
    pools: Vec<PoolName>,
    /// End the pause of the whole fleet. Pools that were paused by name stay paused.
    #[arg(long, group = "what")]
    all: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let location = args.fleet.locate_orders(false).await?;
    let help = "list the paused pools with `nodecfg status`";
    let resume = |orders: &mut Orders, pool: Option<&PoolName>, _| orders.resume(pool);
    let result = |was_paused| if was_paused { PoolResult::Resumed } else { PoolResult::NotPaused };
    let results = location.order_pools(&targets(&args.pools, args.all), Some(help), resume, result).await?;
    print_results("resume", &args.fleet, results, format, terminal)
}
