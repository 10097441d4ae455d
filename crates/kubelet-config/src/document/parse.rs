//! Reads a text into the tree that the kubelet ends up with: JSON when the text starts with `{`, YAML otherwise, as the
//! kubelet's decoder tells them apart (apimachinery `yaml.IsJSONBuffer`). What is doubtful about the text becomes a
//! finding at its place; the tree is built all the same. Everything is counted, so that no text takes more than its
//! share of time and memory.

use std::sync::Arc;

use super::{Document, MAX_BYTES, MAX_NODES, MAX_TEXT, Node, Parsed, Syntax, Unread, json, tree};
use crate::finding::{Finding, Place};

/// The most findings of one text. A text with more of them is not what it was taken for.
const MAX_FINDINGS: usize = 100;

pub(super) fn parse(file: &str, text: &str) -> Parsed {
    let file: Arc<str> = file.into();
    let mut ledger = Ledger { file: file.clone(), findings: Vec::new(), unread: None, nodes: 0, bytes: 0 };
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; nodecfg reads up to {MAX_BYTES}", text.len());
        ledger.refuse(Finding::error("file-too-large", message).at(Place::whole_file(file)), Unread::Bounds);
        return Parsed { document: None, findings: ledger.findings, unread: ledger.unread };
    }
    let syntax = if text.trim_start().starts_with('{') { Syntax::Json } else { Syntax::Yaml };
    let root = match syntax {
        Syntax::Json => json::read(text, &mut ledger),
        Syntax::Yaml => tree::read(text, &mut ledger),
    };
    if root.is_err() && ledger.unread.is_none() {
        ledger.unread = Some(Unread::Malformed);
    }
    let document = root.ok().filter(|_| ledger.unread.is_none()).map(|root| Document { root, syntax });
    Parsed { document, findings: ledger.findings, unread: ledger.unread }
}

/// Reading has stopped; the finding that says why has been recorded.
pub(super) struct Stop;

/// What was found, and what was spent.
pub(super) struct Ledger {
    pub(super) file: Arc<str>,
    pub(super) findings: Vec<Finding>,
    /// Why there will be no document.
    unread: Option<Unread>,
    /// Values so far, aliases written out.
    pub(super) nodes: usize,
    /// Bytes of text so far, aliases written out.
    pub(super) bytes: usize,
}

impl Ledger {
    /// Counts values and bytes of text.
    pub(super) fn charge(&mut self, nodes: usize, bytes: usize, place: &Place) -> Result<(), Stop> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.nodes > MAX_NODES {
            let finding = Finding::error("too-many-values", super::too_many()).at(place.clone());
            self.refuse(finding, Unread::Bounds);
            return Err(Stop);
        }
        if self.bytes > MAX_TEXT {
            let message = format!("the document has more than {MAX_TEXT} bytes of text once aliases are written out");
            self.refuse(Finding::error("too-much-text", message).at(place.clone()), Unread::Bounds);
            return Err(Stop);
        }
        Ok(())
    }

    /// Records a doubt.
    pub(super) fn push(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }

    /// Records why there will be no document, past any bound on findings.
    pub(super) fn refuse(&mut self, finding: Finding, unread: Unread) {
        self.findings.push(finding);
        self.unread.get_or_insert(unread);
    }

    /// Records why the kubelet does not read the text, and stops.
    pub(super) fn stop<T>(&mut self, finding: Finding) -> Result<T, Stop> {
        // What is not even read has no depth.
        self.findings.retain(|finding| finding.code != "too-deep");
        self.refuse(finding, Unread::Malformed);
        Err(Stop)
    }

    /// Records a value nested deeper than is kept, once.
    pub(super) fn too_deep(&mut self, place: &Place) {
        if !self.findings.iter().any(|finding| finding.code == "too-deep") {
            self.findings.push(Finding::error("too-deep", super::too_deep()).at(place.clone()));
        }
    }

    /// Records a scalar that readers take for different things.
    pub(super) fn check_scalar(&mut self, node: &Node) {
        if let super::Value::Scalar(scalar) = &node.value
            && let Some(ambiguity) = scalar.ambiguity()
        {
            let finding =
                Finding::error("ambiguous-scalar", ambiguity.problem).at(node.place.clone()).help(ambiguity.way_out);
            // An alias brings the same scalar in again.
            if !self.findings.contains(&finding) {
                self.push(finding);
            }
        }
    }

    /// The finding for a key that its map already has.
    pub(super) fn duplicate(&mut self, name: &str, again: Place, first: Place) {
        let finding = Finding::error("duplicate-key", format!("the key {name:?} appears twice in one map"))
            .at(again)
            .label("again here")
            .related(first, "first here")
            .help("keep one of them: readers disagree on which one counts");
        self.push(finding);
    }
}

#[cfg(test)]
mod tests;
