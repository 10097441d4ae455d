//! Findings and errors as text, markdown rows and JSON. Text reports use miette and show the affected lines of the
//! file.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde::Serialize;

use super::count;
use super::document::{Cell, Table};
use super::style::{bad, good, quiet, warning};
use crate::layout;
use kubelet_config::Minor;
use kubelet_config::fields::secrets;
use kubelet_config::finding::{Finding, Place, Severity};
use kubelet_config::verdict::rules::{self, RuleStage};
use nodecfg_contract::printable;
use nodecfg_fleet::snapshot::Snapshot;

/// The text of a file by its path, for the places of findings.
pub type SourceTexts<'a> = dyn Fn(&str) -> Option<&'a Arc<str>> + 'a;

/// The longest line shown, in bytes. A finding near a longer line is shown without source lines, because a one-line
/// file would fill the screen.
const MAX_LINE: usize = 400;

/// The default width of reports, in columns.
pub const WIDTH: usize = 100;

/// A finding with the text it points into, as a miette diagnostic. miette shows labels of one file only, so places in
/// other files become help text.
struct FindingDiagnostic<'a> {
    finding: &'a Finding,
    source: Option<NamedSource<Arc<str>>>,
    code: String,
    help: Option<String>,
}

impl<'a> FindingDiagnostic<'a> {
    fn new(finding: &'a Finding, texts: &SourceTexts<'_>, hidden: &mut HiddenLines) -> Self {
        let source = finding.place.as_ref().and_then(|place| {
            let text = texts(&place.file)?;
            // An empty file has no line to show.
            let shown = !text.is_empty() && has_short_lines(text, finding) && !hidden.are_near(text, finding);
            (place.offset.saturating_add(place.len) <= text.len() && shown)
                .then(|| NamedSource::new(printable::escaped(&place.file), Arc::clone(text)).with_language("yaml"))
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
        let code = match affected_kubelets(finding) {
            Some(kubelets) => format!("{} ({kubelets})", finding.code),
            None => finding.code.to_owned(),
        };
        Self { finding, source, code, help: (!help.is_empty()).then(|| printable::lines(&help.join("\n"))) }
    }
}

/// The places of a finding in its own file.
fn places_in_file(finding: &Finding) -> impl Iterator<Item = &Place> {
    let places = finding.place.iter().chain(finding.related.iter().map(|(place, _)| place));
    places.filter(|place| finding.place.as_ref().is_some_and(|at| at.file == place.file))
}

/// Number of the line of a place, from 1. YAML also counts other line ends, such as a lone carriage return.
fn line_of(text: &str, place: &Place) -> usize {
    text.get(..place.offset).map_or(place.line, |before| before.matches('\n').count() + 1)
}

/// Reports whether the first line of each place in the finding's file, and the lines around it, are short enough to
/// show.
fn has_short_lines(text: &str, finding: &Finding) -> bool {
    places_in_file(finding).all(|place| {
        let lines = text.lines().skip(line_of(text, place).saturating_sub(2));
        lines.take(3).all(|line| line.len() <= MAX_LINE)
    })
}

/// The lines of each file that are never shown: they may hold a secret, or have characters that control a terminal or
/// cannot be seen. Each file is searched once.
#[derive(Default)]
struct HiddenLines(BTreeMap<Arc<str>, Vec<RangeInclusive<usize>>>);

impl HiddenLines {
    /// Reports whether one of them is in the lines of a place in the finding's file, or in the lines around it.
    fn are_near(&mut self, text: &str, finding: &Finding) -> bool {
        let Some(at) = &finding.place else { return false };
        let unprintable = |line: &str| line.contains(|c| c != '\t' && printable::is_hidden(c));
        let hidden = self.0.entry(Arc::clone(&at.file)).or_insert_with(|| {
            let numbered = (1..).zip(text.lines()).filter(|(_, line)| unprintable(line));
            secrets::lines(text).into_iter().chain(numbered.map(|(number, _)| number..=number)).collect()
        });
        places_in_file(finding).any(|place| {
            let spanned = text.get(place.offset..place.offset.saturating_add(place.len)).unwrap_or_default();
            let line = line_of(text, place);
            let (first, last) = (line.saturating_sub(1), line + spanned.matches('\n').count() + 1);
            hidden.iter().any(|lines| *lines.start() <= last && first <= *lines.end())
        })
    }
}

/// The affected kubelets, with their reaction if the code is a kubelet rule: `kubelets 1.21 and 1.36 do not start on
/// it`. `None` without affected kubelets.
#[must_use]
pub fn affected_kubelets(finding: &Finding) -> Option<String> {
    let minors = finding.kubelets.as_slice();
    if minors.is_empty() {
        return None;
    }
    let one = minors.len() == 1;
    let does = match rules::lookup(finding.code).map(|rule| rule.stage) {
        Some(RuleStage::Load) if one => " does not decode it",
        Some(RuleStage::Load) => " do not decode it",
        Some(RuleStage::Gates | RuleStage::Validate) if one => " refuses it",
        Some(RuleStage::Gates | RuleStage::Validate) => " refuse it",
        Some(RuleStage::Startup) if one => " does not start on it",
        Some(RuleStage::Startup) => " do not start on it",
        None => "",
    };
    Some(format!("{}{does}", kubelets(minors)))
}

/// Kubelet versions, with ranges of three or more: `kubelet 1.36`, `kubelets 1.21 and 1.36`, `kubelets 1.16 to 1.23
/// and 1.36`.
#[must_use]
pub fn kubelets(minors: &[Minor]) -> String {
    let mut runs: Vec<(Minor, Minor)> = Vec::new();
    for minor in minors {
        match runs.last_mut() {
            Some((_, last)) if last.0 + 1 == minor.0 => *last = *minor,
            _ => runs.push((*minor, *minor)),
        }
    }
    let texts: Vec<String> = runs
        .iter()
        .flat_map(|(first, last)| match last.0 - first.0 {
            0 => vec![first.to_string()],
            1 => vec![first.to_string(), last.to_string()],
            _ => vec![format!("{first} to {last}")],
        })
        .collect();
    let word = if minors.len() == 1 { "kubelet" } else { "kubelets" };
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{word} {} and {last}", rest.join(", ")),
        _ => format!("{word} {}", texts.concat()),
    }
}

impl fmt::Debug for FindingDiagnostic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.finding, f)
    }
}

