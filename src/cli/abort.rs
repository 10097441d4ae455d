//! `nodecfg abort`: stops the rollout that holds the lock.

use std::time::Duration;

use super::cluster_args::parse_duration;
use super::order_args::{OrderArgs, holder, parse_reason};
use super::{CommandResult, Exit, Terminal, run};
use crate::report::orders::{self, AbortResult, Aborted, Holder};
use crate::report::{self, Format};
use nodecfg_cluster::lease::{self, HoldEnd};
use nodecfg_contract::json_document::Document;
use nodecfg_contract::observed::Abort;

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

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let place = args.order.place(false).await?;
    let by = place.who().await?;
    let mut stop = run::hold_signals("not waiting any longer; what was ordered stands");
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
            let width = terminal.err_width;
            writeln!(terminal.aside(), "{}", orders::waiting(&running, told.order.as_ref(), width))?;
        }
        let (reader, namespace) = (&place.reader, place.namespace.as_str());
        let began = nodecfg_clock::instant();
        let end = tokio::select! {
            end = lease::until_end(reader, namespace, &place.fleet, &running.identity, args.timeout) => end?,
            Ok(_) = stop.wait_for(|stopped| *stopped) => HoldEnd::StillHeld,
        };
        told.seconds = nodecfg_clock::instant().saturating_duration_since(began).as_secs_f64();
        (told.result, told.expired) = match end {
            HoldEnd::GivenUp => (AbortResult::Ended, None),
            HoldEnd::Died(dead) => (AbortResult::HolderDied, dead.expired),
            HoldEnd::StillHeld => (AbortResult::StillRunning, None),
        };
    } else if let Some(dead) = lease::dead(desk.view.as_ref(), desk.now) {
        told.result = AbortResult::HolderDied;
        (told.holder, told.expired) = (Some(Holder { identity: dead.holder, since: dead.since }), dead.expired);
    }
    match format {
        Format::Text => orders::aborted(&mut terminal.out, &told, terminal.out_width)?,
        Format::Markdown => orders::aborted_markdown(&mut terminal.out, &told)?,
        Format::Json => report::json(&mut terminal.out, &Document::value(told.clone())?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &Document::value(told.clone())?)?,
    }
    Ok(match told.result {
        AbortResult::StillRunning if *stop.borrow() => Exit::NotConverged,
        AbortResult::StillRunning => Exit::Locked,
        _ => Exit::Done,
    })
}
