//! Progress of a running rollout: a text line or a JSON line per event. [`steps`](super::steps) shortens the text of a
//! large rollout; the terminal display is in [`live`](super::live).

use std::fmt::Display;
use std::io;
use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;

use super::style::{bad, good, heading, quiet, warning};
use super::{count, duration, json_line, source, time_left, whole_duration};
use crate::layout::hanging;
use nodecfg_contract::json_document::{FORMAT_VERSION, Kind};
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName};
use nodecfg_contract::printable::{at_most, one_line};
use nodecfg_fleet::snapshot::Signer;
use nodecfg_plan::convergence::Target;
use nodecfg_rollout::progress::{Event, NodeCounts, Progress};

/// The maximum length of a message, in characters. JSON has the whole message.
const MAX_MESSAGE: usize = 1000;
/// The width of the time since the start, in columns.
const SINCE: usize = 6;

/// Receiver of rollout events.
pub trait Listener {
    /// Handles an event.
    ///
    /// # Errors
    /// When the output cannot be written.
    fn event(&mut self, now: Timestamp, event: &Event) -> io::Result<()>;

    /// Handles the passing of time. Called several times a second if [`needs_ticks`](Self::needs_ticks) returns true.
    fn tick(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// Reports whether the display changes with time alone.
    fn needs_ticks(&self) -> bool {
        false
    }

    /// Closes the display.
    ///
    /// # Errors
    /// When the output cannot be written.
    fn finish(&mut self, now: Timestamp) -> io::Result<()> {
        let _ = now;
        Ok(())
    }
}

/// Text output: one line per event, with the time since the start.
pub struct Lines<W> {
    out: W,
    width: usize,
    start: Timestamp,
    with_waiting: bool,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`, `width` columns wide. With `with_waiting`, also reports what nodes wait for.
    pub fn new(out: W, width: usize, start: Timestamp, with_waiting: bool) -> Self {
        Self { out, width, start, with_waiting }
    }
}

impl<W: Write> Listener for Lines<W> {
    fn event(&mut self, now: Timestamp, event: &Event) -> io::Result<()> {
        let is_hidden = match event.progress {
            Progress::Waiting { .. } => !self.with_waiting,
            // What nodes wait for includes the pods that are left, and a block.
            Progress::DrainStarted { .. } | Progress::DrainBlocked { .. } => self.with_waiting,
            _ => false,
        };
        if is_hidden {
            return Ok(());
        }
        writeln!(self.out, "{}", timed(self.start, now, event, self.width))?;
        self.out.flush()
    }
}

/// Reports whether an event needs its own line beside the live display.
#[must_use]
pub fn is_notable(progress: &Progress) -> bool {
    !matches!(
        progress,
        Progress::Waiting { .. }
            | Progress::DrainStarted { .. }
            | Progress::DrainBlocked { .. }
            | Progress::Drained { .. }
            | Progress::Assigned { .. }
            | Progress::Converged { .. }
            | Progress::TrialPassed
    )
}

/// An event after the time since the start, in lines of at most `width` columns.
#[must_use]
pub fn timed(start: Timestamp, now: Timestamp, event: &Event, width: usize) -> String {
    timed_text(start, now, &line(now, event), width)
}

/// A text after the time since the start, in lines of at most `width` columns.
pub(super) fn timed_text(start: Timestamp, now: Timestamp, text: &str, width: usize) -> String {
    let since = format!("{:>SINCE$}", duration(now.duration_since(start).as_secs_f64().max(0.0)));
    hanging(&format!("{} {text}", quiet(since)), SINCE + 1, width)
}

/// An event in one line.
fn line(now: Timestamp, event: &Event) -> String {
    match subject(event) {
        Some(subject) => format!("{subject} {}", event_text(now, event)),
        None => event_text(now, event),
    }
}

/// The node of an event with its pool, or the pool. `None` for an event of no pool.
fn subject(event: &Event) -> Option<String> {
    let pool = event.pool.as_ref()?;
    Some(event.node.as_ref().map_or_else(|| pool.to_string(), |node| format!("{pool}/{node}")))
}

/// What happened, without the node or pool.
pub(super) fn event_text(now: Timestamp, event: &Event) -> String {
    match &event.progress {
        Progress::ConfigMapCreated { name } => format!("ConfigMap {name} created"),
        Progress::ContentHashesAdded { nodes } => {
            format!("contentHash added to {}, without restarts", count(*nodes, "NodeConfig"))
        }
        Progress::PointerMoved { config_map, .. } => match config_map {
            Some(config_map) => format!("new nodes start with {config_map}"),
            None => "new nodes start with their local configuration".to_owned(),
        },
        Progress::PointerNotMoved { error, .. } => format!("{}: {}", bad("pointer not moved"), message(error)),
        Progress::MarkReleased => {
            let node = event.node.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("node {node} released: an earlier run drained it")
        }
        Progress::NotReleased { error, .. } => {
            format!("{}, so no new pods start on it: {}", bad("not released"), message(error))
        }
        Progress::DrainStarted { pods, .. } => format!("draining, {} to evict", count(*pods, "pod")),
        Progress::DrainBlocked { pod, reason, .. } => {
            format!("{} by a budget, pod {}: {}", warning("drain blocked"), message(pod), message(reason))
        }
        Progress::Drained { seconds, .. } => format!("drained in {}", duration(*seconds)),
        Progress::Assigned { to, .. } => format!("assigned {}", short(to)),
        Progress::Unacknowledged { seconds } => {
            let check = "check that its agent runs (`nodecfg-agent status` on the node), or without agents its kubelet";
            format!("{} its assignment for {}: {check}", warning("has not acknowledged"), duration(*seconds))
        }
        Progress::Waiting { waiting, .. } => quiet(message(waiting)),
        Progress::Converged { seconds, .. } => format!("{} in {}", good("converged"), duration(*seconds)),
        Progress::TrialPassed => format!("{} its trial", good("passed")),
        Progress::AwaitingTrials { nodes, until, .. } => {
            let left = until.and_then(|until| time_left(now, until));
            let left = left.map(|left| format!(", up to {left}")).unwrap_or_default();
            format!("waiting for the trials of {}{left}", count(*nodes, "node"))
        }
        Progress::Failed { failure, .. } => format!("{}: {}", bad("failed"), message(failure)),
        Progress::Refused { error, .. } => format!("{} by the API server: {}", bad("refused"), message(error)),
        Progress::RolledBack { to, .. } => {
            format!("{} to {}", warning("rolled back"), source::full(to.as_ref()))
        }
        Progress::RollbackFailed { failure, .. } => format!("{}: {}", bad("rollback failed"), message(failure)),
        Progress::NotRolledBack { needs, .. } => {
            format!("{}: a rollback needs {needs}, which the pool does not allow", warning("not rolled back"))
        }
        Progress::Changed { to, .. } => {
            format!("{} by another client to {}; left unchanged", warning("changed"), source::full(to.as_ref()))
        }
        Progress::Held { why, .. } => format!("{}: {}", warning("held"), message(why)),
        Progress::PoolHeld { nodes, hold, .. } => {
            format!("{}, {}: {hold}", warning("held"), count(*nodes, "node"))
        }
        Progress::GateClosed { gate, why, .. } => {
            format!("{} for gate {gate}: {}", warning("waiting"), message(why))
        }
        Progress::GateOpened { gate, .. } => format!("gate {gate} delays it no longer"),
        Progress::NotPermitted { gate, why, until } => {
            let limit = whole_duration(seconds_until(now, *until));
            format!("{} for its gate {gate}, for at most {limit}: {}", warning("waiting"), message(why))
        }
        Progress::Permitted => "its gates pass now".to_owned(),
        Progress::Gone => "left the cluster".to_owned(),
        Progress::Soaking { until, .. } => {
            format!("canaries converged, soaking for {}", whole_duration(seconds_until(now, *until)))
        }
        Progress::Soaked => "canaries passed, continuing with the other nodes".to_owned(),
        Progress::DomainSoaking { until, next, .. } => {
            format!("soaking for {}, then {next}", whole_duration(seconds_until(now, *until)))
        }
        Progress::DomainStarted { domain, nodes, .. } => format!("continuing with {domain}, {}", count(*nodes, "node")),
        Progress::StepSoaking { until, begun } => {
            format!(
                "{} on the target, soaking for {}",
                count(*begun, "node"),
                whole_duration(seconds_until(now, *until))
            )
        }
        Progress::StepStarted { limit: Some(limit) } => format!("continuing up to {}", count(*limit, "node")),
        Progress::StepStarted { limit: None } => "continuing with all other nodes".to_owned(),
        Progress::Stopped { reason, .. } => format!("{}: {}", bad("stopped"), message(reason)),
    }
}

/// A message that may contain text of a node or of the API server: on one line, without control characters, shortened.
pub(super) fn message(text: impl Display) -> String {
    at_most(&one_line(&text.to_string()), MAX_MESSAGE)
}

/// The numbers of nodes that failed, are in transition or left the rollout.
pub(super) fn count_labels(counts: &NodeCounts) -> Vec<String> {
    let mut labels = Vec::new();
    for (number, style, what) in [
        (counts.failed, bad as fn(String) -> String, "failed"),
        (counts.in_flight, |plain| plain, "in transition"),
        (counts.left, warning, "left the rollout"),
    ] {
        if number > 0 {
            labels.push(style(format!("{number} {what}")));
        }
    }
    labels
}

/// The seconds from `now` to `until`, rounded up.
pub(super) fn seconds_until(now: Timestamp, until: Timestamp) -> u64 {
    // The maximum with 0.0 makes a past time 0.
    until.duration_since(now).as_secs_f64().ceil().max(0.0) as u64
}

/// The name of the ConfigMap without its namespace, which is the same for all, or `local configuration`.
fn short(target: &Target) -> String {
    match target.source().and_then(|source| source.config_map.as_ref()) {
        Some(map) => map.name.clone(),
        None => "local configuration".to_owned(),
    }
}

/// JSON output: one document per line, with the fields `time` and `event` added: `{formatVersion, kind, time, event,
/// …}`.
pub struct JsonLines<W>(pub W);

impl<W: Write> JsonLines<W> {
    /// Writes a document as a line, with the name of its event.
    ///
    /// # Errors
    /// When the output cannot be written, or the document cannot be serialized.
    pub fn document<T: Kind + Serialize>(&mut self, now: Timestamp, event: &str, body: &T) -> io::Result<()> {
        self.line(now, Some(event), body)
    }

    /// Writes a document that names its event itself as a line.
    ///
    /// # Errors
    /// When the output cannot be written, or the document cannot be serialized.
    pub fn tagged<T: Kind + Serialize>(&mut self, now: Timestamp, body: &T) -> io::Result<()> {
        self.line(now, None, body)
    }

    /// Serializes straight to the output: the document of a large fleet has 10 MB.
    fn line<T: Kind + Serialize>(&mut self, now: Timestamp, event: Option<&str>, body: &T) -> io::Result<()> {
        let line = JsonLine { format_version: FORMAT_VERSION, kind: T::KIND, time: now, event, body };
        json_line(&mut self.0, &line)?;
        self.0.flush()
    }
}

/// One line. The head comes first, so that the start of a line identifies its kind.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonLine<'a, T> {
    format_version: u32,
    kind: &'static str,
    time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a str>,
    #[serde(flatten)]
    body: &'a T,
}

impl<W: Write> Listener for JsonLines<W> {
    fn event(&mut self, now: Timestamp, event: &Event) -> io::Result<()> {
        self.line(now, None, event)
    }
}

/// Header of a run: the files and the cluster it works on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunHeader {
    /// The fleet.
    pub fleet: FleetName,
    /// The commit. Unset for a working tree.
    pub commit: Option<CommitId>,
    /// The signer of the commit, if signatures are verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
    /// The namespace of the ConfigMaps.
    pub namespace: NamespaceName,
    /// The URL of the API server.
    pub server: String,
    /// The reason for which this run ignores the windows and exclusions of pools. Unset if it respects them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_windows: Option<String>,
}

impl Kind for RunHeader {
    const KIND: &'static str = "Started";
}

/// The header in one line.
#[must_use]
pub fn header_line(header: &RunHeader) -> String {
    let revision = revision(header.commit.as_ref());
    let signed = header.signer.as_ref().map(|signer| format!(" signed by {signer}")).unwrap_or_default();
    let rest = format!("{revision}{signed}, namespace {}, on {}", header.namespace, header.server);
    let ignored = header.ignored_windows.as_ref().map(|reason| warning(format!(", windows ignored: {reason}")));
    format!("{} {} {}{}", heading("fleet"), heading(&header.fleet), quiet(rest), ignored.unwrap_or_default())
}

/// The cluster, and its namespace if given, in one line.
#[must_use]
pub fn place(namespace: Option<&NamespaceName>, server: &str) -> String {
    let within = namespace.map(|namespace| format!(", namespace {namespace}")).unwrap_or_default();
    quiet(format!("on {server}{within}"))
}

/// A revision in a sentence: `at commit 0123456789`, `from the working tree`.
pub(super) fn revision(commit: Option<&CommitId>) -> String {
    commit.map_or_else(|| "from the working tree".to_owned(), |commit| format!("at commit {}", commit.short()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::names::{NodeName, PoolName};
    use nodecfg_plan::convergence::Waiting;

    /// A drain of two pods, one of which a budget protects for a while.
    fn drain() -> Vec<Progress> {
        let waiting = |pods, blocked: Option<&str>| {
            let blocked = blocked.map(str::to_owned);
            Progress::Waiting { waiting: Waiting::Draining { pods, blocked } }
        };
        let (pod, reason) = ("web/a".to_owned(), "The disruption budget web needs 2".to_owned());
        vec![
            waiting(None, None),
            Progress::DrainStarted { pods: 2 },
            waiting(Some(2), None),
            Progress::DrainBlocked { pod, reason },
            waiting(Some(1), Some("pod web/a: The disruption budget web needs 2")),
            Progress::Drained { seconds: 22.0 },
        ]
    }

    fn lines(with_waiting: bool) -> Vec<String> {
        let mut out = Vec::new();
        let start = Timestamp::UNIX_EPOCH;
        let mut lines = Lines::new(&mut out, usize::MAX, start, with_waiting);
        for progress in drain() {
            let (pool, node) = (PoolName::new("gpu").unwrap(), NodeName::new("n1").unwrap());
            lines.event(start, &Event::from(progress).of(pool).about(node)).unwrap();
        }
        let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        text.lines().map(|line| line.split_once("gpu/n1 ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn drain_has_a_line_for_its_start_its_block_and_its_end() {
        assert_eq!(
            lines(false),
            [
                "draining, 2 pods to evict",
                "drain blocked by a budget, pod web/a: The disruption budget web needs 2",
                "drained in 22s",
            ]
        );
        assert_eq!(
            lines(true),
            [
                "draining",
                "draining, 2 pods left",
                "draining, 1 pod left; blocked: pod web/a: The disruption budget web needs 2",
                "drained in 22s",
            ]
        );
    }
}
