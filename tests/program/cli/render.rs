//! Tests of `render`: what it reads, where it writes, and errors.

use serde_json::Value;

use crate::cli::cluster::Cluster;
use crate::cli::program::{nodecfg, run, shows};
use crate::cli::repository::{Folder, KUBELET, POOL, gpu};

const FORMATS: [&str; 7] = ["file", "drop-in", "cloud-init", "nodeadm", "kubeadm-patch", "karpenter", "cluster-api"];

#[test]
fn prints_each_format_of_the_commit() {
    let folder = gpu();
    let of = |options: &str, format: &str| run(folder.path(), &format!("render gpu {options} --format {format}"));
    let committed: Vec<String> = FORMATS.map(|format| of("", format).out).into();
    for (format, text) in FORMATS.iter().zip(&committed) {
        let shown = of("", format);
        assert!(shown.exit == 0 && &shown.out == text && !text.is_empty(), "{}", shown.shown());
    }
    // A commit that leaves the pool unchanged changes no byte.
    folder.write("pools/edge/kubelet.yaml", KUBELET);
    folder.write("pools/gpu/kubelet.yaml", &format!("# a comment\n{KUBELET}"));
    folder.commit();
    for (format, text) in FORMATS.iter().zip(&committed) {
        assert_eq!(&of("", format).out, text);
    }
    folder.write("pools/gpu/kubelet.yaml", &KUBELET.replace("32", "33"));
    for (format, text) in FORMATS.iter().zip(&committed) {
        assert_eq!(&of("", format).out, text);
        let changed = of("--worktree", format).out;
        assert!(&changed != text && changed.contains("maxPods: 33"), "{changed}");
    }
    folder.commit();
    assert_eq!(of("--rev HEAD~1", "file").out, committed[0]);
    assert_ne!(of("", "file").out, committed[0]);
}

#[test]
fn prints_warnings_on_standard_error() {
    let folder = gpu();
    folder
        .write("pools/gpu/kubelet.yaml", &format!("{KUBELET}registerWithTaints: [{{key: gpu, effect: NoSchedule}}]\n"));
    folder.commit();
    shows!("render-karpenter", run(folder.path(), "render gpu --format karpenter").shown());
    let other = run(folder.path(), "render gpu --format nodeadm");
    assert!(other.exit == 0 && !other.err.contains("scheduling-estimate"), "{}", other.shown());
}

#[test]
fn writes_a_file() {
    let folder = gpu();
    for format in FORMATS {
        let printed = run(folder.path(), &format!("render gpu --format {format}")).out;
        let written = run(folder.path(), &format!("render gpu --format {format} --out new.yaml"));
        assert!(written.exit == 0 && written.out.is_empty(), "{}", written.shown());
        assert!(written.err.ends_with("wrote new.yaml\n"), "{}", written.shown());
        assert_eq!(std::fs::read_to_string(folder.path().join("new.yaml")).unwrap(), printed);
    }
    let quiet = run(folder.path(), "render gpu --format file --out new.yaml -q");
    assert!(quiet.exit == 0 && quiet.out.is_empty() && !quiet.err.contains("wrote"), "{}", quiet.shown());
    let failed = run(folder.path(), "render gpu --format file --out missing/new.yaml");
    assert!(failed.exit == 2 && failed.err.contains("cannot write missing/new.yaml"), "{}", failed.shown());
}

#[test]
fn prints_values_that_reports_redact() {
    let folder = gpu();
    let header = "staticPodURL: http://pods.example.com\nstaticPodURLHeader: {X-Token: [s3cr3t]}\n";
    folder.write("pools/gpu/kubelet.yaml", &format!("{KUBELET}{header}"));
    for format in FORMATS {
        let shown = run(folder.path(), &format!("render gpu --format {format} --worktree"));
        assert!(shown.exit == 0 && shown.out.contains("s3cr3t"), "{}", shown.shown());
        assert!(!shown.err.contains("s3cr3t"), "{}", shown.shown());
    }
}

#[test]
fn refuses_wrong_input_without_output() {
    let folder = gpu();
    folder.write(
        "pools/local/pool.yaml",
        &POOL.replace("gpu", "local").replace("spec:\n", "spec:\n  kubelet: {local: true}\n"),
    );
    folder.write(
        "pools/old/pool.yaml",
        &POOL.replace("gpu", "old").replace("spec:\n", "spec:\n  kubernetesVersion: '1.24'\n"),
    );
    folder.write("pools/old/kubelet.yaml", KUBELET);
    folder.commit();
    let lines = [
        "render gpo --format file",
        "render local --format file",
        "render old --format drop-in",
        "render gpu --format file --name gpu",
        "render gpu --format nodeadm --kubelet-config /etc/kubelet.yaml",
        "render gpu --format cloud-init --kubelet-config kubelet.yaml",
        "render gpu --format karpenter --name Gpu",
        "render gpu --format file --out -",
        "render gpu --format configmap",
        "render gpu",
        "render gpu --format file -o markdown",
        "render local --format file -o json",
    ];
    let mut all = String::new();
    for line in lines {
        let shown = run(folder.path(), line);
        assert!(shown.exit == 2 && (shown.out.is_empty() || line.ends_with("json")), "{}", shown.shown());
        all += &shown.shown();
    }
    shows!("render-errors", all);
}

#[test]
fn refuses_invalid_configurations() {
    // One is refused by nodecfg, the other by the kubelet of its version.
    for wrong in ["maxPod: 5\n", "imageGCLowThresholdPercent: 90\nimageGCHighThresholdPercent: 80\n"] {
        let folder = gpu();
        folder.write("pools/gpu/kubelet.yaml", &format!("{KUBELET}{wrong}"));
        let shown = run(folder.path(), "render gpu --format karpenter --worktree --out new.yaml");
        assert!(
            shown.exit == 3 && shown.out.is_empty() && shown.err.contains("pools/gpu/kubelet.yaml"),
            "{}",
            shown.shown()
        );
        assert!(!folder.path().join("new.yaml").exists());
    }
    let nowhere = run(Folder::with(&[]).path(), "render gpu --format file");
    assert!(nowhere.exit == 2 || nowhere.exit == 3, "{}", nowhere.shown());
}

#[test]
fn file_equals_the_config_map_of_sync() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let synced = cluster.run(folder.path(), "sync");
    assert_eq!(synced.exit, 0, "{}", synced.shown());
    let list = cluster.send("GET", "/api/v1/namespaces/kube-system/configmaps", "application/json", &Value::Null);
    let of_pool = |map: &&Value| map["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("prod-gpu-"));
    let maps: Vec<&Value> = list["items"].as_array().unwrap().iter().filter(of_pool).collect();
    assert_eq!(maps.len(), 1, "{list:#}");
    assert_eq!(maps[0]["data"]["kubelet"], run(folder.path(), "render gpu --format file").out);
}

#[test]
fn reads_no_cluster() {
    let folder = gpu();
    let mut command = nodecfg(folder.path());
    command.args(["render", "gpu", "--format", "file"]).env("KUBECONFIG", folder.path().join("nowhere.yaml"));
    assert!(command.output().unwrap().status.success());
    let refused = run(folder.path(), "render gpu --format file --context prod");
    assert!(refused.exit == 2 && refused.err.contains("--context"), "{}", refused.shown());
}
