//! `nodecfg rollback`: a pool back to an earlier revision.

use super::cluster_args::ClusterArgs;
use super::{Exit, Failure, Terminal};
use crate::report::Format;

/// Roll a pool back to the configuration of an earlier revision.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let _ = (&args.cluster, format, verbose, terminal);
    Err(Failure::usage("not there yet", "wait"))
}
