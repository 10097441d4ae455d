//! Examples of files and repositories with findings that no rule of the kubelet and no advice covers.

use super::Example;

const POOL: &str = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: gpu}\n";
const FLEET: &str = "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: prod}\n";

/// Fields of a KubeletConfiguration, for kubelet 1.36.
const FIELDS: &[&str] = &[
    "maxPod: 10",
    "MaxPods: 10",
    "clientCAFile: /ca.crt",
    "memory.available: 200Mi",
    "evictionHard:\nnodefs.available: 10%",
    "evictionHard: {nodefs.available: 10}",
    "evictionHard: {nodefs.available: 500}",
    "evictionHard: {pid.available: 500}",
    "evictionHard: {memory.available: 500MB}",
    "evictionSoftGracePeriod: {memory.available: 90}\nevictionSoft: {memory.available: 1Gi}",
    "evictionMinimumReclaim: {nodefs.available: 5}",
    "kubeReserved: {memory: 512}",
    "kubeReserved: {memory: 1GB}",
    "kubeReserved: {cpu: 1}",
    "kubeReserved: {memory: 1g, ephemeral-storage: 10gib}",
    "containerLogMaxSize: 10mb",
    "reservedMemory: [{numaNode: 0, limits: {memory: 1GB}}]",
    "maxPods: '110'",
    "maxPods: 110.5",
    "maxPods: many",
    "failSwapOn: 'false'",
    "failSwapOn: no",
    "clusterDomain: yes",
    "clusterDNS: 10.96.0.10",
    "authentication: []",
    "syncFrequency: 10",
    "syncFrequency: '10'",
    "syncFrequency: 1d",
    "syncFrequency: 1min",
    "maxPods: 10\nmaxPods: 11",
    "featureGates: {CPUManagr: true}",
    "featureGates: {NodeSwap: 'true'}",
    "featureGates: [NodeSwap]",
    "featureGates: {DynamicKubeletConfig: true}",
    "1: 2",
    "podLogDirs: /var/log/pods",
    "tlsCipherSuites: TLS_AES_128_GCM_SHA256",
    "authorization: {mode: Webhok}",
    "logging: {verbosty: 3}",
    "x: &x {a: *x}",
    "<<: 5",
    "staticPodURLHeader: {X-Token: 5}",
    "memoryThrottlingFactor: .inf",
    "featureGates: {NodeSwap: false}",
    "maxPods: 3000000000",
    "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: now}]",
    "podLogsDir: !!binary YQ==",
    "dynamicConfigDir: /var/lib/kubelet",
    "clusterDNS: '10.96.0.10, 10.96.0.11'",
    "containerLogMaxSize: 50m",
    "featureGates: MemoryQoS=true",
    "kubeReserved: 'cpu=500m,memory=1Gi'",
    "evictionHard: memory.available<500Mi",
    "authorization: Webhook",
    "authentication: {anonymous: false}",
    "spec: {maxPods: 20}",
    "tlsCurvePreferences: 29",
];

/// Whole files, for kubelet 1.36.
const FILES: &[&str] = &[
    "",
    "maxPods: [\n",
    "apiVersion: v1\nkind: Pod\n",
    "kind: KubeletConfiguration\n",
    "apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n",
    "maxPods: 5\n",
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nauthentication:\n  x509:\n    clientCAFile: /ca\n   webhook: {}\n",
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard:\n\tmemory.available: 5%\n",
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n---\na: b\n",
    "{\"maxPods\": 5,}\n",
    "- a\n",
];

