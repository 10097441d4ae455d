//! `nodecfg man`: manual pages.

use super::{Exit, Failure, Terminal};

/// Print a manual page, or write them all to a folder.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let _ = (args, terminal);
    Err(Failure::usage("not there yet", "wait"))
}
