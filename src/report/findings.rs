//! Findings about a repository: as miette reports that point into the files, as JSON, as markdown. And the errors that point
//! nowhere, in the same shape.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

use super::markdown::{code, prose};
use super::style::{bad, good, quiet, warning};
use super::{FORMAT_VERSION, count};
use crate::finding::{Finding, Place, Severity};
use crate::repository::Snapshot;

/// How wide reports are. Fixed, so that the same findings give the same bytes.
const WIDTH: usize = 100;

/// A finding as miette wants it: with the text that it points into. miette shows labels of one text only; places in other
/// files are said in words.
struct Shown<'a> {
    finding: &'a Finding,
    source: Option<NamedSource<String>>,
    help: Option<String>,
}

impl<'a> Shown<'a> {
    fn new(finding: &'a Finding, snapshot: &Snapshot) -> Self {
        let source = finding.place.as_ref().and_then(|place| {
            let text = snapshot.text(&place.file)?;
            // A file that is empty or a place that is the whole file has nothing to underline.
            (place.offset.saturating_add(place.len) <= text.len() && !text.is_empty())
                .then(|| NamedSource::new(&place.file, text.to_string()).with_language("yaml"))
        });
        let elsewhere =
            |place: &Place| source.is_none() || finding.place.as_ref().is_none_or(|at| at.file != place.file);
        let mut help: Vec<String> = finding
            .related
            .iter()
            .filter(|(place, _)| elsewhere(place))
            .map(|(place, words)| format!("{words}: {place}"))
            .collect();
        help.extend(finding.help.clone());
        Self { finding, source, help: (!help.is_empty()).then(|| help.join("\n")) }
    }
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.finding, f)
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.finding.message)?;
        match (&self.source, &self.finding.place) {
            (None, Some(place)) => write!(f, " ({})", place.file),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn code<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        Some(Box::new(self.finding.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.finding.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Note => miette::Severity::Advice,
        })
    }

    fn help<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (Some(_), Some(place)) = (&self.source, &self.finding.place) else { return None };
        let label = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let first = LabeledSpan::new_primary_with_span(label(&self.finding.label), (place.offset, place.len));
        let related = self
            .finding
            .related
            .iter()
            .filter(|(other, _)| other.file == place.file)
            .map(move |(other, words)| LabeledSpan::new(label(words), other.offset, other.len));
        Some(Box::new(std::iter::once(first).chain(related)))
    }
}

fn handler() -> GraphicalReportHandler {
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode()).with_width(WIDTH).with_links(false)
}

/// Writes every finding and a last line. `pools` is how many pools were found good.
///
/// # Errors
/// When the writer does.
pub fn text(out: &mut dyn Write, snapshot: &Snapshot, findings: &[Finding], pools: usize) -> io::Result<()> {
    each(out, snapshot, findings)?;
    writeln!(out, "{}", verdict(findings, pools))
}

/// Writes every finding, and nothing when there is none.
///
/// # Errors
/// When the writer does.
pub fn each(out: &mut dyn Write, snapshot: &Snapshot, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let mut report = String::new();
        handler().render_report(&mut report, &Shown::new(finding, snapshot)).map_err(io::Error::other)?;
        writeln!(out, "{}\n", report.trim_end())?;
    }
    Ok(())
}

fn verdict(findings: &[Finding], pools: usize) -> String {
    let number = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings, notes) = (number(Severity::Error), number(Severity::Warning), number(Severity::Note));
    let mut parts = Vec::new();
    if errors > 0 {
        parts.push(bad(count(errors, "error")));
    }
    if warnings > 0 {
        parts.push(warning(count(warnings, "warning")));
    }
    if notes > 0 {
        parts.push(quiet(count(notes, "note")));
    }
    if errors > 0 {
        return format!("{} {}", bad("Invalid:"), parts.join(", "));
    }
    parts.insert(0, count(pools, "pool"));
    format!("{} {}", good("Valid:"), parts.join(", "))
}

/// Writes an error that points into no file, with its way out.
///
/// # Errors
/// When the writer does.
pub fn message(out: &mut dyn Write, text: &str, help: &str) -> io::Result<()> {
    writeln!(out, "{} {text}", bad("error:"))?;
    for (index, line) in help.lines().enumerate() {
        writeln!(out, "{} {line}", if index == 0 { warning(" help:") } else { "      ".to_owned() })?;
    }
    Ok(())
}

/// The findings by file: `{formatVersion, kind, valid, files: [{file, findings}], findings}`, where the last list has those
/// that belong to no file.
///
/// # Errors
/// When they cannot be serialised, which would be a bug.
pub fn document(snapshot: &Snapshot, findings: &[Finding]) -> Result<Value, serde_json::Error> {
    let mut files: BTreeMap<&str, Vec<Value>> = snapshot.files.keys().map(|file| (file.as_str(), Vec::new())).collect();
    let mut others = Vec::new();
    for finding in findings {
        let value = serde_json::to_value(finding)?;
        match &finding.place {
            Some(place) => files.entry(&place.file).or_default().push(value),
            None => others.push(value),
        }
    }
    let files: Vec<Value> =
        files.into_iter().map(|(file, findings)| json!({"file": file, "findings": findings})).collect();
    Ok(json!({
        "formatVersion": FORMAT_VERSION,
        "kind": "Validation",
        "valid": !crate::finding::any_error(findings),
        "files": files,
        "findings": others,
    }))
}

/// The findings as a markdown table.
///
/// # Errors
/// When the writer does.
pub fn markdown(out: &mut dyn Write, findings: &[Finding], pools: usize) -> io::Result<()> {
    if findings.is_empty() {
        return writeln!(out, "**nodecfg**: {} valid, nothing to report.", count(pools, "pool"));
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        writeln!(out, "### nodecfg: invalid, {}\n", count(errors, "error"))?;
    } else {
        writeln!(out, "### nodecfg: {} valid\n", count(pools, "pool"))?;
    }
    writeln!(out, "| severity | where | what | way out |\n|---|---|---|---|")?;
    for finding in findings {
        let place = finding.place.as_ref().map_or_else(String::new, |place| code(&place.to_string()));
        let help = finding.help.as_deref().map(prose).unwrap_or_default();
        writeln!(out, "| {} | {place} | {} | {help} |", finding.severity, prose(&finding.message))?;
    }
    Ok(())
}
