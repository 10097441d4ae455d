//! Tests of `validate` on single files: kubelet versions, file lists, and formats for pipelines.

use serde_json::{Value, json};

use crate::cli::program::{Run, run, run_with, shows};
use crate::cli::repository::{FLEET, Folder, KUBELET, POOL, gpu};

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Files: valid, rejected by kubelets, rejected only by nodecfg, and two unreadable ones.
fn files() -> Folder {
    let folder = Folder::with(&[
        ("good.yaml", HEADER),
        ("refused.yaml", &format!("{HEADER}maxPods: -5\npodLogsDir: /var/log/pods/here\n")),
        ("gate.yaml", &format!("{HEADER}maxPod: 5\npodPidsLimit: 5\npodPidsLimit: 6\n")),
        ("malformed.yaml", "maxPods: [\n"),
    ]);
    std::fs::write(folder.path().join("latin-1.yaml"), b"maxPods: \xe9\n").unwrap();
    folder
}

const ALL: &str = "good.yaml refused.yaml gate.yaml malformed.yaml latin-1.yaml nowhere.yaml";

fn json_of(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.shown()))
}

fn codes(file: &Value) -> Vec<(&str, &str)> {
    let findings = file["findings"].as_array().unwrap().iter();
    findings.map(|f| (f["severity"].as_str().unwrap(), f["code"].as_str().unwrap())).collect()
}

#[test]
fn reports_every_file() {
    let folder = files();
    let shown = run(folder.path(), &format!("validate {ALL} --kubernetes-version 1.21,v1.36.2"));
    assert_eq!(shown.exit, 3);
    shows!("validate-files", shown.shown());
    let document = json_of(&run(folder.path(), &format!("validate {ALL} --kubernetes-version 1.21,1.36 -o json")));
    let reported: Vec<&str> = document["files"].as_array().unwrap().iter().filter_map(|f| f["file"].as_str()).collect();
    assert_eq!(reported.join(" "), ALL, "in the order in which they were named");
    let kubelet = |at: usize| &document["files"][at]["kubelet"];
    assert_eq!(
        *kubelet(0),
        json!({
            "1.21": {"accepted": true, "stage": "ok", "startupErrors": []},
            "1.36": {"accepted": true, "stage": "ok", "startupErrors": []},
        })
    );
    assert_eq!((&kubelet(1)["1.21"]["stage"], &kubelet(1)["1.36"]["accepted"]), (&json!("validate"), &json!(false)));
    assert_eq!(kubelet(2)["1.36"]["accepted"], json!(true), "the gate is no answer of the kubelet's");
    assert_eq!(kubelet(3)["1.21"], json!({"accepted": false, "stage": "load", "startupErrors": []}));
    assert_eq!((kubelet(4), kubelet(5)), (&json!({}), &json!({})), "what could not be read was not judged");
    assert_eq!(codes(&document["files"][4]), [("error", "not-utf-8")]);
    assert_eq!(codes(&document["files"][5]), [("error", "unreadable-file")]);
}

#[test]
fn lenient_warns_about_tolerated_problems() {
    let folder = files();
    let document = json_of(&run(folder.path(), "validate gate.yaml -o json"));
    assert_eq!(codes(&document["files"][0]), [("error", "unknown-field"), ("error", "duplicate-key")]);
    assert_eq!(run(folder.path(), "validate gate.yaml").exit, 3);
    let lenient = run(folder.path(), "validate gate.yaml --lenient -o json");
    assert_eq!(lenient.exit, 0);
    assert_eq!(codes(&json_of(&lenient)["files"][0]), [("warning", "unknown-field"), ("warning", "duplicate-key")]);
    assert_eq!(run(folder.path(), "validate refused.yaml --lenient").exit, 3);
    // Files of nodecfg are read by nodecfg only, so --lenient has no effect on them.
    let pool = POOL.replace("maxUnavailable", "maxUnavailabel");
    let folder = Folder::committed(&[("pools/gpu/pool.yaml", &pool), ("pools/gpu/kubelet.yaml", KUBELET)]);
    assert_eq!(run(folder.path(), "validate --lenient").exit, 3);
}

#[test]
fn fails_if_nothing_is_checked() {
    let folder = Folder::with(&[("notes/README.md", "Nothing.\n"), ("empty.txt", "\n"), ("good.yaml", HEADER)]);
    let mut shown = String::new();
    for line in ["validate notes", "validate --files-from empty.txt", "validate good.yaml notes"] {
        let run = run(folder.path(), line);
        assert_eq!(run.exit, 3, "{}", run.shown());
        shown.push_str(&run.shown());
        shown.push('\n');
    }
    shows!("validate-nothing", shown);
}

