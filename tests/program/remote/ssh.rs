//! Tests of git over SSH.

use std::fs;

use super::program::{Run, TestEnv};
use super::sshd::{Sshd, keygen, public};

#[test]
fn key_authenticates_for_every_kind_of_revision() {
    let mut env = TestEnv::new();
    let Some(sshd) = Sshd::start(&env) else { return };
    let url = sshd.url(&env.origin.folder);
    fs::write(env.path("known"), &sshd.known).unwrap();
    env.set("NODECFG_SSH_KNOWN_HOSTS", env.path("known"));
    env.set("NODECFG_SSH_KEY_FILE", &sshd.key);
    let first = env.origin.git().head().unwrap().target().unwrap();
    let second = env.origin.pool("second");
    env.origin.tag("v1", first, true);
    for (revision, pool) in [(None, "second"), (Some("v1"), "first"), (Some(second.to_string().as_str()), "second")] {
        let run = env.read(&url, revision);
        assert!(run.exit == 0, "{run:?} {}", sshd.log());
        run.has_pool(pool);
    }
    assert_eq!(env.entries().len(), 2, "one for each commit");
    for entry in env.entries() {
        assert!(git2::Repository::open_bare(entry).unwrap().is_shallow());
    }
    env.read(&url, Some("main~1")).has_pool("first");
    env.read(&url, Some(&first.to_string())).has_pool("first");
    // The short address form.
    let short = format!("{}@[127.0.0.1:{}]:{}", sshd.user, sshd.port, env.origin.folder.display());
    env.read(&short, None).has_pool("second");
    let missing = env.read(&sshd.url(&env.path("missing")), None);
    missing.refuses(&["cannot read ssh://", "missing"]);
}

#[test]
fn only_known_hosts_are_contacted() {
    let mut env = TestEnv::new();
    let Some(sshd) = Sshd::start(&env) else { return };
    let url = sshd.url(&env.origin.folder);
    env.set("NODECFG_SSH_KEY_FILE", &sshd.key);
    let unknown = env.read(&url, None);
    let scan = format!("ssh-keyscan -p {} 127.0.0.1", sshd.port);
    unknown.refuses(&["Host key verification failed", "compare the fingerprint", &scan]);
    keygen(&env.path("other"), "");
    let other = format!("[127.0.0.1]:{} {}\n", sshd.port, public(&env.path("other")));
    let read = || {
        let mut command = env.command(&["validate", "-v", &url]);
        command.env("NODECFG_SSH_KNOWN_HOSTS", env.path("known"));
        Run::of(command)
    };
    // Host keys for another port do not apply.
    let key = sshd.known.split_once(' ').unwrap().1;
    for (known, message) in [
        (other.clone(), "has changed"),
        (format!("[127.0.0.1]:1 {key}"), "Host key verification failed"),
        (format!("{}@revoked * {key}", sshd.known), "revoked"),
    ] {
        fs::write(env.path("known"), known).unwrap();
        read().refuses(&[message]);
    }
    assert!(!sshd.log().contains("Accepted publickey"), "no client has logged in: {}", sshd.log());

    fs::write(env.path("known"), other + &sshd.known).unwrap();
    read().has_pool("first");
    fs::write(env.path("known"), &sshd.known).unwrap();
    let mut hash = std::process::Command::new("ssh-keygen");
    hash.args(["-H", "-f"]).arg(env.path("known")).stdout(std::process::Stdio::null());
    assert!(hash.stderr(std::process::Stdio::null()).status().unwrap().success());
    assert!(fs::read_to_string(env.path("known")).unwrap().starts_with("|1|"));
    read().has_pool("first");
}

#[test]
fn refused_keys_are_reported_with_fix() {
    let mut env = TestEnv::new();
    let Some(sshd) = Sshd::start(&env) else { return };
    let url = sshd.url(&env.origin.folder);
    fs::write(env.path("known"), &sshd.known).unwrap();
    env.set("NODECFG_SSH_KNOWN_HOSTS", env.path("known"));
    env.read(&url, None).refuses(&["Permission denied", "NODECFG_SSH_KEY_FILE"]);
    keygen(&env.path("wrong"), "");
    env.set("NODECFG_SSH_KEY_FILE", env.path("wrong"));
    env.read(&url, None).refuses(&["Permission denied"]);
    env.set("NODECFG_SSH_KEY_FILE", env.path("nothing"));
    env.read(&url, None).refuses(&["no such identity", "No such file", "Permission denied"]);

    // A key with a passphrase.
    let locked = env.path("locked key's 100%");
    fs::copy(&sshd.key, &locked).unwrap();
    let mut command = std::process::Command::new("ssh-keygen");
    command.args(["-q", "-p", "-P", "", "-N", "hunter2", "-f"]).arg(&locked).stdout(std::process::Stdio::null());
    assert!(command.status().unwrap().success());
    env.set("NODECFG_SSH_KEY_FILE", &locked);
    env.read(&url, None).refuses(&["Permission denied"]);
    env.set("NODECFG_SSH_KEY_PASSPHRASE", "hunter2");
    let run = env.run(&["validate", "-vv", &url]);
    run.has_pool("first");
    assert!(!format!("{run:?}").contains("hunter2"));
}

#[test]
fn ssh_configuration_is_used() {
    let env = TestEnv::new();
    let Some(sshd) = Sshd::start(&env) else { return };
    let url = sshd.url(&env.origin.folder);
    // A command from the git configuration.
    fs::write(env.path("known"), &sshd.known).unwrap();
    let ssh = format!("ssh -i {} -o UserKnownHostsFile={}", sshd.key.display(), env.path("known").display());
    fs::write(env.path("home/.gitconfig"), format!("[core]\n\tsshCommand = {ssh}\n")).unwrap();
    env.read(&url, None).has_pool("first");
    fs::remove_file(env.path("home/.gitconfig")).unwrap();

    // An SSH agent.
    let socket = env.path("agent");
    let mut agent = std::process::Command::new("ssh-agent");
    let mut agent = agent.args(["-D", "-a"]).arg(&socket).stdout(std::process::Stdio::null()).spawn().unwrap();
    while !socket.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut add = std::process::Command::new("ssh-add");
    add.arg("-q").arg(&sshd.key).env("SSH_AUTH_SOCK", &socket);
    assert!(add.status().unwrap().success());
    let mut command = env.command(&["validate", "-v", &url]);
    command.env("SSH_AUTH_SOCK", &socket).env("NODECFG_SSH_KNOWN_HOSTS", env.path("known"));
    let run = Run::of(command);
    agent.kill().unwrap();
    agent.wait().unwrap();
    run.has_pool("first");
}
