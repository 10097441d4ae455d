//! Tests of the repository cache: reuse, damage, concurrent use, and recovery after a kill.

use std::process::Stdio;

use super::program::{Run, TestEnv};
use super::server::{Server, ServerBehavior};

fn start_server(behavior: ServerBehavior) -> (TestEnv, Server) {
    let mut env = TestEnv::new();
    let server = Server::new(&env, behavior);
    env.set("SSL_CERT_FILE", &server.ca);
    (env, server)
}

#[test]
fn cached_commit_is_not_downloaded_again() {
    let (env, server) = start_server(ServerBehavior::Public);
    env.read(&server.url, None).has_pool("first");
    assert_eq!(server.downloads(), 1);
    let run = env.read(&server.url, Some("main"));
    run.has_pool("first");
    assert!(run.err.contains("which is in the cache"), "{run:?}");
    assert_eq!(server.downloads(), 1);
    env.origin.pool("second");
    env.read(&server.url, None).has_pool("second");
    assert_eq!(server.downloads(), 2);
    let other = env.path("other");
    env.run(&["validate", "-v", &server.url, "--git-cache", other.to_str().unwrap()]).has_pool("second");
    assert_eq!(server.downloads(), 3);
}

/// Overwrites the middle of every pack, and every index completely.
fn damage(env: &TestEnv, ending: &str) {
    let mut found = 0;
    for entry in env.entries() {
        for file in std::fs::read_dir(entry.join("objects/pack")).unwrap() {
            let path = file.unwrap().path();
            if !path.to_string_lossy().ends_with(ending) {
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[12..middle].fill(0xaa);
            // Packs are read-only files.
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, bytes).unwrap();
            found += 1;
        }
    }
    assert!(found > 0);
}

#[test]
fn damaged_cache_is_recreated() {
    for ending in [".pack", ".idx"] {
        let (env, server) = start_server(ServerBehavior::Public);
        env.read(&server.url, None).has_pool("first");
        damage(&env, ending);
        env.read(&server.url, None).has_pool("first");
        assert_eq!(server.downloads(), 2);
        let entry = &env.entries()[0];
        std::fs::remove_file(entry.join("HEAD")).unwrap();
        env.read(&server.url, None).has_pool("first");

        let (env, server) = start_server(ServerBehavior::Public);
        env.origin.pool("second");
        env.read(&server.url, Some("main~1")).has_pool("first");
        damage(&env, ending);
        env.read(&server.url, Some("main~1")).has_pool("first");
    }
}

#[test]
fn unwritable_cache_is_reported() {
    let (env, server) = start_server(ServerBehavior::Public);
    let file = env.path("file");
    std::fs::write(&file, "").unwrap();
    let run = env.run(&["validate", &server.url, "--git-cache", file.to_str().unwrap()]);
    run.refuses(&["cannot create the git cache", "--git-cache"]);
    let mut command = env.command(&["validate", &server.url]);
    command.env_remove("NODECFG_CACHE_DIR").env_remove("HOME");
    Run::of(command).refuses(&["the folder for the git cache is unknown", "NODECFG_CACHE_DIR"]);
}

#[test]
fn concurrent_runs_do_not_interfere() {
    let (env, server) = start_server(ServerBehavior::Public);
    env.origin.pool("second");
    for revision in ["main", "main~1"] {
        let children: Vec<_> = (0..4)
            .map(|_| {
                let mut command = env.command(&["validate", "-v", &server.url, "--rev", revision]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{revision}: {output:?}");
        }
    }
    assert_eq!(env.entries().len(), 2, "{:?}", env.entries());
}

#[test]
fn killed_run_leaves_no_blocking_files() {
    let (env, server) = start_server(ServerBehavior::HangOnDownload);
    let mut child = env.command(&["validate", &server.url]).spawn().unwrap();
    while !server.has_download_begun() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = env.entries();
    assert!(left.len() == 1 && left[0].file_name().unwrap().to_string_lossy().starts_with("tmp-"), "{left:?}");
    let open = Server::new(&env, ServerBehavior::Public);
    let mut command = env.command(&["validate", "-v", &open.url]);
    command.env("SSL_CERT_FILE", &open.ca);
    Run::of(command).has_pool("first");
    assert!(!left[0].exists());
}
