//! `nodecfg resume`: lets a paused pool go on.

use std::collections::BTreeMap;

use super::order_args::OrderArgs;
use super::pause::tell;
use super::{CommandResult, Terminal, run};
use crate::report::Format;
use crate::report::orders::{PoolOrder, PoolResult};
use nodecfg_cluster::lease;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::observed::Pause;

/// Let paused pools go on.
///
/// The next sync brings their nodes to what the repository says. A pool that is paused there (spec.rollout.paused) stays paused.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Pools to resume.
    #[arg(required = true, value_name = "POOL")]
    pools: Vec<PoolName>,
    #[command(flatten)]
    order: OrderArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let place = args.order.place(false).await?;
    let known = place.pools().await?;
    let mut before: BTreeMap<PoolName, Pause> = BTreeMap::new();
    let mut unknown = None;
    let _held = run::hold_signals("finishing the order");
    let desk = lease::order(&place.reader, place.namespace.as_str(), &place.fleet, |desk| {
        let pauses = &desk.orders.pauses;
        let there = |pool: &PoolName| known.contains(pool) || pauses.contains_key(pool) || before.contains_key(pool);
        unknown = args.pools.iter().find(|pool| !there(pool)).cloned();
        if unknown.is_some() {
            return None;
        }
        let mut orders = desk.orders.clone();
        for pool in &args.pools {
            if let Some(old) = orders.pauses.remove(pool) {
                before.insert(pool.clone(), old);
            }
        }
        (orders != desk.orders).then_some(orders)
    })
    .await?;
    if let Some(pool) = unknown {
        return Err(place.unknown(&pool, &known, "`nodecfg status` shows which pools are paused"));
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
    tell(&args.order, place, &desk, args.pools.iter().map(order).collect(), format, terminal)
}
