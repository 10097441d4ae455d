//! The last error in a kubelet's log, and what of it may leave the node, by the table
//! `crates/kubelet-config/data/startup-errors.csv`.
//!
//! A log may hold secrets in any form. A published text therefore has no byte of the log. It is the text of the table's
//! row, with names of fields, values of the reviewed configuration, and errors of the operating system from a closed
//! list.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::risk::StateFile;
use crate::values::listed;
use crate::{fields, table};

mod log;
mod quoted_values;

use log::LoggedError;
use quoted_values::QuotedValues;

static TEXT: &str = include_str!("../../data/startup-errors.csv");
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| table::rows(TEXT).filter_map(|cells| Row::read(&cells)).collect());

/// The field of feature gates.
const GATES: &str = "featureGates";
/// The largest number of fields that are named for one error.
const MAX_FIELDS: usize = 4;
/// The largest length of an error that is read, in characters.
const MAX_ERROR: usize = 2000;
/// The text in the place of a value that is not published.
const OMITTED: &str = "…";
/// Texts of `syscall.Errno`, and of package `net`, that are published after the text of a row.
const SYSTEM_ERRORS: [&str; 20] = [
    "address already in use",
    "cannot assign requested address",
    "connection refused",
    "connection reset by peer",
    "device or resource busy",
    "file exists",
    "i/o timeout",
    "invalid argument",
    "is a directory",
    "no route to host",
    "no space left on device",
    "no such device",
    "no such file or directory",
    "no such host",
    "not a directory",
    "operation not permitted",
    "operation not supported",
    "permission denied",
    "read-only file system",
    "too many open files",
];

/// A text of kubelets. The first row whose text an error contains counts.
#[derive(Debug)]
struct Row {
    /// The parts of the text, in their order. Between two parts is a value. An empty last part stands for the end of the
    /// error.
    parts: Vec<String>,
    /// The fields that may be the cause. Empty if the error has a name or a value that tells the field.
    fields: Vec<&'static str>,
    /// The state file that the error concerns.
    state_file: Option<StateFile>,
}

impl Row {
    fn read(cells: &[String]) -> Option<Self> {
        let [text, fields, state_file, _] = cells else { return None };
        let parts = text.split('*').map(str::to_owned).collect();
        let fields = if fields.is_empty() { Vec::new() } else { listed_fields(fields)? };
        let state_file = table::word(state_file);
        Some(Self { parts, fields, state_file })
    }

    /// The values between the parts. `None` if the error does not contain the text.
    fn values<'e>(&self, error: &'e str) -> Option<Vec<&'e str>> {
        let (first, others) = self.parts.split_first()?;
        let (_, mut rest) = error.split_once(first.as_str())?;
        let mut values = Vec::new();
        for part in others {
            let (value, after) = if part.is_empty() { (rest, "") } else { rest.split_once(part.as_str())? };
            values.push(value);
            rest = after;
        }
        Some(values)
    }

    fn of(error: &str) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.values(error).is_some())
    }

    /// The text for an error, with the values of these fields that the error quotes.
    fn text(&self, error: &str, fields: &[&str], reviewed: &QuotedValues) -> String {
        let values = self.values(error).unwrap_or_default();
        let mut text = self.parts.first().cloned().unwrap_or_default();
        for (value, part) in values.iter().zip(self.parts.iter().skip(1)) {
            // A text ends without a value that is not published.
            let omitted = if part.is_empty() { "" } else { OMITTED };
            text.push_str(reviewed.shown_in(value, fields).unwrap_or(omitted));
            text.push_str(part);
        }
        let text = text.trim_end_matches([' ', ':']);
        match SYSTEM_ERRORS.into_iter().find(|known| error.contains(known) && !text.contains(known)) {
            Some(known) => format!("{text}: {known}"),
            None => text.to_owned(),
        }
    }
}

/// The last error in a kubelet's log. It may hold secrets: only [`Self::explain`] reads it, and no output shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError(String);

impl fmt::Debug for LastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastError(…)")
    }
}

impl LastError {
    /// Returns the last error in a kubelet's log. `None` without an error. The oldest line comes first.
    ///
    /// An error after which the kubelet exits is preferred, then one in the table. Later ones are often from its next
    /// start.
    #[must_use]
    pub fn in_log(log: &str) -> Option<Self> {
        let errors = log::errors(log);
        let ends = errors.iter().rposition(|error| error.ends_kubelet);
        let is_known = |error: &LoggedError| Row::of(&error.text).is_some_and(|row| !row.fields.is_empty());
        let known = || errors.iter().rposition(is_known);
        let at = ends.or_else(known).or_else(|| errors.len().checked_sub(1))?;
        let (before, _) = errors.split_at_checked(at)?;
        let found = errors.get(at)?;
        // A kubelet may log an error with its context before it returns the bare error.
        let in_context =
            |error: &&LoggedError| error.text.len() > found.text.len() && error.text.ends_with(&found.text);
        let error = before.iter().rev().find(in_context).unwrap_or(found);
        Some(Self(error.text.chars().take(MAX_ERROR).collect()))
    }

