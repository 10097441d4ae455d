//! Errors of kubelets 1.21.1 and 1.36.2, recorded or as their sources word them, with their fields and state files.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

/// What kubelets 1.21.1 and 1.36.2 logged before they exited.
static RECORDED: &str = include_str!("../../../../tests/data/startup-errors.jsonl");
/// The fields that each recorded case concerns, if its kubelet exits: id, fields.
const EXPECTED: [(&str, &str); 44] = [
    ("clientCAFile-missing", "authentication.x509.clientCAFile"),
    ("clientCAFile-not-pem", "authentication.x509.clientCAFile"),
    ("tls-missing", "tlsCertFile"),
    ("tlsCipherSuites-unknown", "tlsCipherSuites"),
    ("tlsMinVersion-unknown", "tlsMinVersion"),
    ("imageServiceEndpoint-missing", "imageServiceEndpoint"),
    ("cgroupDriver-systemd", "cgroupDriver"),
    // The name of the missing cgroup follows from both.
    ("cgroupDriver-systemd-root", "cgroupRoot or cgroupDriver"),
    ("kubeReservedCgroup-missing", "kubeReservedCgroup"),
    ("systemReservedCgroup-missing", "systemReservedCgroup"),
    ("enforce-without-cgroup", "systemReservedCgroup or enforceNodeAllocatable"),
    ("systemReserved-cpu-high", "systemReserved"),
    ("kubeReserved-quantity", "kubeReserved"),
    ("kubeReserved-negative", "kubeReserved"),
    ("evictionHard-high", "evictionHard"),
    ("evictionHard-unknown", "evictionHard"),
    ("evictionSoft-no-grace", "evictionSoft"),
    ("reservedSystemCPUs-range", "reservedSystemCPUs"),
    ("reservedSystemCPUs-text", "reservedSystemCPUs"),
    ("cpuManager-policy-unknown", "cpuManagerPolicy"),
    ("cpuManager-option-unknown", "cpuManagerPolicyOptions"),
    ("cpuManager-state-other-policy", "cpuManagerPolicy"),
    ("cpuManager-state-corrupt", "cpuManagerPolicy"),
    ("cpuManager-state-garbage", "cpuManagerPolicy"),
    ("memoryManager-no-reservation", "memoryManagerPolicy"),
    ("memoryManager-mismatch", "reservedMemory"),
    ("memoryManager-numa", "reservedMemory"),
    ("memoryManager-policy-unknown", "memoryManagerPolicy"),
    ("readOnlyPort-in-use", "readOnlyPort"),
    ("address-text", "address"),
    ("address-foreign", "address"),
    ("podLogsDir-unwritable", "podLogsDir"),
    ("failCgroupV1", "failCgroupV1"),
    ("logging-format", "logging.format"),
    ("logging-flush-negative", "logging.flushFrequency"),
    ("hairpinMode-unknown", "hairpinMode"),
    ("containerLogMaxFiles-one", "containerLogMaxFiles"),
    ("memorySwap-unknown", "memorySwap.swapBehavior"),
    ("crashLoopBackOff", "crashLoopBackOff.maxContainerRestartPeriod"),
    ("registerWithTaints-effect", "registerWithTaints"),
    ("anonymous-webhook-standalone", "authentication.webhook.enabled"),
    ("gate-unknown", "featureGates"),
    ("tracing-endpoint 1.36.2", "tracing.endpoint"),
    // This version does not have the gate.
    ("tracing-endpoint 1.21.1", "featureGates"),
];

fn document(configuration: &Json) -> Document {
    Document::parse("kubelet.yaml", &configuration.to_string()).document.expect("a document")
}

