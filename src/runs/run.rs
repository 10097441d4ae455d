//! Shared parts of commands that run a rollout: output to the user, signal handling and the exit code.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::live;
use super::live::LiveView;
use super::write_review::layout;
use crate::arguments::reports::{OpenReport, ReportArgs};
use crate::arguments::repository::Loaded;
use crate::layout;
use crate::report::document::json::Noticed;
use crate::report::document::{Report, html, markdown, terminal as text};
use crate::report::error::ErrorMessage;
use crate::report::progress::{JsonLines, Lines, Listener, RunHeader};
use crate::report::run::{Run, RunEnd};
use crate::report::steps::Steps;
use crate::report::timeline::RunTimeline;
use crate::report::{Format, findings, outcome, progress, review as shown, run as report, steps};
use crate::review::Review;
use crate::rollout::execute::{Execution, Stop};
use crate::telemetry::facts::RunFailure;
use crate::telemetry::spans;
use crate::terminal::exit::Exit;
use crate::terminal::failure::{CommandError, CommandResult};
use crate::terminal::status_area::StatusArea;
use crate::terminal::streams::Terminal;
use nodecfg_agent::cli::stop_signals::Signal;
pub(crate) use nodecfg_agent::cli::stop_signals::signalled;
use nodecfg_contract::names::NamespaceName;
use nodecfg_plan::Plan;
use nodecfg_rollout::machine::Mode;
use nodecfg_rollout::progress::Event;
use nodecfg_rollout::{PoolOutcome, StopReason};

/// Requires a format that can be written while the command runs.
pub(crate) fn require_stream_format(format: Format) -> Result<(), CommandError> {
    match format {
        Format::Text | Format::Json => Ok(()),
        _ => Err(CommandError::usage(
            "this command writes its result while it runs, as text or JSON lines only",
            "use -o text or -o json",
        )),
    }
}

/// Creates the `--report` files. JSON lines are written during the run; markdown and HTML are written at its end.
pub(crate) fn create_reports(reports: &ReportArgs) -> Result<(), CommandError> {
    reports.create(|output| match output {
        Format::Json | Format::Markdown | Format::Html => Ok(()),
        _ => Err(CommandError::usage(
            "this command writes reports as json (lines), markdown or html only",
            "use --report json=FILE, markdown=FILE or FILE.html",
        )),
    })
}

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Change the cluster.
    Sync,
    /// Watch the cluster.
    Verify,
    /// Roll back to an earlier revision.
    RollBack,
    /// Return nodes to their local configuration.
    Reset,
}

impl Purpose {
    /// The command name.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Verify => "verify",
            Self::RollBack => "rollback",
            Self::Reset => "reset",
        }
    }
}

/// Input of a [`Reporter`].
pub(crate) struct RunSubject<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) header: &'a RunHeader,
    pub(crate) plan: &'a Plan,
    pub(crate) review: Review,
    pub(crate) mode: Mode,
}

/// Reports whether a report shows the course of a run.
fn has_course(reports: &ReportArgs) -> bool {
    reports.contains(Format::Html) || reports.contains(Format::Markdown)
}

/// Prints the progress and result of a run, in the requested format.
pub(crate) struct Reporter {
    listener: Arc<Mutex<Box<dyn Listener + Send>>>,
    /// Redraws listeners that show elapsed time.
    ticker: Option<JoinHandle<()>>,
    began: Instant,
    format: Format,
    verbose: bool,
    /// The reports of `--report`.
    reports: Vec<OpenReport>,
    /// What the run works on, and its plan.
    run: Run,
    /// The course of the rollout, if a report has it.
    timeline: Option<RunTimeline>,
    /// Whether any event was printed.
    reported: bool,
    output_error: Option<std::io::Error>,
    spans: spans::RolloutSpans,
}

