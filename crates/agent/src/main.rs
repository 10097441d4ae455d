//! The `nodecfg-agent` command. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodecfg_agent::cli::main(std::env::args_os())
}
