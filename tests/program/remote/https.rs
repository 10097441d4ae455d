//! Tests of git over HTTPS.

use super::program::{Run, TestEnv};
use super::proxy::Proxy;
use super::server::{Server, ServerBehavior};

const TOKEN: &str = "hunter2-token";

fn start_server(behavior: ServerBehavior) -> (TestEnv, Server) {
    let mut env = TestEnv::new();
    let server = Server::new(&env, behavior);
    env.set("SSL_CERT_FILE", &server.ca);
    (env, server)
}

#[test]
fn token_authenticates_and_is_never_printed() {
    let (mut env, server) = start_server(ServerBehavior::Token(TOKEN.to_owned()));
    env.set("NODECFG_GIT_TOKEN", TOKEN);
    let run = env.run(&["validate", "-vv", &server.url]);
    run.has_pool("first");
    assert!(!format!("{run:?}").contains(TOKEN), "{run:?}");
    let requests = server.requests();
    assert!(requests[0].authorization.is_none(), "no token is sent before the server requests it");
    let (downloads, lists): (Vec<_>, Vec<_>) =
        requests.iter().partition(|request| request.path.ends_with("/git-upload-pack"));
    assert!(!downloads.is_empty() && downloads.iter().all(|request| request.authorization.is_some()));
    assert_eq!(
        lists.iter().filter(|request| request.authorization.is_some()).count(),
        lists.len() / 2,
        "the server requests the token each time"
    );
    let everything: Vec<String> =
        env.entries().iter().map(|entry| std::fs::read_to_string(entry.join("config")).unwrap()).collect();
    assert!(!everything.is_empty() && !everything.concat().contains(TOKEN));
}

#[test]
fn wrong_token_is_refused_once() {
    let (mut env, server) = start_server(ServerBehavior::Token(TOKEN.to_owned()));
    env.read(&server.url, None).refuses(&["could not read Username", "NODECFG_GIT_TOKEN"]);
    env.set("NODECFG_GIT_TOKEN", "hunter3");
    let before = server.requests().len();
    let run = env.run(&["validate", "-vv", &server.url]);
    run.refuses(&["Authentication failed", "NODECFG_GIT_TOKEN"]);
    assert!(!format!("{run:?}").contains("hunter3"), "{run:?}");
    assert_eq!(server.requests().len() - before, 2, "one request without the token, and one with it");
}

#[test]
fn token_without_permission_gives_one_message() {
    for (status, says) in [(403, "error: 403"), (404, "not found")] {
        let (mut env, server) = start_server(ServerBehavior::Status(status));
        env.set("NODECFG_GIT_TOKEN", TOKEN);
        let run = env.read(&server.url, None);
        run.refuses(&[says, "NODECFG_GIT_TOKEN", "has read access"]);
        assert!(!format!("{run:?}").contains(TOKEN), "{run:?}");
    }
    let (env, server) = start_server(ServerBehavior::Public);
    let other = server.url.replace("fleet", "nothing");
    env.read(&other, None).refuses(&["not found", "check the address"]);
}

