//! What `sync` and `verify` share while they run: who is told, how they are stopped, and what the end means.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::live::{self, Live};
use super::output::Output;
use super::reports::ReportArgs;
use super::repository_args::Loaded;
use super::status_area::StatusArea;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::report::error::ErrorMessage;
use crate::report::progress::{JsonLines, Lines, Listener, RunHeader};
use crate::report::run_summary::{self, Before};
use crate::report::{Format, findings, html, outcome, progress, review as shown, summary};
use crate::review::Review;
use crate::rollout::execute::{Execution, Stop};
use crate::telemetry::facts::RunFailure;
use crate::telemetry::spans;
use nodecfg_agent::cli::stop_signals::Signal;
pub(super) use nodecfg_agent::cli::stop_signals::signalled;
use nodecfg_contract::json_document::Document;
use nodecfg_contract::names::NamespaceName;
use nodecfg_planning::plan::Plan;
use nodecfg_planning::rollout::progress::Event;
use nodecfg_planning::rollout::{PoolOutcome, StopReason};

/// Long-running commands write text for people or JSON lines for programs.
pub(super) fn require_stream_format(format: Format) -> Result<(), CommandError> {
    match format {
        Format::Text | Format::Json => Ok(()),
        Format::Yaml | Format::Markdown => Err(CommandError::usage(
            "this command reports while it runs, as text or as JSON lines",
            "use -o text or -o json; `nodecfg diff` and `nodecfg sync --dry-run` also write yaml and markdown",
        )),
    }
}

/// Reports of what goes on for long are JSON lines, or markdown and pages once it has ended.
pub(super) fn create_reports(reports: &ReportArgs) -> Result<(), CommandError> {
    reports.create(|output| match output {
        Output::Json | Output::Markdown | Output::Html => Ok(()),
        _ => Err(CommandError::usage(
            "this command reports while it runs, so that --report takes json, a file of JSON lines, and markdown and html, which \
             say how it ended",
            "use --report json=FILE, markdown=FILE or FILE.html; `nodecfg diff` also writes text and yaml",
        )),
    })
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To change the cluster.
    Sync,
    /// To watch it.
    Verify,
    /// To go back to an earlier revision.
    RollBack,
    /// To go back to the local configuration.
    Reset,
}

impl Purpose {
    /// The command that has it.
    fn command(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Verify => "verify",
            Self::RollBack => "rollback",
            Self::Reset => "reset",
        }
    }
}

/// What a run is about.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) purpose: Purpose,
    pub(super) scene: &'a RunHeader,
    pub(super) plan: &'a Plan,
    pub(super) review: &'a Review,
}

/// Tells a user of a run, in the format asked for.
pub(super) struct Reporter {
    listener: Arc<Mutex<Box<dyn Listener + Send>>>,
    /// Lets time pass for a listener that shows it.
    ticker: Option<JoinHandle<()>>,
    start: Timestamp,
    format: Format,
    /// The other outputs that are asked for.
    reports: ReportArgs,
    /// What those of them begin with that are written at the end.
    before: Before,
    /// What a page tells of the run, where one is asked for.
    page: Option<html::Run>,
    /// Whether anything has happened that was worth telling.
    told: bool,
    failed: Option<std::io::Error>,
    spans: spans::Rollout,
}

impl Reporter {
    /// Shows the plan, and makes ready to show its progress.
    pub(super) fn gather(
        subject: Subject<'_>,
        format: Format,
        reports: &ReportArgs,
        verbose: u8,
        terminal: &mut Terminal,
    ) -> Result<Self, CommandError> {
        let Subject { purpose, scene, plan, review } = subject;
        let start = nodecfg_clock::now();
        let mut listeners: Vec<Box<dyn Listener + Send>> = Vec::new();
        for (_, out) in reports.writers()?.into_iter().filter(|(output, _)| *output == Output::Json) {
            let mut lines = JsonLines(out);
            lines.document(start, "planned", shown::document(review)?)?;
            listeners.push(Box::new(lines));
        }
        let listener: Box<dyn Listener + Send> = match format {
            Format::Json => {
                let mut lines = JsonLines(terminal.another_out());
                lines.document(start, "planned", shown::document(review)?)?;
                Box::new(lines)
            }
            _ => {
                match purpose {
                    _ if terminal.quiet => {}
                    Purpose::Verify if verbose == 0 => shown::awaited(&mut terminal.out, plan)?,
                    _ => shown::text(&mut terminal.out, review, verbose > 0, terminal.out_width)?,
                }
                if !terminal.quiet {
                    writeln!(terminal.out)?;
                }
                terminal.out.flush()?;
                if terminal.quiet {
                    Box::new(Unheard)
                } else if terminal.interactive && verbose == 0 {
                    let assigns = purpose != Purpose::Verify;
                    Box::new(Live::new(plan, assigns, start, terminal.foot.clone(), terminal.colored_err()))
                } else {
                    Box::new(Lines::new(terminal.another_err(), start, verbose > 0))
                }
            }
        };
        listeners.push(listener);
        let listener: Box<dyn Listener + Send> = Box::new(All(listeners));
        let ticks = listener.wants_ticks();
        let listener = Arc::new(Mutex::new(listener));
        let ticker = ticks.then(|| tokio::spawn(tick(Arc::clone(&listener))));
        let (spans, before) = (spans::Rollout::of(plan), Before::of(purpose.command(), scene, review)?);
        let page = reports.have(Output::Html).then(|| html::Run {
            command: purpose.command(),
            scene: scene.clone(),
            review: review.clone(),
            chronicle: html::RunTimeline::new(start),
        });
        Ok(Self {
            listener,
            ticker,
            start,
            format,
            reports: reports.clone(),
            before,
            page,
            told: false,
            failed: None,
            spans,
        })
    }

