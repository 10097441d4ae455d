//! Findings about files, with severity, place and fix.
//!
//! A finding is data, not an error return: checks continue after it, so that a report shows all findings. Reports
//! format findings; this module does not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Minor;

mod spelling;

pub use spelling::{Proposals, nearest};

/// The severity of a finding. Only errors stop a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The repository cannot be used.
    Error,
    /// The repository is usable, but this is probably a mistake.
    Warning,
    /// Useful information.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// A range in one file of the snapshot. Lines and columns count from 1, columns in characters. `offset` and `len`
/// count bytes of the text after normalization: no byte order mark, and `\n` as line end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
pub struct Place {
    /// Path from the snapshot's root, with `/` on every platform.
    #[serde(serialize_with = "shared_text")]
    #[schemars(with = "String")]
    pub file: Arc<str>,
    /// First byte.
    #[serde(skip)]
    pub offset: usize,
    /// Length in bytes; 0 means a position between two characters.
    #[serde(skip)]
    pub len: usize,
    /// Line of the first byte.
    pub line: usize,
    /// Column of the first byte.
    pub column: usize,
}

/// Writes shared text as a string. serde's own feature for this would require a rebuild of all dependencies.
fn shared_text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// A place related to a finding.
#[derive(Serialize, schemars::JsonSchema)]
struct Related<'a> {
    /// The place.
    place: &'a Place,
    /// A short label for the place.
    label: &'a str,
}

/// Writes each related place as `{place, label}`.
fn related<S: serde::Serializer>(related: &[(Place, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(related.iter().map(|(place, label)| Related { place, label }))
}

impl Place {
    /// Returns the start of a file, for findings about the whole file.
    #[must_use]
    pub fn whole_file(file: impl Into<Arc<str>>) -> Self {
        Self { file: file.into(), offset: 0, len: 0, line: 1, column: 1 }
    }
}

impl fmt::Display for Place {
    /// Writes `file:line:column`, which editors and terminals turn into a link.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A problem or a note about the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// Stable identifier in kebab case, such as `unknown-field`; documented, and safe to match in scripts.
    pub code: &'static str,
    /// One sentence that names the object and the offending value.
    pub message: String,
    /// Path of the field in the file, such as `registerWithTaints[0].key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The affected kubelet versions. Empty: all versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubelets: Vec<Minor>,
    /// The place in the file, if the finding concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// A short label for the place. Empty: no label beyond the message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Related places, each with a short label, such as the first of two duplicates.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "related")]
    #[schemars(with = "Vec<Related<'static>>")]
    pub related: Vec<(Place, String)>,
    /// The fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Finding {
    /// Creates an error without a place.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// Creates a warning without a place.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// Creates a note without a place.
    #[must_use]
    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, message)
    }

    pub(crate) fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            field: None,
            kubelets: Vec::new(),
            place: None,
            label: String::new(),
            related: Vec::new(),
            help: None,
        }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Sets the field.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.field = Some(path.into());
        self
    }

    /// Sets the affected kubelet versions.
    #[must_use]
    pub fn kubelets(mut self, minors: impl IntoIterator<Item = Minor>) -> Self {
        self.kubelets = minors.into_iter().collect();
        self
    }

    /// Sets the label of the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a related place.
    #[must_use]
    pub fn related(mut self, place: Place, label: impl Into<String>) -> Self {
        self.related.push((place, label.into()));
        self
    }

    /// Sets the fix.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Codes of findings about values that the kubelet accepts: it drops the value, or reads a value that the author may
/// not have meant. `--lenient` turns these errors into warnings. The verdict still refuses types and numbers that the
/// kubelet refuses.
pub const LENIENT_CODES: [&str; 9] = [
    "ambiguous-merge-key",
    "ambiguous-scalar",
    "bad-value",
    "duplicate-key",
    "field-not-in-version",
    "key-not-text",
    "second-document",
    "unknown-field",
    "wrong-type",
];

/// The strictness of checks beyond those of the kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strictness {
    /// Findings of [`LENIENT_CODES`] are errors.
    #[default]
    Strict,
    /// Findings of [`LENIENT_CODES`] are warnings.
    Lenient,
}

