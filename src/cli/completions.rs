//! `nodecfg completions`: completion scripts for shells.

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_complete::env::Shells;

use super::{Cli, CommandResult, Exit, Terminal};

/// The variable of the environment by which a shell asks for proposals.
pub(super) const VARIABLE: &str = "COMPLETE";

/// Print a completion script for a shell.
///
/// With it the shell asks nodecfg, which proposes pools and nodes as well: pools of the repository around the current folder,
/// and what the cluster has, if it answers within 1.5 s.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// For which shell.
    #[arg(value_enum)]
    shell: Shell,
    /// A script that knows all there is to know: it asks nobody, and proposes commands and options alone.
    #[arg(long = "static")]
    complete: bool,
}

const EXAMPLES: &str = "\
Examples:
  source <(nodecfg completions bash)             in ~/.bashrc
  source <(nodecfg completions zsh)              in ~/.zshrc, after compinit
  nodecfg completions fish > ~/.config/fish/completions/nodecfg.fish";

pub(super) fn run(args: &Args, terminal: &mut Terminal) -> CommandResult {
    // Generated into memory first: the generator panics when its writer fails, and a closed pipe is no reason to.
    let mut script = Vec::new();
    let shell = args.shell.to_string();
    match Shells::builtins().completer(&shell) {
        Some(completer) if !args.complete => {
            completer.write_registration(VARIABLE, "nodecfg", "nodecfg", "nodecfg", &mut script)?;
        }
        _ => clap_complete::generate(args.shell, &mut Cli::command(), "nodecfg", &mut script),
    }
    terminal.out.write_all(&script)?;
    Ok(Exit::Done)
}
