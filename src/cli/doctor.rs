//! `nodecfg doctor`: whether a sync could do its work.

use super::cluster_args::ClusterArgs;
use super::{Exit, Failure, Terminal};
use crate::report::Format;

/// Check all that a sync needs, and say how to mend what is missing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let _ = (&args.cluster, format, terminal);
    Err(Failure::usage("not there yet", "wait"))
}
