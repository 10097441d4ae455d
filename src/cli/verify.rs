//! `nodecfg verify`: wait until every node runs what the repository says, and write nothing.

use std::time::Duration;

use super::against::side;
use super::cluster_args::{BindingArgs, ClusterArgs, label_keys, parse_duration};
use super::observe::{Allowances, Planned, plan, warn};
use super::reports::ReportArgs;
use super::repository_args::RepositoryArgs;
use super::run::{self, Purpose, Reporter, Subject};
use super::telemetry::MetricsArgs;
use super::{CommandResult, Terminal};
use crate::report::Format;
use crate::review::of_plan;
use crate::rollout::execute::{self, Rollout};
use nodecfg_planning::rollout::machine::Mode;

/// Wait until every node proves that it runs what the repository says.
///
/// Changes nothing. Ends with exit code 5 when a node fails or does not get there in time.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    allowances: Allowances,
    /// How long to wait, instead of each pool's convergenceTimeout.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
}

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    run::require_stream_format(format)?;
    run::create_reports(&args.reports)?;
    let loaded = args.repository.load(terminal).await?;
    warn(&loaded, verbose, terminal)?;
    let reader = args.cluster.reader(label_keys(&loaded.desired)).await?;
    let reader = args.binding.bind(reader).await?;
    let namespace = args.cluster.namespace(&loaded.desired, &reader)?;
    let scene = run::scene(&loaded, &namespace, reader.server());
    run::open(&scene, format, Some(&args.reports), terminal)?;
    let mut stop = run::stop_on_signals(terminal.foot.clone());
    let planning = plan(&loaded, &reader, None, args.allowances.options(namespace, args.repository.gate()));
    let planned = run::unless_stopped(&mut stop, planning).await?;
    let Planned { plan, observed, options } = &planned;
    terminal.record.planned(plan);
    let review = of_plan(side(&args.repository, &loaded), &loaded.desired, plan);
    let subject = Subject { purpose: Purpose::Verify, scene: &scene, plan, review: &review };
    let mut audience = Reporter::gather(subject, format, &args.reports, verbose, terminal)?;
    let rollout = Rollout {
        plan,
        desired: &loaded.desired,
        observed,
        options,
        mode: Mode {
            assign: false,
            as_reviewed: false,
            rollback_on_failure: false,
            concurrency: 1,
            timeout: args.timeout,
        },
    };
    let execution = execute::verify(rollout, &reader, stop, &mut |now, event| audience.tell(now, event)).await;
    audience.dismiss(&execution, terminal)
}
