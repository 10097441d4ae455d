//! Tests of what users of kubectl and similar tools expect of a command line.

use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::CommandCargoExt as _;
use kubelet_config::{NEWEST, NEWEST_RELEASED, OLDEST};

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, run, run_with};
use crate::cli::repository::gpu;

#[test]
fn options_precede_or_follow_command() {
    let folder = gpu();
    for (before, after) in [
        ("--kubeconfig nowhere.yaml status", "status --kubeconfig nowhere.yaml"),
        ("-o json --kubeconfig=nowhere.yaml status", "status -o json --kubeconfig=nowhere.yaml"),
        ("-v --color never validate .", "validate . -v --color never"),
    ] {
        let (before, after) = (run(folder.path(), before), run(folder.path(), after));
        assert_eq!((before.exit, &before.out, &before.err), (after.exit, &after.out, &after.err), "{}", after.line);
        assert!(before.exit == 4 || before.exit == 0, "{}", before.shown());
    }
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let kubeconfig = cluster.kubeconfig();
    let line = format!("--kubeconfig {} --context nodecfg-sandbox -n kube-system status -o json", kubeconfig.display());
    let status = run(folder.path(), &line);
    assert!(status.exit == 0 && status.out.contains("\"kind\": \"Status\""), "{}", status.shown());
}

#[test]
fn verbosity_has_levels() {
    let folder = gpu();
    folder.write("pools/gpu/kubelet.yaml", "maxPods: 32\n");
    let shown = |options: &str| run(folder.path(), &format!("{options} status --kubeconfig nowhere.yaml")).shown();
    let output = |options: &str| shown(options).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(output("-v=2"), output("-vv"));
    assert_eq!(output("--verbose=1 -v"), output("-v -v"));
    assert_eq!(output("-v=0"), output(""));
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let requests =
        |option: &str| cluster.run(folder.path(), &format!("status {option}")).err.contains("GET /api/v1/nodes");
    assert!(requests("-v=2") && requests("-v=9") && !requests("-v=1"));
}

#[test]
fn seconds_need_no_unit() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let verify = cluster.run(folder.path(), "verify --timeout 1 --request-timeout=0 -q");
    assert_eq!(verify.exit, 5, "{}", verify.shown());
    // A file names the unit.
    let pool = std::fs::read_to_string(folder.path().join("pools/gpu/pool.yaml")).unwrap();
    folder.write("pools/gpu/pool.yaml", &pool.replace("convergenceTimeout: 2m", "convergenceTimeout: \"120\""));
    assert_eq!(run(folder.path(), "validate --worktree").exit, 3);
}

#[test]
fn dry_run_takes_strategies_of_kubectl() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let plain = cluster.run(folder.path(), "sync --dry-run");
    let client = cluster.run(folder.path(), "sync --dry-run=client");
    assert_eq!((plain.exit, &plain.out), (client.exit, &client.out));
    assert!(client.exit == 0 && client.out.contains("1 node to assign"), "{}", client.shown());
    for command in ["sync", "rollback gpu", "reset --all", "release --all", "prune", "install"] {
        let server = cluster.run(folder.path(), &format!("{command} --dry-run=server"));
        assert!(server.exit == 2 && server.err.contains("use client"), "{}", server.shown());
    }
    assert_eq!(cluster.run(folder.path(), "diff -q").exit, 1, "nothing was written");
    assert_eq!(cluster.run(folder.path(), "sync --dry-run=none").exit, 0);
    assert_eq!(cluster.run(folder.path(), "diff -q").exit, 0, "the sync was carried out");
}

#[test]
fn help_lists_formats_that_command_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let help = run(folder.path(), "--help").out;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(commands.contains(&"sync"), "{commands:?}");
    let all = ["text", "json", "yaml", "markdown", "sarif", "junit", "html"];
    for command in commands.into_iter().filter(|command| *command != "help") {
        let help = run(folder.path(), &format!("help {command}")).out;
        let (_, option) = help.split_once("-o, --output <FORMAT>").expect("-o in the help");
        let (_, values) = option.split_once("[possible values: ").expect("formats in the help");
        let values: Vec<&str> =
            values.split(']').next().unwrap().split_whitespace().map(|v| v.trim_end_matches(',')).collect();
        for format in all {
            let run = run(folder.path(), &format!("{command} -o={format} --no-such-option"));
            let refused = run.err.contains(&format!("invalid value '{format}'"));
            assert_eq!(refused, !values.contains(&format), "{}", run.shown());
        }
    }
}

