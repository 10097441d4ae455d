//! `nodecfg explain`: explains a field of KubeletConfiguration, or the code of a finding, error or check.

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::repository::parse_kubernetes_version;
use crate::report::code_explanation::{self, CodeExplanation};
use crate::report::reservations::{self, Reservations};
use crate::report::{self, Format, field};
use crate::runs::emit::Shown;
use kubelet_config::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};
use nodecfg_contract::json_document::Document;

/// Explain a field of KubeletConfiguration, or the code of a finding, error or check.
///
/// For a field, prints its meaning, type, default, allowed values, kubelet versions, feature gate, validation rules
/// and the effect of a change on a running node. For a code, prints its meaning, reason and fix. Without an argument,
/// lists all fields. `reserve` prints the published formulas of spec.kubelet.reserve and their amounts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Explain this field (a path with dots, also into lists and maps, or featureGates.NAME), this code, or reserve.
    #[arg(value_name = "FIELD|CODE")]
    field: Option<String>,
    /// Print nested fields too, with names and types only.
    #[arg(long)]
    recursive: bool,
    #[arg(long, value_name = "VERSION", value_parser = parse_kubernetes_version)]
    #[arg(help = format!("Explain for kubelets of this version: {OLDEST} to {NEWEST} [default: the newest release]"))]
    kubernetes_version: Option<Minor>,
}

/// What the reservations of a pool are called in `pool.yaml`.
const RESERVE: &str = "reserve";

const EXAMPLES: &str = "\
Examples:
  nodecfg explain evictionHard
  nodecfg explain logging --recursive
  nodecfg explain registerWithTaints.effect
  nodecfg explain featureGates.NodeSwap --kubernetes-version 1.29
  nodecfg explain cluster-forbidden
  nodecfg explain reserve";

pub(super) fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let requested = args.field.as_deref().unwrap_or_default();
    if requested == RESERVE {
        let body = Reservations::published();
        let report = reservations::report(&body);
        return Ok(Shown::of(body, report, terminal).print(format, Exit::Done, terminal));
    }
    if let Some(explanation) = code_explanation::explain(requested) {
        return write(&explanation, format, terminal);
    }
    // Field names never contain a hyphen; most codes do.
    if requested.contains('-') && !requested.contains('.') {
        let help = match code_explanation::nearest_code(requested) {
            Some(near) => format!("did you mean {near}?"),
            None => {
                "see docs/reference/findings.md for the codes of findings, and docs/reference/glossary.md for states"
                    .to_owned()
            }
        };
        return Err(CommandError::usage(format!("unknown code {requested}: no finding, error or check has it"), help));
    }
    let minor = args.kubernetes_version.unwrap_or(NEWEST_RELEASED);
    let explanation = field::explain(requested, minor, args.recursive)
        .map_err(|absent| CommandError::usage(absent.message, absent.help))?;
    match format {
        Format::Markdown => field::markdown(&mut terminal.out, &explanation, minor)?,
        Format::Json => report::json(&mut terminal.out, &field::document(&explanation, minor)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &field::document(&explanation, minor)?)?,
        _ => field::text(&mut terminal.out, &explanation, minor, terminal.out_width)?,
    }
    Ok(Exit::Done)
}

fn write(explanation: &CodeExplanation, format: Format, terminal: &mut Terminal) -> CommandResult {
    match format {
        Format::Markdown => code_explanation::markdown(&mut terminal.out, explanation)?,
        Format::Json => report::json(&mut terminal.out, &Document::value(explanation)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &Document::value(explanation)?)?,
        _ => code_explanation::text(&mut terminal.out, explanation, terminal.out_width)?,
    }
    Ok(Exit::Done)
}
