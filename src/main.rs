//! The `nodecfg` command. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodecfg::cli::main(std::env::args_os())
}
