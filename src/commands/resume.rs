//! `nodecfg resume`: resumes rollouts of paused pools.

use super::pause::print_results;
use super::{CommandResult, Terminal};
use crate::arguments::fleet::FleetArgs;
use crate::report::Format;
use crate::report::orders::PoolResult;
use nodecfg_contract::names::PoolName;
use nodecfg_observed::Orders;

/// Resume rollouts of paused pools.
///
/// The next sync brings their nodes to the configuration in git. A pool that is paused in git (spec.rollout.paused)
/// stays paused.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Resume these pools.
    #[arg(required = true, value_name = "POOL")]
    pools: Vec<PoolName>,
    #[command(flatten)]
    fleet: FleetArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let location = args.fleet.locate_orders(false).await?;
    let help = "list the paused pools with `nodecfg status`";
    let resume = |orders: &mut Orders, pool: &PoolName, _| orders.pauses.remove(pool);
    let result = |was_paused| if was_paused { PoolResult::Resumed } else { PoolResult::NotPaused };
    let results = location.order_pools(&args.pools, Some(help), resume, result).await?;
    print_results("resume", &args.fleet, results, format, terminal)
}