/// The file pool.yaml of the pool `gpu` after its header.
const POOLS: &[&str] = &[
    "spec: {rollout: {maxUnavailable: 0}}",
    "spec: {rollout: {maxUnavailable: 150%}}",
    "spec: {rollout: {maxUnavailable: [1]}}",
    "spec: {rollout: {convergenceTimeout: 10}}",
    "spec: {rollout: {convergenceTimeout: 1d}}",
    "spec: {rollout: {convergenceTimeout: 0s}}",
    "spec: {rollout: {maxFailures: -1}}",
    "spec: {rollout: {paused: 'yes'}}",
    "spec: {rollout: {paused: 'true'}}",
    "spec: {rollout: {canary: {soak: 5}}}",
    "spec: {rollout: {allowDisruption: drian}}",
    "spec: {rollout: {allowDisruption: everything}}",
    "spec: {rollout: {outsideWindows: drian}}",
    "spec: {rollout: {after: [cpu]}}",
    "spec: {rollout: {after: [gpu]}}",
    "spec: {rollout: {after: [No Name]}}",
    "spec: {rollout: {windows: {start: Sat 22:00}}}",
    "spec: {rollout: {windows: [{}]}}",
    "spec: {rollout: {windows: [{start: Sat 22:00, length: 6h}]}}",
    "spec: {rollout: {windows: [{start: sat 22:00, length: 6h, timeZone: UTC}]}}",
    "spec: {rollout: {windows: [{start: Monday 22:00, length: 6h, timeZone: UTC}]}}",
    "spec: {rollout: {windows: [{start: Sat 10pm, length: 6h, timeZone: UTC}]}}",
    "spec: {rollout: {windows: [{start: '24:00', length: 6h, timeZone: UTC}]}}",
    "spec: {rollout: {windows: [{start: Sat 22:00, length: 0s, timeZone: UTC}]}}",
    "spec: {rollout: {windows: [{start: Sat 22:00, length: 169h, timeZone: UTC}]}}",
    "spec: {rollout: {windows: [{start: Sat 22:00, length: 6h, timeZone: Europe/Berlni}]}}",
    "spec: {rollout: {windows: [{start: Sat 22:00, length: 6h, timeZone: Somewhere over the rainbow}]}}",
    "spec: {rollout: {windows: [{start: Sat 22:00, length: 4m, timeZone: UTC}]}}",
    "spec: {rollout: {exclusions: [{from: 2026-12-18, to: 2027-01-04T00:00:00Z, reason: freeze}]}}",
    "spec: {rollout: {exclusions: [{from: 2026-12-18T00:00:00Z, to: 2026-12-18T00:00:00Z, reason: freeze}]}}",
    "spec: {rollout: {exclusions: [{from: 2026-12-18T00:00:00Z, to: 2027-01-04T00:00:00Z, reason: ''}]}}",
    "spec: {rollout: {exclusions: [{from: 2026-12-18T00:00:00Z, to: 2027-01-04T00:00:00Z}]}}",
    "spec: {rolout: {paused: true}}",
    "spec: {rollout: {gates: [{name: a, prometheus: {query: b}}]}}",
    "spec: {rollout: {gates: [{name: a, prometheus: {query: b, present: ''}}]}}",
    "spec: {rollout: {gates: [{name: A b, prometheus: {query: b, present: c, baseline: used}}]}}",
    "spec: {rollout: {gates: [{name: a, at: [strat], patience: 10, prometheus: {query: b, present: c}}]}}",
    "spec: {rollout: {gates: [{prometheus: {query: b, present: c}}]}}",
    "spec: {rollout: {gates: [{name: a, 'on': [start], prometheus: {query: b, present: c}}]}}",
    "spec: {rollout: {gates: [{name: a, object: {kind: pod, namespace: B, name: c, condition: Ready}}]}}",
    "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: c, jsonPath: .a=b}}]}}",
    "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: c, jsonPath: '{.status.conditions[?(@.type==\"Ready\")].status}=True'}}]}}",
    "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Pod, name: c}}]}}",
    "spec: {rollout: {gates: [{name: a, object: {apiVersion: v1, kind: Secret, name: c, condition: A=True}}]}}",
    "spec: {rollout: {gates: [{name: a, prometheus: {query: b, present: c}}, {name: a, prometheus: {query: b, present: c}}]}}",
    "spec: {kubernetesVersion: 1.30}",
    "spec: {kubernetesVersion: '1.99'}",
    "spec: {kubernetesVersion: []}",
    "spec: {nodeSelector: {matchLabels: {gpu: true}}}",
    "spec: {nodeSelector: {gpu: 'true'}}",
    "spec: {nodeSelector: null}",
    "spec: {nodeSelector: {}}",
    "spec: {nodeSelector: {matchLabels: {}}}",
    "spec: {nodeSelector: {matchLabels: {a b: c}}}",
    "spec: {nodeSelector: {matchLabels: {a: b c}}}",
    "spec: {nodeSelector: {matchExpressions: [{key: a, operator: in, values: [b]}]}}",
    "spec: {nodeSelector: {matchExpressions: [{key: a, operator: In}]}}",
    "spec: {nodeSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}",
    "spec: {nodeSelector: {matchExpressions: [{operator: Exists}]}}",
    "spec: {priority: high}",
    "spec: {maxUnavailable: 1}",
    "spec: {rollout: {maxUnavailable: '2'}}",
    "spec: {rollout: {paused: on}}",
    "spec: {base: ../../base/kubelet.yaml}",
    "spec: {kubelet: {base: /base/kubelet.yaml}}",
    "spec: {kubelet: {base: ../../../base/kubelet.yaml}}",
    "spec: {kubelet: {base: ../../base/kublet.yaml}}",
    "spec: {kubelet: {base: base/kubelet.yaml}}",
    "spec: {kubelet: {patches: [missing.yaml]}}",
    "spec: {kubelet: {patches: kubelet.yaml}}",
    "spec: {kubelet: {local: 'true'}}",
    "spec: {kubelet: {reserve: {}}}",
    "spec: {kubelet: {reserve: {preset: gkee}}}",
    "spec: {kubelet: {reserve: {preset: gke, kubeReserved: {cpu: {base: 1}}}}}",
    "spec: {kubelet: {reserve: {preset: gke, roundTo: {memory: 0}}}}",
    "spec: {kubelet: {reserve: {kubeReserved: {memory: {base: [1], perPod: 1Mi}}}}}",
    "spec: {kubelet: {reserve: {kubeReserved: {memory: {base: -1}}}}}",
    "spec: {kubelet: {reserve: {kubeReserved: {cpu: {tiers: [{next: 1, percent: 1}]}}}}}",
    "spec: {kubelet: {reserve: {kubeReserved: {cpu: {tiers: [{first: 1}]}}}}}",
    "spec: {kubelet: {reserve: {kubeReserved: {cpu: {tiers: [{percent: 200}]}}}}}",
    "spec: {kubelet: {reserve: {kubeReserved: {cpu: {atMost: 200%}}}}}",
];

