//! The cache: used again, damaged, shared, and after a kill.

use std::process::Stdio;

use super::program::{Run, Site};
use super::server::{Door, Server};

fn served(door: Door) -> (Site, Server) {
    let mut site = Site::new();
    let server = Server::new(&site, door);
    site.set("SSL_CERT_FILE", &server.ca);
    (site, server)
}

#[test]
fn what_is_in_the_cache_is_not_downloaded_again() {
    let (site, server) = served(Door::Open);
    site.read(&server.url, None).has_pool("first");
    assert_eq!(server.downloads(), 1);
    let run = site.read(&server.url, Some("main"));
    run.has_pool("first");
    assert!(run.err.contains("which is in the cache"), "{run:?}");
    assert_eq!(server.downloads(), 1);
    site.origin.pool("second");
    site.read(&server.url, None).has_pool("second");
    assert_eq!(server.downloads(), 2);
    let other = site.path("other");
    site.run(&["validate", "-v", &server.url, "--git-cache", other.to_str().unwrap()]).has_pool("second");
    assert_eq!(server.downloads(), 3);
}

/// Overwrites the middle of every pack, and everything of every index.
fn damage(site: &Site, ending: &str) {
    let mut found = 0;
    for entry in site.entries() {
        for file in std::fs::read_dir(entry.join("objects/pack")).unwrap() {
            let path = file.unwrap().path();
            if !path.to_string_lossy().ends_with(ending) {
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[12..middle].fill(0xaa);
            // Packs are written to be read alone.
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, bytes).unwrap();
            found += 1;
        }
    }
    assert!(found > 0);
}

#[test]
fn a_damaged_cache_is_made_anew() {
    for ending in [".pack", ".idx"] {
        let (site, server) = served(Door::Open);
        site.read(&server.url, None).has_pool("first");
        damage(&site, ending);
        site.read(&server.url, None).has_pool("first");
        assert_eq!(server.downloads(), 2);
        let entry = &site.entries()[0];
        std::fs::remove_file(entry.join("HEAD")).unwrap();
        site.read(&server.url, None).has_pool("first");

        let (site, server) = served(Door::Open);
        site.origin.pool("second");
        site.read(&server.url, Some("main~1")).has_pool("first");
        damage(&site, ending);
        site.read(&server.url, Some("main~1")).has_pool("first");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_said() {
    let (site, server) = served(Door::Open);
    let file = site.path("file");
    std::fs::write(&file, "").unwrap();
    let run = site.run(&["validate", &server.url, "--git-cache", file.to_str().unwrap()]);
    run.refuses(&["cannot make the git cache", "--git-cache"]);
    let mut command = site.command(&["validate", &server.url]);
    command.env_remove("NODECFG_CACHE_DIR").env_remove("HOME");
    Run::of(command).refuses(&["no folder to keep remote repositories in", "NODECFG_CACHE_DIR"]);
}

#[test]
fn two_runs_at_once_do_not_disturb_each_other() {
    let (site, server) = served(Door::Open);
    site.origin.pool("second");
    for revision in ["main", "main~1"] {
        let children: Vec<_> = (0..4)
            .map(|_| {
                let mut command = site.command(&["validate", "-v", &server.url, "--rev", revision]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{revision}: {output:?}");
        }
    }
    assert_eq!(site.entries().len(), 2, "{:?}", site.entries());
}

#[test]
fn a_run_that_was_killed_leaves_nothing_in_the_way() {
    let (site, server) = served(Door::HangLater);
    let mut child = site.command(&["validate", &server.url]).spawn().unwrap();
    while !server.is_asked_for_objects() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = site.entries();
    assert!(left.len() == 1 && left[0].file_name().unwrap().to_string_lossy().starts_with("tmp-"), "{left:?}");
    let open = Server::new(&site, Door::Open);
    let mut command = site.command(&["validate", "-v", &open.url]);
    command.env("SSL_CERT_FILE", &open.ca);
    Run::of(command).has_pool("first");
    assert!(!left[0].exists());
}