    /// Explains the error without its text. `configuration`: what the kubelet was started with, of which only names of
    /// fields are published. `reviewed`: the part of it that all readers of its ConfigMap know, whose values are
    /// published. `log`: where on the node the log is, for an error that is not in the table.
    #[must_use]
    pub fn explain(
        &self,
        configuration: Option<&Document>,
        reviewed: Option<&Document>,
        log: &'static str,
    ) -> StartupError {
        let Self(error) = self;
        let row = Row::of(error);
        let fields = concerned(error, row, &configuration.map(QuotedValues::of).unwrap_or_default());
        let text = match row {
            Some(row) => row.text(error, &fields, &reviewed.map(QuotedValues::of).unwrap_or_default()),
            None => format!("unknown error, see it on the node: {log}"),
        };
        let is_named = fields.is_empty() || leading_fields(&text).is_some();
        let text = if is_named { text } else { format!("{}: {text}", listed(&fields, "or")) };
        StartupError { text, state_file: row.and_then(|row| row.state_file) }
    }
}

/// An error of a kubelet's start, as it may be published: by its constructor, it holds no byte of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartupError {
    text: String,
    state_file: Option<StateFile>,
}

impl StartupError {
    /// Returns the state file that the error concerns. With such a file, a kubelet starts with no configuration.
    #[must_use]
    pub fn state_file(&self) -> Option<StateFile> {
        self.state_file
    }
}

impl fmt::Display for StartupError {
    /// Writes the field that the error concerns and the text of the table: `maxPods: …`. Several fields can be a choice:
    /// `port or readOnlyPort: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The fields that an error concerns; one of several is the cause. Empty if unknown.
///
/// By the names of fields in the error, else by the table, else by the values of the configuration in the error. The
/// values also narrow the choices in the table. A name in an error about feature gates is that of a gate.
fn concerned(error: &str, row: Option<&Row>, values: &QuotedValues) -> Vec<&'static str> {
    let named = named_fields(error);
    let listed = row.map(|row| row.fields.as_slice()).unwrap_or_default();
    if !named.is_empty() && listed != [GATES] {
        return named;
    }
    if listed.is_empty() {
        let quoted = values.fields_in(error);
        return if quoted.len() <= MAX_FIELDS { quoted } else { Vec::new() };
    }
    values.narrow(listed, error)
}

/// Returns the field that a text names before an error of a kubelet, as a [`StartupError`] has it.
#[must_use]
pub fn field_in(text: &str) -> Option<&str> {
    let mut starts = [0].into_iter().chain(text.match_indices(": ").map(|(at, colon)| at + colon.len()));
    starts.find_map(|start| leading_fields(text.get(start..)?))
}

/// Returns the state file that a text with an error of a kubelet concerns.
#[must_use]
pub fn state_file(text: &str) -> Option<StateFile> {
    Row::of(text)?.state_file
}

/// The fields at the start of an error, before a colon.
fn leading_fields(text: &str) -> Option<&str> {
    let (fields, _) = text.split_once(": ")?;
    listed_fields(fields).map(|_| fields)
}

/// Parses `a`, `a or b`, `a, b or c`. `None` if one is no field.
fn listed_fields(text: &str) -> Option<Vec<&'static str>> {
    text.split(", ").flat_map(|part| part.split(" or ")).map(|path| Some(fields::lookup(path)?.path.as_str())).collect()
}

/// The fields that an error names, such as `imageGCHighThresholdPercent`, `logging.format` and
/// `KubeletConfiguration.maxPods`. Names that are common words, such as `port`, do not count.
fn named_fields(error: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
    for word in error.split(|letter| !is_of_name(letter)).map(|word| word.trim_matches('.')) {
        let mut starts = [0].into_iter().chain(word.match_indices('.').map(|(at, _)| at + 1));
        let field = starts.find_map(|start| named_field(word.get(start..)?));
        found.extend(field.filter(|field| !found.contains(field)));
    }
    found.truncate(MAX_FIELDS);
    found
}

/// The field of this name, which may be that of a field of a Go struct: `CrashLoopBackOff.MaxContainerRestartPeriod`.
fn named_field(name: &str) -> Option<&'static str> {
    let lower = |part: &str| {
        let mut letters = part.chars();
        letters.next().map(|first| first.to_ascii_lowercase().to_string() + letters.as_str()).unwrap_or_default()
    };
    let path = name.split('.').map(lower).collect::<Vec<_>>().join(".");
    let field = fields::lookup(&path)?;
    let is_common_word = !path.contains('.') && !path.contains(|letter: char| letter.is_ascii_uppercase());
    (!is_common_word).then_some(field.path.as_str())
}

#[cfg(test)]
mod tests;
