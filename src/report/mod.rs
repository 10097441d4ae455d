//! What commands show: a [`document::Report`] for people, and the body of a JSON document for programs.
//!
//! Reports are made from plain data. They make no decisions and do not access a cluster. Text contains ANSI styles; the
//! output stream removes them where unsupported.
//!
//! - [`document`]: the model of a report, and the formats that draw it: terminal, markdown, page, and notices in JSON.
//! - [`review`], [`status`], [`run`] and others: the report of a command.
//! - [`validation`]: findings, which are written while files are read, with SARIF, JUnit and annotations.
//! - [`progress`], [`steps`], [`live`]: a rollout while it runs.
//! - [`schemas`]: JSON Schemas of all documents. [`codes`] and [`code_explanation`]: tables of codes.

use std::io;

use jiff::Timestamp;

use nodecfg_contract::printable::{at_most, is_hidden};
use nodecfg_plan::convergence::Trial;
use nodecfg_plan::state::State;

pub mod capture;
pub mod code_explanation;
pub mod codes;
pub mod doctor;
pub mod document;
pub mod drained;
pub mod effective;
pub mod error;
pub mod explain;
pub mod field;
pub mod findings;
pub mod gates;
pub mod history;
pub mod initialization;
pub mod installation;
pub mod live;
mod markdown;
pub mod orders;
pub mod outcome;
pub mod paused;
mod problems;
pub mod progress;
pub mod pruning;
pub mod recovery;
pub mod release;
pub mod reservations;
pub mod review;
pub mod run;
pub mod schemas;
pub mod source;
pub mod stale;
pub mod status;
pub mod steps;
mod stops;
mod style;
pub mod summary;
mod table;
pub mod timeline;
pub mod validation;
pub mod version;
#[cfg(test)]
mod width_tests;

/// The output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one document, or one line per event of a long-running command.
    Json,
    /// The JSON document as YAML.
    Yaml,
    /// For a pull request.
    Markdown,
    /// SARIF 2.1.0 for code scanning; `validate` only.
    Sarif,
    /// JUnit XML for test reports; `validate` only.
    Junit,
    /// A line per item with all columns; `status`, `history` and `gates` only.
    Wide,
    /// A name per line, as kubectl accepts it; `status`, `history` and `gates` only.
    Name,
    /// A page for a browser; as a report of `diff`, `sync`, `rollback`, `verify` and `status` only.
    Html,
}

impl Format {
    /// Reports whether a person reads the output, so that messages about it help.
    #[must_use]
    pub fn is_for_people(self) -> bool {
        match self {
            Self::Text | Self::Markdown | Self::Wide | Self::Name => true,
            Self::Json | Self::Yaml | Self::Sarif | Self::Junit | Self::Html => false,
        }
    }
}

/// Writes a document as pretty JSON.
///
/// # Errors
/// When `out` cannot be written.
pub fn json(out: &mut dyn io::Write, document: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(JsonText(&mut *out), document)?;
    writeln!(out)
}

/// Writes a document as one line of JSON.
///
/// # Errors
/// When `out` cannot be written.
pub fn json_line(out: &mut dyn io::Write, document: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(JsonText(&mut *out), document)?;
    writeln!(out)
}

/// Writes a document as YAML. A document that YAML would not escape is written as JSON, which is YAML too.
///
/// # Errors
/// When `out` cannot be written.
pub fn yaml(out: &mut dyn io::Write, document: &serde_json::Value) -> io::Result<()> {
    let text = serde_saphyr::to_string(document).map_err(io::Error::other)?;
    let is_command = |line: &str| line.trim_start().starts_with("::") || line.contains(COMMAND);
    if text.chars().any(|c| c != '\n' && is_hidden(c)) || text.lines().any(is_command) {
        return json(out, document);
    }
    out.write_all(text.as_bytes())
}

/// Start of a workflow command, which GitHub Actions obeys anywhere in a line.
const COMMAND: &str = "##[";

/// Writer of JSON that escapes hidden characters, which JSON allows in texts: a terminal obeys U+009B, and others hide
/// or turn around what follows. Also escapes workflow commands. Programs read the same text.
struct JsonText<W>(W);

impl<W: io::Write> io::Write for JsonText<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // serde_json writes whole characters. In ASCII, it escapes all control characters but one.
        match std::str::from_utf8(bytes) {
            Ok(text) if text.contains(COMMAND) || !bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) => {
                let mut units = [0; 2];
                for c in text.replace(COMMAND, "##\\u005b").chars() {
                    if c == '\n' || !is_hidden(c) {
                        write!(self.0, "{c}")?;
                    } else {
                        c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(self.0, "\\u{unit:04x}"))?;
                    }
                }
            }
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// `1 node`, `2 nodes`.
#[must_use]
pub fn count(number: usize, singular: &str) -> String {
    if number == 1 { format!("1 {singular}") } else { format!("{number} {singular}s") }
}

/// The remark that files with uncommitted changes are not part of a result.
#[must_use]
pub fn uncommitted(files: usize) -> String {
    format!("{} not included", count(files, "uncommitted file"))
}

/// A duration in seconds, for readers: `0.4s`, `12s`, `3m20s`, `2h05m`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if seconds < 9.95 {
        return format!("{seconds:.1}s");
    }
    // The cast saturates: a duration that is too long becomes the maximum, and NaN becomes 0.
    whole_duration(seconds.round() as u64)
}