    pub(super) fn tell(&mut self, now: Timestamp, event: &Event) {
        self.told = true;
        self.spans.tell(event);
        if let Some(page) = &mut self.page {
            page.chronicle.tell(now, &event.progress);
        }
        // Output that fails must not stop a rollout half-way; the first error is told at the end.
        if let Err(error) = own(&self.listener).tell(now, event) {
            self.failed.get_or_insert(error);
        }
    }

    /// Shows how it ended, and says what that means to a script.
    pub(super) fn dismiss(mut self, execution: &Execution, terminal: &mut Terminal) -> CommandResult {
        let (now, exit) = (nodecfg_clock::now(), exit_of(execution));
        if let Some(ticker) = self.ticker.take() {
            ticker.abort();
        }
        terminal.record.ended(&execution.outcome);
        terminal.record.failure = kind_of(execution);
        own(&self.listener).finish(now)?;
        let seconds = now.duration_since(self.start).as_secs_f64();
        let error = execution.error.as_ref().map(|error| ErrorMessage {
            code: error.code().to_owned(),
            message: error.to_string(),
            help: error.help(),
        });
        let document = Document::value(outcome::ended(&execution.outcome, seconds, exit as u8, error.clone()))?;
        let page = self
            .page
            .take()
            .map(|page| html::of_run(page, &execution.outcome, now, seconds, exit as u8, error.as_ref()));
        self.reports.each(|output, out| match output {
            Output::Html => page.as_ref().map_or(Ok(()), |page| html::write(out, page)),
            Output::Markdown => {
                run_summary::write(out, &self.before, &execution.outcome, seconds, exit as u8, error.as_ref())
            }
            _ => JsonLines(out).document(now, "finished", document.clone()),
        })?;
        match self.format {
            Format::Json => JsonLines(&mut terminal.out).document(now, "finished", document)?,
            _ => {
                if self.told {
                    writeln!(terminal.aside())?;
                }
                // Where all is well there is nothing to say that the exit code does not.
                if !terminal.quiet || exit != Exit::Done {
                    summary::write(&mut terminal.out, &execution.outcome, seconds)?;
                }
                terminal.out.flush()?;
                if let Some(error) = &execution.error {
                    findings::message(&mut terminal.err, &error.to_string(), &error.help())?;
                }
            }
        }
        self.failed.take().map_or(Ok(exit), |error| Err(CommandError::Output(error)))
    }
}

impl Drop for Reporter {
    /// A run that failed has nobody dismiss those who listen to it.
    fn drop(&mut self) {
        if let Some(ticker) = self.ticker.take() {
            ticker.abort();
            // The failure is told next, and says more than that this could not be shown.
            let _ = own(&self.listener).finish(nodecfg_clock::now());
        }
    }
}

/// A listener of who does not want to hear.
struct Unheard;

impl Listener for Unheard {
    fn tell(&mut self, _: Timestamp, _: &Event) -> std::io::Result<()> {
        Ok(())
    }
}

/// Several listeners as one.
struct All(Vec<Box<dyn Listener + Send>>);

impl Listener for All {
    fn tell(&mut self, now: Timestamp, event: &Event) -> std::io::Result<()> {
        // All are told, whichever of them fails.
        self.0.iter_mut().map(|listener| listener.tell(now, event)).fold(Ok(()), Result::and)
    }

    fn tick(&mut self, now: Timestamp) {
        self.0.iter_mut().for_each(|listener| listener.tick(now));
    }

    fn wants_ticks(&self) -> bool {
        self.0.iter().any(|listener| listener.wants_ticks())
    }

    fn finish(&mut self, now: Timestamp) -> std::io::Result<()> {
        self.0.iter_mut().map(|listener| listener.finish(now)).fold(Ok(()), Result::and)
    }
}

/// Nothing that holds the listener leaves it in a state that the next could not go on from.
fn own<'a>(listener: &'a Mutex<Box<dyn Listener + Send>>) -> MutexGuard<'a, Box<dyn Listener + Send>> {
    listener.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn tick(listener: Arc<Mutex<Box<dyn Listener + Send>>>) {
    let mut interval = tokio::time::interval(live::PACE);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        own(&listener).tick(nodecfg_clock::now());
    }
}