#[test]
fn git_credentials_are_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let credentials = || start_server(ServerBehavior::Token(TOKEN.to_owned()));
    let (env, server) = credentials();
    std::fs::write(env.path("home/.netrc"), format!("machine 127.0.0.1 login me password {TOKEN}\n")).unwrap();
    env.read(&server.url, None).has_pool("first");

    let (mut env, server) = credentials();
    let program = env.path("askpass");
    std::fs::write(&program, format!("#!/bin/sh\ncase $1 in Username*) echo me;; *) echo {TOKEN};; esac\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    env.set("GIT_ASKPASS", &program);
    env.read(&server.url, None).has_pool("first");

    let (mut env, server) = credentials();
    let helper = format!("[credential]\n\thelper = \"!f() {{ echo username=me; echo password={TOKEN}; }}; f\"\n");
    std::fs::write(env.path("home/.gitconfig"), helper).unwrap();
    env.read(&server.url, None).has_pool("first");
    // An explicit token takes precedence.
    env.set("NODECFG_GIT_TOKEN", "hunter3");
    env.read(&server.url, None).refuses(&["Authentication failed"]);
}

#[test]
fn instead_of_configuration_applies() {
    let (mut env, server) = start_server(ServerBehavior::Public);
    let configuration =
        format!("[url \"{}\"]\n\tinsteadOf = https://git.example.com/\n", server.url.replace("fleet.git", ""));
    std::fs::write(env.path("home/.gitconfig"), configuration).unwrap();
    // The token is for git.example.com, and not for the replacement address.
    env.set("NODECFG_GIT_TOKEN", TOKEN);
    env.read("https://git.example.com/fleet.git", None).has_pool("first");
    assert!(server.requests().iter().all(|request| request.authorization.is_none()));

    // The configured address is not printed.
    let configuration = "[url \"https://me:hunter2@127.0.0.1:1/\"]\n\tinsteadOf = https://git.example.com/\n";
    std::fs::write(env.path("home/.gitconfig"), configuration).unwrap();
    let run = env.run(&["validate", "-vv", "https://git.example.com/fleet.git"]);
    run.refuses(&["cannot read https://git.example.com/fleet.git", "Failed to connect"]);
    assert!(!format!("{run:?}").contains("hunter2"), "{run:?}");
}

#[test]
fn proxy_of_environment_or_configuration_is_used() {
    let (env, server) = start_server(ServerBehavior::Public);
    let proxy = Proxy::start();
    let mut command = env.command(&["validate", "-v", &server.url]);
    command.env("HTTPS_PROXY", &proxy.url);
    Run::of(command).has_pool("first");
    let tunnels = proxy.tunnels();
    assert!(!tunnels.is_empty() && tunnels.iter().all(|to| server.url.contains(to)), "{tunnels:?}");

    let other = Proxy::start();
    std::fs::write(env.path("home/.gitconfig"), format!("[http]\n\tproxy = {}\n", other.url)).unwrap();
    env.origin.pool("second");
    env.read(&server.url, None).has_pool("second");
    assert!(!other.tunnels().is_empty());
}

#[test]
fn missing_git_is_named_with_fix() {
    let (env, server) = start_server(ServerBehavior::Public);
    std::fs::create_dir(env.path("empty")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = env.command(arguments);
        command.env("PATH", env.path("empty"));
        Run::of(command)
    };
    run(&["validate", &server.url])
        .refuses(&["the program git is not installed", "install git, so that git is on the PATH"]);
    // A local repository needs no git program.
    run(&["validate", "-v", "origin"]).has_pool("first");
}

#[test]
fn untrusted_server_is_refused() {
    let env = TestEnv::new();
    let server = Server::new(&env, ServerBehavior::Public);
    let run = env.read(&server.url, None);
    run.refuses(&["certificate", "SSL_CERT_FILE"]);
    // No configuration disables the verification.
    std::fs::write(env.path("home/.gitconfig"), "[http]\n\tsslVerify = false\n").unwrap();
    let mut command = env.command(&["validate", &server.url]);
    command.env("GIT_SSL_NO_VERIFY", "1");
    Run::of(command).refuses(&["certificate", "SSL_CERT_FILE"]);
    assert!(server.requests().is_empty());
}

#[test]
fn redirect_to_another_host_sends_no_token() {
    let (env, elsewhere) = start_server(ServerBehavior::Token(TOKEN.to_owned()));
    let host = elsewhere.url.replace("127.0.0.1", "localhost").replace("/fleet.git", "");
    let mut env = env;
    let server = Server::new(&env, ServerBehavior::Redirect(host));
    let both = [&server.ca, &elsewhere.ca].map(|ca| std::fs::read_to_string(ca).unwrap()).concat();
    std::fs::write(env.path("both.pem"), both).unwrap();
    env.set("SSL_CERT_FILE", env.path("both.pem"));
    env.set("NODECFG_GIT_TOKEN", TOKEN);
    env.read(&server.url, None).refuses(&["nodecfg follows no redirects"]);
    assert!(elsewhere.requests().is_empty(), "{:?}", elsewhere.requests());
}

#[test]
fn redirect_within_host_is_reported() {
    let (env, server) = start_server(ServerBehavior::Redirect("/elsewhere".to_owned()));
    let run = env.read(&server.url, None);
    run.refuses(&["use the new address", "nodecfg follows no redirects"]);
    assert!(!run.err.contains("another host"), "{run:?}");
}

#[test]
fn every_kind_of_revision_is_fetched_without_history() {
    let (env, server) = start_server(ServerBehavior::Public);
    let first = env.origin.git().head().unwrap().target().unwrap();
    let second = env.origin.pool("second");
    let third = env.origin.pool("third");
    env.origin.branch("side", second);
    env.origin.tag("v1", first, false);
    env.origin.tag("v2", second, true);
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
        env.read(&server.url, revision).has_pool(pool);
    }
    let entries = env.entries();
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
        env.read(&server.url, Some(revision)).has_pool(pool);
    }
    assert!(server.downloads() > downloads);
    let unknown = env.read(&server.url, Some("nope"));
    unknown.refuses(&["the server has no revision \"nope\"", "use main, side, v1, v2 or a full commit ID"]);
    env.read(&server.url, Some("main~7")).refuses(&["has no revision \"main~7\""]);
}