/// A duration in whole seconds: `3s`, `10m`, `1h30m`. Omits the seconds of an hour or longer.
#[must_use]
pub fn whole_duration(whole: u64) -> String {
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, 0, _) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// A trial in words: `on trial, 8m left`. The time is missing if it is unknown or has passed.
#[must_use]
pub fn trial(trial: &Trial, at: Timestamp) -> String {
    trial
        .ends_at
        .and_then(|end| time_left(at, end))
        .map_or_else(|| State::OnTrial.to_string(), |left| format!("{}, {left} left", State::OnTrial))
}

/// The time from `at` to `end`, rounded up to whole minutes from one minute on. `None` if it has passed.
fn time_left(at: Timestamp, end: Timestamp) -> Option<String> {
    let seconds = u64::try_from(end.duration_since(at).as_secs()).ok().filter(|seconds| *seconds > 0)?;
    Some(whole_duration(if seconds < 60 { seconds } else { seconds.div_ceil(60) * 60 }))
}

/// The first time at which held nodes may start, after their number: ` (next opening 2026-11-28T21:00:00Z)`. Empty if
/// none is known.
fn next_opening(holds: impl Iterator<Item = Option<Timestamp>>) -> String {
    holds.flatten().min().map(|next| format!(" (next opening {next:.0})")).unwrap_or_default()
}

/// A text cut to `most` characters, with an ellipsis.
fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { at_most(text, most.saturating_sub(1)) }
}

/// Two values cut to `most` characters, so that they show their first difference.
fn clipped_values(old: Option<&str>, new: Option<&str>, most: usize) -> (Option<String>, Option<String>) {
    let from = match (old, new) {
        (Some(old), Some(new)) if old != new && clipped(old, most) == clipped(new, most) => {
            let same = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count();
            same.saturating_sub(most / 2)
        }
        _ => 0,
    };
    let shown = |value: &str| match from {
        0 => clipped(value, most),
        from => clipped(&format!("…{}", value.chars().skip(from).collect::<String>()), most),
    };
    (old.map(shown), new.map(shown))
}

/// Up to `most` names, and the number of omitted ones.
#[must_use]
pub fn names<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let mut names = names.into_iter();
    let shown: Vec<&str> = names.by_ref().take(most).collect();
    match names.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_no_hidden_characters() {
        let hostile = "a\u{1b}[2J\u{9b}2J\u{202e}b\u{200b}\u{7f}\u{e0041}é\n ::error::###[x]";
        let document = serde_json::json!({hostile: [hostile, "plain"], "b": 1});
        for write in [json, json_line, yaml] {
            let mut out = Vec::new();
            write(&mut out, &document).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(!text.chars().any(|c| c != '\n' && is_hidden(c)) && text.contains('é'), "{text:?}");
            assert!(!text.contains("##[") && !text.lines().any(|line| line.trim_start().starts_with("::")), "{text}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), document);
        }
        let mut out = Vec::new();
        yaml(&mut out, &serde_json::json!({"a": "é\n"})).unwrap();
        assert!(!out.starts_with(b"{"), "YAML otherwise");
        let mut out = Vec::new();
        yaml(&mut out, &serde_json::json!({"a": "##[x]"})).unwrap();
        assert!(out.starts_with(b"{"), "{out:?}");
    }

    #[test]
    fn formats_durations() {
        for (seconds, text) in [
            (0.04, "0.0s"),
            (9.94, "9.9s"),
            (12.4, "12s"),
            (60.0, "1m"),
            (200.0, "3m20s"),
            (7500.0, "2h05m"),
            (7200.0, "2h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn formats_whole_durations_without_fractions() {
        assert_eq!(whole_duration(3), "3s");
        assert_eq!(whole_duration(600), "10m");
        assert_eq!(whole_duration(5400), "1h30m");
    }

    #[test]
    fn trial_has_its_remaining_time_if_that_is_known() {
        let at = Timestamp::UNIX_EPOCH;
        let left = |seconds| trial(&Trial { ends_at: Some(Timestamp::from_second(seconds).unwrap()) }, at);
        assert_eq!([472, 60, 59].map(left), ["on trial, 8m left", "on trial, 1m left", "on trial, 59s left"]);
        assert_eq!([left(0), left(-5), trial(&Trial::default(), at)], ["on trial"; 3]);
    }

    #[test]
    fn cut_values_show_their_first_difference() {
        let (old, new) = (format!("{} > 1", "x".repeat(90)), format!("{} > 1e9", "x".repeat(90)));
        let (Some(before), Some(after)) = clipped_values(Some(&old), Some(&new), 20) else { panic!("both") };
        assert!(before.ends_with("> 1") && after.ends_with("> 1e9"), "{before} {after}");
        assert_eq!(clipped_values(Some(&old), None, 4), (Some("xxx…".to_owned()), None));
        assert_eq!(clipped_values(Some("a"), Some("b"), 4), (Some("a".to_owned()), Some("b".to_owned())));
    }

    #[test]
    fn shortens_long_lists() {
        assert_eq!(names(["a", "b"], 3), "a, b");
        assert_eq!(names(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(names([], 2), "");
    }
}
