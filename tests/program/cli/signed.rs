//! Tests of `--verify-commits` with signed and unsigned commits.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use git2::{ObjectType, Oid, Repository};

use crate::cli::program::{Run, nodecfg};
use crate::cli::repository::{Folder, KUBELET, gpu};

/// Reports whether git and ssh-keygen are installed. A test without these programs prints this and passes.
fn tools_installed() -> bool {
    let there = |tool: &str, argument: &str| {
        let mut command = Command::new(tool);
        command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    let both = there("git", "--version") && there("ssh-keygen", "-?");
    if !both {
        // Written to standard error directly, because the harness hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "skipped: git or ssh-keygen is not on the PATH");
    }
    both
}

/// Runs the program with the `PATH` of this machine.
fn run(folder: &Path, arguments: &str) -> Run {
    let mut command = nodecfg(folder);
    command.env("PATH", std::env::var_os("PATH").unwrap()).args(arguments.split_whitespace());
    Run::of(command)
}

fn run_to_success(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a key beside the repository and returns its public half.
fn key(folder: &Path, name: &str) -> String {
    let file = folder.join(name);
    run_to_success(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(&file));
    std::fs::read_to_string(file.with_extension("pub")).unwrap().trim().to_owned()
}

/// Commits everything, signed with this key, at a fixed time.
fn commit(folder: &Folder, key: &Path) {
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(folder.path()).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git.env("GIT_COMMITTER_DATE", "2024-06-01T00:00:00Z").env("GIT_AUTHOR_DATE", "2024-06-01T00:00:00Z");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gpg.format=ssh", "-c"]);
        git.arg(format!("user.signingkey={}", key.display()));
        git
    };
    run_to_success(git().args(["add", "-A"]));
    run_to_success(git().args(["commit", "-q", "-S", "-m", "signed"]));
}

/// Writes a modified commit object and moves HEAD to it.
fn replace_head(folder: &Folder, change: impl Fn(&str) -> String) {
    let repository = Repository::open(folder.path()).unwrap();
    let head = repository.head().unwrap().target().unwrap();
    let odb = repository.odb().unwrap();
    let text = String::from_utf8(odb.read(head).unwrap().data().to_vec()).unwrap();
    let id: Oid = odb.write(ObjectType::Commit, change(&text).as_bytes()).unwrap();
    let name = repository.head().unwrap().name().unwrap().to_owned();
    repository.reference(&name, id, true, "test").unwrap();
}

fn refused(run: &Run, exit: i32, message: &str) {
    // Lines are wrapped to the terminal width.
    let words = |text: &str| {
        text.split(|c: char| c.is_whitespace() || c == '│').filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(run.exit, exit, "{}", run.shown());
    assert!(words(&run.err).contains(message), "{}", run.shown());
}

#[test]
fn accepts_only_commits_of_allowed_signers() {
    if !tools_installed() {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    let public = key(keys.path(), "alice");
    let folder = gpu();
    let allowed = keys.path().join("allowed");
    std::fs::write(&allowed, format!("alice@example.com namespaces=\"git\" {public}\n")).unwrap();
    let options = format!("--verify-commits {}", allowed.display());

    let unsigned = run(folder.path(), &format!("validate {options}"));
    refused(&unsigned, 3, "is refused: it is not signed");
    refused(&run(folder.path(), &format!("sync --sandbox --dry-run {options}")), 3, "it is not signed");

    folder.write("pools/gpu/kubelet.yaml", &KUBELET.replace("32", "40"));
    commit(&folder, &keys.path().join("alice"));
    let good = run(folder.path(), &format!("validate -v {options}"));
    assert_eq!(good.exit, 0, "{}", good.shown());
    assert!(good.out.contains("verified-commit") && good.out.contains("alice@example.com"), "{}", good.shown());
    let planned = run(folder.path(), &format!("sync --sandbox --dry-run {options}"));
    assert_eq!(planned.exit, 0, "{}", planned.shown());
    assert!(planned.err.contains("signed by alice@example.com (SSH key SHA256:"), "{}", planned.shown());
    let lines = run(folder.path(), &format!("sync --sandbox -o json {options}"));
    let started: serde_json::Value = serde_json::from_str(lines.out.lines().next().unwrap()).unwrap();
    assert_eq!(started["signer"]["name"], "alice@example.com", "{}", lines.shown());
    assert_eq!(started["signer"]["kind"], "ssh");

    // The previous commit is unsigned, and --rev selects it.
    refused(&run(folder.path(), &format!("validate --rev HEAD^ {options}")), 3, "it is not signed");

    // Without the programs, no signature is valid.
    let mut without = nodecfg(folder.path());
    without.env("PATH", keys.path()).args(format!("validate {options}").split_whitespace());
    refused(&Run::of(without), 3, "the program ssh-keygen is not installed");

    // A different key.
    let other = key(keys.path(), "mallory");
    std::fs::write(&allowed, format!("mallory@example.com {other}\n")).unwrap();
    refused(&run(folder.path(), &format!("validate {options}")), 3, "not among the allowed signers");
    // The right key after its end of validity.
    std::fs::write(&allowed, format!("alice@example.com valid-before=\"20240101Z\" {public}\n")).unwrap();
    refused(&run(folder.path(), &format!("validate {options}")), 3, "valid-before");

    // A different message under the same signature, and a signature moved into the message.
    std::fs::write(&allowed, format!("alice@example.com {public}\n")).unwrap();
    assert_eq!(run(folder.path(), &format!("validate {options}")).exit, 0);
    replace_head(&folder, |text| text.replace("\n\nsigned", "\n\nSigned"));
    refused(&run(folder.path(), &format!("validate {options}")), 3, "does not match its content");
}

#[test]
fn ignores_git_configuration_of_repository() {
    if !tools_installed() {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    let (alice, mallory) = (key(keys.path(), "alice"), key(keys.path(), "mallory"));
    let folder = gpu();
    folder.write("pools/gpu/kubelet.yaml", &KUBELET.replace("32", "40"));
    commit(&folder, &keys.path().join("mallory"));
    let (touched, own) = (keys.path().join("touched"), keys.path().join("own"));
    std::fs::write(&own, format!("alice@example.com {mallory}\n")).unwrap();
    // Every program below reports success.
    let program = keys.path().join("program");
    let good = "echo 'Good \"git\" signature for key-0 with ED25519 key SHA256:x'";
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n{good}\n", touched.display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let repository = Repository::open(folder.path()).unwrap();
    let mut config = repository.config().unwrap();
    for name in
        ["gpg.program", "gpg.ssh.program", "gpg.openpgp.program", "core.fsmonitor", "core.sshCommand", "core.pager"]
    {
        config.set_str(name, program.to_str().unwrap()).unwrap();
    }
    config.set_str("gpg.ssh.allowedSignersFile", own.to_str().unwrap()).unwrap();
    config.set_str("gpg.minTrustLevel", "never").unwrap();
    config.set_str("alias.verify-commit", &format!("!{}", program.display())).unwrap();
    config.set_str("core.hooksPath", keys.path().to_str().unwrap()).unwrap();
    let allowed = keys.path().join("allowed");
    std::fs::write(&allowed, format!("alice@example.com {alice}\n")).unwrap();
    let options = format!("--verify-commits {}", allowed.display());
    refused(&run(folder.path(), &format!("validate {options}")), 3, "not among the allowed signers");
    std::fs::write(&allowed, format!("mallory@example.com {mallory}\n")).unwrap();
    let good = run(folder.path(), &format!("validate -v {options}"));
    assert!(good.exit == 0 && good.out.contains("mallory@example.com"), "{}", good.shown());
    assert!(!touched.exists());
}

#[test]
fn rejects_unverifiable_sources() {
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHV7so77TV4DcOsgEJB0DnJWW0YssMNylT7LWu7GROkG";
    let outside = tempfile::tempdir().unwrap();
    let allowed = outside.path().join("allowed");
    std::fs::write(&allowed, format!("a@b {public}\n")).unwrap();
    let options = format!("--verify-commits {}", allowed.display());
    let folder = gpu();
    refused(&run(folder.path(), &format!("validate --worktree {options}")), 2, "cannot be used with");
    refused(
        &run(folder.path(), &format!("validate pools/gpu/kubelet.yaml {options}")),
        2,
        "--verify-commits requires a repository",
    );
    let plain = Folder::with(&[("nodecfg.yaml", crate::cli::repository::FLEET)]);
    refused(&run(plain.path(), &format!("validate {options}")), 2, "is not in a git repository");
    refused(&run(folder.path(), "validate --verify-commits nowhere"), 2, "cannot read the allowed signers nowhere");
    std::fs::write(&allowed, format!("a@b {public}\nnonsense\n")).unwrap();
    refused(&run(folder.path(), &format!("validate {options}")), 2, "line 2: the key after the principals is missing");
}

/// A bare repository in a commit would replay an older signed commit in place of the checked-out, unsigned one.
#[test]
fn verifies_no_commit_of_a_bare_repository_in_the_checkout() {
    if !tools_installed() {
        return;
    }
    let keys = tempfile::tempdir().unwrap();
    let public = key(keys.path(), "alice");
    let allowed = keys.path().join("allowed");
    std::fs::write(&allowed, format!("alice@example.com namespaces=\"git\" {public}\n")).unwrap();
    let (signed, folder) = (gpu(), gpu());
    signed.write("pools/gpu/kubelet.yaml", &KUBELET.replace("32", "40"));
    commit(&signed, &keys.path().join("alice"));
    let embedded = folder.path().join("prod");
    run_to_success(Command::new("git").args(["clone", "--quiet", "--bare"]).arg(signed.path()).arg(&embedded));
    folder.write("prod/refs/heads/keep", "");
    folder.commit();
    let arguments = format!("validate prod --verify-commits {}", allowed.display());
    // A folder of the checkout is checked as part of its repository, and alone is not signed.
    refused(&run(folder.path(), &arguments), 2, "--verify-commits requires a repository, and prod is part of one");
    for command in ["diff", "sync", "verify"] {
        let arguments = format!("{command} prod --verify-commits {}", allowed.display());
        refused(&run(folder.path(), &arguments), 3, "prod is a bare git repository inside the checkout");
    }
    // The same repository outside of a checkout is valid.
    let outside = tempfile::tempdir().unwrap();
    std::fs::rename(&embedded, outside.path().join("prod")).unwrap();
    assert_eq!(run(outside.path(), &arguments).exit, 0);
}
