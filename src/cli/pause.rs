//! `nodecfg pause`: holds a pool as it is.

use std::collections::BTreeMap;

use super::order_args::{OrderArgs, Place, holder, parse_reason};
use super::{CommandResult, Exit, Terminal, run};
use crate::report::orders::{self, PoolOrder, PoolOrders, PoolResult};
use crate::report::{self, Format};
use nodecfg_cluster::lease::{self, LeaseSnapshot};
use nodecfg_contract::json_document::Document;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::observed::Pause;

/// Hold pools as they are, until they are resumed.
///
/// No sync starts a node of a paused pool, and one that runs starts no further ones; nodes on their way finish. Who paused it,
/// since when and why is shown by status, diff and sync.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Pools to pause.
    #[arg(required = true, value_name = "POOL")]
    pools: Vec<PoolName>,
    /// Why, for those who wonder.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: String,
    /// Also pause a pool that the fleet has no ConfigMap of: one that has never been rolled out.
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
    let place = args.order.place(true).await?;
    let known = place.pools().await?;
    let by = place.who().await?;
    let mut before: BTreeMap<PoolName, Pause> = BTreeMap::new();
    let mut wanted: Option<Pause> = None;
    let mut unknown = None;
    let _held = run::hold_signals("finishing the order");
    let desk = lease::order(&place.reader, place.namespace.as_str(), &place.fleet, |desk| {
        // The same at every attempt, so that one whose answer was lost is known again.
        let pause = wanted.get_or_insert_with(|| Pause { by: by.clone(), at: desk.now, reason: args.reason.clone() });
        let there = |pool: &PoolName| known.contains(pool) || desk.orders.pauses.contains_key(pool);
        unknown = args.pools.iter().find(|pool| !args.allow_unknown && !there(pool)).cloned();
        if unknown.is_some() {
            return None;
        }
        let mut orders = desk.orders.clone();
        for pool in &args.pools {
            if let Some(old) = orders.pause(pool, pause).filter(|old| old != pause) {
                before.insert(pool.clone(), old);
            }
        }
        (orders != desk.orders).then_some(orders)
    })
    .await?;
    if let Some(pool) = unknown {
        let way_out = "--allow-unknown pauses a pool that has never been rolled out";
        return Err(place.unknown(&pool, &known, way_out));
    }
    let order = |pool: &PoolName| {
        let before = before.get(pool).cloned();
        PoolOrder {
            pool: pool.clone(),
            result: if before.is_some() { PoolResult::Updated } else { PoolResult::Paused },
            pause: desk.orders.pauses.get(pool).cloned(),
            before,
            known: known.contains(pool),
        }
    };
    tell(&args.order, place, &desk, args.pools.iter().map(order).collect(), format, terminal)
}

/// Says what became of orders about pools, of each pool once.
pub(super) fn tell(
    order: &OrderArgs,
    place: Place,
    desk: &LeaseSnapshot,
    mut pools: Vec<PoolOrder>,
    format: Format,
    terminal: &mut Terminal,
) -> CommandResult {
    pools.sort_by(|a, b| a.pool.cmp(&b.pool));
    pools.dedup_by(|a, b| a.pool == b.pool);
    let told = PoolOrders {
        fleet: place.fleet,
        namespace: place.namespace,
        pools,
        running: holder(desk.view.as_ref(), desk.now),
    };
    let said = order.said();
    match format {
        Format::Text => orders::pools(&mut terminal.out, &told, &said, terminal.out_width)?,
        Format::Markdown => orders::pools_markdown(&mut terminal.out, &told, &said)?,
        Format::Json => report::json(&mut terminal.out, &Document::value(told)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &Document::value(told)?)?,
    }
    Ok(Exit::Done)
}
