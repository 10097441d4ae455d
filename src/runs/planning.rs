//! Planning for `diff`, `sync` and `verify`: reads the cluster, creates the plan and checks its invariants.

use std::collections::BTreeSet;

use tracing::Instrument as _;

use super::kubelet_samples::KubeletArgs;
use crate::arguments::repository::Loaded;
use crate::report::{Format, findings};
use crate::telemetry::spans;
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use kubelet_config::finding::{Finding, Severity, Strictness};
use nodecfg_cluster::lock::{HeldLock, OrderError};
use nodecfg_cluster::reading::observe;
use nodecfg_cluster::{ClusterError, ClusterReader, lock};
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_observed::{Observed, Orders};
use nodecfg_plan::{CLUSTER_FINDINGS, Options, Plan, Scope};

/// A plan and its input.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) observed: Observed,
    pub(crate) options: Options,
}

/// Prints the warnings about the configuration and the cluster on standard error: those about the configuration as one
/// line, or every finding if `verbose` is above 0. JSON and YAML outputs hold the findings themselves.
pub(crate) fn warn(
    plan: &Plan,
    loaded: &Loaded,
    format: Format,
    verbose: u8,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    if matches!(format, Format::Json | Format::Yaml) {
        return Ok(());
    }
    let new = plan.findings.iter().filter(|finding| !loaded.findings.contains(finding));
    warn_of(loaded.findings.iter().chain(new), loaded, verbose, terminal)
}

/// Prints these findings as [`warn`] does.
pub(crate) fn warn_of<'f>(
    findings: impl Iterator<Item = &'f Finding>,
    loaded: &Loaded,
    verbose: u8,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    let texts = |file: &str| loaded.snapshot.text(file);
    // The first line of the output names the commit and its signer, or states that there is no git repository.
    let new = findings.filter(|finding| !matches!(finding.code, "not-in-git" | "verified-commit"));
    if verbose > 0 {
        return Ok(findings::write_each(&mut terminal.err, &texts, new, terminal.err_width)?);
    }
    let (cluster, configuration): (Vec<_>, Vec<_>) = new
        .filter(|finding| finding.severity != Severity::Note)
        .partition(|finding| CLUSTER_FINDINGS.contains(&finding.code));
    findings::write_each(&mut terminal.err, &texts, cluster.into_iter(), terminal.err_width)?;
    let minors = configuration.iter().flat_map(|finding| finding.kubelets.iter().copied()).collect();
    Ok(findings::summary(&mut terminal.err, configuration.len(), &loaded.arguments.validate_command(&minors))?)
}

/// Reads the orders of the fleet. A holder of the lock must read them. Without permission to read the Lease, a
/// warning is printed and the plan assumes that no pool is paused.
async fn orders(
    reader: &ClusterReader,
    lock: Option<&HeldLock>,
    namespace: &NamespaceName,
    fleet: &FleetName,
) -> Result<Orders, CommandError> {
    if let Some(lock) = lock {
        return Ok(lock.read_orders().await?);
    }
    match lock::snapshot(reader, namespace.as_str(), fleet).await {
        Ok(snapshot) => Ok(snapshot.orders),
        Err(OrderError::Cluster(error @ ClusterError::Forbidden { .. })) => {
            tracing::warn!(
                "{error}. Paused pools (nodecfg pause) are unknown, so this plan assumes that no pool is paused"
            );
            Ok(Orders::default())
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads the cluster, creates the plan and checks its invariants. Orders are read under the lock, if it is held.
/// Kubelets are asked only for configurations that the plan does not know.
pub(crate) async fn plan(
    loaded: &Loaded,
    reader: &ClusterReader,
    lock: Option<&HeldLock>,
    options: Options,
    kubelets: KubeletArgs,
) -> Result<Planned, CommandError> {
    let desired = &loaded.desired;
    let ordered = orders(reader, lock, &options.namespace, &desired.fleet).await?;
    let questions = |observed: &Observed| nodecfg_plan::required_config_maps(desired, observed, &options.namespace);
    let looking = observe::observe(reader, options.namespace.as_str(), questions);
    let mut observed = looking.instrument(spans::stage("observe")).await?;
    observed.orders = ordered;
    let make = |observed: &Observed| {
        nodecfg_plan::make(desired, observed, &options)
            .map_err(|problems| CommandError::Problems { problems, snapshot: Box::new(loaded.snapshot.clone()) })
    };
    let planning = async {
        let plan = make(&observed)?;
        observed.running = kubelets.ask(reader, nodecfg_plan::nodes_to_sample(&plan, &observed), &observed).await;
        if observed.running.is_empty() { Ok(plan) } else { make(&observed) }
    };
    let plan = planning.instrument(spans::stage("plan")).await?;
    let violations = nodecfg_plan::check(&plan, desired, &observed, &options.scope);
    if violations.is_empty() {
        Ok(Planned { plan, observed, options })
    } else {
        Err(CommandError::Violations(violations))
    }
}

/// Arguments that allow exceptional changes.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Allowances {
    /// Also move nodes that point at ConfigMaps not managed by this fleet.
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Accept a repository without pools, and pools without nodes.
    #[arg(long)]
    pub(crate) allow_empty: bool,
}

impl Allowances {
    pub(crate) fn options(self, namespace: NamespaceName, gate: Strictness) -> Options {
        let (take_over, allow_empty) = (self.take_over, self.allow_empty);
        Options { namespace, take_over, allow_empty, gate, despite_pause: BTreeSet::new(), scope: Scope::Everything }
    }
}
