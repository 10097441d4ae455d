//! What a document begins with: its folder, its home, its cluster and its `PATH`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::document::{Cluster, Setting};
use crate::session::{end, wait_for};
use crate::{root, stand_ins};

/// The built program.
const NODECFG: &str = env!("CARGO_BIN_EXE_nodecfg");

/// Repositories beside the folder, and the addresses that git is told to reach them by (`url.<base>.insteadOf`).
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

/// A folder to run blocks in. Everything in it ends with it.
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
            fs::create_dir(scratch.place(folder)).unwrap();
        }
        fs::write(scratch.place("home/.gitconfig"), scratch.gitconfig()).unwrap();
        symlink(NODECFG, scratch.place("bin/nodecfg")).unwrap();
        stand_ins::write(&scratch.place("bin"));
        match setting {
            Setting::Repository => scratch.repository(),
            Setting::Clone => scratch.clone_of_the_project(),
        }
        if let Cluster::Like(version) = cluster {
            scratch.serve(version);
        }
        scratch
    }

    /// A place beside the folder that blocks run in.
    pub fn place(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    /// The folder that blocks run in.
    pub fn folder(&self) -> PathBuf {
        self.place("work")
    }

    /// With the addresses of git servers that documents name, which lead to repositories here.
    fn gitconfig(&self) -> String {
        let mut text =
            "[user]\n  name = A. Reader\n  email = reader@example.com\n[init]\n  defaultBranch = main\n".to_owned();
        for (repository, addresses) in SERVERS {
            let _ = writeln!(text, "[url \"file://{}\"]", self.place(repository).display());
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
        let first = now.replace("maxPods: 30", "maxPods: 20");
        assert_ne!(now, first, "the example has changed: its first revision must differ from the second");
        fs::write(&edge, first).unwrap();
        self.git(&["init", "--quiet"]);
        self.commit("Configurations of three pools");
        self.git(&["tag", "v1.0.0"]);
        fs::write(&edge, now).unwrap();
        self.commit("Thirty pods on the machines at the edge");
        let origin = self.place("origin.git");
        let origin = origin.to_str().unwrap();
        self.git(&["init", "--quiet", "--bare", origin]);
        self.git(&["remote", "add", "origin", origin]);
        self.git(&["push", "--quiet", "--tags", "--set-upstream", "origin", "main"]);
        // Another has the same in a folder.
        let beside = self.place("beside");
        copy(&folder, &beside.join("clusters/prod"), &|path| path != Path::new(".git"));
        let infrastructure = self.place("infrastructure.git");
        let (beside, infrastructure) = (beside.to_str().unwrap(), infrastructure.to_str().unwrap());
        self.git(&["init", "--quiet", "--bare", infrastructure]);
        self.git(&["init", "--quiet", beside]);
        self.git(&["-C", beside, "add", "--all"]);
        self.git(&["-C", beside, "commit", "--quiet", "--message", "All that there is"]);
        self.git(&["-C", beside, "push", "--quiet", infrastructure, "main"]);
    }

    fn clone_of_the_project(&self) {
        let folder = self.folder();
        let part = |path: &Path| ![".git", "target", "fuzz/corpus"].iter().any(|other| path == Path::new(other));
        copy(&root(), &folder, &part);
        // The checks run the tests, and this is one.
        stand_ins::executable(&folder.join(".ci/run"), "#!/usr/bin/env bash\n");
        fs::create_dir_all(folder.join("target/release")).unwrap();
        symlink(NODECFG, folder.join("target/release/nodecfg")).unwrap();
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

    /// Serves a cluster that fits the example repository.
    fn serve(&mut self, version: &str) {
        let kubeconfig = self.place("home/kubeconfig");
        let example = root().join("examples/repo-layout");
        let log = fs::File::create(self.place("cluster.log")).unwrap();
        // Faster, and a busy machine would look like kubelets that hang.
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

    /// A program in the folder, with nothing of this machine around it but its programs.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap();
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", self.place("bin").display()))
            .env("HOME", self.place("home"))
            .env("TMPDIR", self.place("tmp"))
            .env("KUBECONFIG", self.place("home/kubeconfig"))
            .env("LANG", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.folder_or_home())
            .stdin(Stdio::null())
            // Its signals are its own.
            .process_group(0);
        command
    }

    fn folder_or_home(&self) -> PathBuf {
        let folder = self.folder();
        if folder.is_dir() { folder } else { self.place("home") }
    }
}

/// Copies what `part` says of a folder; links stay links.
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