#[test]
fn force_pushed_commit_is_not_read_from_cache() {
    let (env, server) = start_server(ServerBehavior::Public);
    let base = env.origin.git().head().unwrap().target().unwrap();
    let removed = env.origin.pool("removed");
    env.read(&server.url, Some(&removed.to_string())).has_pool("removed");
    env.read(&server.url, Some(&removed.to_string()[..12])).has_pool("removed");
    let commit = env.origin.git().find_commit(base).unwrap();
    env.origin.git().reset(commit.as_object(), git2::ResetType::Hard, None).unwrap();
    let next = env.origin.pool("next");
    for revision in [removed.to_string(), removed.to_string()[..12].to_owned()] {
        env.read(&server.url, Some(&revision)).refuses(&["the server has no revision"]);
    }
    env.read(&server.url, Some(&removed.to_string())).refuses(&["removed by a force-push"]);
    env.read(&server.url, Some(&next.to_string())).has_pool("next");
}

#[test]
fn commit_below_branch_is_found_by_full_id() {
    let (env, server) = start_server(ServerBehavior::Public);
    let first = env.origin.git().head().unwrap().target().unwrap();
    env.origin.pool("second");
    env.read(&server.url, Some(&first.to_string())).has_pool("first");
    // A server that serves any commit needs no history.
    env.origin.git().config().unwrap().set_bool("uploadpack.allowReachableSHA1InWant", true).unwrap();
    let other = TestEnv::new();
    let mut command = other.command(&["validate", "-v", &server.url, "--rev", &first.to_string()]);
    command.env("SSL_CERT_FILE", &server.ca);
    Run::of(command).has_pool("first");
    assert!(git2::Repository::open_bare(&other.entries()[0]).unwrap().is_shallow());
}

#[test]
fn branch_named_like_a_commit_is_not_used() {
    let (env, server) = start_server(ServerBehavior::Public);
    let first = env.origin.git().head().unwrap().target().unwrap();
    let second = env.origin.pool("second");
    env.origin.branch(&first.to_string(), second);
    env.read(&server.url, Some(&first.to_string())).has_pool("first");
    env.origin.branch(&"7".repeat(40), second);
    for revision in ["7".repeat(40), format!("{}~1", "7".repeat(40))] {
        env.read(&server.url, Some(&revision)).refuses(&["the server has no revision"]);
    }
}