impl fmt::Display for FindingDiagnostic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable::lines(&self.finding.message))?;
        match (&self.source, &self.finding.place) {
            (None, Some(place)) if place.len > 0 => write!(f, " ({})", printable::escaped(&place.to_string())),
            // Most messages about a whole file name it.
            (None, Some(place)) if !self.finding.message.contains(&*place.file) => {
                write!(f, " ({})", printable::escaped(&place.file))
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for FindingDiagnostic<'_> {}

impl Diagnostic for FindingDiagnostic<'_> {
    fn code<'b>(&'b self) -> Option<Box<dyn fmt::Display + 'b>> {
        Some(Box::new(&self.code))
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
        let label = |text: &str| (!text.is_empty()).then(|| printable::one_line(text));
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

fn handler(width: usize) -> GraphicalReportHandler {
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode()).with_width(width).with_links(false)
}

/// Writes errors and warnings, a line with all counts, and a hint to `nodecfg explain`. `pools` is the number of
/// valid pools.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    findings: &[Finding],
    pools: usize,
    width: usize,
) -> io::Result<()> {
    write_each(
        out,
        &|file| snapshot.text(file),
        findings.iter().filter(|finding| finding.severity != Severity::Note),
        width,
    )?;
    writeln!(out, "{}", summary_line(findings, pools))?;
    match worst(findings.iter().map(|finding| (finding.severity, finding.code))) {
        Some((_, code)) => writeln!(out, "{}", explain_hint(code, width)),
        None => Ok(()),
    }
}

/// The first finding of the highest severity. Notes do not count.
#[must_use]
pub fn worst(codes: impl Iterator<Item = (Severity, &'static str)>) -> Option<(Severity, &'static str)> {
    let weight = |severity| match severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Note => 2,
    };
    codes.filter(|(severity, _)| *severity != Severity::Note).min_by_key(|(severity, _)| weight(*severity))
}

/// A line that proposes `nodecfg explain` for a code. If it does not fit, the command has its own line.
#[must_use]
pub fn explain_hint(code: &str, width: usize) -> String {
    let command = format!("nodecfg explain {code}");
    let line = format!("  details: {command}");
    if layout::width(&line) <= width { quiet(line) } else { quiet(format!("  details:\n    `{command}`")) }
}

