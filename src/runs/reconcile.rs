//! The only code path that changes nodes, shared by `sync`, `rollback` and `reset`: lock, plan, check, rollout.

use std::time::Duration;

use tokio::sync::watch;

use super::comparison::side;
use super::drain_forecast::with_drained_pods;
use super::kubelet_samples::KubeletArgs;
use super::plan_file::CheckedPlan;
use super::planning::{Planned, plan, warn};
use super::run;
use super::run::{Purpose, Reporter, RunSubject};
use crate::arguments::fleet::FleetLocation;
use crate::arguments::gates::GateOptions;
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::Loaded;
use crate::arguments::rollout::RolloutArgs;
use crate::report::Format;
use crate::report::progress::RunHeader;
use crate::review::{Review, Side, of_plan};
use crate::rollout::Rollout;
use crate::rollout::execute::{Stop, execute};
use crate::rollout::prepare::check_permissions;
use crate::runs::write_review;
use crate::terminal::exit::Exit;
use crate::terminal::failure::{CommandError, CommandResult};
use crate::terminal::streams::Terminal;
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::ClusterWriter;
use nodecfg_cluster::lock::HeldLock;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::printable::one_line;
use nodecfg_observed::Pause;
use nodecfg_plan::{Options, Plan, Problem, check_returning};
use nodecfg_rollout::machine::Mode;

/// Shortest interval in which gates are asked.
const SHORTEST_GATE_INTERVAL: Duration = Duration::from_millis(500);

/// A change to carry out, and its output.
pub(crate) struct Reconciliation<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) loaded: &'a Loaded,
    pub(crate) header: &'a RunHeader,
    pub(crate) location: &'a FleetLocation,
    /// The saved plan that the new plan must equal, if one is given.
    pub(crate) saved_plan: Option<&'a CheckedPlan>,
    pub(crate) options: Options,
    /// Pauses this pool before the first change, once it is certain that the change can start. Disruption that the pause
    /// records as allowed is already part of `loaded`.
    pub(crate) pause: Option<(PoolName, Pause)>,
    pub(crate) kubelets: KubeletArgs,
    pub(crate) rollout_args: &'a RolloutArgs,
    /// Whether the run waits for trials.
    pub(crate) wait_trial: bool,
    /// Speed of the nodes' time; 1 is real time.
    pub(crate) speed: f64,
    /// Clock of the time limits.
    pub(crate) clock: ScaledClock,
    /// How gates are asked. `None`: the run ignores gates.
    pub(crate) gates: Option<GateOptions>,
    pub(crate) reports: &'a ReportArgs,
    pub(crate) format: Format,
    pub(crate) verbose: u8,
}