/// What the end of a run means to a script.
fn exit_of(execution: &Execution) -> Exit {
    if execution.lock_lost {
        Exit::Locked
    } else if execution.error.is_some() {
        Exit::Cluster
    } else if execution.outcome.is_complete() {
        Exit::Done
    } else {
        Exit::NotConverged
    }
}

/// Whether [`stop_on_signals`] decides what a signal means.
static FOLLOWED: AtomicBool = AtomicBool::new(false);

/// Does the work of a command, until a signal ends it: while a repository is fetched, the cluster is read, and wherever else
/// nothing was changed that has to be finished.
pub(super) async fn unless_ended(work: impl Future<Output = CommandResult>) -> CommandResult {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            signal = signalled() => match signal {
                Some(_) if !FOLLOWED.load(Ordering::Relaxed) => return Err(CommandError::Interrupted),
                Some(_) => {}
                None => return work.await,
            },
        }
    }
}

/// What cut a run short, if anything did, as [`CommandError::kind`] has it.
fn kind_of(execution: &Execution) -> Option<RunFailure> {
    let asked = |reason: &StopReason| {
        matches!(reason, StopReason::Interrupted | StopReason::Aborted { .. } | StopReason::Paused { .. })
    };
    let interrupted = |pool: &PoolOutcome| pool.stopped.as_ref().is_some_and(asked);
    if execution.lock_lost {
        Some(RunFailure::Locked)
    } else if execution.error.is_some() {
        Some(RunFailure::Cluster)
    } else {
        execution.outcome.pools.values().any(interrupted).then_some(RunFailure::Interrupted)
    }
}

/// Follows SIGINT, SIGTERM and SIGHUP: the first lets what is in flight finish, the second ends at once. A terminal that is
/// gone does no more than the former: nobody has asked twice.
pub(super) fn stop_on_signals(foot: StatusArea) -> watch::Receiver<Stop> {
    let (sender, receiver) = watch::channel(Stop::No);
    FOLLOWED.store(true, Ordering::Relaxed);
    tokio::spawn(async move {
        let mut next = Stop::Gently;
        while let Some(signal) = signalled().await {
            if signal == Signal::HangUp {
                foot.abandon();
                if next == Stop::Now {
                    continue;
                }
            }
            tracing::warn!(
                "{}",
                match next {
                    Stop::Now => "ending now; nodes in flight keep their assignment",
                    _ => "stopping: nodes in flight are watched to their end, no others start; Ctrl-C again ends now",
                }
            );
            // The receiver goes with the run; then there is nothing left to stop.
            if sender.send(next).is_err() {
                return;
            }
            next = Stop::Now;
        }
    });
    receiver
}

/// Follows the same signals for what is short and must not be cut in the middle: the first is answered with `says`, and told.
pub(super) fn hold_signals(says: &'static str) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    FOLLOWED.store(true, Ordering::Relaxed);
    tokio::spawn(async move {
        if signalled().await.is_some() {
            tracing::warn!("{says}");
            sender.send_replace(true);
        }
        // Those that follow change nothing more.
        sender.closed().await;
    });
    receiver
}

/// Does what comes before the first change. A signal ends it at once: there is nothing to finish.
pub(super) async fn unless_stopped<T, E: Into<CommandError>>(
    stop: &mut watch::Receiver<Stop>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, CommandError> {
    tokio::select! {
        result = work => result.map_err(Into::into),
        Ok(_) = stop.wait_for(|stop| *stop >= Stop::Gently) => Err(CommandError::Interrupted),
    }
}

/// What a command is about to work on.
pub(super) fn scene(loaded: &Loaded, namespace: &NamespaceName, server: &str) -> RunHeader {
    RunHeader {
        fleet: loaded.desired.fleet.clone(),
        commit: loaded.desired.commit.clone(),
        signer: loaded.snapshot.signer.clone(),
        namespace: namespace.clone(),
        server: server.to_owned(),
    }
}

/// Says what a command is about to work on: on standard error to people, as the first line to programs that read lines.
pub(super) fn open(
    scene: &RunHeader,
    format: Format,
    lines: Option<&ReportArgs>,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    if let Some(reports) = lines {
        let document = Document::value(scene.clone())?;
        reports.each(|output, out| match output {
            Output::Json => JsonLines(out).document(nodecfg_clock::now(), "started", document.clone()),
            _ => Ok(()),
        })?;
    }
    match format {
        Format::Json if lines.is_some() => {
            JsonLines(&mut terminal.out).document(nodecfg_clock::now(), "started", Document::value(scene.clone())?)?;
        }
        Format::Json | Format::Yaml => {}
        Format::Text | Format::Markdown => writeln!(terminal.aside(), "{}\n", progress::opening(scene))?,
    }
    Ok(())
}
