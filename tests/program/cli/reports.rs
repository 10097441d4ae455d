//! Tests of outputs that cannot be written: the result stays visible, and the exit code is documented.

use std::fs;
use std::process::Stdio;

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, nodecfg, run};
use crate::cli::repository::{Folder, gpu};

/// A file that can be opened and not written.
const FULL: &str = "/dev/full";

/// Asserts that the result is complete, and the error after it names the output.
#[track_caller]
fn shows(run: &Run, exit: i32, result: &str, error: &str) {
    assert_eq!(run.exit, exit, "{}", run.shown());
    assert!(run.out.contains(result), "{result:?} is missing: {}", run.shown());
    let last: Vec<&str> = run.err.lines().rev().take(2).collect();
    assert!(last[0].trim_start().starts_with("help: ") && last[1].starts_with("error: "), "{}", run.shown());
    assert!(last[1].contains(error), "{error:?} is missing: {}", run.shown());
}

#[test]
fn failed_report_hides_no_rollout() {
    let (folder, reports) = (gpu(), Folder::with(&[]));
    let lines = reports.path().join("lines.json");
    let mut command = nodecfg(folder.path());
    command.args(["sync", "--sandbox", "--sandbox-nodes", "2", "--sandbox-speed", "40", "--report"]);
    command.arg(format!("html={FULL}")).args(["--report", &format!("json={}", lines.display())]);
    let done = Run::of(command);
    shows(&done, 0, ". 2 nodes: 2 converged", "cannot write the report /dev/full: ");
    let lines = fs::read_to_string(lines).unwrap();
    assert!(lines.lines().last().unwrap().contains(r#""event":"finished""#), "the other report is complete: {lines}");

    let cluster = Cluster::start(&["gpu"], 2, &["gpu-1=validate-error"]);
    let failed = cluster.run(folder.path(), &format!("sync --report markdown={FULL}"));
    shows(&failed, 5, "Not done after ", "cannot write the report /dev/full: ");
    let watched = cluster.run(folder.path(), &format!("verify --timeout 1s -o json --report markdown={FULL}"));
    shows(&watched, 5, r#""event":"finished""#, "cannot write the report /dev/full: ");
}

#[test]
fn report_that_fails_before_the_first_change_prevents_it() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let before = cluster.embedded().api().revision();
    for report in [format!("json={FULL}"), "html=nowhere/page.html".to_owned()] {
        let refused = cluster.run(folder.path(), &format!("sync --report {report}"));
        shows(&refused, 2, "", "cannot write the report ");
    }
    assert_eq!(cluster.embedded().api().revision(), before);
}

#[test]
fn failed_report_hides_no_review() {
    let (folder, reports) = (gpu(), Folder::with(&[]));
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let other = reports.path().join("plan.md");
    for command in ["diff", "sync --dry-run", "rollback gpu --to HEAD --dry-run", "status ."] {
        let line = format!("{command} -o json --report yaml={FULL} --report markdown={}", other.display());
        let shown = cluster.run(folder.path(), &line);
        shows(&shown, 2, "\"kind\"", "cannot write the report /dev/full: ");
        serde_json::from_str::<serde_json::Value>(&shown.out).expect("one document");
        assert!(!fs::read_to_string(&other).unwrap().is_empty(), "{line}");
    }
    // The plan is not saved.
    let shown = cluster.run(folder.path(), "diff -o json --out nowhere/plan.json");
    shows(&shown, 2, "\"kind\": \"Diff\"", "cannot save the plan as nowhere/plan.json: ");
    serde_json::from_str::<serde_json::Value>(&shown.out).expect("one document");
}

#[test]
fn failed_report_hides_no_finding() {
    let folder = gpu();
    for format in ["text", "json", "junit", "sarif"] {
        let valid = run(folder.path(), &format!("validate --report {format}={FULL}"));
        shows(&valid, 2, "Valid: 1 pool", "cannot write the report /dev/full: ");
    }
    folder.write("pools/gpu/kubelet.yaml", "maxPods: many\n");
    let invalid = run(folder.path(), &format!("validate --worktree --report sarif={FULL}"));
    shows(&invalid, 3, "maxPods", "cannot write the report /dev/full: ");
}

#[test]
fn lost_standard_output_keeps_the_exit_code_of_the_result() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 2, &["gpu-1=validate-error"]);
    for (line, exit) in [
        ("diff", 2),
        ("status", 2),
        // The plan comes before the first change.
        ("sync", 2),
        // With --quiet, the summary of a failure is the first output.
        ("sync -q", 5),
        ("verify -q --timeout 1s", 5),
        ("doctor", 5),
    ] {
        let mut command = cluster.command(folder.path(), line);
        command.stdout(fs::OpenOptions::new().write(true).open(FULL).unwrap()).stderr(Stdio::piped());
        let output = command.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(exit), "{line}: {err}");
        assert_eq!(err.matches("cannot write the output: ").count(), 1, "{line}: {err}");
    }
}

/// An empty report would count as a success in a pipeline.
#[test]
fn reports_of_a_check_that_fails_as_a_whole_are_red() {
    let (folder, reports) = (gpu(), Folder::with(&[]));
    for (format, failed) in [
        ("junit", r#"failures="1""#),
        ("sarif", r#""executionSuccessful": false"#),
        ("text", "error: "),
        ("yaml", "kind: Error"),
    ] {
        let file = reports.path().join("report");
        let line = format!("validate --rev nowhere --report {format}={}", file.display());
        assert_eq!(run(folder.path(), &line).exit, 3, "{line}");
        let report = fs::read_to_string(&file).unwrap();
        assert!(report.contains(failed) && report.contains("nowhere"), "{format}: {report}");
    }
    for (format, failed) in [("junit", r#"failures="1""#), ("sarif", r#""executionSuccessful": false"#)] {
        let red = run(folder.path(), &format!("validate --rev nowhere -o {format}"));
        assert!(red.exit == 3 && red.out.contains(failed) && red.err.starts_with("error: "), "{}", red.shown());
    }
}
