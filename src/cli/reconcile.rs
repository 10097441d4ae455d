//! The one way to change nodes, which `sync`, `rollback` and `reset` share: the lock, the plan under it, its checker, the rollout.

use std::time::Duration;

use tokio::sync::watch;
use tracing::Instrument as _;

use super::cluster_args::parse_duration;
use super::observe::{Planned, plan, warn_of_plan};
use super::plan_file::SavedPlanCheck;
use super::reports::ReportArgs;
use super::repository_args::Loaded;
use super::run::{self, Purpose, Reporter, Subject};
use super::{CommandError, CommandResult, Exit, Terminal, diff};
use crate::report::Format;
use crate::report::progress::RunHeader;
use crate::review::{Side, of_plan};
use crate::rollout::execute::{Rollout, Stop, check_permissions, execute};
use crate::telemetry::spans;
use nodecfg_cluster::lease::{self, HeldLock, LockOptions};
use nodecfg_cluster::{ClusterReader, ClusterWriter};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::observed::Pause;
use nodecfg_planning::plan::{Options, Plan};
use nodecfg_planning::rollout::machine::Mode;

/// How a rollout goes about it.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct PaceArgs {
    /// Point nodes that fail back at what they had before.
    #[arg(long)]
    rollback_on_failure: bool,
    #[command(flatten)]
    lock: LockArgs,
    /// How many requests to send at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
}

/// How the lock is taken.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct LockArgs {
    /// How long to wait for another sync of the same fleet to end.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    lock_timeout: Duration,
}

impl LockArgs {
    /// Takes the lock of a fleet.
    pub(super) async fn take(
        &self,
        reader: &ClusterReader,
        namespace: &NamespaceName,
        fleet: &FleetName,
    ) -> Result<HeldLock, CommandError> {
        let host =
            hostname::get().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown".to_owned());
        let identity = lease::identity(&host, std::process::id(), fastrand::u64(..));
        let lock =
            LockOptions { timeout: self.lock_timeout, ..LockOptions::new(namespace.as_str(), fleet.clone(), identity) };
        Ok(lease::acquire(reader, lock).instrument(spans::stage("lock")).await?)
    }
}

/// What is to be made so, and how that is shown.
pub(super) struct Reconciliation<'a> {
    pub(super) purpose: Purpose,
    pub(super) loaded: &'a Loaded,
    /// What was read, as a reader names it.
    pub(super) side: Side,
    pub(super) scene: &'a RunHeader,
    pub(super) reader: &'a ClusterReader,
    /// The plan that was reviewed, if one was.
    pub(super) meeting: Option<&'a SavedPlanCheck>,
    pub(super) options: Options,
    /// Pauses this pool once it is clear that it can be changed, and before it is.
    pub(super) pause: Option<(PoolName, Pause)>,
    pub(super) pace: &'a PaceArgs,
    pub(super) reports: &'a ReportArgs,
    pub(super) format: Format,
    pub(super) verbose: u8,
}

