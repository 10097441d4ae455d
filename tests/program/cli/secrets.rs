//! Tests that no output contains values of `staticPodURLHeader`, in any spelling and with any error.

use std::fs;

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, run};
use crate::cli::repository::{Folder, KUBELET, gpu};

/// Secret values. No output contains them by coincidence.
const TOKENS: [&str; 3] = ["s3cr3tOld", "s3cr3tNew", "918273645"];

fn assert_redacted(run: &Run) {
    let shown = run.shown();
    for token in TOKENS {
        assert!(!shown.contains(token), "{shown}");
    }
}

fn with_header(value: &str) -> String {
    format!("{KUBELET}staticPodURL: http://pods.example.com\nstaticPodURLHeader:\n  X-Token: {value}\n")
}

fn write(folder: &Folder, kubelet: &str) {
    folder.write("pools/gpu/kubelet.yaml", kubelet);
    folder.commit();
}

#[test]
fn redacts_values_of_changes() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 2, &[]);
    write(&folder, &with_header("[s3cr3tOld]").replace("32", "40"));
    assert_redacted(&cluster.run(folder.path(), "sync"));
    write(&folder, &with_header("[s3cr3tNew, s3cr3tOld]").replace("32", "48"));
    for command in ["diff", "diff -v", "sync --dry-run"] {
        for format in ["text", "json", "yaml", "markdown"] {
            let shown = cluster.run(folder.path(), &format!("{command} -o {format}"));
            assert_redacted(&shown);
            assert!(shown.out.contains("X-Token") && shown.out.contains("(not shown)"), "{}", shown.shown());
            // Other fields are printed.
            assert!(shown.out.contains("maxPods") && shown.out.contains("48"), "{}", shown.shown());
        }
    }
    // The change is rejected as too disruptive, without its values.
    let refused = cluster.run(folder.path(), "sync -o json");
    assert_redacted(&refused);
    // The ConfigMap in the cluster contains the values.
    let names = cluster.run(folder.path(), "diff -o json").out;
    assert!(names.contains("\"configMap\""), "{names}");
}

#[test]
fn redacts_credentials_of_urls() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 2, &[]);
    let with_url = |rest: &str| format!("{KUBELET}staticPodURL: https://{rest}\n");
    write(&folder, &with_url("bot:s3cr3tOld@pods.example.com/a").replace("32", "40"));
    assert_redacted(&cluster.run(folder.path(), "sync"));
    write(&folder, &with_url("bot:s3cr3tNew@pods.example.com/a?token=918273645").replace("32", "48"));
    for command in ["diff", "diff -v", "sync --dry-run"] {
        for format in ["text", "json", "yaml", "markdown"] {
            let shown = cluster.run(folder.path(), &format!("{command} -o {format}"));
            assert_redacted(&shown);
            assert!(shown.out.contains("https://(not shown)@pods.example.com/a"), "{}", shown.shown());
        }
    }
}

#[test]
fn secret_changes_config_map_name() {
    let id = |value: &str| {
        let folder = gpu();
        write(&folder, &with_header(value));
        let shown = run(folder.path(), "sync --sandbox --dry-run -o json");
        assert_redacted(&shown);
        let plan: serde_json::Value = serde_json::from_str(&shown.out).expect("a document");
        // The name ends with a hash of the content.
        plan["pools"][0]["configMap"]["after"].as_str().expect("a name").to_owned()
    };
    assert_ne!(id("[s3cr3tOld]"), id("[s3cr3tNew]"));
}

#[test]
fn redacts_values_in_errors() {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let broken = [
        "staticPodURLHeader: s3cr3tOld",
        "staticPodURLHeader: [s3cr3tOld]",
        "staticPodURLHeader: {X-Token: s3cr3tOld}",
        "staticPodURLHeader: {X-Token: [918273645]}",
        "staticPodURLHeader: {X-Token: [0o918273645, 918273645.5]}",
        "staticPodURLHeader: {X-Token: [{s3cr3tOld: s3cr3tNew}]}",
        "staticPodURLHeader:\n  X-Token:\n  - s3cr3tOld\n  X-Token:\n  - s3cr3tNew",
        "staticPodURLHeader:\n  X-Token: [@s3cr3tOld\n  Y: \"s3cr3tNew",
        "staticPodURLHeader:\n  X-Token: [\"s3cr3tOld]\nmaxPods: 1",
        "staticPodURLHeader:\n  X-Token: [\"s3cr3tOld\"]\nmaxPods: many",
        "maxPods: many\nstaticPodURLHeader:\n  X-Token: [\"s3cr3tOld\"]",
        "staticPodURLHeader: {X-Token: [\"s3cr3tOld\"]}\nstaticPodURLHeader: {X-Token: [s3cr3tNew]}",
        "staticPodUrlHeader: {X-Token: [s3cr3tOld]}",
        "StaticPodURLHeader:\n  X-Token:\n  - s3cr3tOld",
    ];
    let folder = Folder::with(&[]);
    for body in broken {
        fs::write(folder.path().join("kubelet.yaml"), format!("{head}{body}\n")).unwrap();
        for format in ["text", "json", "yaml", "markdown", "sarif", "junit", "github"] {
            for more in ["", " -v", " --lenient -v"] {
                assert_redacted(&run(folder.path(), &format!("validate kubelet.yaml -o {format}{more}")));
            }
        }
        let repository = gpu();
        write(&repository, &format!("{head}{body}\n"));
        for command in
            ["validate -v", "validate -o sarif", "sync --sandbox --dry-run", "sync --sandbox --dry-run -o json"]
        {
            assert_redacted(&run(repository.path(), command));
        }
    }
}

#[test]
fn redacts_values_of_patches() {
    let folder = gpu();
    folder.write(
        "pools/gpu/pool.yaml",
        &format!("{}  patches:\n  - path: header.yaml\n", crate::cli::repository::POOL.trim_end().to_owned() + "\n"),
    );
    for patch in [
        "- op: add\n  path: /staticPodURLHeader/X-Token\n  value: [s3cr3tOld]\n",
        "- value: [s3cr3tOld]\n  op: add\n  path: /staticPodURLHeader\n  more: 1\n",
        "- op: test\n  path: /staticPodURLHeader\n  value: {X-Token: [918273645]}\n",
        "staticPodURLHeader: {X-Token: s3cr3tOld}\n",
    ] {
        folder.write("pools/gpu/header.yaml", patch);
        folder.commit();
        for command in ["validate -v", "validate -o json", "validate -o sarif", "sync --sandbox --dry-run -o json"] {
            assert_redacted(&run(folder.path(), command));
        }
    }
}
