//! Configuration repositories for the tests.

use std::fs;
use std::path::Path;

use git2::{IndexAddOption, Repository, Signature, Time};

/// A temporary folder, deleted on drop.
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Creates a folder with these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    /// Creates a git repository with one commit, whose id depends only on the files.
    pub fn committed(files: &[(&str, &str)]) -> Self {
        let folder = Self::with(files);
        Repository::init(folder.path()).unwrap();
        folder.commit();
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.path().join(path)).unwrap();
    }

    /// Commits everything.
    pub fn commit(&self) {
        let repository = Repository::open(self.path()).unwrap();
        let mut index = repository.index().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        index.update_all(["*"], None).unwrap();
        index.write().unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::new("somebody", "somebody@example.com", &Time::new(0, 0)).unwrap();
        let parent = repository.head().ok().map(|head| head.peel_to_commit().unwrap());
        let parents: Vec<_> = parent.iter().collect();
        repository.commit(Some("HEAD"), &who, &who, "change", &tree, &parents).unwrap();
    }
}

pub const FLEET: &str = "\
apiVersion: nodecfg.dev/v1alpha1
kind: Fleet
metadata: {name: prod}
";

pub const POOL: &str = "\
apiVersion: nodecfg.dev/v1alpha1
kind: NodePool
metadata: {name: gpu}
spec:
  rollout:
    maxUnavailable: 1
    canary: {nodes: 1, soak: 1s}
    convergenceTimeout: 2m
";

pub const KUBELET: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 32
evictionHard:
  memory.available: 1Gi
authentication:
  x509:
    clientCAFile: /etc/kubernetes/pki/certificate-authorities/kubelet-clients.crt
";

/// One pool, `gpu`, of the fleet `prod`.
pub fn gpu() -> Folder {
    Folder::committed(&[("nodecfg.yaml", FLEET), ("pools/gpu/pool.yaml", POOL), ("pools/gpu/kubelet.yaml", KUBELET)])
}

/// A second pool whose configuration has many lines.
pub fn gpu_and_general() -> Folder {
    let folder = gpu();
    let many: String = (0..30).map(|number| format!("  X-Registry-{number:02}: [example.com]\n")).collect();
    folder.write(
        "pools/general/kubelet.yaml",
        &format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodURLHeader:\n{many}"),
    );
    folder.commit();
    folder
}
