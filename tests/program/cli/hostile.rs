//! Tests that texts of other authors control neither a terminal nor a CI runner.

use serde_json::{Value, json};

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, nodecfg, run, run_with};
use crate::cli::repository::{FLEET, Folder, gpu};

/// A terminal's escapes in both forms, line ends, changed directions, invisible characters, and workflow commands.
const HOSTILE: &str =
    "x\u{1b}]52;c;eA==\u{7}\u{9b}2Jy\n::error::z\r\n##[stop-commands]q\u{85}\u{2028}\u{202e}a\u{200b}b";
const ACTIONS: [(&str, &str); 1] = [("GITHUB_ACTIONS", "true")];

/// Asserts that an output controls no terminal.
#[track_caller]
fn controls_nothing(run: &Run) {
    for text in [&run.out, &run.err] {
        let hidden = text.chars().find(|c| !matches!(c, '\n') && nodecfg_contract::printable::is_hidden(*c));
        assert_eq!(hidden, None, "{}", run.shown().escape_debug());
    }
}

/// The lines that the runner of GitHub Actions takes for workflow commands.
fn commands(text: &str) -> Vec<&str> {
    let is_command = |line: &&str| line.trim_start().starts_with("::") || line.contains("##[");
    text.split(['\n', '\r']).filter(is_command).collect()
}

#[test]
fn holder_of_the_lock_forges_no_output() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    cluster.create(
        "/apis/coordination.k8s.io/v1",
        "leases",
        &json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "nodecfg-prod", "labels": {"app.kubernetes.io/managed-by": "nodecfg", "nodecfg.dev/fleet": "prod"}},
            "spec": {"holderIdentity": HOSTILE, "leaseDurationSeconds": 4000, "renewTime": "2400-01-01T00:00:00.000000Z",
                "acquireTime": "9999-12-31T23:59:59.999999Z", "leaseTransitions": 1},
        }),
    );
    for (line, exit) in [
        ("status", 0),
        ("status . -o json", 0),
        ("status . -o yaml", 0),
        ("doctor .", 6),
        ("doctor . -o json", 6),
        ("sync -v", 6),
        ("sync --lock-timeout 1s", 6),
        ("sync -o json", 6),
        ("pause gpu --reason x --fleet prod --allow-unknown -o json", 0),
        ("abort --fleet prod --timeout 1s -o json", 6),
        ("abort --fleet prod --timeout 1s -o yaml", 6),
        ("abort --fleet prod --timeout 1s", 6),
    ] {
        let shown = cluster.run(folder.path(), line);
        assert_eq!(shown.exit, exit, "{}", shown.shown());
        controls_nothing(&shown);
        let forged = shown.out.lines().chain(shown.err.lines()).find(|line| line.starts_with("::error"));
        assert_eq!(forged, None, "{}", shown.shown());
        if line.ends_with("json") && line.starts_with("abort") {
            let document: Value = serde_json::from_str(&shown.out).unwrap();
            assert_eq!(document["holder"]["identity"], HOSTILE, "programs read the same text");
        }
    }
}

#[test]
fn data_of_a_pull_request_is_no_workflow_command() {
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n'##[stop-commands]x': 1\n";
    let patch = "maxPods: |2\n    \n  ::error::forged\n";
    let files = [("nodecfg.yaml", FLEET), ("pools/a/kubelet.yaml", kubelet), ("pools/b/kubelet.yaml", patch)];
    let folder = Folder::committed(&files);
    for line in [
        "validate",
        "validate -v",
        "validate -o markdown",
        "validate -o json",
        "validate -o yaml",
        "validate -o sarif",
        "validate -o junit",
        "diff",
        "diff -o json",
    ] {
        let shown = run_with(folder.path(), line, "", &ACTIONS);
        assert_eq!(shown.exit, 3, "{}", shown.shown());
        assert_eq!(commands(&shown.out), Vec::<&str>::new(), "{}", shown.shown());
        for annotation in commands(&shown.err) {
            let (head, _) = annotation.split_once(",title=").unwrap_or(("", ""));
            assert!(
                head.starts_with("::error file=pools/") || head.starts_with("::warning file=pools/"),
                "{annotation}"
            );
        }
    }
    let outside = run(folder.path(), "validate");
    assert!(outside.out.contains("##[stop-commands]x"), "unchanged elsewhere: {}", outside.shown());
}

#[test]
fn values_of_an_invalid_base_control_nothing() {
    let folder = gpu();
    let kubelet = |address: &str| {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [\"{address}\"]\n\
             nodeStatusUpdateFrequency: 20s\n"
        )
    };
    folder.write("pools/gpu/kubelet.yaml", &kubelet("\\u202e\\u009b2J"));
    folder.commit();
    folder.write("pools/gpu/kubelet.yaml", &kubelet("10.96.0.10").replace("nodeStatusUpdateFrequency: 20s\n", ""));
    folder.commit();
    for line in ["diff --against HEAD~1", "diff --against HEAD~1 -v", "diff --against HEAD~1 -o markdown"] {
        let shown = run(folder.path(), line);
        assert_eq!(shown.exit, 1, "{}", shown.shown());
        assert!(shown.out.contains("clusterDNS"), "{}", shown.shown());
        controls_nothing(&shown);
        let blank = shown.out.lines().find(|line| !line.is_empty() && line.trim().is_empty());
        assert_eq!(blank, None, "a line of only spaces: {}", shown.shown());
    }
}

#[test]
fn arguments_of_a_pipeline_control_nothing() {
    let folder = gpu();
    for words in
        [&["history", HOSTILE][..], &[HOSTILE], &["diff", &format!("--{HOSTILE}")], &["diff", "--rev", HOSTILE]]
    {
        let mut command = nodecfg(folder.path());
        command.args(words).envs(ACTIONS);
        let shown = Run::of(command);
        assert!(matches!(shown.exit, 2 | 3), "{}", shown.shown());
        assert_eq!((commands(&shown.out), commands(&shown.err)), (vec![], vec![]), "{}", shown.shown());
        let hidden = |c: char| c != '\n' && c != '\u{200b}' && nodecfg_contract::printable::is_hidden(c);
        assert!(!shown.err.contains(hidden), "{}", shown.shown().escape_debug());
    }
}
