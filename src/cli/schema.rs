//! `nodecfg schema`: JSON Schemas of the files of a repository, of a KubeletConfiguration, and of what commands write.

use super::repository_args::parse_kubernetes_version;
use super::{Exit, Failure, Terminal};
use crate::report::schemas::{self, Output};
use kubelet_config::Minor;
use kubelet_config::minor::{NEWEST, NEWEST_RELEASED, OLDEST};
use nodecfg_planning::desired::schema;
use nodecfg_planning::plan::saved::schema::plan_schema;

/// Print the JSON Schema of a file or of an output, for editors and checkers.
///
/// Editors with yaml-language-server take it from a first line such as
/// `# yaml-language-server: $schema=../../kubelet.schema.json`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// Of which file or output.
    #[arg(value_enum)]
    kind: Kind,
    #[arg(long, value_name = "VERSION", value_parser = parse_kubernetes_version)]
    #[arg(help = format!("For kubelets of which version, with `kubelet`: {OLDEST} to {NEWEST}. The newest release by default"))]
    kubernetes_version: Option<Minor>,
}

const EXAMPLE: &str = "\
Example:
  nodecfg schema kubelet --kubernetes-version 1.36 > kubelet.schema.json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// `nodecfg.yaml`.
    Fleet,
    /// `pools/<pool>/pool.yaml`.
    Nodepool,
    /// A KubeletConfiguration.
    Kubelet,
    /// What `validate -o json` writes.
    Validation,
    /// What `diff -o json` and `sync --dry-run -o json` write.
    Diff,
    /// A line of `sync -o json` and `verify -o json`.
    Events,
    /// What `status -o json` writes.
    Status,
    /// What `doctor -o json` writes.
    Doctor,
    /// What `explain -o json` writes of a code.
    Code,
    /// What `explain -o json` writes of a field.
    /// A line of `status --watch -o json`.
    StatusLines,
    /// What `explain -o json` writes.
    Explanation,
    /// What `init -o json` writes.
    Initialization,
    /// What `capture -o json` writes.
    Capture,
    /// What `install -o json` writes.
    Installation,
    /// What `nodecfg-agent status -o json` writes.
    AgentStatus,
    /// What `nodecfg-agent --once -o json` writes.
    AgentPass,
    /// What `history -o json` writes.
    History,
    /// What `prune -o json` writes.
    Pruning,
    /// What `pause -o json` and `resume -o json` write.
    PoolOrders,
    /// What `abort -o json` writes.
    Abort,
    /// What every command writes with `-o json` when it cannot do its work.
    Error,
    /// What `nodecfg diff --out` writes.
    Plan,
}

pub(super) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, Failure> {
    if args.kubernetes_version.is_some() && args.kind != Kind::Kubelet {
        return Err(Failure::usage(
            "--kubernetes-version goes with `schema kubelet` alone",
            "the formats of nodecfg's own files are the same for every version",
        ));
    }
    let schema = match args.kind {
        Kind::Fleet => schema::fleet_schema(),
        Kind::Nodepool => schema::nodepool_schema(),
        Kind::Validation => schemas::schema(Output::Validation),
        Kind::Diff => schemas::schema(Output::Diff),
        Kind::Events => schemas::schema(Output::Events),
        Kind::Status => schemas::schema(Output::Status),
        Kind::Doctor => schemas::schema(Output::Doctor),
        Kind::Code => schemas::schema(Output::Code),
        Kind::StatusLines => schemas::schema(Output::StatusLines),
        Kind::Explanation => schemas::schema(Output::Explanation),
        Kind::Initialization => schemas::schema(Output::Initialization),
        Kind::Capture => schemas::schema(Output::Capture),
        Kind::Installation => schemas::schema(Output::Installation),
        Kind::AgentStatus => schemas::schema(Output::AgentStatus),
        Kind::AgentPass => schemas::schema(Output::AgentPass),
        Kind::History => schemas::schema(Output::History),
        Kind::Pruning => schemas::schema(Output::Pruning),
        Kind::PoolOrders => schemas::schema(Output::PoolOrders),
        Kind::Abort => schemas::schema(Output::Abort),
        Kind::Error => schemas::schema(Output::Error),
        Kind::Plan => plan_schema(),
        Kind::Kubelet => kubelet_config::schema::schema(args.kubernetes_version.unwrap_or(NEWEST_RELEASED)),
    };
    terminal.out.write_all(schema::pretty(&schema).as_bytes())?;
    Ok(Exit::Done)
}
