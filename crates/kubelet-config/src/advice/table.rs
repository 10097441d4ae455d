//! The table of advice: code, severity, description and source of each kind of finding
//! (`crates/kubelet-config/data/advice.csv`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::finding::Severity;
use crate::table;

static TEXT: &str = include_str!("../../data/advice.csv");
static TABLE: LazyLock<BTreeMap<String, Advice>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(advice).map(|advice| (advice.code.clone(), advice)).collect());

/// One kind of finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The code of the findings.
    pub code: String,
    /// The severity.
    pub severity: Severity,
    /// The description, in one sentence.
    pub description: String,
    /// The source: Kubernetes documentation, a source file, a KEP or a benchmark.
    pub source: String,
}

/// Returns the advice with a code.
#[must_use]
pub fn lookup(code: &str) -> Option<&'static Advice> {
    TABLE.get(code)
}

/// Returns all advice, ordered by code.
pub fn all() -> impl Iterator<Item = &'static Advice> {
    TABLE.values()
}

fn advice(cells: Vec<String>) -> Option<Advice> {
    let [code, severity, description, source] = <[String; 4]>::try_from(cells).ok()?;
    Some(Advice { severity: table::word(&severity)?, code, description, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::rules;

    #[test]
    fn table_of_advice_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("code,severity,description,source"));
        assert_eq!(all().count(), TEXT.lines().count() - 1, "every line reads, and no code appears twice");
        let codes: Vec<_> = TEXT.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
        assert!(codes.is_sorted(), "sorted by code");
        for advice in all() {
            assert!(advice.description.ends_with('.') && !advice.source.is_empty(), "{}", advice.code);
            assert!(advice.code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert!(rules::lookup(&advice.code).is_none(), "{} is a rule of the kubelet", advice.code);
            // A plan reviews one size of a pool for all others, which is right as long as no advice refuses it.
            assert_ne!(advice.severity, Severity::Error, "{}", advice.code);
        }
    }
}
