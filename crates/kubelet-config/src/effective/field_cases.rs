//! Cases that people met with drop-ins and flags, in the versions that they concern.

use std::collections::BTreeMap;

use super::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
/// As kubeadm writes it, without the zeros.
const BASE: &str = "authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}\ncgroupDriver: systemd\n\
                    clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\nrotateCertificates: true\n\
                    staticPodPath: /etc/kubernetes/manifests\n";
const DROP_IN: &str = "90-nodecfg.conf";
const VERSIONS_WITH_DROP_INS: std::ops::RangeInclusive<u32> = 28..=38;

/// A kubelet with these bodies of files.
fn run(minor: u32, config: Option<&str>, drop_ins: &[(&str, &str)], flags: &[&str]) -> Result<Effective, Refused> {
    let whole = |body: &str| if body.starts_with('{') { body.to_owned() } else { format!("{HEAD}{body}") };
    let config = config.map(whole);
    let entries = drop_ins.iter().map(|(name, body)| ((*name).to_owned(), FolderEntry::File(whole(body))));
    let folder = ConfigDir { path: "/conf.d".to_owned(), root: Some(FolderEntry::Folder(entries.collect())) };
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    effective(&Kubelet {
        minor: Minor(minor),
        config: config.as_ref().map(|text| ConfigFile { path: "/var/lib/kubelet/config.yaml", text }),
        config_dir: Some(&folder).filter(|_| !drop_ins.is_empty()),
        drop_in_alpha: true,
        flags: &flags,
    })
}

/// The values at paths, each with its origin.
fn shown<const N: usize>(answer: &Result<Effective, Refused>, paths: [&str; N]) -> [String; N] {
    let answer = answer.as_ref().unwrap_or_else(|refused| panic!("refused: {refused}"));
    paths.map(|path| {
        answer.values.get(path).map_or_else(|| "-".to_owned(), |value| format!("{} {}", value.value, value.by))
    })
}

/// The defaults that a kubelet 1.28 sets in a drop-in replace what the file says.
#[test]
fn drop_in_of_1_28_resets_what_the_file_sets() {
    let base = format!(
        "{BASE}imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 60\nserializeImagePulls: false\n\
         evictionHard: {{memory.available: 1Gi, pid.available: 10%}}\n"
    );
    let paths = [
        "maxPods",
        "cgroupDriver",
        "clusterDNS",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "serializeImagePulls",
        "evictionHard.memory.available",
        "evictionHard.pid.available",
    ];
    let answer = run(28, Some(&base), &[(DROP_IN, "maxPods: 60\n")], &[]);
    let by = "/conf.d/90-nodecfg.conf";
    assert_eq!(
        shown(&answer, paths),
        [
            format!("60 {by}"),
            "\"cgroupfs\" default".to_owned(),
            "[\"10.96.0.10\"] --config".to_owned(),
            "85 default".to_owned(),
            "80 default".to_owned(),
            "true default".to_owned(),
            "\"100Mi\" default".to_owned(),
            "\"10%\" --config".to_owned(),
        ]
    );
    for minor in VERSIONS_WITH_DROP_INS.skip(1) {
        let answer = run(minor, Some(&base), &[(DROP_IN, "maxPods: 60\n")], &[]);
        let [max_pods, rest @ ..] = shown(&answer, paths);
        assert_eq!(max_pods, format!("60 {by}"));
        assert!(rest.iter().all(|value| value.ends_with("--config")), "1.{minor}: {rest:?}");
    }
    // Zero values never replace.
    let zeros = "registryPullQPS: 0\nfailSwapOn: false\nclusterDNS: []\n";
    assert_eq!(
        shown(&run(28, Some(&base), &[(DROP_IN, zeros)], &[]), ["registryPullQPS", "failSwapOn", "clusterDNS"]),
        ["5 default", "true default", "[\"10.96.0.10\"] --config"]
    );
}

#[test]
fn config_dir_needs_its_version_and_variable() {
    let error = |minor| run(minor, Some(""), &[(DROP_IN, "")], &[]).expect_err("a refusal").to_string();
    assert_eq!(error(27), "--config-dir: kubelet 1.27 has no flag --config-dir");
    let folder = ConfigDir { path: "/d".to_owned(), root: Some(FolderEntry::Folder(BTreeMap::new())) };
    for minor in 28..=30 {
        let kubelet =
            Kubelet { minor: Minor(minor), config: None, config_dir: Some(&folder), drop_in_alpha: false, flags: &[] };
        assert_eq!(effective(&kubelet).is_ok(), minor == 30, "1.{minor}");
    }
}

