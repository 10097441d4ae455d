//! `nodecfg crd`: the CustomResourceDefinition of NodeConfig.

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::report::{self, Format};
use nodecfg_contract::nodeconfig;

/// Print the CustomResourceDefinition of NodeConfig, which carries the assignments on clusters whose Nodes no longer do (1.26 on).
///
/// As YAML, or with -o json as JSON. `nodecfg install` applies it together with all else that the node agent needs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {}

const EXAMPLE: &str = "\
Example:
  nodecfg crd | kubectl apply --server-side -f -";

pub(super) fn run(_args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let definition = nodeconfig::definition();
    match format {
        Format::Text | Format::Yaml => report::yaml(&mut terminal.out, &definition)?,
        Format::Json => report::json(&mut terminal.out, &definition)?,
        Format::Markdown => {
            return Err(CommandError::usage("there is no markdown of a definition", "use -o yaml or -o json"));
        }
    }
    Ok(Exit::Done)
}
