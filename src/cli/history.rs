//! `nodecfg history`: the revisions of a pool, and the nodes on each.

use super::cluster_args::ClusterArgs;
use super::{Exit, Failure, Terminal};
use crate::report::Format;

/// Show the revisions of a pool's configuration, and the nodes on each.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let _ = (&args.cluster, format, terminal);
    Err(Failure::usage("not there yet", "wait"))
}
