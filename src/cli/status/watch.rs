//! `nodecfg status --watch`: follows the nodes by the one watch, and shows what changes: on a terminal by drawing all of it
//! anew, elsewhere with a line for each change.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use tokio::time::{MissedTickBehavior, interval_at};

use super::screen::Screen;
use super::view::View;
use super::{CommandError, CommandResult, Exit, Terminal, width, write};
use crate::report::Format;
use crate::report::progress::JsonLines;
use crate::report::status::{self as shown, Look};
use crate::status::{FleetStatus, Selection, changes};
use nodecfg_agent::cli::stop_signals::signalled;
use nodecfg_contract::json_document::Document;

/// No more often than this is anything shown.
const BEAT: Duration = Duration::from_millis(250);
/// How often, in beats, it is asked for ConfigMaps that nodes have been pointed at since.
const CONFIG_MAPS: u32 = 8;
/// How often, in beats, it is asked who rolls out and what is paused.
const ORDERS: u32 = 40;
/// How often, in beats, a screen is drawn though nothing happened: it says how long ago things were.
const IDLE: u32 = 20;

/// Shows how everything is, and what changes, until a signal comes or nobody reads any more.
pub(super) async fn watch(
    view: View<'_>,
    status: FleetStatus,
    selection: &Selection,
    format: Format,
    all: bool,
    terminal: &mut Terminal,
) -> CommandResult {
    let screen = if format == Format::Text { Screen::open(terminal.colored_out())? } else { None };
    let drawn = screen.is_some();
    let mut shower = Shower { screen, status, format, all, server: view.server().to_owned() };
    let ended = {
        let following = follow(view, &mut shower, selection, terminal);
        tokio::select! {
            ended = following => ended,
            _ = signalled() => Ok(()),
            () = unread() => Ok(()),
        }
    };
    let Shower { screen, status, .. } = shower;
    drop(screen);
    ended?;
    if drawn {
        // What was on the screen is gone with it.
        write(&mut terminal.out, &status, format, all)?;
    }
    Ok(Exit::Done)
}

async fn follow(
    mut view: View<'_>,
    shower: &mut Shower,
    selection: &Selection,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    shower.begin(terminal)?;
    let mut events = pin!(view.events());
    let mut beats = interval_at(nodecfg_clock::instant() + BEAT, BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut beat, mut news) = (0_u32, false);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => {
                    view.apply(event?);
                    news = true;
                }
                None => return Ok(()),
            },
            _ = beats.tick() => {
                beat = beat.wrapping_add(1);
                if beat.is_multiple_of(CONFIG_MAPS) {
                    news |= view.read_config_maps().await?;
                }
                if beat.is_multiple_of(ORDERS) {
                    news |= view.read_orders().await?;
                }
                let now = nodecfg_clock::now();
                if news {
                    shower.show(selection.of(view.status(now)), now, terminal)?;
                } else {
                    shower.idle(beat, now)?;
                }
                news = false;
            }
        }
    }
}

/// Shows how everything is to whoever watches.
struct Shower {
    screen: Option<Screen>,
    /// As it was shown last.
    status: FleetStatus,
    format: Format,
    all: bool,
    server: String,
}

impl Shower {
    fn begin(&mut self, terminal: &mut Terminal) -> Result<(), CommandError> {
        let at = self.status.at;
        match self.format {
            Format::Json => JsonLines(&mut terminal.out).document(at, "status", shown::document(&self.status)?)?,
            _ if self.screen.is_some() => self.draw(at)?,
            _ => {
                shown::text(&mut terminal.out, &self.status, Look { width: width(), all: self.all })?;
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
                    let document = Document::value(shown::line_of(&change))?;
                    let event = document.get("event").and_then(|event| event.as_str()).unwrap_or_default().to_owned();
                    JsonLines(&mut terminal.out).document(now, &event, document)?;
                }
                _ => {
                    if let Some(line) = shown::line(now, &change) {
                        writeln!(terminal.out, "{line}")?;
                    }
                }
            }
        }
        Ok(terminal.out.flush()?)
    }

    /// Nothing happened, but time went by, and the window may have another size.
    fn idle(&mut self, beat: u32, now: Timestamp) -> Result<(), CommandError> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let (_, resized) = screen.measure();
        if resized || beat.is_multiple_of(IDLE) { self.draw(now) } else { Ok(()) }
    }

    fn draw(&mut self, now: Timestamp) -> Result<(), CommandError> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let ((columns, _), _) = screen.measure();
        self.status.at = now;
        let mut text = Vec::new();
        shown::text(&mut text, &self.status, Look { width: columns, all: self.all })?;
        let mut lines = vec![shown::headline(&self.server, now, columns), String::new()];
        lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
        // A terminal that is gone ends the watch, and is no error.
        Ok(screen.draw(&lines)?)
    }
}

/// Waits until nobody reads standard output any more: the other end of its pipe was closed. For ever where that cannot be
/// told, as of a file.
async fn unread() {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        use tokio::io::Interest;
        use tokio::net::unix::pipe::Sender;
        // Unchecked: nothing is written through it, and what it shares with standard output goes on blocking.
        if let Ok(out) = std::io::stdout().as_fd().try_clone_to_owned()
            && let Ok(out) = Sender::from_owned_fd_unchecked(out)
            && out.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
    }
    std::future::pending().await
}
