//! Tests of configurations by size: rendering, and conflicts with other values.

use std::sync::Arc;

use super::*;
use crate::snapshot::Snapshot;
use crate::{Built, Checks, Kubelets, Pool, build};
use kubelet_config::finding::Severity;
use nodecfg_contract::ContentHash;

const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A repository with one pool of this `spec.kubelet` and these fields.
fn built(spec: &str, fields: &str, more: &[(&str, &str)]) -> Built {
    let pool = format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: gpu}}\nspec:\n  kubernetesVersion: \"1.36\"\n  \
         kubelet: {spec}\n"
    );
    let kubelet = format!("{KUBELET}{fields}");
    let files = [("pools/gpu/pool.yaml", pool.as_str()), ("pools/gpu/kubelet.yaml", kubelet.as_str())];
    build(
        &Snapshot::of_texts(files.into_iter().chain(more.iter().copied())),
        &Checks { kubelets: Kubelets::Declared(Vec::new()), ..Checks::default() },
    )
}

fn codes(built: &Built) -> Vec<(&str, Severity)> {
    // Notes are about the configuration that results.
    let findings = built.findings.iter().filter(|finding| finding.severity != Severity::Note);
    findings.map(|finding| (finding.code, finding.severity)).collect()
}

fn pool(built: Built) -> Pool {
    let findings = built.findings;
    let desired = built.desired.unwrap_or_else(|| panic!("{findings:?}"));
    desired.pools.into_values().next().expect("a pool")
}

fn reserved(pool: &Pool, capacity: (&str, &str)) -> String {
    let of_size = pool.for_node(Capacity::parse(Some(capacity.0), Some(capacity.1), Some("94Gi"))).expect("a size");
    of_size
        .target
        .rendered()
        .expect("a configuration")
        .document
        .root
        .get(FIELD)
        .expect("reserved")
        .to_json()
        .to_string()
}

#[test]
fn each_size_has_its_configuration() {
    let pool = pool(built("{reserve: {preset: gke}}", "maxPods: 110\nkubeReserved: {pid: '1000'}\n", &[]));
    assert_eq!(
        reserved(&pool, ("4", "15996Mi")),
        r#"{"cpu":"80m","ephemeral-storage":"41Gi","memory":"2662Mi","pid":"1000"}"#
    );
    assert_eq!(
        reserved(&pool, ("16", "64Gi")),
        r#"{"cpu":"110m","ephemeral-storage":"41Gi","memory":"5611Mi","pid":"1000"}"#
    );
    let of = |memory| pool.for_node(Capacity::parse(Some("4"), Some(memory), Some("94Gi"))).expect("a size");
    // Machines of one type report slightly different amounts.
    let (one, other) = (of("15996Mi"), of("15990Mi"));
    assert!(one.size == other.size && Arc::ptr_eq(&one.target, &other.target));
    let rendered = one.target.rendered().expect("a configuration");
    assert_eq!(rendered.hash, ContentHash::of(rendered.canonical.as_bytes()));
    assert_eq!(rendered.config_map, format!("default-gpu-{}", rendered.hash.short()));
    assert!(pool.for_node(Capacity::default()).is_none());
}

/// The values have the place of the formula, and patches come after it.
#[test]
fn values_have_the_place_of_the_formula() {
    let patch = ("pools/gpu/patch.yaml", "kubeReserved: {memory: 3Gi}\n");
    let found = built("{reserve: {preset: eks}, patches: [patch.yaml]}", "maxPods: 58\n", &[patch]);
    assert_eq!(codes(&found), [("reserve-patched", Severity::Warning)]);
    let pool = pool(found);
    let root = &pool.rendered().expect("a configuration").document.root;
    assert_eq!(&*root.at("kubeReserved.cpu").expect("a value").place.file, "pools/gpu/pool.yaml");
    assert_eq!(root.at("kubeReserved.memory").expect("a value").to_json(), "3Gi");
    let json = ("pools/gpu/patch.yaml", "[{op: remove, path: /kubeReserved/ephemeral-storage}]\n");
    let without = built("{reserve: {preset: eks}, patches: [patch.yaml]}", "maxPods: 58\n", &[json]);
    assert_eq!(reserved(&self::pool(without), ("2", "8Gi")), r#"{"cpu":"70m","memory":"893Mi"}"#);
}

#[test]
fn conflicts_are_findings() {
    let gke = "{reserve: {preset: gke}}";
    let eks = "{reserve: {preset: eks}}";
    let error = |code| vec![(code, Severity::Error)];
    let warning = |code| vec![(code, Severity::Warning)];
    assert_eq!(codes(&built(gke, "kubeReserved: {cpu: 100m}\n", &[])), error("reserve-conflict"));
    assert!(codes(&built(gke, "reservedSystemCPUs: 0-1\n", &[])).contains(&("reserve-conflict", Severity::Error)));
    assert_eq!(codes(&built(gke, "localStorageCapacityIsolation: false\n", &[])), error("reserve-conflict"));
    assert_eq!(codes(&built(gke, "enforceNodeAllocatable: [none]\n", &[])), warning("reserve-pods-unlimited"));
    assert_eq!(codes(&built(gke, "enforceNodeAllocatable: [pods]\n", &[])), []);
    let numa = "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 2762Mi}}]\n";
    assert!(codes(&built(gke, numa, &[])).contains(&("reserve-conflict", Severity::Error)));
    assert_eq!(codes(&built(eks, "", &[])), warning("reserve-default-pods"));
    assert_eq!(
        codes(&built(
            "{reserve: {preset: eks}, placement: replace}",
            "clusterDNS: [10.0.0.10]\nclusterDomain: cluster.local\n",
            &[]
        )),
        []
    );
    let own =
        ("pools/gpu/own.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 58\n");
    let over = built("{reserve: {preset: eks}, own: own.yaml}", "", &[own]);
    assert_eq!(codes(&over), []);
    assert_eq!(pool(over).targets.sizes().expect("sizes").pods, Pods { most: 58, per_core: 0 });
}

#[test]
fn configurations_are_the_same_if_every_size_is() {
    let of = |spec: &str| pool(built(spec, "maxPods: 58\n", &[])).targets;
    let eks = of("{reserve: {preset: eks}}");
    let (cpu, memory) = (
        "cpu: {tiers: [{first: 1, percent: 6}, {next: 1, percent: 1}, {next: 2, percent: 0.5}, {percent: 0.25}]}",
        "memory: {base: 255Mi, perPod: 11Mi}",
    );
    let written = of(&format!("{{reserve: {{kubeReserved: {{{cpu}, {memory}, ephemeral-storage: {{base: 1Gi}}}}}}}}"));
    assert!(eks.is_same(&written));
    assert!(!eks.is_same(&of("{reserve: {preset: gke}}")));
    let name = FleetName::new("other").expect("a name");
    let moved = eks.in_fleet(&name, &nodecfg_contract::names::PoolName::new("gpu").expect("a name"));
    assert!(eks.is_same(&moved));
    let names = |targets: &crate::PoolTargets| {
        let (_, target) =
            targets.sizes().expect("sizes").of(typical_sizes().next().expect("a size")).expect("a target");
        [targets.typical().rendered(), target.rendered()]
            .map(|found| found.expect("a configuration").config_map.clone())
    };
    assert!(names(&moved).iter().all(|name| name.starts_with("other-gpu-")), "{:?}", names(&moved));
}
