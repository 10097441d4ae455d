//! `nodecfg pause`: holds a pool as it is.

use super::cluster_args::ClusterArgs;
use super::{Exit, Failure, Terminal};
use crate::report::Format;

/// Hold a pool as it is, until it is resumed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let _ = (&args.cluster, format, terminal);
    Err(Failure::usage("not there yet", "wait"))
}
