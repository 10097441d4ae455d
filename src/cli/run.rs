//! What `sync` and `verify` share while they run: who is told, how they are stopped, and what the end means.

use tokio::sync::watch;

use super::{Exit, Failure, Terminal};
use crate::clock;
use crate::plan::Plan;
use crate::report::progress::{Bars, JsonLines, Lines, Listener};
use crate::report::{Format, findings, plan_json, plan_text, progress, summary};
use crate::rollout::execute::{Execution, Stop};
use crate::rollout::progress::Progress;
use crate::rollout::{Outcome, StopReason};

/// Long-running commands write text for people or JSON lines for programs.
pub(super) fn require_stream_format(format: Format) -> Result<(), Failure> {
    match format {
        Format::Text | Format::Json => Ok(()),
        Format::Yaml | Format::Markdown => Err(Failure::usage(
            "this command reports while it runs, as text or as JSON lines",
            "use -o text or -o json; `nodecfg diff` also writes yaml and markdown",
        )),
    }
}

/// Tells a user of a run, in the format asked for.
pub(super) struct Audience {
    listener: Box<dyn Listener + Send>,
    format: Format,
    failed: Option<std::io::Error>,
}

impl Audience {
    /// Shows the plan, and makes ready to show its progress.
    pub(super) fn gather(plan: &Plan, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<Self, Failure> {
        let listener: Box<dyn Listener + Send> = match format {
            Format::Json => {
                let mut lines = JsonLines(terminal.another_out());
                lines.document(clock::now(), "planned", plan_json::document(plan)?)?;
                Box::new(lines)
            }
            _ => {
                plan_text::write(&mut terminal.out, plan)?;
                terminal.out.flush()?;
                if terminal.interactive && verbose == 0 {
                    Box::new(Bars::new(plan))
                } else {
                    Box::new(Lines::new(terminal.another_err(), clock::now(), verbose > 0))
                }
            }
        };
        Ok(Self { listener, format, failed: None })
    }

    pub(super) fn tell(&mut self, now: jiff::Timestamp, progress: &Progress) {
        // A reader that went away must not stop a rollout half-way; the first error is told at the end.
        if let Err(error) = self.listener.tell(now, progress) {
            self.failed.get_or_insert(error);
        }
    }

    /// Shows how it ended.
    pub(super) fn dismiss(mut self, execution: &Execution, terminal: &mut Terminal) -> Result<(), Failure> {
        self.listener.finish()?;
        match self.format {
            Format::Json => {
                let mut lines = JsonLines(&mut terminal.out);
                lines.document(clock::now(), "finished", summary::document(&execution.outcome)?)?;
            }
            _ => {
                writeln!(terminal.out)?;
                summary::write(&mut terminal.out, &execution.outcome)?;
                terminal.out.flush()?;
            }
        }
        if let Some(error) = &execution.error {
            findings::message(&mut terminal.err, &error.to_string(), &error.help())?;
        }
        self.failed.map_or(Ok(()), |error| Err(Failure::Output(error)))
    }
}

/// What the end of a run means to a script.
pub(super) fn exit_of(execution: &Execution) -> Exit {
    let stopped_by = |wanted: fn(&StopReason) -> bool, outcome: &Outcome| {
        outcome.pools.values().any(|pool| pool.stopped.as_ref().is_some_and(wanted))
    };
    if stopped_by(|reason| matches!(reason, StopReason::LockLost), &execution.outcome) {
        Exit::Locked
    } else if execution.error.is_some() {
        Exit::Cluster
    } else if execution.outcome.is_complete() {
        Exit::Done
    } else {
        Exit::NotConverged
    }
}

/// Follows SIGINT and SIGTERM: the first lets what is in flight finish, the second ends at once.
pub(super) fn stop_on_signals() -> watch::Receiver<Stop> {
    let (sender, receiver) = watch::channel(Stop::No);
    tokio::spawn(async move {
        let mut next = Stop::Gently;
        while signalled().await.is_ok() {
            tracing::warn!(
                "{}",
                match next {
                    Stop::Now => "ending now; nodes that are in flight keep their assignment",
                    _ =>
                        "stopping: no further node is started, nodes in flight are watched to their end; once more to end now",
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

#[cfg(unix)]
async fn signalled() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn signalled() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

/// Waits for SIGINT or SIGTERM.
pub(super) async fn interrupted() {
    if let Err(error) = signalled().await {
        tracing::error!("cannot wait for signals: {error}");
    }
}

/// Says what a run is about to begin with, on standard error.
pub(super) fn open(
    fleet: &str,
    revision: &str,
    server: &str,
    format: Format,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    if format == Format::Text {
        writeln!(terminal.err, "{}\n", progress::opening(fleet, revision, server))?;
    }
    Ok(())
}
