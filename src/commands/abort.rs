//! `nodecfg abort`: stops the rollout that holds the lock.

use std::time::Duration;

use super::{CommandResult, Exit, Terminal};
use crate::arguments::cluster::parse_timeout;
use crate::arguments::fleet::FleetArgs;
use crate::arguments::rollout::parse_reason;
use crate::report::orders::AbortResult;
use crate::report::{Format, orders};
use crate::runs::emit::Shown;
use crate::runs::run;
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
    fleet: FleetArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg abort --reason 'wrong branch'   stop, and finish the nodes in transition
  nodecfg abort --back                    also return nodes that have not converged";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let location = args.fleet.locate_orders(false).await?;
    let by = location.requester().await?;
    let mut stop = run::defer_signals("no longer waiting; the order to abort remains in effect");
    let order = |holder: String, at| Abort {
        holder,
        by: by.clone(),
        at,
        reason: args.reason.clone(),
        back: args.back,
        fleet_paused: false,
    };
    let (is_text, width) = (format == Format::Text, terminal.err_width);
    let waiting = |holder: &_, order: Option<&_>| match is_text {
        true => writeln!(terminal.info(), "{}", orders::waiting(holder, order, width)),
        false => Ok(()),
    };
    let aborted = location.abort(order, args.timeout, &mut stop, waiting).await?;
    let exit = match aborted.result {
        AbortResult::StillRunning if *stop.borrow() => Exit::NotConverged,
        AbortResult::StillRunning => Exit::Locked,
        _ => Exit::Done,
    };
    let report = orders::aborted(&aborted);
    Ok(Shown::of(aborted, report, terminal).print(format, exit, terminal))
}
