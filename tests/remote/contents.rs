//! What may be in a repository and cannot be used.

use super::program::Site;
use super::server::{Door, Server};

fn served() -> (Site, Server) {
    let mut site = Site::new();
    let server = Server::new(&site, Door::Open);
    site.set("SSL_CERT_FILE", &server.ca);
    (site, server)
}

#[test]
fn a_submodule_and_a_folder_in_one_are_told() {
    let (site, server) = served();
    let id = site.origin.git().head().unwrap().target().unwrap();
    let mut index = site.origin.git().index().unwrap();
    let entry = |path: &str| git2::IndexEntry {
        ctime: git2::IndexTime::new(0, 0),
        mtime: git2::IndexTime::new(0, 0),
        dev: 0,
        ino: 0,
        mode: 0o160_000,
        uid: 0,
        gid: 0,
        file_size: 0,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.as_bytes().to_vec(),
    };
    index.add(&entry("pools/sub")).unwrap();
    index.add(&entry("vendor/config")).unwrap();
    site.origin.commit_tree(index.write_tree().unwrap());
    let run = site.read(&server.url, None);
    assert!(run.exit == 3 && run.out.contains("pools/sub is a git repository of its own"), "{run:?}");
    let run = site.run(&["validate", &server.url, "--path", "vendor/config/prod"]);
    run.refuses(&["\"vendor/config\" is a submodule", "name the repository of the submodule"]);
}

#[test]
fn a_pointer_of_git_lfs_is_told() {
    let (site, server) = served();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n";
    site.origin.write("pools/first/kubelet.yaml", pointer);
    site.origin.commit();
    for address in [server.url.as_str(), "origin"] {
        let run = site.read(address, None);
        assert!(run.exit == 3 && run.out.contains("is a pointer of Git LFS"), "{run:?}");
    }
}

#[test]
fn a_hundred_thousand_files_are_refused_with_one_message() {
    let (site, server) = served();
    let git = site.origin.git();
    let blob = git.blob(b"a: 1\n").unwrap();
    let mut folder = git.treebuilder(None).unwrap();
    for file in 0..1000 {
        folder.insert(format!("{file}.yaml"), blob, 0o100_644).unwrap();
    }
    let folder = folder.write().unwrap();
    let mut root = git.treebuilder(None).unwrap();
    for number in 0..100 {
        root.insert(format!("folder{number}"), folder, 0o040_000).unwrap();
    }
    let wide = root.write().unwrap();
    site.origin.commit_tree(wide);
    let run = site.read(&server.url, None);
    run.refuses(&["holds too much: more than 50000 YAML and JSON files", "--path"]);
    assert_eq!(run.err.matches("holds too much").count(), 1);

    // The same tree in itself, again and again: more folders than anybody can walk, and hardly a byte.
    let mut tree = git.treebuilder(None).unwrap().write().unwrap();
    for _ in 0..20 {
        let mut above = git.treebuilder(None).unwrap();
        for name in ["a", "b", "c", "d"] {
            above.insert(name, tree, 0o040_000).unwrap();
        }
        tree = above.write().unwrap();
    }
    site.origin.commit_tree(tree);
    site.read(&server.url, None).refuses(&["holds too much"]);
}
