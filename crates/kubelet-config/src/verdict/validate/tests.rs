//! Tests of every rule with a refused configuration and a similar accepted one.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::document::Document;
use crate::verdict::rules::{self, Rule, RuleStage};
use crate::verdict::{Stage, Verdict, assess};
use crate::{Minor, NEWEST, OLDEST, gates};

use super::GROUPS;

/// A line of the examples.
struct Example {
    rule: &'static Rule,
    minors: RangeInclusive<u32>,
    field: &'static str,
    bad: &'static str,
    good: &'static str,
}

static EXAMPLES: &str = include_str!("../../../../../tests/data/rules.txt");

fn examples() -> impl Iterator<Item = Example> {
    EXAMPLES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let [id, minors, field, bad, good] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let rule = rules::lookup(id).unwrap_or_else(|| panic!("there is no rule {id}"));
        let newest = rule.until.min(NEWEST).0;
        let minors = match minors.split_once('-') {
            Some((first, "")) => first.parse().unwrap()..=newest,
            Some((first, last)) => first.parse().unwrap()..=last.parse().unwrap(),
            None => rule.since.max(OLDEST).0..=newest,
        };
        assert!(rule.applies_to(Minor(*minors.start())) && rule.applies_to(Minor(*minors.end())), "{line}");
        Example { rule, minors, field, bad, good }
    })
}

fn verdict(body: &str, minor: Minor) -> Verdict {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let text = match body.strip_prefix('{') {
        Some(rest) => format!("{{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, {rest}"),
        None => format!("{head}{body}\n"),
    };
    // A comment at the start prevents reading the braces as JSON.
    let parsed = Document::parse("kubelet.yaml", &format!("# an example\n{text}"));
    assess(&parsed.document.unwrap_or_else(|| panic!("{body}: {:?}", parsed.findings)), minor)
}

