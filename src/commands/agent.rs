//! `nodecfg agent`: error for units and manifests of earlier versions, in which the agent was a subcommand.

use super::CommandError;

/// Report that the node agent is now the program nodecfg-agent.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Args {
    /// Arguments of the agent.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

/// The error, with the equivalent nodecfg-agent command line.
pub(super) fn moved(args: &Args) -> CommandError {
    let line = std::iter::once("nodecfg-agent").chain(args.arguments.iter().map(String::as_str));
    let line = shlex::try_join(line).unwrap_or_else(|_| "nodecfg-agent".to_owned());
    CommandError::usage(
        "nodecfg agent is now a separate program, nodecfg-agent, with the same options",
        format!("start `{line}` instead"),
    )
}
