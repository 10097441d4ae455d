//! Descriptions of the codes of findings, and the generated page `docs/reference/findings.md`.
//!
//! The descriptions come from three tables: kubelet rules (`crates/kubelet-config/data/rules.csv`), advice
//! (`crates/kubelet-config/data/advice.csv`), and findings about files and repositories (`data/findings.csv`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use super::markdown::prose;
use kubelet_config::advice::table as advice;
use kubelet_config::finding::Severity;
use kubelet_config::values::csv;
use kubelet_config::verdict::rules::{self, Rule, RuleStage};

/// Table of the codes of findings about files and repositories: code, severity and description.
static TEXT: &str = include_str!("../../data/findings.csv");
/// Severity and description by code of [`TEXT`].
static FILE_FINDINGS: LazyLock<BTreeMap<String, (String, String)>> = LazyLock::new(|| {
    csv::rows(TEXT)
        .filter_map(|cells| <[String; 3]>::try_from(cells).ok())
        .map(|[code, severity, says]| (code, (severity, says)))
        .collect()
});

/// Description of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The meaning, in one sentence.
    pub says: &'static str,
    /// The upstream source. `None` for requirements of nodecfg itself.
    pub source: Option<&'static str>,
    /// Whether the code is a rule of the kubelet.
    pub is_rule: bool,
    /// The severity before options such as `--lenient` lower it.
    pub severity: Severity,
}

/// The description of a code.
#[must_use]
pub fn lookup(code: &str) -> Option<Code> {
    if let Some(rule) = rules::lookup(code) {
        return Some(Code {
            says: &rule.description,
            source: Some(&rule.source),
            is_rule: true,
            severity: Severity::Error,
        });
    }
    if let Some(advice) = advice::lookup(code) {
        let (says, source) = (&advice.description, Some(advice.source.as_str()));
        return Some(Code { says, source, is_rule: false, severity: advice.severity });
    }
    let (severity, says) = FILE_FINDINGS.get(code)?;
    let severity = match severity.as_str() {
        "warning" => Severity::Warning,
        "note" => Severity::Note,
        _ => Severity::Error,
    };
    Some(Code { says, source: None, is_rule: false, severity })
}

/// All codes of findings.
pub fn all() -> impl Iterator<Item = &'static str> {
    let rules = rules::all().map(|rule| rule.id.as_str());
    rules.chain(advice::all().map(|advice| advice.code.as_str())).chain(FILE_FINDINGS.keys().map(String::as_str))
}

const HEAD: &str = "\
# Findings

Reference. For readers of finding codes. A code never changes its meaning, so scripts may match it. The page is generated from
[rules.csv](../../crates/kubelet-config/data/rules.csv), [advice.csv](../../crates/kubelet-config/data/advice.csv) and
[findings.csv](../../data/findings.csv); a test checks that it is up to date.
";

/// The page `docs/reference/findings.md`.
#[must_use]
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for (stage, title, words) in [
        (RuleStage::Load, "The kubelet cannot decode the file", "The kubelet stops reading and does not start."),
        (RuleStage::Gates, "The kubelet refuses the feature gates", "The kubelet does not validate the values."),
        (RuleStage::Validate, "The kubelet refuses the values", "The kubelet does not start."),
        (RuleStage::Startup, "The kubelet exits during startup", "The kubelet accepts the file and exits later."),
    ] {
        let _ = write!(
            page,
            "\n## {title}\n\n{words} Severity: error.\n\n| code | requirement | kubelets | source \
             |\n|---|---|---|---|\n"
        );
        for rule in rules::all().filter(|rule| rule.stage == stage) {
            let (says, source) = (prose(&rule.description), prose(&rule.source));
            let _ = writeln!(page, "| `{}` | {says} | {} | {source} |", rule.id, versions(rule));
        }
    }
    page.push_str(
        "\n## Advice\n\nValues that the kubelet accepts silently, but that may be unintended. Text, markdown and \
         annotations in GitHub Actions\nshow notes only with `-v`.\n\n| code | severity | meaning | source \
         |\n|---|---|---|---|\n",
    );
    for advice in advice::all() {
        let (says, source) = (prose(&advice.description), prose(&advice.source));
        let _ = writeln!(page, "| `{}` | {} | {says} | {source} |", advice.code, advice.severity);
    }
    page.push_str(
        "\n## Files and repositories\n\nFindings about the syntax of files and about the repository. With \
         `--lenient`, errors marked with a star are\nwarnings.\n\n| code | severity | meaning |\n|---|---|---|\n",
    );
    for (code, (severity, says)) in FILE_FINDINGS.iter() {
        let star = if kubelet_config::finding::LENIENT_CODES.contains(&code.as_str()) { "\\*" } else { "" };
        let _ = writeln!(page, "| `{code}` | {severity}{star} | {} |", prose(says));
    }
    page
}

fn versions(rule: &Rule) -> String {
    match (rule.since > kubelet_config::OLDEST, rule.until < kubelet_config::NEWEST) {
        (false, false) => "all".to_owned(),
        (true, false) => format!("from {}", rule.since),
        (false, true) => format!("up to {}", rule.until),
        (true, true) => format!("{} to {}", rule.since, rule.until),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubelet_config::finding::LENIENT_CODES;

    #[test]
    fn table_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("code,severity,description"));
        assert_eq!(FILE_FINDINGS.len(), TEXT.lines().count() - 1, "every line parses, and every code appears once");
        assert!(TEXT.lines().skip(1).is_sorted());
        for (code, (severity, says)) in FILE_FINDINGS.iter() {
            assert!(["error", "warning", "note"].contains(&severity.as_str()), "{code}");
            assert!(says.ends_with('.'), "{code}");
            assert!(rules::lookup(code).is_none() && advice::lookup(code).is_none(), "{code} is in another table");
        }
        for code in LENIENT_CODES {
            assert_eq!(lookup(code).map(|code| code.severity), Some(Severity::Error), "{code}");
        }
    }
}
