//! A rollout while it runs: a line per change for people, JSON lines for programs. What is drawn on a terminal is in
//! [`live`](super::live).

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::source;
use super::style::{bad, good, heading, quiet, warning};
use super::{duration, whole_duration};
use nodecfg_contract::json_document::{Document, Kind};
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_planning::judge::Target;
use nodecfg_planning::rollout::progress::{Event, Progress};
use nodecfg_planning::snapshot::Signer;

/// Shows progress to somebody.
pub trait Listener {
    /// Something happened.
    ///
    /// # Errors
    /// When it cannot be shown.
    fn tell(&mut self, now: Timestamp, event: &Event) -> io::Result<()>;

    /// Time went by. Called several times a second where [`wants_ticks`](Self::wants_ticks) says so.
    fn tick(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// Whether something that is shown changes with time alone.
    fn wants_ticks(&self) -> bool {
        false
    }

    /// Nothing more will happen.
    ///
    /// # Errors
    /// When the display cannot be closed.
    fn finish(&mut self, now: Timestamp) -> io::Result<()> {
        let _ = now;
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
    fn tell(&mut self, now: Timestamp, event: &Event) -> io::Result<()> {
        if matches!(event.progress, Progress::Waiting { .. }) && !self.with_waiting {
            return Ok(());
        }
        writeln!(self.out, "{}", timed(self.start, now, &event.progress))?;
        self.out.flush()
    }
}

/// Whether a change has a line of its own where the present state is seen anyway.
#[must_use]
pub fn is_notable(progress: &Progress) -> bool {
    !matches!(progress, Progress::Waiting { .. } | Progress::Assigned { .. } | Progress::Converged { .. })
}

/// One change in one line, after the time since the beginning.
#[must_use]
pub fn timed(start: Timestamp, now: Timestamp, progress: &Progress) -> String {
    let since = format!("{:>6}", duration(now.duration_since(start).as_secs_f64()));
    format!("{} {}", quiet(since), line(now, progress))
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
            format!("{} {} to {}", at(pool, node), warning("rolled back"), source::full(to.as_ref()))
        }
        Progress::NotBack { pool, node, failure } => {
            format!("{} pointed back and {}: {failure}", at(pool, node), bad("has not come back"))
        }
        Progress::NotRolledBack { pool, node, needs } => {
            format!(
                "{} {}: the way back needs {needs}, which the pool does not allow",
                at(pool, node),
                warning("not pointed back")
            )
        }
        Progress::Changed { pool, node, to } => format!(
            "{} {} by somebody else, points at {} now; left as it is",
            at(pool, node),
            warning("changed"),
            source::full(to.as_ref())
        ),
        Progress::Gone { pool, node } => format!("{} left the cluster", at(pool, node)),
        Progress::Soaking { pool, until } => {
            format!("{pool} canaries converged, soaking for {}", whole_duration(seconds_until(now, *until)))
        }
        Progress::Soaked { pool } => format!("{pool} canaries held, the others follow"),
        Progress::Stopped { pool, reason } => format!("{pool} {}: {reason}", bad("stopped")),
    }
}

/// The whole seconds from `now` to `until`, begun ones counted.
pub(super) fn seconds_until(now: Timestamp, until: Timestamp) -> u64 {
    // Saturating: a time that has passed is no time.
    until.duration_since(now).as_secs_f64().ceil().max(0.0) as u64
}

/// The ConfigMap's name alone: its namespace is the same for all.
fn short(target: &Target) -> String {
    match target.source().and_then(|source| source.config_map.as_ref()) {
        Some(map) => map.name.clone(),
        None => "local configuration".to_owned(),
    }
}

/// One JSON object a line: a document with two fields more, `{formatVersion, kind, time, event, …}`.
pub struct JsonLines<W>(pub W);

impl<W: Write> JsonLines<W> {
    /// Writes a document as a line.
    ///
    /// # Errors
    /// When the writer does, or the document does not serialise.
    pub fn document(&mut self, now: Timestamp, event: &str, document: Value) -> io::Result<()> {
        let mut line = Map::new();
        if let Value::Object(mut fields) = document {
            // In front, so that a line can be told by its beginning.
            for name in ["formatVersion", "kind"] {
                line.extend(fields.shift_remove(name).map(|value| (name.to_owned(), value)));
            }
            line.insert("time".to_owned(), now.to_string().into());
            line.insert("event".to_owned(), event.into());
            line.extend(fields.into_iter().filter(|(key, _)| key != "event"));
        }
        serde_json::to_writer(&mut self.0, &line)?;
        writeln!(self.0)?;
        self.0.flush()
    }
}

impl<W: Write> Listener for JsonLines<W> {
    fn tell(&mut self, now: Timestamp, event: &Event) -> io::Result<()> {
        let document = Document::value(&event.progress)?;
        let event = document.get("event").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.document(now, &event, document)
    }
}

/// What a run is about to work on: which files, which cluster, which part of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunHeader {
    /// The fleet.
    pub fleet: FleetName,
    /// The commit that was read; unset for a working tree.
    pub commit: Option<CommitId>,
    /// Who signed it, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
    /// Where the ConfigMaps are.
    pub namespace: NamespaceName,
    /// The API server.
    pub server: String,
}

impl Kind for RunHeader {
    const KIND: &'static str = "Started";
}

/// The scene in one line, for people.
#[must_use]
pub fn opening(scene: &RunHeader) -> String {
    let revision = revision(scene.commit.as_ref());
    let signed = scene.signer.as_ref().map(|signer| format!(" signed by {signer}")).unwrap_or_default();
    let rest = format!("{revision}{signed}, namespace {}, on {}", scene.namespace, scene.server);
    format!("{} {} {}", heading("fleet"), heading(&scene.fleet), quiet(rest))
}

/// Which cluster is looked at, in one line, for people.
#[must_use]
pub fn place(namespace: Option<&NamespaceName>, server: &str) -> String {
    let within = namespace.map(|namespace| format!(", namespace {namespace}")).unwrap_or_default();
    quiet(format!("on {server}{within}"))
}

/// A revision as a sentence goes on with it: `at commit 0123456789`, `from the working tree`.
fn revision(commit: Option<&CommitId>) -> String {
    commit.map_or_else(|| "from the working tree".to_owned(), |commit| format!("at commit {}", commit.short()))
}