#[test]
fn some_versions_ignore_resolv_conf_of_a_drop_in() {
    for minor in VERSIONS_WITH_DROP_INS {
        let answer = run(minor, Some(BASE), &[(DROP_IN, "resolvConf: /run/resolv.conf\n")], &[]);
        let ignored = (29..=31).contains(&minor);
        let expected =
            if ignored { "\"/etc/resolv.conf\" default" } else { "\"/run/resolv.conf\" /conf.d/90-nodecfg.conf" };
        assert_eq!(shown(&answer, ["resolvConf"]), [expected], "1.{minor}");
    }
}

#[test]
fn zeros_of_a_drop_in_are_literal_in_some_versions() {
    for minor in VERSIONS_WITH_DROP_INS {
        let literal = (29..=31).contains(&minor);
        let with = |body: &str| run(minor, Some(BASE), &[(DROP_IN, body)], &[]);
        let period = "evictionPressureTransitionPeriod";
        let expected = if literal { "\"0s\" /conf.d/90-nodecfg.conf" } else { "\"5m0s\" default" };
        assert_eq!(shown(&with("evictionPressureTransitionPeriod: 0s\n"), [period]), [expected], "1.{minor}");
        let starts = |body: &str| with(body).expect("accepted").startup.is_empty();
        assert_eq!(starts("syncFrequency: 0s\n"), !literal, "1.{minor}");
        assert_eq!(starts("logging: {flushFrequency: 0}\n"), !literal, "1.{minor}");
        assert_eq!(with("containerRuntimeEndpoint: \"\"\n").is_ok(), !literal, "1.{minor}");
        assert_eq!(shown(&with("syncFrequency: 90s\n"), ["syncFrequency"]), ["\"1m30s\" /conf.d/90-nodecfg.conf"]);
        // As a file, zeros mean defaults in every version.
        assert!(run(minor, Some("syncFrequency: 0s\ncontainerRuntimeEndpoint: \"\"\n"), &[], &[]).is_ok());
    }
}

#[test]
fn defaults_are_set_before_drop_ins_are_merged() {
    for minor in VERSIONS_WITH_DROP_INS.skip(1) {
        let file = |body: &str| run(minor, Some(body), &[], &[]);
        let drop_in = |body: &str| run(minor, Some(""), &[(DROP_IN, body)], &[]);
        let pulls = "maxParallelImagePulls: 5\n";
        assert!(file(pulls).is_ok());
        let refused = drop_in(pulls).expect_err("a refusal");
        assert_eq!(refused.by, Some(Origin::DropIn("/conf.d/90-nodecfg.conf".to_owned())), "1.{minor}");
        assert!(drop_in(&format!("{pulls}serializeImagePulls: false\n")).is_ok());
        let hard = ["evictionHard.memory.available", "evictionHard.nodefs.available"];
        let body = "evictionHard: {memory.available: 500Mi}\n";
        assert_eq!(shown(&file(body), hard), ["\"500Mi\" --config", "-"]);
        assert_eq!(shown(&drop_in(body), hard), ["\"500Mi\" /conf.d/90-nodecfg.conf", "\"10%\" default"]);
        let report = ["nodeStatusReportFrequency"];
        let body = "nodeStatusUpdateFrequency: 20s\n";
        assert_eq!(shown(&file(body), report), ["\"20s\" default"]);
        assert_eq!(shown(&drop_in(body), report), ["\"5m0s\" default"]);
        let memory = "memoryManagerPolicy: Static\nkubeReserved: {memory: 1Gi, cpu: 500m}\n\
                      evictionHard: {nodefs.available: 5%}\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n";
        let starts = |answer: Result<Effective, Refused>| answer.expect("accepted").startup.is_empty();
        assert!(starts(file(memory)) && !starts(drop_in(memory)), "1.{minor}: the default 100Mi counts");
        let body = "evictionHard: {memory.available: null, nodefs.available: 5%}\n";
        let memory = if minor >= 32 { "-" } else { "\"100Mi\" default" };
        assert_eq!(shown(&drop_in(body), hard), [memory, "\"5%\" /conf.d/90-nodecfg.conf"], "1.{minor}");
    }
}

