//! Tests of advice: for each code an example and a similar configuration without the finding, and properties of all
//! findings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::{review, table};
use crate::Minor;
use crate::document::Document;
use crate::finding::Finding;
use crate::verdict::assess;

/// Code, versions, a configuration with the finding, and one without.
type Example = (&'static str, &'static [u32], &'static str, &'static str);

const EXAMPLES: &[Example] = &[
    ("address-not-ip", &[21, 36], "address: node-1", "address: fd00::1"),
    ("always-allow", &[36], "authorization: {mode: AlwaysAllow}", "authorization: {mode: Webhook}"),
    (
        "anonymous-requests",
        &[36],
        "authentication: {anonymous: {enabled: true}}",
        "authentication: {anonymous: {enabled: false}}",
    ),
    (
        "cfs-period-unused",
        &[36],
        "cpuCFSQuota: false\ncpuCFSQuotaPeriod: 50ms",
        "cpuCFSQuota: true\ncpuCFSQuotaPeriod: 50ms",
    ),
    ("cgroup-driver-cgroupfs", &[21], "cgroupDriver: cgroupfs", "cgroupDriver: systemd"),
    ("cgroup-driver-unknown", &[21, 36], "cgroupDriver: Systemd", "cgroupDriver: systemd"),
    (
        "cipher-suites-unused",
        &[36],
        "tlsMinVersion: VersionTLS13\ntlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]",
        "tlsMinVersion: VersionTLS12\ntlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]",
    ),
    (
        "cluster-dns-missing",
        &[36],
        "clusterDomain: cluster.local",
        "clusterDomain: cluster.local\nclusterDNS: [10.96.0.10]",
    ),
    (
        "cluster-dns-not-ip",
        &[36],
        "clusterDomain: cluster.local\nclusterDNS: [10.96.0.10, kube-dns]",
        "clusterDomain: cluster.local\nclusterDNS: [10.96.0.10, 'fd00::a']",
    ),
    (
        "cluster-dns-too-many",
        &[36],
        "clusterDomain: a\nclusterDNS: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4]",
        "clusterDomain: a\nclusterDNS: [10.0.0.1, 10.0.0.2, 10.0.0.3]",
    ),
    (
        "cluster-domain-missing",
        &[36],
        "clusterDNS: [10.96.0.10]",
        "clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local",
    ),
    (
        "cpu-reconcile-unused",
        &[36],
        "cpuManagerReconcilePeriod: 5s",
        "cpuManagerReconcilePeriod: 5s\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'",
    ),
    ("default-changes-next", &[34], "maxPods: 50", "failCgroupV1: false"),
    ("deprecated-field", &[28, 36], "iptablesDropBit: 16", "makeIPTablesUtilChains: true"),
    ("deprecated-next", &[33], "streamingConnectionIdleTimeout: 1h", "streamingConnectionIdleTimeout: 0s"),
    ("dropped-next", &[23], "logging: {sanitization: true}", "logging: {format: json}"),
    (
        "enforced-without-reservation",
        &[36],
        "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube",
        "enforceNodeAllocatable: [pods, kube-reserved]\nkubeReservedCgroup: /kube\nkubeReserved: {cpu: 100m}",
    ),
    ("equals-default", &[21, 36], "maxPods: 110", "maxPods: 111"),
    ("event-rate-zero", &[36], "eventRecordQPS: 0", "eventRecordQPS: 5"),
    (
        "eviction-defaults-lost",
        &[21, 33],
        "evictionHard: {memory.available: 500Mi}",
        "evictionHard: {memory.available: 500Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}",
    ),
    ("eviction-hard-empty", &[36], "evictionHard: {}", "evictionHard: null"),
    (
        "eviction-image-defaults-lost",
        &[36],
        "evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}",
        "evictionHard: {memory.available: 100Mi}\nmergeDefaultEvictionSettings: true",
    ),
    (
        "eviction-percent-high",
        &[36],
        "evictionHard: {nodefs.available: 90%}\nmergeDefaultEvictionSettings: true",
        "evictionHard: {nodefs.available: 100%}\nmergeDefaultEvictionSettings: true",
    ),
    ("gate-alpha", &[36], "featureGates: {MemoryQoS: true}", "featureGates: {ContainerCheckpoint: false}"),
    (
        "gate-deprecated",
        &[36],
        "featureGates: {KubeletPodResourcesListUseActivePods: false}",
        "featureGates: {KubeletPodResourcesListUseActivePods: true}",
    ),
    (
        "gate-equals-default",
        &[21, 36],
        "featureGates: {RotateKubeletServerCertificate: true}",
        "featureGates: {RotateKubeletServerCertificate: false}",
    ),
    ("gate-locked", &[36], "featureGates: {NodeSwap: true}", "featureGates: {ContainerCheckpoint: true}"),
    (
        "gate-of-other-components",
        &[36],
        "featureGates: {APIServerIdentity: false}",
        "featureGates: {WatchListClient: false}",
    ),
    (
        "gate-soon-locked",
        &[36],
        "featureGates: {CustomCPUCFSQuotaPeriod: false}",
        "featureGates: {CustomCPUCFSQuotaPeriod: true}",
    ),
    ("gates-wholesale", &[21, 36], "featureGates: {AllAlpha: true}", "featureGates: {AllAlpha: false}"),
    ("gate-off", &[36], "memoryThrottlingFactor: 0.8", "memoryThrottlingFactor: 0.9"),
    (
        "grace-without-threshold",
        &[36],
        "evictionSoftGracePeriod: {memory.available: 1m}",
        "evictionSoftGracePeriod: {memory.available: 1m}\nevictionSoft: {memory.available: 200Mi}",
    ),
    ("half-a-certificate", &[36], "tlsCertFile: /a.crt", "tlsCertFile: /a.crt\ntlsPrivateKeyFile: /a.key"),
    ("image-gc-after-eviction", &[36], "imageGCHighThresholdPercent: 90", "imageGCHighThresholdPercent: 84"),
    ("kube-api-rate-zero", &[36], "kubeAPIQPS: 0", "kubeAPIQPS: 10"),
    ("lease-too-long", &[31], "nodeLeaseDurationSeconds: 160", "nodeLeaseDurationSeconds: 100"),
    ("log-rotation-off", &[36], "containerLogMaxSize: -1Mi", "containerLogMaxSize: 1Mi"),
    ("max-pods-over-addresses", &[36], "podCIDR: 10.0.0.0/26", "podCIDR: 10.0.0.0/24"),
    ("next-version", &[36], "showHiddenMetricsForVersion: '1.35'", "maxPods: 20"),
    (
        "nobody-authenticates",
        &[36],
        "authentication: {webhook: {enabled: false}}",
        "authentication: {webhook: {enabled: false}, x509: {clientCAFile: /ca.crt}}",
    ),
    (
        "open-to-everyone",
        &[36],
        "authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}",
        "authentication: {anonymous: {enabled: true}}",
    ),
    ("outdated-tls", &[36], "tlsMinVersion: VersionTLS10", "tlsMinVersion: VersionTLS12"),
    ("pod-cidr-standalone", &[36], "podCIDR: 10.0.0.0/24", "maxPods: 20"),
    (
        "pod-grace-unused",
        &[36],
        "evictionMaxPodGracePeriod: 30",
        "evictionMaxPodGracePeriod: 30\nevictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}",
    ),
    ("port-twice", &[36], "readOnlyPort: 10250", "readOnlyPort: 10255"),
    (
        "pulls-still-serial",
        &[36],
        "serializeImagePulls: false\nmaxParallelImagePulls: 1",
        "serializeImagePulls: false\nmaxParallelImagePulls: 2",
    ),
    ("open-read-only-port", &[36], "readOnlyPort: 10255", "readOnlyPort: 0"),
    (
        "reclaim-without-threshold",
        &[36],
        "evictionMinimumReclaim: {pid.available: '100'}",
        "evictionMinimumReclaim: {nodefs.available: 1Gi}",
    ),
    ("registry-burst-unused", &[36], "registryPullQPS: 0\nregistryBurst: 20", "registryPullQPS: 5\nregistryBurst: 20"),
    (
        "report-before-update",
        &[36],
        "nodeStatusReportFrequency: 5s\nnodeStatusUpdateFrequency: 10s",
        "nodeStatusReportFrequency: 1m\nnodeStatusUpdateFrequency: 10s",
    ),
    (
        "report-follows-update",
        &[36],
        "nodeStatusUpdateFrequency: 10s",
        "nodeStatusUpdateFrequency: 10s\nnodeStatusReportFrequency: 5m",
    ),
    (
        "reservation-not-enforced",
        &[36],
        "kubeReserved: {memory: 1Gi}",
        "kubeReserved: {memory: 1Gi}\nenforceNodeAllocatable: [pods, kube-reserved-compressible]\nkubeReservedCgroup: /kube",
    ),
    (
        "reserved-cgroup-unused",
        &[21, 36],
        "systemReservedCgroup: /system",
        "systemReservedCgroup: /system\nsystemReserved: {cpu: 100m}\nenforceNodeAllocatable: [system-reserved]",
    ),
    (
        "reserved-cpu-replaced",
        &[36],
        "reservedSystemCPUs: 0-1\nkubeReserved: {cpu: 100m}",
        "reservedSystemCPUs: 0-1\nkubeReserved: {memory: 100Mi}",
    ),
    (
        "reserved-memory-mismatch",
        &[36],
        "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\nmemoryManagerPolicy: Static",
        "reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\nmemoryManagerPolicy: Static",
    ),
    (
        "reserved-memory-unused",
        &[36],
        "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]",
        "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\nmemoryManagerPolicy: Static\nkubeReserved: {memory: 924Mi}",
    ),
    ("serving-certificate-approval", &[36], "serverTLSBootstrap: true", "serverTLSBootstrap: false"),
    (
        "shutdown-all-critical",
        &[36],
        "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 30s",
        "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s",
    ),
    ("shutdown-none-critical", &[36], "shutdownGracePeriod: 30s", "shutdownGracePeriod: 0s"),
    (
        "soft-below-hard",
        &[36],
        "evictionSoft: {memory.available: 50Mi}\nevictionSoftGracePeriod: {memory.available: 1m}",
        "evictionSoft: {memory.available: 200Mi}\nevictionSoftGracePeriod: {memory.available: 1m}",
    ),
    (
        "soft-eviction-kills-at-once",
        &[36],
        "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}",
        "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\nevictionMaxPodGracePeriod: 60",
    ),
    (
        "split-stream-lost",
        &[36],
        "logging: {options: {text: {splitStream: true}}}",
        "logging: {options: {text: {splitStream: false}}}",
    ),
    (
        "swap-never-used",
        &[36],
        "memorySwap: {swapBehavior: LimitedSwap}",
        "memorySwap: {swapBehavior: LimitedSwap}\nfailSwapOn: false",
    ),
    (
        "taint-twice",
        &[36],
        "registerWithTaints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]",
        "registerWithTaints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}]",
    ),
    (
        "taint-without-effect",
        &[36],
        "registerWithTaints: [{key: a, value: b}]",
        "registerWithTaints: [{key: a, effect: NoSchedule}]",
    ),
    (
        "taints-unused",
        &[36],
        "registerNode: false\nregisterWithTaints: [{key: a, effect: NoSchedule}]",
        "registerWithTaints: [{key: a, effect: NoSchedule}]",
    ),
    ("tiny-amount", &[36], "systemReserved: {memory: 512m, cpu: 1m}", "systemReserved: {memory: 512Mi, cpu: 1m}"),
    (
        "topology-devices-only",
        &[36],
        "topologyManagerPolicy: restricted",
        "topologyManagerPolicy: restricted\ncpuManagerPolicy: static\nkubeReserved: {cpu: '1'}",
    ),
    (
        "topology-options-unused",
        &[36],
        "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}",
        "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}\ntopologyManagerPolicy: best-effort",
    ),
    (
        "topology-scope-unused",
        &[36],
        "topologyManagerScope: pod",
        "topologyManagerScope: pod\ntopologyManagerPolicy: best-effort",
    ),
    (
        "two-serving-certificates",
        &[36],
        "serverTLSBootstrap: true\ntlsCertFile: /a.crt\ntlsPrivateKeyFile: /a.key",
        "serverTLSBootstrap: false\ntlsCertFile: /a.crt\ntlsPrivateKeyFile: /a.key",
    ),
    ("zero-is-unset", &[36], "port: 0", "healthzPort: 0"),
];

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
    for minor in [16, 21, 28, 33, 36, 37] {
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
