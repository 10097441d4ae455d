//! The table of what is said beyond the kubelet: codes with their grade, what they say in general, and the source of
//! it (`crates/kubelet-config/data/advice.csv`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::finding::Severity;
use crate::table;

static TEXT: &str = include_str!("../../data/advice.csv");
static TABLE: LazyLock<BTreeMap<String, Advice>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(advice).map(|advice| (advice.code.clone(), advice)).collect());

/// One kind of remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The code of its findings.
    pub code: String,
    /// How serious it is.
    pub severity: Severity,
    /// What it says, in one sentence.
    pub says: String,
    /// Where that comes from: Kubernetes documentation, a file of its sources, a KEP, a benchmark.
    pub source: String,
}

/// The kind of remark with this code.
#[must_use]
pub fn lookup(code: &str) -> Option<&'static Advice> {
    TABLE.get(code)
}

/// Every kind of remark, by code.
pub fn all() -> impl Iterator<Item = &'static Advice> {
    TABLE.values()
}

fn advice(cells: Vec<String>) -> Option<Advice> {
    let [code, severity, says, source] = <[String; 4]>::try_from(cells).ok()?;
    let severity = match severity.as_str() {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        "note" => Severity::Note,
        _ => return None,
    };
    Some(Advice { code, severity, says, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    #[test]
    fn the_table_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("code,severity,says,source"));
        assert_eq!(all().count(), TEXT.lines().count() - 1, "every line reads, and no code appears twice");
        let codes: Vec<_> = TEXT.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
        assert!(codes.is_sorted(), "sorted by code");
        for advice in all() {
            assert!(advice.says.ends_with('.') && !advice.source.is_empty(), "{}", advice.code);
            assert!(advice.code.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert!(rules::lookup(&advice.code).is_none(), "{} is a rule of the kubelet", advice.code);
        }
    }
}
