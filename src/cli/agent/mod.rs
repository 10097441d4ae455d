//! `nodecfg agent`: the node half, and what belongs to it on a node.

use super::logging::Style;
use super::{Exit, Failure, Terminal};
use crate::report::Format;

mod args;
mod host_step;
mod run;
mod status;

/// Run the node agent: make this node's kubelet run what its NodeConfig assigns.
///
/// Watches the NodeConfig of this node, downloads and checks the ConfigMap that it names, keeps it on disk, puts the kubelet
/// on it and restarts the kubelet, watches it through a trial, falls back to the last known good when that fails, and
/// reports all of this in the status of the NodeConfig. What is on disk is enough to go on after a reboot, with or without
/// the API server. Logs to standard error.
///
/// Ends when it is asked to (SIGTERM, SIGINT), with 0; a restart of the kubelet that has begun is finished first. Exits with
/// 2 when it cannot start: its folder cannot be read or belongs to another agent, or the address to listen on is taken.
/// Exits with 4 when nothing says where the API server is, and when that has not accepted the credentials for five minutes,
/// so that a service manager starts it again with those that are on disk by then. An API server that is away is waited for.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = run::EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Status(status::Args),
    HostStep(host_step::Args),
}

impl Args {
    /// How it logs.
    pub(super) fn style(&self) -> Style {
        match &self.command {
            None => Style::Service(self.run.log_format()),
            Some(Command::HostStep(args)) => Style::Service(args.log_format()),
            Some(Command::Status(_)) => Style::Command,
        }
    }
}

pub(super) async fn run(args: Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    match args.command {
        None => run::run(args.run, format, terminal).await,
        Some(Command::Status(args)) => status::run(&args, format, terminal),
        Some(Command::HostStep(args)) => host_step::run(args).await,
    }
}

/// Completes when the process is asked to end. Where that cannot be waited for, never: signals have their usual effect then.
async fn stopped() {
    if super::signals::signalled().await.is_none() {
        std::future::pending::<()>().await;
    }
}
