//! Tests of reading repositories on disk.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use git2::{IndexAddOption, Repository, Signature};
use tempfile::TempDir;

use super::*;

const KUBELET: &str = "kind: KubeletConfiguration\n";

fn write(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    fs::write(path, text).expect("written");
}

fn repository(files: &[(&str, &str)]) -> (TempDir, Repository) {
    let folder = TempDir::new().expect("a folder");
    let repository = Repository::init(folder.path()).expect("a repository");
    for (path, text) in files {
        write(folder.path(), path, text);
    }
    if !files.is_empty() {
        commit(&repository);
    }
    (folder, repository)
}

/// Commits all files of the working tree.
fn commit(repository: &Repository) -> String {
    let mut index = repository.index().expect("an index");
    index.add_all(["*"], IndexAddOption::DEFAULT, None).expect("added");
    index.update_all(["*"], None).expect("updated");
    index.write().expect("written");
    let tree = repository.find_tree(index.write_tree().expect("a tree")).expect("a tree");
    let who = Signature::now("Test", "test@example.com").expect("a signature");
    let parent = repository.head().ok().map(|head| head.peel_to_commit().expect("a commit"));
    let parents: Vec<_> = parent.iter().collect();
    repository.commit(Some("HEAD"), &who, &who, "test", &tree, &parents).expect("committed").to_string()
}

fn read(path: &Path, revision: Option<&str>, worktree: bool) -> Result<Snapshot, RepositoryError> {
    open(&OpenOptions {
        path: path.to_owned(),
        folder: Folder::default(),
        revision: revision.map(str::to_owned),
        worktree,
        signers: None,
        checkout: None,
    })
}

fn error(path: &Path, revision: Option<&str>) -> String {
    let error = read(path, revision, false).expect_err("an error");
    format!("{error}; {}", error.help()).replace(&path.display().to_string(), "REPO")
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.files.keys().map(String::as_str).collect()
}

fn codes(snapshot: &Snapshot) -> Vec<String> {
    let unusable = snapshot.files.iter().filter_map(|(path, file)| match file {
        SnapshotFile::Unusable(finding) => Some(format!("{path}: {}", finding.code)),
        SnapshotFile::Text(_) => None,
    });
    snapshot.findings.iter().map(|finding| finding.code.to_owned()).chain(unusable).collect()
}

#[test]
fn reads_head_only() {
    let (folder, repository) = repository(&[
        ("nodecfg.yaml", "a: 1\r\nb: 2\r\n"),
        ("pools/gpu/kubelet.yaml", "\u{feff}kind: x\n"),
        ("README.md", "# Not for nodecfg"),
        (".github/workflows/ci.yaml", "on: push\n"),
    ]);
    let snapshot = read(folder.path(), None, false).expect("reads");
    assert_eq!(names(&snapshot), ["nodecfg.yaml", "pools/gpu/kubelet.yaml"]);
    assert_eq!(snapshot.text("nodecfg.yaml").map(|t| &**t), Some("a: 1\nb: 2\n"));
    assert_eq!(snapshot.text("pools/gpu/kubelet.yaml").map(|t| &**t), Some("kind: x\n"));
    assert_eq!(snapshot.source, Source::Commit);
    let head = repository.head().expect("HEAD").target().expect("an id").to_string();
    assert_eq!(snapshot.commit.as_ref().map(CommitId::as_str), Some(head.as_str()));
    assert_eq!(codes(&snapshot), Vec::<String>::new());
}

#[test]
fn reports_uncommitted_changes_without_using_them() {
    let (folder, _) = repository(&[("pools/gpu/kubelet.yaml", KUBELET), ("other/x.yaml", "")]);
    let index = fs::read(folder.path().join(".git/index")).expect("an index");
    write(folder.path(), "pools/gpu/kubelet.yaml", "kind: changed\n");
    write(folder.path(), "pools/new/kubelet.yaml", "kind: new\n");
    let snapshot = read(folder.path(), None, false).expect("reads");
    assert_eq!(snapshot.text("pools/gpu/kubelet.yaml").map(|t| &**t), Some(KUBELET));
    assert_eq!(codes(&snapshot), ["uncommitted-changes"]);
    assert!(snapshot.findings[0].message.contains("pools/gpu/kubelet.yaml and 1 more"), "{:?}", snapshot.findings);
    assert_eq!(codes(&read(folder.path(), Some("HEAD"), false).expect("reads")), Vec::<String>::new());
    assert_eq!(codes(&read(&folder.path().join("other"), None, false).expect("reads")), Vec::<String>::new());
    let tree = read(folder.path(), None, true).expect("reads");
    assert_eq!((tree.source, tree.commit.is_none()), (Source::WorkingTree, true));
    assert_eq!(tree.text("pools/new/kubelet.yaml").map(|t| &**t), Some("kind: new\n"));
    assert_eq!(codes(&tree), Vec::<String>::new());
    assert_eq!(fs::read(folder.path().join(".git/index")).expect("an index"), index, "reading writes nothing");
}

