//! `nodecfg-agent status`: what the agent of this node knows, read from its folder.

use super::args::StoreArgs;
use super::description::{self, AgentStatus};
use super::{AgentError, Exit, Format};
use crate::disk::real::RealDisk;
use crate::store;

/// Show what the agent of this node has on disk, without the API server and whether or not the agent runs.
///
/// Exits with 2 when something there cannot be read.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) fn run(args: &Args, format: Format, out: &mut Vec<u8>) -> Result<Exit, AgentError> {
    let folder = args.store.folder();
    if let Err(error) = std::fs::read_dir(folder) {
        return Err(AgentError::agent(
            format!("cannot read the agent's folder {}: {error}", folder.display()),
            "name it with --store-dir; it belongs to root, and is made when the agent first runs",
        ));
    }
    let found = store::inspect(&RealDisk::unlocked(), folder);
    let folder = folder.display().to_string();
    let document = AgentStatus { folder: &folder, found: &found };
    super::write(out, format, document, |out| description::text(out, &folder, &found))?;
    Ok(if found.problems.is_empty() { Exit::Done } else { Exit::Failed })
}
