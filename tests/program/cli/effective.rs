//! Tests of `effective`: the answers of a real kubelet to files and links on a disk, and the outputs.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::cli::program::{Run, nodecfg, run, run_with, shows};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Answers of a real kubelet 1.36.2, which had two more flags.
static RECORDED: &str = include_str!("../../data/effective/kubelet-1.36.jsonl");
const FLAGS: [&str; 2] = ["--fail-cgroupv1=false", "-v=5"];

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The values that differ from the defaults, or the error.
fn answer(run: &Run) -> Result<Value, String> {
    let document: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}", run.shown()));
    assert_eq!(run.exit, if document["accepted"] == true { 0 } else { 3 }, "{}", run.shown());
    match document["error"].as_str() {
        None => Ok(document["values"].clone()),
        Some(error) => Err(error.to_owned()),
    }
}

/// Reads the folders, names and links of the recorded cases from a disk.
#[test]
fn reads_files_and_links_as_a_real_kubelet() {
    let mut count = 0;
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        if !id.starts_with("files/") && !id.starts_with("links/") {
            continue;
        }
        count += 1;
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        let links = case["links"].as_object().cloned().unwrap_or_default();
        if !links.contains_key(".") {
            std::fs::create_dir(folder.join("conf.d")).unwrap();
        }
        for (path, text) in case["dropIns"].as_object().unwrap() {
            let path = path.strip_prefix("../").map_or_else(|| format!("conf.d/{path}"), str::to_owned);
            write(folder, &path, text.as_str().unwrap());
        }
        for (path, target) in &links {
            let target = target.as_str().unwrap();
            match path.as_str() {
                "." => symlink(target.trim_start_matches("../"), folder.join("conf.d")).unwrap(),
                path => symlink(target, folder.join("conf.d").join(path)).unwrap(),
            }
        }
        let mut command = nodecfg(folder);
        command.args(["effective", "-o", "json", "--kubernetes-version", "1.36"]);
        if let Some(text) = case["config"].as_str() {
            write(folder, "kubelet.yaml", text);
            command.args(["--config", "kubelet.yaml"]);
        }
        let slash = if case["trailingSlash"] == true { "/" } else { "" };
        command.args(["--config-dir", &format!("conf.d{slash}"), "--"]).args(FLAGS);
        let shown = Run::of(command);
        match answer(&shown) {
            Err(_) => assert_eq!(case["accepted"], false, "{id}: {}", shown.shown()),
            Ok(values) => {
                assert_eq!(case["accepted"], true, "{id}: {}", shown.shown());
                for (path, value) in case["effective"].as_object().unwrap() {
                    assert_eq!(&values[path]["value"], value, "{id} {path}: {}", shown.shown());
                }
                for path in case["absent"].as_array().into_iter().flatten() {
                    assert_eq!(values.get(path.as_str().unwrap()), None, "{id} {path}");
                }
                let expected = case["effective"].get("maxPods").is_some();
                let of_drop_in = values["maxPods"]["by"].as_str().unwrap().starts_with("conf.d/");
                assert!(!expected || of_drop_in || id == "files/both-cases", "{id}: {}", values["maxPods"]);
            }
        }
    }
    assert_eq!(count, 27);
}

fn example() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write(
        folder,
        "kubelet.yaml",
        &format!("{HEAD}clusterDNS: [10.96.0.10]\nmaxPods: 60\nstaticPodURL: https://me:secret@host/pods\n"),
    );
    write(folder, "conf.d/10-a.conf", &format!("{HEAD}maxPods: 70\nevictionHard: {{memory.available: 1Gi}}\n"));
    write(folder, "conf.d/sub/b.conf", &format!("{HEAD}featureGates: {{CPUManagerPolicyAlphaOptions: true}}\n"));
    home
}

#[test]
fn shows_values_with_their_origins() {
    let home = example();
    let files = "effective --config kubelet.yaml --config-dir conf.d --kubernetes-version 1.36";
    for (name, arguments) in [
        ("text", format!("{files} --changed -- --image-gc-high-threshold=90 --cpu-cfs-quota=false")),
        ("json", format!("{files} --changed -o json -- --max-pods 50")),
        ("markdown", format!("{files} --changed -o markdown")),
        ("refused", format!("{files} -- --max-pods=-1")),
        ("refused-json", format!("{files} -o json -- --no-such-flag")),
        ("startup", format!("{files} --changed -- --sync-frequency=0s")),
    ] {
        shows!(format!("effective-{name}"), run(home.path(), &arguments).shown());
    }
    let all = run(home.path(), &format!("{files} -o json"));
    assert!(answer(&all).unwrap().as_object().unwrap().len() > 90, "{}", all.shown());
    assert!(!all.out.contains("secret"), "{}", all.shown());
}

