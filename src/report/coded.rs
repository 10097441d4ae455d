//! What `nodecfg explain CODE` says: of the code of a finding, of an error that a command ended with, or of a
//! check of `doctor`.

use kubelet_config::advice::table as advice;
use nodecfg_contract::json_document::Kind;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use serde::Serialize;
use textwrap::fill;

use super::codes;
use super::markdown::prose;
use super::style::{bad, heading, quiet, warning};
use crate::doctor::codes::{self as checks, Code};
use crate::layout::within;
use kubelet_config::finding::{LENIENT_CODES, Severity};
use kubelet_config::rules::{self, RuleStage};
use kubelet_config::spelling::nearest;
use kubelet_config::table;

static TEXT: &str = include_str!("../../data/errors.csv");
static ERRORS: LazyLock<BTreeMap<String, [String; 3]>> = LazyLock::new(|| {
    table::rows(TEXT)
        .filter_map(|cells| <[String; 4]>::try_from(cells).ok())
        .map(|[code, says, why, way_out]| (code, [says, why, way_out]))
        .collect()
});

/// How wide the text is, in columns.
const COLUMNS: usize = 78;

/// What a code stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Coded {
    /// The code.
    pub code: String,
    /// `error`, `warning` or `note`, where nothing lowers it; `check` for one of `nodecfg doctor`.
    pub grade: String,
    /// What it says, in one sentence.
    pub says: String,
    /// Why that is so.
    pub why: String,
    /// What can be done.
    pub way_out: String,
    /// Where that is written down; unset for what only nodecfg asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Kind for &Coded {
    const KIND: &'static str = "CodeExplanation";
}

/// What a code stands for, if it is one.
#[must_use]
pub fn explain(code: &str) -> Option<Coded> {
    if let Some([says, why, way_out]) = ERRORS.get(code) {
        let (says, why, way_out) = (says.clone(), why.clone(), way_out.clone());
        return Some(Coded {
            code: code.to_owned(),
            grade: Severity::Error.to_string(),
            says,
            why,
            way_out,
            source: None,
        });
    }
    let Some(found) = codes::lookup(code) else {
        return checks::lookup(code).map(of_check);
    };
    let (why, way_out) = match rules::lookup(code) {
        Some(rule) => (
            format!("The kubelets from {} to {} {}", rule.since, rule.until, of_stage(rule.stage)),
            "Mend the line that the finding shows. Where only some versions ask for it, spec.kubernetesVersion in pool.yaml says \
             which ones the pool has.",
        ),
        None if advice::lookup(code).is_some() => (
            "The kubelet takes it without a word, and its author may not have meant it.".to_owned(),
            "Mend the line that the finding shows, if it was not meant. A warning or a note keeps nothing from being rolled out.",
        ),
        None if LENIENT_CODES.contains(&code) => (
            "The kubelet would drop or misread it without a word.".to_owned(),
            "Write it as the finding says. With --lenient it is only a warning.",
        ),
        None => (
            "nodecfg reads files so that every reader of them understands the same.".to_owned(),
            "Mend the place that the finding shows, as it says there.",
        ),
    };
    Some(Coded {
        code: code.to_owned(),
        grade: found.severity.to_string(),
        says: found.says.to_owned(),
        why,
        way_out: way_out.to_owned(),
        source: found.source.map(str::to_owned),
    })
}

/// What a check of `nodecfg doctor` is about.
fn of_check(check: &Code) -> Coded {
    Coded {
        code: check.code.to_owned(),
        grade: "check".to_owned(),
        says: format!("A check of `nodecfg doctor`: {}", check.about),
        why: check.why.to_owned(),
        way_out: "`nodecfg doctor -v` says what it saw, and beside what is wrong how to mend it; docs/doctor.md has all checks."
            .to_owned(),
        source: None,
    }
}

fn of_stage(stage: RuleStage) -> &'static str {
    match stage {
        RuleStage::Load => "do not decode a file that breaks it, and do not start.",
        RuleStage::Gates => "refuse feature gates that break it, and do not start.",
        RuleStage::Validate => "refuse values that break it, and do not start.",
        RuleStage::Startup => "accept a file that breaks it, and exit later while they start.",
    }
}

