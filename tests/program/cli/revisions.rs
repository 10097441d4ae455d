//! Tests of which revision commands read: options, `NODECFG_REV`, and no repository.

use serde_json::Value;

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, run, run_with};
use crate::cli::repository::{Folder, KUBELET, POOL, gpu};

/// Commands that read the repository in the folder before anything else.
const READERS: [&str; 14] = [
    "validate",
    "diff",
    "sync",
    "verify",
    "status",
    "gates",
    "history gpu --no-cluster",
    "rollback gpu",
    "render gpu --format file",
    "prune . --yes",
    "reset --all --yes --repo .",
    "release --all --yes --repo .",
    "capture --pool gpu --repo .",
    "sandbox --repo .",
];

fn tag(folder: &Folder, name: &str) {
    let repository = git2::Repository::open(folder.path()).unwrap();
    let head = repository.head().unwrap().peel_to_commit().unwrap();
    repository.tag_lightweight(name, head.as_object(), false).unwrap();
}

#[test]
fn variable_selects_the_revision_of_every_command() {
    let folder = gpu();
    for line in READERS {
        let run = run_with(folder.path(), line, "", &[("NODECFG_REV", "nowhere")]);
        assert!(run.exit == 3 && run.err.contains("has no revision \"nowhere\""), "{}", run.shown());
    }
    // `doctor` reports it as a failed check.
    let line = "doctor --kubeconfig nowhere";
    let checked = run_with(folder.path(), line, "", &[("NODECFG_REV", "nowhere")]);
    assert!(checked.exit == 3 && checked.out.contains("has no revision \"nowhere\""), "{}", checked.shown());
    let outside = Folder::with(&[]);
    let ignored = run_with(outside.path(), line, "", &[("NODECFG_REV", "nowhere")]);
    assert!(ignored.exit == 4 && !ignored.out.contains("revision"), "{}", ignored.shown());
}

#[test]
fn options_override_the_variable_and_an_empty_one_is_unset() {
    let folder = gpu();
    for (line, revision) in [
        ("validate", ""),
        ("validate --worktree", "nowhere"),
        ("validate --rev HEAD", "nowhere"),
        ("validate pools/gpu/kubelet.yaml", "nowhere"),
        ("render gpu --format file --worktree", "nowhere"),
        ("history gpu --no-cluster", ""),
        ("gates --prometheus-url=", ""),
    ] {
        let variables = [("NODECFG_REV", revision), ("NODECFG_PROMETHEUS_URL", "")];
        let run = run_with(folder.path(), line, "", &variables);
        assert_eq!(run.exit, 0, "{}", run.shown());
    }
    let typed = run(folder.path(), "validate --rev HEAD --worktree");
    assert!(
        typed.exit == 2 && typed.err.contains("'--rev <REV>' cannot be used with '--worktree'"),
        "{}",
        typed.shown()
    );
}

#[test]
fn options_of_a_repository_require_one() {
    let outside = Folder::with(&[]);
    for line in [
        "status --rev main",
        "doctor --rev main",
        "doctor --path prod",
        "prune --lenient --yes",
        "reset --all --yes --verify-commits signers",
        "release --all --yes --worktree",
        "capture node-1 --path prod",
        "sandbox --rev main",
    ] {
        let option =
            line.split(' ').filter(|word| word.starts_with("--")).find(|word| !["--yes", "--all"].contains(word));
        let refused = run(outside.path(), line);
        let message = format!("{} reads a repository, and none is named", option.unwrap());
        assert!(refused.exit == 2 && refused.err.contains(&message), "{}", refused.shown());
    }
}

/// A first commit and one for each of these pools, with other configurations and the tags `v1`, `v2` and so on.
fn history(pools: &[&str]) -> Folder {
    let folder = gpu();
    tag(&folder, "v1");
    for (number, pool) in (2..).zip(pools) {
        folder.write(
            "pools/gpu/kubelet.yaml",
            &KUBELET.replace("maxPods: 32", &format!("maxPods: 32\nregistryPullQPS: {number}")),
        );
        folder.write("pools/gpu/pool.yaml", pool);
        folder.commit();
        tag(&folder, &format!("v{number}"));
    }
    folder
}

fn with_revision(cluster: &Cluster, folder: &Folder, line: &str, revision: &str) -> Run {
    let mut command = cluster.command(folder.path(), line);
    command.env("NODECFG_REV", revision);
    Run::of(command)
}

#[test]
fn prune_keeps_what_the_pinned_revision_needs() {
    let folder = history(&[POOL, POOL, POOL]);
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    for revision in ["v1", "v2", "v3", "v4"] {
        let done = cluster.run(folder.path(), &format!("sync --rev {revision}"));
        assert_eq!(done.exit, 0, "{}", done.shown());
    }
    let deleted = |revision: &str| {
        let shown = with_revision(&cluster, &folder, "prune . --keep 1 --dry-run -o json", revision);
        assert_eq!(shown.exit, 0, "{}", shown.shown());
        let document: Value = serde_json::from_str(&shown.out).unwrap();
        let maps = document["configMaps"].as_array().unwrap().iter();
        maps.filter(|map| map["end"]["kind"] == "toDelete").map(|map| map["name"].to_string()).collect::<Vec<_>>()
    };
    let of_first = with_revision(&cluster, &folder, "diff -o json", "v1");
    let of_first: Value = serde_json::from_str(&of_first.out).unwrap();
    let needed = of_first["pools"][0]["configMap"]["after"].to_string();
    assert!(deleted("").contains(&needed), "HEAD does not need {needed}: {:?}", deleted(""));
    let rest = deleted("v1");
    assert!(!rest.contains(&needed) && !rest.is_empty(), "{needed} is needed: {rest:?}");
}

#[test]
fn reset_takes_budgets_of_the_pinned_and_signed_revision() {
    let folder = history(&[&POOL.replace("maxUnavailable: 1", "maxUnavailable: 3")]);
    let cluster = Cluster::start(&["gpu"], 4, &[]);
    assert_eq!(cluster.run(folder.path(), "sync").exit, 0);
    let line = "reset --all --repo . --dry-run";
    for (revision, budget) in [("", "at most 3 unavailable"), ("v1", "at most 1 unavailable")] {
        let shown = with_revision(&cluster, &folder, line, revision);
        assert!(shown.exit == 0 && shown.out.contains(budget), "{}", shown.shown());
    }
    let signers = Folder::with(&[(
        "signers",
        "a@b ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHV7so77TV4DcOsgEJB0DnJWW0YssMNylT7LWu7GROkG\n",
    )]);
    let signers = signers.path().join("signers");
    let unsigned = cluster.run(folder.path(), &format!("{line} --verify-commits {}", signers.display()));
    assert!(unsigned.exit == 3 && unsigned.err.contains("is not signed"), "{}", unsigned.shown());
}

#[test]
fn doctor_uses_the_repository_in_its_folder() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    cluster.embedded().api().clear_denials();
    let codes = |line: &str| {
        let shown = cluster.run(folder.path(), &format!("{line} -o json"));
        let document: Value = serde_json::from_str(&shown.out).unwrap();
        let checks = document["checks"].as_array().unwrap().clone();
        checks.iter().map(|check| format!("{} {}", check["code"], check["verdict"])).collect::<Vec<_>>()
    };
    assert_eq!(codes("doctor"), codes("doctor ."));
    assert!(codes("doctor").iter().any(|check| check.starts_with("\"plan\"")), "{:?}", codes("doctor"));
    assert_ne!(codes("doctor"), codes("doctor --no-repo"));
}
