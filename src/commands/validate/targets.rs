//! What to check: whole repositories, parts of them, and single files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::arguments::repository::RepositoryArgs;
use crate::repository::{Enclosing, OpenError, cleaned};
use crate::terminal::failure::CommandError;
use kubelet_config::finding::nearest;
use nodecfg_fleet::snapshot::text::is_candidate;

/// The number of names to compare with that of a missing file.
const MAX_SIBLINGS: usize = 1000;

/// One thing to check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A folder or an address.
    Repository(PathBuf),
    /// Files and folders within a repository.
    Part {
        /// The folder of the repository, absolute.
        root: PathBuf,
        /// Paths from the root, each with the path as given.
        paths: BTreeMap<String, PathBuf>,
    },
    /// A file outside of repositories, or standard input.
    File(PathBuf),
    /// A path in a list of files that leaves the repository around the current folder.
    Outside(PathBuf),
}

/// Decides what each path is. Paths within one repository become one target at the position of the first.
/// The flag of a path states whether a list of files named it. `with_parts` allows parts of repositories.
///
/// # Errors
/// An address that is invalid.
pub(super) fn targets(
    paths: &[(PathBuf, bool)],
    with_parts: bool,
    enclosing: &mut Enclosing,
) -> Result<Vec<Target>, CommandError> {
    let mut targets: Vec<Target> = Vec::new();
    let list_root = if paths.iter().any(|(_, from_list)| *from_list) {
        std::env::current_dir().ok().map(|folder| enclosing.confine_list(&folder))
    } else {
        None
    };
    for (path, from_list) in paths {
        if *from_list {
            // The author of a pull request chooses the names of a list, and typed none of them.
            let is_below = |root: &PathBuf, path: &Path| {
                let below = path.strip_prefix(root);
                below.is_ok_and(|below| below.iter().all(|part| !part.eq_ignore_ascii_case(".git")))
            };
            let is_inside = |root: &PathBuf| cleaned(path).is_ok_and(|path| is_below(root, &path));
            if !list_root.as_ref().is_some_and(is_inside) {
                targets.push(Target::Outside(path.clone()));
                continue;
            }
        } else if path == Path::new("-") {
            targets.push(Target::File(path.clone()));
            continue;
        }
        if with_parts && let Some((root, below)) = enclosing.repository(path) {
            let same = targets.iter_mut().find_map(|target| match target {
                Target::Part { root: other, paths } if *other == root => Some(paths),
                _ => None,
            });
            match same {
                Some(paths) => drop(paths.insert(below, path.clone())),
                None => targets.push(Target::Part { root, paths: BTreeMap::from([(below, path.clone())]) }),
            }
            continue;
        }
        // A path from a list, or with the name of a configuration file, is a file even if it is missing.
        let named = !from_list && !is_candidate(&path.to_string_lossy()) && !path.exists();
        let is_repository = path.is_dir() || (named && RepositoryArgs::of(path).address()?.is_some());
        // A linked folder that leaves the repository around it is reported like a file.
        let mut is_refused = || matches!(enclosing.folder(path), Err(OpenError::Link { .. }));
        let is_file = !is_repository || (*from_list && is_refused());
        targets.push(if is_file { Target::File(path.clone()) } else { Target::Repository(path.clone()) });
    }
    Ok(targets)
}

/// The path of the file or folder whose name is nearest to that of a missing one.
pub(super) fn nearest_path(missing: &Path) -> Option<String> {
    if missing.exists() {
        return None;
    }
    let folder = missing.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.take(MAX_SIBLINGS).flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let near = nearest(missing.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    missing.with_file_name(near).to_str().map(str::to_owned)
}

/// Names of a repository's files in reports, as a user in the current folder would name them.
pub(super) struct FileNames {
    names: BTreeMap<String, String>,
    /// The path from the root by name.
    paths: BTreeMap<String, String>,
}

impl FileNames {
    /// Names that start with a prefix.
    pub(super) fn prefixed<'f>(prefix: &str, files: impl Iterator<Item = &'f String>) -> Self {
        Self::new(files.map(|file| (file.clone(), format!("{prefix}{file}"))))
    }

    /// Names for a repository around the `given` paths: relative to the current folder unless all given paths are
    /// absolute.
    pub(super) fn around<'g, 'f>(
        root: &Path,
        given: impl IntoIterator<Item = &'g PathBuf>,
        files: impl Iterator<Item = &'f String>,
    ) -> Self {
        let current = std::env::current_dir().unwrap_or_default();
        let is_absolute = given.into_iter().all(|path| path.is_absolute());
        Self::new(files.map(|file| {
            let path = root.join(file);
            let name = if is_absolute { path } else { relative(&current, &path) };
            (file.clone(), name.to_string_lossy().into_owned())
        }))
    }

    fn new(names: impl Iterator<Item = (String, String)>) -> Self {
        let names: BTreeMap<String, String> = names.collect();
        let paths = names.iter().map(|(path, name)| (name.clone(), path.clone())).collect();
        Self { names, paths }
    }

    /// The name of a file.
    pub(super) fn name<'n>(&'n self, path: &'n str) -> &'n str {
        self.names.get(path).map_or(path, String::as_str)
    }

    /// The path of a file from the root by its name.
    pub(super) fn path(&self, name: &str) -> Option<&str> {
        self.paths.get(name).map(String::as_str)
    }
}

/// A path relative to a folder, both absolute.
fn relative(folder: &Path, path: &Path) -> PathBuf {
    let shared = folder.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Path::new("..").as_os_str());
    let down = path.components().skip(shared);
    up.chain(down.map(std::path::Component::as_os_str)).collect()
}

/// The paths from the root that no file in `used` is at or below.
pub(super) fn unused<'p>(
    paths: &'p BTreeMap<String, PathBuf>,
    used: &BTreeSet<String>,
) -> impl Iterator<Item = &'p PathBuf> {
    let is_used = |path: &str| {
        used.iter().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    paths.iter().filter(move |(path, _)| !is_used(path)).map(|(_, given)| given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_files_from_the_current_folder() {
        let name = |folder: &str, path: &str| relative(Path::new(folder), Path::new(path)).display().to_string();
        assert_eq!(name("/repo", "/repo/pools/gpu/kubelet.yaml"), "pools/gpu/kubelet.yaml");
        assert_eq!(name("/repo/pools/gpu", "/repo/pools/gpu/kubelet.yaml"), "kubelet.yaml");
        assert_eq!(name("/repo/pools/gpu", "/repo/base/kubelet.yaml"), "../../base/kubelet.yaml");
    }
}
