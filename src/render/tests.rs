//! Tests of all formats: bytes, schemas of the consumers, decoding, and hostile values.

use std::collections::BTreeSet;

use kubelet_config::document::Document;
use nodecfg_contract::ContentHash;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Checks, Desired, build};
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::*;

const ALL: [Consumer; 7] = [
    Consumer::File,
    Consumer::DropIn,
    Consumer::CloudInit,
    Consumer::Nodeadm,
    Consumer::KubeadmPatch,
    Consumer::Karpenter,
    Consumer::ClusterApi,
];

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// The desired state of a pool `gpu` with this file.
fn desired(kubelet: &str) -> Desired {
    desired_of(&[("pools/gpu/kubelet.yaml", kubelet)])
}

fn desired_of(files: &[(&str, &str)]) -> Desired {
    let built = build(&Snapshot::of_texts(files.iter().copied()), &Checks::default());
    built.desired.unwrap_or_else(|| panic!("{:#?}", built.findings))
}

fn of_fields(fields: &str) -> Desired {
    desired(&format!("{HEAD}{fields}"))
}

fn subject(desired: &Desired) -> Subject<'_> {
    let pool = desired.pools.values().next().expect("a pool");
    let rendered = pool.rendered().unwrap_or_else(|| panic!("{} is local", pool.name));
    let placement = pool.placement_of_kubelets();
    Subject { fleet: &desired.fleet, pool: &pool.name, rendered, placement, kubelets: &pool.kubelets }
}

fn rendered(subject: &Subject<'_>, consumer: Consumer) -> String {
    render(subject, consumer, &Settings::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// A YAML text as JSON, read alike by a reader of YAML 1.1 (of kubelets) and one of YAML 1.2.
fn decoded(yaml: &str) -> Json {
    let parsed = Document::parse("output.yaml", yaml);
    assert!(parsed.findings.is_empty(), "{:?}\n{yaml}", parsed.findings);
    let json = parsed.document.expect("a document").to_json();
    let other: Json = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    assert_eq!(json, other, "{yaml}");
    json
}

fn text<'j>(json: &'j Json, pointer: &str) -> &'j str {
    json.pointer(pointer).and_then(Json::as_str).unwrap_or_else(|| panic!("{pointer} of {json:#}"))
}

/// The configuration that a node gets from an output, without `apiVersion` and `kind`.
fn carried(consumer: Consumer, output: &str) -> Json {
    let json = decoded(output);
    let config = |json: &Json| json.pointer("/spec/kubelet/config").cloned().expect("a NodeConfig");
    let mut config = match consumer {
        Consumer::File | Consumer::DropIn | Consumer::KubeadmPatch => json,
        Consumer::CloudInit => decoded(text(&json, "/write_files/0/content")),
        Consumer::ClusterApi => decoded(text(&json, "/spec/template/spec/files/0/content")),
        Consumer::Nodeadm => config(&json),
        Consumer::Karpenter => {
            let mut all = json.pointer("/spec/kubelet").cloned().unwrap_or(json!({}));
            if let Some(data) = json.pointer("/spec/userData").and_then(Json::as_str) {
                let others = config(&decoded(data));
                let count = others.as_object().map_or(0, Map::len) + all.as_object().map_or(0, Map::len);
                all.as_object_mut().expect("a map").extend(others.as_object().expect("a map").clone());
                assert_eq!(all.as_object().map(Map::len), Some(count), "a field is stated twice");
            }
            all
        }
    };
    let map = config.as_object_mut().expect("a map");
    let header = [map.remove("apiVersion"), map.remove("kind")];
    if !matches!(consumer, Consumer::Nodeadm | Consumer::Karpenter) {
        assert_eq!(header, [Some(json!("kubelet.config.k8s.io/v1beta1")), Some(json!("KubeletConfiguration"))]);
    }
    config
}

