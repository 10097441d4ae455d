//! Git over HTTPS.

use super::program::{Run, Site};
use super::proxy::Proxy;
use super::server::{Door, Server};

const TOKEN: &str = "hunter2-token";

fn served(door: Door) -> (Site, Server) {
    let mut site = Site::new();
    let server = Server::new(&site, door);
    site.set("SSL_CERT_FILE", &server.ca);
    (site, server)
}

#[test]
fn a_token_opens_the_door_and_is_nowhere_to_be_seen() {
    let (mut site, server) = served(Door::Token(TOKEN.to_owned()));
    site.set("NODECFG_GIT_TOKEN", TOKEN);
    let run = site.run(&["validate", "-vv", &server.url]);
    run.has_pool("first");
    assert!(!format!("{run:?}").contains(TOKEN), "{run:?}");
    let asked = server.asked();
    assert!(asked[0].authorization.is_none(), "nothing is sent before the server asks");
    let (downloads, lists): (Vec<_>, Vec<_>) = asked.iter().partition(|asked| asked.path.ends_with("/git-upload-pack"));
    assert!(!downloads.is_empty() && downloads.iter().all(|asked| asked.authorization.is_some()));
    assert_eq!(lists.iter().filter(|asked| asked.authorization.is_some()).count(), lists.len() / 2, "asked each time");
    let everything: Vec<String> =
        site.entries().iter().map(|entry| std::fs::read_to_string(entry.join("config")).unwrap()).collect();
    assert!(!everything.is_empty() && !everything.concat().contains(TOKEN));
}

#[test]
fn a_wrong_token_is_refused_once() {
    let (mut site, server) = served(Door::Token(TOKEN.to_owned()));
    site.read(&server.url, None).refuses(&["could not read Username", "NODECFG_GIT_TOKEN"]);
    site.set("NODECFG_GIT_TOKEN", "hunter3");
    let before = server.asked().len();
    let run = site.run(&["validate", "-vv", &server.url]);
    run.refuses(&["Authentication failed", "NODECFG_GIT_TOKEN"]);
    assert!(!format!("{run:?}").contains("hunter3"), "{run:?}");
    assert_eq!(server.asked().len() - before, 2, "one request without the token, and one with it");
}

#[test]
fn a_token_without_rights_gives_one_message() {
    for (status, says) in [(403, "error: 403"), (404, "not found")] {
        let (mut site, server) = served(Door::Status(status));
        site.set("NODECFG_GIT_TOKEN", TOKEN);
        let run = site.read(&server.url, None);
        run.refuses(&[says, "NODECFG_GIT_TOKEN", "may read"]);
        assert!(!format!("{run:?}").contains(TOKEN), "{run:?}");
    }
    let (site, server) = served(Door::Open);
    let other = server.url.replace("fleet", "nothing");
    site.read(&other, None).refuses(&["not found", "check the address"]);
}

