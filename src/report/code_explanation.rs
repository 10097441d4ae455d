//! Explanations of codes for `nodecfg explain CODE`: findings, errors and checks of `doctor`.

use kubelet_config::advice::table as advice;
use kubelet_config::finding::{LENIENT_CODES, Severity, nearest};
use kubelet_config::values::csv;
use kubelet_config::verdict::rules::{self, RuleStage};
use nodecfg_contract::json_document::Kind;
use std::collections::BTreeMap;
use std::io;
use std::io::Write;
use std::sync::LazyLock;

use serde::Serialize;

use super::codes;
use super::markdown::prose;
use super::style::{bad, heading, quiet, warning};
use crate::doctor::codes as checks;
use crate::doctor::codes::Code;
use crate::layout::hanging;

/// Table of error codes: code, description, cause and fix.
static TEXT: &str = include_str!("../../data/errors.csv");
/// Description, cause and fix by error code.
static ERRORS: LazyLock<BTreeMap<String, [String; 3]>> = LazyLock::new(|| {
    csv::rows(TEXT)
        .filter_map(|cells| <[String; 4]>::try_from(cells).ok())
        .map(|[code, description, cause, fix]| (code, [description, cause, fix]))
        .collect()
});

/// The maximum width of the text, in columns.
const COLUMNS: usize = 78;

/// The meaning of a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeExplanation {
    /// The code.
    pub code: String,
    /// `error`, `warning` or `note`, before options such as `--lenient` lower it. `check` for a check of `nodecfg
    /// doctor`.
    pub grade: String,
    /// What the code means, in one sentence.
    pub description: String,
    /// The reason.
    pub cause: String,
    /// How to fix the cause.
    pub fix: String,
    /// The upstream source. Unset for requirements of nodecfg itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Kind for &CodeExplanation {
    const KIND: &'static str = "CodeExplanation";
}

/// Explains a code. `None` for an unknown code.
#[must_use]
pub fn explain(code: &str) -> Option<CodeExplanation> {
    if let Some([description, cause, fix]) = ERRORS.get(code) {
        let (description, cause, fix) = (description.clone(), cause.clone(), fix.clone());
        return Some(CodeExplanation {
            code: code.to_owned(),
            grade: Severity::Error.to_string(),
            description,
            cause,
            fix,
            source: None,
        });
    }
    let Some(found) = codes::lookup(code) else {
        return checks::lookup(code).map(of_check);
    };
    let (cause, fix) = match rules::lookup(code) {
        Some(rule) => (
            format!("The kubelets from {} to {} {}", rule.since, rule.until, of_stage(rule.stage)),
            "Correct the line that the finding points to. If the rule applies to some versions only, set \
             spec.kubernetesVersion in pool.yaml to the versions of the pool.",
        ),
        None if advice::lookup(code).is_some() => (
            "The kubelet accepts the value silently, but the value may be unintended.".to_owned(),
            "Correct the line if the value is unintended. Warnings and notes do not block a rollout.",
        ),
        None if LENIENT_CODES.contains(&code) => (
            "The kubelet would silently drop or misread it.".to_owned(),
            "Write it as the finding shows. With --lenient it is only a warning.",
        ),
        None => (
            "nodecfg requires files that all readers understand in the same way.".to_owned(),
            "Correct the place that the finding points to.",
        ),
    };
    Some(CodeExplanation {
        code: code.to_owned(),
        grade: found.severity.to_string(),
        description: found.says.to_owned(),
        cause,
        fix: fix.to_owned(),
        source: found.source.map(str::to_owned),
    })
}

/// Explains a check of `nodecfg doctor`.
fn of_check(check: &Code) -> CodeExplanation {
    CodeExplanation {
        code: check.code.to_owned(),
        grade: "check".to_owned(),
        description: format!("A check of `nodecfg doctor`: {}", check.about),
        cause: check.why.to_owned(),
        fix: "Run `nodecfg doctor -v`: it prints what the check found and how to fix problems. \
              docs/reference/doctor.md lists all checks."
            .to_owned(),
        source: None,
    }
}

fn of_stage(stage: RuleStage) -> &'static str {
    match stage {
        RuleStage::Load => "do not decode a file that breaks this rule, and do not start.",
        RuleStage::Gates => "refuse feature gates that break this rule, and do not start.",
        RuleStage::Validate => "refuse values that break this rule, and do not start.",
        RuleStage::Startup => "accept a file that breaks this rule, and exit later during startup.",
    }
}