impl Reporter {
    /// Prints the plan and starts to print progress.
    pub(crate) fn start(
        subject: RunSubject<'_>,
        format: Format,
        reports: &ReportArgs,
        verbose: u8,
        terminal: &mut Terminal,
    ) -> Result<Self, CommandError> {
        let RunSubject { purpose, header, plan, review, mode } = subject;
        let run = Run { command: purpose.command(), header: header.clone(), review };
        let (start, began) = (nodecfg_clock::now(), nodecfg_clock::instant());
        let plan_report = shown::report(run.command, &run.review);
        let planned = Noticed::of(shown::body(&run.review), &plan_report);
        let mut open = reports.open();
        for report in open.iter_mut().filter(|report| report.output == Format::Json) {
            report.write(|out| JsonLines(out).document(start, "planned", &planned));
        }
        let listener: Box<dyn Listener + Send> = match format {
            Format::Json => {
                let mut lines = JsonLines(terminal.new_out());
                lines.document(start, "planned", &planned)?;
                Box::new(lines)
            }
            _ => {
                let before = layout(terminal.out_width, verbose > 0);
                match purpose {
                    _ if terminal.quiet => {}
                    Purpose::Verify if verbose == 0 => {
                        text::write(&mut terminal.out, &shown::awaited(plan, &run.review), before)?
                    }
                    _ => text::write(&mut terminal.out, &plan_report, before)?,
                }
                if !terminal.quiet {
                    writeln!(terminal.out)?;
                }
                terminal.out.flush()?;
                if terminal.quiet {
                    Box::new(Silent)
                } else if terminal.interactive && verbose == 0 {
                    Box::new(LiveView::new(plan, &mode, start, terminal.status_area.clone(), terminal.colored_err()))
                } else if verbose > 0 || !steps::is_large(plan) {
                    Box::new(Lines::new(terminal.new_err(), terminal.err_line, start, verbose > 0))
                } else {
                    Box::new(Steps::new(terminal.new_err(), terminal.err_line, plan, start))
                }
            }
        };
        let ticks = listener.needs_ticks();
        let listener = Arc::new(Mutex::new(listener));
        let ticker = ticks.then(|| tokio::spawn(tick(Arc::clone(&listener))));
        Ok(Self {
            listener,
            ticker,
            began,
            format,
            verbose: verbose > 0,
            reports: open,
            run,
            timeline: has_course(reports).then(|| RunTimeline::new(start)),
            reported: false,
            output_error: None,
            spans: spans::RolloutSpans::of(plan),
        })
    }

    pub(crate) fn event(&mut self, now: Timestamp, event: &Event) {
        self.reported = true;
        self.spans.record(event);
        if let Some(timeline) = &mut self.timeline {
            timeline.record(now, event);
        }
        // An output error must not stop a rollout half-way. The first one is reported at the end.
        for report in self.reports.iter_mut().filter(|report| report.output == Format::Json) {
            report.write(|out| JsonLines(out).event(now, event));
        }
        if let Err(error) = lock(&self.listener).event(now, event) {
            self.output_error.get_or_insert(error);
        }
    }