#[test]
fn reads_any_revision() {
    let (folder, repository) = repository(&[("nodecfg.yaml", "a: 1\n")]);
    let first = repository.head().expect("HEAD").peel_to_commit().expect("a commit");
    repository.tag_lightweight("v1", first.as_object(), false).expect("tagged");
    let who = Signature::now("Test", "test@example.com").expect("a signature");
    repository.tag("v1-annotated", first.as_object(), &who, "words", false).expect("tagged");
    write(folder.path(), "nodecfg.yaml", "a: 2\n");
    let second = commit(&repository);
    for (revision, text) in [
        ("HEAD", "a: 2\n"),
        ("HEAD~1", "a: 1\n"),
        ("v1", "a: 1\n"),
        ("v1-annotated", "a: 1\n"),
        (&second[..10], "a: 2\n"),
        (&second, "a: 2\n"),
    ] {
        let snapshot = read(folder.path(), Some(revision), false).expect("reads");
        assert_eq!(snapshot.text("nodecfg.yaml").map(|t| &**t), Some(text), "{revision}");
    }
    for unknown in ["nope", "HEAD~7", "v1..HEAD", "", "--all", "HEAD:nodecfg.yaml", "\0"] {
        let message = error(folder.path(), Some(unknown));
        assert!(message.starts_with("the git repository REPO has no revision"), "{message}");
        assert!(message.contains("v1, v1-annotated, and any") || message.contains("v1, v1-annotated"), "{message}");
    }
}

#[test]
fn reads_a_subfolder_as_root() {
    let (folder, _) =
        repository(&[("prod/nodecfg.yaml", "a: 1\n"), ("prod/pools/x/kubelet.yaml", KUBELET), ("nodecfg.yaml", "")]);
    let prod = folder.path().join("prod");
    assert_eq!(names(&read(&prod, None, false).expect("reads")), ["nodecfg.yaml", "pools/x/kubelet.yaml"]);
    assert_eq!(names(&read(&prod, None, true).expect("reads")), ["nodecfg.yaml", "pools/x/kubelet.yaml"]);
    let fresh = folder.path().join("fresh");
    write(&fresh, "nodecfg.yaml", "");
    let message = error(&fresh, None);
    assert!(
        message.starts_with("revision HEAD (") && message.contains("has no folder \"fresh\"; commit it"),
        "{message}"
    );
    write(folder.path(), "file", "");
    let message = error(&folder.path().join("file"), None);
    assert_eq!(message, "REPO is not a folder; specify the folder that contains nodecfg.yaml or pools/");
}

#[test]
fn reads_folders_outside_of_git() {
    let folder = TempDir::new().expect("a folder");
    write(folder.path(), "pools/x/kubelet.yaml", KUBELET);
    write(folder.path(), ".hidden/x.yaml", KUBELET);
    for worktree in [false, true] {
        let snapshot = read(folder.path(), None, worktree).expect("reads");
        assert_eq!(names(&snapshot), ["pools/x/kubelet.yaml"]);
        assert_eq!(codes(&snapshot), ["not-in-git"]);
        assert_eq!(snapshot.source, Source::Folder);
    }
    assert!(error(folder.path(), Some("main")).contains("omit --rev"));
    assert!(error(&folder.path().join("missing"), None).starts_with("cannot read REPO: "));
    let both = read(folder.path(), Some("main"), true).expect_err("both").to_string();
    assert!(both.contains("both revision"), "{both}");
}

#[test]
fn reads_bare_and_empty_repositories() {
    let (folder, _) = repository(&[("nodecfg.yaml", "a: 1\n")]);
    let bare = TempDir::new().expect("a folder");
    git2::build::RepoBuilder::new()
        .bare(true)
        .clone(folder.path().to_str().expect("a path"), bare.path())
        .expect("cloned");
    assert_eq!(names(&read(bare.path(), None, false).expect("reads")), ["nodecfg.yaml"]);
    let (empty, _) = repository(&[]);
    assert!(error(empty.path(), None).contains("has no commits on its current branch"));
    assert!(error(empty.path(), Some("main")).contains("create a commit: the repository has no branches or tags"));
}

