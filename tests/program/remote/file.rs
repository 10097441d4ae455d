//! Tests of `file://` addresses, and of folders with --path.

use super::program::TestEnv;

#[test]
fn local_repository_address_is_read_through_cache() {
    let env = TestEnv::new();
    let url = format!("file://{}", env.origin.folder.display());
    let first = env.origin.git().head().unwrap().target().unwrap();
    let second = env.origin.pool("second");
    env.origin.branch("side", first);
    env.origin.tag("v1", first, true);
    for (revision, pool) in [
        (None, "second"),
        (Some("side"), "first"),
        (Some("v1"), "first"),
        (Some("main~1"), "first"),
        (Some(&first.to_string()[..8]), "first"),
        (Some(second.to_string().as_str()), "second"),
    ] {
        env.read(&url, revision).has_pool(pool);
    }
    assert_eq!(env.entries().len(), 3, "two commits, and the history");
    env.read(&url, Some("nope")).refuses(&["the server has no revision \"nope\"", "main, side, v1"]);

    // Deleted and moved branches take effect.
    env.origin.git().find_reference("refs/heads/side").unwrap().delete().unwrap();
    env.read(&url, Some("side~0")).refuses(&["has no revision \"side~0\""]);
    let commit = env.origin.git().find_commit(first).unwrap();
    env.origin.git().reset(commit.as_object(), git2::ResetType::Hard, None).unwrap();
    env.origin.pool("third");
    env.read(&url, Some(&second.to_string())).refuses(&["removed by a force-push"]);
    env.read(&url, Some("HEAD~0")).has_pool("third");
    env.read("file:///nonexistent/fleet.git", None).refuses(&["cannot read file:///nonexistent/fleet.git"]);
}

#[test]
fn timeout_of_zero_is_no_limit() {
    let env = TestEnv::new();
    let url = format!("file://{}", env.origin.folder.display());
    env.run(&["validate", "-v", &url, "--git-timeout", "0"]).has_pool("first");
    env.run(&["validate", "-v", &url, "--git-timeout", "2562047h"]).has_pool("first");
}

#[test]
fn repository_without_commits_is_refused() {
    let env = TestEnv::new();
    git2::Repository::init_bare(env.path("empty.git")).unwrap();
    let url = format!("file://{}", env.path("empty.git").display());
    env.read(&url, None).refuses(&["no commit on HEAD", "push a commit"]);
    env.read(&url, Some("main")).refuses(&["has no commit on HEAD"]);
}

#[test]
fn path_works_for_local_and_remote_repositories() {
    let env = TestEnv::new();
    env.origin.write_pool("clusters/prod/", "prod");
    env.origin.commit();
    let url = format!("file://{}", env.origin.folder.display());
    for address in [&url, "origin"] {
        env.run(&["validate", "-v", address, "--path", "clusters/prod"]).has_pool("prod");
        let missing = env.run(&["validate", address, "--path", "clusters/missing"]);
        missing.refuses(&["has no folder \"clusters/missing\""]);
        let run = env.run(&["validate", address, "--path", "../home"]);
        assert!(run.exit == 2 && run.err.contains("leads out of the repository"), "{run:?}");
    }
    env.run(&["validate", "-v", "origin", "--worktree", "--path", "clusters/prod"]).has_pool("prod");
    let run = env.run(&["validate", &url, "--worktree"]);
    assert!(run.exit == 2 && run.err.contains("is on a server"), "{run:?}");
}

#[test]
fn sandbox_syncs_from_server_address() {
    let env = TestEnv::new();
    let url = format!("file://{}", env.origin.folder.display());
    let run = env.run(&["sync", &url, "--sandbox"]);
    assert_eq!(run.exit, 0, "{run:?}");
}

#[test]
fn partial_clone_is_read_without_fetching() {
    let env = TestEnv::new();
    env.origin.pool("second");
    env.origin.git().config().unwrap().set_bool("uploadpack.allowFilter", true).unwrap();
    let url = format!("file://{}", env.origin.folder.display());
    let mut clone = std::process::Command::new("git");
    clone.args(["clone", "-q", "--filter=blob:none", &url]).arg(env.path("clone")).env("HOME", env.path("home"));
    assert!(clone.status().unwrap().success());
    env.read("clone", None).has_pool("second");
    // The files of the previous commit are missing.
    let run = env.read("clone", Some("HEAD~1"));
    assert!(run.exit == 3 && run.out.contains("content is missing in this clone"), "{run:?}");
    assert!(run.out.contains("git fetch --refetch"), "{run:?}");

    // A partial clone behind an address serves what it has without fetching the rest.
    let partial = format!("file://{}", env.path("clone").display());
    env.read(&partial, None).has_pool("second");
    std::fs::rename(&env.origin.folder, env.path("moved")).unwrap();
    env.read(&partial, Some("HEAD~1")).refuses(&["cannot read file://"]);
}
