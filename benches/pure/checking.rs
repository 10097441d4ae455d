//! Benchmark of verdicts on 1,000 rendered configurations with 100 fields each.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput};
use kubelet_config::Minor;
use kubelet_config::document::{Document, Node, Value};
use kubelet_config::effective::{ConfigDir, FolderEntry};
use kubelet_config::finding::Strictness;
use kubelet_config::verdict::assess;
use nodecfg_agent::host::process::KubeletProcess;
use nodecfg_agent::proof::{KubeletFiles, compare};
use nodecfg_fleet::check_file;

const CONFIGURATIONS: usize = 1_000;

pub fn checking(criterion: &mut Criterion) {
    let texts: Vec<String> = (0..CONFIGURATIONS).map(configuration).collect();
    let documents: Vec<Document> =
        texts.iter().map(|text| Document::parse("kubelet.yaml", text).document.unwrap()).collect();
    for document in &documents {
        assert_eq!(fields(&document.root), 100);
        assert!(assess(document, Minor(36)).runs(), "{:?}", assess(document, Minor(36)));
    }

    let mut group = criterion.benchmark_group("1,000 configurations of 100 fields");
    group.sample_size(20).throughput(Throughput::Elements(u64::try_from(CONFIGURATIONS).unwrap()));
    group.bench_function("assess for one version", |bencher| {
        bencher.iter(|| documents.iter().filter(|document| black_box(assess(document, Minor(36))).runs()).count());
    });
    group.bench_function("parse and assess for one version", |bencher| {
        bencher.iter(|| {
            let run = |text: &&String| {
                let document = Document::parse("kubelet.yaml", text).document;
                document.is_some_and(|document| assess(&document, Minor(36)).runs())
            };
            texts.iter().filter(run).count()
        });
    });
    group.finish();

    proof(criterion, &texts[0]);

    // A file that is made to be slow.
    let gates: String = (0..40_000).map(|index| format!("  Gate{index}: true\n")).collect();
    let hostile =
        format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates:\n{gates}");
    let mut group = criterion.benchmark_group("40,000 unknown gates");
    group.sample_size(10);
    group.bench_function("check for one version", |bencher| {
        bencher.iter(|| check_file("kubelet.yaml", &hostile, &[Minor(36)], Strictness::Strict).findings.len());
    });
    group.finish();
}

/// What an agent compares for each report: a large configuration, ten drop-ins and 60 flags.
fn proof(criterion: &mut Criterion, text: &str) {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let drop_in =
        |at: usize| (format!("{at:02}.conf"), FolderEntry::File(format!("{head}podPidsLimit: {}\n", 100 + at)));
    let root = Some(FolderEntry::Folder((0..10).map(drop_in).collect()));
    let files = KubeletFiles {
        config: Some(("/var/lib/kubelet/config.yaml".to_owned(), text.to_owned())),
        config_dir: Some(ConfigDir { path: "/etc/kubelet.d".to_owned(), root }),
        changed_at: None,
        drop_in: None,
    };
    let labels: String = (0..58).map(|at| format!("example.com/label-{at}=a,")).collect();
    let flags = labels.split_inclusive(',').map(|label| format!("--node-labels={}", label.trim_end_matches(',')));
    let arguments = flags.chain(["--max-pods=60".to_owned(), "--registry-qps=9".to_owned()]).collect();
    let process = KubeletProcess { arguments, started: 1_000, pid: 7 };
    let compared = || compare(Some(text), &files, &process, Minor(36)).unwrap();
    assert!(compared().overridden.len() >= 3, "{:?}", compared());
    let mut group = criterion.benchmark_group("an agent");
    group.bench_function("comparison of a report", |bencher| bencher.iter(|| black_box(compared())));
    group.finish();
}

/// Number of scalar values.
fn fields(node: &Node) -> usize {
    match &node.value {
        Value::Scalar(_) => 1,
        Value::Sequence(items) => items.iter().map(fields).sum(),
        Value::Mapping(map) => map.values().map(|entry| fields(&entry.value)).sum(),
    }
}

/// Valid configuration for kubelet 1.36, different for each index.
fn configuration(at: usize) -> String {
    let mut text = String::from(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 0.0.0.0
allowedUnsafeSysctls: [net.core.somaxconn, kernel.msg*]
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true, cacheTTL: 2m}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m, cacheUnauthorizedTTL: 30s}}
cgroupDriver: systemd
cgroupsPerQOS: true
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
configMapAndSecretChangeDetectionStrategy: Watch
containerLogMaxFiles: 5
containerLogMaxSize: 50Mi
containerLogMaxWorkers: 2
containerLogMonitorInterval: 10s
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
contentType: application/vnd.kubernetes.protobuf
cpuCFSQuota: true
cpuCFSQuotaPeriod: 100ms
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: 'true'}
cpuManagerReconcilePeriod: 10s
enableContentionProfiling: false
enableControllerAttachDetach: true
enableDebugFlagsHandler: true
enableDebuggingHandlers: true
enableProfilingHandler: true
enableServer: true
enableSystemLogHandler: true
enforceNodeAllocatable: [pods]
eventBurst: 100
eventRecordQPS: 50
evictionHard: {memory.available: 500Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, imagefs.available: 15%, imagefs.inodesFree: 5%}
evictionSoft: {memory.available: 1Gi}
evictionSoftGracePeriod: {memory.available: 1m30s}
evictionMinimumReclaim: {memory.available: 100Mi, nodefs.available: 1%}
evictionMaxPodGracePeriod: 60
evictionPressureTransitionPeriod: 5m
failSwapOn: true
featureGates: {CPUManagerPolicyAlphaOptions: true, MemoryQoS: false}
fileCheckFrequency: 20s
hairpinMode: promiscuous-bridge
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 20s
imageGCHighThresholdPercent: 85
imageGCLowThresholdPercent: 80
imageMinimumGCAge: 2m
imageMaximumGCAge: 240h
kubeAPIBurst: 100
kubeAPIQPS: 50
kubeReserved: {cpu: 200m, memory: 1Gi, ephemeral-storage: 2Gi}
logging: {format: text, flushFrequency: 5s, verbosity: 2}
makeIPTablesUtilChains: true
maxOpenFiles: 1000000
memoryManagerPolicy: None
memorySwap: {swapBehavior: NoSwap}
nodeLeaseDurationSeconds: 40
nodeStatusMaxImages: 50
nodeStatusReportFrequency: 5m
nodeStatusUpdateFrequency: 10s
oomScoreAdj: -999
podPidsLimit: 4096
podsPerCore: 0
port: 10250
protectKernelDefaults: true
readOnlyPort: 0
registerNode: true
registerWithTaints: [{key: example.com/dedicated, value: batch, effect: NoSchedule}]
registryBurst: 10
registryPullQPS: 5
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 2m
seccompDefault: true
serializeImagePulls: false
serverTLSBootstrap: true
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 4h
syncFrequency: 1m
volumeStatsAggPeriod: 1m
",
    );
    let _ = writeln!(text, "maxPods: {}", 100 + at % 150);
    text
}