/// Adds a bare repository with other content to the files of a checkout, as a commit can.
fn embed(checkout: &Path, folder: &str) {
    let (other, _) = repository(&[("nodecfg.yaml", "a: embedded\n")]);
    let bare = checkout.join(folder);
    git2::build::RepoBuilder::new().bare(true).clone(other.path().to_str().expect("a path"), &bare).expect("cloned");
    // A commit keeps no empty folders.
    write(&bare, "refs/heads/keep", "");
}

#[test]
fn refuses_bare_repositories_inside_a_checkout() {
    let (folder, checkout) = repository(&[("nodecfg.yaml", "a: checkout\n")]);
    embed(folder.path(), "prod");
    write(folder.path(), "prod/pools/x/kubelet.yaml", KUBELET);
    commit(&checkout);
    let clone = TempDir::new().expect("a folder");
    let url = folder.path().to_str().expect("a path");
    git2::build::RepoBuilder::new().clone(url, &clone.path().join("clone")).expect("cloned");
    let cloned = clone.path().join("clone").canonicalize().expect("a folder");
    for named in ["prod", "prod/pools", "prod/objects"] {
        for worktree in [false, true] {
            let error = read(&cloned.join(named), None, worktree).expect_err(named);
            let text = format!("{error}; {}", error.help()).replace(&cloned.display().to_string(), "REPO");
            assert_eq!(
                text,
                "REPO/prod is a bare git repository inside the checkout REPO; nodecfg reads only the checkout; move the bare \
                 repository out of the checkout"
            );
        }
        let options = OpenOptions {
            path: cloned.join(named),
            folder: Folder::default(),
            revision: None,
            worktree: false,
            signers: None,
            checkout: None,
        };
        assert!(history::walk(&options, |_, _| std::ops::ControlFlow::Break(())).is_err(), "{named}");
        assert!(history::known(&options, []).is_err(), "{named}");
    }
    // The checkout itself is read as before, also with the folder as `--path`.
    assert_eq!(names(&read(&cloned, None, false).expect("reads")), ["nodecfg.yaml", "prod/pools/x/kubelet.yaml"]);
    let options = OpenOptions {
        path: cloned,
        folder: Folder::parse("prod").expect("a folder"),
        revision: None,
        worktree: false,
        signers: None,
        checkout: None,
    };
    assert_eq!(names(&open(&options).expect("reads")), ["pools/x/kubelet.yaml"]);
}

#[test]
fn reads_no_configuration_of_an_embedded_repository() {
    let (folder, _) = repository(&[("nodecfg.yaml", "a: checkout\n")]);
    let outside = TempDir::new().expect("a folder");
    let (other, _) = repository(&[("nodecfg.yaml", "a: elsewhere\n")]);
    let elsewhere = other.path().join(".git").display().to_string();
    // Each of these lets an embedded repository name files outside of the checkout.
    for (name, file, text) in [
        ("worktree", "config", format!("[core]\nworktree = {}\n", outside.path().display())),
        ("include", "config", "[include]\npath = /dev/stdin\n".to_owned()),
        ("broken", "config", "[".to_owned()),
        ("alternates", "objects/info/alternates", format!("{elsewhere}/objects\n")),
        ("commondir", "commondir", elsewhere.clone()),
    ] {
        embed(folder.path(), name);
        write(folder.path(), &format!("{name}/{file}"), text);
        assert!(
            error(&folder.path().join(name), None).contains("is a bare git repository inside the checkout"),
            "{name}"
        );
    }
}

#[test]
fn reads_bare_repositories_outside_of_a_checkout() {
    let outer = TempDir::new().expect("a folder");
    embed(outer.path(), "mirror.git");
    let text = |path: &Path| read(path, None, false).expect("reads").text("nodecfg.yaml").map(|text| text.to_string());
    assert_eq!(text(&outer.path().join("mirror.git")).as_deref(), Some("a: embedded\n"));
    // A bare repository for linked working trees, with a file `.git` beside it.
    embed(outer.path(), ".bare");
    write(outer.path(), ".git", "gitdir: ./.bare\n");
    let bare = Repository::open(outer.path().join(".bare")).expect("a repository");
    bare.worktree("main", &outer.path().join("main"), None).expect("a working tree");
    for folder in [".bare", "main"] {
        assert_eq!(text(&outer.path().join(folder)).as_deref(), Some("a: embedded\n"), "{folder}");
    }
}

