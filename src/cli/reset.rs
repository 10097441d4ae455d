//! `nodecfg reset`: nodes back to their local configuration.

use super::cluster_args::ClusterArgs;
use super::{Exit, Failure, Terminal};
use crate::report::Format;

/// Point nodes back at the configuration that they were provisioned with.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let _ = (&args.cluster, format, verbose, terminal);
    Err(Failure::usage("not there yet", "wait"))
}
