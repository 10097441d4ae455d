//! `nodecfg abort`: stops the rollout that holds the lock.

use super::cluster_args::ClusterArgs;
use super::{Exit, Failure, Terminal};
use crate::report::Format;

/// Stop the rollout that holds the lock of a fleet, from wherever it runs.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let _ = (&args.cluster, format, terminal);
    Err(Failure::usage("not there yet", "wait"))
}