/// Every consumer gets the configuration, and nothing else.
fn assert_carried(desired: &Desired) {
    let subject = subject(desired);
    let wanted = carried(Consumer::File, &subject.rendered.canonical);
    for consumer in ALL {
        let output = rendered(&subject, consumer);
        assert_eq!(carried(consumer, &output), wanted, "{}\n{output}", consumer.as_str());
        assert_eq!(rendered(&subject, consumer), output);
        assert!(output.ends_with('\n') && !output.ends_with("\n\n"), "{output:?}");
        assert!(output.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{output}");
        // No line can end a part of a MIME archive, a YAML document, or be a directive.
        assert!(
            !output.lines().any(|line| line.starts_with(['-', '.', '%']) && !line.starts_with("- path: ")),
            "{output}"
        );
    }
}

const TYPICAL: &str = "\
authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
clusterDNS: [10.96.0.10]
cpuManagerPolicy: static
evictionHard: {memory.available: 5%, nodefs.available: 10%}
featureGates: {NodeSwap: true}
kubeReserved: {cpu: 100m, memory: 1Gi, ephemeral-storage: 1Gi}
maxPods: 64
";

#[test]
fn shows_each_format() {
    let desired = of_fields(TYPICAL);
    for consumer in ALL {
        insta::assert_snapshot!(consumer.as_str(), rendered(&subject(&desired), consumer));
    }
    assert_carried(&desired);
}

#[test]
fn file_has_the_hash_of_the_config_map() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden");
    for name in ["plain", "awkward"] {
        let read = |end: &str| std::fs::read_to_string(golden.join(format!("{name}.{end}"))).expect("a file");
        let fleet = "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: prod-eu}\n";
        let desired = desired_of(&[("nodecfg.yaml", fleet), ("pools/gpu/kubelet.yaml", &read("yaml"))]);
        let subject = subject(&desired);
        let file = rendered(&subject, Consumer::File);
        assert_eq!(file, read("canonical.yaml"));
        // The hash that names the ConfigMap, and its name.
        let found = format!("{}\n{}\n", ContentHash::of(file.as_bytes()), subject.rendered.config_map);
        assert_eq!(found, read("hash"));
        assert_carried(&desired);
    }
}

#[test]
fn output_depends_on_content_only() {
    let one = of_fields(TYPICAL);
    let lines: BTreeSet<&str> = TYPICAL.lines().rev().collect();
    let reordered = format!("# another comment\n{}\n", lines.into_iter().rev().collect::<Vec<_>>().join("\n\n"));
    let mut other = of_fields(&reordered);
    other.commit = nodecfg_contract::names::CommitId::new("0123456789abcdef0123456789abcdef01234567").ok();
    for consumer in ALL {
        assert_eq!(rendered(&subject(&one), consumer), rendered(&subject(&other), consumer));
    }
}

/// Keys that the schema of a consumer has at a place of its document. The first of each row is required.
const SCHEMAS: [(Consumer, &str, &[&str]); 11] = [
    // cloudinit/config/schemas/schema-cloud-config-v1.json, cc_write_files.
    (
        Consumer::CloudInit,
        "/write_files/0",
        &["path", "content", "source", "owner", "permissions", "encoding", "append", "defer"],
    ),
    // awslabs/amazon-eks-ami, nodeadm/api/v1alpha1/nodeconfig_types.go.
    (Consumer::Nodeadm, "", &["apiVersion", "kind", "metadata", "spec"]),
    (Consumer::Nodeadm, "/spec", &["kubelet", "cluster", "containerd", "instance", "featureGates"]),
    (Consumer::Nodeadm, "/spec/kubelet", &["config", "flags", "maxPodsExpression"]),
    // aws/karpenter-provider-aws 1.14, pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml.
    (Consumer::Karpenter, "/spec", &["amiFamily", "kubelet", "userData"]),
    (
        Consumer::Karpenter,
        "/spec/kubelet",
        &[
            "maxPods",
            "clusterDNS",
            "cpuCFSQuota",
            "evictionHard",
            "evictionMaxPodGracePeriod",
            "evictionSoft",
            "evictionSoftGracePeriod",
            "imageGCHighThresholdPercent",
            "imageGCLowThresholdPercent",
            "kubeReserved",
            "podsPerCore",
            "systemReserved",
        ],
    ),
    // kubernetes-sigs/cluster-api, bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates.yaml, v1beta1 and v1beta2.
    (Consumer::ClusterApi, "", &["apiVersion", "kind", "metadata", "spec"]),
    (Consumer::ClusterApi, "/spec/template", &["spec", "metadata"]),
    (Consumer::ClusterApi, "/spec/template/spec", &["files", "joinConfiguration"]),
    (
        Consumer::ClusterApi,
        "/spec/template/spec/files/0",
        &["path", "append", "content", "contentFrom", "encoding", "owner", "permissions"],
    ),
    (Consumer::ClusterApi, "/spec/template/spec/joinConfiguration/patches", &["directory"]),
];

