//! The last error in a kubelet's log, the field of the configuration that it concerns, and the state file, by the table
//! `crates/kubelet-config/data/startup-errors.csv`.

use std::sync::LazyLock;

use crate::document::Document;
use crate::kubelet_log::LoggedError;
use crate::quoted_values::QuotedValues;
use crate::secret_words::without_secrets;
use crate::{fields, kubelet_log, table};

static TEXT: &str = include_str!("../data/startup-errors.csv");
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| table::rows(TEXT).filter_map(|cells| Row::read(&cells)).collect());

/// The field of feature gates.
const GATES: &str = "featureGates";
/// The largest number of fields that are named for one error.
const MAX_FIELDS: usize = 4;

/// A text of kubelets. The first row whose text an error contains counts.
#[derive(Debug)]
struct Row {
    /// The parts of the text, in their order.
    parts: Vec<String>,
    /// The fields that may be the cause.
    fields: Vec<&'static str>,
    /// The state file that the error concerns. Empty for other errors.
    state_file: String,
}

impl Row {
    fn read(cells: &[String]) -> Option<Self> {
        let [text, fields, state_file, _] = cells else { return None };
        let parts = text.split('*').map(str::to_owned).collect();
        Some(Self { parts, fields: listed_fields(fields)?, state_file: state_file.clone() })
    }

    fn matches(&self, error: &str) -> bool {
        self.parts.iter().try_fold(error, |rest, part| rest.split_once(part.as_str()).map(|(_, rest)| rest)).is_some()
    }

    fn of(error: &str) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.matches(error))
    }
}

/// Returns the last error in a kubelet's log, on one line and without values that may be secret. `None` without an
/// error. The oldest line comes first, and hidden characters are already removed: they could divide the name of a
/// secret.
///
/// An error after which the kubelet exits is preferred, then one in the table. Later ones are often from its next start.
#[must_use]
pub fn last(log: &str) -> Option<String> {
    let errors = kubelet_log::errors(log);
    let ends = errors.iter().rposition(|error| error.ends_kubelet);
    let known = || errors.iter().rposition(|error| Row::of(&error.text).is_some());
    let at = ends.or_else(known).or_else(|| errors.len().checked_sub(1))?;
    let (before, _) = errors.split_at_checked(at)?;
    let found = errors.get(at)?;
    // A kubelet may log an error with its context before it returns the bare error.
    let in_context = |error: &&LoggedError| error.text.len() > found.text.len() && error.text.ends_with(&found.text);
    let error = before.iter().rev().find(in_context).unwrap_or(found);
    Some(without_secrets(&error.text))
}

/// Returns an error with the field that it concerns before it: `maxPods: …`, or a choice of fields: `port or
/// readOnlyPort: …`. Unchanged if the field is unknown, or already named.
#[must_use]
pub fn with_field(error: &str, configuration: Option<&Document>) -> String {
    match field(error, configuration) {
        Some(field) if leading_fields(error).is_none() => format!("{field}: {error}"),
        _ => error.to_owned(),
    }
}

/// Returns the field of a configuration that an error concerns, or a choice of fields: `systemReserved, kubeReserved or
/// evictionHard`. `None` if unknown.
///
/// By the names of fields in the error, else by the table, else by the values of the configuration in the error. The
/// values also narrow the choices in the table. A name in an error about feature gates is that of a gate.
#[must_use]
pub fn field(error: &str, configuration: Option<&Document>) -> Option<String> {
    let row = Row::of(error);
    let named = named_fields(error);
    if !named.is_empty() && row.is_none_or(|row| row.fields != [GATES]) {
        return joined(&named);
    }
    let values = configuration.map(QuotedValues::of).unwrap_or_default();
    let Some(row) = row else {
        let quoted = values.fields_in(error);
        return if quoted.len() <= MAX_FIELDS { joined(&quoted) } else { None };
    };
    joined(&values.narrow(&row.fields, error))
}

/// Returns the field that a text names before an error of a kubelet, as [`with_field`] adds it.
#[must_use]
pub fn field_in(text: &str) -> Option<&str> {
    let mut starts = [0].into_iter().chain(text.match_indices(": ").map(|(at, colon)| at + colon.len()));
    starts.find_map(|start| leading_fields(text.get(start..)?))
}

/// Returns the path of the state file that an error concerns, or its name in the kubelet's root directory. With such a
/// file, a kubelet starts with no configuration.
#[must_use]
pub fn state_file(error: &str) -> Option<&str> {
    let is_of_path = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-');
    let path =
        || error.split_once("checkpoint file \"")?.1.split('"').next().filter(|path| path.chars().all(is_of_path));
    let in_table = || Row::of(error).map(|row| row.state_file.as_str()).filter(|file| !file.is_empty());
    path().or_else(in_table)
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

/// Formats fields as a choice. `None` without fields.
fn joined(fields: &[&'static str]) -> Option<String> {
    let (last, others) = fields.split_last()?;
    Some(if others.is_empty() { (*last).to_owned() } else { format!("{} or {last}", others.join(", ")) })
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
#[path = "startup_error_tests.rs"]
mod tests;
