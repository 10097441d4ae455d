//! Collects remarks, version by version, and makes findings of them: the same remark for several versions is one.

use std::collections::{BTreeMap, BTreeSet};

use super::table;
use crate::Minor;
use crate::finding::{self, Finding, Place, Severity};
use crate::verdict::{Config, Verdict};

/// What has been remarked so far.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    minor: Option<Minor>,
    /// Fields that the kubelet of this version refuses.
    refused: BTreeSet<String>,
    list: Vec<Finding>,
    /// The fields that something was said about, by version.
    mentioned: BTreeMap<Minor, BTreeSet<String>>,
    /// Whether the last remark was taken.
    taken: bool,
}

impl Remarks {
    /// Remarks from now on are about kubelets of this verdict's version.
    pub(super) fn turn_to(&mut self, verdict: &Verdict) {
        self.minor = Some(verdict.minor);
        self.refused = verdict.reasons().map(|refusal| refusal.field.clone()).collect();
    }

    /// Remarks on a field of the table; the place is the value's, or the closest that the file has.
    pub(super) fn field(
        &mut self,
        config: &Config<'_>,
        code: &str,
        path: &str,
        message: impl Into<String>,
    ) -> &mut Self {
        self.at(code, path, config.place(path), message)
    }

    /// Remarks on a value inside a list or a map. Nothing is said about a field that the kubelet refuses anyway.
    pub(super) fn at(
        &mut self,
        code: &str,
        field: impl Into<String>,
        place: Place,
        message: impl Into<String>,
    ) -> &mut Self {
        let field = field.into();
        let advice = table::lookup(code);
        debug_assert!(advice.is_some(), "{code} is in the table");
        self.taken = !around(&field).any(|outer| self.refused.contains(outer));
        if let Some(advice) = advice.filter(|_| self.taken) {
            let new = match advice.severity {
                Severity::Error => Finding::error,
                Severity::Warning => Finding::warning,
                Severity::Note => Finding::note,
            };
            if let Some(minor) = self.minor {
                self.mentioned.entry(minor).or_default().insert(field.clone());
            }
            self.list.push(new(&advice.code, message).at(place).field(field).kubelets(self.minor));
        }
        self
    }

    /// Says the way out of the last remark.
    pub(super) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        if let Some(last) = self.last() {
            last.help = Some(help.into());
        }
        self
    }

    /// Points the last remark at another value that belongs to it.
    pub(super) fn related(&mut self, place: Place, words: impl Into<String>) -> &mut Self {
        if let Some(last) = self.last() {
            last.related.push((place, words.into()));
        }
        self
    }

    /// Whether something has been said about a field in a version.
    pub(super) fn mention(&self, field: &str, minor: Minor) -> bool {
        self.mentioned.get(&minor).is_some_and(|fields| fields.contains(field))
    }

    /// The findings, each with its versions, in the order of reports.
    pub(super) fn into_findings(self) -> Vec<Finding> {
        let mut findings = finding::merged(self.list);
        finding::sort(&mut findings);
        findings
    }

    fn last(&mut self) -> Option<&mut Finding> {
        if self.taken { self.list.last_mut() } else { None }
    }
}

/// A field and everything around it: `a`, `a[0]` and `a[0].b` of `a[0].b`.
fn around(field: &str) -> impl Iterator<Item = &str> {
    let ends = field.char_indices().filter(|(at, c)| *at > 0 && matches!(c, '.' | '[')).map(|(at, _)| at);
    ends.chain([field.len()]).filter_map(|end| field.get(..end)).filter(|outer| !outer.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_around_a_field() {
        let all = |field| around(field).collect::<Vec<_>>();
        assert_eq!(all("podCIDR"), ["podCIDR"]);
        assert_eq!(all("a[0].b"), ["a", "a[0]", "a[0].b"]);
        assert!(all("").is_empty());
    }
}
