//! `nodecfg completions`: completion scripts for shells.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, Exit, Failure, Terminal};

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  nodecfg completions bash > /etc/bash_completion.d/nodecfg")]
pub(super) struct Args {
    /// For which shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, Failure> {
    // Generated into memory first: the generator panics when its writer fails, and a closed pipe is no reason to.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "nodecfg", &mut script);
    terminal.out.write_all(&script)?;
    Ok(Exit::Done)
}
