//! `nodecfg agent status`: what the agent of this node knows, read from its folder.

use super::args::StoreArgs;
use crate::cli::{Exit, Failure, Terminal};
use crate::report::{self, Format, agent_status};
use nodecfg_agent::disk::real::RealDisk;
use nodecfg_agent::store;

/// Show what the agent of this node has on disk, without the API server and whether or not the agent runs.
///
/// Exits with 2 when something there cannot be read.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let folder = args.store.folder();
    if let Err(error) = std::fs::read_dir(folder) {
        return Err(Failure::agent(
            format!("cannot read the agent's folder {}: {error}", folder.display()),
            "name it with --store-dir; it belongs to root, and is made when the agent first runs",
        ));
    }
    let found = store::inspect(&RealDisk::unlocked(), folder);
    let folder = folder.display().to_string();
    match format {
        Format::Text | Format::Markdown => agent_status::text(&mut terminal.out, &folder, &found)?,
        Format::Json => report::json(&mut terminal.out, &agent_status::document(&folder, &found)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &agent_status::document(&folder, &found)?)?,
    }
    Ok(if found.problems.is_empty() { Exit::Done } else { Exit::Failed })
}
