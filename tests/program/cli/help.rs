//! Tests of help texts, `schema` and static completions.

use kubelet_config::NEWEST_RELEASED;

use crate::cli::program::{run, shows};

#[test]
fn prints_help_of_commands() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        "",
        "validate",
        "diff",
        "sync",
        "verify",
        "status",
        "install",
        "render",
        "sandbox",
        "effective",
        "explain",
        "schema",
        "completions",
    ] {
        let shown = run(folder.path(), &format!("{command} --help"));
        let name = if command.is_empty() { "help".to_owned() } else { format!("help-{}", command.replace(' ', "-")) };
        shows!(name, shown.shown());
    }
}

#[test]
fn help_command_prints_help_of_command() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), "help").out, run(folder.path(), "--help").out);
    let (full, summary) = (run(folder.path(), "help sync").out, run(folder.path(), "sync --help").out);
    assert!(full.contains("--git-timeout") && !summary.contains("--git-timeout"), "{summary}");
    assert_eq!(summary, run(folder.path(), "sync -h").out);
    let unknown = run(folder.path(), "help nonsense");
    assert!(unknown.exit == 2 && unknown.err.contains("unrecognized subcommand 'nonsense'"), "{}", unknown.shown());
}

#[test]
fn prints_short_help_without_command() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(folder.path(), "");
    assert_eq!(shown.exit, 2);
    assert!(shown.out.is_empty());
    assert!(shown.err.contains("Usage: nodecfg"), "{}", shown.err);
}

#[test]
fn prints_schemas_of_repository() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["fleet", "nodepool"] {
        let shown = run(folder.path(), &format!("schema {kind}"));
        let path = format!("{}/schemas/{kind}.v1alpha1.json", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(shown.exit, 0);
        assert_eq!(shown.out, std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")));
    }
    let newest = NEWEST_RELEASED.to_string();
    for (arguments, version) in [("--kubernetes-version v1.21.14", "1.21"), ("", newest.as_str())] {
        let shown = run(folder.path(), &format!("schema kubelet {arguments}"));
        let path = format!("{}/schemas/kubelet/{version}.json", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(shown.exit, 0);
        assert!(shown.out == std::fs::read_to_string(&path).unwrap(), "{path}");
    }
    let shown = run(folder.path(), "schema fleet --kubernetes-version 1.36");
    assert_eq!((shown.exit, shown.out.as_str()), (2, ""));
    assert_eq!(run(folder.path(), "schema kubelet --kubernetes-version 1.15").exit, 2);
}

#[test]
fn prints_completions_for_every_shell() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let shown = run(folder.path(), &format!("completions {shell} --static"));
        assert_eq!((shown.exit, shown.err.as_str()), (0, ""), "{shell}");
        for word in ["validate", "rollback-on-failure", "kubeconfig-out"] {
            assert!(shown.out.contains(word), "{shell} lacks {word}");
        }
    }
}