impl Reconciliation<'_> {
    /// Shows what would be done, and changes nothing.
    pub(super) async fn preview(&self, terminal: &mut Terminal) -> CommandResult {
        let plan = self.shown(terminal).await?;
        // What the plan says already; here is no more to say than how this would end.
        Ok(if plan.refusals().is_empty() { Exit::Done } else { Exit::InvalidRepository })
    }

    /// Shows what would be done; answers with the plan.
    pub(super) async fn shown(&self, terminal: &mut Terminal) -> Result<Plan, CommandError> {
        let Planned { plan, .. } =
            plan(self.loaded, self.reader, None, self.options.clone()).await.and_then(|planned| {
                if let Some(meeting) = self.meeting {
                    meeting.hold(&planned, self.reader)?;
                }
                Ok(planned)
            })?;
        terminal.record.planned(&plan);
        warn_of_plan(&plan, self.loaded, self.format, self.verbose, terminal)?;
        let review = of_plan(self.side.clone(), &self.loaded.desired, &plan);
        diff::write(&review, self.format, None, self.reports, self.verbose, terminal)?;
        Ok(plan)
    }

    /// The plan, shown to people.
    pub(super) async fn planned_or_shown(&self, show: bool, terminal: &mut Terminal) -> Result<Plan, CommandError> {
        if show {
            return self.shown(terminal).await;
        }
        Ok(plan(self.loaded, self.reader, None, self.options.clone()).await?.plan)
    }

    /// Does it, under the lock.
    pub(super) async fn carry_out(self, terminal: &mut Terminal) -> CommandResult {
        let mut stop = run::stop_on_signals(terminal.foot.clone());
        let taking = self.pace.lock.take(self.reader, &self.options.namespace, &self.loaded.desired.fleet);
        let lock = run::unless_stopped(&mut stop, taking).await?;
        let result = self.under(&lock, stop, terminal).await;
        lock.release().await;
        result
    }

    async fn under(self, lock: &HeldLock, mut stop: watch::Receiver<Stop>, terminal: &mut Terminal) -> CommandResult {
        let planned = run::unless_stopped(&mut stop, self.planned(lock)).await?;
        let Some((pool, pause)) = self.pause.clone() else {
            return self.roll_out(planned, lock, stop, &mut false, terminal).await;
        };
        // What would keep it from being changed must not leave it paused.
        run::unless_stopped(&mut stop, check_permissions(&planned.plan, self.reader)).await?;
        let place = (self.reader, self.options.namespace.clone(), self.loaded.desired.fleet.clone());
        let is_text = matches!(self.format, Format::Text | Format::Markdown);
        let mut begun = false;
        let result = self.paused_and_rolled_out((&pool, &pause), lock, stop, &mut begun, terminal).await;
        if result.is_err() {
            let (reader, namespace, fleet) = place;
            // As long as no node was touched, nothing has to be kept from the next sync.
            let stays = begun || withdraw(reader, &namespace, &fleet, (&pool, &pause)).await.is_err();
            if stays && is_text {
                terminal.out.flush()?;
                writeln!(terminal.err, "Pool {pool} stays paused until: nodecfg resume {pool}")?;
            }
        }
        result
    }

    async fn paused_and_rolled_out(
        self,
        (pool, pause): (&PoolName, &Pause),
        lock: &HeldLock,
        mut stop: watch::Receiver<Stop>,
        begun: &mut bool,
        terminal: &mut Terminal,
    ) -> CommandResult {
        run::unless_stopped(&mut stop, self.paused(pool, pause)).await?;
        // A rollout stops for what was ordered after its plan.
        let planned = run::unless_stopped(&mut stop, self.planned(lock)).await?;
        self.roll_out(planned, lock, stop, begun, terminal).await
    }

    async fn roll_out(
        self,
        planned: Planned,
        lock: &HeldLock,
        stop: watch::Receiver<Stop>,
        begun: &mut bool,
        terminal: &mut Terminal,
    ) -> CommandResult {
        terminal.record.planned(&planned.plan);
        let Planned { plan, observed, options } = planned;
        if plan.has_changes() {
            warn_of_plan(&plan, self.loaded, self.format, self.verbose, terminal)?;
        }
        let review = of_plan(self.side, &self.loaded.desired, &plan);
        let subject = Subject { purpose: self.purpose, scene: self.scene, plan: &plan, review: &review };
        let mut audience = Reporter::gather(subject, self.format, self.reports, self.verbose, terminal)?;
        let rollout = Rollout {
            plan: &plan,
            desired: &self.loaded.desired,
            observed: &observed,
            options: &options,
            mode: Mode {
                assign: true,
                as_reviewed: self.meeting.is_some(),
                rollback_on_failure: self.pace.rollback_on_failure,
                concurrency: usize::from(self.pace.concurrency),
                timeout: None,
            },
        };
        let writer = ClusterWriter::new(self.reader.clone(), lock);
        let mut listen = |now, event: &_| audience.tell(now, event);
        let execution = execute(rollout, self.reader, &writer, lock.lost(), lock.orders(), stop, &mut listen).await?;
        *begun = true;
        audience.dismiss(&execution, terminal)
    }

    /// A plan that may be carried out.
    async fn planned(&self, lock: &HeldLock) -> Result<Planned, CommandError> {
        let planned = plan(self.loaded, self.reader, Some(lock), self.options.clone()).await?;
        if let Some(meeting) = self.meeting {
            meeting.hold(&planned, self.reader)?;
        }
        let problems = planned.plan.refusals();
        if problems.is_empty() {
            return Ok(planned);
        }
        Err(CommandError::Problems { problems, snapshot: Box::new(self.loaded.snapshot.clone()) })
    }

    /// Pauses the pool. Who has paused it before goes on to be the one who did.
    async fn paused(&self, pool: &PoolName, pause: &Pause) -> Result<(), CommandError> {
        let fleet = &self.loaded.desired.fleet;
        lease::order(self.reader, self.options.namespace.as_str(), fleet, |desk| {
            if desk.orders.pauses.contains_key(pool) {
                return None;
            }
            let mut orders = desk.orders.clone();
            orders.pauses.insert(pool.clone(), pause.clone());
            Some(orders)
        })
        .await?;
        Ok(())
    }
}

/// Takes a pause back, if it is still the same one.
async fn withdraw(
    reader: &ClusterReader,
    namespace: &NamespaceName,
    fleet: &FleetName,
    (pool, pause): (&PoolName, &Pause),
) -> Result<(), lease::OrderError> {
    lease::order(reader, namespace.as_str(), fleet, |desk| {
        if desk.orders.pauses.get(pool) != Some(pause) {
            return None;
        }
        let mut orders = desk.orders.clone();
        orders.pauses.remove(pool);
        Some(orders)
    })
    .await?;
    Ok(())
}