    /// Prints the result, then writes the reports, and returns the exit code of the result. An output that cannot be
    /// written is an error message alone: a pipeline must not roll back because of a full disk.
    pub(crate) fn finish(mut self, execution: &Execution, terminal: &mut Terminal) -> Exit {
        let (now, exit) = (nodecfg_clock::now(), exit_code_of(execution));
        if let Some(ticker) = self.ticker.take() {
            ticker.abort();
        }
        terminal.record.ended(&execution.outcome);
        terminal.record.failure = failure_kind(execution);
        let closed = lock(&self.listener).finish(now);
        let seconds = self.began.elapsed().as_secs_f64();
        let error = execution.error.as_ref().map(|error| ErrorMessage {
            code: error.code().to_owned(),
            message: error.to_string(),
            help: error.help(),
        });
        let remarks = shown::remarks(&self.run.review);
        let ended = outcome::ended(&execution.outcome, seconds, exit as u8, remarks, error.clone());
        let end = RunEnd { outcome: &execution.outcome, at: now, seconds };
        let shown = report::report(&self.run, end);
        let ended = Noticed::of(ended, &shown);
        let printed = self.print(execution, (&ended, &shown), now, exit, terminal);
        let whole = |timeline| report::whole(&self.run, end, exit as u8, error.as_ref(), timeline);
        let whole = self.timeline.take().map(whole).unwrap_or_default();
        let mut unwritten = Vec::new();
        for mut report in std::mem::take(&mut self.reports) {
            let output = report.output;
            report.write(|out| match output {
                Format::Html => html::write(out, &whole, now),
                Format::Markdown => markdown::write(out, &whole, false, None),
                _ => JsonLines(out).document(now, "finished", &ended),
            });
            unwritten.extend(report.close());
        }
        let shown = self.output_error.take().map_or(Ok(()), Err).and(closed).and(printed);
        terminal.print_unwritten(shown, &unwritten);
        exit
    }

    /// Prints the result, and the error that ended the run.
    fn print(
        &self,
        execution: &Execution,
        (ended, shown): (&Noticed<'_, outcome::Ended<'_>>, &Report),
        now: Timestamp,
        exit: Exit,
        terminal: &mut Terminal,
    ) -> std::io::Result<()> {
        if self.format == Format::Json {
            return JsonLines(&mut terminal.out).document(now, "finished", ended);
        }
        let spaced = if self.reported { writeln!(terminal.info()) } else { Ok(()) };
        // With --quiet, success prints nothing.
        let mut printed = Ok(());
        if !terminal.quiet || exit != Exit::Done {
            printed = text::write(&mut terminal.out, shown, layout(terminal.out_line, self.verbose));
        }
        let printed = printed.and_then(|()| terminal.out.flush()).and(spaced);
        match &execution.error {
            Some(error) => printed.and(findings::message(&mut terminal.err, &error.to_string(), &error.help())),
            None => printed,
        }
    }
}

impl Drop for Reporter {
    /// Finishes the listener of a failed run, which is never passed to `finish`.
    fn drop(&mut self) {
        if let Some(ticker) = self.ticker.take() {
            ticker.abort();
            // The failure is reported next; an error of this output adds nothing.
            let _ = lock(&self.listener).finish(nodecfg_clock::now());
        }
    }
}

/// Listener that prints nothing.
struct Silent;

impl Listener for Silent {
    fn event(&mut self, _: Timestamp, _: &Event) -> std::io::Result<()> {
        Ok(())
    }
}

/// Ignores poisoning: every operation leaves the listener in a valid state.
fn lock<'a>(listener: &'a Mutex<Box<dyn Listener + Send>>) -> MutexGuard<'a, Box<dyn Listener + Send>> {
    listener.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn tick(listener: Arc<Mutex<Box<dyn Listener + Send>>>) {
    let mut interval = tokio::time::interval(live::MIN_REDRAW);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        lock(&listener).tick(nodecfg_clock::now());
    }
}

/// Exit code of a run.
fn exit_code_of(execution: &Execution) -> Exit {
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

/// Whether [`stop_on_signals`] or [`defer_signals`] handles signals.
static SIGNALS_HANDLED: AtomicBool = AtomicBool::new(false);

/// Runs a command until it completes or a signal arrives. For work that changes nothing, such as fetching a
/// repository or reading the cluster.
pub(crate) async fn until_signal(work: impl Future<Output = CommandResult>) -> CommandResult {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            signal = signalled() => match signal {
                Some(_) if !SIGNALS_HANDLED.load(Ordering::Relaxed) => return Err(CommandError::Interrupted),
                Some(_) => {}
                None => return work.await,
            },
        }
    }
}

