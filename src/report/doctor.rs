//! What a check-up found: problems with their way out, warnings, notes, and what is fine in one line.

use nodecfg_contract::json_document::{Document, Kind};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use textwrap::fill;

use super::count;
use super::markdown::{code, prose};
use super::style::{bad, good, quiet, warning};
use crate::doctor::{Check, CheckResult, Ending};
use crate::layout::within;
use nodecfg_contract::printable;

/// How wide text is at most: it is read on whatever terminal is at hand.
const WIDTH: usize = 80;
/// The width of a label and the space behind it.
const INDENT: usize = 9;

/// A check and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checked<'a> {
    /// Its stable code.
    pub code: &'a str,
    /// What it is about, where there is more than one of it.
    pub subject: Option<&'a str>,
    /// What came of it.
    pub verdict: CheckResult,
    /// What was seen.
    pub seen: &'a str,
    /// How to mend it.
    pub mend: Option<&'a str>,
    /// The exit code that a sync would end with over it; of problems alone.
    pub exit_code: Option<u8>,
}

/// What a check-up found.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Doctor<'a> {
    /// The exit code that a sync would end with, and this command does: 0 when it could do its work.
    pub exit_code: u8,
    /// The checks, the worst first.
    pub checks: Vec<Checked<'a>>,
}

impl Kind for Doctor<'_> {
    const KIND: &'static str = "Doctor";
}

/// What a check-up found, with the exit codes of endings.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// The checks, the worst first.
    pub checks: &'a [Check],
    /// How a sync would end; `None` when it would do its work.
    pub ending: Option<Ending>,
    /// The exit code of an ending.
    pub exit_code: fn(Option<Ending>) -> u8,
}

impl Findings<'_> {
    fn of(&self, verdict: CheckResult) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.verdict == verdict)
    }

    fn number(&self, verdict: CheckResult) -> usize {
        self.of(verdict).count()
    }
}

/// Writes everything that is wrong with its way out, and the codes of what is fine; `verbose`: everything in full.
///
/// # Errors
/// When the writer does.
pub fn text(out: &mut dyn Write, findings: &Findings<'_>, verbose: bool, width: usize) -> io::Result<()> {
    let width = width.min(WIDTH);
    for verdict in
        [CheckResult::Problem, CheckResult::Warning, CheckResult::Note, CheckResult::Unknown, CheckResult::Ok]
    {
        let short = !verbose && matches!(verdict, CheckResult::Unknown | CheckResult::Ok);
        if short {
            codes(out, findings, verdict, width)?;
            continue;
        }
        for check in findings.of(verdict) {
            one(out, check, verbose, width)?;
        }
        if findings.number(verdict) > 0 {
            writeln!(out)?;
        }
    }
    if !verbose && findings.number(CheckResult::Unknown) + findings.number(CheckResult::Ok) > 0 {
        writeln!(out)?;
    }
    writeln!(out, "{}", last(findings, width))
}

fn one(out: &mut dyn Write, check: &Check, verbose: bool, width: usize) -> io::Result<()> {
    let label = match check.verdict {
        CheckResult::Problem => bad("problem:"),
        CheckResult::Warning => warning("warning:"),
        CheckResult::Note => format!("{:>8}", "note:"),
        CheckResult::Unknown => quiet(" unseen:"),
        CheckResult::Ok => format!("{}{}", " ".repeat(5), good("ok:")),
    };
    paragraph(out, &label, &format!("{} ({})", check.seen, check.code), width)?;
    let told = verbose || check.verdict <= CheckResult::Note;
    match &check.mend {
        Some(mend) if told => paragraph(out, &format!("   {}", quiet("help:")), mend, width),
        _ => Ok(()),
    }
}

/// Text behind a label, its further lines below its first. A line that begins with a space, a dash or a hash is of a file, and
/// stays as it is.
fn paragraph(out: &mut dyn Write, label: &str, text: &str, width: usize) -> io::Result<()> {
    let mut first = format!("{label} ");
    let rest = " ".repeat(INDENT);
    for line in printable::lines(text).lines() {
        let columns = if line.starts_with([' ', '-', '#']) { usize::MAX } else { width };
        writeln!(out, "{}", fill(line, within(columns).initial_indent(&first).subsequent_indent(&rest)))?;
        first.clone_from(&rest);
    }
    Ok(())
}

