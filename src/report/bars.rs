//! A rollout while it runs, on a terminal: a bar per pool, and what matters scrolling by above.
//!
//! A bar says how many nodes are done, how many are in flight and failed, how long canaries still soak, and which node has
//! been waited for longest. It is told the time and reads no clock.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::progress::{Listener, seconds_until, timed};
use super::style::{bad, good, quiet, warning};
use super::{duration, whole_duration};
use crate::judge::Waiting;
use crate::names::{NodeName, PoolName};
use crate::plan::{Action, Plan, PoolPlan};
use crate::rollout::progress::Progress;

/// How many pools get a bar of their own. Where there are more, one bar stands for all: a terminal has few lines.
const MOST_BARS: usize = 12;
/// For how long a node may be on its way, in seconds, before its bar names it.
const SLOW: f64 = 5.0;

/// The foot of the terminal, where lines are drawn over and over. What else goes to standard error meanwhile goes through
/// [`print`](Self::print), or it would be drawn over too.
#[derive(Debug, Clone)]
pub struct Foot {
    bars: MultiProgress,
    drawn: Arc<AtomicBool>,
}

impl Foot {
    /// The foot of standard error, which is a terminal.
    #[must_use]
    pub fn new() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Self { bars, drawn: Arc::default() }
    }

    /// Writes whole lines above the foot, or to standard error as it is while nothing is drawn.
    ///
    /// # Errors
    /// When the terminal cannot be written to.
    pub fn print(&self, lines: &str) -> io::Result<()> {
        if self.drawn.load(Ordering::Relaxed) {
            self.bars.println(lines.trim_end_matches('\n'))
        } else {
            io::stderr().write_all(lines.as_bytes())
        }
    }
}

impl Foot {
    /// To be told when Ctrl-C was pressed: the terminal has then echoed it as `^C` behind the last bar, which is filled to the
    /// edge, and so the cursor is a line further down than where bars are drawn from.
    pub fn echoed(&self) {
        if self.drawn.load(Ordering::Relaxed) && io::stdin().is_terminal() {
            // Were it not to succeed, a stale bar would stay in sight and nothing else.
            let _ = io::stderr().write_all(b"\r\x1b[2K\x1b[1A");
        }
    }
}

/// One line at the foot, for as long as it lives: what is waited for before there is anything to roll out.
#[derive(Debug)]
pub struct FootLine {
    foot: Foot,
    bar: ProgressBar,
}

impl FootLine {
    /// An empty line.
    #[must_use]
    pub fn new(foot: &Foot) -> Self {
        let bar = foot.bars.add(ProgressBar::new_spinner());
        bar.set_style(ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
        foot.drawn.store(true, Ordering::Relaxed);
        Self { foot: foot.clone(), bar }
    }

    /// Replaces the line.
    pub fn show(&self, text: &str) {
        self.bar.set_message(text.to_owned());
        self.bar.tick();
    }
}

impl Drop for FootLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.foot.bars.remove(&self.bar);
        self.foot.drawn.store(false, Ordering::Relaxed);
    }
}

impl Default for Foot {
    fn default() -> Self {
        Self::new()
    }
}

/// The bars.
pub struct Bars {
    foot: Foot,
    start: Timestamp,
    colored: bool,
    lanes: Vec<Lane>,
    lane_of: BTreeMap<PoolName, usize>,
}

/// What one bar shows.
struct Lane {
    bar: ProgressBar,
    start: Timestamp,
    in_flight: BTreeMap<NodeName, Flight>,
    failed: usize,
    soaking: BTreeMap<PoolName, Timestamp>,
    stopped: BTreeMap<PoolName, String>,
    /// When its last node was done.
    done: Option<Timestamp>,
}

/// A node on its way.
struct Flight {
    since: Timestamp,
    waiting: Option<Waiting>,
}

