//! A rollout while it runs: progress bars on a terminal, a line per change elsewhere, JSON lines for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan_text::source;
use super::style::{bad, good, heading, quiet, warning};
use super::{FORMAT_VERSION, duration};
use crate::judge::Target;
use crate::names::{NodeName, PoolName};
use crate::plan::Plan;
use crate::rollout::progress::Progress;

/// Shows progress to somebody.
pub trait Listener {
    /// Something happened.
    ///
    /// # Errors
    /// When it cannot be shown.
    fn tell(&mut self, now: Timestamp, progress: &Progress) -> io::Result<()>;

    /// Nothing more will happen.
    ///
    /// # Errors
    /// When the display cannot be closed.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One line per change, with the time since the beginning.
pub struct Lines<W> {
    out: W,
    start: Timestamp,
    with_waiting: bool,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`; `with_waiting` also tells what nodes are waited for.
    pub fn new(out: W, start: Timestamp, with_waiting: bool) -> Self {
        Self { out, start, with_waiting }
    }
}

impl<W: Write> Listener for Lines<W> {
    fn tell(&mut self, now: Timestamp, progress: &Progress) -> io::Result<()> {
        if matches!(progress, Progress::Waiting { .. }) && !self.with_waiting {
            return Ok(());
        }
        let since = format!("{:>6}", duration(now.duration_since(self.start).as_secs_f64()));
        writeln!(self.out, "{} {}", quiet(since), line(now, progress))?;
        self.out.flush()
    }
}

/// One change in one line.
fn line(now: Timestamp, progress: &Progress) -> String {
    let at = |pool: &PoolName, node: &NodeName| format!("{pool}/{node}");
    match progress {
        Progress::ConfigMapCreated { name } => format!("ConfigMap {name} created"),
        Progress::Assigned { pool, node, to, .. } => format!("{} assigned {}", at(pool, node), short(to)),
        Progress::Waiting { pool, node, waiting } => format!("{} {}", at(pool, node), quiet(waiting)),
        Progress::Converged { pool, node, seconds } => {
            format!("{} {} in {}", at(pool, node), good("converged"), duration(*seconds))
        }
        Progress::Failed { pool, node, failure } => format!("{} {}: {failure}", at(pool, node), bad("failed")),
        Progress::Refused { pool, node, error } => {
            format!("{} {} by the API server: {error}", at(pool, node), bad("refused"))
        }
        Progress::RolledBack { pool, node, to } => {
            format!("{} {} to {}", at(pool, node), warning("rolled back"), source(to.as_ref()))
        }
        Progress::Changed { pool, node, to } => format!(
            "{} {} by somebody else, points at {} now; left as it is",
            at(pool, node),
            warning("changed"),
            source(to.as_ref())
        ),
        Progress::Gone { pool, node } => format!("{} left the cluster", at(pool, node)),
        Progress::Soaking { pool, until } => {
            format!(
                "{pool} canaries converged, soaking for {}",
                duration(until.duration_since(now).as_secs_f64().max(0.0))
            )
        }
        Progress::Soaked { pool } => format!("{pool} canaries held, the others follow"),
        Progress::Stopped { pool, reason } => format!("{pool} {}: {reason}", bad("stopped")),
    }
}

/// The ConfigMap's name alone: its namespace is the same for all.
fn short(target: &Target) -> String {
    match target.source().and_then(|source| source.config_map.as_ref()) {
        Some(map) => map.name.clone(),
        None => "local configuration".to_owned(),
    }
}

/// One JSON object a line: `{formatVersion, time, event, …}`.
pub struct JsonLines<W>(pub W);

impl<W: Write> JsonLines<W> {
    /// Writes any other document as a line of the same kind.
    ///
    /// # Errors
    /// When the writer does, or the document does not serialise.
    pub fn document(&mut self, now: Timestamp, event: &str, document: Value) -> io::Result<()> {
        let mut line = json!({"formatVersion": FORMAT_VERSION, "time": now.to_string(), "event": event});
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), document) {
            line.extend(fields.into_iter().filter(|(key, _)| key != "event"));
        }
        serde_json::to_writer(&mut self.0, &line)?;
        writeln!(self.0)?;
        self.0.flush()
    }
}

impl<W: Write> Listener for JsonLines<W> {
    fn tell(&mut self, now: Timestamp, progress: &Progress) -> io::Result<()> {
        let document = serde_json::to_value(progress)?;
        let event = document.get("event").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.document(now, &event, document)
    }
}

/// A bar per pool, with what matters scrolling by above.
pub struct Bars {
    bars: MultiProgress,
    pools: BTreeMap<PoolName, PoolBar>,
}

struct PoolBar {
    bar: ProgressBar,
    in_flight: usize,
    failed: usize,
    soaking: bool,
}

impl Bars {
    /// Draws to the terminal on stderr.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let width = plan.pools.iter().map(|pool| pool.name.as_str().len()).max().unwrap_or(0);
        let pools = plan
            .pools
            .iter()
            .filter(|pool| pool.steps().next().is_some())
            .map(|pool| {
                let steps = u64::try_from(pool.steps().count()).unwrap_or(u64::MAX);
                let bar = bars.add(ProgressBar::new(steps));
                // The template is a constant of this file; were it ever malformed, indicatif's own is the fallback.
                let template = "{prefix:.bold} [{bar:32.green}] {pos:>5}/{len} {msg}";
                bar.set_style(
                    ProgressStyle::with_template(template)
                        .unwrap_or_else(|_| ProgressStyle::default_bar())
                        .progress_chars("=> "),
                );
                bar.set_prefix(format!("{:width$}", pool.name.as_str()));
                bar.tick();
                (pool.name.clone(), PoolBar { bar, in_flight: 0, failed: 0, soaking: false })
            })
            .collect();
        Self { bars, pools }
    }
}

impl PoolBar {
    fn apply(&mut self, progress: &Progress) {
        match progress {
            Progress::Assigned { .. } => self.in_flight += 1,
            Progress::Converged { .. } | Progress::Changed { .. } | Progress::Gone { .. } => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.bar.inc(1);
            }
            Progress::Failed { .. } => {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.failed += 1;
            }
            Progress::Refused { .. } => self.failed += 1,
            Progress::Soaking { .. } => self.soaking = true,
            Progress::Soaked { .. } | Progress::Stopped { .. } => self.soaking = false,
            Progress::ConfigMapCreated { .. } | Progress::Waiting { .. } | Progress::RolledBack { .. } => {}
        }
        let mut parts = Vec::new();
        if self.in_flight > 0 {
            parts.push(format!("{} in flight", self.in_flight));
        }
        if self.soaking {
            parts.push("soaking".to_owned());
        }
        if self.failed > 0 {
            parts.push(bad(format!("{} failed", self.failed)));
        }
        self.bar.set_message(parts.join(", "));
    }
}

impl Listener for Bars {
    fn tell(&mut self, now: Timestamp, progress: &Progress) -> io::Result<()> {
        if let Some(pool) = progress.pool().and_then(|pool| self.pools.get_mut(pool)) {
            pool.apply(progress);
        }
        let notable =
            !matches!(progress, Progress::Waiting { .. } | Progress::Assigned { .. } | Progress::Converged { .. });
        if notable {
            self.bars.println(line(now, progress))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        for pool in self.pools.values() {
            pool.bar.abandon();
        }
        Ok(())
    }
}

/// A line that opens the text of a run.
#[must_use]
pub fn opening(fleet: &str, revision: &str, server: &str) -> String {
    format!("{} {fleet} {} {}", heading("fleet"), quiet(format!("at {revision}")), quiet(format!("on {server}")))
}
