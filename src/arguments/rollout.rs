//! Arguments that control a rollout and its lock.

use std::time::Duration;

use tracing::Instrument as _;

use crate::arguments::cluster::parse_timeout;
use crate::arguments::fleet::FleetLocation;
use crate::telemetry::spans;
use crate::terminal::environment;
use crate::terminal::failure::CommandError;
use kubelet_config::risk::Class;
use nodecfg_cluster::lock;
use nodecfg_cluster::lock::{HeldLock, LockOptions};
use nodecfg_contract::printable::one_line;
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::orders::LONGEST_REASON;

/// Arguments that control a rollout.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RolloutArgs {
    /// Roll failed nodes back to their previous configuration.
    #[arg(long)]
    pub(crate) rollback_on_failure: bool,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    /// Send at most N requests concurrently.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) concurrency: u16,
    /// Start nodes at any time, whatever windows and exclusions say. Requires --reason.
    #[arg(long, requires = "reason")]
    pub(crate) ignore_windows: bool,
}

/// Argument that gives the reason for an exception of one run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReasonArgs {
    /// Record this reason for --ignore-windows, in Events and reports.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason, requires = "ignore_windows")]
    pub(crate) reason: Option<String>,
}

/// Argument that waits for trials.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct TrialArgs {
    /// Also wait until the trial of each converged node ends. A failed trial is a failure, as is one that takes longer
    /// than its time and the convergenceTimeout.
    #[arg(long)]
    pub(crate) wait_trial: bool,
}

/// Argument that allows disruption.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct DisruptionArgs {
    /// Allow disruption of running pods up to this class in this run: none, restart, drain or replace. Default: what
    /// the pool allows in the repository, otherwise restart. A node agent compares with what its node really runs.
    #[arg(long, value_name = "CLASS", value_parser = parse_class)]
    pub(crate) allow_disruption: Option<Class>,
}

impl DisruptionArgs {
    /// Sets the class in the policy of a pool.
    pub(crate) fn apply(self, policy: &mut RolloutPolicy) {
        policy.allow_disruption = self.allow_disruption.unwrap_or(policy.allow_disruption);
    }
}

/// Argument that controls the lock.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LockArgs {
    /// Wait this long for another sync of the same fleet to end; 0 sets no limit. Default: do not wait.
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    lock_timeout: Option<Duration>,
}

impl LockArgs {
    /// Takes the lock of a fleet.
    pub(crate) async fn take(&self, location: &FleetLocation) -> Result<HeldLock, CommandError> {
        let FleetLocation { reader, fleet, namespace } = location;
        let host = environment::host().unwrap_or_else(|| "unknown".to_owned());
        let identity = lock::identity(&host, std::process::id(), fastrand::u64(..));
        let timeout = self.lock_timeout.unwrap_or_default();
        let lock = LockOptions { timeout, ..LockOptions::new(namespace.as_str(), fleet.clone(), identity) };
        Ok(lock::acquire(reader, lock).instrument(spans::stage("lock")).await?)
    }
}

/// Parses a class that a node can be prepared for.
fn parse_class(name: &str) -> Result<Class, String> {
    let class = Class::parse(name).filter(|class| *class != Class::Never);
    class.ok_or_else(|| "the class must be none, restart, drain or replace".to_owned())
}

/// Parses a reason: one line, not empty.
pub(crate) fn parse_reason(text: &str) -> Result<String, String> {
    let reason = one_line(text);
    match reason.chars().count() {
        0 => Err("a reason must not be empty".to_owned()),
        long if long > LONGEST_REASON => Err(format!("a reason has at most {LONGEST_REASON} characters, not {long}")),
        _ => Ok(reason),
    }
}