#[test]
fn outputs_fit_the_schemas_of_their_consumers() {
    let every = TYPICAL.to_owned()
        + "cpuCFSQuota: true\nevictionMaxPodGracePeriod: 60\nevictionSoft: {memory.available: 10%}\n\
           evictionSoftGracePeriod: {memory.available: 1m}\nimageGCHighThresholdPercent: 80\n\
           imageGCLowThresholdPercent: 70\npodsPerCore: 4\nsystemReserved: {cpu: 100m}\n";
    let desired = of_fields(&every);
    for (consumer, place, keys) in SCHEMAS {
        let json = decoded(&rendered(&subject(&desired), consumer));
        let map = json.pointer(place).and_then(Json::as_object).unwrap_or_else(|| panic!("{place} of {json:#}"));
        assert!(map.contains_key(keys[0]), "{place} of {json:#}");
        let unknown: Vec<&String> = map.keys().filter(|key| !keys.contains(&key.as_str())).collect();
        assert!(unknown.is_empty(), "{}{place}: {unknown:?}", consumer.as_str());
    }
    let json = |consumer| decoded(&rendered(&subject(&desired), consumer));
    let kubelet = json(Consumer::Karpenter).pointer("/spec/kubelet").and_then(Json::as_object).map(Map::len);
    assert_eq!(kubelet, Some(12), "spec.kubelet has each field");
    for (consumer, file) in
        [(Consumer::CloudInit, "/write_files/0"), (Consumer::ClusterApi, "/spec/template/spec/files/0")]
    {
        // Permissions are an octal number as text, and only root reads the file.
        assert_eq!(text(&json(consumer), &format!("{file}/permissions")), "0600");
        assert_eq!(text(&json(consumer), &format!("{file}/owner")), "root:root");
    }
    assert!(rendered(&subject(&desired), Consumer::CloudInit).starts_with("#cloud-config\n"));
}

/// `target[suffix][+patchtype].extension`, in the folder that kubeadm reads.
#[test]
fn kubeadm_finds_the_patch() {
    let json = decoded(&rendered(&subject(&of_fields(TYPICAL)), Consumer::ClusterApi));
    let path = text(&json, "/spec/template/spec/files/0/path");
    let (folder, name) = path.rsplit_once('/').expect("a folder");
    assert_eq!(text(&json, "/spec/template/spec/joinConfiguration/patches/directory"), folder);
    let rest = name.strip_prefix("kubeletconfiguration").expect("the target");
    let (suffix, end) = rest.split_once('+').expect("a patch type");
    assert_eq!((suffix, end), ("", "merge.yaml"));
}