/// The codes of a verdict, each once. One that something worse was found of is not among what is fine.
fn codes(out: &mut dyn Write, findings: &Findings<'_>, verdict: CheckResult, width: usize) -> io::Result<()> {
    let mut codes: Vec<&str> = Vec::new();
    for check in findings.of(verdict) {
        let worse = findings.checks.iter().any(|other| other.code == check.code && other.verdict < verdict);
        if !worse && !codes.contains(&check.code) {
            codes.push(check.code);
        }
    }
    if codes.is_empty() {
        return Ok(());
    }
    let label =
        if verdict == CheckResult::Ok { format!("   {}", good("fine:")) } else { format!(" {}", quiet("unseen:")) };
    paragraph(out, &label, &codes.join(", "), width)
}

fn last(findings: &Findings<'_>, width: usize) -> String {
    let warnings = findings.number(CheckResult::Warning);
    let warned = if warnings > 0 { format!(", with {}", count(warnings, "warning")) } else { String::new() };
    let (head, rest) = match findings.ending {
        None => ("Well:", format!("a sync could do its work{warned}.")),
        Some(ending) => (
            "Not well:",
            format!(
                "{}{warned}. A sync would end with {}: {}.",
                count(findings.number(CheckResult::Problem), "problem"),
                (findings.exit_code)(Some(ending)),
                ending.means()
            ),
        ),
    };
    let head = if findings.ending.is_none() { good(head) } else { bad(head) };
    fill(&format!("{head} {rest}"), within(width))
}

/// The checks as a table, for a ticket.
///
/// # Errors
/// When the writer does.
pub fn markdown(out: &mut dyn Write, findings: &Findings<'_>) -> io::Result<()> {
    writeln!(out, "| verdict | check | seen | way out |")?;
    writeln!(out, "|---|---|---|---|")?;
    for check in findings.checks {
        let verdict = word(check.verdict);
        let mend = check.mend.as_deref().map(prose).unwrap_or_default();
        writeln!(out, "| {verdict} | {} | {} | {mend} |", code(check.code), prose(&check.seen))?;
    }
    let last = anstream::adapter::strip_str(&last(findings, usize::MAX)).to_string();
    writeln!(out, "\n{}", prose(&last))
}

fn word(verdict: CheckResult) -> &'static str {
    match verdict {
        CheckResult::Problem => "**problem**",
        CheckResult::Warning => "warning",
        CheckResult::Note => "note",
        CheckResult::Unknown => "not looked at",
        CheckResult::Ok => "ok",
    }
}

/// `{formatVersion, kind, exitCode, checks}`.
///
/// # Errors
/// When it cannot be serialised, which would be a bug.
pub fn document(findings: &Findings<'_>) -> Result<Value, serde_json::Error> {
    let checks = findings.checks.iter().map(|check| Checked {
        code: check.code,
        subject: check.subject.as_deref(),
        verdict: check.verdict,
        seen: &check.seen,
        mend: check.mend.as_deref(),
        exit_code: check.ending.map(|ending| (findings.exit_code)(Some(ending))),
    });
    Document::value(Doctor { exit_code: (findings.exit_code)(findings.ending), checks: checks.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width: usize) -> Vec<String> {
        let mut out = Vec::new();
        paragraph(&mut out, "   help:", text, width).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_break_between_words_and_those_of_files_do_not() {
        assert_eq!(shown("one two three", 17), ["   help: one two", "         three"]);
        assert_eq!(
            shown("grant this:\n- verbs: [get, list]\n  of: x", 19),
            ["   help: grant", "         this:", "         - verbs: [get, list]", "           of: x"]
        );
        assert_eq!(shown("unbreakable", 13), ["   help: unbreakable"]);
        assert_eq!(shown("a\u{1b}[31mb", 49), ["   help: a [31mb"]);
    }
}
