//! Parsing of a text into the tree that the kubelet reads. As in the kubelet's decoder, a text whose first nonblank
//! character is `{` is JSON, and any other is YAML (apimachinery `yaml.IsJSONBuffer`).
//!
//! A doubtful text still yields a tree, with a finding at the place of the doubt.

use std::sync::Arc;

use super::{Document, MAX_BYTES, Parsed, Scalar, Syntax, Unread, ambiguity, json, yaml};
use crate::finding::{Finding, Place};

/// The maximum number of findings of one text. A text with more is probably not a configuration. The reason for a
/// missing document and the finding about nesting do not count.
const MAX_FINDINGS: usize = 100;

pub(super) fn parse(file: &str, text: &str) -> Parsed {
    let file: Arc<str> = file.into();
    let mut context = ParseContext { file: file.clone(), findings: Vec::new(), unread: None };
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; the limit is {MAX_BYTES}", text.len());
        context.refuse(Finding::error("file-too-large", message).at(Place::whole_file(file)), Unread::Bounds);
        return Parsed { document: None, findings: context.findings, unread: context.unread };
    }
    let syntax = if text.trim_start().starts_with('{') { Syntax::Json } else { Syntax::Yaml };
    let root = match syntax {
        Syntax::Json => json::read(text, &mut context),
        Syntax::Yaml => yaml::read(text, &mut context),
    };
    if root.is_err() && context.unread.is_none() {
        context.unread = Some(Unread::Malformed);
    }
    let document = root.ok().filter(|_| context.unread.is_none()).map(|root| Document { root, syntax });
    Parsed { document, findings: context.findings, unread: context.unread }
}

/// The error that stops parsing. The findings of [`ParseContext`] have the reason.
pub(super) struct Stop;

/// The findings of one parse.
pub(super) struct ParseContext {
    pub(super) file: Arc<str>,
    pub(super) findings: Vec<Finding>,
    /// The reason for a missing document.
    unread: Option<Unread>,
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

#[cfg(test)]
mod tests;
