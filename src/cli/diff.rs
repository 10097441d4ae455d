//! `nodecfg diff`: what a sync would do.

use std::path::PathBuf;

use super::cluster_args::{BindingArgs, ClusterArgs, label_keys};
use super::observe::{Allowances, plan, warn, warn_of_plan};
use super::repository_args::RepositoryArgs;
use super::telemetry::MetricsArgs;
use super::{Exit, Failure, Terminal, plan_file, run};
use crate::plan::Plan;
use crate::report::{self, Format, plan_json, plan_markdown, plan_text};

/// Show what a sync would do: which fields change, what that does to running pods, on which nodes, in which order.
///
/// Changes nothing. With -v each field says why it has its class of risk, and by which source. Ends with exit code 1 when there is something to change.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    allowances: Allowances,
    /// Save the plan to a file. `nodecfg sync --plan FILE` carries out exactly that, or says what has changed since.
    #[arg(long, value_name = "FILE", value_parser = plan_file::parse_path)]
    out: Option<PathBuf>,
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
  nodecfg diff -o markdown > diff.md  for a pull request
  nodecfg diff --out plan.json        for `nodecfg sync --plan plan.json`, once it is approved";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let loaded = args.repository.load(terminal).await?;
    warn(&loaded, verbose, terminal)?;
    let reader = args.cluster.reader(label_keys(&loaded.desired)).await?;
    let cluster = match &args.out {
        Some(_) => Some(plan_file::identify(&reader).await?),
        None => None,
    };
    let reader = args.binding.bind(reader).await?;
    let namespace = args.cluster.namespace(&loaded.desired, &reader)?;
    run::open(&run::scene(&loaded, &namespace, reader.server()), format, false, terminal)?;
    let planned = plan(&loaded, &reader, args.allowances.options(namespace, args.repository.gate())).await?;
    terminal.record.planned(&planned.plan);
    warn_of_plan(&planned.plan, &loaded, format, verbose, terminal)?;
    write_plan(&planned.plan, format, verbose, terminal)?;
    if let (Some(path), Some(cluster)) = (&args.out, cluster) {
        let named = args.cluster.named_namespace().cloned();
        let circumstances = plan_file::circumstances(cluster, &reader, &planned, named);
        plan_file::save(path, &planned, &circumstances, format, terminal)?;
    }
    Ok(if planned.plan.has_changes() { Exit::Changes } else { Exit::Done })
}

/// Writes a plan in any format.
pub(super) fn write_plan(plan: &Plan, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<(), Failure> {
    match format {
        Format::Text => plan_text::write(&mut terminal.out, plan, verbose > 0)?,
        Format::Markdown => plan_markdown::write(&mut terminal.out, plan)?,
        Format::Json => report::json(&mut terminal.out, &plan_json::document(plan)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &plan_json::document(plan)?)?,
    }
    Ok(())
}