/// Patches of the pool `gpu`.
const PATCHES: &[&str] = &[
    "maxPod: 5\n",
    "5\n",
    "- {op: replac, path: /maxPods, value: 5}\n",
    "- {op: replace, path: maxPods, value: 5}\n",
    "- {op: replace, path: /maxPods}\n",
    "- {op: replace, value: 5}\n",
    "- {op: replace, path: /podPidsLimit, value: 5}\n",
    "- {op: test, path: /maxPods, value: 5}\n",
    "- {op: remove, path: /maxPods, value: 5}\n",
    "- {op: replace, path: /maxPods, value: '5'}\n",
    "- {op: add, path: /maxPds, value: 5}\n",
];

pub fn all() -> impl Iterator<Item = Example> {
    let fields = FIELDS.iter().map(|fields| Example::of_fields(fields, 36));
    let files = FILES.iter().map(|text| Example::of_file(text, 36));
    let pools = POOLS.iter().map(|spec| {
        let pool = format!("{POOL}{spec}\n");
        Example::of_repository(&[
            ("base/kubelet.yaml", "HEAD\nmaxPods: 60\n"),
            ("pools/gpu/pool.yaml", &pool),
            ("pools/gpu/kubelet.yaml", "HEAD\nmaxPods: 50\n"),
        ])
    });
    let patches = PATCHES.iter().map(|patch| {
        let pool = format!("{POOL}spec: {{kubelet: {{patches: [patch.yaml]}}}}\n");
        Example::of_repository(&[
            ("pools/gpu/pool.yaml", &pool),
            ("pools/gpu/kubelet.yaml", "HEAD\nmaxPods: 50\n"),
            ("pools/gpu/patch.yaml", patch),
        ])
    });
    fields.chain(files).chain(pools).chain(patches).chain(repositories())
}

