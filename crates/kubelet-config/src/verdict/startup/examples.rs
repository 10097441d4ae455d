//! Examples for each rule of this stage: a refused configuration and a similar accepted one, in a given version.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{GROUPS, check};
use crate::Minor;
use crate::document::Document;
use crate::gates::EnabledGates;
use crate::minor::NEWEST;
use crate::rules::{self, RuleStage};
use crate::verdict::{Config, Refusal, gates};

/// A rule, a version, a file that is refused, the field that is named, and a neighbour that is not refused.
type Example = (&'static str, u32, &'static str, &'static str, &'static str);

/// Replaces a line `~` of an example.
const STATIC: &str = "cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\n";

#[rustfmt::skip]
const EXAMPLES: &[Example] = &[
    ("authorization-mode", 36, "authorization: {mode: RBAC}", "authorization.mode", "authorization: {mode: ''}"),
    ("authorization-mode", 16, "authorization: {mode: webhook}", "authorization.mode", "authorization: {mode: AlwaysAllow}"),
    ("change-detection-strategy", 21, "configMapAndSecretChangeDetectionStrategy: watch", "configMapAndSecretChangeDetectionStrategy", "configMapAndSecretChangeDetectionStrategy: Watch"),
    ("cpu-manager-align-by-socket", 36, "featureGates: {CPUManagerPolicyAlphaOptions: true}\n~\ncpuManagerPolicyOptions: {align-by-socket: 'true'}\ntopologyManagerPolicy: single-numa-node", "cpuManagerPolicyOptions.align-by-socket", "featureGates: {CPUManagerPolicyAlphaOptions: true}\n~\ncpuManagerPolicyOptions: {align-by-socket: 'false'}\ntopologyManagerPolicy: single-numa-node"),
    ("cpu-manager-option", 36, "~\ncpuManagerPolicyOptions: {full-pcpus: 'true'}", "cpuManagerPolicyOptions.full-pcpus", "~\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}"),
    ("cpu-manager-option", 36, "~\ncpuManagerPolicyOptions: {full-pcpus-only: 'yes'}", "cpuManagerPolicyOptions.full-pcpus-only", "~\ncpuManagerPolicyOptions: {full-pcpus-only: T}"),
    ("cpu-manager-option", 36, "~\ncpuManagerPolicyOptions: {align-by-socket: 'true'}", "cpuManagerPolicyOptions.align-by-socket", "featureGates: {CPUManagerPolicyAlphaOptions: true}\n~\ncpuManagerPolicyOptions: {align-by-socket: 'true'}"),
    ("cpu-manager-option", 32, "~\ncpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}", "cpuManagerPolicyOptions.strict-cpu-reservation", "~\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}"),
    ("cpu-manager-option", 34, "featureGates: {CPUManagerPolicyBetaOptions: false}\n~\ncpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}", "cpuManagerPolicyOptions.strict-cpu-reservation", "~\ncpuManagerPolicyOptions: {strict-cpu-reservation: 'true'}"),
    ("cpu-manager-options-exclusive", 36, "featureGates: {CPUManagerPolicyAlphaOptions: true}\n~\ncpuManagerPolicyOptions: {full-pcpus-only: 'true', distribute-cpus-across-cores: 'true'}", "cpuManagerPolicyOptions.full-pcpus-only", "featureGates: {CPUManagerPolicyAlphaOptions: true}\n~\ncpuManagerPolicyOptions: {full-pcpus-only: 'true', distribute-cpus-across-cores: 'false'}"),
    ("cpu-manager-options-exclusive", 36, "~\ncpuManagerPolicyOptions: {prefer-align-cpus-by-uncorecache: 'true', distribute-cpus-across-numa: 'true'}", "cpuManagerPolicyOptions.prefer-align-cpus-by-uncorecache", "~\ncpuManagerPolicyOptions: {full-pcpus-only: 'true', distribute-cpus-across-numa: 'true'}"),
    ("cpu-manager-options-gate", 22, "~\ncpuManagerPolicyOptions: {}", "cpuManagerPolicyOptions", "featureGates: {CPUManagerPolicyOptions: true}\n~\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}"),
    ("cpu-manager-options-gate", 28, "featureGates: {CPUManagerPolicyOptions: false}\n~\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}", "cpuManagerPolicyOptions", "~\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}"),
    ("cpu-manager-options-policy", 36, "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}", "cpuManagerPolicyOptions", "cpuManagerPolicyOptions: {}"),
    ("cpu-manager-policy", 36, "cpuManagerPolicy: None", "cpuManagerPolicy", "cpuManagerPolicy: none"),
    ("cpu-manager-policy", 21, "cpuManagerPolicy: dynamic", "cpuManagerPolicy", "featureGates: {CPUManager: false}\ncpuManagerPolicy: dynamic"),
    ("cpu-manager-static-reservation", 36, "cpuManagerPolicy: static", "cpuManagerPolicy", "cpuManagerPolicy: static\nreservedSystemCPUs: '0'"),
    ("cpu-manager-static-reservation", 36, "cpuManagerPolicy: static\nkubeReserved: {memory: 1Gi, cpu: '0'}", "cpuManagerPolicy", "cpuManagerPolicy: static\nkubeReserved: {cpu: 0.1n}"),
    ("eviction-grace-period", 36, "evictionSoftGracePeriod: {memory.available: -1m}", "evictionSoftGracePeriod.memory.available", "evictionSoftGracePeriod: {memory.available: 0s}"),
    ("eviction-grace-period", 21, "evictionSoftGracePeriod: {memory.available: 1d}", "evictionSoftGracePeriod.memory.available", "evictionSoftGracePeriod: {memory.available: 1h30m}"),
    ("eviction-minimum-reclaim", 36, "evictionMinimumReclaim: {memory.available: 0%}", "evictionMinimumReclaim.memory.available", "evictionMinimumReclaim: {memory.available: '0'}"),
    ("eviction-minimum-reclaim", 36, "evictionMinimumReclaim: {memory.available: -1Mi}", "evictionMinimumReclaim.memory.available", "evictionMinimumReclaim: {memory.available: 500%}"),
    ("eviction-signal", 36, "evictionHard: {memory.availble: 10%}", "evictionHard.memory.availble", "evictionHard: {memory.available: 10%}"),
    ("eviction-signal", 28, "evictionSoftGracePeriod: {containerfs.available: 1m}", "evictionSoftGracePeriod.containerfs.available", "evictionSoftGracePeriod: {imagefs.available: 1m}"),
    ("eviction-soft-grace", 36, "evictionSoft: {memory.available: 500Mi}\nevictionSoftGracePeriod: {nodefs.available: 1m}", "evictionSoft.memory.available", "evictionSoft: {memory.available: 100%}"),
    ("eviction-soft-grace", 21, "evictionSoft: {memory.available: 0.0%}", "evictionSoft.memory.available", "evictionSoft: {memory.available: 0%}"),
    ("eviction-threshold", 36, "evictionHard: {memory.available: 101%}", "evictionHard.memory.available", "evictionHard: {memory.available: 1e1%%}"),
    ("eviction-threshold", 36, "evictionHard: {memory.available: -1%}", "evictionHard.memory.available", "evictionHard: {memory.available: -0%}"),
    ("eviction-threshold", 36, "evictionHard: {memory.available: 10 %}", "evictionHard.memory.available", "evictionHard: {memory.available: NaN%}"),
    ("eviction-threshold", 21, "evictionHard: {memory.available: '0'}", "evictionHard.memory.available", "evictionHard: {memory.available: 1n}"),
    ("eviction-threshold", 21, "evictionHard: {memory.available: null}", "evictionHard.memory.available", "evictionHard: null"),
    ("iptables-bits", 27, "iptablesDropBit: 14", "iptablesDropBit", "iptablesDropBit: 14\nmakeIPTablesUtilChains: false"),
    ("iptables-bits", 21, "iptablesMasqueradeBit: 15", "iptablesMasqueradeBit", "iptablesMasqueradeBit: 15\niptablesDropBit: 14"),
    ("log-rotation-files", 24, "containerLogMaxFiles: 1", "containerLogMaxFiles", "containerLogMaxFiles: 2"),
    ("log-rotation-size", 36, "containerLogMaxSize: 10MB", "containerLogMaxSize", "containerLogMaxSize: 10M"),
    ("log-rotation-size", 21, "containerLogMaxSize: 1.5Gi", "containerLogMaxSize", "containerLogMaxSize: 1.5G"),
    ("memory-manager-policy", 36, "memoryManagerPolicy: BestEffort", "memoryManagerPolicy", "memoryManagerPolicy: Static"),
    ("memory-manager-policy", 26, "memoryManagerPolicy: static", "memoryManagerPolicy", "featureGates: {MemoryManager: false}\nmemoryManagerPolicy: static"),
    ("qos-reserved-percentage", 36, "qosReserved: {memory: '50'}", "qosReserved.memory", "qosReserved: {memory: +50%}"),
    ("qos-reserved-percentage", 21, "qosReserved: {memory: 5.5%}", "qosReserved.memory", "qosReserved: {memory: 100%}"),
    ("qos-reserved-resource", 36, "qosReserved: {cpu: 50%}", "qosReserved.cpu", "qosReserved: {memory: 50%}"),
    ("reserved-quantity", 36, "kubeReserved: {memory: '-1'}", "kubeReserved.memory", "kubeReserved: {memory: '0'}"),
    ("reserved-quantity", 21, "systemReserved: {cpu: x}", "systemReserved.cpu", "systemReserved: {cpu: x}\nreservedSystemCPUs: 0-1"),
    ("reserved-resource", 36, "systemReserved: {hugepages-2Mi: 1Gi}", "systemReserved.hugepages-2Mi", "systemReserved: {ephemeral-storage: 1Gi, pid: '100'}"),
    ("sync-frequency", 36, "syncFrequency: -1ns", "syncFrequency", "syncFrequency: 0s"),
    ("tls-cipher-suite", 36, "tlsCipherSuites: [TLS_AES_128_GCM_SHA265]", "tlsCipherSuites[0]", "tlsCipherSuites: [TLS_AES_128_GCM_SHA256]"),
    ("tls-cipher-suite", 18, "tlsCipherSuites: [TLS_AES_128_GCM_SHA256]", "tlsCipherSuites[0]", "tlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA]"),
    ("tls-curve", 36, "tlsCurvePreferences: [29, 16]", "tlsCurvePreferences[1]", "tlsCurvePreferences: [29, 4588]"),
    ("tls-curve", 36, "tlsCurvePreferences: [23, 29, 23]", "tlsCurvePreferences[2]", "tlsCurvePreferences: [23, 29]"),
    ("tls-min-version", 36, "tlsMinVersion: TLS12", "tlsMinVersion", "tlsMinVersion: VersionTLS12"),
    ("tls-min-version", 16, "tlsMinVersion: '1.2'", "tlsMinVersion", "tlsMinVersion: ''"),
    ("topology-manager-option", 36, "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '7'}", "topologyManagerPolicyOptions.max-allowable-numa-nodes", "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '8'}"),
    ("topology-manager-option", 36, "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {bogus: x}", "topologyManagerPolicyOptions.bogus", "topologyManagerPolicyOptions: {bogus: x}"),
    ("topology-manager-option", 28, "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '8'}", "topologyManagerPolicyOptions.max-allowable-numa-nodes", "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}"),
    ("topology-manager-options-gate", 26, "topologyManagerPolicyOptions: {}", "topologyManagerPolicyOptions", "featureGates: {TopologyManagerPolicyOptions: true}\ntopologyManagerPolicyOptions: {}"),
    ("topology-manager-policy-name", 18, "topologyManagerPolicy: Restricted", "topologyManagerPolicy", "topologyManagerPolicy: restricted"),
    ("unsafe-sysctl-form", 36, "allowedUnsafeSysctls: ['']", "allowedUnsafeSysctls[0]", "allowedUnsafeSysctls: [net.*]"),
    ("unsafe-sysctl-form", 21, "allowedUnsafeSysctls: [net/core/somaxconn]", "allowedUnsafeSysctls[0]", "allowedUnsafeSysctls: [net.core.somaxconn]"),
    ("unsafe-sysctl-form", 36, "allowedUnsafeSysctls: [net.core.*.x, net.Core]", "allowedUnsafeSysctls[1]", "allowedUnsafeSysctls: [net/ipv4/conf/eno2.100/rp_filter]"),
    ("unsafe-sysctl-namespace", 36, "allowedUnsafeSysctls: [net.core.somaxconn, vm.swappiness]", "allowedUnsafeSysctls[1]", "allowedUnsafeSysctls: [kernel.shm*, fs.mqueue.*, kernel.sem]"),
    ("unsafe-sysctl-namespace", 29, "allowedUnsafeSysctls: [kernel.shm_next_id]", "allowedUnsafeSysctls[0]", "allowedUnsafeSysctls: [kernel.shm_rmid_forced]"),
    ("unsafe-sysctl-namespace", 28, "allowedUnsafeSysctls: [kernel.*]", "allowedUnsafeSysctls[0]", "allowedUnsafeSysctls: [kernel.shm_next_id]"),
];

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
        ("containerLogMaxFiles: 1", "containerLogMaxFiles", 24..=32),
        ("tlsCurvePreferences: [1]", "tlsCurvePreferences[0]", 36..=NEWEST.0),
        ("tlsCipherSuites: [TLS_AES_256_GCM_SHA384]", "tlsCipherSuites[0]", 16..=18),
        ("allowedUnsafeSysctls: [net/core/somaxconn]", "allowedUnsafeSysctls[0]", 16..=22),
        ("memoryManagerPolicy: none", "memoryManagerPolicy", 21..=NEWEST.0),
        ("cpuManagerPolicyOptions: {full-pcpus-only: 'true'}", "cpuManagerPolicyOptions", 22..=NEWEST.0),
        ("cpuManagerPolicy: stat", "cpuManagerPolicy", 16..=NEWEST.0),
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