/// What cut the run short, with the same meaning as [`CommandError::kind`].
fn failure_kind(execution: &Execution) -> Option<RunFailure> {
    let requested = |reason: &StopReason| {
        matches!(reason, StopReason::Interrupted | StopReason::Aborted { .. } | StopReason::Paused(_))
    };
    let interrupted = |pool: &PoolOutcome| pool.stopped.as_ref().is_some_and(requested);
    if execution.lock_lost {
        Some(RunFailure::Locked)
    } else if execution.error.is_some() {
        Some(RunFailure::Cluster)
    } else {
        execution.outcome.pools.values().any(interrupted).then_some(RunFailure::Interrupted)
    }
}

/// Follows SIGINT, SIGTERM and SIGHUP. The first lets nodes in transition finish; the second ends at once. SIGHUP never
/// counts as the second: a closed terminal is not a repeated request.
pub(crate) fn stop_on_signals(status_area: StatusArea) -> watch::Receiver<Stop> {
    let (sender, receiver) = watch::channel(Stop::No);
    SIGNALS_HANDLED.store(true, Ordering::Relaxed);
    tokio::spawn(async move {
        let mut next = Stop::Gently;
        while let Some(signal) = signalled().await {
            if signal == Signal::HangUp {
                status_area.abandon();
                if next == Stop::Now {
                    continue;
                }
            }
            tracing::warn!(
                "{}",
                match next {
                    Stop::Now => "stopping now; nodes in transition keep their assignment",
                    _ => "stopping: nodes in transition finish, no further node starts; press Ctrl-C again to stop now",
                }
            );
            // The receiver is dropped when the run ends.
            if sender.send(next).is_err() {
                return;
            }
            next = Stop::Now;
        }
    });
    receiver
}

/// Follows signals for a short operation that must not be interrupted. The first signal logs `message` and sets the
/// receiver.
pub(crate) fn defer_signals(message: &'static str) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    SIGNALS_HANDLED.store(true, Ordering::Relaxed);
    tokio::spawn(async move {
        if signalled().await.is_some() {
            tracing::warn!("{message}");
            sender.send_replace(true);
        }
        // Ignores further signals until the operation ends.
        sender.closed().await;
    });
    receiver
}

/// Runs work that comes before the first change. A signal ends it at once.
pub(crate) async fn until_stopped<T, E: Into<CommandError>>(
    stop: &mut watch::Receiver<Stop>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, CommandError> {
    tokio::select! {
        result = work => result.map_err(Into::into),
        Ok(_) = stop.wait_for(|stop| *stop >= Stop::Gently) => Err(CommandError::Interrupted),
    }
}

/// Header that identifies fleet, commit and cluster of a run.
pub(crate) fn header(loaded: &Loaded, namespace: &NamespaceName, server: &str) -> RunHeader {
    RunHeader {
        fleet: loaded.desired.fleet.clone(),
        commit: loaded.desired.commit.clone(),
        signer: loaded.snapshot.signer.clone(),
        namespace: namespace.clone(),
        server: server.to_owned(),
        ignored_windows: None,
    }
}

/// Prints the header: to standard error as text, or as the first JSON line if `lines` are written.
pub(crate) fn print_header(
    header: &RunHeader,
    format: Format,
    lines: Option<&ReportArgs>,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    if let Some(reports) = lines {
        let unwritten = reports.each(|output, out| match output {
            Format::Json => JsonLines(out).document(nodecfg_clock::now(), "started", header),
            _ => Ok(()),
        });
        // Nothing was done yet.
        if let Some(error) = unwritten.into_iter().next() {
            return Err(error);
        }
    }
    match format {
        Format::Json if lines.is_some() => {
            JsonLines(&mut terminal.out).document(nodecfg_clock::now(), "started", header)?;
        }
        format if !format.is_for_people() => {}
        _ => {
            let line = layout::hanging(&progress::header_line(header), 2, terminal.err_line);
            writeln!(terminal.info(), "{line}\n")?;
        }
    }
    Ok(())
}
