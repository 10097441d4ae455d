//! What each code of a finding means: a rule of the kubelet (`crates/kubelet-config/data/rules.csv`), a piece of advice
//! (`crates/kubelet-config/data/advice.csv`), or what nodecfg says of files and repositories (`data/findings.csv`). And the page that
//! lists them, `docs/findings.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use super::markdown::prose;
use kubelet_config::advice::table as advice;
use kubelet_config::finding::Severity;
use kubelet_config::rules::{self, Rule, RuleStage};
use kubelet_config::table;

static TEXT: &str = include_str!("../../data/findings.csv");
static OWN: LazyLock<BTreeMap<String, (String, String)>> = LazyLock::new(|| {
    table::rows(TEXT)
        .filter_map(|cells| <[String; 3]>::try_from(cells).ok())
        .map(|[code, severity, says]| (code, (severity, says)))
        .collect()
});

/// What there is to say of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// One sentence.
    pub says: &'static str,
    /// Where that comes from; `None` for what only nodecfg asks for.
    pub source: Option<&'static str>,
    /// Whether it is a rule of the kubelet.
    pub is_rule: bool,
    /// The grade of its findings where nothing lowers it.
    pub severity: Severity,
}

/// The meaning of a code.
#[must_use]
pub fn lookup(code: &str) -> Option<Code> {
    if let Some(rule) = rules::lookup(code) {
        return Some(Code { says: &rule.says, source: Some(&rule.source), is_rule: true, severity: Severity::Error });
    }
    if let Some(advice) = advice::lookup(code) {
        let (says, source) = (&advice.says, Some(advice.source.as_str()));
        return Some(Code { says, source, is_rule: false, severity: advice.severity });
    }
    let (severity, says) = OWN.get(code)?;
    let severity = match severity.as_str() {
        "warning" => Severity::Warning,
        "note" => Severity::Note,
        _ => Severity::Error,
    };
    Some(Code { says, source: None, is_rule: false, severity })
}

/// Every code of a finding.
pub fn all() -> impl Iterator<Item = &'static str> {
    let rules = rules::all().map(|rule| rule.id.as_str());
    rules.chain(advice::all().map(|advice| advice.code.as_str())).chain(OWN.keys().map(String::as_str))
}

const HEAD: &str = "\
# Findings

Every finding has a code, which stays the same from version to version and is safe to match in scripts. This page is made
from [crates/kubelet-config/data/rules.csv](../crates/kubelet-config/data/rules.csv), [crates/kubelet-config/data/advice.csv](../crates/kubelet-config/data/advice.csv) and
[data/findings.csv](../data/findings.csv); a test holds that it is up to date.
";

/// The page of all codes.
#[must_use]
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for (stage, title, words) in [
        (RuleStage::Load, "The kubelet does not decode it", "It reads no further, and does not start."),
        (RuleStage::Gates, "The kubelet refuses the feature gates", "It does not look at the values."),
        (RuleStage::Validate, "The kubelet refuses the values", "It does not start."),
        (RuleStage::Startup, "The kubelet does not start on it", "It accepts the file and exits later."),
    ] {
        let _ = write!(
            page,
            "\n## {title}\n\n{words} Errors.\n\n| code | it asks for | kubelets | source |\n|---|---|---|---|\n"
        );
        for rule in rules::all().filter(|rule| rule.stage == stage) {
            let (says, source) = (prose(&rule.says), prose(&rule.source));
            let _ = writeln!(page, "| `{}` | {says} | {} | {source} |", rule.id, versions(rule));
        }
    }
    page.push_str(
        "\n## Advice\n\nWhat the kubelet takes without a word and its author may not have meant. Text and markdown, and \
         annotations in\nGitHub Actions, show notes with `-v` alone.\n\n| code | grade | what | source |\n|---|---|---|---|\n",
    );
    for advice in advice::all() {
        let (says, source) = (prose(&advice.says), prose(&advice.source));
        let _ = writeln!(page, "| `{}` | {} | {says} | {source} |", advice.code, advice.severity);
    }
    page.push_str(
        "\n## Files and repositories\n\nWhat nodecfg says of how a file is written, and of the repository. With `--lenient` \
         those marked with a star are\nwarnings.\n\n| code | grade | what |\n|---|---|---|\n",
    );
    for (code, (severity, says)) in OWN.iter() {
        let star = if kubelet_config::finding::LENIENT_CODES.contains(&code.as_str()) { "\\*" } else { "" };
        let _ = writeln!(page, "| `{code}` | {severity}{star} | {} |", prose(says));
    }
    page
}

fn versions(rule: &Rule) -> String {
    match (rule.since > kubelet_config::minor::OLDEST, rule.until < kubelet_config::minor::NEWEST) {
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
    fn the_table_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("code,severity,says"));
        assert_eq!(OWN.len(), TEXT.lines().count() - 1, "every line reads, and no code appears twice");
        assert!(TEXT.lines().skip(1).is_sorted());
        for (code, (severity, says)) in OWN.iter() {
            assert!(["error", "warning", "note"].contains(&severity.as_str()), "{code}");
            assert!(says.ends_with('.'), "{code}");
            assert!(rules::lookup(code).is_none() && advice::lookup(code).is_none(), "{code} is told elsewhere");
        }
        for code in LENIENT_CODES {
            assert_eq!(lookup(code).map(|code| code.severity), Some(Severity::Error), "{code}");
        }
    }
}
