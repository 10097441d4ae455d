//! `nodecfg abort`: stops the rollout that holds the lock.

use std::time::Duration;

use super::{CommandResult, Exit, Terminal};
use crate::arguments::cluster::parse_timeout;
use crate::arguments::orders::{OrderArgs, holder, parse_reason};
use crate::report::orders::{AbortResult, Aborted, Holder};
use crate::report::{Format, orders};
use crate::runs::emit::Shown;
use crate::runs::run;
use nodecfg_cluster::lock;
use nodecfg_cluster::lock::HoldState;
use nodecfg_observed::Abort;

/// Stop the rollout that holds the lock of a fleet, wherever it runs.
///
/// The rollout notices within a few seconds, starts no further nodes, lets nodes in transition finish, and exits with
/// code 5. abort waits until the lock is released.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Record this reason; it is shown to users who watch the rollout.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    /// Assign the previous ConfigMap again to nodes that have not converged, if it still exists.
    #[arg(long)]
    back: bool,
    /// Wait this long for the rollout to end; exit with code 6 afterwards. 0 sets no limit.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_timeout)]
    timeout: Duration,
    #[command(flatten)]
    order: OrderArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg abort --reason 'wrong branch'   stop, and finish the nodes in transition
  nodecfg abort --back                    also return nodes that have not converged";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let location = args.order.locate(false).await?;
    let by = location.requester().await?;
    let mut stop = run::defer_signals("no longer waiting; the order to abort remains in effect");
    let snapshot = lock::update_orders(&location.reader, location.namespace.as_str(), &location.fleet, |snapshot| {
        let Holder { identity, .. } = holder(snapshot.view.as_ref(), snapshot.now)?;
        let mut orders = snapshot.orders.clone();
        let reason = args.reason.clone();
        let abort = Abort { holder: identity, by: by.clone(), at: snapshot.now, reason, back: args.back };
        orders.abort(&abort).then_some(orders)
    })
    .await?;
    let mut aborted = Aborted {
        fleet: location.fleet.clone(),
        namespace: location.namespace.clone(),
        result: AbortResult::NothingRuns,
        holder: holder(snapshot.view.as_ref(), snapshot.now),
        expired: None,
        order: None,
        seconds: 0.0,
    };
    if let Some(running) = aborted.holder.clone() {
        aborted.order = snapshot.orders.abort.clone();
        if format == Format::Text {
            let width = terminal.err_width;
            writeln!(terminal.info(), "{}", orders::waiting(&running, aborted.order.as_ref(), width))?;
        }
        let (reader, namespace) = (&location.reader, location.namespace.as_str());
        let began = nodecfg_clock::instant();
        let end = tokio::select! {
            end = lock::wait_for_release(reader, namespace, &location.fleet, &running.identity, args.timeout) => end?,
            Ok(_) = stop.wait_for(|stopped| *stopped) => HoldState::StillHeld,
        };
        aborted.seconds = nodecfg_clock::instant().saturating_duration_since(began).as_secs_f64();
        (aborted.result, aborted.expired) = match end {
            HoldState::Released => (AbortResult::Ended, None),
            HoldState::Expired(dead) => (AbortResult::HolderDied, dead.expired),
            HoldState::StillHeld => (AbortResult::StillRunning, None),
        };
    } else if let Some(dead) = lock::expired_holder(snapshot.view.as_ref(), snapshot.now) {
        aborted.result = AbortResult::HolderDied;
        (aborted.holder, aborted.expired) = (Some(Holder { identity: dead.holder, since: dead.since }), dead.expired);
    }
    let exit = match aborted.result {
        AbortResult::StillRunning if *stop.borrow() => Exit::NotConverged,
        AbortResult::StillRunning => Exit::Locked,
        _ => Exit::Done,
    };
    let report = orders::aborted(&aborted);
    Ok(Shown::of(aborted, report, terminal).print(format.into(), exit, terminal))
}