#[test]
fn kubelet_without_a_file_has_the_defaults_of_flags() {
    let paths = [
        "authentication.anonymous.enabled",
        "authentication.webhook.enabled",
        "authorization.mode",
        "readOnlyPort",
        "evictionHard.memory.available",
    ];
    for minor in VERSIONS_WITH_DROP_INS.skip(1) {
        let drop_in = [(DROP_IN, "maxPods: 150\n")];
        let unsafe_ones = ["true default", "false default", "\"AlwaysAllow\" default", "10255 default", "-"];
        assert_eq!(shown(&run(minor, None, &drop_in, &[]), paths), unsafe_ones, "1.{minor}");
        let safe = ["false default", "true default", "\"Webhook\" default", "-", "\"100Mi\" default"];
        assert_eq!(shown(&run(minor, Some(""), &drop_in, &[]), paths), safe, "1.{minor}");
    }
    // Before 1.26 thresholds have a default without a file, too.
    assert_eq!(shown(&run(25, None, &[], &[]), [paths[4]]), ["\"100Mi\" default"]);
    assert_eq!(shown(&run(26, None, &[], &[]), [paths[4]]), ["-"]);
}

#[test]
fn flags_replace_what_files_say() {
    let body = "evictionHard: {memory.available: 1Gi, nodefs.available: 15%}\nresolvConf: /run/resolv.conf\n\
                featureGates: {GracefulNodeShutdown: true, CPUManagerPolicyAlphaOptions: true}\nmaxPods: 60\n\
                logging: {vmodule: [{filePattern: a, verbosity: 1}], options: {text: {splitStream: true}}}\n";
    let flags = [
        "--config=/var/lib/kubelet/config.yaml",
        "--eviction-hard=imagefs.available<5%,nodefs.available<5%",
        "--resolv-conf=/etc/resolv.conf",
        "--feature-gates=CPUManagerPolicyAlphaOptions=false",
        "--max-pods=0",
        "--vmodule=b=2",
    ];
    let paths = [
        "evictionHard.memory.available",
        "evictionHard.nodefs.available",
        "resolvConf",
        "featureGates.GracefulNodeShutdown",
        "featureGates.CPUManagerPolicyAlphaOptions",
        "maxPods",
        "logging.options.text.splitStream",
        "logging.vmodule",
    ];
    assert_eq!(
        shown(&run(36, Some(body), &[], &flags), paths),
        [
            "-",
            "\"5%\" --eviction-hard",
            "\"/etc/resolv.conf\" --resolv-conf",
            "true --config",
            "false --feature-gates",
            "-",
            "-",
            "[{\"filePattern\":\"a\",\"verbosity\":1},{\"filePattern\":\"b\",\"verbosity\":2}] --vmodule",
        ]
    );
    for zero in ["--port=0", "--container-runtime-endpoint=", "--hairpin-mode=", "--log-text-split-stream=true"] {
        let refused = run(36, Some(""), &[], &[zero]).expect_err(zero);
        assert_eq!(refused.by.map(|by| format!("{by}=")), zero.split('=').next().map(|flag| format!("{flag}=")));
    }
    let refused = run(36, Some(""), &[], &["--max-pods=-1"]).expect_err("a refusal");
    assert_eq!((refused.stage, refused.by), (Stage::Validate, Some(Origin::Flag("--max-pods".to_owned()))));
}

/// A number in scientific notation has three meanings.
#[test]
fn notation_of_a_number_depends_on_the_place() {
    let json = "{\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",\"kind\":\"KubeletConfiguration\",\
                \"podPidsLimit\": 1.048576e+06}";
    let limit = ["podPidsLimit"];
    for minor in [21, 36] {
        assert!(run(minor, Some(json), &[], &[]).is_err(), "1.{minor}");
        assert_eq!(
            shown(&run(minor, Some("podPidsLimit: 1.048576e+06\n"), &[], &[]), limit),
            ["1048576 --config"],
            "1.{minor}"
        );
    }
    assert_eq!(shown(&run(36, Some(""), &[(DROP_IN, json)], &[]), limit), ["1048576 /conf.d/90-nodecfg.conf"]);
    let comma = json.replace('}', ",}");
    assert!(run(36, Some(&comma), &[], &[]).is_err() && run(36, Some(""), &[(DROP_IN, &comma)], &[]).is_err());
    assert!(run(36, Some("maxPods: 110.5\n"), &[], &[]).is_err());
}

