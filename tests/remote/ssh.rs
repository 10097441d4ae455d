//! Git over SSH.

use std::fs;

use super::program::Site;
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
    unknown.refuses(&["the SSH key of [127.0.0.1]:", "ssh-ed25519 SHA256:", "is not known", &scan]);
    keygen(&site.path("other"), "");
    let other = format!("[127.0.0.1]:{} {}\n", sshd.port, public(&site.path("other")));
    // Keys of the host with another port, or without one, are keys of others.
    let key = sshd.known.split_once(' ').unwrap().1;
    for (known, said) in [
        (other.clone(), "is not the one of"),
        (format!("127.0.0.1 {key}"), "is not known"),
        (format!("{}@revoked * {key}", sshd.known), "is revoked by"),
        (format!("@cert-authority * {key}"), "@cert-authority, which nodecfg does not support"),
    ] {
        fs::create_dir_all(site.path("home/.ssh")).unwrap();
        fs::write(site.path("home/.ssh/known_hosts"), known).unwrap();
        site.read(&url, None).refuses(&[said]);
    }
    assert!(!sshd.log().contains("Accepted publickey"), "nobody has logged in: {}", sshd.log());

    fs::write(site.path("home/.ssh/known_hosts"), other + &sshd.known).unwrap();
    site.read(&url, None).has_pool("first");
    fs::write(site.path("home/.ssh/known_hosts"), &sshd.known).unwrap();
    let mut hash = std::process::Command::new("ssh-keygen");
    hash.args(["-H", "-f"]).arg(site.path("home/.ssh/known_hosts")).stdout(std::process::Stdio::null());
    assert!(hash.stderr(std::process::Stdio::null()).status().unwrap().success());
    assert!(fs::read_to_string(site.path("home/.ssh/known_hosts")).unwrap().starts_with("|1|"));
    site.read(&url, None).has_pool("first");
}

#[test]
fn keys_that_do_not_open_the_door_are_tried_once_each() {
    let mut site = Site::new();
    let Some(sshd) = Sshd::start(&site) else { return };
    let url = sshd.url(&site.origin.folder);
    fs::write(site.path("known"), &sshd.known).unwrap();
    site.set("NODECFG_SSH_KNOWN_HOSTS", site.path("known"));
    site.read(&url, None).refuses(&["the server asks for credentials, and there are none", "NODECFG_SSH_KEY_FILE"]);
    fs::create_dir(site.path("home/.ssh")).unwrap();
    keygen(&site.path("home/.ssh/id_ed25519"), "");
    keygen(&site.path("home/.ssh/id_rsa"), "hunter2");
    let run = site.read(&url, None);
    run.refuses(&["id_ed25519 (refused)", "id_rsa (needs a passphrase)"]);
    site.set("NODECFG_SSH_KEY_FILE", site.path("nothing"));
    site.read(&url, None).refuses(&["NODECFG_SSH_KEY_FILE", "cannot be read", "id_ed25519 (refused)"]);

    fs::copy(&sshd.key, site.path("home/.ssh/id_ecdsa")).unwrap();
    site.read(&url, None).has_pool("first");
    // The same key with a passphrase.
    let locked = site.path("locked");
    fs::copy(&sshd.key, &locked).unwrap();
    let mut command = std::process::Command::new("ssh-keygen");
    command.args(["-q", "-p", "-P", "", "-N", "hunter2", "-f"]).arg(&locked).stdout(std::process::Stdio::null());
    assert!(command.status().unwrap().success());
    fs::remove_dir_all(site.path("home/.ssh")).unwrap();
    site.set("NODECFG_SSH_KEY_FILE", &locked);
    site.read(&url, None).refuses(&["(needs a passphrase)"]);
    site.set("NODECFG_SSH_KEY_PASSPHRASE", "hunter2");
    let run = site.run(&["validate", "-vv", &url]);
    run.has_pool("first");
    assert!(!format!("{run:?}").contains("hunter2"));
}