/// Writes every finding, `width` columns wide.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_each<'f>(
    out: &mut dyn Write,
    texts: &SourceTexts<'_>,
    findings: impl Iterator<Item = &'f Finding>,
    width: usize,
) -> io::Result<()> {
    let handler = handler(width);
    let mut hidden = HiddenLines::default();
    for finding in findings {
        let mut report = String::new();
        let mut diagnostic = FindingDiagnostic::new(finding, texts, &mut hidden);
        handler.render_report(&mut report, &diagnostic).map_err(io::Error::other)?;
        // On a narrow terminal, wrapped source lines would separate the marks from the marked text.
        if width < WIDTH && report.lines().any(|line| layout::width(line) > width) && diagnostic.source.take().is_some()
        {
            report.clear();
            handler.render_report(&mut report, &diagnostic).map_err(io::Error::other)?;
        }
        // miette does not wrap the line of the code.
        let (code, rest) = report.trim_end().split_once('\n').unwrap_or((report.trim_end(), ""));
        writeln!(out, "{}\n{rest}\n", layout::hanging(code, 2, width))?;
    }
    Ok(())
}

/// Writes one line that counts the warnings about a configuration and names the command that shows them; nothing for
/// 0.
///
/// # Errors
/// When `out` cannot be written.
pub fn summary(out: &mut dyn Write, warnings: usize, validate: &str) -> io::Result<()> {
    if warnings == 0 {
        return Ok(());
    }
    let (number, label) = (count(warnings, "warning"), warning("warning:"));
    writeln!(out, "{label} the configuration has {number}; run `{validate}` to see {}\n", them(warnings))
}

/// `it` for one, `them` for others.
#[must_use]
pub fn them(number: usize) -> &'static str {
    if number == 1 { "it" } else { "them" }
}

fn summary_line(findings: &[Finding], pools: usize) -> String {
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

/// Writes an error that refers to no file: the message, then one `help:` line unless `help` is empty. Replaces or
/// removes control characters, so that quoted input cannot control a terminal.
///
/// # Errors
/// When `out` cannot be written.
pub fn message(out: &mut dyn Write, text: &str, help: &str) -> io::Result<()> {
    labeled(out, &bad("error:"), text, help)
}

/// Writes a warning that refers to no file, like [`message`].
///
/// # Errors
/// When `out` cannot be written.
pub fn warning_message(out: &mut dyn Write, text: &str, help: &str) -> io::Result<()> {
    labeled(out, &warning("warning:"), text, help)
}

fn labeled(out: &mut dyn Write, label: &str, text: &str, help: &str) -> io::Result<()> {
    writeln!(out, "{label} {}", printable::lines(text))?;
    if help.is_empty() { Ok(()) } else { writeln!(out, "{} {}", warning(" help:"), printable::one_line(help)) }
}

/// The findings of a repository, grouped by file.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ByFile<'a> {
    /// Whether no finding is an error.
    pub valid: bool,
    /// Every file of the repository, by path.
    pub files: Vec<OfFile<'a>>,
    /// Findings that refer to no file.
    pub findings: Vec<&'a Finding>,
}

/// The findings of a file.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfFile<'a> {
    /// The path of the file in the repository.
    pub file: &'a str,
    /// The findings of the file.
    pub findings: Vec<&'a Finding>,
}

/// Groups the findings by file.
#[must_use]
pub fn by_file<'a>(snapshot: &'a Snapshot, findings: &'a [Finding]) -> ByFile<'a> {
    let mut files: BTreeMap<&str, Vec<&Finding>> =
        snapshot.files.keys().map(|file| (file.as_str(), Vec::new())).collect();
    let mut others = Vec::new();
    for finding in findings {
        match &finding.place {
            Some(place) => files.entry(&place.file).or_default().push(finding),
            None => others.push(finding),
        }
    }
    ByFile {
        valid: !kubelet_config::finding::any_error(findings),
        files: files.into_iter().map(|(file, findings)| OfFile { file, findings }).collect(),
        findings: others,
    }
}

