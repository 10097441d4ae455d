//! `nodecfg resume`: resumes rollouts of paused pools.

use std::collections::BTreeMap;

use super::pause::print_results;
use super::{CommandResult, Terminal};
use crate::arguments::orders::OrderArgs;
use crate::report::Format;
use crate::report::orders::{PoolOrder, PoolResult};
use crate::runs::run;
use nodecfg_cluster::lock;
use nodecfg_contract::names::PoolName;
use nodecfg_observed::Pause;

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
    order: OrderArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let location = args.order.locate(false).await?;
    let known = location.pools().await?;
    let mut before: BTreeMap<PoolName, Pause> = BTreeMap::new();
    let mut unknown = None;
    let _held = run::defer_signals("finishing the current change");
    let snapshot = lock::update_orders(&location.reader, location.namespace.as_str(), &location.fleet, |snapshot| {
        let pauses = &snapshot.orders.pauses;
        let is_known = |pool: &PoolName| known.contains(pool) || pauses.contains_key(pool) || before.contains_key(pool);
        unknown = args.pools.iter().find(|pool| !is_known(pool)).cloned();
        if unknown.is_some() {
            return None;
        }
        let mut orders = snapshot.orders.clone();
        for pool in &args.pools {
            if let Some(old) = orders.pauses.remove(pool) {
                before.insert(pool.clone(), old);
            }
        }
        (orders != snapshot.orders).then_some(orders)
    })
    .await?;
    if let Some(pool) = unknown {
        return Err(location.unknown_pool(&pool, &known, "list the paused pools with `nodecfg status`"));
    }
    let order = |pool: &PoolName| {
        let before = before.get(pool).cloned();
        PoolOrder {
            pool: pool.clone(),
            result: if before.is_some() { PoolResult::Resumed } else { PoolResult::NotPaused },
            pause: None,
            before,
            known: known.contains(pool),
        }
    };
    print_results("resume", &args.order, location, &snapshot, args.pools.iter().map(order).collect(), format, terminal)
}
