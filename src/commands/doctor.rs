//! `nodecfg doctor`: checks whether a sync could succeed.

use super::{CommandResult, Exit, Terminal};
use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::repository::LocalRepositoryArgs;
use crate::doctor;
use crate::doctor_facts;
use crate::report::doctor::Findings;
use crate::report::{Format, doctor as report};
use crate::runs::emit::Shown;
use crate::runs::write_review::layout;

/// Check everything that a sync needs, and print a fix for each failed check.
///
/// Changes nothing. Exits with the code that a sync would exit with.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("repository", |repository| repository.help(
    "Also check this repository and the plan of a sync: a folder or an address, as for sync. Default: this folder, if \
     it has a nodecfg.yaml or pools"
)))]
#[command(mut_arg("no_repo", |no_repo| no_repo.help("Check the cluster only, also in the folder of a repository")))]
pub(super) struct Args {
    #[command(flatten)]
    repository: LocalRepositoryArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg doctor                  check the cluster, and the repository in this folder
  nodecfg doctor --no-repo        check the cluster only
  nodecfg doctor -v               print every check in full
  nodecfg doctor -o markdown      print a report for a ticket";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let facts = doctor_facts::read(&args.repository, &args.bound, terminal).await?;
    let checks = doctor::examine(&facts);
    let failure = doctor::failure(&checks);
    let exit_code = |failure: Option<doctor::SyncFailure>| failure.map_or(Exit::Done, Exit::from) as u8;
    let findings = Findings { checks: &checks, failure, exit_code };
    let (body, shown) = (report::body(&findings), report::report(&findings));
    let shown = Shown { printed: layout(terminal.out_width, verbose > 0), ..Shown::of(body, shown, terminal) };
    Ok(shown.print(format, failure.map_or(Exit::Done, Exit::from), terminal))
}