impl Reconciliation<'_> {
    /// Prints the plan and changes nothing.
    pub(crate) async fn preview(&self, terminal: &mut Terminal) -> CommandResult {
        let (plan, printed) = self.print_plan(true, terminal).await?;
        // The plan is printed already; only the exit code of a sync is missing.
        Ok(if self.refusals(&plan).is_empty() { printed } else { Exit::InvalidRepository })
    }

    /// Returns the plan, with the exit code if the command ends now. Prints the plan if `show` is set.
    pub(crate) async fn print_plan(&self, show: bool, terminal: &mut Terminal) -> Result<(Plan, Exit), CommandError> {
        let Planned { plan, observed, .. } = self.plan(None).await?;
        if !show {
            return Ok((plan, Exit::Done));
        }
        terminal.record.planned(&plan, &observed);
        warn(&plan, self.loaded, self.format, self.verbose, terminal)?;
        let review = with_drained_pods(self.review(&plan), &plan, &self.location.reader).await;
        let printed = write_review::write(
            self.purpose.command(),
            &review,
            self.format,
            None,
            self.reports,
            self.verbose,
            terminal,
        );
        Ok((plan, printed))
    }

    /// Runs the rollout under the lock.
    pub(crate) async fn apply_plan(self, terminal: &mut Terminal) -> CommandResult {
        let mut stop = run::stop_on_signals(terminal.status_area.clone());
        if self.purpose == Purpose::Sync && self.loaded.desired.paused {
            run::until_stopped(&mut stop, self.stop_running_sync()).await?;
        }
        let lock = match run::until_stopped(&mut stop, self.rollout_args.lock.take(self.location)).await {
            Ok(lock) => lock,
            Err(error) => {
                // The plan would show it. The error matters more than a failure of this.
                if self.format.is_for_people() {
                    let _ = self.location.show_pause(Some(&self.loaded.desired), terminal).await;
                }
                return Err(error);
            }
        };
        let result = self.run_locked(&lock, stop, terminal).await;
        lock.release().await;
        result
    }

    /// Orders the sync that runs to stop, because this revision pauses the fleet.
    async fn stop_running_sync(&self) -> Result<(), CommandError> {
        let reason = match &self.loaded.desired.commit {
            Some(commit) => format!("commit {} pauses the fleet (spec.paused)", commit.short()),
            None => "the working tree pauses the fleet (spec.paused)".to_owned(),
        };
        if let Some(running) = self.location.stop_for_paused_fleet(&reason).await? {
            tracing::warn!("ordered {} to stop, if it is a sync: {reason}", one_line(&running.identity));
        }
        Ok(())
    }

    async fn run_locked(
        self,
        lock: &HeldLock,
        mut stop: watch::Receiver<Stop>,
        terminal: &mut Terminal,
    ) -> CommandResult {
        let planned = run::until_stopped(&mut stop, self.checked_plan(lock)).await?;
        let Some((pool, pause)) = self.pause.clone() else {
            return self.roll_out(planned, lock, stop, &mut false, terminal).await;
        };
        // The pool must not be paused if the change cannot start.
        run::until_stopped(&mut stop, check_permissions(&planned.plan, &self.location.reader)).await?;
        let location = self.location;
        let is_text = self.format.is_for_people();
        let mut started = false;
        let result = async {
            run::until_stopped(&mut stop, location.pause_for_rollback(&pool, &pause)).await?;
            // A rollout stops for orders that are newer than its plan.
            let planned = run::until_stopped(&mut stop, self.checked_plan(lock)).await?;
            self.roll_out(planned, lock, stop, &mut started, terminal).await
        }
        .await;
        if result.is_err() {
            // The pause is only needed once a node was changed.
            let stays = started || location.remove_pause_of_rollback(&pool, &pause).await.is_err();
            if stays && is_text {
                // A write error must not replace the failure.
                let _ = terminal.out.flush();
                let _ = writeln!(terminal.err, "Pool {pool} stays paused until: nodecfg resume {pool}");
            }
        }
        result
    }

    async fn roll_out(
        self,
        planned: Planned,
        lock: &HeldLock,
        stop: watch::Receiver<Stop>,
        started: &mut bool,
        terminal: &mut Terminal,
    ) -> CommandResult {
        terminal.record.planned(&planned.plan, &planned.observed);
        let Planned { plan, observed, options } = planned;
        if plan.has_changes() || !plan.changed_pointers().is_empty() {
            warn(&plan, self.loaded, self.format, self.verbose, terminal)?;
        }
        let review = self.review(&plan);
        let mode = Mode {
            as_reviewed: self.saved_plan.is_some(),
            rollback_on_failure: self.rollout_args.rollback_on_failure,
            concurrency: usize::from(self.rollout_args.concurrency),
            wait_trial: self.wait_trial,
            speed: self.speed,
            ..Mode::ASSIGN
        };
        let interval = self.gates.as_ref().map(|gates| mode.real_duration(gates.interval).max(SHORTEST_GATE_INTERVAL));
        let mode = Mode { gates: interval, ..mode };
        let subject = RunSubject { purpose: self.purpose, header: self.header, plan: &plan, review, mode };
        let mut reporter = Reporter::start(subject, self.format, self.reports, self.verbose, terminal)?;
        let rollout = Rollout {
            plan: &plan,
            desired: &self.loaded.desired,
            observed: &observed,
            options: &options,
            mode,
            gates: self.gates.as_ref().map(|gates| &gates.evaluator),
            allowed: self.pause.as_ref().and_then(|(_, pause)| pause.allowed.as_ref()),
            ignored_windows: self.header.ignored_windows.as_deref(),
            clock: &self.clock,
        };
        let writer = ClusterWriter::new(self.location.reader.clone(), lock);
        let mut listen = |now, event: &_| reporter.event(now, event);
        let (lost, orders) = (lock.lost(), lock.orders());
        let mut execution =
            execute(rollout, &self.location.reader, &writer, lost, orders, stop.clone(), &mut listen).await?;
        *started = true;
        self.kubelets
            .witness(&mut execution.outcome, &self.loaded.desired, &observed, &self.location.reader, stop)
            .await;
        Ok(reporter.finish(&execution, terminal))
    }

    fn review(&self, plan: &Plan) -> Review {
        let of = |side| of_plan(side, &self.loaded.desired, plan, nodecfg_clock::now());
        match self.purpose {
            Purpose::RollBack => of(side(&self.loaded.arguments, self.loaded)).of_rollback(),
            Purpose::Sync | Purpose::Verify => of(side(&self.loaded.arguments, self.loaded)),
            Purpose::Reset => of(Side::Local),
        }
    }

    /// Problems that prevent execution of the plan.
    fn refusals(&self, plan: &Plan) -> Vec<Problem> {
        let problems = plan.refusals().into_iter();
        match self.purpose {
            Purpose::RollBack => problems.map(Problem::of_rollback).collect(),
            Purpose::Sync | Purpose::Verify | Purpose::Reset => problems.collect(),
        }
    }

    /// Creates a plan that equals the saved plan, if one is given.
    async fn plan(&self, lock: Option<&HeldLock>) -> Result<Planned, CommandError> {
        let planned = plan(self.loaded, &self.location.reader, lock, self.options.clone(), self.kubelets).await?;
        if let Some(saved_plan) = self.saved_plan {
            saved_plan.require_match(&planned, &self.location.reader)?;
        }
        let mut plan = planned.plan;
        if self.header.ignored_windows.is_some() {
            plan = plan.ignoring_windows();
        }
        // These commands change the pools that the user names, often in an incident.
        if matches!(self.purpose, Purpose::RollBack | Purpose::Reset) {
            plan = plan.without_delays();
        }
        if self.purpose == Purpose::RollBack {
            plan = plan.returning_pointers(&planned.observed);
            let violations = check_returning(&plan, &planned.observed);
            if !violations.is_empty() {
                return Err(CommandError::Violations(violations));
            }
        }
        Ok(Planned { plan, ..planned })
    }

    /// Creates a plan, and checks that it may be carried out.
    async fn checked_plan(&self, lock: &HeldLock) -> Result<Planned, CommandError> {
        let planned = self.plan(Some(lock)).await?;
        let problems = self.refusals(&planned.plan);
        if problems.is_empty() {
            return Ok(planned);
        }
        Err(CommandError::Problems { problems, snapshot: Box::new(self.loaded.snapshot.clone()) })
    }
}
