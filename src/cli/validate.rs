//! `nodecfg validate`: is this repository good?

use super::repository_args::RepositoryArgs;
use super::{Exit, Failure, Terminal};
use crate::desired::{Built, build};
use crate::finding;
use crate::report::{self, Format, findings};

/// Read a repository and report everything that is wrong with it.
///
/// Needs no cluster. Ends with exit code 3 when the repository cannot be used as it is.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
}

pub(super) fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let snapshot = args.repository.snapshot()?;
    let Built { findings: mut found, desired } = build(&snapshot);
    finding::sort(&mut found);
    let pools = desired.as_ref().map_or(0, |desired| desired.pools.len());
    match format {
        Format::Text => findings::text(&mut terminal.out, &snapshot, &found, pools)?,
        Format::Json => report::json(&mut terminal.out, &findings::document(&snapshot, &found)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &findings::document(&snapshot, &found)?)?,
        Format::Markdown => findings::markdown(&mut terminal.out, &found, pools)?,
    }
    Ok(if desired.is_none() { Exit::InvalidRepository } else { Exit::Done })
}