#[test]
fn cloud_init_writes_the_file_of_the_kubelet() {
    let desired = of_fields(TYPICAL);
    for (file, path) in [
        (NodeFile::default(), "/var/lib/kubelet/config.yaml"),
        (NodeFile::Config("/etc/a b #'\"$(id).yaml".to_owned()), "/etc/a b #'\"$(id).yaml"),
        (
            NodeFile::DropIn("/etc/kubernetes/kubelet.conf.d/".to_owned()),
            "/etc/kubernetes/kubelet.conf.d/80-nodecfg.conf",
        ),
    ] {
        let settings = Settings { file, name: None };
        let output = render(&subject(&desired), Consumer::CloudInit, &settings).expect("an output");
        assert_eq!(text(&decoded(&output), "/write_files/0/path"), path);
    }
    // Kubelets read files of this suffix only. The agent's own drop-in comes later.
    assert!(DROP_IN_NAME.ends_with(".conf") && DROP_IN_NAME < nodecfg_agent::placement::DROP_IN_NAME);
}

#[test]
fn objects_have_the_given_name() {
    let desired = of_fields(TYPICAL);
    for consumer in [Consumer::Karpenter, Consumer::ClusterApi] {
        let settings = Settings { name: Some("123".to_owned()), ..Settings::default() };
        let output = render(&subject(&desired), consumer, &settings).expect("an output");
        assert_eq!(text(&decoded(&output), "/metadata/name"), "123");
        assert_eq!(text(&decoded(&rendered(&subject(&desired), consumer)), "/metadata/name"), "default-gpu");
    }
}

#[test]
fn rejects_what_a_consumer_cannot_have() {
    let mut old = of_fields(TYPICAL);
    old.pools.values_mut().for_each(|pool| pool.kubelets = vec![Minor(24), Minor(28)]);
    let fails = |desired: &Desired, consumer: Consumer, settings: &Settings| {
        let error = render(&subject(desired), consumer, settings).expect_err("an error");
        format!("{error} ({})", error.help())
    };
    let plain = Settings::default();
    insta::assert_snapshot!(fails(&old, Consumer::DropIn, &plain), @"pool gpu declares kubelet 1.24, and drop-ins need 1.28 (use --format file or --format cloud-init with --kubelet-config)");
    insta::assert_snapshot!(fails(&old, Consumer::KubeadmPatch, &plain), @"pool gpu declares kubelet 1.24, and patches of the kubelet by kubeadm need 1.25 (use --format file or --format cloud-init with --kubelet-config)");
    assert_eq!(fails(&old, Consumer::ClusterApi, &plain), fails(&old, Consumer::KubeadmPatch, &plain));
    let drop_in = Settings { file: NodeFile::DropIn("/etc/kubelet.d".to_owned()), name: None };
    assert_eq!(fails(&old, Consumer::CloudInit, &drop_in), fails(&old, Consumer::DropIn, &plain));
    assert!(render(&subject(&old), Consumer::CloudInit, &plain).is_ok());
    let long = of_fields(&format!("clusterDomain: {}\n", "a".repeat(10_240)));
    insta::assert_snapshot!(fails(&long, Consumer::ClusterApi, &plain), @"the configuration of pool gpu has 10325 characters, and a file of a KubeadmConfigTemplate at most 10240 (put the output of --format kubeadm-patch into a Secret, and name it in contentFrom of the file)");
    assert!(render(&subject(&long), Consumer::KubeadmPatch, &plain).is_ok());
}