#[test]
fn read_only_commands_have_no_writing_options() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["validate", "verify", "status", "history", "doctor", "explain"] {
        let help = run(folder.path(), &format!("help {command}")).out;
        for option in ["--take-over", "--dry-run", "--yes", "--rollback-on-failure", "--lock-timeout", "--concurrency"]
        {
            let has = help.lines().any(|line| line.trim_start().starts_with(option));
            assert!(!has, "{command} has {option}");
        }
    }
}

#[test]
fn history_does_not_offer_uncommitted_files() {
    let folder = gpu();
    for help in ["history --help", "history -h"] {
        let help = run(folder.path(), help);
        assert!(help.exit == 0 && !help.out.contains("--worktree"), "{}", help.shown());
    }
    let refused = run(folder.path(), "history gpu --no-cluster --worktree");
    assert!(refused.exit == 2 && refused.err.contains("have no history"), "{}", refused.shown());
}

#[test]
fn version_names_kubelets() {
    let folder = tempfile::tempdir().unwrap();
    let text = run(folder.path(), "version");
    let version = run(folder.path(), "--version").out;
    let number = version.trim().strip_prefix("nodecfg ").unwrap();
    assert!(text.exit == 0 && text.out.starts_with(&format!("nodecfg:   {number}\ncommit:    ")), "{}", text.shown());
    let json: serde_json::Value = serde_json::from_str(&run(folder.path(), "version -o json").out).unwrap();
    assert_eq!((&json["kind"], &json["version"]), (&"Version".into(), &number.into()));
    let [oldest, newest, released] = [OLDEST, NEWEST, NEWEST_RELEASED].map(|minor| minor.to_string());
    assert!(text.out.contains(&format!("\nkubelets:  {oldest} to {released}")), "{}", text.shown());
    assert_eq!(json["kubelets"], serde_json::json!({"oldest": oldest, "newest": newest, "newestReleased": released}));
}

/// The program under the name of a plugin of kubectl.
fn as_plugin(folder: &Path) -> Command {
    let (program, plugin) = (Command::cargo_bin("nodecfg").unwrap(), folder.join("kubectl-nodecfg"));
    std::os::unix::fs::symlink(program.get_program(), &plugin).unwrap();
    let mut command = Command::new(plugin);
    command.env_clear().env("HOME", folder).current_dir(folder);
    command
}

#[test]
fn plugin_of_kubectl_names_itself_in_usage() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = as_plugin(folder.path());
    command.args(["diff", "--bogus"]);
    let run = Run::of(command);
    assert!(run.exit == 2 && run.err.contains("Usage: kubectl nodecfg diff [OPTIONS]"), "{}", run.shown());

    let kubectl =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let Some(kubectl) = kubectl.map(|folder| folder.join("kubectl")).find(|program| program.is_file()) else {
        use std::io::Write as _;
        // Written to standard error directly, because the harness hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "skipped: no kubectl on the PATH: the plugin is not started by kubectl");
        return;
    };
    let mut command = Command::new(kubectl);
    command.env_clear().env("HOME", folder.path()).env("PATH", folder.path()).args(["nodecfg", "version"]);
    let run = Run::of(command);
    assert!(run.exit == 0 && run.out.starts_with("nodecfg:   "), "{}", run.shown());
}

#[test]
fn invalid_log_filter_is_reported() {
    let folder = gpu();
    let warned = run_with(folder.path(), "validate -q", "", &[("NODECFG_LOG", "nodecfg=loud")]);
    assert_eq!(warned.exit, 0, "{}", warned.shown());
    assert!(warned.err.contains("NODECFG_LOG is ignored: ") && warned.err.lines().count() == 1, "{}", warned.shown());
    for valid in ["", "nodecfg=debug", "warn"] {
        let run = run_with(folder.path(), "validate -q", "", &[("NODECFG_LOG", valid)]);
        assert!(!run.err.contains("NODECFG_LOG"), "{}", run.shown());
    }
}
