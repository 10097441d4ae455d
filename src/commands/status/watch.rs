//! `nodecfg status --watch`: follows the nodes and shows changes, as a redrawn screen on a terminal or as one line
//! per change.

use std::pin::{Pin, pin};
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::time::{MissedTickBehavior, interval_at};

use super::revisions::revisions;
use super::screen::Screen;
use super::view::View;
use super::{Args, CommandError, CommandResult, Exit, Loaded, RepositoryArgs, Terminal, layout};
use crate::doctor::Unavailable;
use crate::report::Format;
use crate::report::document::json::Noticed;
use crate::report::document::terminal as text;
use crate::report::progress::JsonLines;
use crate::report::status as shown;
use crate::status::{FleetStatus, Selection, changes};
use nodecfg_agent::cli::stop_signals::signalled;
use nodecfg_contract::printable::one_line;

/// Minimum interval between outputs.
const TICK: Duration = Duration::from_millis(250);
/// Number of ticks between reads of new ConfigMaps.
const CONFIG_MAP_TICKS: u32 = 8;
/// Number of ticks between reads of the Leases.
const ORDER_TICKS: u32 = 40;
/// Number of ticks between redraws without changes. The screen shows elapsed times.
const IDLE_TICKS: u32 = 20;

/// What to watch.
pub(super) struct Watched<'a> {
    pub(super) args: &'a Args,
    pub(super) selection: &'a Selection,
    /// The repository that nodes are compared with, as read at the start.
    pub(super) repository: Option<(&'a RepositoryArgs, Loaded)>,
    pub(super) format: Format,
}

impl Watched<'_> {
    /// Shows the status and its changes until a signal arrives or standard output is closed.
    pub(super) async fn run(self, view: View, status: FleetStatus, terminal: &mut Terminal) -> CommandResult {
        let Self { args, selection, repository, format } = self;
        let screen = if format == Format::Text { Screen::open(terminal.colored_out())? } else { None };
        let drawn = screen.is_some();
        let server = view.server().to_owned();
        let mut display = Display { screen, status, format, all: args.all, server, problem: None };
        let ended = {
            let revisions = pin!(match repository {
                Some((repository, loaded)) => revisions(repository, loaded.snapshot).left_stream(),
                None => stream::pending().right_stream(),
            });
            let following = follow(args, view, &mut display, selection, revisions, terminal);
            tokio::select! {
                ended = following => ended,
                _ = signalled() => Ok(()),
                () = until_reader_closes() => Ok(()),
            }
        };
        let Display { screen, status, .. } = display;
        drop(screen);
        ended?;
        if drawn {
            // The alternate screen was closed, so the last status is printed again.
            text::write(&mut terminal.out, &shown::report(&status), layout(terminal.out_line, args.all))?;
        }
        Ok(Exit::Done)
    }
}

/// Shows the changes of the cluster, and of the repository that it is compared with.
async fn follow<S: Stream<Item = Result<Loaded, CommandError>>>(
    args: &Args,
    mut view: View,
    display: &mut Display,
    selection: &Selection,
    mut revisions: Pin<&mut S>,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    display.begin(terminal)?;
    while let Some(loaded) = follow_cluster(&mut view, display, selection, &mut revisions, terminal).await? {
        // Another revision may select by other labels, and keep its ConfigMaps elsewhere.
        let (reader, namespace) = args.bind(args.connect(Some(&loaded)).await?, Some(&loaded)).await?;
        view = View::open(reader, Some(loaded.desired), namespace).await?;
        let now = nodecfg_clock::now();
        display.show(view.selected(selection, view.status(now)), now, terminal)?;
    }
    Ok(())
}

