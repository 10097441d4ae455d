//! `nodecfg abort`: stops the rollout that holds the lock.

use std::time::Duration;

use jiff::Timestamp;

use super::cluster_args::parse_duration;
use super::order_args::{OrderArgs, Place, holder, parse_reason};
use super::{Exit, Failure, Terminal};
use crate::cluster::lease::{self, Acquire, LeaseView, decide};
use crate::observed::Abort;
use crate::report::document::Document;
use crate::report::orders::{self, AbortResult, Aborted, Holder};
use crate::report::{self, Format};

/// How often to look whether the lock has been given up.
const LOOK: Duration = Duration::from_millis(500);

/// Stop the rollout that holds the lock of a fleet, from wherever it runs.
///
/// It notices within a few seconds: it starts no further nodes, watches those on their way to their end, and ends with exit code
/// 5. Waits until it has given up the lock.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Why, for whoever watches the rollout.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    /// Point nodes that have not converged back at what they had before, as far as that is still there.
    #[arg(long)]
    back: bool,
    /// How long to wait for the rollout to end (exit code 6 when it has not).
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    order: OrderArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg abort --reason 'wrong branch'   stop, and finish what is on its way
  nodecfg abort --back                    and undo what has not converged";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let place = args.order.place(false).await?;
    let by = place.who().await?;
    let desk = lease::order(&place.reader, place.namespace.as_str(), &place.fleet, |desk| {
        let Holder { identity, .. } = holder(desk.view.as_ref(), desk.now)?;
        let mut orders = desk.orders.clone();
        let reason = args.reason.clone();
        let abort = Abort { holder: identity, by: by.clone(), at: desk.now, reason, back: args.back };
        orders.abort(&abort).then_some(orders)
    })
    .await?;
    let mut told = Aborted {
        fleet: place.fleet.clone(),
        namespace: place.namespace.clone(),
        result: AbortResult::NothingRuns,
        holder: holder(desk.view.as_ref(), desk.now),
        expired: None,
        order: None,
        seconds: 0.0,
    };
    if let Some(running) = told.holder.clone() {
        told.order = desk.orders.abort.clone();
        if format == Format::Text {
            writeln!(terminal.err, "{}", orders::waiting(&running, told.order.as_ref()))?;
        }
        let waited = wait(&place, &running, args.timeout).await?;
        (told.result, told.expired, told.seconds) = waited;
    } else if let Some((dead, expired)) = dead(desk.view.as_ref(), desk.now) {
        told.result = AbortResult::HolderDied;
        (told.holder, told.expired) = (Some(dead), expired);
    }
    match format {
        Format::Text => orders::aborted(&mut terminal.out, &told)?,
        Format::Markdown => orders::aborted_markdown(&mut terminal.out, &told)?,
        Format::Json => report::json(&mut terminal.out, &Document::value(told.clone())?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &Document::value(told.clone())?)?,
    }
    Ok(if told.result == AbortResult::StillRunning { Exit::Locked } else { Exit::Done })
}

/// Waits until the lock is not this holder's any more: how that came, until when they had held it if they died, and after
/// how many seconds.
async fn wait(
    place: &Place,
    running: &Holder,
    timeout: Duration,
) -> Result<(AbortResult, Option<Timestamp>, f64), Failure> {
    let mut waited = Duration::ZERO;
    loop {
        // What is ordered does not matter any more: it may be garbled by now.
        let view = lease::look(&place.reader, place.namespace.as_str(), &place.fleet).await?;
        let now = place.reader.server_time();
        let (still, dead) = (holder(view.as_ref(), now), dead(view.as_ref(), now));
        let same = |found: &Holder| found.identity == running.identity;
        let result = match (still.as_ref(), &dead) {
            (_, Some((found, expired))) if same(found) => Some((AbortResult::HolderDied, *expired)),
            (Some(found), _) if same(found) => None,
            _ => Some((AbortResult::Ended, None)),
        };
        let seconds = waited.as_secs_f64();
        if let Some((result, expired)) = result {
            return Ok((result, expired, seconds));
        }
        let left = timeout.saturating_sub(waited);
        if left.is_zero() {
            return Ok((AbortResult::StillRunning, None, seconds));
        }
        let pause = LOOK.min(left);
        tokio::time::sleep(pause).await;
        waited += pause;
    }
}

/// Who held the lock and did not give it up, and until when it was held.
fn dead(view: Option<&LeaseView>, now: Timestamp) -> Option<(Holder, Option<Timestamp>)> {
    let view = view?;
    let Acquire::TakeOver(lease::Reason::Expired(identity)) = decide(Some(view), "", now) else { return None };
    let expired = view.renewed.zip(view.duration).and_then(|(renewed, held)| renewed.checked_add(held).ok());
    Some((Holder { identity, since: view.acquired }, expired))
}
