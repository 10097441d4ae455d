//! `nodecfg capture`: the configuration that nodes run, as files of a repository.

use super::cluster_args::ClusterArgs;
use super::{Exit, Failure, Terminal};
use crate::report::Format;

/// Write down the configuration that nodes run, as files of a repository.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let _ = (&args.cluster, format, terminal);
    Err(Failure::usage("not there yet", "wait"))
}
