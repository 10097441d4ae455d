//! `nodecfg install` as far as it needs no cluster.

use crate::program::{run, shows};

#[test]
fn a_dry_run_prints_the_objects_in_the_order_in_which_they_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = run(folder.path(), "install --agent daemonset --image agent:1 --namespace fleet --dry-run");
    assert_eq!((yaml.exit, yaml.err.as_str()), (0, ""));
    let from_yaml: Vec<serde_json::Value> =
        yaml.out.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    let json = run(folder.path(), "install --agent daemonset --image agent:1 --namespace fleet --dry-run -o json");
    let list: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"].as_array().unwrap(), &from_yaml);
    let line = |object: &serde_json::Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", object["kind"].as_str().unwrap(), text("namespace"), text("name"))
    };
    let lines: Vec<String> = from_yaml.iter().map(line).collect();
    insta::assert_snapshot!("install-order", lines.join("\n"));
}

#[test]
fn the_unit_file_is_printed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let shown =
        run(folder.path(), "install --agent systemd --unit --kubelet-config-dir /etc/kubernetes/kubelet.conf.d");
    assert_eq!((shown.exit, shown.err.as_str()), (0, ""));
    assert!(shown.out.contains("\nReadWritePaths=/etc/kubernetes/kubelet.conf.d /var/lib/kubelet\n"), "{}", shown.out);
    assert!(shown.out.contains("--activation=drop-in"), "{}", shown.out);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        "install --agent daemonset --dry-run",
        "install --unit",
        "install --dry-run --force-conflicts",
        "install --agent systemd --unit --dry-run",
        "install --dry-run -o markdown",
        "install --dry-run --kubelet-config var/lib/kubelet/config.yaml",
        "install --dry-run --kubelet-config-dir /etc/../kubelet",
        "install --dry-run --listen 9348",
        "install",
    ];
    let shown: Vec<String> = cases
        .iter()
        .map(|case| {
            let shown = run(folder.path(), case);
            assert_eq!((shown.out.as_str(), shown.exit == 2 || *case == "install"), ("", true), "{case}");
            shown.shown().replace(&folder.path().display().to_string(), "[folder]")
        })
        .collect();
    shows!("install-refused", shown.join("\n"));
}
