//! Entry point of the `nodecfg-agent` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodecfg_agent::cli::main(std::env::args_os())
}
