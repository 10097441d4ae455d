//! Tests of advice: for each code an example and a similar configuration without the finding, and properties of all
//! findings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::{example_files::EXAMPLES, review, table};
use crate::document::Document;
use crate::finding::Finding;
use crate::verdict::assess;
use crate::{Minor, NEWEST};

fn reviewed(text: &str, minors: &[u32]) -> Vec<Finding> {
    let text = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{text}\n");
    let Some(document) = Document::parse("kubelet.yaml", &text).document else { return Vec::new() };
    let verdicts: Vec<_> = minors.iter().map(|minor| assess(&document, Minor(*minor))).collect();
    review(&document, &verdicts)
}

#[test]
fn reports_gates_that_the_next_version_refuses() {
    let found = reviewed("featureGates: {SeccompDefault: true}", &[28]);
    let about_gates = found.iter().filter(|f| f.field.as_deref() == Some("featureGates.SeccompDefault"));
    let messages: Vec<_> = about_gates.map(|finding| (finding.code, finding.message.as_str())).collect();
    // No second finding reports that the gate is locked.
    assert_eq!(messages, [("next-version", "1.29 refuses this: the kubelet has no feature gate `SeccompDefault`")]);
}

fn has(findings: &[Finding], code: &str) -> bool {
    findings.iter().any(|finding| finding.code == code)
}

#[test]
fn each_code_reports_its_example_only() {
    let codes: BTreeSet<&str> = EXAMPLES.iter().map(|(code, ..)| *code).collect();
    assert_eq!(codes, table::all().map(|advice| advice.code.as_str()).collect());
    for (code, minors, bad, good) in EXAMPLES {
        for minor in *minors {
            assert!(has(&reviewed(bad, &[*minor]), code), "{code} is reported for {bad:?} in 1.{minor}");
            assert!(!has(&reviewed(good, &[*minor]), code), "{code} is not reported for {good:?} in 1.{minor}");
        }
    }
}

#[test]
fn findings_are_complete() {
    let mut shown = String::new();
    for (code, minors, bad, _) in EXAMPLES {
        let findings = reviewed(bad, minors);
        for finding in &findings {
            assert!(finding.place.is_some() && finding.help.is_some() && finding.field.is_some(), "{finding:?}");
            assert!(!finding.kubelets.is_empty(), "{finding:?}");
        }
        for finding in findings.iter().filter(|finding| finding.code == *code) {
            let kubelets: Vec<_> = finding.kubelets.iter().map(ToString::to_string).collect();
            let place = finding.place.as_ref().map(ToString::to_string).unwrap_or_default();
            writeln!(
                shown,
                "{} {code} {} {place} [{}]\n  {}\n  → {}",
                finding.severity,
                finding.field.as_deref().unwrap_or_default(),
                kubelets.join(" "),
                finding.message,
                finding.help.as_deref().unwrap_or_default()
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn merges_equal_findings_of_versions() {
    let found = reviewed("evictionHard: {memory.available: 1Gi}", &[36, 21, 29]);
    let lost: Vec<_> = found.iter().filter(|finding| finding.code == "eviction-defaults-lost").collect();
    let minors: Vec<Vec<u32>> = lost.iter().map(|f| f.kubelets.iter().map(|minor| minor.0).collect()).collect();
    // 1.30 has one more default.
    assert_eq!(minors, [vec![36], vec![21, 29]]);
}

#[test]
fn zero_rate_of_events_is_no_limit_since_1_37() {
    let found = reviewed("eventRecordQPS: 0\nkubeAPIQPS: 0", &[36, 37]);
    let versions = |code: &str| {
        let found = found.iter().filter(|finding| finding.code == code);
        found.flat_map(|finding| finding.kubelets.iter().map(|minor| minor.0)).collect::<Vec<_>>()
    };
    assert_eq!((versions("event-rate-zero"), versions("kube-api-rate-zero")), (vec![36], vec![36, 37]));
}

#[test]
fn default_of_only_some_versions_is_not_redundant() {
    assert!(!has(&reviewed("kubeAPIQPS: 50", &[26, 27]), "equals-default"));
    assert!(has(&reviewed("kubeAPIQPS: 50", &[27, 28]), "equals-default"));
    // The next version has another default.
    assert!(!has(&reviewed("kubeAPIQPS: 5", &[26]), "equals-default"));
    assert!(has(&reviewed("kubeAPIQPS: 5", &[25]), "equals-default"));
    // Fields that audits require, and fields whose presence matters.
    assert!(!has(&reviewed("readOnlyPort: 0\nauthentication: {anonymous: {enabled: false}}", &[36]), "equals-default"));
    assert!(!has(&reviewed("nodeStatusUpdateFrequency: 10s", &[36]), "equals-default"));
}

#[test]
fn plain_node_gets_no_advice() {
    let text = "cgroupDriver: systemd\nclusterDomain: cluster.local\nclusterDNS: [10.96.0.10]\nrotateCertificates: true\n\
                authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /ca.crt}}\n\
                authorization: {mode: Webhook}\nstaticPodPath: /etc/kubernetes/manifests\nmaxPods: 58\n";
    for minor in [16, 21, 28, 33, 36, 37, NEWEST.0] {
        let findings = reviewed(text, &[minor]);
        let findings: Vec<_> = findings.iter().filter(|finding| finding.code != "default-changes-next").collect();
        assert!(findings.is_empty(), "1.{minor}: {findings:?}");
    }
}

proptest! {
    /// Combines lines of the examples in any order and versions: no panic, and the same result twice.
    #[test]
    fn never_panics_on_combined_examples(
        picked in prop::collection::vec((0..EXAMPLES.len(), any::<bool>()), 0..12),
        minors in prop::collection::vec(16_u32..=37, 0..4),
    ) {
        let lines: Vec<&str> = picked.iter().map(|(at, bad)| if *bad { EXAMPLES[*at].2 } else { EXAMPLES[*at].3 }).collect();
        let text = lines.join("\n");
        let findings = reviewed(&text, &minors);
        prop_assert_eq!(&findings, &reviewed(&text, &minors));
        for finding in &findings {
            prop_assert!(finding.kubelets.is_sorted());
        }
    }

    /// Arbitrary values for the fields of the examples.
    #[test]
    fn never_panics_on_any_value(
        at in 0..EXAMPLES.len(),
        value in prop_oneof![
            "[ -~]{0,12}",
            "-?[0-9]{1,25}(\\.[0-9]{0,3})?(%|m|Mi|s|h)?",
            Just("[{a: 1}, [], 'x', null]".to_owned()),
            Just("{memory.available: [1], x: {y: null}, nodefs.available: 1e99%}".to_owned()),
        ],
        minor in 16_u32..=37,
    ) {
        let field = EXAMPLES[at].2.split(':').next().unwrap();
        reviewed(&format!("{field}: {value}"), &[minor]);
    }
}
