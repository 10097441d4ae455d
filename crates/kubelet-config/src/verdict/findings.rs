//! Conversion of verdicts to findings. Each refusal becomes an error with its versions. A field that a version drops
//! silently becomes an error too, although that kubelet accepts the file.

use super::{Refusal, Verdict};
use crate::Minor;
use crate::document::{Document, Mapping, Node, Value, path_of};
use crate::fields::{self, Field};
use crate::finding::{Finding, merged};

/// Returns the findings for a document's verdicts, the `later` refusals included. Equal refusals of several versions
/// become one finding.
#[must_use]
pub fn findings(verdicts: &[Verdict]) -> Vec<Finding> {
    let mut all = Vec::new();
    for verdict in verdicts {
        all.extend(verdict.reasons().chain(&verdict.later).map(|refusal| finding(refusal, verdict.minor)));
    }
    merged(all)
}

fn finding(refusal: &Refusal, minor: Minor) -> Finding {
    let mut finding = Finding::error(refusal.rule, refusal.message.clone()).at(refusal.place.clone()).kubelets([minor]);
    if !refusal.field.is_empty() {
        finding = finding.field(refusal.field.clone());
    }
    finding.related.clone_from(&refusal.related);
    finding.help.clone_from(&refusal.help);
    finding
}

/// Returns findings for the fields that some of these versions do not have. The kubelet drops such fields
/// (`pkg/kubelet/kubeletconfig/configfiles`: strict decoding fails, lenient decoding omits them). Null values and
/// fields unknown to every version are not reported here.
#[must_use]
pub fn dropped_fields(document: &Document, minors: &[Minor]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Value::Mapping(map) = &document.root.value {
        dropped_in_map(map, "", "", minors, &mut findings);
    }
    findings
}

fn dropped_in_map(map: &Mapping, table: &str, path: &str, minors: &[Minor], findings: &mut Vec<Finding>) {
    for (key, entry) in map {
        let Some(field) = fields::child(table, key) else { continue };
        let path = path_of(path, key);
        let (known, lacking): (Vec<Minor>, Vec<Minor>) = minors.iter().partition(|minor| field.is_known_to(**minor));
        if !lacking.is_empty() && !entry.value.is_null() {
            let message = format!("`{path}` has no effect: {}", absence_reason(field, &lacking));
            findings.push(
                Finding::error("field-not-in-version", message)
                    .at(entry.key_place.clone())
                    .field(path.clone())
                    .kubelets(lacking)
                    .help("remove it for these versions; their kubelets drop it silently"),
            );
        }
        // One finding covers everything inside a missing field.
        if !known.is_empty() {
            dropped_in_value(&entry.value, field, &path, &known, findings);
        }
    }
}

fn dropped_in_value(node: &Node, field: &Field, path: &str, minors: &[Minor], findings: &mut Vec<Finding>) {
    match &node.value {
        Value::Mapping(map) => dropped_in_map(map, &field.path, path, minors, findings),
        Value::Sequence(list) => {
            for (at, item) in list.iter().enumerate() {
                if let Some(field) = fields::items(&field.path) {
                    dropped_in_value(item, field, &format!("{path}[{at}]"), minors, findings);
                }
            }
        }
        Value::Scalar(_) => {}
    }
}

fn absence_reason(field: &Field, lacking: &[Minor]) -> String {
    match (
        lacking.first().is_some_and(|first| *first < field.since),
        lacking.last().is_some_and(|last| *last > field.until),
    ) {
        (true, true) => format!("only kubelets {} to {} have it", field.since, field.until),
        (true, false) => format!("only kubelets {} and later have it", field.since),
        _ => format!("kubelet {} was the last to have it", field.until),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Place;
    use crate::verdict::Stage;

    fn verdict(minor: u32, messages: &[&str], startup: &[&str]) -> Verdict {
        let refusal = |message: &&str| Refusal {
            rule: "max-pods",
            field: "maxPods".to_owned(),
            message: (*message).to_owned(),
            place: Place::whole_file("kubelet.yaml"),
            related: Vec::new(),
            help: None,
        };
        Verdict {
            minor: Minor(minor),
            stage: if messages.is_empty() { Stage::Ok } else { Stage::Validate },
            refusals: messages.iter().map(refusal).collect(),
            startup: startup.iter().map(refusal).collect(),
            later: Vec::new(),
            host_conditions: Vec::new(),
        }
    }

    #[test]
    fn merges_equal_refusals_of_versions() {
        let found = findings(&[verdict(21, &["a", "b"], &[]), verdict(36, &["b"], &[]), verdict(37, &[], &["c"])]);
        let merged: Vec<(&str, Vec<u32>)> =
            found.iter().map(|f| (f.message.as_str(), f.kubelets.iter().map(|minor| minor.0).collect())).collect();
        assert_eq!(merged, [("a", vec![21]), ("b", vec![21, 36]), ("c", vec![37])]);
        assert_eq!(found.first().and_then(|f| f.field.as_deref()), Some("maxPods"));
    }

    #[test]
    fn reports_fields_of_other_versions_once() {
        let text = "podLogsDir: /a\nmaxPods: 5\nlogging: {sanitization: true, format: json}\ndynamicConfigDir: null\n\
                    shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 5}]\n";
        let document = Document::parse("kubelet.yaml", text).document.unwrap();
        let messages = |minors: &[u32]| -> Vec<String> {
            let minors: Vec<Minor> = minors.iter().copied().map(Minor).collect();
            dropped_fields(&document, &minors)
                .iter()
                .map(|f| {
                    let kubelets: Vec<String> = f.kubelets.iter().map(ToString::to_string).collect();
                    format!("{} ({})", f.message, kubelets.join(" "))
                })
                .collect()
        };
        assert_eq!(messages(&[23]), ["`podLogsDir` has no effect: only kubelets 1.30 and later have it (1.23)"]);
        assert_eq!(
            messages(&[21, 36]),
            [
                "`logging.sanitization` has no effect: kubelet 1.23 was the last to have it (1.36)",
                "`podLogsDir` has no effect: only kubelets 1.30 and later have it (1.21)",
                "`shutdownGracePeriodByPodPriority` has no effect: only kubelets 1.23 and later have it (1.21)",
            ]
        );
        assert!(messages(&[]).is_empty());
    }
}
