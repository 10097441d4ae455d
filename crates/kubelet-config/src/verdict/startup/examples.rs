//! Examples for each rule of this stage: a refused configuration and a similar accepted one, in a given version.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::example_files::{EXAMPLES, STATIC};
use super::{GROUPS, check};
use crate::document::Document;
use crate::gates::EnabledGates;
use crate::verdict::rules::{self, RuleStage};
use crate::verdict::{Config, Refusal, gates};
use crate::{Minor, NEWEST};

/// Returns the refusals at start-up of a version, after gates are applied.
fn refused(text: &str, minor: u32) -> Vec<Refusal> {
    let text = text.replace("~\n", STATIC);
    let document = Document::parse("kubelet.yaml", &text).document.unwrap();
    let enabled = gates::apply(&document, Minor(minor)).unwrap();
    check(&Config::new(&document, Minor(minor), enabled))
}

fn rules_and_fields(refusals: &[Refusal]) -> Vec<(&str, &str)> {
    refusals.iter().map(|refusal| (refusal.rule, refusal.field.as_str())).collect()
}

#[test]
fn each_rule_refuses_its_example_only() {
    let mut wrong = Vec::new();
    for (rule, minor, bad, field, good) in EXAMPLES {
        let refusals = refused(bad, *minor);
        if !rules_and_fields(&refusals).contains(&(*rule, *field)) {
            wrong.push(format!("{rule} in 1.{minor} must refuse {field} of {bad:?}, not {refusals:?}"));
        }
        let refusals = refused(good, *minor);
        if !refusals.is_empty() {
            wrong.push(format!("{rule} in 1.{minor} must accept {good:?}, not {refusals:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_row_of_the_table_has_a_check_and_an_example() {
    let rows = rules::all().filter(|rule| rule.stage == RuleStage::Startup);
    let rows: BTreeSet<_> = rows.map(|rule| rule.id.as_str()).collect();
    let checks: Vec<_> = GROUPS.iter().flat_map(|group| group.iter().map(|(id, _)| *id)).collect();
    assert_eq!(checks.iter().copied().collect::<BTreeSet<_>>(), rows);
    assert_eq!(checks.len(), rows.len(), "no rule has two checks");
    assert_eq!(EXAMPLES.iter().map(|(rule, ..)| *rule).collect::<BTreeSet<_>>(), rows);
}

#[test]
fn rules_apply_only_in_their_versions() {
    for (text, field, refuses) in [
        ("evictionHard: {containerfs.available: 10%}", "evictionHard.containerfs.available", 16..=28),
        ("iptablesDropBit: 14", "iptablesDropBit", 16..=27),
        ("containerLogMaxFiles: 1", "containerLogMaxFiles", 16..=32),
        ("containerLogMaxSize: -1Ki", "containerLogMaxSize", 16..=18),
        ("tlsCurvePreferences: [1]", "tlsCurvePreferences[0]", 36..=NEWEST.0),
        ("tlsCipherSuites: [TLS_AES_256_GCM_SHA384]", "tlsCipherSuites[0]", 16..=18),
        ("allowedUnsafeSysctls: [net/core/somaxconn]", "allowedUnsafeSysctls[0]", 16..=22),
        ("memoryManagerPolicy: none", "memoryManagerPolicy", 22..=NEWEST.0),
        ("cpuManagerPolicyOptions: {full-pcpus-only: 'true'}", "cpuManagerPolicyOptions", 22..=NEWEST.0),
        ("cpuManagerPolicy: stat", "cpuManagerPolicy", 16..=NEWEST.0),
        ("logging: {flushFrequency: -1}", "logging.flushFrequency", 23..=34),
        ("seccompDefault: true", "seccompDefault", 22..=24),
        ("maxPods: 65536", "maxPods", 33..=NEWEST.0),
    ] {
        for minor in Minor::all() {
            let refusals = refused(text, minor.0);
            let named = rules_and_fields(&refusals).iter().any(|(_, named)| *named == field);
            assert_eq!(named, refuses.contains(&minor.0), "{text} in {minor}: {refusals:?}");
        }
    }
}

#[test]
fn defaults_start() {
    for minor in Minor::all() {
        assert_eq!(refused("kind: KubeletConfiguration", minor.0), []);
    }
}

#[test]
fn refusals_have_place_of_the_entry() {
    let refusals = refused(
        "evictionSoft:\n  nodefs.available: 5%\n  memory.available: 1Gi\nevictionSoftGracePeriod: {nodefs.available: 1m}\n",
        36,
    );
    let [refusal] = refusals.as_slice() else { panic!("{refusals:?}") };
    assert_eq!((refusal.place.line, refusal.related.len()), (3, 1));
    assert!(refusal.help.as_deref().is_some_and(|help| help.contains("memory.available: 1m30s")));
    let refusals = refused("kubeReserved:\n  cpu: 1\n  memory: 1XB\n  gpu: '1'\n", 21);
    let lines: Vec<_> = refusals.iter().map(|refusal| (refusal.rule, refusal.place.line)).collect();
    assert_eq!(lines, [("reserved-resource", 4), ("reserved-quantity", 3)]);
}

proptest! {
    /// Arbitrary texts cause no panic in any version.
    #[test]
    fn never_panics_on_any_text(key in "[a-z.-]{0,12}", text in "\\PC{0,40}", cpus in "[-+0-9,]{0,30}", minor in 16_u32..=NEWEST.0) {
        let text = serde_json::to_string(&text).unwrap();
        let mut file = format!("cpuManagerPolicy: static\nmemoryManagerPolicy: Static\nreservedSystemCPUs: '{cpus}'\n");
        for path in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod", "kubeReserved", "cpuManagerPolicyOptions"] {
            file += &format!("{path}: {{'{key}': {text}, memory.available: {text}, memory: {text}, full-pcpus-only: {text}}}\n");
        }
        file += &format!("allowedUnsafeSysctls: [{text}]\ntlsCipherSuites: [{text}]\ncontainerLogMaxSize: {text}\n");
        file += &format!("reservedMemory: [{{limits: {{memory: {text}}}}}]\n");
        let document = Document::parse("kubelet.yaml", &file).document.unwrap();
        let config = Config::new(&document, Minor(minor), EnabledGates::defaults(Minor(minor)));
        let _ = (check(&config), super::host_conditions(&config));
    }
}