#[test]
fn takes_paths_from_the_flags_of_the_kubelet() {
    let home = example();
    let flags = "effective -o json --kubernetes-version 1.36 -- --config=kubelet.yaml --config-dir conf.d";
    let values = answer(&run(home.path(), flags)).unwrap();
    assert_eq!(values["maxPods"]["by"], "conf.d/10-a.conf");
    assert_eq!(values["clusterDNS"]["by"], "--config");
}

#[test]
fn older_kubelets_need_a_variable_for_drop_ins() {
    let home = example();
    let files = "effective --config kubelet.yaml --config-dir conf.d -o json --kubernetes-version 1.29";
    assert!(answer(&run(home.path(), files)).unwrap_err().contains("KUBELET_CONFIG_DROPIN_DIR_ALPHA"));
    let with = run_with(home.path(), files, "", &[("KUBELET_CONFIG_DROPIN_DIR_ALPHA", "yes")]);
    assert_eq!(answer(&with).unwrap()["maxPods"]["value"], 70);
}

/// Unreadable files are refused with the reason, and read no further than the limits.
#[test]
fn refuses_unreadable_files() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write(folder, "good.yaml", HEAD);
    write(folder, "large.yaml", &" ".repeat((1 << 20) + 1));
    std::fs::write(folder.join("latin.yaml"), b"a: \xe9\n").unwrap();
    symlink("/dev/zero", folder.join("zero.yaml")).unwrap();
    let error = |arguments: &str| answer(&run(folder, &format!("effective -o json {arguments}"))).unwrap_err();
    for (file, reason) in [
        ("missing.yaml", "--config: cannot be read: No such file"),
        ("large.yaml", "--config: has more than 1048576 bytes"),
        ("latin.yaml", "--config: is not UTF-8"),
        ("zero.yaml", "--config: is neither a file nor a folder"),
        ("/", "--config: is a folder"),
    ] {
        let found = error(&format!("--config {file}"));
        assert!(found.starts_with(reason), "{file}: {found}");
    }
    std::fs::create_dir(folder.join("conf.d")).unwrap();
    symlink("/dev/zero", folder.join("conf.d/zero.conf")).unwrap();
    let found = error("--config good.yaml --config-dir conf.d");
    assert_eq!(found, "conf.d/zero.conf: is neither a file nor a folder");
    assert!(error("--config good.yaml --config-dir nowhere").contains("does not exist"));

    // Two hundred drop-ins are read; a folder without end is not.
    std::fs::remove_file(folder.join("conf.d/zero.conf")).unwrap();
    for at in 0..200 {
        write(folder, &format!("conf.d/{at:03}.conf"), &format!("{HEAD}maxPods: {}\n", at + 1));
    }
    let many = run(folder, "effective --config good.yaml --config-dir conf.d -o json");
    assert_eq!(answer(&many).unwrap()["maxPods"]["value"], 200);
    for at in 0..40 {
        write(folder, &format!("deep/{}x", "d/".repeat(at)), "");
    }
    let deep = run(folder, "effective --config good.yaml --config-dir deep");
    assert!(deep.exit == 2 && deep.err.contains("levels"), "{}", deep.shown());
}

/// In a repository, whose author chooses its links, no link leads out of it.
#[test]
fn follows_no_link_out_of_a_repository() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write(folder, "outside.yaml", &format!("{HEAD}maxPods: 7\n"));
    write(folder, "repo/.git/HEAD", "");
    write(folder, "repo/good.yaml", HEAD);
    std::fs::create_dir(folder.join("repo/conf.d")).unwrap();
    symlink("../../outside.yaml", folder.join("repo/conf.d/a.conf")).unwrap();
    symlink("../outside.yaml", folder.join("repo/link.yaml")).unwrap();
    for arguments in ["--config repo/link.yaml", "--config repo/good.yaml --config-dir repo/conf.d"] {
        let shown = run(folder, &format!("effective -o json {arguments}"));
        assert!(answer(&shown).unwrap_err().contains("symbolic link"), "{}", shown.shown());
    }
}
