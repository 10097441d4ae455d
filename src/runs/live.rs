//! View of a rollout on a terminal: rate-limited redraws of the status area, with notable events above.

use std::io;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::report::live::LiveProgress;
use crate::report::progress::{Listener, is_notable, timed};
use crate::report::steps;
use crate::report::steps::{FEW_POOLS, Printed};
use crate::terminal::status_area::StatusArea;
use nodecfg_plan::Plan;
use nodecfg_rollout::machine::Mode;
use nodecfg_rollout::progress::{Event, Progress};

/// Minimum interval between redraws after an event.
pub(crate) const MIN_REDRAW: Duration = Duration::from_millis(100);
/// Redraw interval without events, because elapsed times are shown in seconds.
const IDLE_REDRAW: Duration = Duration::from_secs(1);

/// View of a rollout in the status area.
pub(crate) struct LiveView {
    state: LiveProgress,
    status_area: StatusArea,
    start: Timestamp,
    colored: bool,
    /// What was printed of a large rollout, whose equal problems are printed once.
    printed: Option<Printed>,
    /// Lines to print above the status area with the next redraw.
    above: String,
    changed: bool,
    /// Time and terminal size of the last redraw.
    drawn: Option<(Timestamp, (usize, usize))>,
    finished: bool,
}

impl LiveView {
    /// Creates the view.
    pub(crate) fn new(plan: &Plan, mode: &Mode, start: Timestamp, status_area: StatusArea, colored: bool) -> Self {
        let state = LiveProgress::new(plan, mode, start);
        let finished = state.pools() == 0;
        let printed = steps::is_large(plan).then(Printed::default);
        Self { state, status_area, start, colored, printed, above: String::new(), changed: true, drawn: None, finished }
    }

    fn is_due(&self, now: Timestamp, size: (usize, usize)) -> bool {
        let Some((at, drawn_for)) = self.drawn else { return true };
        let since = now.duration_since(at);
        // A clock that was set back must not stop redraws.
        let passed =
            |pace: Duration| since.is_negative() || since >= SignedDuration::try_from(pace).unwrap_or_default();
        passed(IDLE_REDRAW) || (passed(MIN_REDRAW) && (self.changed || size != drawn_for))
    }

    fn draw_if_due(&mut self, now: Timestamp) -> io::Result<()> {
        let size = self.status_area.size();
        if self.finished || !self.is_due(now, size) {
            return Ok(());
        }
        self.drawn = Some((now, size));
        self.changed = false;
        self.draw(self.state.view(size.0, size.1, now))
    }

    fn draw(&mut self, lines: Vec<String>) -> io::Result<()> {
        let above = std::mem::take(&mut self.above);
        let lines = lines.into_iter().map(|line| self.shown(line)).collect();
        self.status_area.draw(&self.shown(above), lines)
    }

    /// The text, without styles unless colors are used.
    fn shown(&self, text: String) -> String {
        if self.colored { text } else { anstream::adapter::strip_str(&text).to_string() }
    }
}

impl Listener for LiveView {
    fn event(&mut self, now: Timestamp, event: &Event) -> io::Result<()> {
        let progress = &event.progress;
        self.state.apply(now, event);
        self.changed = true;
        // The bars show the stages.
        let is_stage = matches!(
            progress,
            Progress::ConfigMapCreated { .. }
                | Progress::Soaking { .. }
                | Progress::Soaked
                | Progress::DomainSoaking { .. }
                | Progress::DomainStarted { .. }
                | Progress::StepSoaking { .. }
                | Progress::StepStarted { .. }
        );
        let is_one_of_many = is_stage && self.state.pools() > FEW_POOLS;
        let pools = self.state.pools();
        let mut is_first = || self.printed.as_mut().is_none_or(|printed| printed.is_first(pools, now, event));
        if is_notable(progress) && !is_one_of_many && is_first() {
            self.above.push_str(&timed(self.start, now, event, self.status_area.size().0));
            self.above.push('\n');
        }
        self.draw_if_due(now)
    }

    fn tick(&mut self, now: Timestamp) {
        // The next event reports the error; a failed redraw stops nothing.
        let _ = self.draw_if_due(now);
    }

    fn needs_ticks(&self) -> bool {
        true
    }

    fn finish(&mut self, now: Timestamp) -> io::Result<()> {
        let (columns, lines) = self.status_area.size();
        let was_finished = std::mem::replace(&mut self.finished, true);
        let drawn = self.draw(if was_finished { Vec::new() } else { self.state.rest(columns, lines, now) });
        self.status_area.leave();
        drawn
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
