//! `nodecfg diff`: what a sync would do.

use std::io::Write;

use super::cluster_args::{BindingArgs, ClusterArgs, label_keys};
use super::observe::{Allowances, Planned, plan, warn, warn_of_plan};
use super::reports::ReportArgs;
use super::repository_args::RepositoryArgs;
use super::telemetry::MetricsArgs;
use super::{Exit, Failure, Terminal, run};
use crate::plan::Plan;
use crate::report::{self, Format, plan_json, plan_markdown, plan_text};

/// Show what a sync would do: which fields change, what that does to running pods, on which nodes, in which order.
///
/// Changes nothing. With -v each field says why it has its class of risk, and by which source. Ends with exit code 1 when there is something to change.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    allowances: Allowances,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg diff                        the commit that is checked out here
  nodecfg diff --rev origin/main      another revision
  nodecfg diff --worktree             uncommitted changes too
  nodecfg diff -o markdown > diff.md  for a pull request";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<Exit, Failure> {
    create_reports(&args.reports)?;
    let loaded = args.repository.load(terminal).await?;
    warn(&loaded, verbose, terminal)?;
    let reader = args.cluster.reader(label_keys(&loaded.desired)).await?;
    let reader = args.binding.bind(reader).await?;
    let namespace = args.cluster.namespace(&loaded.desired, &reader)?;
    run::open(&run::scene(&loaded, &namespace, reader.server()), format, None, terminal)?;
    let Planned { plan, .. } =
        plan(&loaded, &reader, args.allowances.options(namespace, args.repository.gate())).await?;
    terminal.record.planned(&plan);
    warn_of_plan(&plan, &loaded, format, verbose, terminal)?;
    write_plan(&plan, format, &args.reports, verbose, terminal)?;
    Ok(if plan.has_changes() { Exit::Changes } else { Exit::Done })
}

/// The reports of a plan: all that there is for people and for programs.
pub(super) fn create_reports(reports: &ReportArgs) -> Result<(), Failure> {
    reports.create(|output| output.format().map(drop))
}

/// Writes a plan in any format, and its reports.
pub(super) fn write_plan(
    plan: &Plan,
    format: Format,
    reports: &ReportArgs,
    verbose: u8,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    reports.each(|output, out| write_one(out, plan, output.format()?, verbose))?;
    write_one(&mut terminal.out, plan, format, verbose)
}

fn write_one(out: &mut dyn Write, plan: &Plan, format: Format, verbose: u8) -> Result<(), Failure> {
    match format {
        Format::Text => plan_text::write(out, plan, verbose > 0)?,
        Format::Markdown => plan_markdown::write(out, plan)?,
        Format::Json => report::json(out, &plan_json::document(plan)?)?,
        Format::Yaml => report::yaml(out, &plan_json::document(plan)?)?,
    }
    Ok(())
}
