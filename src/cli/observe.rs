//! From a repository and a cluster to a checked plan: what `diff`, `sync` and `verify` have in common.

use std::collections::BTreeSet;

use tracing::Instrument as _;

use super::CommandError;
use super::repository_args::Loaded;
use super::terminal::Terminal;
use crate::report::{Format, findings};
use crate::telemetry::spans;
use kubelet_config::finding::Strictness;
use nodecfg_cluster::lease::{self, HeldLock, OrderError};
use nodecfg_cluster::{ClusterError, ClusterReader, observe};
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_contract::observed::{Observed, Orders};
use nodecfg_planning::plan::{self, Options, Plan, Scope};

/// A plan and what it was made from.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) observed: Observed,
    pub(super) options: Options,
}

/// Says what the repository's author may want to know, on standard error.
pub(super) fn warn(loaded: &Loaded, verbose: u8, terminal: &mut Terminal) -> Result<(), CommandError> {
    terminal.record.read(&loaded.desired.fleet, loaded.desired.commit.as_ref());
    // That it is no git repository, or who signed the commit, is in the first line already.
    let told = loaded.findings.iter().filter(|finding| !matches!(finding.code, "not-in-git" | "verified-commit"));
    Ok(findings::remarks(&mut terminal.err, &loaded.snapshot, told, verbose > 0, terminal.err_width)?)
}

/// The same of what came out with the versions of the nodes. Programs read it in the plan.
pub(super) fn warn_of_plan(
    plan: &Plan,
    loaded: &Loaded,
    format: Format,
    verbose: u8,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    if matches!(format, Format::Json | Format::Yaml) {
        return Ok(());
    }
    // What was said of the repository need not be said again.
    let new = plan.findings.iter().filter(|finding| !loaded.findings.contains(finding));
    Ok(findings::remarks(&mut terminal.err, &loaded.snapshot, new, verbose > 0, terminal.err_width)?)
}

/// What is ordered of the fleet. Who holds the lock must know; a reader who may not see the Lease is told that it is not
/// known, and shown what a sync would do if nothing were paused.
async fn orders(
    reader: &ClusterReader,
    lock: Option<&HeldLock>,
    namespace: &NamespaceName,
    fleet: &FleetName,
) -> Result<Orders, CommandError> {
    if let Some(lock) = lock {
        return Ok(lock.look().await?);
    }
    match lease::desk(reader, namespace.as_str(), fleet).await {
        Ok(desk) => Ok(desk.orders),
        Err(OrderError::Cluster(error @ ClusterError::Forbidden { .. })) => {
            tracing::warn!(
                "{error}. Whether somebody has paused pools (nodecfg pause) is not known; this goes on as if nobody had"
            );
            Ok(Orders::default())
        }
        Err(error) => Err(error.into()),
    }
}

/// Looks at the cluster, makes the plan, and checks its invariants. What is ordered of the fleet is read under the lock, where
/// it is held.
pub(super) async fn plan(
    loaded: &Loaded,
    reader: &ClusterReader,
    lock: Option<&HeldLock>,
    options: Options,
) -> Result<Planned, CommandError> {
    let desired = &loaded.desired;
    let ordered = orders(reader, lock, &options.namespace, &desired.fleet).await?;
    let questions = |observed: &Observed| plan::questions(desired, observed, &options.namespace);
    let looking = observe::observe(reader, options.namespace.as_str(), questions);
    let mut observed = looking.instrument(spans::stage("observe")).await?;
    observed.orders = ordered;
    let plan = spans::stage("plan")
        .in_scope(|| plan::make(desired, &observed, &options))
        .map_err(|problems| CommandError::Problems { problems, snapshot: Box::new(loaded.snapshot.clone()) })?;
    let violations = plan::check(&plan, &observed, &options.scope);
    if violations.is_empty() {
        Ok(Planned { plan, observed, options })
    } else {
        Err(CommandError::Violations(violations))
    }
}

/// What a user allows a plan to do.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Allowances {
    /// Also move nodes that point at ConfigMaps of others.
    #[arg(long)]
    pub(super) take_over: bool,
    /// Accept a repository without pools, and pools that lost all their nodes.
    #[arg(long)]
    pub(super) allow_empty: bool,
}

impl Allowances {
    pub(super) fn options(self, namespace: NamespaceName, gate: Strictness) -> Options {
        let (take_over, allow_empty) = (self.take_over, self.allow_empty);
        Options { namespace, take_over, allow_empty, gate, despite_pause: BTreeSet::new(), scope: Scope::Everything }
    }
}