impl Strictness {
    /// Lowers errors of [`LENIENT_CODES`] to warnings if lenient. Apply it only to findings about a
    /// KubeletConfiguration: no other program reads the remaining files.
    pub fn apply(self, findings: &mut [Finding]) {
        if self == Self::Strict {
            return;
        }
        for finding in findings.iter_mut().filter(|finding| LENIENT_CODES.contains(&finding.code)) {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
}

/// Merges findings with the same code, severity, field, place and message, and unites their kubelet versions. The
/// label, related places and fix of the first one remain.
#[must_use]
pub fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut index: BTreeMap<Key, usize> = BTreeMap::new();
    let mut merged: Vec<Finding> = Vec::with_capacity(findings.len());
    for mut finding in findings {
        let kubelets = std::mem::take(&mut finding.kubelets);
        let key: Key =
            (finding.code, finding.severity, finding.field.clone(), finding.place.clone(), finding.message.clone());
        match index.get(&key).and_then(|at| merged.get_mut(*at)) {
            Some(first) => {
                // A finding for all versions needs no list.
                if first.kubelets.is_empty() || kubelets.is_empty() {
                    first.kubelets.clear();
                } else {
                    first.kubelets.extend(kubelets);
                    first.kubelets.sort_unstable();
                    first.kubelets.dedup();
                }
            }
            None => {
                index.insert(key, merged.len());
                finding.kubelets = kubelets;
                merged.push(finding);
            }
        }
    }
    merged
}

/// The number of findings that are listed for one file. Readers need no more, and each costs time in every report.
pub const MAX_PER_FILE: usize = 100;
/// The code of the finding that counts those left out.
const LEFT_OUT: &str = "findings-left-out";

/// Keeps the [`MAX_PER_FILE`] most severe findings of each file, in their order. One finding counts the others, with the
/// severity of the worst of them. Findings without a place remain.
#[must_use]
pub fn limited(findings: Vec<Finding>) -> Vec<Finding> {
    let mut by_file: BTreeMap<Arc<str>, Vec<(Severity, usize)>> = BTreeMap::new();
    for (index, finding) in findings.iter().enumerate().filter(|(_, finding)| finding.code != LEFT_OUT) {
        if let Some(place) = &finding.place {
            by_file.entry(Arc::clone(&place.file)).or_default().push((finding.severity, index));
        }
    }
    let mut dropped = vec![false; findings.len()];
    let mut counts = Vec::new();
    for (file, mut of_file) in by_file {
        of_file.sort_unstable();
        let others = of_file.get(MAX_PER_FILE..).unwrap_or_default();
        let Some((severity, _)) = others.first() else { continue };
        for (_, index) in others {
            if let Some(dropped) = dropped.get_mut(*index) {
                *dropped = true;
            }
        }
        let message = format!("{} further findings about {file} are not listed", others.len());
        let help = format!("fix the {MAX_PER_FILE} listed ones first");
        counts.push(Finding::new(*severity, LEFT_OUT, message).at(Place::whole_file(file)).help(help));
    }
    let kept = findings.into_iter().zip(dropped).filter(|(_, dropped)| !dropped).map(|(finding, _)| finding);
    kept.chain(counts).collect()
}

/// The properties that two findings share when they are merged.
type Key = (&'static str, Severity, Option<String>, Option<Place>, String);

/// Sorts findings for reports: by file, position, severity, code and message. Findings without a place come first.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let key = |f: &Finding| f.place.as_ref().map(|p| (p.file.clone(), p.offset));
        key(a).cmp(&key(b)).then(a.severity.cmp(&b.severity)).then(a.code.cmp(b.code)).then(a.message.cmp(&b.message))
    });
}

/// Reports whether any finding is an error.
#[must_use]
pub fn any_error(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenient_lowers_only_listed_codes() {
        let mut findings = vec![
            Finding::error("unknown-field", "a"),
            Finding::note("unknown-field", "b"),
            Finding::error("max-pods", "c"),
        ];
        Strictness::Strict.apply(&mut findings);
        assert!(any_error(&findings[..1]));
        Strictness::Lenient.apply(&mut findings);
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Warning, Severity::Note, Severity::Error]);
        assert!(LENIENT_CODES.is_sorted());
    }

    #[test]
    fn merges_findings_that_differ_only_in_versions() {
        let at = |line| Place { line, ..Place::whole_file("a") };
        let finding = |minor| Finding::error("max-pods", "x").at(at(1)).kubelets([Minor(minor)]);
        let other = finding(36).at(at(2));
        let merged = merged(vec![finding(36), other.clone(), finding(21), finding(36)]);
        assert_eq!(merged, [finding(0).kubelets([Minor(21), Minor(36)]), other]);
    }

    #[test]
    fn lists_the_most_severe_findings_and_counts_the_others() {
        let at = |offset| Place { offset, ..Place::whole_file("a") };
        let warnings = (0..3 * MAX_PER_FILE).map(|offset| Finding::warning("w", "w").at(at(offset)));
        let errors = (0..5).map(|offset| Finding::error("e", "e").at(at(1000 + offset)));
        let elsewhere = [Finding::note("n", "n"), Finding::note("n", "n").at(Place::whole_file("b"))];
        let all: Vec<Finding> = warnings.chain(errors).chain(elsewhere.clone()).collect();
        let kept = limited(all);
        let number = |code| kept.iter().filter(|finding| finding.code == code).count();
        assert_eq!((number("w"), number("e"), number("n"), number(LEFT_OUT)), (MAX_PER_FILE - 5, 5, 2, 1));
        let last = kept.last().unwrap();
        assert_eq!(last.severity, Severity::Warning, "no error is left out");
        assert_eq!(last.message, "205 further findings about a are not listed");
        assert_eq!(limited(kept.clone()), kept, "a second pass changes nothing");
        assert_eq!(limited(elsewhere.to_vec()), elsewhere);
        // An error that is left out stays an error.
        let errors = (0..=MAX_PER_FILE).map(|offset| Finding::error("e", "e").at(at(offset))).collect();
        assert_eq!(limited(errors).last().map(|finding| finding.severity), Some(Severity::Error));
    }
}
