//! Entry point of the `nodecfg` command; the library contains its code.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodecfg::commands::main(std::env::args_os())
}
