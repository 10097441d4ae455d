//! Git workspaces as actions/checkout creates them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const KUBELET: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 32
";

/// A checkout of a configuration repository.
pub struct Workspace {
    folder: tempfile::TempDir,
    at: PathBuf,
}

fn git(folder: &Path, arguments: &[&str]) {
    let who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false"];
    let output = Command::new("git")
        .args(who)
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn commit(folder: &Path, message: &str) {
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--allow-empty", "--message", message]);
}

impl Workspace {
    /// Creates a workspace with one commit of these files.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("fleet");
        fs::create_dir(&at).unwrap();
        git(&at, &["init", "--quiet"]);
        write(&at, files);
        commit(&at, "base");
        Self { folder, at }
    }

    /// Adds the merge commit of a pull request that changes these files, like refs/pull/7/merge.
    pub fn merging(self, files: &[(&str, &str)]) -> Self {
        git(&self.at, &["checkout", "--quiet", "-b", "change"]);
        write(&self.at, files);
        commit(&self.at, "change");
        git(&self.at, &["checkout", "--quiet", "--detach", "main"]);
        git(&self.at, &["merge", "--quiet", "--no-ff", "--message", "merge", "change"]);
        self
    }

    /// Fetches the same commit with this depth.
    pub fn fetched(mut self, depth: u32) -> Self {
        let url = format!("file://{}", self.at.display());
        git(&self.at, &["branch", "--quiet", "--force", "fetched", "HEAD"]);
        self.at = self.folder.path().join("shallow");
        let depth = format!("--depth={depth}");
        git(self.folder.path(), &["clone", "--quiet", &depth, "--branch=fetched", &url, "shallow"]);
        self
    }

    /// Adds another commit with these files.
    pub fn then(self, files: &[(&str, &str)]) -> Self {
        write(&self.at, files);
        commit(&self.at, "then");
        self
    }

    /// Checkout of `ref: ${{ github.event.pull_request.head.sha }}` after the branch merged main: the author's commit
    /// with two parents.
    pub fn branch_that_merged_main(files: &[(&str, &str)], harmful: &[(&str, &str)]) -> Self {
        let workspace = Self::of(files);
        let at = &workspace.at;
        git(at, &["checkout", "--quiet", "-b", "change"]);
        write(at, harmful);
        commit(at, "change");
        git(at, &["checkout", "--quiet", "main"]);
        commit(at, "meanwhile");
        git(at, &["checkout", "--quiet", "change"]);
        git(at, &["merge", "--quiet", "--no-ff", "--message", "Merge main", "main"]);
        workspace
    }

    /// Clones all branches, like `fetch-depth: 0`, and checks out this revision.
    pub fn cloned(&self, revision: &str) -> PathBuf {
        let to = self.folder.path().join("clone");
        drop(fs::remove_dir_all(&to));
        git(self.folder.path(), &["clone", "--quiet", &format!("file://{}", self.at.display()), "clone"]);
        git(&to, &["checkout", "--quiet", "--detach", revision]);
        to
    }

    /// IDs of the checked-out commit and its parents, also of those that a shallow checkout lacks.
    pub fn commits(&self) -> Vec<String> {
        let repository = git2::Repository::open(&self.at).unwrap();
        let commit = repository.head().unwrap().peel_to_commit().unwrap();
        let header = String::from_utf8(commit.raw_header_bytes().to_vec()).unwrap();
        let parents = header.lines().filter_map(|line| line.strip_prefix("parent ")).map(str::to_owned);
        [commit.id().to_string()].into_iter().chain(parents).collect()
    }

    pub fn path(&self) -> &Path {
        &self.at
    }
}

/// Workspace of pull request 7, which changes one field of one pool.
pub fn changed() -> Workspace {
    Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET), ("pools/web/kubelet.yaml", KUBELET)])
        .merging(&[("pools/gpu/kubelet.yaml", &KUBELET.replace("32", "64"))])
        .fetched(2)
}

/// Workspace whose pull request changes only a file that nodecfg does not read.
pub fn unchanged() -> Workspace {
    Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET)]).merging(&[("README.md", "words")]).fetched(2)
}