#[test]
fn what_git_itself_knows_of_credentials_counts() {
    use std::os::unix::fs::PermissionsExt as _;
    let credentials = || served(Door::Token(TOKEN.to_owned()));
    let (site, server) = credentials();
    std::fs::write(site.path("home/.netrc"), format!("machine 127.0.0.1 login me password {TOKEN}\n")).unwrap();
    site.read(&server.url, None).has_pool("first");

    let (mut site, server) = credentials();
    let program = site.path("askpass");
    std::fs::write(&program, format!("#!/bin/sh\ncase $1 in Username*) echo me;; *) echo {TOKEN};; esac\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    site.set("GIT_ASKPASS", &program);
    site.read(&server.url, None).has_pool("first");

    let (mut site, server) = credentials();
    let helper = format!("[credential]\n\thelper = \"!f() {{ echo username=me; echo password={TOKEN}; }}; f\"\n");
    std::fs::write(site.path("home/.gitconfig"), helper).unwrap();
    site.read(&server.url, None).has_pool("first");
    // A token that is given is what counts.
    site.set("NODECFG_GIT_TOKEN", "hunter3");
    site.read(&server.url, None).refuses(&["Authentication failed"]);
}

#[test]
fn an_address_is_read_where_the_configuration_has_it_instead() {
    let (mut site, server) = served(Door::Open);
    let configuration =
        format!("[url \"{}\"]\n\tinsteadOf = https://git.example.com/\n", server.url.replace("fleet.git", ""));
    std::fs::write(site.path("home/.gitconfig"), configuration).unwrap();
    // The token is for git.example.com, and not for what it is turned into.
    site.set("NODECFG_GIT_TOKEN", TOKEN);
    site.read("https://git.example.com/fleet.git", None).has_pool("first");
    assert!(server.asked().iter().all(|asked| asked.authorization.is_none()));

    // What the configuration holds is not shown.
    let configuration = "[url \"https://me:hunter2@127.0.0.1:1/\"]\n\tinsteadOf = https://git.example.com/\n";
    std::fs::write(site.path("home/.gitconfig"), configuration).unwrap();
    let run = site.run(&["validate", "-vv", "https://git.example.com/fleet.git"]);
    run.refuses(&["cannot read https://git.example.com/fleet.git", "Failed to connect"]);
    assert!(!format!("{run:?}").contains("hunter2"), "{run:?}");
}

#[test]
fn a_proxy_of_the_environment_or_the_configuration_is_gone_through() {
    let (site, server) = served(Door::Open);
    let proxy = Proxy::start();
    let mut command = site.command(&["validate", "-v", &server.url]);
    command.env("HTTPS_PROXY", &proxy.url);
    Run::of(command).has_pool("first");
    let tunnels = proxy.tunnels();
    assert!(!tunnels.is_empty() && tunnels.iter().all(|to| server.url.contains(to)), "{tunnels:?}");

    let other = Proxy::start();
    std::fs::write(site.path("home/.gitconfig"), format!("[http]\n\tproxy = {}\n", other.url)).unwrap();
    site.origin.pool("second");
    site.read(&server.url, None).has_pool("second");
    assert!(!other.tunnels().is_empty());
}

#[test]
fn a_missing_git_is_named_with_its_fix() {
    let (site, server) = served(Door::Open);
    std::fs::create_dir(site.path("empty")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.env("PATH", site.path("empty"));
        Run::of(command)
    };
    run(&["validate", &server.url])
        .refuses(&["the program git is not installed", "install git, so that git is on the PATH"]);
    // A repository of this machine needs none.
    run(&["validate", "-v", "origin"]).has_pool("first");
}

#[test]
fn a_server_that_nobody_vouches_for_is_refused() {
    let site = Site::new();
    let server = Server::new(&site, Door::Open);
    let run = site.read(&server.url, None);
    run.refuses(&["certificate", "SSL_CERT_FILE"]);
    // No configuration lets that pass.
    std::fs::write(site.path("home/.gitconfig"), "[http]\n\tsslVerify = false\n").unwrap();
    let mut command = site.command(&["validate", &server.url]);
    command.env("GIT_SSL_NO_VERIFY", "1");
    Run::of(command).refuses(&["certificate", "SSL_CERT_FILE"]);
    assert!(server.asked().is_empty());
}

#[test]
fn another_host_gets_nothing() {
    let (site, elsewhere) = served(Door::Token(TOKEN.to_owned()));
    let host = elsewhere.url.replace("127.0.0.1", "localhost").replace("/fleet.git", "");
    let mut site = site;
    let server = Server::new(&site, Door::Redirect(host));
    let both = [&server.ca, &elsewhere.ca].map(|ca| std::fs::read_to_string(ca).unwrap()).concat();
    std::fs::write(site.path("both.pem"), both).unwrap();
    site.set("SSL_CERT_FILE", site.path("both.pem"));
    site.set("NODECFG_GIT_TOKEN", TOKEN);
    site.read(&server.url, None).refuses(&["the server redirects"]);
    assert!(elsewhere.asked().is_empty(), "{:?}", elsewhere.asked());
}

#[test]
fn a_redirect_within_the_host_is_told_as_one() {
    let (site, server) = served(Door::Redirect("/elsewhere".to_owned()));
    let run = site.read(&server.url, None);
    run.refuses(&["the server redirects", ".git at the end", "renamed"]);
    assert!(!run.err.contains("another host"), "{run:?}");
}

#[test]
fn every_kind_of_revision_is_found_and_only_what_is_needed_is_fetched() {
    let (site, server) = served(Door::Open);
    let first = site.origin.git().head().unwrap().target().unwrap();
    let second = site.origin.pool("second");
    let third = site.origin.pool("third");
    site.origin.branch("side", second);
    site.origin.tag("v1", first, false);
    site.origin.tag("v2", second, true);
    for (revision, pool) in [
        (None, "third"),
        (Some("main"), "third"),
        (Some("side"), "second"),
        (Some("v1"), "first"),
        (Some("v2"), "second"),
        (Some("refs/tags/v2"), "second"),
        (Some(third.to_string().as_str()), "third"),
        (Some(second.to_string().as_str()), "second"),
    ] {
        site.read(&server.url, revision).has_pool(pool);
    }
    let entries = site.entries();
    assert_eq!(entries.len(), 3, "{entries:?}");
    for entry in &entries {
        let repository = git2::Repository::open_bare(entry).unwrap();
        assert!(repository.is_shallow(), "{}", entry.display());
        let mut walk = repository.revwalk().unwrap();
        walk.push_glob("refs/nodecfg/*").unwrap();
        assert_eq!(walk.count(), 1, "one commit and no history");
    }
    let downloads = server.downloads();
    for (revision, pool) in
        [(&first.to_string()[..9], "first"), ("main~2", "first"), ("HEAD~1", "second"), ("v2^", "first")]
    {
        site.read(&server.url, Some(revision)).has_pool(pool);
    }
    assert!(server.downloads() > downloads);
    let unknown = site.read(&server.url, Some("nope"));
    unknown.refuses(&["the server has no revision \"nope\"", "it has main, side, v1, v2"]);
    site.read(&server.url, Some("main~7")).refuses(&["has no revision \"main~7\""]);
}

#[test]
fn a_commit_that_was_force_pushed_away_is_not_taken_from_the_cache() {
    let (site, server) = served(Door::Open);
    let base = site.origin.git().head().unwrap().target().unwrap();
    let gone = site.origin.pool("gone");
    site.read(&server.url, Some(&gone.to_string())).has_pool("gone");
    site.read(&server.url, Some(&gone.to_string()[..12])).has_pool("gone");
    let commit = site.origin.git().find_commit(base).unwrap();
    site.origin.git().reset(commit.as_object(), git2::ResetType::Hard, None).unwrap();
    let next = site.origin.pool("next");
    for revision in [gone.to_string(), gone.to_string()[..12].to_owned()] {
        site.read(&server.url, Some(&revision)).refuses(&["the server has no revision"]);
    }
    site.read(&server.url, Some(&gone.to_string())).refuses(&["force-pushed away"]);
    site.read(&server.url, Some(&next.to_string())).has_pool("next");
}

#[test]
fn a_commit_below_a_branch_is_found_by_its_full_id() {
    let (site, server) = served(Door::Open);
    let first = site.origin.git().head().unwrap().target().unwrap();
    site.origin.pool("second");
    site.read(&server.url, Some(&first.to_string())).has_pool("first");
    // A server that gives any commit needs no history.
    site.origin.git().config().unwrap().set_bool("uploadpack.allowReachableSHA1InWant", true).unwrap();
    let other = Site::new();
    let mut command = other.command(&["validate", "-v", &server.url, "--rev", &first.to_string()]);
    command.env("SSL_CERT_FILE", &server.ca);
    Run::of(command).has_pool("first");
    assert!(git2::Repository::open_bare(&other.entries()[0]).unwrap().is_shallow());
}

#[test]
fn a_branch_that_is_named_like_a_commit_is_not_taken_for_it() {
    let (site, server) = served(Door::Open);
    let first = site.origin.git().head().unwrap().target().unwrap();
    let second = site.origin.pool("second");
    site.origin.branch(&first.to_string(), second);
    site.read(&server.url, Some(&first.to_string())).has_pool("first");
    site.origin.branch(&"7".repeat(40), second);
    for revision in ["7".repeat(40), format!("{}~1", "7".repeat(40))] {
        site.read(&server.url, Some(&revision)).refuses(&["the server has no revision"]);
    }
}

#[test]
fn a_server_that_sends_another_commit_than_it_says_is_refused() {
    for deep in [false, true] {
        let mut site = Site::new();
        let first = site.origin.git().head().unwrap().target().unwrap();
        let second = site.origin.pool("second");
        site.origin.tag("v1", first, true);
        let tag = site.origin.git().refname_to_id("refs/tags/v1").unwrap();
        let server = |of, to: git2::Oid| Server::new(&site, Door::Lies { of, to: to.to_string(), deep });
        let honest = server("refs/tags/none", first);
        let liar = server("refs/tags/v1^{}", "7".repeat(40).parse().unwrap());
        let thief = server("refs/tags/v1^{}", second);
        let certificates = [&honest.ca, &liar.ca, &thief.ca].map(|ca| std::fs::read_to_string(ca).unwrap()).concat();
        std::fs::write(site.path("all.pem"), certificates).unwrap();
        site.set("SSL_CERT_FILE", site.path("all.pem"));
        site.read(&honest.url, Some("v1")).has_pool("first");
        site.read(&honest.url, Some(&tag.to_string())).has_pool("first");
        let sent = format!("and sent {first}");
        for (server, revision) in [(&liar, "v1"), (&liar, &"7".repeat(40)), (&thief, "v1")] {
            site.read(&server.url, Some(revision)).refuses(&["the server was to send", &sent, "another commit"]);
        }
    }
}

#[test]
fn a_server_that_hangs_is_given_up_on() {
    for (door, doing) in [(Door::Hang, "connecting"), (Door::HangLater, "downloading")] {
        let (site, server) = served(door);
        let run = site.run(&["validate", &server.url, "--git-timeout", "1s"]);
        run.refuses(&["nothing came from the server for 1 s", doing, "--git-timeout"]);
        nobody_talks_to(&server.url);
    }
}

/// No process is left that was started for this address.
fn nobody_talks_to(url: &str) {
    let talks = || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        commands.any(|command| String::from_utf8_lossy(&command).contains(url))
    };
    // The kernel needs a moment for a process that was killed.
    for _ in 0..500 {
        if !talks() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("a process still talks to {url}");
}

#[test]
fn a_signal_ends_a_fetch() {
    use std::io::BufRead as _;
    let (mut site, server) = served(Door::Hang);
    site.set("NODECFG_GIT_TOKEN", TOKEN);
    let mut child = site.command(&["diff", "-v", &server.url]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("fetching HEAD of https://127.0.0.1"), "{first}");
    while server.asked().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let command_line = std::fs::read_to_string(format!("/proc/{}/cmdline", child.id()));
    assert!(command_line.is_err() || !command_line.unwrap().contains(TOKEN));
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let arguments = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    for arguments in arguments.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) {
        assert!(!(arguments.contains("git") && arguments.contains(TOKEN)), "{arguments}");
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let rest: String = lines.map_while(Result::ok).collect();
    assert!(rest.contains("interrupted before anything was changed"), "{rest}");
    nobody_talks_to(&server.url);
}

#[test]
fn an_address_with_a_secret_or_without_encryption_is_refused() {
    let site = Site::new();
    let run = site.read("https://me:hunter2@127.0.0.1/fleet.git", None);
    run.refuses(&["a password or a token in it", "NODECFG_GIT_TOKEN"]);
    assert!(!format!("{run:?}").contains("hunter2"));
    // A file that is missing is no host, whatever is in its name.
    let run = site.run(&["validate", "127.0.0.1:pools/x.yaml"]);
    assert!(run.exit == 3 && run.out.contains("cannot be read"), "{run:?}");
    site.read("http://127.0.0.1/fleet.git", None).refuses(&["http:// is not supported"]);
    std::fs::write(site.path("home/.gitconfig"), "[url \"http://127.0.0.1/\"]\n\tinsteadOf = https://example.com/\n")
        .unwrap();
    site.read("https://example.com/fleet.git", None).refuses(&["transport 'http' not allowed", "insteadOf"]);
}

#[test]
fn an_address_that_would_run_something_runs_nothing() {
    let site = Site::new();
    let touched = site.path("touched");
    let touch = format!("touch {}", touched.display());
    for address in [
        format!("ext::sh -c '{touch}'"),
        format!("--upload-pack={touch}:x"),
        format!("-oProxyCommand={touch}:x"),
        format!("ssh://-oProxyCommand={touch}/x"),
        format!("https://-x{touch}/x"),
        "fd::17,18".to_owned(),
    ] {
        let run = site.run(&["validate", "--", &address]);
        assert!(run.exit == 3 || run.exit == 2, "{address}: {run:?}");
        assert!(!touched.exists(), "{address}");
    }
    // Nor does one that the configuration makes of another.
    let configuration = format!(
        "[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n[url \"ext::sh -c '{touch}' \"]\n\tinsteadOf = \
         https://git.example.com/\n"
    );
    std::fs::write(site.path("home/.gitconfig"), configuration).unwrap();
    site.read("https://git.example.com/fleet.git", None).refuses(&["transport 'ext' not allowed"]);
    assert!(!touched.exists());
}
