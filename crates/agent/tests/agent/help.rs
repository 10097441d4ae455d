//! Help, and what old units and manifests get.

use std::process::Command;

/// What the program prints with these arguments: standard output, standard error and the exit code.
fn shown(arguments: &[&str]) -> String {
    let output = Command::new(crate::PROGRAM).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!("{}{}exit code {}\n", text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

#[test]
fn help_of_every_command() {
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help-status", &["status", "--help"]),
        ("help-host-step", &["host-step", "--help"]),
    ] {
        insta::assert_snapshot!(name, shown(arguments));
    }
}

#[test]
fn an_old_manifest_gets_the_fix() {
    let shown = shown(&["agent", "--log-format=json"]);
    assert!(shown.contains("help: remove the word agent from the unit or manifest"), "{shown}");
    assert!(shown.ends_with("exit code 2\n"), "{shown}");
}
