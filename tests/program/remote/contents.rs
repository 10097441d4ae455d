//! Tests of unusable repository contents.

use super::program::TestEnv;
use super::server::{Server, ServerBehavior};

fn start_server() -> (TestEnv, Server) {
    let mut env = TestEnv::new();
    let server = Server::new(&env, ServerBehavior::Public);
    env.set("SSL_CERT_FILE", &server.ca);
    (env, server)
}

#[test]
fn submodules_are_reported() {
    let (env, server) = start_server();
    let id = env.origin.git().head().unwrap().target().unwrap();
    let mut index = env.origin.git().index().unwrap();
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
    env.origin.commit_tree(index.write_tree().unwrap());
    let run = env.read(&server.url, None);
    assert!(run.exit == 3 && run.out.contains("pools/sub is a separate git repository"), "{run:?}");
    let run = env.run(&["validate", &server.url, "--path", "vendor/config/prod"]);
    run.refuses(&["\"vendor/config\" is a submodule", "specify the repository of the submodule"]);
}

#[test]
fn git_lfs_pointer_is_reported() {
    let (env, server) = start_server();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n";
    env.origin.write("pools/first/kubelet.yaml", pointer);
    env.origin.commit();
    for address in [server.url.as_str(), "origin"] {
        let run = env.read(address, None);
        assert!(run.exit == 3 && run.out.contains("is a Git LFS pointer"), "{run:?}");
    }
}

#[test]
fn hundred_thousand_files_are_refused_with_one_message() {
    let (env, server) = start_server();
    let git = env.origin.git();
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
    env.origin.commit_tree(wide);
    let run = env.read(&server.url, None);
    run.refuses(&["is too large: it has more than 50000 YAML and JSON files", "--path"]);
    assert_eq!(run.err.matches("is too large: it has more").count(), 1);

    // The same tree nested in itself: very many folders in few bytes.
    let mut tree = git.treebuilder(None).unwrap().write().unwrap();
    for _ in 0..20 {
        let mut above = git.treebuilder(None).unwrap();
        for name in ["a", "b", "c", "d"] {
            above.insert(name, tree, 0o040_000).unwrap();
        }
        tree = above.write().unwrap();
    }
    env.origin.commit_tree(tree);
    env.read(&server.url, None).refuses(&["is too large: it has more"]);
}
