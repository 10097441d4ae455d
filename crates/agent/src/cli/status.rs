//! `nodecfg-agent status`: prints the state in the agent's folder.

use super::args::StoreArgs;
use super::description::{self, AgentStatus};
use super::{AgentError, Exit, Format};
use crate::disk::real::RealDisk;
use crate::store;

/// Print the state in the agent's folder.
///
/// Exits with 2 if the state is damaged: a file is missing or unreadable.
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
            "set --store-dir and run as root; the agent creates the folder at its first start",
        ));
    }
    let found = store::inspect(&RealDisk::unlocked(), folder);
    let folder = folder.display().to_string();
    let document = AgentStatus { folder: &folder, found: &found };
    super::write(out, format, document, |out| description::text(out, &folder, &found))?;
    Ok(if found.problems.is_empty() { Exit::Done } else { Exit::Failed })
}
