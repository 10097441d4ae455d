//! The folder of the configuration within its repository (`--path`): a relative path that cannot lead out.

use std::path::{Path, PathBuf};

use super::RepositoryError;

/// A folder within a repository; empty for its root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folder(String);

/// A path that is no folder within a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// It begins at the root of the file system.
    #[error("{0:?} is absolute; name the folder from the root of the repository")]
    Absolute(String),
    /// It leads out of the repository.
    #[error("{0:?} leads out of the repository")]
    Leaves(String),
    /// It has a part that no path can have.
    #[error("{0:?} has a control character in it")]
    Odd(String),
}

impl Folder {
    /// Reads a path. `.` and doubled slashes are dropped; `..` is refused even where it would stay inside.
    ///
    /// # Errors
    /// When it is absolute or has a part `..`.
    pub fn parse(text: &str) -> Result<Self, FolderError> {
        if text.starts_with('/') || Path::new(text).is_absolute() {
            return Err(FolderError::Absolute(text.to_owned()));
        }
        if text.chars().any(char::is_control) {
            return Err(FolderError::Odd(text.to_owned()));
        }
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return Err(FolderError::Leaves(text.to_owned()));
        }
        Ok(Self(parts.join("/")))
    }

    /// The path from the root of the repository, with `/` between its parts.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder on disk below `root`, which has no links in it. A link may lead elsewhere within the root, and not out.
    pub(super) fn below(&self, root: &Path) -> Result<PathBuf, RepositoryError> {
        if self.0.is_empty() {
            return Ok(root.to_owned());
        }
        let path = root.join(&self.0);
        let real = path.canonicalize().map_err(|source| RepositoryError::Unreadable { path: path.clone(), source })?;
        if !real.starts_with(root) {
            let source = std::io::Error::other("it is a link that leads out of the repository");
            return Err(RepositoryError::Unreadable { path, source });
        }
        if real.is_dir() { Ok(real) } else { Err(RepositoryError::NotAFolder { path }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stays_within_its_repository() {
        let read = |text: &str| Folder::parse(text).map(|folder| folder.0).map_err(|error| error.to_string());
        for (text, expected) in [("", ""), (".", ""), ("./a//b/", "a/b"), ("a/..b", "a/..b")] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, why) in [("/etc", "absolute"), ("..", "leads out"), ("a/../b", "leads out"), ("a\nb", "control")] {
            assert!(read(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_link_leads_nowhere_outside() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().canonicalize().unwrap().join("root");
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::os::unix::fs::symlink("a", root.join("in")).unwrap();
        std::os::unix::fs::symlink("..", root.join("out")).unwrap();
        let below = |text: &str| Folder::parse(text).unwrap().below(&root).map_err(|error| error.to_string());
        assert_eq!(below("in").unwrap(), root.join("a"));
        assert!(below("out").unwrap_err().contains("leads out"));
        assert!(below("missing").unwrap_err().contains("cannot read"));
    }

    proptest::proptest! {
        #[test]
        fn what_is_accepted_has_no_way_up(text in "[a./\\\\]{0,12}") {
            if let Ok(folder) = Folder::parse(&text) {
                proptest::prop_assert!(!folder.0.starts_with('/') && folder.0.split('/').all(|part| part != ".."));
            }
        }
    }
}