#[test]
fn every_rule_refuses_its_example_only() {
    let mut wrong = Vec::new();
    for Example { rule, minors, field, bad, good } in examples() {
        let id = &rule.id;
        for minor in minors.map(Minor) {
            let refused = verdict(bad, minor);
            let found = refused.refusals.iter().find(|refusal| refusal.rule == id && refusal.field == field);
            if refused.stage != Stage::Validate || found.is_none_or(|refusal| refusal.help.is_none()) {
                wrong.push(format!("{minor} {id}: {bad}: {:?} {:#?}", refused.stage, refused.refusals));
            }
            let accepted = verdict(good, minor);
            if !accepted.accepted() {
                wrong.push(format!("{minor} {id}: {good}: {:?} {:#?}", accepted.stage, accepted.refusals));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_row_has_a_check_and_an_example() {
    let rows: BTreeSet<_> =
        rules::all().filter(|rule| rule.stage == RuleStage::Validate).map(|rule| rule.id.as_str()).collect();
    let checks: Vec<_> = GROUPS.iter().flat_map(|group| group.iter().map(|(id, _)| *id)).collect();
    assert_eq!(rows, checks.iter().copied().collect::<BTreeSet<_>>());
    assert_eq!(rows.len(), checks.len(), "no check runs twice");
    assert_eq!(rows, examples().map(|example| example.rule.id.as_str()).collect::<BTreeSet<_>>());
}

#[test]
fn every_version_accepts_a_plain_configuration() {
    for minor in Minor::all() {
        assert!(verdict("maxPods: 110", minor).accepted(), "{minor}");
    }
}

#[test]
fn rules_apply_only_in_their_versions() {
    for (body, minor, stage) in [
        ("cgroupsPerQOS: false", 30, Stage::Validate),
        ("{cgroupsPerQOS: false, enforceNodeAllocatable: [none]}", 30, Stage::Validate),
        ("{cgroupsPerQOS: false, enforceNodeAllocatable: [none]}", 31, Stage::Ok),
        ("enforceNodeAllocatable: [pods, pods]", 30, Stage::Ok),
        ("enforceNodeAllocatable: [none, none]", 30, Stage::Validate),
        ("reservedSystemCPUs: 3-0", 21, Stage::Ok),
        ("{nodeLeaseDurationSeconds: -1, featureGates: {NodeLease: false}}", 16, Stage::Ok),
        ("cpuCFSQuotaPeriod: 50ms", 19, Stage::Ok),
        ("cpuCFSQuotaPeriod: 50ms", 36, Stage::Ok),
        ("containerLogMaxFiles: 1", 32, Stage::Ok),
        ("runOnce: true", 31, Stage::Ok),
        ("logging: {flushFrequency: -1}", 34, Stage::Ok),
        ("imageMinimumGCAge: -1s", 35, Stage::Ok),
        ("tracing: {endpoint: '[a]'}", 34, Stage::Ok),
        ("tracing: {endpoint: '::1'}", 36, Stage::Ok),
        ("logging: {options: {json: {splitStream: true}}}", 25, Stage::Ok),
        ("logging: {options: {text: {splitStream: true}}, format: json}", 36, Stage::Ok),
        ("topologyManagerPolicy: none", 16, Stage::Ok),
        ("topologyManagerPolicy: restricted", 17, Stage::Validate),
        ("defaultPodSysctls: {vm.swappiness: '10'}", 36, Stage::Ok),
        ("{defaultPodSysctls: {net.core.somaxconn: '1'}, featureGates: {DefaultPodSysctls: true}}", 36, Stage::Gates),
        ("{defaultPodSysctls: {net.core.somaxconn: '1'}, featureGates: {DefaultPodSysctls: true}}", 37, Stage::Ok),
        ("clientCertificateKeyAlgorithm: RSA", 37, Stage::Ok),
    ] {
        let verdict = verdict(body, Minor(minor));
        assert_eq!(verdict.stage, stage, "1.{minor} {body}: {:?}", verdict.refusals);
    }
}

#[test]
fn invalid_logging_hides_other_refusals_since_1_25() {
    let rules_of = |minor| {
        let verdict = verdict("{logging: {format: xml}, port: -1}", Minor(minor));
        verdict.refusals.iter().map(|refusal| refusal.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules_of(24), ["port", "logging-format"]);
    assert_eq!(rules_of(25), ["logging-format"]);
}

#[test]
fn rules_use_gates_of_their_versions() {
    for (id, gate) in [
        ("cpu-cfs-quota-period", "CustomCPUCFSQuotaPeriod"),
        ("crash-loop-back-off", "KubeletCrashLoopBackOffMax"),
        ("default-pod-sysctls-gate", "DefaultPodSysctls"),
        ("image-maximum-gc-age-gate", "ImageMaximumGCAge"),
        ("image-pull-credentials-policy", "KubeletEnsureSecretPulledImages"),
        ("logging-format-gate", "LoggingBetaOptions"),
        ("logging-json-buffer-gate", "LoggingAlphaOptions"),
        ("memory-reservation-policy-gate", "MemoryQoS"),
        ("server-tls-bootstrap-gate", "RotateKubeletServerCertificate"),
        ("shutdown-by-pod-priority", "GracefulNodeShutdownBasedOnPodPriority"),
        ("shutdown-grace-period", "GracefulNodeShutdown"),
        ("swap-behavior", "NodeSwap"),
        ("system-log-query-gate", "NodeLogQuery"),
        ("topology-manager-policy-gate", "TopologyManager"),
        ("tracing-gate", "KubeletTracing"),
    ] {
        let rule = rules::lookup(id).unwrap();
        for minor in Minor::all().filter(|minor| rule.applies_to(*minor)) {
            assert!(gates::lookup(gate, minor).is_some(), "{id}: {gate} in {minor}");
        }
    }
}

#[test]
fn refusals_have_all_related_places() {
    let mut text = String::new();
    let since_36 = [
        "port: 70000",
        "{shutdownGracePeriod: 10s, shutdownGracePeriodCriticalPods: 20s}",
        "imageGCLowThresholdPercent: 90",
        "enforceNodeAllocatable: [pods, kube-reserved, pods]",
        "hairpinMode: hairpin-vet",
        "registerWithTaints: [{key: a b, effect: noexecute}]",
        "reservedMemory: [{limits: {memory: 1, cpu: 1}}, {limits: {memory: 0}}]",
        "userNamespaces: {idsPerPod: 100000}",
        "containerLogMonitorInterval: 1s",
        "podLogsDir: /var/log/../pods/",
        "showHiddenMetricsForVersion: '1.36'",
    ];
    let later = [
        (
            37,
            "{featureGates: {DefaultPodSysctls: true}, defaultPodSysctls: {vm.swappiness: '1', net.a: '1', net/a: '2', net.*: '3'}}",
        ),
        (38, "serverCertificateKeyAlgorithm: RSA-2084"),
    ];
    for (minor, body) in since_36.map(|body| (36, body)).into_iter().chain(later) {
        text.push_str(&format!("{body}\n"));
        for refusal in verdict(body, Minor(minor)).refusals {
            text.push_str(&format!(
                "  {}:{} {}: {}\n",
                refusal.place.line, refusal.place.column, refusal.rule, refusal.message
            ));
            for (place, label) in refusal.related {
                text.push_str(&format!("    {}:{} {label}\n", place.line, place.column));
            }
            text.push_str(&format!("    help: {}\n", refusal.help.unwrap_or_default()));
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn reports_conditions_on_the_host() {
    let fields = |body, minor| {
        let verdict = verdict(body, Minor(minor));
        assert!(verdict.accepted(), "{:?}", verdict.refusals);
        verdict.host_conditions.into_iter().map(|condition| condition.field).collect::<Vec<_>>()
    };
    assert!(fields("maxPods: 1", 34).is_empty());
    assert_eq!(fields("maxPods: 1", 35), ["failCgroupV1"]);
    assert_eq!(fields("failCgroupV1: true", 31), ["failCgroupV1"]);
    assert!(fields("failCgroupV1: false", 36).is_empty());
    assert_eq!(fields("{failCgroupV1: false, singleProcessOOMKill: false}", 36), ["singleProcessOOMKill"]);
    assert_eq!(fields("{failCgroupV1: false, userNamespaces: {}}", 36), ["userNamespaces"]);
}
