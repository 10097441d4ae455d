//! Collects remarks version by version, and merges them into findings. Equal remarks for several versions become one
//! finding.

use std::collections::{BTreeMap, BTreeSet};

use super::table;
use crate::Minor;
use crate::finding::{self, Finding, Place};
use crate::verdict::{Config, Verdict};

/// The remarks so far.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    minor: Option<Minor>,
    /// Fields that the kubelet of this version refuses.
    refused: BTreeSet<String>,
    list: Vec<Finding>,
    /// Fields with a remark, by version.
    remarked: BTreeMap<Minor, BTreeSet<String>>,
    /// True if the last remark was added.
    added: bool,
}

impl Remarks {
    /// Sets the version of the following remarks.
    pub(super) fn set_version(&mut self, verdict: &Verdict) {
        self.minor = Some(verdict.minor);
        self.refused = verdict.reasons().map(|refusal| refusal.field.clone()).collect();
    }

    /// Adds a remark on a field of the table, at its value or the nearest place in the file.
    pub(super) fn field(
        &mut self,
        config: &Config<'_>,
        code: &str,
        path: &str,
        message: impl Into<String>,
    ) -> &mut Self {
        self.at(code, path, config.place(path), message)
    }

    /// Adds a remark on a value at a place. A field gets no remark if the kubelet refuses the field or one of its
    /// parents.
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
        self.added = !self_and_parents(&field).any(|outer| self.refused.contains(outer));
        if let Some(advice) = advice.filter(|_| self.added) {
            if let Some(minor) = self.minor {
                self.remarked.entry(minor).or_default().insert(field.clone());
            }
            let finding = Finding::new(advice.severity, &advice.code, message);
            self.list.push(finding.at(place).field(field).kubelets(self.minor));
        }
        self
    }

    /// Sets the fix of the last remark.
    pub(super) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        if let Some(last) = self.last() {
            last.help = Some(help.into());
        }
        self
    }

    /// Adds a related place to the last remark.
    pub(super) fn related(&mut self, place: Place, label: impl Into<String>) -> &mut Self {
        if let Some(last) = self.last() {
            last.related.push((place, label.into()));
        }
        self
    }

    /// Reports whether a field has a remark in a version.
    pub(super) fn has_remark(&self, field: &str, minor: Minor) -> bool {
        self.remarked.get(&minor).is_some_and(|fields| fields.contains(field))
    }

    /// Returns the findings with their versions, in the order of reports.
    pub(super) fn into_findings(self) -> Vec<Finding> {
        let mut findings = finding::merged(self.list);
        finding::sort(&mut findings);
        findings
    }

    fn last(&mut self) -> Option<&mut Finding> {
        if self.added { self.list.last_mut() } else { None }
    }
}

/// Returns a field and its parents: `a`, `a[0]` and `a[0].b` for `a[0].b`.
fn self_and_parents(field: &str) -> impl Iterator<Item = &str> {
    let ends = field.char_indices().filter(|(at, c)| *at > 0 && matches!(c, '.' | '[')).map(|(at, _)| at);
    ends.chain([field.len()]).filter_map(|end| field.get(..end)).filter(|outer| !outer.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_field_and_parents() {
        let all = |field| self_and_parents(field).collect::<Vec<_>>();
        assert_eq!(all("podCIDR"), ["podCIDR"]);
        assert_eq!(all("a[0].b"), ["a", "a[0]", "a[0].b"]);
        assert!(all("").is_empty());
    }
}
