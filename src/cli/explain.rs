//! `nodecfg explain`: what a field of KubeletConfiguration is, or what the code of a finding, an error or a check means.

use super::repository_args::parse_kubernetes_version;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::report::coded::{self, Coded};
use crate::report::{self, Format, field};
use kubelet_config::Minor;
use kubelet_config::minor::{NEWEST, NEWEST_RELEASED, OLDEST};
use nodecfg_contract::json_document::Document;

/// Explain a field of KubeletConfiguration, as `kubectl explain` does for resources; or the code of a finding or an error.
///
/// Says what it does, its type and default, what it may be, which kubelets have it, its feature gate, the kubelet's rules
/// for it, and what a change of it does to a running node. Without a field, lists them all. Of a code: what it means, why
/// that is so, and what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The field: its path with dots, also into lists and maps, or featureGates.NAME. Or a code.
    #[arg(value_name = "FIELD|CODE")]
    field: Option<String>,
    /// Show the fields of its fields too, names and types alone.
    #[arg(long)]
    recursive: bool,
    #[arg(long, value_name = "VERSION", value_parser = parse_kubernetes_version)]
    #[arg(help = format!("For kubelets of which version: {OLDEST} to {NEWEST}. The newest release by default"))]
    kubernetes_version: Option<Minor>,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg explain evictionHard
  nodecfg explain logging --recursive
  nodecfg explain registerWithTaints.effect
  nodecfg explain featureGates.NodeSwap --kubernetes-version 1.29
  nodecfg explain cluster-forbidden";

pub(super) fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let asked = args.field.as_deref().unwrap_or_default();
    if let Some(coded) = coded::explain(asked) {
        return write(&coded, format, terminal);
    }
    // No field has a hyphen in its name, and many codes have.
    if asked.contains('-') && !asked.contains('.') {
        let help = match coded::nearest_code(asked) {
            Some(near) => format!("is it {near}?"),
            None => "docs/findings.md lists the codes of findings; those of errors are in -o json".to_owned(),
        };
        return Err(CommandError::usage(format!("no finding, no error and no check has the code {asked}"), help));
    }
    let minor = args.kubernetes_version.unwrap_or(NEWEST_RELEASED);
    let explanation = field::explain(asked, minor, args.recursive)
        .map_err(|absent| CommandError::usage(absent.message, absent.help))?;
    match format {
        Format::Text => field::text(&mut terminal.out, &explanation, minor)?,
        Format::Markdown => field::markdown(&mut terminal.out, &explanation, minor)?,
        Format::Json => report::json(&mut terminal.out, &field::document(&explanation, minor)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &field::document(&explanation, minor)?)?,
    }
    Ok(Exit::Done)
}

fn write(coded: &Coded, format: Format, terminal: &mut Terminal) -> CommandResult {
    match format {
        Format::Text => coded::text(&mut terminal.out, coded)?,
        Format::Markdown => coded::markdown(&mut terminal.out, coded)?,
        Format::Json => report::json(&mut terminal.out, &Document::value(coded)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &Document::value(coded)?)?,
    }
    Ok(Exit::Done)
}
