//! Check of one configuration: verdicts of the kubelets, findings of nodecfg, redaction of secrets in findings, and
//! removal of repeated findings. Used for single files, for rendered pools and by planning.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use kubelet_config::document::Document;
use kubelet_config::fields::secrets;
use kubelet_config::finding::{Finding, MAX_PER_FILE, Place, Strictness, limited, merged, sort};
use kubelet_config::verdict::rules::{self, RuleStage};
use kubelet_config::verdict::{Stage, Verdict, assess, dropped_fields, findings};
use kubelet_config::{Minor, advice};

/// Codes of findings of nodecfg that a decoding error of the kubelet replaces if it concerns the same position or
/// field.
const SUPERSEDED_CODES: [&str; 6] =
    ["ambiguous-scalar", "bad-value", "missing-field", "wrong-api-version", "wrong-kind", "wrong-type"];

/// Kubelet versions and strictness of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checks {
    /// Severity of the findings that only nodecfg reports: strict or lenient.
    pub gate: Strictness,
    /// Kubelet versions.
    pub kubelets: Kubelets,
}

/// Kubelet versions of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Kubelets {
    /// None: planning later checks the versions that the nodes report.
    #[default]
    OfNodes,
    /// The versions that a pool declares (`spec.kubernetesVersion`). A pool without a declaration is checked for the
    /// versions listed here.
    Declared(Vec<Minor>),
    /// These versions, whether or not a pool declares others.
    Given(Vec<Minor>),
}

impl Kubelets {
    /// Versions to check for a pool that declares the versions `declared`.
    #[must_use]
    pub fn among<'a>(&'a self, declared: &'a [Minor]) -> &'a [Minor] {
        match self {
            Self::OfNodes => &[],
            Self::Given(minors) => minors,
            Self::Declared(otherwise) if declared.is_empty() => otherwise,
            Self::Declared(_) => declared,
        }
    }
}

/// Result of checking one configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    /// Verdicts by version. Empty if no version was requested, or if nodecfg cannot read a document that a kubelet
    /// may read.
    pub verdicts: Vec<Verdict>,
    /// All findings, in order.
    pub findings: Vec<Finding>,
}

/// Checks a document: [what kubelets do](judge_document) with it, and advice.
#[must_use]
pub fn check_document(document: &Document, minors: &[Minor]) -> Checked {
    let mut checked = judge_document(document, minors);
    checked.findings.extend(advice::review(document, &checked.verdicts));
    checked
}

/// Verdicts of the kubelets on a document and their findings, and fields that some of the versions drop.
#[must_use]
pub fn judge_document(document: &Document, minors: &[Minor]) -> Checked {
    let verdicts: Vec<Verdict> = minors.iter().map(|minor| assess(document, *minor)).collect();
    let mut findings = findings(&verdicts);
    findings.extend(dropped_fields(document, minors));
    Checked { verdicts, findings }
}

/// Removes quoted values that may be secrets from findings: those of secret fields, and those on lines with a secret.
/// `text_of` returns the text of a file.
pub(super) fn redact<'t>(findings: &mut [Finding], text_of: impl Fn(&str) -> Option<&'t str>) {
    let mut lines: BTreeMap<Arc<str>, Vec<RangeInclusive<usize>>> = BTreeMap::new();
    for finding in findings {
        let text = finding.place.as_ref().and_then(|place| text_of(&place.file));
        let on_secret_line = |place: &Place| {
            let lines =
                lines.entry(Arc::clone(&place.file)).or_insert_with(|| text.map(secrets::lines).unwrap_or_default());
            lines.iter().any(|lines| lines.contains(&place.line))
        };
        let secret_field = finding.field.as_deref().is_some_and(secrets::is_secret);
        if !finding.place.as_ref().is_some_and(on_secret_line) && !secret_field {
            continue;
        }
        if finding.code == "ambiguous-scalar" {
            // This message quotes the value in the interpretation of each reader.
            "the kubelet and readers of YAML 1.2 interpret a value without quotes differently"
                .clone_into(&mut finding.message);
            finding.label = String::new();
            finding.help = Some("quote it".to_owned());
            continue;
        }
        let value = finding.place.as_ref().zip(text).and_then(|(place, text)| {
            text.get(place.offset..place.offset + place.len).filter(|value| value.len() > 1 && !value.contains(':'))
        });
        let mask = |sentence: &str| {
            let masked = secrets::redacted_message(sentence);
            value.map_or(masked.clone(), |value| masked.replace(value, secrets::NOT_SHOWN))
        };
        finding.message = mask(&finding.message);
        finding.label = mask(&finding.label);
        finding.help = finding.help.as_deref().map(mask);
    }
}