/// The fields that Karpenter states in `spec.kubelet`.
fn stated(fields: &str) -> Vec<String> {
    let json = decoded(&rendered(&subject(&of_fields(fields)), Consumer::Karpenter));
    json.pointer("/spec/kubelet").and_then(Json::as_object).map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn spec_kubelet_has_only_accepted_values() {
    for fields in [
        "evictionHard: {containerfs.available: 5%}",
        "evictionHard: {memory.available: 5.125%}",
        "evictionHard: {memory.available: 101%}",
        "evictionSoft: {memory.available: 5%}\nevictionSoftGracePeriod: {nodefs.available: 1m}",
        "evictionSoftGracePeriod: {memory.available: 1m}",
        "kubeReserved: {hugepages-2Mi: 1Gi}",
        "systemReserved: {cpu: '-1'}",
        "registryPullQPS: 5",
    ] {
        assert!(stated(fields).is_empty(), "{fields}");
        assert_carried(&of_fields(fields));
    }
    for fields in [
        "evictionHard: {memory.available: 5.12%, nodefs.available: 100%, imagefs.inodesFree: 1Mi, pid.available: '10'}",
        "evictionSoft: {memory.available: 5%}\nevictionSoftGracePeriod: {memory.available: 1m}",
        "systemReserved: {cpu: '1', pid: 1k}",
        "cpuCFSQuota: false",
    ] {
        assert!(!stated(fields).is_empty(), "{fields}");
    }
    // An object without fields has neither of both.
    let json = decoded(&rendered(&subject(&desired(HEAD)), Consumer::Karpenter));
    assert_eq!(json.pointer("/spec"), Some(&json!({"amiFamily": "AL2023"})));
    assert_eq!(carried(Consumer::Nodeadm, &rendered(&subject(&desired(HEAD)), Consumer::Nodeadm)), json!({}));
}

/// The findings for a consumer as `code field`.
fn found(fields: &str, consumer: Consumer) -> Vec<String> {
    let desired = of_fields(fields);
    let found = findings(&subject(&desired), consumer);
    assert!(found.iter().all(|finding| finding.help.is_some() && finding.place.is_some()), "{found:?}");
    found.iter().map(|one| format!("{} {}", one.code, one.field.as_deref().unwrap_or_default())).collect()
}

#[test]
fn warns_where_karpenter_calculates_otherwise() {
    // For unset fields, Karpenter has the defaults of nodeadm.
    for fields in [TYPICAL, "", "evictionHard: {memory.available: 1Gi}", "kubeReserved: {cpu: 100m}"] {
        assert_eq!(found(fields, Consumer::Karpenter), [""; 0]);
    }
    for (fields, field) in [
        ("registerWithTaints: [{key: a, effect: NoSchedule}]", "registerWithTaints"),
        ("evictionHard: {memory.available: 5.125%, nodefs.available: 10%}", "evictionHard"),
        ("systemReserved: {hugepages-2Mi: 1Gi}", "systemReserved"),
    ] {
        assert_eq!(found(fields, Consumer::Karpenter), [format!("scheduling-estimate {field}")]);
    }
}

#[test]
fn warns_about_reserved_cpus() {
    let cleared = "kubeReservedCgroup: ''\nsystemReservedCgroup: ''\n";
    let of = |fields: &str, consumer| {
        let typical = "maxPods: 64\n";
        found(&format!("{typical}{fields}"), consumer)
    };
    let kube = "kubeReserved: {memory: 1Gi, ephemeral-storage: 1Gi}\n";
    let estimate = "scheduling-estimate reservedSystemCPUs";
    let conflict = "nodeadm-conflict reservedSystemCPUs";
    assert_eq!(of(&format!("{kube}reservedSystemCPUs: 0-1"), Consumer::Karpenter), [estimate, conflict]);
    assert_eq!(of(&format!("{kube}{cleared}reservedSystemCPUs: 0-1"), Consumer::Karpenter), [estimate]);
    assert_eq!(of(&format!("{kube}reservedSystemCPUs: 0-1"), Consumer::Nodeadm), [conflict]);
    for (cpus, kube, system, is_right) in [
        ("0-1", "2", "", true),
        ("0-1,1,4", "2500m", "systemReserved: {cpu: 500m}\n", true),
        ("0-1", "1", "", false),
        ("0-1", "2", "systemReserved: {cpu: 500m}\n", false),
        ("0-65535", "65536", "", true),
    ] {
        let fields = format!(
            "kubeReserved: {{cpu: '{kube}', memory: 1Gi, ephemeral-storage: 1Gi}}\n{system}{cleared}\
             reservedSystemCPUs: '{cpus}'"
        );
        assert_eq!(of(&fields, Consumer::Karpenter).is_empty(), is_right, "{fields}");
    }
}

#[test]
fn warns_where_cluster_autoscaler_calculates_otherwise() {
    let of = |fields: &str| found(fields, Consumer::ClusterApi);
    assert_eq!(of("maxPods: 110"), [""; 0]);
    assert_eq!(of("podPidsLimit: 100"), [""; 0]);
    assert_eq!(of(TYPICAL), ["scheduling-estimate maxPods", "scheduling-estimate kubeReserved"]);
    assert_eq!(of("systemReserved: {cpu: 100m}"), ["scheduling-estimate systemReserved"]);
    for consumer in [Consumer::File, Consumer::DropIn, Consumer::CloudInit, Consumer::KubeadmPatch, Consumer::Nodeadm] {
        assert_eq!(found(TYPICAL, consumer), [""; 0]);
    }
}

/// A configuration with this HTTP header, in JSON, so that YAML cannot change it.
fn with_header(name: &str, value: &str) -> Desired {
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 64,
        "staticPodURLHeader": {name: [value, ""]},
        "evictionHard": {"memory.available": "5%"},
    });
    desired(&config.to_string())
}

