//! `nodecfg schema`: JSON Schemas of the files of a repository.

use super::{Exit, Failure, Terminal};
use crate::desired::schema;

/// Print the JSON Schema of a file, for editors and checkers.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Of which file.
    #[arg(value_enum)]
    kind: Kind,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// `nodecfg.yaml`.
    Fleet,
    /// `pools/<pool>/pool.yaml`.
    Nodepool,
}

pub(super) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let schema = match args.kind {
        Kind::Fleet => schema::fleet_schema(),
        Kind::Nodepool => schema::nodepool_schema(),
    };
    terminal.out.write_all(schema::pretty(&schema).as_bytes())?;
    Ok(Exit::Done)
}
