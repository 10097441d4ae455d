//! `nodecfg crd`: the CustomResourceDefinition of NodeConfig.

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::report::{self, Format};
use nodecfg_contract::nodeconfig;

/// Print the CustomResourceDefinition of NodeConfig as YAML, or as JSON with -o json.
///
/// NodeConfigs carry the assignments since Kubernetes 1.26, where Nodes no longer do.
/// `nodecfg install` applies the definition with everything else that node agents need.
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
            return Err(CommandError::usage("crd does not write markdown", "use -o yaml"));
        }
    }
    Ok(Exit::Done)
}
