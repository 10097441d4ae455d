//! Configuration repository under git in a temporary folder.

use std::fs;
use std::path::Path;

use git2::{IndexAddOption, Signature};
use tempfile::TempDir;

/// Header of every KubeletConfiguration.
pub const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Fields of a pool before a change that needs drained nodes.
pub const BEFORE: &str = "cpuManagerPolicy: none";
/// Fields after this change.
pub const AFTER: &str = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"";

/// A repository, which is deleted when dropped.
pub struct Repository {
    folder: TempDir,
    git: git2::Repository,
}

impl Repository {
    /// Creates a repository without files or commits.
    pub fn empty() -> Self {
        let folder = TempDir::new().unwrap();
        let git = git2::Repository::init(folder.path()).unwrap();
        Self { folder, git }
    }

    /// Creates a repository with fleet `test`, its rollout policy, and pool `a` with these fields.
    pub fn of_pool(fields: &str, rollout: &str) -> Self {
        let repository = Self::empty();
        repository.fleet("test", rollout);
        repository.pool("a", fields);
        repository.commit();
        repository
    }

    /// Writes `nodecfg.yaml` with the fleet's name and the rollout policy as lines or `{…}`.
    pub fn fleet(&self, name: &str, rollout: &str) {
        let rollout = if rollout.is_empty() { "{}" } else { rollout };
        self.write(
            "nodecfg.yaml",
            &format!(
                "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: {name}}}\nspec:\n  rollout: {rollout}\n"
            ),
        );
    }

    /// Writes the configuration of a pool.
    pub fn pool(&self, name: &str, fields: &str) {
        self.write(&format!("pools/{name}/kubelet.yaml"), &format!("{KUBELET}{fields}\n"));
    }

    /// Writes the `pool.yaml` of a pool with `spec` in flow style.
    pub fn pool_spec(&self, name: &str, spec: &str) {
        let text =
            format!("apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {spec}\n");
        self.write(&format!("pools/{name}/pool.yaml"), &text);
    }

    /// Writes a file without a commit.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Removes a file without a commit.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.folder.path().join(path)).unwrap();
    }

    /// Commits all files in the folder and returns the commit's ID.
    pub fn commit(&self) -> String {
        let mut index = self.git.index().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        index.update_all(["*"], None).unwrap();
        index.write().unwrap();
        let tree = self.git.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::now("Test", "test@example.com").unwrap();
        let parent = self.git.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        self.git.commit(Some("HEAD"), &who, &who, "test", &tree, &parents).unwrap().to_string()
    }

    /// Commits a changed pool configuration.
    pub fn change(&self, pool: &str, fields: &str) -> String {
        self.pool(pool, fields);
        self.commit()
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}