impl Bars {
    /// Draws at the foot of the terminal.
    #[must_use]
    pub fn new(plan: &Plan, start: Timestamp, foot: Foot, colored: bool) -> Self {
        let moving: Vec<&PoolPlan> = plan.pools.iter().filter(|pool| pool.steps().next().is_some()).collect();
        let style = style(colored);
        let mut bars = Self { foot, start, colored, lanes: Vec::new(), lane_of: BTreeMap::new() };
        if moving.len() > MOST_BARS {
            let label = super::count(moving.len(), "pool");
            bars.add_lane(&label, &moving, &style);
        } else {
            let width = moving.iter().map(|pool| pool.name.as_str().len()).max().unwrap_or(0);
            for pool in moving {
                bars.add_lane(&format!("{:width$}", pool.name.as_str()), &[pool], &style);
            }
        }
        bars.foot.drawn.store(!bars.lanes.is_empty(), Ordering::Relaxed);
        bars
    }

    fn add_lane(&mut self, label: &str, pools: &[&PoolPlan], style: &ProgressStyle) {
        let steps = pools.iter().map(|pool| pool.steps().count()).sum::<usize>();
        let bar = self.foot.bars.add(ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX)));
        bar.set_style(style.clone());
        bar.set_prefix(label.to_owned());
        let on_the_way = pools.iter().flat_map(|pool| pool.steps()).filter_map(|step| match &step.action {
            Action::Await { waiting, .. } => {
                Some((step.node.clone(), Flight { since: self.start, waiting: waiting.clone() }))
            }
            Action::Assign { .. } => None,
        });
        let lane = Lane {
            bar,
            start: self.start,
            in_flight: on_the_way.collect(),
            failed: 0,
            soaking: BTreeMap::new(),
            stopped: BTreeMap::new(),
            done: None,
        };
        lane.show(self.start, self.colored);
        for pool in pools {
            self.lane_of.insert(pool.name.clone(), self.lanes.len());
        }
        self.lanes.push(lane);
    }
}