#[test]
fn carries_hostile_values() {
    for value in [
        "a: b # c",
        "#cloud-config",
        "## template: jinja\n{{ ds.meta_data }}",
        "line\n--BOUNDARY\nContent-Type: text/x-shellscript\n\n#!/bin/sh\nid\n--BOUNDARY--\n",
        "\n--//\n--//--",
        "\n---\nkind: Secret\n...\n",
        "%YAML 1.2\n",
        " leading, trailing ",
        "\ttab\r\nreturn",
        "é\u{85}\u{2028}\u{2029}\u{feff}😀\u{7f}\u{1b}[31m",
        "$(id) `id` ${HOME} $HOME %(x)s {{.Name}} \\n '\" \\",
        "&a *a !!binary x | > @ ~",
        "yes",
        "0o17",
        "1_000",
        "12:30:45",
        "2001-01-01",
        "=",
        "<<",
    ] {
        assert_carried(&with_header("X-Header", value));
        assert_carried(&with_header(value, "value"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn carries_any_value(name in "\\PC{1,20}|[\\x00-\\x7f]{1,20}", value in any::<String>()) {
        assert_carried(&with_header(&name, &value));
    }
}

#[test]
fn overlay_as_the_whole_file_is_a_warning() {
    let desired = of_fields("maxPods: 60");
    let folder = NodeFile::DropIn("/etc/kubernetes/kubelet.conf.d".to_owned());
    let warns = |consumer, file: &NodeFile, placement| {
        let found = overlay_as_file(&Subject { placement, ..subject(&desired) }, consumer, file);
        found.map(|finding| finding.help.unwrap_or_default())
    };
    let file = NodeFile::default();
    let of_file = warns(Consumer::File, &file, Placement::Overlay);
    assert!(of_file.is_some_and(|help| help.starts_with("use --format drop-in")));
    let of_cloud_init = warns(Consumer::CloudInit, &file, Placement::Overlay);
    assert!(of_cloud_init.is_some_and(|help| help.starts_with("pass --kubelet-config-dir")));
    assert_eq!(warns(Consumer::CloudInit, &folder, Placement::Overlay), None);
    for merged in
        [Consumer::DropIn, Consumer::Nodeadm, Consumer::KubeadmPatch, Consumer::Karpenter, Consumer::ClusterApi]
    {
        assert_eq!(warns(merged, &file, Placement::Overlay), None);
    }
    assert_eq!(warns(Consumer::File, &file, Placement::Replace), None);
}
