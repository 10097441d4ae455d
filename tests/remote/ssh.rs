//! Git over SSH.

use std::fs;

use super::program::{Run, Site};
use super::sshd::{Sshd, keygen, public};

#[test]
fn a_key_opens_the_door_to_every_kind_of_revision() {
    let mut site = Site::new();
    let Some(sshd) = Sshd::start(&site) else { return };
    let url = sshd.url(&site.origin.folder);
    fs::write(site.path("known"), &sshd.known).unwrap();
    site.set("NODECFG_SSH_KNOWN_HOSTS", site.path("known"));
    site.set("NODECFG_SSH_KEY_FILE", &sshd.key);
    let first = site.origin.git().head().unwrap().target().unwrap();
    let second = site.origin.pool("second");
    site.origin.tag("v1", first, true);
    for (revision, pool) in [(None, "second"), (Some("v1"), "first"), (Some(second.to_string().as_str()), "second")] {
        let run = site.read(&url, revision);
        assert!(run.exit == 0, "{run:?} {}", sshd.log());
        run.has_pool(pool);
    }
    for entry in site.entries() {
        assert!(git2::Repository::open_bare(entry).unwrap().is_shallow());
    }
    site.read(&url, Some("main~1")).has_pool("first");
    site.read(&url, Some(&first.to_string())).has_pool("first");
    // The short way to write it.
    let short = format!("{}@[127.0.0.1:{}]:{}", sshd.user, sshd.port, site.origin.folder.display());
    site.read(&short, None).has_pool("second");
    let missing = site.read(&sshd.url(&site.path("missing")), None);
    missing.refuses(&["cannot read ssh://", "missing"]);
}

#[test]
fn only_a_known_host_is_talked_to() {
    let mut site = Site::new();
    let Some(sshd) = Sshd::start(&site) else { return };
    let url = sshd.url(&site.origin.folder);
    site.set("NODECFG_SSH_KEY_FILE", &sshd.key);
    let unknown = site.read(&url, None);
    let scan = format!("ssh-keyscan -p {} 127.0.0.1", sshd.port);
    unknown.refuses(&["Host key verification failed", "compare the fingerprint", &scan]);
    keygen(&site.path("other"), "");
    let other = format!("[127.0.0.1]:{} {}\n", sshd.port, public(&site.path("other")));
    let read = || {
        let mut command = site.command(&["validate", "-v", &url]);
        command.env("NODECFG_SSH_KNOWN_HOSTS", site.path("known"));
        Run::of(command)
    };
    // Keys of the host with another port are keys of others.
    let key = sshd.known.split_once(' ').unwrap().1;
    for (known, said) in [
        (other.clone(), "has changed"),
        (format!("[127.0.0.1]:1 {key}"), "Host key verification failed"),
        (format!("{}@revoked * {key}", sshd.known), "revoked"),
    ] {
        fs::write(site.path("known"), known).unwrap();
        read().refuses(&[said]);
    }
    assert!(!sshd.log().contains("Accepted publickey"), "nobody has logged in: {}", sshd.log());

    fs::write(site.path("known"), other + &sshd.known).unwrap();
    read().has_pool("first");
    fs::write(site.path("known"), &sshd.known).unwrap();
    let mut hash = std::process::Command::new("ssh-keygen");
    hash.args(["-H", "-f"]).arg(site.path("known")).stdout(std::process::Stdio::null());
    assert!(hash.stderr(std::process::Stdio::null()).status().unwrap().success());
    assert!(fs::read_to_string(site.path("known")).unwrap().starts_with("|1|"));
    read().has_pool("first");
}

#[test]
fn keys_that_do_not_open_the_door_are_refused_with_a_fix() {
    let mut site = Site::new();
    let Some(sshd) = Sshd::start(&site) else { return };
    let url = sshd.url(&site.origin.folder);
    fs::write(site.path("known"), &sshd.known).unwrap();
    site.set("NODECFG_SSH_KNOWN_HOSTS", site.path("known"));
    site.read(&url, None).refuses(&["Permission denied", "NODECFG_SSH_KEY_FILE"]);
    keygen(&site.path("wrong"), "");
    site.set("NODECFG_SSH_KEY_FILE", site.path("wrong"));
    site.read(&url, None).refuses(&["Permission denied"]);
    site.set("NODECFG_SSH_KEY_FILE", site.path("nothing"));
    site.read(&url, None).refuses(&["no such identity", "No such file", "Permission denied"]);

    // A key with a passphrase.
    let locked = site.path("locked key's 100%");
    fs::copy(&sshd.key, &locked).unwrap();
    let mut command = std::process::Command::new("ssh-keygen");
    command.args(["-q", "-p", "-P", "", "-N", "hunter2", "-f"]).arg(&locked).stdout(std::process::Stdio::null());
    assert!(command.status().unwrap().success());
    site.set("NODECFG_SSH_KEY_FILE", &locked);
    site.read(&url, None).refuses(&["Permission denied"]);
    site.set("NODECFG_SSH_KEY_PASSPHRASE", "hunter2");
    let run = site.run(&["validate", "-vv", &url]);
    run.has_pool("first");
    assert!(!format!("{run:?}").contains("hunter2"));
}

#[test]
fn what_ssh_itself_knows_counts() {
    let site = Site::new();
    let Some(sshd) = Sshd::start(&site) else { return };
    let url = sshd.url(&site.origin.folder);
    // A command of the git configuration.
    fs::write(site.path("known"), &sshd.known).unwrap();
    let ssh = format!("ssh -i {} -o UserKnownHostsFile={}", sshd.key.display(), site.path("known").display());
    fs::write(site.path("home/.gitconfig"), format!("[core]\n\tsshCommand = {ssh}\n")).unwrap();
    site.read(&url, None).has_pool("first");
    fs::remove_file(site.path("home/.gitconfig")).unwrap();

    // An agent.
    let socket = site.path("agent");
    let mut agent = std::process::Command::new("ssh-agent");
    let mut agent = agent.args(["-D", "-a"]).arg(&socket).stdout(std::process::Stdio::null()).spawn().unwrap();
    while !socket.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut add = std::process::Command::new("ssh-add");
    add.arg("-q").arg(&sshd.key).env("SSH_AUTH_SOCK", &socket);
    assert!(add.status().unwrap().success());
    let mut command = site.command(&["validate", "-v", &url]);
    command.env("SSH_AUTH_SOCK", &socket).env("NODECFG_SSH_KNOWN_HOSTS", site.path("known"));
    let run = Run::of(command);
    agent.kill().unwrap();
    agent.wait().unwrap();
    run.has_pool("first");
}
