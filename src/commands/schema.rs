//! `nodecfg schema`: JSON Schemas of repository files, of KubeletConfiguration and of command outputs.

use std::borrow::Cow;

use clap::builder::{PossibleValue, PossibleValuesParser};

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::repository::parse_kubernetes_version;
use crate::report::schemas;
use crate::report::schemas::OUTPUTS;
use kubelet_config::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};
use nodecfg_fleet::formats::schema::pretty;

/// Print the JSON Schema of a file or output, for editors and validators.
///
/// Editors with yaml-language-server read the schema named in a first line such as `# yaml-language-server:
/// $schema=../../kubelet.schema.json`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Print the schema of this file or output.
    #[arg(value_name = "KIND", value_parser = names())]
    name: String,
    #[arg(long, value_name = "VERSION", value_parser = parse_kubernetes_version)]
    #[arg(help = format!("Print `kubelet` for this version: {OLDEST} to {NEWEST} [default: the newest release]"))]
    kubernetes_version: Option<Minor>,
}

const EXAMPLE: &str = "\
Example:
  nodecfg schema kubelet --kubernetes-version 1.36 > kubelet.schema.json";

/// Schemas of repository files.
const FILES: [(&str, &str); 3] =
    [("fleet", "`nodecfg.yaml`"), ("nodepool", "`pools/<pool>/pool.yaml`"), (KUBELET, "A KubeletConfiguration")];
const KUBELET: &str = "kubelet";
const PLAN: (&str, &str) = ("plan", "Output of `nodecfg diff --out FILE`");

/// Names of all schemas, with descriptions.
fn names() -> PossibleValuesParser {
    let files = FILES.map(|(name, what)| PossibleValue::new(name).help(what));
    let outputs =
        OUTPUTS.iter().map(|output| PossibleValue::new(output.name).help(format!("Output of {}", output.written_by)));
    let plan = PossibleValue::new(PLAN.0).help(PLAN.1);
    PossibleValuesParser::new(files.into_iter().chain(outputs).chain([plan]))
}

pub(super) fn run(args: &Args, terminal: &mut Terminal) -> CommandResult {
    if args.kubernetes_version.is_some() && args.name != KUBELET {
        return Err(CommandError::usage("--kubernetes-version requires `schema kubelet`", "omit --kubernetes-version"));
    }
    let of_kubelet = || kubelet_config::fields::schema(args.kubernetes_version.unwrap_or(NEWEST_RELEASED));
    let schema = match args.name.as_str() {
        "fleet" => schemas::FLEET.into(),
        "nodepool" => schemas::NODEPOOL.into(),
        KUBELET => Cow::Owned(pretty(&of_kubelet())),
        // The argument parser rejects other names.
        name => OUTPUTS.iter().find(|output| output.name == name).map_or(schemas::PLAN, |output| output.schema).into(),
    };
    terminal.out.write_all(schema.as_bytes())?;
    Ok(Exit::Done)
}
