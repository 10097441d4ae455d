//! Repositories for the test servers. Every commit has one pool, whose name identifies the commit.

use std::path::{Path, PathBuf};

use git2::{IndexAddOption, Oid, Repository, Signature};

/// A repository with its files.
pub struct Origin {
    pub folder: PathBuf,
    repository: Repository,
}

impl Origin {
    /// Creates one commit on branch main with the pool `first`.
    pub fn new(folder: &Path) -> Self {
        let mut options = git2::RepositoryInitOptions::new();
        let repository = Repository::init_opts(folder, options.initial_head("main")).unwrap();
        let origin = Self { folder: folder.to_owned(), repository };
        origin.pool("first");
        origin
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Commits the files in the folder.
    pub fn commit(&self) -> Oid {
        let mut index = self.repository.index().unwrap();
        index.clear().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        index.write().unwrap();
        let tree = self.repository.find_tree(index.write_tree().unwrap()).unwrap();
        self.commit_tree(tree.id())
    }

    /// Commits a tree on the current branch.
    pub fn commit_tree(&self, tree: Oid) -> Oid {
        let who = Signature::now("Test", "test@example.com").unwrap();
        let tree = self.repository.find_tree(tree).unwrap();
        let parent = self.repository.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        self.repository.commit(Some("HEAD"), &who, &who, "test", &tree, &parents).unwrap()
    }

    /// Commits this pool as the only one.
    pub fn pool(&self, name: &str) -> Oid {
        let _ = std::fs::remove_dir_all(self.folder.join("pools"));
        self.write_pool("", name);
        self.commit()
    }

    /// Writes a pool below a folder.
    pub fn write_pool(&self, below: &str, name: &str) {
        self.write(
            &format!("{below}nodecfg.yaml"),
            "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata:\n  name: test\n",
        );
        let text = format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata:\n  name: {name}\nspec:\n  \
             nodeSelector:\n    matchLabels:\n      pool: {name}\n"
        );
        self.write(&format!("{below}pools/{name}/pool.yaml"), &text);
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 50\n";
        self.write(&format!("{below}pools/{name}/kubelet.yaml"), text);
    }

    pub fn git(&self) -> &Repository {
        &self.repository
    }

    /// Sets a branch to a commit.
    pub fn branch(&self, name: &str, id: Oid) {
        self.repository.reference(&format!("refs/heads/{name}"), id, true, "test").unwrap();
    }

    pub fn tag(&self, name: &str, id: Oid, annotated: bool) {
        let object = self.repository.find_object(id, None).unwrap();
        let who = Signature::now("Test", "test@example.com").unwrap();
        if annotated {
            self.repository.tag(name, &object, &who, "words", true).unwrap();
        } else {
            self.repository.tag_lightweight(name, &object, true).unwrap();
        }
    }
}
