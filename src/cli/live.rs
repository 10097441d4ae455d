//! A rollout on a terminal: what happens becomes what is drawn, not more often than somebody can read it.

use std::io;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::status_area::StatusArea;
use crate::report::live::LiveProgress;
use crate::report::progress::{Listener, is_notable, timed};
use nodecfg_planning::plan::Plan;
use nodecfg_planning::rollout::progress::{Event, Progress};

/// How often it is drawn at most, however much happens, and how soon what has changed is seen.
pub(super) const PACE: Duration = Duration::from_millis(100);
/// How often it is drawn when nothing happens: times are shown in seconds.
const STILL: Duration = Duration::from_secs(1);
/// Where more pools than these are rolled out, no line tells of their ConfigMaps.
const MOST_CONFIG_MAPS: usize = 12;

/// The view of a rollout at the foot of the terminal.
pub(super) struct Live {
    state: LiveProgress,
    foot: StatusArea,
    start: Timestamp,
    colored: bool,
    /// Lines that scroll by, and have not been written yet.
    above: String,
    changed: bool,
    /// When it was last drawn, and for which size.
    drawn: Option<(Timestamp, (usize, usize))>,
    over: bool,
}

impl Live {
    /// Draws at the foot from now on. `assigns`: the rollout assigns nodes; otherwise it only watches.
    pub(super) fn new(plan: &Plan, assigns: bool, start: Timestamp, foot: StatusArea, colored: bool) -> Self {
        let state = LiveProgress::new(plan, assigns, start);
        let over = state.pools() == 0;
        Self { state, foot, start, colored, above: String::new(), changed: true, drawn: None, over }
    }

    fn is_due(&self, now: Timestamp, size: (usize, usize)) -> bool {
        let Some((at, drawn_for)) = self.drawn else { return true };
        let since = now.duration_since(at);
        // A clock that was set back must not stop the picture.
        let passed =
            |pace: Duration| since.is_negative() || since >= SignedDuration::try_from(pace).unwrap_or_default();
        passed(STILL) || (passed(PACE) && (self.changed || size != drawn_for))
    }

    fn draw_if_due(&mut self, now: Timestamp) -> io::Result<()> {
        let size = self.foot.size();
        if self.over || !self.is_due(now, size) {
            return Ok(());
        }
        self.drawn = Some((now, size));
        self.changed = false;
        self.draw(self.state.view(size.0, size.1, now))
    }

    fn draw(&mut self, lines: Vec<String>) -> io::Result<()> {
        let above = std::mem::take(&mut self.above);
        let lines = lines.into_iter().map(|line| self.shown(line)).collect();
        self.foot.draw(&self.shown(above), lines)
    }

    /// A text with its styles, where they are wanted.
    fn shown(&self, text: String) -> String {
        if self.colored { text } else { anstream::adapter::strip_str(&text).to_string() }
    }
}

impl Listener for Live {
    fn tell(&mut self, now: Timestamp, event: &Event) -> io::Result<()> {
        let progress = &event.progress;
        self.state.apply(now, event);
        self.changed = true;
        let is_one_of_many =
            matches!(progress, Progress::ConfigMapCreated { .. }) && self.state.pools() > MOST_CONFIG_MAPS;
        if is_notable(progress) && !is_one_of_many {
            self.above.push_str(&timed(self.start, now, progress));
            self.above.push('\n');
        }
        self.draw_if_due(now)
    }

    fn tick(&mut self, now: Timestamp) {
        // A foot that cannot be drawn is told of by the next event, and stops nothing.
        let _ = self.draw_if_due(now);
    }

    fn wants_ticks(&self) -> bool {
        true
    }

    fn finish(&mut self, now: Timestamp) -> io::Result<()> {
        let (columns, lines) = self.foot.size();
        let is_over = std::mem::replace(&mut self.over, true);
        let drawn = self.draw(if is_over { Vec::new() } else { self.state.rest(columns, lines, now) });
        self.foot.leave();
        drawn
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