/// The known code with the most similar spelling, if any is similar.
#[must_use]
pub fn nearest_code(code: &str) -> Option<&'static str> {
    nearest(code, all_codes())
}

/// All codes of errors, findings and checks.
pub fn all_codes() -> impl Iterator<Item = &'static str> {
    let errors = ERRORS.keys().map(String::as_str);
    errors.chain(codes::all()).chain(checks::CODES.iter().map(|check| check.code))
}

/// Writes the explanation as text.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, explanation: &CodeExplanation, width: usize) -> io::Result<()> {
    let width = width.min(COLUMNS);
    let grade = match explanation.grade.as_str() {
        "error" => bad(&explanation.grade),
        "check" => quiet(&explanation.grade),
        _ => warning(&explanation.grade),
    };
    writeln!(out, "{}\n", hanging(&format!("{} ({grade})", heading(&explanation.code)), 4, width))?;
    for (label, words) in [
        ("", Some(&explanation.description)),
        ("cause:  ", Some(&explanation.cause)),
        ("fix:    ", Some(&explanation.fix)),
        ("source: ", explanation.source.as_ref()),
    ] {
        let Some(words) = words else { continue };
        writeln!(out, "{}", hanging(&format!("{}{words}", quiet(label)), label.len(), width))?;
        if label.is_empty() {
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Writes the explanation as markdown.
///
/// # Errors
/// When `out` cannot be written.
pub fn markdown(out: &mut dyn Write, explanation: &CodeExplanation) -> io::Result<()> {
    writeln!(out, "### `{}` ({})\n\n{}\n", explanation.code, explanation.grade, prose(&explanation.description))?;
    writeln!(out, "- Cause: {}\n- Fix: {}", prose(&explanation.cause), prose(&explanation.fix))?;
    explanation.source.iter().try_for_each(|source| writeln!(out, "- Source: {}", prose(source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that define error codes. A regular expression finds the codes.
    const SOURCES: [&str; 6] = [
        include_str!("../../crates/agent/src/cli/failure.rs"),
        include_str!("../../crates/cluster/src/connection/error.rs"),
        include_str!("../../crates/plan/src/problem.rs"),
        include_str!("../../crates/plan/src/saved/read.rs"),
        include_str!("../runs/plan_file.rs"),
        include_str!("../terminal/failure.rs"),
    ];

    #[test]
    fn table_is_well_formed_and_has_every_error() {
        assert_eq!(TEXT.lines().next(), Some("code,description,cause,fix"));
        assert_eq!(ERRORS.len(), TEXT.lines().count() - 1, "every line parses, and every code appears once");
        assert!(TEXT.lines().skip(1).is_sorted());
        for (code, words) in ERRORS.iter() {
            assert!(words.iter().all(|words| words.ends_with(['.', '`'])), "{code}");
            // `repository` is both: a finding for one of several repositories, an error for a single one.
            assert!(codes::lookup(code).is_none() || code == "repository", "{code} is the code of a finding");
        }
        let arm = regex::Regex::new(r#"(?:=> |one\(|code: )"([a-z]+(?:-[a-z]+)*)"(?:,|\.to_owned)"#).unwrap();
        let found: Vec<String> =
            SOURCES.iter().flat_map(|source| arm.captures_iter(source)).map(|found| found[1].to_owned()).collect();
        assert!(found.len() > 40, "{found:?}");
        for code in &found {
            assert!(explain(code).is_some(), "{code} is missing in data/errors.csv");
        }
        for code in ERRORS.keys() {
            let literal = format!("\"{code}\"");
            assert!(SOURCES.iter().any(|source| source.contains(&literal)), "no source reports {code}");
        }
    }

    #[test]
    fn explains_every_code_in_eighty_columns() {
        let checks = checks::CODES.iter().map(|check| check.code.to_owned());
        for code in codes::all().map(str::to_owned).chain(ERRORS.keys().cloned()).chain(checks) {
            let explanation = explain(&code).unwrap();
            let mut out = Vec::new();
            text(&mut out, &explanation, COLUMNS).unwrap();
            let out = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
            // URLs cannot be wrapped.
            let fits = |line: &str| line.chars().count() <= 80 || line.split(' ').any(|word| word.chars().count() > 70);
            assert!(out.lines().all(fits), "{out}");
        }
        assert_eq!(nearest_code("config-map-gon"), Some("config-map-gone"));
    }
}
