//! `file://`, and folders with --path.

use super::program::Site;

#[test]
fn another_repository_on_this_machine_is_read_through_the_cache() {
    let site = Site::new();
    let url = format!("file://{}", site.origin.folder.display());
    let first = site.origin.git().head().unwrap().target().unwrap();
    let second = site.origin.pool("second");
    site.origin.branch("side", first);
    site.origin.tag("v1", first, true);
    for (revision, pool) in [
        (None, "second"),
        (Some("side"), "first"),
        (Some("v1"), "first"),
        (Some("main~1"), "first"),
        (Some(&first.to_string()[..8]), "first"),
        (Some(second.to_string().as_str()), "second"),
    ] {
        site.read(&url, revision).has_pool(pool);
    }
    assert_eq!(site.entries().len(), 3, "two commits, and the history");
    site.read(&url, Some("nope")).refuses(&["the server has no revision \"nope\"", "main, side, v1"]);

    // A branch that is deleted or moved there is so here.
    site.origin.git().find_reference("refs/heads/side").unwrap().delete().unwrap();
    site.read(&url, Some("side~0")).refuses(&["has no revision \"side~0\""]);
    let commit = site.origin.git().find_commit(first).unwrap();
    site.origin.git().reset(commit.as_object(), git2::ResetType::Hard, None).unwrap();
    site.origin.pool("third");
    site.read(&url, Some(&second.to_string())).refuses(&["force-pushed away"]);
    site.read(&url, Some("HEAD~0")).has_pool("third");
    site.read("file:///nonexistent/fleet.git", None).refuses(&["cannot read file:///nonexistent/fleet.git"]);
}

#[test]
fn a_repository_without_commits_has_nothing_to_read() {
    let site = Site::new();
    git2::Repository::init_bare(site.path("empty.git")).unwrap();
    let url = format!("file://{}", site.path("empty.git").display());
    site.read(&url, None).refuses(&["no commits on its HEAD", "push a commit"]);
    site.read(&url, Some("main")).refuses(&["no commits"]);
}

#[test]
fn the_folder_of_the_configuration_is_found_here_and_there() {
    let site = Site::new();
    site.origin.write_pool("clusters/prod/", "prod");
    site.origin.commit();
    let url = format!("file://{}", site.origin.folder.display());
    for address in [&url, "origin"] {
        site.run(&["validate", "-v", address, "--path", "clusters/prod"]).has_pool("prod");
        let missing = site.run(&["validate", address, "--path", "clusters/missing"]);
        missing.refuses(&["has no folder \"clusters/missing\""]);
        let run = site.run(&["validate", address, "--path", "../home"]);
        assert!(run.exit == 2 && run.err.contains("leads out of the repository"), "{run:?}");
    }
    site.run(&["validate", "-v", "origin", "--worktree", "--path", "clusters/prod"]).has_pool("prod");
    let run = site.run(&["validate", &url, "--worktree"]);
    assert!(run.exit == 2 && run.err.contains("is on a server"), "{run:?}");
}

#[test]
fn a_sandbox_is_synced_from_a_server_address() {
    let site = Site::new();
    let url = format!("file://{}", site.origin.folder.display());
    let run = site.run(&["sync", &url, "--sandbox"]);
    assert_eq!(run.exit, 0, "{run:?}");
}

#[test]
fn a_partial_clone_is_read_as_far_as_it_goes_and_nothing_is_fetched_for_it() {
    let site = Site::new();
    site.origin.pool("second");
    site.origin.git().config().unwrap().set_bool("uploadpack.allowFilter", true).unwrap();
    let url = format!("file://{}", site.origin.folder.display());
    let mut clone = std::process::Command::new("git");
    clone.args(["clone", "-q", "--filter=blob:none", &url]).arg(site.path("clone")).env("HOME", site.path("home"));
    assert!(clone.status().unwrap().success());
    site.read("clone", None).has_pool("second");
    // The files of the commit before are not there.
    let run = site.read("clone", Some("HEAD~1"));
    assert!(run.exit == 3 && run.out.contains("content is missing from this clone"), "{run:?}");
    assert!(run.out.contains("git fetch --refetch"), "{run:?}");

    // One behind an address is asked for what it has, and does not fetch the rest.
    let partial = format!("file://{}", site.path("clone").display());
    site.read(&partial, None).has_pool("second");
    std::fs::rename(&site.origin.folder, site.path("moved")).unwrap();
    site.read(&partial, Some("HEAD~1")).refuses(&["cannot read file://"]);
}
