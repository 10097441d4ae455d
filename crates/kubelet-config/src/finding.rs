//! A finding about a file, graded, placed, and with the way out.
//!
//! Findings are collected, never thrown: every stage that reads the repository goes on after one, so that a report
//! shows all of them. How they look is the report's business; nothing here writes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::Minor;

/// How serious a finding is. Only errors stop a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The repository cannot be used as it is.
    Error,
    /// It can be used, and probably does not mean what its author meant.
    Warning,
    /// Worth knowing.
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

/// A stretch of one file of the snapshot. Lines and columns count from 1, columns in characters; `offset` and `len`
/// count bytes of the text as it was read (after a byte order mark and with line ends as `\n`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
pub struct Place {
    /// Path from the snapshot's root, with `/` on every platform.
    #[serde(serialize_with = "shared_text")]
    #[schemars(with = "String")]
    pub file: Arc<str>,
    /// First byte.
    #[serde(skip)]
    pub offset: usize,
    /// Length in bytes; 0 points between two characters.
    #[serde(skip)]
    pub len: usize,
    /// Line of the first byte.
    pub line: usize,
    /// Column of the first byte.
    pub column: usize,
}

/// Writes shared text as text: serde does so itself only with a feature that the whole tree would be built anew for.
fn shared_text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// A place that belongs to a finding.
#[derive(Serialize, schemars::JsonSchema)]
struct Related<'a> {
    /// The place.
    place: &'a Place,
    /// What is there, in a few words.
    label: &'a str,
}

/// Writes each related place as `{place, label}`, in the words that the finding itself uses.
fn related<S: serde::Serializer>(related: &[(Place, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(related.iter().map(|(place, label)| Related { place, label }))
}

impl Place {
    /// The beginning of a file, for what concerns the whole of it.
    #[must_use]
    pub fn whole_file(file: impl Into<Arc<str>>) -> Self {
        Self { file: file.into(), offset: 0, len: 0, line: 1, column: 1 }
    }
}

impl fmt::Display for Place {
    /// `file:line:column`, as editors and terminals link it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One thing that is wrong or worth knowing about the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// Stable identifier in kebab case, such as `unknown-field`; documented, and safe to match in scripts.
    pub code: &'static str,
    /// One sentence that names the object and the offending value.
    pub message: String,
    /// The field that it is about, as a path in the file such as `registerWithTaints[0].key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The kubelet versions that it holds for. Empty: whatever the version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubelets: Vec<Minor>,
    /// Where it is, when it is in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What to say at the place itself, in a few words. Empty: nothing more than the message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Other places that belong to it, each with a few words: the first of two duplicates, say.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "related")]
    #[schemars(with = "Vec<Related<'static>>")]
    pub related: Vec<(Place, String)>,
    /// The way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Finding {
    /// An error at no place yet.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// A warning at no place yet.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// A note at no place yet.
    #[must_use]
    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, message)
    }

    fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
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

    /// Puts the finding at a place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Names the field that it is about.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.field = Some(path.into());
        self
    }

    /// Says for which kubelet versions it holds.
    #[must_use]
    pub fn kubelets(mut self, minors: impl IntoIterator<Item = Minor>) -> Self {
        self.kubelets = minors.into_iter().collect();
        self
    }

    /// Says a few words at the place itself.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Points at another place that belongs to it.
    #[must_use]
    pub fn related(mut self, place: Place, words: impl Into<String>) -> Self {
        self.related.push((place, words.into()));
        self
    }

    /// Says the way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// What is refused although the kubelet goes on, without a word or with one in its log: it drops the value, or reads
/// it in a way that its author may not have meant. With `--lenient` these are warnings. A type or a number that the kubelet
/// does not take either is refused by its verdict all the same.
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

/// How strict checks are beyond the kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strictness {
    /// Findings of [`LENIENT_CODES`] are errors.
    #[default]
    Strict,
    /// They are warnings.
    Lenient,
}

impl Strictness {
    /// Lowers errors to warnings where the gate says so. Only for what is said of a KubeletConfiguration: nodecfg's own
    /// files have no other reader that would go on.
    pub fn apply(self, findings: &mut [Finding]) {
        if self == Self::Strict {
            return;
        }
        for finding in findings.iter_mut().filter(|finding| LENIENT_CODES.contains(&finding.code)) {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
}

/// Makes one finding of those that differ in nothing but the kubelet versions, and leaves out what is there already.
#[must_use]
pub fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut index: BTreeMap<Key, usize> = BTreeMap::new();
    let mut merged: Vec<Finding> = Vec::with_capacity(findings.len());
    for mut finding in findings {
        let kubelets = std::mem::take(&mut finding.kubelets);
        let key = Key::of(&finding);
        match index.get(&key).and_then(|at| merged.get_mut(*at)) {
            Some(first) => {
                // One that holds whatever the version needs no list.
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

/// What makes two findings one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    code: &'static str,
    severity: Severity,
    field: Option<String>,
    place: Option<Place>,
    message: String,
}

impl Key {
    fn of(finding: &Finding) -> Self {
        Self {
            code: finding.code,
            severity: finding.severity,
            field: finding.field.clone(),
            place: finding.place.clone(),
            message: finding.message.clone(),
        }
    }
}

/// Orders findings as reports show them: by file, position, then severity and code; those without a place come first.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let key = |f: &Finding| f.place.as_ref().map(|p| (p.file.clone(), p.offset));
        key(a).cmp(&key(b)).then(a.severity.cmp(&b.severity)).then(a.code.cmp(b.code)).then(a.message.cmp(&b.message))
    });
}

/// Whether any finding is an error.
#[must_use]
pub fn any_error(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lenient_gate_lowers_only_its_own_codes_and_raises_none() {
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
    fn findings_that_differ_in_versions_alone_are_one() {
        let at = |line| Place { line, ..Place::whole_file("a") };
        let said = |minor| Finding::error("max-pods", "x").at(at(1)).kubelets([Minor(minor)]);
        let other = said(36).at(at(2));
        let merged = merged(vec![said(36), other.clone(), said(21), said(36)]);
        assert_eq!(merged, [said(0).kubelets([Minor(21), Minor(36)]), other]);
    }
}
