//! Repositories around a path. A path in one is opened without leaving it, because the author of a pull request chooses
//! its links. Other paths are those of the user, and opened like the system does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::LinkError;
use super::confined::Confined;
use super::error::OpenError;
use nodecfg_fleet::{FLEET_FILE, POOLS_FOLDER};

/// The repositories around paths, each folder examined once.
#[derive(Debug, Default)]
pub struct Enclosing {
    /// Folders that count as repositories without the files of one.
    given: BTreeSet<PathBuf>,
    marks: BTreeMap<PathBuf, Marks>,
}

/// What the files of a folder show.
#[derive(Debug, Clone, Copy)]
struct Marks {
    /// It is the top of a git repository.
    is_top: bool,
    /// It has a `nodecfg.yaml`, or a pool under `pools/`.
    is_root: bool,
}

impl Marks {
    /// Reports whether the folder is a repository of either kind.
    fn is_repository(self) -> bool {
        self.is_root || self.is_top
    }
}

impl Enclosing {
    /// Counts these absolute folders as repositories, too.
    #[must_use]
    pub fn with(given: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { given: given.into_iter().collect(), marks: BTreeMap::new() }
    }

    /// Opens a file. Within a repository, refuses links that leave it, and what is no regular file.
    ///
    /// # Errors
    /// The path is refused, or the system cannot open it.
    pub fn file(&mut self, path: &Path) -> Result<File, OpenError> {
        match self.around(path)? {
            Some((repository, below)) => repository.file(&below),
            None => Ok(File::open(path)?),
        }
    }

    /// The path of a folder without links. Within a repository, refuses links that leave it.
    ///
    /// # Errors
    /// The path is refused or no folder, or the system cannot open it.
    pub fn folder(&mut self, path: &Path) -> Result<PathBuf, OpenError> {
        if let Some((repository, below)) = self.around(path)? {
            return Ok(repository.folder(&below)?.path().to_owned());
        }
        let path = path.canonicalize()?;
        if path.is_dir() { Ok(path) } else { Err(OpenError::NotAFolder) }
    }

    /// The path of a file to write. Within a repository, refuses to write through links, and out of it.
    ///
    /// # Errors
    /// The path is refused, or its folder is missing.
    pub fn new_file(&mut self, path: &Path) -> Result<PathBuf, OpenError> {
        let Some((repository, below)) = self.around(path)? else { return Ok(path.to_owned()) };
        let name = below.file_name().ok_or(OpenError::Folder)?;
        let path = repository.folder(below.parent().unwrap_or(Path::new("")))?.path().join(name);
        match path.read_link() {
            Ok(target) => {
                let target = target.to_string_lossy().into_owned();
                Err(OpenError::Link { target, problem: LinkError::Written })
            }
            Err(_) => Ok(path),
        }
    }

    /// The repository of nodecfg around an existing path, and the path from there. `None` for a repository itself, and
    /// for a path outside of repositories.
    pub fn repository(&mut self, path: &Path) -> Option<(PathBuf, String)> {
        let absolute = cleaned(path).ok()?;
        if !absolute.exists() || (absolute.is_dir() && self.marks(&absolute).is_repository()) {
            return None;
        }
        let root = self.nearest(absolute.parent()?)?;
        let below = absolute.strip_prefix(&root).ok()?.to_str()?.to_owned();
        Some((root, below))
    }

    /// The folder that the entries of a list of files must not leave: the top of the git repository around `folder`,
    /// else the repository of nodecfg around it, else itself. It counts as a repository from now on.
    pub fn confine_list(&mut self, folder: &Path) -> PathBuf {
        let top = folder.ancestors().find(|above| self.marks(above).is_top).map(Path::to_owned);
        let root = top.or_else(|| self.nearest(folder)).unwrap_or_else(|| folder.to_owned());
        self.given.insert(root.clone());
        root
    }

    /// The nearest repository of nodecfg at or above a folder, within the folder's git repository. Links to a folder
    /// elsewhere make none.
    fn nearest(&mut self, folder: &Path) -> Option<PathBuf> {
        for above in folder.ancestors() {
            let marks = self.marks(above);
            if marks.is_repository() && !matches!(self.folder(above), Err(OpenError::Link { .. })) {
                return marks.is_root.then(|| above.to_owned());
            }
        }
        None
    }

