//! `nodecfg-agent host-step`: the privileged half of an agent that runs as a pod.

use std::path::PathBuf;

use super::args::LogFormat;
use super::args::{ActionArgs, LogArgs};
use super::{AgentError, Exit};
use crate::host::step::Listening;

/// Restart the kubelet on behalf of an agent that has no privileges on the host.
///
/// Listens on a unix socket and does three things, with the commands of its own flags: restart the kubelet, stop it to remove
/// its state files, tell its version. Takes no command, path or configuration from the socket, and never talks to the API
/// server; give it no credentials. The agent reaches it with --host-step. Whoever may open the socket (mode 0660) may restart
/// the kubelet: put it into a folder that only the two containers share.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Where to listen. A socket that was left there is replaced.
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
    --kubelet 'nsenter -t 1 -m -- kubelet'";

impl Args {
    pub(super) fn log_format(&self) -> LogFormat {
        self.log.format()
    }
}

pub(super) async fn run(args: Args) -> Result<Exit, AgentError> {
    let listening = Listening::on(&args.socket).map_err(|error| {
        AgentError::agent(
            format!("cannot listen on {}: {error}", args.socket.display()),
            "choose a path with --socket that is free, in a folder that exists and may be written",
        )
    })?;
    tracing::info!(socket = %args.socket.display(), "listening");
    listening.serve(&args.actions.actions(), super::stopped()).await;
    Ok(Exit::Done)
}