fn style(colored: bool) -> ProgressStyle {
    let template = if colored {
        "{prefix:.bold} [{bar:24.green}] {pos:>4}/{len} {wide_msg}"
    } else {
        "{prefix} [{bar:24}] {pos:>4}/{len} {wide_msg}"
    };
    // The templates are constants of this file; were one ever malformed, indicatif's own is the fallback.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

impl Lane {
    fn apply(&mut self, now: Timestamp, pool: &PoolName, progress: &Progress) {
        match progress {
            Progress::Assigned { node, .. } => {
                self.in_flight.insert(node.clone(), Flight { since: now, waiting: None });
            }
            Progress::Waiting { node, waiting, .. } => {
                if let Some(flight) = self.in_flight.get_mut(node) {
                    flight.waiting = Some(waiting.clone());
                }
            }
            Progress::Converged { node, .. } | Progress::Changed { node, .. } | Progress::Gone { node, .. } => {
                self.in_flight.remove(node);
                self.bar.inc(1);
                if Some(self.bar.position()) == self.bar.length() {
                    self.done = Some(now);
                }
            }
            Progress::Failed { node, .. } | Progress::Refused { node, .. } => {
                self.in_flight.remove(node);
                self.failed += 1;
            }
            Progress::Soaking { until, .. } => {
                self.soaking.insert(pool.clone(), *until);
            }
            Progress::Soaked { .. } => {
                self.soaking.remove(pool);
            }
            Progress::Stopped { reason, .. } => {
                self.soaking.remove(pool);
                self.stopped.insert(pool.clone(), reason.to_string());
            }
            Progress::ConfigMapCreated { .. } | Progress::RolledBack { .. } => {}
        }
    }

    fn show(&self, now: Timestamp, colored: bool) {
        let text = self.message(now);
        self.bar.set_message(if colored { text } else { anstream::adapter::strip_str(&text).to_string() });
    }

    fn message(&self, now: Timestamp) -> String {
        let mut parts = Vec::new();
        if !self.in_flight.is_empty() {
            parts.push(format!("{} in flight", self.in_flight.len()));
        }
        if let Some(until) = self.soaking.values().min() {
            parts.push(format!("soaking, {} left", whole_duration(seconds_until(now, *until))));
        }
        if self.failed > 0 {
            parts.push(bad(format!("{} failed", self.failed)));
        }
        if let Some(done) = self.done {
            parts.push(good(format!("done in {}", duration(seconds(self.start, done)))));
        }
        // The reason has scrolled by above; a bar of many pools has no room for all of them.
        match self.stopped.len() {
            0 => {}
            1 => parts.extend(self.stopped.values().map(|reason| format!("{}: {reason}", warning("stopped")))),
            many => parts.push(warning(format!("{many} stopped"))),
        }
        let slowest = self.in_flight.iter().min_by_key(|(_, flight)| flight.since);
        if let Some((node, flight)) = slowest.filter(|(_, flight)| seconds(flight.since, now) >= SLOW) {
            let state = flight.waiting.as_ref().map_or_else(|| "assigned".to_owned(), ToString::to_string);
            parts.push(quiet(format!("{node} {state} ({})", duration(seconds(flight.since, now)))));
        }
        parts.join(", ")
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

impl Listener for Bars {
    fn tell(&mut self, now: Timestamp, progress: &Progress) -> io::Result<()> {
        let lane = progress.pool().and_then(|pool| Some((pool, *self.lane_of.get(pool)?)));
        if let Some((pool, lane)) = lane.and_then(|(pool, index)| Some((pool, self.lanes.get_mut(index)?))) {
            lane.apply(now, pool, progress);
            lane.show(now, self.colored);
        }
        let notable = match progress {
            Progress::Waiting { .. } | Progress::Assigned { .. } | Progress::Converged { .. } => false,
            Progress::ConfigMapCreated { .. } => self.lane_of.len() <= MOST_BARS,
            _ => true,
        };
        if notable {
            let line = timed(self.start, now, progress);
            let line = if self.colored { line } else { anstream::adapter::strip_str(&line).to_string() };
            self.foot.print(&format!("{line}\n"))?;
        }
        Ok(())
    }

    fn tick(&mut self, now: Timestamp) {
        for lane in &self.lanes {
            lane.show(now, self.colored);
        }
    }

    fn wants_ticks(&self) -> bool {
        true
    }

    fn finish(&mut self, now: Timestamp) -> io::Result<()> {
        for lane in &self.lanes {
            lane.show(now, self.colored);
            lane.bar.abandon();
        }
        // The cursor rests at the end of the last bar.
        if self.foot.drawn.swap(false, Ordering::Relaxed) { io::stderr().write_all(b"\n") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;
    use crate::plan::fixtures::{node_name, pool_name};

    fn lane() -> Lane {
        Lane {
            bar: ProgressBar::hidden(),
            start: Timestamp::UNIX_EPOCH,
            in_flight: BTreeMap::new(),
            failed: 0,
            soaking: BTreeMap::new(),
            stopped: BTreeMap::new(),
            done: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(second.seconds()).unwrap()
    }

    fn message(lane: &Lane, second: i64) -> String {
        anstream::adapter::strip_str(&lane.message(at(second))).to_string()
    }

    #[test]
    fn a_bar_says_what_is_on_its_way_and_for_how_long() {
        let (mut lane, pool, node) = (lane(), pool_name("gpu"), node_name("n1"));
        assert_eq!(message(&lane, 0), "");
        let assigned =
            Progress::Assigned { pool: pool.clone(), node: node.clone(), from: None, to: crate::judge::Target::Local };
        lane.apply(at(1), &pool, &assigned);
        assert_eq!(message(&lane, 2), "1 in flight");
        let waiting = Progress::Waiting { pool: pool.clone(), node: node.clone(), waiting: Waiting::NotAcknowledged };
        lane.apply(at(2), &pool, &waiting);
        assert_eq!(message(&lane, 33), "1 in flight, n1 not acknowledged yet (32s)");
    }

    #[test]
    fn a_bar_counts_a_soak_down_and_names_why_its_pool_stopped() {
        let (mut lane, pool) = (lane(), pool_name("gpu"));
        lane.apply(at(0), &pool, &Progress::Soaking { pool: pool.clone(), until: at(130) });
        assert_eq!(message(&lane, 10), "soaking, 2m left");
        let reason = crate::rollout::StopReason::Interrupted;
        lane.apply(at(11), &pool, &Progress::Stopped { pool: pool.clone(), reason });
        assert_eq!(message(&lane, 12), "stopped: interrupted");
    }
}