#[test]
fn wrong_commit_from_server_is_refused() {
    for deep in [false, true] {
        let mut env = TestEnv::new();
        let first = env.origin.git().head().unwrap().target().unwrap();
        let second = env.origin.pool("second");
        env.origin.tag("v1", first, true);
        let tag = env.origin.git().refname_to_id("refs/tags/v1").unwrap();
        let server = |of, to: git2::Oid| Server::new(&env, ServerBehavior::WrongTag { of, to: to.to_string(), deep });
        let honest = server("refs/tags/none", first);
        let wrong_commit = server("refs/tags/v1^{}", "7".repeat(40).parse().unwrap());
        let wrong_tag = server("refs/tags/v1^{}", second);
        let certificates =
            [&honest.ca, &wrong_commit.ca, &wrong_tag.ca].map(|ca| std::fs::read_to_string(ca).unwrap()).concat();
        std::fs::write(env.path("all.pem"), certificates).unwrap();
        env.set("SSL_CERT_FILE", env.path("all.pem"));
        env.read(&honest.url, Some("v1")).has_pool("first");
        env.read(&honest.url, Some(&tag.to_string())).has_pool("first");
        let sent = format!("the server sent {first} instead of");
        for (server, revision) in [(&wrong_commit, "v1"), (&wrong_commit, &"7".repeat(40)), (&wrong_tag, "v1")] {
            env.read(&server.url, Some(revision)).refuses(&[&sent, "contact the operator of the server"]);
        }
    }
}

#[test]
fn hanging_server_times_out() {
    for (behavior, doing) in [(ServerBehavior::Hang, "connecting"), (ServerBehavior::HangOnDownload, "downloading")] {
        let (env, server) = start_server(behavior);
        let run = env.run(&["validate", &server.url, "--git-timeout", "1s"]);
        run.refuses(&["the server sent nothing for 1 s", doing, "--git-timeout"]);
        assert_no_process_for(&server.url);
    }
}

/// Asserts that no process for this address is left.
fn assert_no_process_for(url: &str) {
    let is_running = || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        commands.any(|command| String::from_utf8_lossy(&command).contains(url))
    };
    // The kernel needs a moment to remove a killed process.
    for _ in 0..500 {
        if !is_running() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("a process still connects to {url}");
}

#[test]
fn signal_ends_a_fetch() {
    use std::io::BufRead as _;
    let (mut env, server) = start_server(ServerBehavior::Hang);
    env.set("NODECFG_GIT_TOKEN", TOKEN);
    let mut child = env.command(&["diff", "-v", &server.url]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("fetching HEAD of https://127.0.0.1"), "{first}");
    while server.requests().is_empty() {
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
    assert_no_process_for(&server.url);
}

#[test]
fn address_with_secret_or_without_encryption_is_refused() {
    let env = TestEnv::new();
    let run = env.read("https://me:hunter2@127.0.0.1/fleet.git", None);
    run.refuses(&["contains a password or a token", "NODECFG_GIT_TOKEN"]);
    assert!(!format!("{run:?}").contains("hunter2"));
    // The name of a missing file is not a host.
    let run = env.run(&["validate", "127.0.0.1:pools/x.yaml"]);
    assert!(run.exit == 3 && run.out.contains("cannot be read"), "{run:?}");
    env.read("http://127.0.0.1/fleet.git", None).refuses(&["http:// is not supported"]);
    std::fs::write(env.path("home/.gitconfig"), "[url \"http://127.0.0.1/\"]\n\tinsteadOf = https://example.com/\n")
        .unwrap();
    env.read("https://example.com/fleet.git", None).refuses(&["transport 'http' not allowed", "insteadOf"]);
}

#[test]
fn address_cannot_run_commands() {
    let env = TestEnv::new();
    let touched = env.path("touched");
    let touch = format!("touch {}", touched.display());
    for address in [
        format!("ext::sh -c '{touch}'"),
        format!("--upload-pack={touch}:x"),
        format!("-oProxyCommand={touch}:x"),
        format!("ssh://-oProxyCommand={touch}/x"),
        format!("https://-x{touch}/x"),
        "fd::17,18".to_owned(),
    ] {
        let run = env.run(&["validate", "--", &address]);
        assert!(run.exit == 3 || run.exit == 2, "{address}: {run:?}");
        assert!(!touched.exists(), "{address}");
    }
    // The same applies to an address from the git configuration.
    let configuration = format!(
        "[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n[url \"ext::sh -c '{touch}' \"]\n\tinsteadOf = \
         https://git.example.com/\n"
    );
    std::fs::write(env.path("home/.gitconfig"), configuration).unwrap();
    env.read("https://git.example.com/fleet.git", None).refuses(&["transport 'ext' not allowed"]);
    assert!(!touched.exists());
}
