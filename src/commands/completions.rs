//! `nodecfg completions`: completion scripts for shells.

use clap_complete::Shell;
use clap_complete::env::Shells;

use super::{CommandResult, Exit, Terminal};
use crate::commands::command_line;

/// Environment variable by which a shell requests completions.
pub(super) const VARIABLE: &str = "COMPLETE";

/// Print a completion script for a shell.
///
/// The script calls nodecfg to complete values, too: pools and revisions of the repository in the current folder,
/// contexts of the kubeconfig, fields and codes, and names from the cluster if it answers within 1.5 s.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Select the shell.
    #[arg(value_enum)]
    shell: Shell,
    /// Print a static script, which completes only commands and options.
    #[arg(long = "static")]
    complete: bool,
}

const EXAMPLES: &str = "\
Examples:
  source <(nodecfg completions bash)             in ~/.bashrc
  source <(nodecfg completions zsh)              in ~/.zshrc, after compinit
  nodecfg completions fish > ~/.config/fish/completions/nodecfg.fish";

pub(super) fn run(args: &Args, terminal: &mut Terminal) -> CommandResult {
    // Generated in memory, because the generator panics when its writer fails, for example on a closed pipe.
    let mut script = Vec::new();
    let shell = args.shell.to_string();
    match Shells::builtins().completer(&shell) {
        Some(completer) if !args.complete => {
            completer.write_registration(VARIABLE, "nodecfg", "nodecfg", "nodecfg", &mut script)?;
        }
        _ => clap_complete::generate(args.shell, &mut command_line::declared(), "nodecfg", &mut script),
    }
    terminal.out.write_all(&script)?;
    Ok(Exit::Done)
}