/// Findings as a table.
#[must_use]
pub fn table(findings: &[Finding]) -> Table {
    let row = |finding: &Finding| {
        let kubelets = affected_kubelets(finding).map_or_else(String::new, |kubelets| format!(" ({kubelets})"));
        vec![
            Cell::Words(finding.severity.to_string()),
            Cell::name(finding.place.as_ref()),
            Cell::Words(format!("{}{kubelets}", finding.message)),
            Cell::words(finding.help.clone().unwrap_or_default()),
        ]
    };
    Table {
        caption: "Findings".to_owned(),
        columns: vec!["severity", "place", "message", "fix"],
        rows: findings.iter().map(row).collect(),
        complete: true,
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_control_characters_from_errors() {
        let mut out = Vec::new();
        let message_text = "the kubelet says\u{1b}]52;c;eA==\u{7}\u{9b}2J\u{202e}no\n  - and more";
        message(&mut out, message_text, "ask\u{1b}[8m it\nor not").unwrap();
        let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        assert_eq!(text, "error: the kubelet says ]52;c;eA==  2Jno\n  - and more\n help: ask [8m it or not\n");
    }

    #[test]
    fn groups_versions_into_ranges() {
        let text = |minors: &[u32]| kubelets(&minors.iter().copied().map(Minor).collect::<Vec<_>>());
        assert_eq!(text(&[36]), "kubelet 1.36");
        assert_eq!(text(&[21, 36]), "kubelets 1.21 and 1.36");
        assert_eq!(text(&[35, 36]), "kubelets 1.35 and 1.36");
        assert_eq!(text(&[16, 17, 18, 30, 35, 36, 37]), "kubelets 1.16 to 1.18, 1.30 and 1.35 to 1.37");
    }

    #[test]
    fn findings_share_the_text_of_their_file() {
        let snapshot = Snapshot::of_texts([("a.yaml", "maxPods: -5\n")]);
        let finding = Finding::error("max-pods", "no").at(Place { len: 7, ..Place::whole_file("a.yaml") });
        let diagnostic = FindingDiagnostic::new(&finding, &|file| snapshot.text(file), &mut HiddenLines::default());
        assert!(Arc::ptr_eq(diagnostic.source.unwrap().inner(), snapshot.text("a.yaml").unwrap()));
    }

    /// A pull request writes the file, and a node the values that a finding quotes.
    #[test]
    fn shows_no_control_characters_of_a_file_or_a_finding() {
        let hostile = "\u{1b}[2J\u{9b}31m\u{202e}";
        // YAML counts a lone carriage return as a line.
        let text = format!("maxPods: -5 # {hostile}\r\r\r\r\npodsPerCore: 1\n\n\nregistryBurst: -1\n");
        let snapshot = Snapshot::of_texts([("a.yaml", text.as_str())]);
        let burst = Place { offset: text.len() - 3, len: 2, line: 5, ..Place::whole_file("a.yaml") };
        let findings = [
            Finding::error("max-pods", hostile)
                .at(Place { len: 7, line: 9, ..Place::whole_file("a.yaml") })
                .help(hostile),
            Finding::error("registry-burst", "no").at(burst.clone()).label(hostile).related(burst, hostile),
            Finding::error("bad-value", hostile).at(Place::whole_file(hostile)),
        ];
        let mut out = Vec::new();
        write_each(&mut out, &|file| snapshot.text(file), findings.iter(), WIDTH).unwrap();
        let out = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        assert!(!out.contains(|c| c != '\n' && printable::is_hidden(c)), "{out:?}");
        assert!(out.contains("registryBurst: -1") && !out.contains("maxPods: -5"), "{out}");
    }

    #[test]
    fn hides_overlong_lines() {
        let text = format!("{{\"maxPods\": -5, \"a\": \"{}\"}}", "x".repeat(2 * MAX_LINE));
        let snapshot = Snapshot::of_texts([("a.json", text.as_str())]);
        let place = Place { offset: 12, len: 2, column: 13, ..Place::whole_file("a.json") };
        let finding = Finding::error("max-pods", "no").at(place).kubelets([Minor(36)]);
        let mut out = Vec::new();
        write_each(&mut out, &|file| snapshot.text(file), [&finding].into_iter(), WIDTH).unwrap();
        let out = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        assert_eq!(out, "max-pods (kubelet 1.36 refuses it)\n\n  × no (a.json:1:13)\n\n");
    }
}
