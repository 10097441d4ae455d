//! Tests of completions, manual pages and explained codes.

use std::io::Write as _;
use std::process::Command;

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, nodecfg, run};
use crate::cli::repository::gpu_and_general;

/// Completions that bash would offer for the last of these words.
fn completions(mut command: Command, words: &str) -> Vec<String> {
    let words: Vec<&str> = words.split(' ').collect();
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    command.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "false").env("_CLAP_IFS", "\n");
    command.arg("--").args(words);
    let run = Run::of(command);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.shown());
    run.out.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn completes_pools_and_nodes() {
    let cluster = Cluster::start(&["gpu"], 2, &[]);
    let (folder, empty) = (gpu_and_general(), tempfile::tempdir().unwrap());
    let at = |folder: &std::path::Path, words: &str| completions(cluster.command(folder, ""), words);
    assert_eq!(at(folder.path(), "nodecfg pause g"), ["general", "gpu"]);
    assert_eq!(at(folder.path(), "nodecfg capture --pool gp"), ["gpu"]);
    assert_eq!(at(empty.path(), "nodecfg capture gpu-"), ["gpu-1", "gpu-2"]);
    assert_eq!(at(empty.path(), "nodecfg pause g"), [""; 0], "the cluster has no ConfigMaps yet");
    assert_eq!(cluster.run(folder.path(), "sync -q").exit, 0);
    assert_eq!(at(empty.path(), "nodecfg pause g"), ["gpu"]);
    assert_eq!(at(empty.path(), "nodecfg --context nodecfg-sandbox status --node gpu-"), ["gpu-1", "gpu-2"]);
    assert_eq!(at(empty.path(), "nodecfg status --context "), ["nodecfg-sandbox"]);
    assert_eq!(at(empty.path(), "nodecfg --context n"), ["nodecfg-sandbox"]);
    let without_cluster = |words: &str| completions(nodecfg(empty.path()), words);
    assert_eq!(without_cluster("nodecfg capture gpu-"), [""; 0]);
    assert_eq!(without_cluster("nodecfg capture --kubeconfig nowhere gpu-"), [""; 0]);
    assert!(without_cluster("nodecfg sy").contains(&"sync".to_owned()));
}

#[test]
fn completes_fields_revisions_and_formats() {
    let (folder, repository) = (tempfile::tempdir().unwrap(), gpu_and_general());
    let at = |folder: &std::path::Path, words: &str| completions(nodecfg(folder), words);
    assert_eq!(at(folder.path(), "nodecfg explain maxP"), ["maxParallelImagePulls", "maxPods"]);
    assert_eq!(at(folder.path(), "nodecfg explain cluster-forb"), ["cluster-forbidden"]);
    assert_eq!(at(folder.path(), "nodecfg verify -o "), ["text", "json"]);
    assert_eq!(at(folder.path(), "nodecfg diff --rev "), [""; 0], "no repository");
    let git = git2::Repository::open(repository.path()).unwrap();
    let head = git.head().unwrap().target().unwrap();
    for name in ["refs/tags/v1.0.0", "refs/heads/v$(id)"] {
        git.reference(name, head, false, "test").unwrap();
    }
    for option in ["diff --rev", "diff --against", "rollback gpu --to"] {
        assert_eq!(at(repository.path(), &format!("nodecfg {option} v")), ["v1.0.0"], "{option}");
    }
}

#[test]
fn prints_dynamic_and_static_scripts_for_every_shell() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let dynamic = run(folder.path(), &format!("completions {shell}"));
        let fixed = run(folder.path(), &format!("completions {shell} --static"));
        assert!(dynamic.exit == 0 && dynamic.out.contains("COMPLETE"), "{}", dynamic.shown());
        assert!(fixed.exit == 0 && fixed.out.contains("rollback-on-failure"), "{shell}");
    }
}

#[test]
fn ignores_unrelated_complete_variable() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = nodecfg(folder.path());
    command.env("COMPLETE", "yes").args(["explain", "maxPods"]);
    let run = Run::of(command);
    assert!(run.exit == 0 && run.out.contains("maxPods"), "{}", run.shown());
}

#[test]
fn every_command_has_valid_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let written = run(folder.path(), "man --out pages");
    assert_eq!(written.exit, 0, "{}", written.shown());
    let help = run(folder.path(), "--help").out;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        // `help` prints the help of the other commands.
        .filter(|name| !name.is_empty() && *name != "help")
        .collect();
    assert!(commands.contains(&"sync"), "{commands:?}");
    for command in &commands {
        let page = std::fs::read_to_string(folder.path().join(format!("pages/nodecfg-{command}.1"))).unwrap();
        assert_eq!(run(folder.path(), &format!("man {command}")).out, page);
        assert!(page.lines().any(|line| line == ".SH \"EXIT STATUS\""), "{page}");
        assert!(page.contains(".SH \"SEE ALSO\"\n\\fBnodecfg\\fR(1)"), "{page}");
    }
    let sync = run(folder.path(), "man nodecfg-sync").out;
    assert!(
        sync.starts_with(".TH \"NODECFG\\-SYNC\" \"1\" \"\" \"nodecfg ") && sync.contains(".SH \"EXAMPLES\""),
        "{sync}"
    );
    for (page, words) in [("agent", "Exits with 0 on SIGTERM"), ("agent-status", "Print the state in the agent")] {
        let text = run(folder.path(), &format!("man {page}")).out;
        assert!(text.contains(words) && !text.contains("EXIT STATUS"), "{text}");
        assert_eq!(text, std::fs::read_to_string(folder.path().join(format!("pages/nodecfg-{page}.1"))).unwrap());
    }
    assert!(run(folder.path(), "man").out.contains("\\fBnodecfg\\-agent\\fR(1)"));
    let unknown = run(folder.path(), "man snyc");
    assert!(unknown.exit == 2 && unknown.err.contains("did you mean nodecfg-sync?"), "{}", unknown.shown());
    assert_eq!(run(folder.path(), "man sync --out x").exit, 2);

    // groff warns about pages with wrong formatting.
    if Command::new("groff").arg("--version").output().is_err() {
        // Written to standard error directly, because the harness hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "skipped: no groff on the PATH: manual pages are not formatted");
        return;
    }
    for page in std::fs::read_dir(folder.path().join("pages")).unwrap() {
        let output =
            Command::new("groff").args(["-man", "-ww", "-Tutf8", "-z"]).arg(page.unwrap().path()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn explains_codes() {
    let folder = tempfile::tempdir().unwrap();
    for (code, words) in [
        ("always-allow", "CIS Kubernetes Benchmark"),
        ("durations", "do not decode a file"),
        ("ambiguous-scalar", "--lenient"),
        ("node-acknowledge", "does not follow"),
        ("lock", "Two syncs of one fleet"),
        ("config-map-gone", "all of these kubelets would restart"),
    ] {
        let explained = run(folder.path(), &format!("explain {code}"));
        let flat = explained.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(explained.exit == 0 && flat.contains(words), "{}", explained.shown());
    }
    let unknown = run(folder.path(), "explain config-map-gon");
    assert!(unknown.exit == 2 && unknown.err.contains("did you mean config-map-gone?"), "{}", unknown.shown());
}
