//! No tool of the action starts in the checkout: cargo, rustup, git and others obey files of their working directory,
//! which the author of a pull request chooses.

use std::fs;
use std::path::{Path, PathBuf};

use crate::action::github::Github;
use crate::action::job::{ACTION, Job, Outcome, possible, root};
use crate::action::workspace::{KUBELET, Workspace};

/// Programs that the scripts run, apart from nodecfg itself.
const TOOLS: [&str; 19] = [
    "awk",
    "cat",
    "cp",
    "curl",
    "date",
    "grep",
    "head",
    "jq",
    "mkdir",
    "mkfifo",
    "mktemp",
    "od",
    "rm",
    "sed",
    "sha256sum",
    "tail",
    "tar",
    "tr",
    "uname",
];

/// The file of a program in the PATH.
fn installed(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

/// Runs a job in which each tool records its working directory. Returns the recorded tools, each with its directory.
fn recorded(job: Job) -> (Outcome, Vec<(String, PathBuf)>) {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let recording = |tool: &str| format!("#!/bin/sh\necho \"{tool} $(/bin/pwd -P)\" >>{}\n", record.display());
    let job = TOOLS.into_iter().filter_map(|tool| Some((tool, installed(tool)?))).fold(job, |job, (tool, file)| {
        job.program(tool, &format!("{}exec {} \"$@\"\n", recording(tool), file.display()))
    });
    // A cargo that installs nodecfg instead of building it.
    let cargo = format!(
        "{}while [ $# -gt 0 ]; do [ \"$1\" = --target-dir ] && target=$2; shift; done\n\
         mkdir -p \"$target/release\" && cp '{}' \"$target/release/nodecfg\"\n",
        recording("cargo"),
        env!("CARGO_BIN_EXE_nodecfg")
    );
    let outcome = job.local().with("build", "true").program("cargo", &cargo).run();
    let lines = fs::read_to_string(&record).unwrap();
    let entry = |line: &str| line.split_once(' ').map(|(tool, at)| (tool.to_owned(), PathBuf::from(at))).unwrap();
    (outcome, lines.lines().map(entry).collect())
}

#[test]
fn tools_start_outside_of_the_checkout() {
    if !possible() {
        return;
    }
    // What cargo and rustup would obey.
    let hostile = [
        (".cargo/config.toml", "[build]\nrustc-wrapper = \"./wrapper\"\n"),
        ("rust-toolchain.toml", "[toolchain]\npath = \"./toolchain\"\n"),
        ("pools/gpu/kubelet.yaml", KUBELET),
    ];
    for command in ["validate", "diff"] {
        let github = Github::start();
        let changed = KUBELET.replace("32", "64");
        let workspace = Workspace::of(&hostile).merging(&[("pools/gpu/kubelet.yaml", &changed)]).fetched(2);
        let checkout = workspace.path().canonicalize().unwrap();
        let (outcome, tools) = recorded(Job::pull_request("acme/fleet", &workspace, &github).with("command", command));
        outcome.passed();
        let inside: Vec<_> = tools.iter().filter(|(_, at)| at.starts_with(&checkout)).collect();
        assert!(inside.is_empty(), "{command}: {inside:?}");
        for tool in ["cargo", "jq", "mktemp"] {
            assert!(tools.iter().any(|(name, _)| name == tool), "{command} runs no {tool}: {tools:?}");
        }
    }
}

/// The test above runs each step. This one also covers branches that it does not take.
#[test]
fn scripts_leave_the_checkout_before_their_first_command() {
    let commands = |script: &Path| -> Vec<String> {
        let text = fs::read_to_string(script).unwrap();
        let lines = text.lines().map(str::to_owned);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#') && line != "set -euo pipefail").collect()
    };
    for step in ACTION["runs"]["steps"].as_array().unwrap() {
        let run = step["run"].as_str().unwrap();
        let script = run.strip_prefix("exec bash \"$GITHUB_ACTION_PATH/").and_then(|rest| rest.strip_suffix('"'));
        let script = script.unwrap_or_else(|| panic!("{run}: only starts a script"));
        let commands = commands(&root().join(script));
        assert_eq!(commands[0], "source \"$GITHUB_ACTION_PATH/action/commands.sh\"", "{script}");
        let back = commands.iter().filter(|line| line.contains("cd ")).count();
        assert_eq!(back, usize::from(script == "action/run.sh"), "{script}: only nodecfg runs in the checkout");
    }
    let first = commands(&root().join("action/commands.sh"));
    assert_eq!(first[..2], ["checkout=$PWD", "cd \"${FOLDER:-${RUNNER_TEMP:?}}\" || exit"]);
}
