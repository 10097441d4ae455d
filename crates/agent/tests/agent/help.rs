//! Tests of the help texts, and of the error for old units and manifests.

use std::process::Command;

/// Standard output, standard error and exit code of the program with these arguments.
fn shown(arguments: &[&str]) -> String {
    let output = Command::new(crate::PROGRAM).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!("{}{}exit code {}\n", text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

#[test]
fn prints_help_of_every_command() {
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help-boot", &["boot", "--help"]),
        ("help-status", &["status", "--help"]),
        ("help-host-step", &["host-step", "--help"]),
    ] {
        insta::assert_snapshot!(name, shown(arguments));
    }
}

#[test]
fn rejects_old_agent_subcommand() {
    let shown = shown(&["agent", "--log-format=json"]);
    assert!(shown.contains("help: remove the word agent from the unit or manifest"), "{shown}");
    assert!(shown.ends_with("exit code 2\n"), "{shown}");
}