#[test]
fn names_of_a_drop_in_fold_case_after_the_merge() {
    let with = |base: &str, body: &str| run(36, Some(base), &[(DROP_IN, body)], &[]);
    let by = |value: &str| format!("{value} /conf.d/90-nodecfg.conf");
    // Sorted before the field of the base, which therefore wins.
    assert_eq!(shown(&with("", "MaxPods: 6\n"), ["maxPods"]), ["110 default"]);
    // The base omits what is empty.
    assert_eq!(shown(&with("", "StaticPodPath: /m\n"), ["staticPodPath"]), [by("\"/m\"")]);
    assert!(with("", "MAXPODS: x\n").is_ok() == with("", "Maxpod: x\n").is_ok());
    let header = "{\"Kind\":\"KubeletConfiguration\",\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\"}";
    assert!(with("", header).is_err(), "a map has no fields");
    assert!(run(36, Some(header), &[], &[]).is_ok());
}

#[test]
fn drop_ins_before_1_32_need_only_a_kind() {
    let body = "{\"kind\":\"Anything\",\"maxPods\":7}";
    for minor in VERSIONS_WITH_DROP_INS {
        let accepts = (29..=31).contains(&minor);
        assert_eq!(run(minor, Some(""), &[(DROP_IN, body)], &[]).is_ok(), accepts, "1.{minor}");
    }
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    let body = "staticPodPath: manifests/../pods\nauthentication: {x509: {clientCAFile: ./ca.crt}}\n";
    let paths = ["staticPodPath", "authentication.x509.clientCAFile", "resolvConf"];
    assert_eq!(
        shown(&run(36, Some(body), &[], &[]), paths),
        ["\"/var/lib/kubelet/pods\" --config", "\"/var/lib/kubelet/ca.crt\" --config", "\"/etc/resolv.conf\" default"]
    );
    let answer = run(36, Some(""), &[(DROP_IN, body)], &[]);
    assert_eq!(shown(&answer, [paths[0]]), ["\"manifests/../pods\" /conf.d/90-nodecfg.conf"]);
}

/// A refusal names the file or the flag, and no secret.
#[test]
fn refusal_names_its_origin() {
    let by = |answer: Result<Effective, Refused>| answer.expect_err("a refusal").to_string();
    assert_eq!(
        by(run(36, Some("maxPods: x\n"), &[], &[])),
        "--config: maxPods must be a whole number, not the text \"x\""
    );
    assert!(
        by(run(36, Some(""), &[("a.conf", "maxPods: 7\n"), ("b.conf", "maxPods: -1\n")], &[]))
            .starts_with("/conf.d/b.conf: ")
    );
    assert!(by(run(36, Some("featureGates: {NoSuchGate: true}\n"), &[], &[])).starts_with("--config: "));
    assert!(by(run(36, Some(""), &[], &["--feature-gates=NoSuchGate=true"])).starts_with("--feature-gates: "));
    assert!(by(run(36, Some("staticPodURLHeader: {Authorization: [12345]}\n"), &[], &[])).find("12345").is_none());
    let header = run(36, Some("staticPodURLHeader: {Authorization: [secret-1, secret-2]}\n"), &[], &[]);
    assert_eq!(shown(&header, ["staticPodURLHeader.Authorization"]), ["[\"<masked>\"] --config"]);
}

/// The defaults of every version are accepted, and each value of a file of only a header is a default.
#[test]
fn every_version_runs_with_its_defaults() {
    for minor in Minor::all() {
        for config in [None, Some("")] {
            let answer = run(minor.0, config, &[], &[]).unwrap_or_else(|refused| panic!("{minor}: {refused}"));
            assert!(answer.values.len() > 50, "{minor}");
            assert!(answer.values.values().all(|value| value.by == Origin::Default), "{minor}");
        }
    }
}