/// Sorts findings, merges equal ones of several versions, and removes findings with one of the `SUPERSEDED_CODES`
/// that repeat a decoding error of the kubelet at the same position, or at the same field of the same file. The help
/// of a removed finding passes to a decoding error without help. Limits the findings of each file.
#[must_use]
pub fn dedupe(findings: Vec<Finding>) -> Vec<Finding> {
    let is_decoding_error =
        |finding: &Finding| rules::lookup(finding.code).is_some_and(|rule| rule.stage == RuleStage::Load);
    let (mut decoding_errors, others): (Vec<Finding>, Vec<Finding>) = findings.into_iter().partition(is_decoding_error);
    // First decoding error per position and per field. Maps avoid a search through all errors for each finding.
    let (mut places, mut fields) = (BTreeMap::new(), BTreeMap::new());
    for (index, error) in decoding_errors.iter().enumerate() {
        if let Some(place) = &error.place {
            places.entry(place.clone()).or_insert(index);
            if let Some(field) = &error.field {
                fields.entry((place.file.clone(), field.clone())).or_insert(index);
            }
        }
    }
    let mut kept: Vec<Finding> = Vec::with_capacity(others.len() + decoding_errors.len());
    for finding in others {
        let place = finding.place.as_ref().filter(|_| SUPERSEDED_CODES.contains(&finding.code));
        let of_field = place
            .zip(finding.field.as_ref())
            .and_then(|(place, field)| fields.get(&(place.file.clone(), field.clone())));
        let same = place.and_then(|place| places.get(place)).into_iter().chain(of_field).min();
        match same.and_then(|index| decoding_errors.get_mut(*index)) {
            Some(error) => {
                if error.help.is_none() {
                    error.help = finding.help;
                }
            }
            None => kept.push(finding),
        }
    }
    kept.extend(decoding_errors);
    let mut all = merged(kept);
    sort(&mut all);
    let mut all = limited(all);
    sort(&mut all);
    all
}

/// Number of findings of one pool from which on they are limited at once. Below it, equal findings of several pools and
/// versions are merged before the limit of a file counts them.
const MANY: usize = 20 * MAX_PER_FILE;

/// Limits the findings since `before`, which are those of one pool, if they are many. Thousands of pools with thousands of
/// findings each would fill the memory before the end.
pub(super) fn bound(findings: &mut Vec<Finding>, before: usize) {
    if findings.len().saturating_sub(before) > MANY {
        let of_pool = findings.split_off(before);
        findings.extend(dedupe(of_pool));
    }
}

/// Verdicts of kubelets that cannot decode the file.
pub(super) fn undecodable_verdicts(minors: &[Minor]) -> Vec<Verdict> {
    let verdict = |minor: &Minor| Verdict {
        minor: *minor,
        stage: Stage::Load,
        refusals: Vec::new(),
        startup: Vec::new(),
        later: Vec::new(),
        host_conditions: Vec::new(),
    };
    minors.iter().map(verdict).collect()
}

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile_tests;

#[cfg(test)]
mod tests {
    use super::super::check_file;
    use super::*;
    use kubelet_config::finding::Severity;

    const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn check(text: &str, minors: &[u32], strictness: Strictness) -> Checked {
        let minors: Vec<Minor> = minors.iter().copied().map(Minor).collect();
        check_file("kubelet.yaml", text, &minors, strictness)
    }

    fn codes(checked: &Checked) -> Vec<(Severity, &'static str, usize)> {
        checked.findings.iter().map(|f| (f.severity, f.code, f.kubelets.len())).collect()
    }

    #[test]
    fn separates_verdicts_and_findings() {
        let text = format!("{HEADER}maxPod: 5\nmaxPods: -5\n");
        let checked = check(&text, &[21, 36], Strictness::Strict);
        assert!(checked.verdicts.iter().all(|verdict| verdict.stage == Stage::Validate));
        assert_eq!(codes(&checked), [(Severity::Error, "unknown-field", 0), (Severity::Error, "max-pods", 2)]);
        let lenient = check(&text, &[21], Strictness::Lenient);
        assert_eq!(codes(&lenient), [(Severity::Warning, "unknown-field", 0), (Severity::Error, "max-pods", 1)]);
    }

    #[test]
    fn malformed_document_is_refused_and_large_one_has_no_verdict() {
        let malformed = check("a: [", &[36], Strictness::Strict);
        assert!(malformed.verdicts.iter().all(|verdict| verdict.stage == Stage::Load && !verdict.accepted()));
        assert_eq!((malformed.verdicts.len(), malformed.findings.len()), (1, 1));
        let large = check(&" ".repeat(2 << 20), &[36], Strictness::Strict);
        assert!(large.verdicts.is_empty() && !large.findings.is_empty());
    }

    #[test]
    fn unknown_field_is_an_error_unless_lenient() {
        let text = format!("{HEADER}podLogsDir: /a\n");
        assert_eq!(codes(&check(&text, &[36], Strictness::Strict)), []);
        assert_eq!(codes(&check(&text, &[21, 36], Strictness::Strict)), [(Severity::Error, "field-not-in-version", 1)]);
        assert_eq!(codes(&check(&text, &[21], Strictness::Lenient)), [(Severity::Warning, "field-not-in-version", 1)]);
    }

    #[test]
    fn selects_requested_versions() {
        let (own, other) = ([Minor(21)], vec![Minor(36)]);
        assert!(Kubelets::OfNodes.among(&own).is_empty());
        assert_eq!(Kubelets::Declared(other.clone()).among(&own), own);
        assert_eq!(Kubelets::Declared(other.clone()).among(&[]), other);
        assert_eq!(Kubelets::Given(other.clone()).among(&own), other);
    }
}
