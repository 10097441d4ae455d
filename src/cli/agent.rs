//! `nodecfg agent`: says to units and manifests of earlier versions that the node agent is a program of its own.

use super::CommandError;

/// The node agent of earlier versions, now the program nodecfg-agent.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Args {
    /// What the agent was started with.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

/// The error that names the new program, with its whole command line.
pub(super) fn moved(args: &Args) -> CommandError {
    let line = std::iter::once("nodecfg-agent").chain(args.arguments.iter().map(String::as_str));
    let line = shlex::try_join(line).unwrap_or_else(|_| "nodecfg-agent".to_owned());
    CommandError::usage(
        "nodecfg agent has become a program of its own, nodecfg-agent; its options are the same",
        format!("start `{line}` instead; `nodecfg install` writes manifests and units that do"),
    )
}