    /// The open innermost repository around a path, and the path from there. Each repository is opened without leaving
    /// the one around it: a folder may look like a repository only because a link leads to one.
    fn around(&mut self, path: &Path) -> Result<Option<(Confined, PathBuf)>, OpenError> {
        let path = cleaned(path)?;
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|folder| self.is_boundary(folder)).collect();
        let mut inner: Option<(Confined, &Path)> = None;
        for folder in above.into_iter().rev() {
            let repository = match &inner {
                Some((outer, at)) => outer.folder(folder.strip_prefix(at).unwrap_or(folder))?,
                None => Confined::at(folder)?,
            };
            inner = Some((repository, folder));
        }
        Ok(inner.map(|(repository, at)| (repository, path.strip_prefix(at).unwrap_or(&path).to_owned())))
    }

    /// Reports whether paths below a folder must not leave it. Nothing leaves the root of the file system.
    fn is_boundary(&mut self, folder: &Path) -> bool {
        let marks = self.marks(folder);
        folder.parent().is_some() && (marks.is_repository() || self.given.contains(folder))
    }

    fn marks(&mut self, folder: &Path) -> Marks {
        if let Some(marks) = self.marks.get(folder) {
            return *marks;
        }
        let is_pool = |folder: &Path| ["kubelet.yaml", "pool.yaml"].iter().any(|name| folder.join(name).is_file());
        let has_pool = || {
            let entries = std::fs::read_dir(folder.join(POOLS_FOLDER));
            entries.is_ok_and(|entries| entries.flatten().any(|entry| is_pool(&entry.path())))
        };
        let is_root = folder.join(FLEET_FILE).is_file() || has_pool();
        let marks = Marks { is_top: folder.join(".git").exists(), is_root };
        self.marks.insert(folder.to_owned(), marks);
        marks
    }
}

/// The absolute path without `.` and `..`, by its names alone.
///
/// # Errors
/// The path is empty, or the current folder is unknown.
pub fn cleaned(path: &Path) -> io::Result<PathBuf> {
    let mut clean = PathBuf::new();
    for part in std::path::absolute(path)?.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            part => clean.push(part),
        }
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with these files.
    fn folder(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        let root = folder.path().canonicalize().unwrap();
        (folder, root)
    }

    #[test]
    fn finds_the_repository_within_its_git_repository() {
        let (_folder, root) = folder(&[
            "nodecfg.yaml",
            "other/.git/HEAD",
            "other/a.yaml",
            "fleet/pools/a/kubelet.yaml",
            "fleet/base/b.yaml",
            "c/d.yaml",
        ]);
        let around = |path: &str| Enclosing::default().repository(&root.join(path));
        assert_eq!(around("fleet/base/b.yaml"), Some((root.join("fleet"), "base/b.yaml".to_owned())));
        assert_eq!(around("fleet/pools/a/"), Some((root.join("fleet"), "pools/a".to_owned())));
        assert_eq!(around("c/d.yaml"), Some((root.clone(), "c/d.yaml".to_owned())));
        assert_eq!(around("other/a.yaml"), None, "another git repository");
        assert_eq!((around("fleet"), around("other"), around("fleet/pools/a/missing.yaml")), (None, None, None));
    }

    #[test]
    fn opens_what_a_repository_contains_and_what_a_user_names() {
        let (_folder, root) =
            folder(&["repo/.git/HEAD", "repo/a.yaml", "repo/sub/nodecfg.yaml", "other/.git/HEAD", "other/o.yaml"]);
        for (target, link) in [
            ("../other", "repo/linked"),
            ("../other/o.yaml", "repo/out.yaml"),
            ("../a.yaml", "repo/sub/up.yaml"),
            ("sub", "repo/in"),
            ("other/o.yaml", "free.yaml"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let mut enclosing = Enclosing::default();
        let mut read = |path: &str| match enclosing.file(&root.join(path)) {
            Ok(mut file) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map(|_| text).unwrap()
            }
            Err(error) => error.to_string().chars().take(30).collect(),
        };
        let refused = "leads through a symbolic link ";
        for (path, found) in [
            ("repo/a.yaml", "repo/a.yaml"),
            ("repo/in/nodecfg.yaml", "repo/sub/nodecfg.yaml"),
            ("free.yaml", "other/o.yaml"),
            ("repo/../other/o.yaml", "other/o.yaml"),
            ("repo/out.yaml", refused),
            // The target is a repository, but not one around the path.
            ("repo/linked/o.yaml", refused),
            ("repo/sub/up.yaml", refused),
        ] {
            assert_eq!(read(path), found, "{path}");
        }
        assert!(matches!(enclosing.folder(&root.join("repo/linked")), Err(OpenError::Link { .. })));
        assert_eq!(enclosing.folder(&root.join("repo/in")).unwrap(), root.join("repo/sub"));
        symlink("/etc", root.join("etc")).unwrap();
        assert!(enclosing.file(&root.join("etc/hostname")).is_ok(), "a link outside of repositories");
        assert_eq!(enclosing.confine_list(&root.join("repo/sub")), root.join("repo"));
        assert_eq!(enclosing.confine_list(&root), root);
        assert!(matches!(enclosing.file(&root.join("etc/hostname")), Err(OpenError::Link { .. })));
    }
}