/// The code that is most like this one, if any is.
#[must_use]
pub fn nearest_code(code: &str) -> Option<&'static str> {
    let errors = ERRORS.keys().map(String::as_str);
    nearest(code, errors.chain(codes::all()).chain(checks::CODES.iter().map(|check| check.code)))
}

/// Writes it for people.
///
/// # Errors
/// When the writer does.
pub fn text(out: &mut dyn Write, coded: &Coded) -> io::Result<()> {
    let grade = match coded.grade.as_str() {
        "error" => bad(&coded.grade),
        "check" => quiet(&coded.grade),
        _ => warning(&coded.grade),
    };
    writeln!(out, "{} ({grade})\n", heading(&coded.code))?;
    for (label, words) in [
        ("", Some(&coded.says)),
        ("why:  ", Some(&coded.why)),
        ("do:   ", Some(&coded.way_out)),
        ("from: ", coded.source.as_ref()),
    ] {
        let Some(words) = words else { continue };
        let (first, rest) = (quiet(label), " ".repeat(label.len()));
        writeln!(out, "{}", fill(words, within(COLUMNS).initial_indent(&first).subsequent_indent(&rest)))?;
        if label.is_empty() {
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Writes it for a pull request.
///
/// # Errors
/// When the writer does.
pub fn markdown(out: &mut dyn Write, coded: &Coded) -> io::Result<()> {
    writeln!(out, "### `{}` ({})\n\n{}\n", coded.code, coded.grade, prose(&coded.says))?;
    writeln!(out, "- Why: {}\n- What to do: {}", prose(&coded.why), prose(&coded.way_out))?;
    coded.source.iter().try_for_each(|source| writeln!(out, "- From: {}", prose(source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files in which errors get their codes.
    const SOURCES: [&str; 5] = [
        include_str!("../../crates/cluster/src/error.rs"),
        include_str!("../../crates/planning/src/plan/problem.rs"),
        include_str!("../../crates/planning/src/plan/saved/read.rs"),
        include_str!("../cli/plan_file.rs"),
        include_str!("../cli/failure.rs"),
    ];

    #[test]
    fn the_table_is_well_formed_and_has_every_error() {
        assert_eq!(TEXT.lines().next(), Some("code,says,why,way_out"));
        assert_eq!(ERRORS.len(), TEXT.lines().count() - 1, "every line reads, and no code appears twice");
        assert!(TEXT.lines().skip(1).is_sorted());
        for (code, words) in ERRORS.iter() {
            assert!(words.iter().all(|words| words.ends_with(['.', '`'])), "{code}");
            // That one of several repositories cannot be read is a finding, and of one it is an error.
            assert!(codes::lookup(code).is_none() || code == "repository", "{code} is a finding's");
        }
        let arm = regex::Regex::new(r#"(?:=> |one\(|code: )"([a-z]+(?:-[a-z]+)*)"(?:,|\.to_owned)"#).unwrap();
        for code in SOURCES.iter().flat_map(|source| arm.captures_iter(source)).map(|found| found[1].to_owned()) {
            assert!(explain(&code).is_some(), "{code} is not explained in data/errors.csv");
        }
    }

    #[test]
    fn every_code_is_explained_in_eighty_columns() {
        let checks = checks::CODES.iter().map(|check| check.code.to_owned());
        for code in codes::all().map(str::to_owned).chain(ERRORS.keys().cloned()).chain(checks) {
            let coded = explain(&code).unwrap();
            let mut out = Vec::new();
            text(&mut out, &coded).unwrap();
            let out = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
            // An address cannot be broken.
            let fits = |line: &str| line.chars().count() <= 80 || line.split(' ').any(|word| word.chars().count() > 70);
            assert!(out.lines().all(fits), "{out}");
        }
        assert_eq!(nearest_code("config-map-gon"), Some("config-map-gone"));
    }
}
