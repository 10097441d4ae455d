//! Scratch environment of a document: folder, home, cluster and `PATH`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::docs::document::{Cluster, Setting};
use crate::docs::session::{end, wait_for};
use crate::docs::{root, stand_ins};

/// The built program.
const NODECFG: &str = env!("CARGO_BIN_EXE_nodecfg");

/// Local repositories, and the addresses that git redirects to them (`url.<base>.insteadOf`).
const SERVERS: &[(&str, &[&str])] = &[
    (
        "origin.git",
        &[
            "https://git.example.com/platform/fleet.git",
            "git@git.example.com:platform/fleet.git",
            "file:///srv/git/fleet.git",
        ],
    ),
    ("infrastructure.git", &["ssh://git@git.example.com:2222/platform/infrastructure.git"]),
];

/// A temporary environment, deleted on drop.
pub struct Scratch {
    home: tempfile::TempDir,
    cluster: Option<Child>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            end(cluster);
        }
    }
}

impl Scratch {
    pub fn prepare(setting: Setting, cluster: Cluster) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut scratch = Self { home, cluster: None };
        for folder in ["home", "bin", "tmp"] {
            fs::create_dir(scratch.path_of(folder)).unwrap();
        }
        fs::write(scratch.path_of("home/.gitconfig"), scratch.gitconfig()).unwrap();
        symlink(NODECFG, scratch.path_of("bin/nodecfg")).unwrap();
        stand_ins::write(&scratch.path_of("bin"));
        match setting {
            Setting::Repository => scratch.repository(),
            Setting::Clone => scratch.clone_project(),
        }
        if let Cluster::Version(version) = cluster {
            scratch.serve(version);
        }
        scratch
    }

    /// A path in the environment.
    pub fn path_of(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    /// The current folder of blocks.
    pub fn folder(&self) -> PathBuf {
        self.path_of("work")
    }

    /// A .gitconfig that redirects addresses of git servers to local repositories.
    fn gitconfig(&self) -> String {
        let mut text =
            "[user]\n  name = A. Reader\n  email = reader@example.com\n[init]\n  defaultBranch = main\n".to_owned();
        for (repository, addresses) in SERVERS {
            let _ = writeln!(text, "[url \"file://{}\"]", self.path_of(repository).display());
            for address in *addresses {
                let _ = writeln!(text, "  insteadOf = {address}");
            }
        }
        text
    }

    fn repository(&self) {
        let folder = self.folder();
        copy(&root().join("examples/repo-layout"), &folder, &|_| true);
        let edge = folder.join("pools/edge/small.yaml");
        let now = fs::read_to_string(&edge).unwrap();
        let first = now.replace("registryPullQPS: 2", "registryPullQPS: 1");
        assert_ne!(now, first, "the example has changed: its first revision must differ from the second");
        fs::write(&edge, first).unwrap();
        self.git(&["init", "--quiet"]);
        self.commit("Configurations of three pools");
        self.git(&["tag", "v1.0.0"]);
        fs::write(&edge, now).unwrap();
        self.commit("More image pulls on the machines at the edge");
        let origin = self.path_of("origin.git");
        let origin = origin.to_str().unwrap();
        self.git(&["init", "--quiet", "--bare", origin]);
        self.git(&["remote", "add", "origin", origin]);
        self.git(&["push", "--quiet", "--tags", "--set-upstream", "origin", "main"]);
        // A second repository contains the same files in a subfolder.
        let beside = self.path_of("beside");
        copy(&folder, &beside.join("clusters/prod"), &|path| path != Path::new(".git"));
        let infrastructure = self.path_of("infrastructure.git");
        let (beside, infrastructure) = (beside.to_str().unwrap(), infrastructure.to_str().unwrap());
        self.git(&["init", "--quiet", "--bare", infrastructure]);
        self.git(&["init", "--quiet", beside]);
        self.git(&["-C", beside, "add", "--all"]);
        self.git(&["-C", beside, "commit", "--quiet", "--message", "All that there is"]);
        self.git(&["-C", beside, "push", "--quiet", infrastructure, "main"]);
    }

    fn clone_project(&self) {
        let folder = self.folder();
        let part = |path: &Path| ![".git", "target", "fuzz/corpus"].iter().any(|other| path == Path::new(other));
        copy(&root(), &folder, &part);
        // The checks would run this test again.
        stand_ins::executable(&folder.join(".ci/run"), "#!/usr/bin/env bash\n");
        fs::create_dir_all(folder.join("target/debug")).unwrap();
        symlink(NODECFG, folder.join("target/debug/nodecfg")).unwrap();
        self.git(&["init", "--quiet"]);
        self.commit("As it is");
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    fn git(&self, arguments: &[&str]) {
        let run = self.command("git").args(arguments).output().unwrap();
        assert!(run.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    }

    /// Serves a cluster that matches the example repository.
    fn serve(&mut self, version: &str) {
        let kubeconfig = self.path_of("home/kubeconfig");
        let example = root().join("examples/repo-layout");
        let log = fs::File::create(self.path_of("cluster.log")).unwrap();
        // At a higher speed, kubelets on a busy machine would seem unresponsive.
        let child = self
            .command(NODECFG)
            .args(["sandbox", "--nodes", "4", "--speed", "5", "--kubernetes-version", version, "--repo"])
            .arg(example)
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let child = self.cluster.insert(child);
        wait_for(&kubeconfig, child).unwrap_or_else(|error| panic!("the cluster: {error}"));
    }

    /// A command in the folder with a clean environment, except for the `PATH`.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap();
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path_of("bin").display()))
            .env("HOME", self.path_of("home"))
            .env("TMPDIR", self.path_of("tmp"))
            .env("KUBECONFIG", self.path_of("home/kubeconfig"))
            .env("LANG", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.folder_or_home())
            .stdin(Stdio::null())
            // Its own process group, so that signals do not reach this process.
            .process_group(0);
        command
    }

    fn folder_or_home(&self) -> PathBuf {
        let folder = self.folder();
        if folder.is_dir() { folder } else { self.path_of("home") }
    }
}

/// Copies the entries of a folder for which `part` returns true. Symbolic links are kept.
fn copy(from: &Path, to: &Path, part: &dyn Fn(&Path) -> bool) {
    let entries = walkdir::WalkDir::new(from)
        .into_iter()
        .filter_entry(|entry| part(entry.path().strip_prefix(from).unwrap()))
        .map(|entry| entry.expect("readable"));
    for entry in entries {
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        let kind = entry.file_type();
        if kind.is_dir() {
            fs::create_dir_all(target).unwrap();
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
