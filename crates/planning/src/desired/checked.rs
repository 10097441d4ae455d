//! Check of one configuration: verdicts of the kubelets, and findings of nodecfg. Used for single files and for
//! rendered pools.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::kubelet_file;
use kubelet_config::Minor;
use kubelet_config::advice;
use kubelet_config::document::{Document, Parsed, Unread};
use kubelet_config::finding::{Finding, Place, Strictness, merged, sort};
use kubelet_config::rules::{self, RuleStage};
use kubelet_config::secrets;
use kubelet_config::verdict::{Stage, Verdict, assess, dropped_fields, findings};

/// Findings of nodecfg that repeat a decoding error of the kubelet at the same field.
const RESTATED: [&str; 6] =
    ["ambiguous-scalar", "bad-value", "missing-field", "wrong-api-version", "wrong-kind", "wrong-type"];

/// Kubelet versions and strictness of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checks {
    /// Strictness beyond the kubelet.
    pub gate: Strictness,
    /// Kubelet versions.
    pub kubelets: Kubelets,
}

/// Kubelet versions of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Kubelets {
    /// No version: planning checks the versions that the nodes report.
    #[default]
    OfNodes,
    /// The versions that the pool declares (`spec.kubernetesVersion`), or these without a declaration.
    Declared(Vec<Minor>),
    /// These versions, regardless of declarations.
    Given(Vec<Minor>),
}

impl Kubelets {
    /// Versions for a configuration that declares `declared`.
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
    /// Verdicts by version; empty if nodecfg cannot read a document that a kubelet may read.
    pub verdicts: Vec<Verdict>,
    /// All findings, in order.
    pub findings: Vec<Finding>,
}

/// Checks the text of a single KubeletConfiguration.
#[must_use]
pub fn check_file(name: &str, text: &str, minors: &[Minor], gate: Strictness) -> Checked {
    let Parsed { document, findings: mut found, unread } = Document::parse(name, text);
    let Some(document) = document else {
        let verdicts = if unread == Some(Unread::Malformed) { not_loaded(minors) } else { Vec::new() };
        gate.apply(&mut found);
        redact(&mut found, |_| Some(text));
        return Checked { verdicts, findings: found };
    };
    kubelet_file::check_header(&document, &mut found);
    kubelet_file::check(&document, &mut found);
    let rendered = check_document(&document, minors);
    found.extend(rendered.findings);
    gate.apply(&mut found);
    redact(&mut found, |_| Some(text));
    Checked { verdicts: rendered.verdicts, findings: dedupe(found) }
}

/// Checks a document: verdicts of the kubelets, and the findings that follow from them.
#[must_use]
pub fn check_document(document: &Document, minors: &[Minor]) -> Checked {
    let verdicts: Vec<Verdict> = minors.iter().map(|minor| assess(document, *minor)).collect();
    let mut found = findings(&verdicts);
    found.extend(dropped_fields(document, minors));
    found.extend(advice::review(document, &verdicts));
    Checked { verdicts, findings: found }
}

/// Removes quoted values that may be secrets from findings. `text_of` returns the text of a file.
pub(super) fn redact<'t>(findings: &mut [Finding], text_of: impl Fn(&str) -> Option<&'t str>) {
    let mut lines: BTreeMap<Arc<str>, Vec<RangeInclusive<usize>>> = BTreeMap::new();
    for finding in findings {
        let text = finding.place.as_ref().and_then(|place| text_of(&place.file));
        let among = |place: &Place| {
            let lines =
                lines.entry(Arc::clone(&place.file)).or_insert_with(|| text.map(secrets::lines).unwrap_or_default());
            lines.iter().any(|lines| lines.contains(&place.line))
        };
        let secret = finding.field.as_deref().is_some_and(secrets::is_secret);
        if !finding.place.as_ref().is_some_and(among) && !secret {
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
        let without = |sentence: &str| {
            let masked = secrets::redacted_message(sentence);
            value.map_or(masked.clone(), |value| masked.replace(value, secrets::NOT_SHOWN))
        };
        finding.message = without(&finding.message);
        finding.label = without(&finding.label);
        finding.help = finding.help.as_deref().map(without);
    }
}

/// Sorts findings and removes those that repeat another one: a decoding error of the kubelet replaces a type error at
/// the same value.
#[must_use]
pub fn dedupe(findings: Vec<Finding>) -> Vec<Finding> {
    let decoder = |finding: &Finding| rules::lookup(finding.code).is_some_and(|rule| rule.stage == RuleStage::Load);
    let (mut refused, others): (Vec<Finding>, Vec<Finding>) = findings.into_iter().partition(decoder);
    // First decoding error per position and field, so that the run time stays linear.
    let (mut places, mut fields) = (BTreeMap::new(), BTreeMap::new());
    for (at, refusal) in refused.iter().enumerate() {
        if let Some(place) = &refusal.place {
            places.entry(place.clone()).or_insert(at);
            if let Some(field) = &refusal.field {
                fields.entry((place.file.clone(), field.clone())).or_insert(at);
            }
        }
    }
    let mut kept: Vec<Finding> = Vec::with_capacity(others.len() + refused.len());
    for finding in others {
        let place = finding.place.as_ref().filter(|_| RESTATED.contains(&finding.code));
        let of_field = place
            .zip(finding.field.as_ref())
            .and_then(|(place, field)| fields.get(&(place.file.clone(), field.clone())));
        let same = place.and_then(|place| places.get(place)).into_iter().chain(of_field).min();
        match same.and_then(|at| refused.get_mut(*at)) {
            Some(refusal) => {
                if refusal.help.is_none() {
                    refusal.help = finding.help;
                }
            }
            None => kept.push(finding),
        }
    }
    kept.extend(refused);
    let mut all = merged(kept);
    sort(&mut all);
    all
}

/// Verdicts on a text that is no document.
pub(super) fn not_loaded(minors: &[Minor]) -> Vec<Verdict> {
    let answer = |minor: &Minor| Verdict {
        minor: *minor,
        stage: Stage::Load,
        refusals: Vec::new(),
        startup: Vec::new(),
        later: Vec::new(),
        host_conditions: Vec::new(),
    };
    minors.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubelet_config::finding::Severity;

    const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn check(text: &str, minors: &[u32], gate: Strictness) -> Checked {
        let minors: Vec<Minor> = minors.iter().copied().map(Minor).collect();
        check_file("kubelet.yaml", text, &minors, gate)
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
    fn invalid_document_is_not_loaded() {
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
