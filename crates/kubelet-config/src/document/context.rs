//! The findings of one parse, and the places in its file.

use std::sync::Arc;

use go_yaml::{Scalar, Span};

use super::{Unread, ambiguity};
use crate::finding::{Finding, Place};

/// The maximum number of findings of one text. A text with more is probably not a configuration. The reason for a
/// missing document and the finding about nesting do not count.
pub(super) const MAX_FINDINGS: usize = 100;

/// The error that stops parsing. The findings of [`ParseContext`] have the reason.
pub(super) struct Stop;

/// The findings of one parse.
pub(super) struct ParseContext {
    pub(super) file: Arc<str>,
    pub(super) findings: Vec<Finding>,
    /// The reason for a missing document.
    pub(super) unread: Option<Unread>,
}

impl ParseContext {
    /// Adds a finding, up to the limit.
    pub(super) fn push(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }

    /// Adds the reason for a missing document, even beyond the limit on findings.
    pub(super) fn refuse(&mut self, finding: Finding, unread: Unread) {
        self.findings.push(finding);
        self.unread.get_or_insert(unread);
    }

    /// Adds the reason why the kubelet cannot read the text.
    pub(super) fn stop(&mut self, finding: Finding) {
        // The nesting of an unreadable text does not matter.
        self.findings.retain(|finding| finding.code != "too-deep");
        self.refuse(finding, Unread::Malformed);
    }

    /// Adds a finding for a value beyond the maximum nesting, once per text.
    pub(super) fn too_deep(&mut self, place: &Place) {
        if !self.findings.iter().any(|finding| finding.code == "too-deep") {
            self.findings.push(Finding::error("too-deep", super::too_deep()).at(place.clone()));
        }
    }

    /// Adds a finding for an ambiguous scalar.
    pub(super) fn check_scalar(&mut self, scalar: &Scalar, place: &Place) {
        if let Some((problem, fix)) = ambiguity::of(scalar) {
            self.push(Finding::error("ambiguous-scalar", problem).at(place.clone()).help(fix));
        }
    }

    /// Adds a finding for a key beyond the maximum length.
    pub(super) fn key_too_long(&mut self, place: &Place) {
        self.push(Finding::error("key-too-long", super::key_too_long()).at(place.clone()));
    }

    /// Adds a finding for a duplicate key.
    pub(super) fn duplicate(&mut self, name: &str, again: Place, first: Place) {
        let finding = Finding::error("duplicate-key", format!("the key {name:?} appears twice in one map"))
            .at(again)
            .label("duplicate")
            .related(first, "first occurrence")
            .help("remove one of them: readers disagree on which one applies");
        self.push(finding);
    }
}

/// Returns the place of a span in a file.
pub(super) fn place(span: Span, file: &Arc<str>) -> Place {
    let Span { offset, len, line, column } = span;
    Place { file: file.clone(), offset, len, line, column }
}
