//! Parsing of a text into the tree that the kubelet reads. As in the kubelet's decoder, a text whose first nonblank
//! character is `{` is JSON, and any other is YAML (apimachinery `yaml.IsJSONBuffer`).
//!
//! A doubtful text still yields a tree, with a finding at the place of the doubt. All values and bytes are counted,
//! which limits time and memory.

use std::sync::Arc;

use super::{Document, MAX_BYTES, MAX_NODES, MAX_TEXT, Node, Parsed, Syntax, Unread, json, tree};
use crate::finding::{Finding, Place};

/// The maximum number of findings of one text. A text with more is probably not a configuration. The reason for a
/// missing document and the finding about nesting do not count.
const MAX_FINDINGS: usize = 100;

pub(super) fn parse(file: &str, text: &str) -> Parsed {
    let file: Arc<str> = file.into();
    let mut context = ParseContext { file: file.clone(), findings: Vec::new(), unread: None, nodes: 0, bytes: 0 };
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; the limit is {MAX_BYTES}", text.len());
        context.refuse(Finding::error("file-too-large", message).at(Place::whole_file(file)), Unread::Bounds);
        return Parsed { document: None, findings: context.findings, unread: context.unread };
    }
    let syntax = if text.trim_start().starts_with('{') { Syntax::Json } else { Syntax::Yaml };
    let root = match syntax {
        Syntax::Json => json::read(text, &mut context),
        Syntax::Yaml => tree::read(text, &mut context),
    };
    if root.is_err() && context.unread.is_none() {
        context.unread = Some(Unread::Malformed);
    }
    let document = root.ok().filter(|_| context.unread.is_none()).map(|root| Document { root, syntax });
    Parsed { document, findings: context.findings, unread: context.unread }
}

/// The error that stops parsing. The findings of [`ParseContext`] have the reason.
pub(super) struct Stop;

/// The findings and counters of one parse.
pub(super) struct ParseContext {
    pub(super) file: Arc<str>,
    pub(super) findings: Vec<Finding>,
    /// The reason for a missing document.
    unread: Option<Unread>,
    /// Values so far, with aliases expanded.
    pub(super) nodes: usize,
    /// Bytes of text so far, with aliases expanded.
    pub(super) bytes: usize,
}

impl ParseContext {
    /// Counts values and bytes of text, and stops at the limits.
    pub(super) fn charge(&mut self, nodes: usize, bytes: usize, place: &Place) -> Result<(), Stop> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.nodes > MAX_NODES {
            let finding = Finding::error("too-many-values", super::too_many()).at(place.clone());
            self.refuse(finding, Unread::Bounds);
            return Err(Stop);
        }
        if self.bytes > MAX_TEXT {
            let message = format!("the document has more than {MAX_TEXT} bytes of text after aliases are expanded");
            self.refuse(Finding::error("too-much-text", message).at(place.clone()), Unread::Bounds);
            return Err(Stop);
        }
        Ok(())
    }

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

    /// Adds the reason why the kubelet cannot read the text, and stops parsing.
    pub(super) fn stop<T>(&mut self, finding: Finding) -> Result<T, Stop> {
        // The nesting of an unreadable text does not matter.
        self.findings.retain(|finding| finding.code != "too-deep");
        self.refuse(finding, Unread::Malformed);
        Err(Stop)
    }

    /// Adds a finding for a value beyond the maximum nesting, once per text.
    pub(super) fn too_deep(&mut self, place: &Place) {
        if !self.findings.iter().any(|finding| finding.code == "too-deep") {
            self.findings.push(Finding::error("too-deep", super::too_deep()).at(place.clone()));
        }
    }

    /// Adds a finding for an ambiguous scalar.
    pub(super) fn check_scalar(&mut self, node: &Node) {
        if let super::Value::Scalar(scalar) = &node.value
            && let Some(ambiguity) = scalar.ambiguity()
        {
            let finding =
                Finding::error("ambiguous-scalar", ambiguity.problem).at(node.place.clone()).help(ambiguity.fix);
            // An alias repeats the same scalar.
            if !self.findings.contains(&finding) {
                self.push(finding);
            }
        }
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
