//! `nodecfg-agent host-step`: the privileged part of an agent that runs as a pod.

use std::path::PathBuf;

use super::args::LogFormat;
use super::args::{ActionArgs, LogArgs};
use super::{AgentError, Exit};
use crate::host::step::StepListener;

/// Restart the kubelet on behalf of an agent without privileges on the host.
///
/// Listens on a Unix socket for requests of `nodecfg-agent --host-step SOCKET`: restart the kubelet, remove its state
/// files in between, report its version, exits, last error and command line, and report what the host lacks of the files and
/// resources that a configuration names. Runs only the commands of its own flags, takes no command from the socket, returns no
/// content of a file, and needs no credentials for the API server.
///
/// Every process of the same user (mode 0600) may restart the kubelet. Put it into a folder that only the two
/// containers share.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Path of the socket. A stale socket is replaced.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    actions: ActionArgs,
    #[command(flatten)]
    log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg-agent host-step --socket /run/nodecfg/step.sock \\
    --restart-command 'nsenter -t 1 -m -- systemctl restart kubelet' \\
    --stop-command 'nsenter -t 1 -m -- systemctl stop kubelet' \\
    --kubelet 'nsenter -t 1 -m -- kubelet' \\
    --restarts-command 'nsenter -t 1 -m -- systemctl show kubelet --property=NRestarts --value' \\
    --log-command 'nsenter -t 1 -m -- journalctl --unit=kubelet --output=cat --no-pager --reverse --lines=1000'";

impl Args {
    pub(super) fn log_format(&self) -> LogFormat {
        self.log.format()
    }
}

pub(super) async fn run(args: Args) -> Result<Exit, AgentError> {
    let listening = StepListener::bind(&args.socket).map_err(|error| {
        AgentError::agent(
            format!("cannot listen on {}: {error}", args.socket.display()),
            "set --socket to an unused path in a writable folder",
        )
    })?;
    tracing::info!(socket = %args.socket.display(), "listening");
    listening.serve(&args.actions.actions(), super::stopped()).await;
    Ok(Exit::Done)
}
