//! `nodecfg version`: the version of the program and the kubelet versions that it knows.

use super::{CommandResult, Exit, Terminal};
use crate::report::version::Version;
use crate::report::{self, Format};
use nodecfg_contract::json_document::Document;

/// Print the version of nodecfg, its commit, and the supported kubelet versions.
///
/// Contacts no cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {}

const EXAMPLES: &str = "\
Examples:
  nodecfg version
  nodecfg version -o json";

pub(super) fn run(format: Format, terminal: &mut Terminal) -> CommandResult {
    let version = Version::of_this_program();
    match format {
        Format::Json => report::json(&mut terminal.out, &Document::value(version)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &Document::value(version)?)?,
        _ => version.text(&mut terminal.out)?,
    }
    Ok(Exit::Done)
}