#[test]
fn reads_file_lists_and_standard_input() {
    let folder = files();
    let list = run_with(folder.path(), "validate --files-from - -o json", "good.yaml\n\nmalformed.yaml\r\n", &[]);
    assert_eq!((list.exit, json_of(&list)["summary"]["files"].as_u64()), (3, Some(2)));
    let one = run_with(folder.path(), "validate - -o json", &format!("{HEADER}maxPods: -1\n"), &[]);
    assert_eq!((one.exit, json_of(&one)["files"][0]["file"].as_str()), (3, Some("stdin")));
    let many: String = "good.yaml\n".repeat(3000);
    let many = run_with(folder.path(), "validate --files-from -", &many, &[]);
    assert_eq!((many.exit, many.out.lines().next()), (0, Some("Valid: 3000 files")));
}

#[test]
fn names_repositories_among_targets() {
    let folder = files();
    folder.write("fleet/nodecfg.yaml", FLEET);
    folder.write("fleet/pools/gpu/kubelet.yaml", &format!("{HEADER}maxPods: -5\n"));
    let shown = run(folder.path(), "validate fleet refused.yaml");
    shows!("validate-several-targets", shown.shown());
    let document = json_of(&run(folder.path(), "validate fleet good.yaml -o json"));
    let reported: Vec<&str> = document["files"].as_array().unwrap().iter().filter_map(|f| f["file"].as_str()).collect();
    assert_eq!(reported, ["fleet/nodecfg.yaml", "fleet/pools/gpu/kubelet.yaml", "good.yaml"]);
}

#[test]
fn uses_declared_kubelet_versions() {
    let pool = format!("{POOL}  kubernetesVersion: [\"1.21\", v1.36.2]\n");
    let kubelet = format!("{KUBELET}podLogsDir: /var/log/here\n");
    let folder = Folder::committed(&[("pools/gpu/pool.yaml", &pool), ("pools/gpu/kubelet.yaml", &kubelet)]);
    shows!("validate-declared-versions", run(folder.path(), "validate").shown());
    let one = json_of(&run(folder.path(), "validate -o json --kubernetes-version 1.36"));
    assert_eq!(one["valid"], json!(true), "{one:#}");
}

#[test]
fn junit_fails_for_errors_in_a_base_or_patch() {
    let pool = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  kubernetesVersion: \"1.36\"\n  \
                kubelet: {base: ../../base/kubelet.yaml, patches: [patch.yaml]}\n";
    // The kubelet loads and accepts each of these, and then exits.
    let (none, exits) = ("maxPods: 50\n", "cpuManagerPolicy: None\n");
    for (file, base, patch) in [("base/kubelet.yaml", exits, none), ("pools/gpu/patch.yaml", none, exits)] {
        let folder = Folder::committed(&[
            ("nodecfg.yaml", FLEET),
            ("base/kubelet.yaml", &format!("{HEADER}{base}")),
            ("pools/gpu/pool.yaml", pool),
            ("pools/gpu/patch.yaml", patch),
        ]);
        let shown = run(folder.path(), "validate -o junit");
        assert_eq!(shown.exit, 3, "{}", shown.shown());
        let case = |suite: &str| {
            let start = format!("<testcase classname=\"{suite}\" name=\"kubelet 1.36\">");
            let rest =
                shown.out.split_once(&start).map_or_else(|| panic!("{start}: {}", shown.shown()), |(_, rest)| rest);
            rest.split_once("</testcase>").unwrap().0.to_owned()
        };
        assert!(case(file).contains("[cpu-manager-policy]"), "{}", shown.shown());
        assert!(case("pools/gpu/pool.yaml").contains("the kubelet would not start"), "{}", shown.shown());
    }
}

#[test]
fn writes_pipeline_formats() {
    let folder = files();
    shows!("validate-sarif", run(folder.path(), "validate refused.yaml gate.yaml latin-1.yaml -o sarif").shown());
    shows!("validate-junit", run(folder.path(), "validate good.yaml refused.yaml malformed.yaml -o junit").shown());
    let actions = [("GITHUB_ACTIONS", "true"), ("GITHUB_WORKSPACE", folder.path().parent().unwrap().to_str().unwrap())];
    let annotated = run_with(folder.path(), "validate refused.yaml nowhere.yaml", "", &actions);
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    shows!("validate-annotations", annotated.err.replace(name, "[folder]"));
    assert_eq!(run(folder.path(), "validate refused.yaml nowhere.yaml").err, "");
    // Paths include the folder within the repository, for every command.
    let nested = Folder::with(&[("fleets/eu/nodecfg.yaml", FLEET), ("fleets/eu/pools/gpu/kubelet.yaml", "maxPods: [")]);
    for command in ["validate", "diff", "sync", "verify"] {
        let actions = [("GITHUB_ACTIONS", "true"), ("GITHUB_WORKSPACE", nested.path().to_str().unwrap())];
        let annotated = run_with(nested.path(), &format!("{command} --path fleets/eu --worktree"), "", &actions);
        let place = "::error file=fleets/eu/pools/gpu/kubelet.yaml,line=";
        assert!(annotated.err.lines().any(|line| line.starts_with(place)), "{command}: {}", annotated.err);
    }
    // For a repository elsewhere, paths are relative to the current folder.
    let fleet = gpu();
    fleet.write("below/pools/a/kubelet.yaml", "maxPods: [");
    let sarif: Value = json_of(&run(fleet.path(), "validate below --worktree -o sarif"));
    let uri = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(uri, "below/pools/a/kubelet.yaml");
}

