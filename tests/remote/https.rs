//! Git over HTTPS.

use super::program::{Run, Site};
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
    assert!(asked.iter().skip(1).all(|asked| asked.authorization.is_some()));
    let everything: Vec<String> =
        site.entries().iter().map(|entry| std::fs::read_to_string(entry.join("config")).unwrap()).collect();
    assert!(!everything.is_empty() && !everything.concat().contains(TOKEN));
}

#[test]
fn a_wrong_token_is_refused_once() {
    let (mut site, server) = served(Door::Token(TOKEN.to_owned()));
    site.read(&server.url, None).refuses(&["the server asks for credentials, and there are none", "NODECFG_GIT_TOKEN"]);
    site.set("NODECFG_GIT_TOKEN", "hunter3");
    let before = server.asked().len();
    let run = site.run(&["validate", "-vv", &server.url]);
    run.refuses(&["none was accepted: NODECFG_GIT_TOKEN (refused)"]);
    assert!(!format!("{run:?}").contains("hunter3"), "{run:?}");
    assert_eq!(server.asked().len() - before, 2, "one request without the token, and one with it");
}

#[test]
fn a_token_without_rights_gives_one_message() {
    for status in [403, 404] {
        let (mut site, server) = served(Door::Status(status));
        site.set("NODECFG_GIT_TOKEN", TOKEN);
        let run = site.read(&server.url, None);
        run.refuses(&[&format!("the server answers {status}"), "with NODECFG_GIT_TOKEN", "may read"]);
        assert!(!format!("{run:?}").contains(TOKEN), "{run:?}");
    }
    let (site, server) = served(Door::Open);
    let other = server.url.replace("fleet", "nothing");
    site.read(&other, None).refuses(&["the server answers 404", "without credentials"]);
}

#[test]
fn netrc_helpers_and_askpass_are_asked_in_turn() {
    use std::os::unix::fs::PermissionsExt as _;
    let (mut site, server) = served(Door::Token(TOKEN.to_owned()));
    std::fs::write(site.path("home/.netrc"), "machine 127.0.0.1 login me password wrong\n").unwrap();
    site.read(&server.url, None).refuses(&["the netrc file (refused)"]);
    let program = site.path("askpass");
    std::fs::write(&program, format!("#!/bin/sh\ncase $1 in Username*) echo me;; *) echo {TOKEN};; esac\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    site.set("GIT_ASKPASS", &program);
    site.read(&server.url, None).has_pool("first");

    let (site, server) = served(Door::Token(TOKEN.to_owned()));
    let helper = format!("[credential]\n\thelper = \"!f() {{ echo username=me; echo password={TOKEN}; }}; f\"\n");
    std::fs::write(site.path("home/.gitconfig"), helper).unwrap();
    site.read(&server.url, None).has_pool("first");
}

#[test]
fn a_server_that_nobody_vouches_for_is_refused() {
    let site = Site::new();
    let server = Server::new(&site, Door::Open);
    let run = site.read(&server.url, None);
    run.refuses(&["certificate cannot be verified", "SSL_CERT_FILE"]);
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
    site.read(&server.url, None).refuses(&["the server redirects to localhost"]);
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
    }
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
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let rest: String = lines.map_while(Result::ok).collect();
    assert!(rest.contains("interrupted before anything was changed"), "{rest}");
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
    site.read("https://example.com/fleet.git", None).refuses(&["insteadOf", "http:// is not supported"]);
}
