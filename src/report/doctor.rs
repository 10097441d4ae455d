//! Report of `doctor`: problems, warnings and notes with their fixes, the codes of unknown checks, the number of passed
//! ones, and a summary line.

use nodecfg_contract::json_document::{Document, Kind};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use textwrap::fill;

use super::count;
use super::markdown::{code, prose, row};
use super::style::{bad, good, quiet, warning};
use crate::doctor::{Check, CheckResult, SyncFailure};
use crate::layout::within;
use nodecfg_contract::printable;

/// The maximum width of the text, in columns.
const WIDTH: usize = 80;
/// The width of a label and the following space, in columns.
const INDENT: usize = 9;

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

/// Writes problems, warnings and notes with their fixes, the codes of unknown checks, the number of passed ones, and a
/// summary line. With `verbose`, writes all checks in full.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, findings: &Findings<'_>, verbose: bool, width: usize) -> io::Result<()> {
    let width = width.min(WIDTH);
    for verdict in
        [CheckResult::Problem, CheckResult::Warning, CheckResult::Note, CheckResult::Unknown, CheckResult::Ok]
    {
        match verdict {
            CheckResult::Unknown if !verbose => {
                write_unknown(out, findings, width)?;
                continue;
            }
            CheckResult::Ok if !verbose => {
                write_passed(out, findings, width)?;
                continue;
            }
            _ => {}
        }
        for check in findings.with_result(verdict) {
            write_check(out, check, verbose, width)?;
        }
        if findings.number(verdict) > 0 {
            writeln!(out)?;
        }
    }
    if !verbose && findings.number(CheckResult::Unknown) + findings.number(CheckResult::Ok) > 0 {
        writeln!(out)?;
    }
    writeln!(out, "{}", summary_line(findings, width))
}

fn write_check(out: &mut dyn Write, check: &Check, verbose: bool, width: usize) -> io::Result<()> {
    let label = match check.verdict {
        CheckResult::Problem => bad("problem:"),
        CheckResult::Warning => warning("warning:"),
        CheckResult::Note => format!("{:>8}", "note:"),
        CheckResult::Unknown => quiet("unknown:"),
        CheckResult::Ok => format!("{}{}", " ".repeat(5), good("ok:")),
    };
    write_paragraph(out, &label, &format!("{} ({})", check.seen, check.code), width)?;
    let with_fix = verbose || check.verdict <= CheckResult::Note;
    match &check.fix {
        Some(fix) if with_fix => write_paragraph(out, &format!("   {}", quiet("help:")), fix, width),
        _ => Ok(()),
    }
}

/// Writes a label and text, with continuation lines indented. Lines that begin with a space, a dash or a hash are
/// file content: they are not wrapped.
fn write_paragraph(out: &mut dyn Write, label: &str, text: &str, width: usize) -> io::Result<()> {
    let mut first = format!("{label} ");
    let rest = " ".repeat(INDENT);
    for line in printable::lines(text).lines() {
        let columns = if line.starts_with([' ', '-', '#']) { usize::MAX } else { width };
        writeln!(out, "{}", fill(line, within(columns).initial_indent(&first).subsequent_indent(&rest)))?;
        first.clone_from(&rest);
    }
    Ok(())
}

/// Writes the codes of the unknown checks, each code once. Skips codes that also have a worse result.
fn write_unknown(out: &mut dyn Write, findings: &Findings<'_>, width: usize) -> io::Result<()> {
    let mut codes: Vec<&str> = Vec::new();
    for check in findings.with_result(CheckResult::Unknown) {
        let worse =
            findings.checks.iter().any(|other| other.code == check.code && other.verdict < CheckResult::Unknown);
        if !worse && !codes.contains(&check.code) {
            codes.push(check.code);
        }
    }
    if codes.is_empty() {
        return Ok(());
    }
    write_paragraph(out, &quiet("unknown:"), &format!("{}; -v shows why", codes.join(", ")), width)
}

/// Writes the number of passed checks.
fn write_passed(out: &mut dyn Write, findings: &Findings<'_>, width: usize) -> io::Result<()> {
    match findings.number(CheckResult::Ok) {
        0 => Ok(()),
        passed => {
            let text = format!("{} passed; -v lists them", count(passed, "check"));
            write_paragraph(out, &format!("     {}", good("ok:")), &text, width)
        }
    }
}

fn summary_line(findings: &Findings<'_>, width: usize) -> String {
    let warnings = findings.number(CheckResult::Warning);
    let warned = if warnings > 0 { format!(", with {}", count(warnings, "warning")) } else { String::new() };
    let (head, rest) = match findings.failure {
        None => ("Ready:", format!("a sync can run{warned}.")),
        Some(failure) => (
            "Not ready:",
            format!(
                "{}{warned}. A sync would exit with {}: {}.",
                count(findings.number(CheckResult::Problem), "problem"),
                (findings.exit_code)(Some(failure)),
                failure.description()
            ),
        ),
    };
    let head = if findings.failure.is_none() { good(head) } else { bad(head) };
    fill(&format!("{head} {rest}"), within(width))
}

/// Writes the checks as a markdown table.
///
/// # Errors
/// When `out` cannot be written.
pub fn markdown(out: &mut dyn Write, findings: &Findings<'_>) -> io::Result<()> {
    writeln!(out, "| result | check | found | fix |")?;
    writeln!(out, "|---|---|---|---|")?;
    for check in findings.checks {
        let verdict = verdict_cell(check.verdict);
        let fix = check.fix.as_deref().map(prose).unwrap_or_default();
        out.write_all(row([verdict.to_owned(), code(check.code), prose(&check.seen), fix]).as_bytes())?;
    }
    let summary = anstream::adapter::strip_str(&summary_line(findings, usize::MAX)).to_string();
    writeln!(out, "\n{}", prose(&summary))
}

fn verdict_cell(verdict: CheckResult) -> &'static str {
    match verdict {
        CheckResult::Problem => "**problem**",
        CheckResult::Warning => "warning",
        CheckResult::Note => "note",
        CheckResult::Unknown => "unknown",
        CheckResult::Ok => "ok",
    }
}

/// The JSON document: `{formatVersion, kind, exitCode, checks}`.
///
/// # Errors
/// When serialization fails, which is a bug.
pub fn document(findings: &Findings<'_>) -> Result<Value, serde_json::Error> {
    let checks = findings.checks.iter().map(|check| CheckReport {
        code: check.code,
        subject: check.subject.as_deref(),
        verdict: check.verdict,
        seen: &check.seen,
        fix: check.fix.as_deref(),
        exit_code: check.failure.map(|failure| (findings.exit_code)(Some(failure))),
    });
    Document::value(Doctor { exit_code: (findings.exit_code)(findings.failure), checks: checks.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width: usize) -> Vec<String> {
        let mut out = Vec::new();
        write_paragraph(&mut out, "   help:", text, width).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn wraps_prose_but_not_file_content() {
        assert_eq!(shown("one two three", 17), ["   help: one two", "         three"]);
        assert_eq!(
            shown("grant this:\n- verbs: [get, list]\n  of: x", 19),
            ["   help: grant", "         this:", "         - verbs: [get, list]", "           of: x"]
        );
        assert_eq!(shown("unbreakable", 13), ["   help: unbreakable"]);
        assert_eq!(shown("a\u{1b}[31mb", 49), ["   help: a [31mb"]);
    }
}
