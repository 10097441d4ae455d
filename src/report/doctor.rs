//! Report of `doctor`: problems, warnings and notes with their fixes, the codes of unknown checks, the number of passed
//! ones, and a summary line.

use serde::Serialize;

use super::count;
use super::document::{Block, Conclusion, Item, Report, Section, Text};
use crate::doctor::{Check, CheckResult, SyncFailure};
use crate::status::Grade;
use nodecfg_contract::json_document::Kind;

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Checked")]
pub struct CheckReport<'a> {
    /// The code of the check.
    pub code: &'a str,
    /// The object of the check, if the check has several.
    pub subject: Option<&'a str>,
    /// The result.
    pub verdict: CheckResult,
    /// What the check found.
    pub seen: &'a str,
    /// How to fix the problem.
    pub fix: Option<&'a str>,
    /// The exit code of a sync with this problem. Set for problems only.
    pub exit_code: Option<u8>,
}

/// Result of `doctor`.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Doctor<'a> {
    /// The exit code of this command, equal to that of a sync: 0 when a sync can run.
    pub exit_code: u8,
    /// The checks, worst result first.
    pub checks: Vec<CheckReport<'a>>,
}

impl Kind for Doctor<'_> {
    const KIND: &'static str = "Doctor";
}

/// Result of `doctor`, with the exit codes of sync.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// The checks, worst result first.
    pub checks: &'a [Check],
    /// How a sync would end. `None` when a sync can run.
    pub failure: Option<SyncFailure>,
    /// Returns the exit code for a failure.
    pub exit_code: fn(Option<SyncFailure>) -> u8,
}

impl Findings<'_> {
    fn with_result(&self, verdict: CheckResult) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.verdict == verdict)
    }

    fn number(&self, verdict: CheckResult) -> usize {
        self.with_result(verdict).count()
    }
}

/// Problems, warnings and notes with their fixes, the codes of unknown checks, the number of passed ones, and whether a
/// sync can run.
#[must_use]
pub fn report(findings: &Findings<'_>) -> Report {
    use CheckResult::{Note, Ok, Problem, Unknown, Warning};
    let items = |verdict| findings.with_result(verdict).map(item);
    let urgent = [Problem, Warning, Note].into_iter().flat_map(items).map(Block::Item);
    let unknown = folded("Unknown", unknown_codes(findings), items(Unknown));
    let passed = folded("Passed", passed(findings), items(Ok));
    Report {
        command: "doctor",
        result: Some(result(findings)),
        blocks: urgent.chain(unknown).chain(passed).collect(),
        complete: true,
        ..Report::default()
    }
}

fn item(check: &Check) -> Item {
    let (label, grade) = match check.verdict {
        CheckResult::Problem => ("problem", Some(Grade::Bad)),
        CheckResult::Warning => ("warning", Some(Grade::Warning)),
        CheckResult::Note => ("note", None),
        CheckResult::Unknown => ("unknown", None),
        CheckResult::Ok => ("ok", None),
    };
    let text = Text::from(check.seen.as_str()).then(" (").then(Text::name(check.code)).then(")");
    let fix = check.fix.as_deref().map(|fix| Item::labeled("help", fix.replace('\n', "; ")));
    Item { grade, ..Item::labeled(label, text) }.with(fix)
}

/// Checks that a terminal lists with `-v` only. `None` without a summary.
fn folded(title: &'static str, summary: Option<String>, items: impl Iterator<Item = Item>) -> Option<Block> {
    Some(Block::Section(Section::on_demand(title, [summary?], items.map(Block::Item).collect())))
}

/// The codes of the unknown checks, each once. Without those that also have a worse result.
fn unknown_codes(findings: &Findings<'_>) -> Option<String> {
    let is_worse =
        |code| findings.checks.iter().any(|other| other.code == code && other.verdict < CheckResult::Unknown);
    let mut codes: Vec<&str> = Vec::new();
    for check in findings.with_result(CheckResult::Unknown) {
        if !is_worse(check.code) && !codes.contains(&check.code) {
            codes.push(check.code);
        }
    }
    (!codes.is_empty()).then(|| codes.join(", "))
}

fn passed(findings: &Findings<'_>) -> Option<String> {
    let passed = findings.number(CheckResult::Ok);
    (passed > 0).then(|| count(passed, "check"))
}

fn result(findings: &Findings<'_>) -> Conclusion {
    let warnings = findings.number(CheckResult::Warning);
    let warned = if warnings > 0 { format!(", with {}", count(warnings, "warning")) } else { String::new() };
    let (label, grade, text) = match findings.failure {
        None => ("Ready:", Grade::Good, format!("a sync can run{warned}.")),
        Some(failure) => (
            "Not ready:",
            Grade::Bad,
            format!(
                "{}{warned}. A sync would exit with {}: {}.",
                count(findings.number(CheckResult::Problem), "problem"),
                (findings.exit_code)(Some(failure)),
                failure.description()
            ),
        ),
    };
    Conclusion { label: label.to_owned(), grade, text: text.into() }
}

/// The body of the JSON document.
#[must_use]
pub fn body<'a>(findings: &Findings<'a>) -> Doctor<'a> {
    let checks = findings.checks.iter().map(|check| CheckReport {
        code: check.code,
        subject: check.subject.as_deref(),
        verdict: check.verdict,
        seen: &check.seen,
        fix: check.fix.as_deref(),
        exit_code: check.failure.map(|failure| (findings.exit_code)(Some(failure))),
    });
    Doctor { exit_code: (findings.exit_code)(findings.failure), checks: checks.collect() }
}
