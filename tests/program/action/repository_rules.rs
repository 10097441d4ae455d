//! Rules for action.yml, its scripts, the workflows and their guide.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::action::job::{ACTION, possible, root};
use crate::action::workspace::Workspace;

fn files(folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{folder}");
    files
}

#[test]
fn scripts_contain_no_expressions() {
    for step in ACTION["runs"]["steps"].as_array().unwrap() {
        let run = step["run"].as_str().unwrap();
        assert!(!run.contains("${{"), "{run}");
        let script = run.split_once("$GITHUB_ACTION_PATH/").unwrap().1.trim_end_matches('"');
        assert!(root().join(script).is_file(), "{script}");
    }
    for (path, text) in files(".github/workflows", ".yml").into_iter().chain(files("examples/workflows", ".yml")) {
        let workflow: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            for step in job["steps"].as_array().unwrap() {
                let run = step["run"].as_str().unwrap_or_default();
                assert!(!run.contains("${{"), "{}: {name}: {run}", path.display());
            }
        }
        assert!(workflow["permissions"].is_object(), "{}: permissions for all jobs", path.display());
    }
}

#[test]
fn scripts_run_in_bash_of_macos() {
    let newer = [
        "mapfile",
        "readarray",
        "declare -A",
        "local -A",
        "local -n",
        "declare -n",
        "coproc",
        "wait -n",
        "|&",
        "&>>",
        ",,}",
        "^^}",
        "@Q}",
        "${EPOCHSECONDS",
        "shopt -s globstar",
        "printf '%(",
    ];
    for (path, text) in files("action", ".sh") {
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let found = newer.iter().find(|word| line.contains(**word));
            assert_eq!(found, None, "{}: {line}", path.display());
        }
        let sourced = text.starts_with("# shellcheck shell=bash\n");
        assert!(sourced || text.contains("\nset -euo pipefail\n"), "{}", path.display());
    }
}

/// git would obey the configuration of a repository that a pull request places among its files.
#[test]
fn scripts_run_no_git() {
    for (path, text) in files("action", ".sh") {
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let command = line.split(['(', ';', '|', '&', '!']).any(|command| command.trim_start().starts_with("git "));
            let after = ["if git ", "then git ", "exec git ", "command git "].iter().any(|words| line.contains(words));
            assert!(!command && !after, "{}: {line}", path.display());
        }
    }
}

#[test]
fn guide_lists_every_input_and_output() {
    let guide = fs::read_to_string(root().join("docs/reference/action.md")).unwrap();
    for list in ["inputs", "outputs"] {
        for name in ACTION[list].as_object().unwrap().keys() {
            assert!(guide.contains(&format!("| `{name}` |")), "{list}: {name}");
        }
    }
}

#[test]
fn workflows_use_only_existing_inputs() {
    let workflows = files("examples/workflows", ".yml").into_iter().chain(files(".github/workflows", ".yml"));
    let mut uses = 0;
    for (path, text) in workflows {
        let workflow: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        for job in workflow["jobs"].as_object().unwrap().values() {
            for step in job["steps"].as_array().unwrap() {
                let ours =
                    step["uses"].as_str().is_some_and(|uses| uses.starts_with("example/nodecfg@") || uses == "./");
                if !ours {
                    continue;
                }
                uses += 1;
                for name in step["with"].as_object().into_iter().flatten().map(|(name, _)| name) {
                    assert!(ACTION["inputs"][name].is_object(), "{}: {name}", path.display());
                }
            }
        }
    }
    assert!(uses >= 4, "{uses}");
}

#[test]
fn jobs_with_kubeconfig_are_pinned_and_limit_branches() {
    let mut uses = 0;
    for (path, text) in files("examples/workflows", ".yml") {
        let workflow: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        for job in workflow["jobs"].as_object().unwrap().values() {
            for step in job["steps"].as_array().unwrap().iter().filter(|step| step["with"]["kubeconfig"].is_string()) {
                uses += 1;
                let revision = step["uses"].as_str().unwrap().split_once('@').unwrap().1;
                assert_eq!(revision.len(), 40, "{}: {revision}", path.display());
                assert!(step["with"]["sha256"].is_string(), "{}: {step}", path.display());
                assert!(job["environment"].is_string(), "{}: {step}", path.display());
                assert!(text.contains("deployment branches"), "{}", path.display());
            }
        }
    }
    assert_eq!(uses, 4);
    let guide = fs::read_to_string(root().join("docs/how-to/ci.md")).unwrap();
    assert!(guide.contains("Restrict the deployment branches of both environments"));
}

#[test]
fn releases_come_only_from_commits_on_main() {
    if !possible() {
        return;
    }
    let text = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let workflow: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let jobs = &workflow["jobs"];
    // Nothing is published before the checks and the builds, which start only for such a commit.
    assert_eq!((&jobs["checks"]["needs"], &jobs["build"]["needs"]), (&"tag".into(), &"tag".into()));
    assert_eq!(jobs["images"]["needs"], serde_json::json!(["checks", "build"]));
    assert_eq!((&jobs["sboms"]["needs"], &jobs["publish"]["needs"]), (&"images".into(), &"sboms".into()));
    for job in ["images", "publish"] {
        assert_eq!(jobs[job]["environment"], "release", "{job}");
    }
    let steps = jobs["tag"]["steps"].as_array().unwrap();
    assert_eq!(steps[0]["with"]["fetch-depth"], 0);

    let script = steps[1]["run"].as_str().unwrap();
    let repository = Workspace::branch_that_merged_main(&[("a", "b")], &[("a", "c")]);
    for (revision, right) in
        [("origin/main", true), ("origin/main^", true), ("origin/change", false), ("origin/change^1", false)]
    {
        let at = repository.cloned(revision);
        let status = Command::new("bash").args(["-ec", script]).current_dir(at).status().unwrap();
        assert_eq!(status.success(), right, "{revision}");
    }
}