/// Shows the changes of the cluster until the repository has another revision, which it returns. `None`: the cluster
/// sends no more events.
async fn follow_cluster<S: Stream<Item = Result<Loaded, CommandError>>>(
    view: &mut View,
    display: &mut Display,
    selection: &Selection,
    revisions: &mut Pin<&mut S>,
    terminal: &mut Terminal,
) -> Result<Option<Loaded>, CommandError> {
    let mut events = pin!(view.events());
    let mut ticks = interval_at(nodecfg_clock::instant() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut tick, mut changed) = (0_u32, false);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => {
                    view.apply(event?);
                    changed = true;
                }
                None => return Ok(None),
            },
            Some(revision) = revisions.next() => match revision {
                Ok(loaded) => {
                    display.problem = None;
                    return Ok(Some(loaded));
                }
                Err(failure) => display.warn(&failure, terminal)?,
            },
            _ = ticks.tick() => {
                tick = tick.wrapping_add(1);
                if tick.is_multiple_of(CONFIG_MAP_TICKS) {
                    changed |= view.read_config_maps().await?;
                }
                if tick.is_multiple_of(ORDER_TICKS) {
                    changed |= view.read_orders().await?;
                }
                let now = nodecfg_clock::now();
                if changed {
                    display.show(view.selected(selection, view.status(now)), now, terminal)?;
                } else {
                    display.idle(tick, now)?;
                }
                changed = false;
            }
        }
    }
}

/// Output of the status and its changes.
struct Display {
    screen: Option<Screen>,
    /// The status shown last.
    status: FleetStatus,
    format: Format,
    all: bool,
    server: String,
    /// Why the repository cannot be read now. The nodes are then compared with its last valid revision.
    problem: Option<String>,
}

impl Display {
    fn begin(&mut self, terminal: &mut Terminal) -> Result<(), CommandError> {
        let at = self.status.at;
        match self.format {
            Format::Json => {
                let report = shown::report(&self.status);
                let body = Noticed::of(shown::body(&self.status), &report);
                JsonLines(&mut terminal.out).document(at, "status", &body)?;
            }
            _ if self.screen.is_some() => self.draw(at)?,
            _ => {
                text::write(&mut terminal.out, &shown::report(&self.status), layout(terminal.out_line, self.all))?;
                writeln!(terminal.out)?;
            }
        }
        Ok(terminal.out.flush()?)
    }

    fn show(&mut self, status: FleetStatus, now: Timestamp, terminal: &mut Terminal) -> Result<(), CommandError> {
        let before = std::mem::replace(&mut self.status, status);
        if self.screen.is_some() {
            return self.draw(now);
        }
        for change in changes(&before, &self.status) {
            match self.format {
                Format::Json => {
                    JsonLines(&mut terminal.out).tagged(now, &shown::change_event(&change))?;
                }
                _ => {
                    if let Some(line) = shown::change_line(now, &change) {
                        writeln!(terminal.out, "{line}")?;
                    }
                }
            }
        }
        Ok(terminal.out.flush()?)
    }

    /// Reports that the repository cannot be read, or is invalid.
    fn warn(&mut self, failure: &CommandError, terminal: &mut Terminal) -> Result<(), CommandError> {
        let problem =
            format!("warning: its last valid revision stays: {}", one_line(&Unavailable::of(failure).message));
        if self.screen.is_some() {
            self.problem = Some(problem);
            return self.draw(nodecfg_clock::now());
        }
        Ok(writeln!(terminal.err, "{problem}")?)
    }

    /// Redraws the screen if the window was resized or elapsed times changed.
    fn idle(&mut self, tick: u32, now: Timestamp) -> Result<(), CommandError> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let (_, resized) = screen.measure();
        if resized || tick.is_multiple_of(IDLE_TICKS) { self.draw(now) } else { Ok(()) }
    }

    fn draw(&mut self, now: Timestamp) -> Result<(), CommandError> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let ((columns, _), _) = screen.measure();
        self.status.at = now;
        let mut screen_text = Vec::new();
        text::write(&mut screen_text, &shown::report(&self.status), layout(columns, self.all))?;
        let mut lines = shown::screen_header(&self.status, &self.server, self.problem.as_deref(), columns);
        lines.extend(String::from_utf8_lossy(&screen_text).lines().map(str::to_owned));
        // A closed terminal ends the watch without an error.
        Ok(screen.draw(&lines)?)
    }
}

/// Waits until the reader of standard output closes its pipe. Waits forever if that cannot be detected, for example
/// for a file.
async fn until_reader_closes() {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        use tokio::io::Interest;
        use tokio::net::unix::pipe::Sender;
        // Unchecked, because nothing is written through the copy, and the shared pipe stays in blocking mode.
        if let Ok(out) = std::io::stdout().as_fd().try_clone_to_owned()
            && let Ok(out) = Sender::from_owned_fd_unchecked(out)
            && out.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
    }
    std::future::pending().await
}