/// A pool that computes reservations, with these fields.
fn reserving(fields: &str) -> Example {
    Example::of_repository(&[
        ("pools/gpu/pool.yaml", &format!("{POOL}spec: {{kubelet: {{reserve: {{preset: gke}}}}}}\n")),
        ("pools/gpu/kubelet.yaml", &format!("HEAD\n{fields}")),
    ])
}

fn repositories() -> impl Iterator<Item = Example> {
    const KUBELET: (&str, &str) = ("pools/gpu/kubelet.yaml", "HEAD\nmaxPods: 50\n");
    let cpu = POOL.replace("gpu", "cpu");
    let local = format!("{POOL}spec: {{kubelet: {{local: true, base: ../../base/kubelet.yaml}}}}\n");
    let selector = "spec: {nodeSelector: {matchLabels: {a: b}}}\n";
    let (one, other) = (format!("{POOL}{selector}"), format!("{cpu}{selector}"));
    [
        Example::of_repository(&[("nodecfg.yaml", FLEET)]),
        Example::of_repository(&[("nodecfg.yaml", &FLEET.replace("prod", "Prod")), KUBELET]),
        Example::of_repository(&[("nodecfg.yaml", &FLEET.replace("Fleet", "Flet")), KUBELET]),
        Example::of_repository(&[("nodecfg.yaml", &FLEET.replace("v1alpha1", "v1")), KUBELET]),
        Example::of_repository(&[("nodecfg.yaml", "kind: Fleet\n"), KUBELET]),
        Example::of_repository(&[("nodecfg.yaml", &format!("{FLEET}spec: {{namespace: Kube_System}}\n")), KUBELET]),
        Example::of_repository(&[("nodecfg.yml", FLEET), KUBELET]),
        Example::of_repository(&[("pools/gpu/pool.yaml", &cpu), KUBELET]),
        Example::of_repository(&[("pools/gpu/pool.yml", POOL), KUBELET]),
        Example::of_repository(&[("pools/gpu/pool.yaml", POOL)]),
        Example::of_repository(&[("pools/gpu/pool.yaml", POOL), ("pools/gpu/kubelet.yml", "HEAD\n")]),
        Example::of_repository(&[("pools/gpu/tuning.yaml", "maxPods: 5\n"), KUBELET]),
        Example::of_repository(&[("pools/tuning.yaml", "maxPods: 5\n"), KUBELET]),
        Example::of_repository(&[("base/kubelet.yaml", "HEAD\n"), KUBELET]),
        Example::of_repository(&[("pools/GPU_1/kubelet.yaml", "HEAD\n"), ("base/kubelet.yaml", "HEAD\n")]),
        Example::of_repository(&[("base/kubelet.yaml", "HEAD\n"), ("pools/gpu/pool.yaml", &local)]),
        Example::of_repository(&[
            ("pools/gpu/pool.yaml", &one),
            KUBELET,
            ("pools/cpu/pool.yaml", &other),
            ("pools/cpu/kubelet.yaml", "HEAD\n"),
        ]),
        Example::of_repository(&[("pools/gpu/kubelet.yaml", "maxPods: 5\n")]),
        reserving("kubeReserved: {cpu: 100m, pid: '1000'}\n"),
        reserving("localStorageCapacityIsolation: false\n"),
        reserving("enforceNodeAllocatable: []\n"),
        reserving("memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 2762Mi}}]\n"),
        Example::of_repository(&[
            (
                "pools/gpu/pool.yaml",
                &format!("{POOL}spec: {{kubelet: {{reserve: {{preset: eks}}, patches: [patch.yaml]}}}}\n"),
            ),
            ("pools/gpu/kubelet.yaml", "HEAD\n"),
            ("pools/gpu/patch.yaml", "kubeReserved: {cpu: 1}\n"),
        ]),
    ]
    .into_iter()
}