/// The document of a recorded case: its fields over those that all cases have.
fn recorded_document(case: &Json) -> Document {
    let mut configuration = json!({
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"}, "cgroupDriver": "cgroupfs", "cgroupRoot": "/n2", "failSwapOn": false,
        "port": 13000, "healthzPort": 13001, "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    });
    for (field, value) in case["config"].as_object().expect("fields") {
        configuration[field] = value.clone();
    }
    document(&configuration)
}

/// A recorded line with the time and the process that the recording lacks.
fn whole_line(line: &Json) -> String {
    let line = line.as_str().expect("a line");
    format!("{}1124 08:00:00.123456    4711 {}\n", &line[..1], &line[2..])
}

const LOG: &str = "journalctl -u kubelet";

/// What is published of an error, if the configuration is reviewed as a whole.
fn published(error: &str, configuration: Option<&Document>) -> String {
    LastError(error.to_owned()).explain(configuration, configuration, LOG).to_string()
}

#[test]
fn names_the_field_of_each_recorded_exit() {
    let mut exits = 0;
    let mut texts = Vec::new();
    for line in RECORDED.lines() {
        let case: Json = serde_json::from_str(line).expect("JSON");
        let (id, kubelet) = (case["id"].as_str().expect("an id"), case["kubelet"].as_str().expect("a version"));
        let log: String = case["errors"].as_array().expect("lines").iter().map(whole_line).collect();
        let configuration = recorded_document(&case);
        let error = LastError::in_log(&log).map(|error| error.0);
        let text = error.as_deref().map(|error| published(error, Some(&configuration)));
        let found = text.as_deref().and_then(field_in);
        if case["exits"] == false {
            assert_eq!(found, None, "{id} {kubelet}");
            continue;
        }
        exits += 1;
        let of_version = format!("{id} {kubelet}");
        let (_, expected) = EXPECTED.iter().find(|(name, _)| [id, &of_version].contains(name)).expect("an expectation");
        assert_eq!(found, Some(*expected), "{id} {kubelet}: {error:?}");
        assert!(!text.iter().any(|text| text.contains("unknown error")), "{id} {kubelet}: {error:?}");
        texts.push(format!("{id} {kubelet}: {}", text.unwrap_or_default()));
    }
    assert_eq!(exits, 72);
    insta::assert_snapshot!("recorded-exits", texts.join("\n"));
}

#[test]
fn table_names_known_fields_files_and_sources() {
    assert_eq!(TEXT.lines().next(), Some("text,field,state,source"));
    assert_eq!(TABLE.len(), TEXT.lines().count() - 1, "malformed row");
    for (row, cells) in TABLE.iter().zip(table::rows(TEXT)) {
        let (_, inner) = row.parts.split_last().expect("a text");
        assert!(row.parts[0].len() > 3 && inner.iter().all(|part| !part.is_empty()), "{cells:?}");
        assert!(!cells[3].is_empty(), "{cells:?}");
        assert_eq!(row.state_file.map_or("", StateFile::as_str), cells[2], "{cells:?}");
        // A row that an earlier one hides would never count.
        assert_eq!(Row::of(&cells[0].replace('*', "x")).map(|found| &found.parts), Some(&row.parts), "{cells:?}");
    }
}

/// Fields of errors that are not recorded, as the sources word them, with a part of a configuration.
#[test]
fn names_fields_by_text_name_and_value() {
    for (error, configuration, expected) in [
        // Files.
        (
            "open /etc/k/t.key: permission denied",
            json!({"tlsCertFile": "/etc/k/t.crt", "tlsPrivateKeyFile": "/etc/k/t.key"}),
            "tlsPrivateKeyFile",
        ),
        ("open /etc/k/pki/t.crt: no such file or directory", json!({"tlsCertFile": "pki/t.crt"}), "tlsCertFile"),
        ("Failed to listen and serve: tls: failed to find any PEM data in certificate input", json!({}), "tlsCertFile"),
        ("Failed to listen and serve: tls: failed to find any PEM data in key input", json!({}), "tlsPrivateKeyFile"),
        ("tls: private key does not match public key", json!({}), "tlsCertFile or tlsPrivateKeyFile"),
        ("mkdir /proc/logs: no such file or directory", json!({"podLogsDir": "/proc/logs"}), "podLogsDir"),
        // Sockets and ports.
        (
            "protocol \"nope\" not supported",
            json!({"containerRuntimeEndpoint": "nope:///x", "imageServiceEndpoint": "unix:///x"}),
            "containerRuntimeEndpoint",
        ),
        (
            "protocol \"nope\" not supported",
            json!({"containerRuntimeEndpoint": "unix:///x", "imageServiceEndpoint": "nope:///x"}),
            "imageServiceEndpoint",
        ),
        (
            "validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/no.sock\": rpc error",
            json!({}),
            "containerRuntimeEndpoint",
        ),
        (
            "dial unix /run/no.sock: connect: no such file or directory",
            json!({"imageServiceEndpoint": "unix:///run/no.sock"}),
            "imageServiceEndpoint",
        ),
        (
            "Failed to listen and serve: listen tcp 0.0.0.0:13500: bind: address already in use",
            json!({"port": 13500, "readOnlyPort": 10255}),
            "port",
        ),
        (
            "Failed to listen and serve: listen tcp 0.0.0.0:10250: bind: address already in use",
            json!({}),
            "port or readOnlyPort",
        ),
        (
            "Failed to start healthz server: listen tcp 127.0.0.1:10248: bind: address already in use",
            json!({"healthzBindAddress": "127.0.0.1"}),
            "healthzPort",
        ),
        (
            "Failed to start healthz server: listen tcp 203.0.113.9:10248: bind: cannot assign requested address",
            json!({}),
            "healthzBindAddress",
        ),
        (
            "Failed to listen and serve: open : no such file or directory",
            json!({"tlsCertFile": "/etc/k/t.crt", "tlsPrivateKeyFile": ""}),
            "tlsCertFile",
        ),
        (
            "validate service connection: validate CRI v1 runtime API for endpoint \"unix:///x\": rpc error: code = \
             DeadlineExceeded",
            json!({"containerRuntimeEndpoint": "unix:///x", "runtimeRequestTimeout": "-1s"}),
            "runtimeRequestTimeout",
        ),
        // Policies.
        (
            "unknown policy: \"nope\"",
            json!({"topologyManagerPolicy": "nope", "cpuManagerPolicy": "none"}),
            "topologyManagerPolicy",
        ),
        (
            "unknown policy: \"nope\"",
            json!({"topologyManagerPolicy": "nope", "cpuManagerPolicy": "nope"}),
            "cpuManagerPolicy or topologyManagerPolicy",
        ),
        (
            "Failed to initialize memory manager: unknown policy: \"static\"",
            json!({"cpuManagerPolicy": "static", "memoryManagerPolicy": "static"}),
            "memoryManagerPolicy",
        ),
        ("unknown scope: \"nope\"", json!({}), "topologyManagerScope"),
        (
            "bad value for option \"full-pcpus-only\": strconv.ParseBool: parsing \"x\": invalid syntax",
            json!({"cpuManagerPolicyOptions": {"full-pcpus-only": "x"}}),
            "cpuManagerPolicyOptions",
        ),
        (
            "bad value for option \"prefer-closest-numa-nodes\": strconv.ParseBool: parsing \"x\": invalid syntax",
            json!({"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}, "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "x"}}),
            "topologyManagerPolicyOptions",
        ),
        (
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
            json!({"cpuManagerPolicy": "static", "kubeReserved": {"memory": "1Gi"}}),
            "cpuManagerPolicy",
        ),
        // Amounts.
        (
            "quantities must match the regular expression '^x$'",
            json!({"kubeReserved": {"cpu": "1"}, "systemReserved": {"cpu": "one"}}),
            "systemReserved",
        ),
        (
            "failed to create kubelet: quantities must match the regular expression '^x$'",
            json!({"evictionHard": {"memory.available": "1Gi"}, "evictionSoft": {"memory.available": ""}}),
            "evictionSoft",
        ),
        (
            "cannot reserve \"gpu\" resource",
            json!({"kubeReserved": {"cpu": "1"}, "systemReserved": {"gpu": "1"}}),
            "systemReserved",
        ),
        (
            "unsupported eviction signal memory.availble",
            json!({"evictionHard": {"memory.available": "1Gi"}, "evictionMinimumReclaim": {"memory.availble": "1Gi"}}),
            "evictionMinimumReclaim",
        ),
        (
            "eviction threshold memory.available must be positive: 0",
            json!({"evictionSoft": {"memory.available": "0"}}),
            "evictionSoft",
        ),
        ("failed to create kubelet: time: invalid duration \"\"", json!({}), "evictionSoftGracePeriod"),
        (
            "invalid Node Allocatable configuration. Resource \"memory\" has a reservation of 9Gi",
            json!({"systemReserved": {"cpu": "1"}, "kubeReserved": {"memory": "9Gi"}, "evictionHard": {"memory.available": "1Gi"}}),
            "kubeReserved or evictionHard",
        ),
        (
            "panic: non-positive interval for NewTicker",
            json!({"fileCheckFrequency": "20s", "logging": {"flushFrequency": -1}}),
            "logging.flushFrequency",
        ),
        // Names of fields.
        (
            "failed to load kubelet config file, path: /etc/k, error: json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32",
            json!({}),
            "maxPods",
        ),
        (
            "invalid configuration: CrashLoopBackOff.MaxContainerRestartPeriod (got: 0 seconds) must be set",
            json!({}),
            "crashLoopBackOff.maxContainerRestartPeriod",
        ),
        (
            "failed to validate kubelet configuration, error: invalid configuration: port (--port) 0 must be between 1 and 65535, inclusive, path: &TypeMeta{Kind:,APIVersion:,}",
            json!({}),
            "port",
        ),
        ("unrecognized feature gate: SeccompDefault", json!({"seccompDefault": true}), "featureGates"),
        // The host.
        (
            "Failed to start ContainerManager: [invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0]",
            json!({}),
            "protectKernelDefaults",
        ),
        (
            "swap feature is enabled and LimitedSwap but it is only supported with cgroupv2",
            json!({}),
            "memorySwap.swapBehavior",
        ),
    ] {
        let text = published(error, Some(&document(&configuration)));
        assert_eq!(field_in(&text), Some(expected), "{error} {configuration}");
    }
}

#[test]
fn names_no_field_for_a_value_that_is_a_common_word() {
    let configuration = document(&json!({
        "cpuManagerPolicy": "none", "kubeReserved": {"memory": "1Gi"}, "maxPods": 110, "registerNode": true,
        "evictionMaxPodGracePeriod": 5, "clusterDomain": "local",
    }));
    for error in [
        "none of the 5 local sockets has memory: true 110",
        "failed to get \"memory\" of \"true\"",
        "dial tcp 10.0.0.110:443: connection refused",
    ] {
        assert_eq!(field_in(&published(error, Some(&configuration))), None, "{error}");
    }
}

/// What is published of errors, with what the configuration has.
#[test]
fn publishes_texts_of_the_table_with_reviewed_values() {
    let files = json!({"authentication": {"x509": {"clientCAFile": "/etc/k/ca.crt"}}, "tlsCertFile": "/etc/k/t.crt"});
    for (error, configuration, expected) in [
        (
            "open /etc/k/ca.crt: no such file or directory",
            &files,
            "authentication.x509.clientCAFile: open /etc/k/ca.crt: no such file or directory",
        ),
        ("open /hunter2: permission denied", &files, "open …: permission denied"),
        ("open /hunter2: hunter2", &files, "open …"),
        (
            "unknown scope: \"nope\"",
            &json!({"topologyManagerScope": "nope"}),
            "topologyManagerScope: unknown scope: nope",
        ),
        ("unknown scope: \"hunter2\"", &json!({}), "topologyManagerScope: unknown scope"),
        (
            "unrecognized feature gate: Nope",
            &json!({"featureGates": {"Nope": true}}),
            "featureGates: unrecognized feature gate: Nope",
        ),
        (
            "invalid Node Allocatable configuration",
            &json!({}),
            "systemReserved, kubeReserved or evictionHard: invalid Node Allocatable configuration",
        ),
        ("hunter2", &json!({}), "unknown error, see it on the node: journalctl -u kubelet"),
        ("maxPods hunter2", &json!({}), "maxPods: unknown error, see it on the node: journalctl -u kubelet"),
        // A value of a field that is not concerned, of a secret field, or that is long or has hidden characters.
        ("unknown scope: nope", &json!({"clusterDomain": "nope"}), "topologyManagerScope: unknown scope"),
        (
            "staticPodURL staticPodURLHeader hunter2: open x: permission denied",
            &json!({"staticPodURLHeader": {"X": ["hunter2"]}, "staticPodURL": "https://hunter2"}),
            "staticPodURL or staticPodURLHeader: open …: permission denied",
        ),
        (
            &format!("unknown scope: {}", "a".repeat(101)),
            &json!({"topologyManagerScope": "a".repeat(101)}),
            "topologyManagerScope: unknown scope",
        ),
        (
            "unknown scope: a\u{200b}b",
            &json!({"topologyManagerScope": "a\u{200b}b"}),
            "topologyManagerScope: unknown scope",
        ),
    ] {
        assert_eq!(published(error, Some(&document(configuration))), expected, "{error} {configuration}");
    }
    assert_eq!(field_in("failed trial: kubelet exited 3 times: port or readOnlyPort: x"), Some("port or readOnlyPort"));
    assert_eq!(field_in("failed trial: no luck"), None);
}

/// A local configuration tells the field, but its values are no one's to read.
#[test]
fn publishes_no_value_of_a_local_configuration() {
    let local = document(&json!({"authentication": {"x509": {"clientCAFile": "/etc/k/ca.crt"}}}));
    let error = LastError("open /etc/k/ca.crt: permission denied".to_owned());
    let expected = "authentication.x509.clientCAFile: open …: permission denied";
    assert_eq!(error.explain(Some(&local), None, LOG).to_string(), expected);
    let reviewed = document(&json!({"maxPods": 110}));
    assert_eq!(error.explain(Some(&local), Some(&reviewed), LOG).to_string(), expected);
}

#[test]
fn names_the_state_file() {
    let checkpoint = "could not restore state from checkpoint: x, please drain this node and delete the CPU manager \
                      checkpoint file \"/hunter2/cpu_manager_state\" before restarting Kubelet";
    let cpu = Some(StateFile::CpuManagerState);
    for (error, file) in [
        (checkpoint, cpu),
        ("start cpu manager error: default cpuset cannot be empty", cpu),
        ("some of strictly reserved cpus: \"0-1\" are present in defaultCpuSet: \"0-7\"", cpu),
        ("current set of available CPUs \"0-1\" doesn't match with CPUs in state \"0-7\"", cpu),
        (
            "[memorymanager] the expected machine state is different from the real one",
            Some(StateFile::MemoryManagerState),
        ),
        ("unknown policy: \"nope\"", None),
    ] {
        assert_eq!(state_file(error), file, "{error}");
        // The reconciler reads it in the published text.
        let text = LastError(error.to_owned()).explain(None, None, LOG);
        assert_eq!((text.state_file(), state_file(&text.to_string())), (file, file), "{error}: {text}");
        assert!(!text.to_string().contains("hunter2"), "{text}");
    }
}

/// Each form of a secret that the words of a log once let pass.
#[test]
fn publishes_no_secret_of_any_form() {
    for form in [
        "passphrase=hunter2",
        "bearer=hunter2",
        "psk=hunter2",
        "sig=hunter2",
        "secret_key: hunter2",
        "--secret-key hunter2",
        "X-Auth-Key: hunter2",
        "AccountKey: hunter2",
        "curl -u user:hunter2",
        r#"{"password": {"value": "hunter2"}}"#,
        "passwords: [a, hunter2]",
        "/hunter2iK7MDENGbPxRfiCYEXAMPLEKEYmoreAndMore==",
        "hunter2",
    ] {
        for row in TABLE.iter() {
            let text = row.parts.join(form) + form;
            for log in [format!("Error: {text}"), json!({"msg": "command failed", "err": text}).to_string()] {
                let error = LastError::in_log(&log).expect("an error");
                let shown = error.explain(None, None, LOG).to_string();
                assert!(!shown.contains("hunter2") && !format!("{error:?}").contains("hunter2"), "{log}: {shown}");
            }
        }
    }
}

proptest! {
    /// No part of six characters of a secret is published, in whatever place of a known or an unknown text it is, unless
    /// it is a part of the table's texts.
    #[test]
    fn publishes_no_part_of_a_random_secret(
        secret in "[0-9A-Za-z+/=_.-]{6,40}|[0-9]{6,12}|[a-z]{6,12}",
        row in 0..TABLE.len(),
        before in "[a-z \":=@/\\\\{\\[]{0,12}",
        after in "[a-z \":=,;\\]}]{0,12}",
        form in 0..4,
    ) {
        let row = &TABLE[row];
        let value = format!("{before}{secret}{after}");
        let text = match form {
            0 => value,
            1 => row.parts.join(&value),
            2 => format!("{value} {}", row.parts.join("x")),
            _ => format!("{}{value}", row.parts.join(&value)),
        };
        // The configuration has a secret, too, and values that the text may quote.
        let configuration = document(&json!({
            "staticPodURLHeader": {"X-Token": [secret]}, "staticPodURL": format!("https://a:{secret}@b/"),
            "clusterDomain": "a", "kubeReserved": {"cpu": "1"}, "tlsCertFile": "/a",
        }));
        let shown = published(&text, Some(&configuration));
        let known = TEXT.to_owned() + &SYSTEM_ERRORS.join(" ") + LOG + "unknown error, see it on the node";
        let secret: Vec<char> = secret.chars().collect();
        for part in secret.windows(6).map(|part| part.iter().collect::<String>()) {
            prop_assert!(!shown.contains(&part) || known.contains(&part), "{} in {}", part, shown);
        }
    }
}

#[test]
fn finds_the_error_that_ended_the_kubelet() {
    let last = |log: &str| LastError::in_log(log).map(|error| error.0);
    let line = |text: &str| format!("E1124 08:00:00.2 1 a.go:1] {text}\n");
    let later = line("\"RuntimeConfig from runtime service failed\" err=\"rpc error\"");
    let known = line("\"Failed to start healthz server\" err=\"listen tcp :1: bind: address already in use\"");
    let ended = line("\"Failed to start ContainerManager\" err=\"no luck\"");
    assert_eq!(last(&format!("{ended}{known}{later}")).as_deref(), Some("Failed to start ContainerManager: no luck"));
    assert_eq!(
        last(&format!("{known}{later}")).as_deref(),
        Some("Failed to start healthz server: listen tcp :1: bind: address already in use")
    );
    assert_eq!(last(&later).as_deref(), Some("RuntimeConfig from runtime service failed: rpc error"));
    // The first line has the context of the second.
    let context = line("\"Failed to initialize cpu manager\" err=\"unknown policy: \\\"x\\\"\"");
    let bare = line("\"command failed\" err=\"failed to run Kubelet: unknown policy: \\\"x\\\"\"");
    let expected = "Failed to initialize cpu manager: unknown policy: \"x\"";
    assert_eq!(last(&format!("{context}{bare}{later}")).as_deref(), Some(expected));
    assert_eq!(last("Error: failed to run Kubelet: no luck").as_deref(), Some("no luck"));
    assert_eq!(last("panic: runtime error\ngoroutine 1").as_deref(), Some("panic: runtime error"));
    for nothing in ["", "I1124 fine", "E", "Eé", "E1124", "E1124 no place", "Eagerly waiting"] {
        assert_eq!(last(nothing), None, "{nothing}");
    }
    assert_eq!(last("E1124 08:00 1 a.go:1] \"open").as_deref(), Some("\"open"));
}