#[test]
fn verbose_lists_host_checks() {
    let folder = Folder::with(&[("a.yaml", &format!("{HEADER}staticPodPath: /etc/kubernetes/manifests\n"))]);
    shows!("validate-verbose", run(folder.path(), "validate a.yaml -v").shown());
}

/// Two pools, of which `gpu` has a base and two patches, and `general` an error.
fn two_pools() -> Folder {
    let pool = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  kubernetesVersion: \"1.36\"\n  \
                kubelet: {base: ../../base/kubelet.yaml, patches: [tuning.yaml, headroom.yaml]}\n";
    Folder::committed(&[
        ("nodecfg.yaml", FLEET),
        ("base/kubelet.yaml", &format!("{HEADER}maxPods: 58\n")),
        ("pools/gpu/pool.yaml", pool),
        ("pools/gpu/tuning.yaml", "maxPods: 32\n"),
        ("pools/gpu/headroom.yaml", "- {op: replace, path: /maxPods, value: 31}\n"),
        ("pools/general/kubelet.yaml", &format!("{HEADER}port: x\n")),
        ("notes/node.yaml", &format!("{HEADER}maxPods: 20\n")),
    ])
}

#[test]
fn checks_the_pools_that_use_named_files() {
    let folder = two_pools();
    for paths in
        ["pools/gpu", "pools/gpu/pool.yaml pools/gpu/tuning.yaml pools/gpu/headroom.yaml", "base", "pools/gpu/"]
    {
        let run = run(folder.path(), &format!("validate {paths}"));
        assert_eq!((run.exit, run.out.lines().next()), (0, Some("Valid: 1 pool")), "{}", run.shown());
    }
    let both = run(folder.path(), "validate nodecfg.yaml");
    assert_eq!((both.exit, both.out.contains("Invalid: 2 pools, 1 error")), (3, true), "{}", both.shown());
    let unused = run(folder.path(), "validate notes/node.yaml pools/gpu");
    assert_eq!((unused.exit, unused.out.lines().next()), (0, Some("Valid: 1 pool, 1 file")), "{}", unused.shown());
    // The files on disk count, and the error is in a file that was not named.
    folder.write("pools/gpu/tuning.yaml", "maxPod: 32\n");
    shows!("validate-part", run(folder.path(), "validate base/kubelet.yaml").shown());
    let inside = run(&folder.path().join("pools/gpu"), "validate ../../base/kubelet.yaml");
    assert!(inside.out.contains("[tuning.yaml:1:1]"), "{}", inside.shown());
    let document = json_of(&run(folder.path(), "validate pools/gpu -o json"));
    let reported: Vec<&str> = document["files"].as_array().unwrap().iter().filter_map(|f| f["file"].as_str()).collect();
    assert_eq!(
        reported,
        [
            "base/kubelet.yaml",
            "nodecfg.yaml",
            "pools/gpu/headroom.yaml",
            "pools/gpu/pool.yaml",
            "pools/gpu/tuning.yaml"
        ]
    );
    assert_eq!(run(folder.path(), "validate pools/gpu --rev HEAD").exit, 2);
    assert_eq!(run(folder.path(), "validate pools/gpu --worktree").exit, 3);
    shows!("validate-part-unused", run(folder.path(), "validate notes").shown());
}

#[test]
fn recognizes_files_by_their_content() {
    let folder = Folder::with(&[
        ("fleet.yaml", &FLEET.replace("Fleet", "Flet")),
        ("pool.yaml", &POOL.replace("canary", "canaries")),
        ("patch.yaml", "maxPods: '32'\n"),
        ("operations.yaml", "- {op: replace, path: /evictionHrad/memory.available, value: 1Gi}\n"),
    ]);
    let run = run(folder.path(), "validate fleet.yaml pool.yaml patch.yaml operations.yaml");
    assert_eq!(run.exit, 3);
    shows!("validate-by-content", run.shown());
}