#[test]
fn follows_links_within_the_root_only() {
    let (folder, repository) = repository(&[("conf/base/kubelet.yaml", KUBELET), ("secret.yaml", "a: secret\n")]);
    let root = folder.path().join("conf");
    fs::create_dir_all(root.join("pools/x")).expect("created");
    symlink("../../base/kubelet.yaml", root.join("pools/x/kubelet.yaml")).expect("linked");
    symlink("x", root.join("pools/y")).expect("linked");
    symlink("../secret.yaml", root.join("out.yaml")).expect("linked");
    symlink("/etc/hostname", root.join("absolute.yaml")).expect("linked");
    symlink("loop.yaml", root.join("loop.yaml")).expect("linked");
    symlink("..", root.join("pools/up")).expect("linked");
    commit(&repository);
    for worktree in [false, true] {
        let snapshot = read(&root, None, worktree).expect("reads");
        for path in ["pools/x/kubelet.yaml", "pools/y/kubelet.yaml"] {
            assert_eq!(snapshot.text(path).map(|t| &**t), Some(KUBELET), "{path} {worktree}");
        }
        assert_eq!(
            codes(&snapshot),
            ["absolute.yaml: bad-link", "loop.yaml: bad-link", "out.yaml: bad-link", "pools/up: bad-link"],
            "{worktree}"
        );
        let text = format!("{snapshot:?}");
        assert!(!text.contains("a: secret"));
    }
}

#[test]
fn unreadable_files_are_findings() {
    let (folder, repository) = repository(&[("nodecfg.yaml", "")]);
    write(folder.path(), "pools/x/latin.yaml", b"a: 1\nb: \xe9\n");
    write(folder.path(), "pools/x/large.yaml", "#".repeat(1024 * 1024 + 1));
    write(folder.path(), "pools/x/limit.yaml", "#".repeat(1024 * 1024));
    write(folder.path(), "pools/x/utf16.yaml", b"\xff\xfea\0");
    commit(&repository);
    for worktree in [false, true] {
        let snapshot = read(folder.path(), None, worktree).expect("reads");
        assert_eq!(
            codes(&snapshot),
            ["pools/x/large.yaml: file-too-large", "pools/x/latin.yaml: not-utf-8", "pools/x/utf16.yaml: not-utf-8"]
        );
        assert!(format!("{:?}", snapshot.files["pools/x/latin.yaml"]).contains("on line 2"));
    }
}

#[test]
fn submodules_are_findings() {
    let (folder, repository) = repository(&[("nodecfg.yaml", "")]);
    let inner = Repository::init(folder.path().join("pools/sub")).expect("a repository");
    write(folder.path(), "pools/sub/kubelet.yaml", KUBELET);
    commit(&inner);
    let mut index = repository.index().expect("an index");
    index.add_path(Path::new("pools/sub")).expect("added");
    index.write().expect("written");
    commit(&repository);
    for worktree in [false, true] {
        let snapshot = read(folder.path(), None, worktree).expect("reads");
        assert_eq!(codes(&snapshot), ["pools/sub: submodule"], "{worktree}");
        let built = nodecfg_fleet::build(&snapshot, &nodecfg_fleet::Checks::default());
        assert!(built.desired.is_none());
        assert!(built.findings.iter().any(|finding| finding.code == "submodule"), "{:?}", built.findings);
    }
}

#[test]
fn skips_ignored_files_of_a_working_tree() {
    let (folder, _) = repository(&[("nodecfg.yaml", ""), (".gitignore", "out/\n")]);
    write(folder.path(), "out/x.yaml", "");
    assert_eq!(names(&read(folder.path(), None, true).expect("reads")), ["nodecfg.yaml"]);
    assert_eq!(names(&read(&folder.path().join("out"), None, true).expect("reads")), ["x.yaml"]);
}

/// `git add --force`: a sync reads the file from the commit, so a review of the folder must read it, too.
#[test]
fn reads_tracked_files_in_spite_of_a_rule() {
    let (folder, git) = repository(&[("nodecfg.yaml", ""), (".gitignore", "out/\n*.json\n")]);
    let mut index = git.index().expect("an index");
    for path in ["out/a.yaml", "b.json"] {
        write(folder.path(), path, "");
        index.add_path(Path::new(path)).expect("added");
    }
    index.write().expect("written");
    write(folder.path(), "out/x.yaml", "");
    assert_eq!(names(&read(folder.path(), None, true).expect("reads")), ["b.json", "nodecfg.yaml", "out/a.yaml"]);
}
