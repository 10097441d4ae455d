//! The folder of the configuration within its repository (`--path`): a relative path that stays inside.

use std::path::{Path, PathBuf};

use super::RepositoryError;
use super::confined::Confined;

/// A folder within a repository. Empty for the root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folder(String);

/// Error for an invalid folder path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// An absolute path.
    #[error("{0:?} is absolute; specify the folder relative to the root of the repository")]
    Absolute(String),
    /// A path out of the repository.
    #[error("{0:?} leads out of the repository")]
    Leaves(String),
    /// A path with control characters.
    #[error("{0:?} contains a control character")]
    Odd(String),
}

impl Folder {
    /// Parses a path. Drops `.` and doubled slashes. Rejects `..`, even if the path would stay inside.
    ///
    /// # Errors
    /// When the path is absolute, contains `..` or contains a control character.
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

    /// The path from the root of the repository, with `/` as separator.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder on disk below `root`, without links. A link may lead elsewhere within the root only.
    pub(super) fn below(&self, root: &Path) -> Result<PathBuf, RepositoryError> {
        let found = Confined::at(root).and_then(|root| root.folder(Path::new(&self.0)));
        found.map(|folder| folder.path().to_owned()).map_err(|error| error.of(&root.join(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_paths_within_the_repository() {
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
    fn rejects_links_out_of_the_repository() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().canonicalize().unwrap().join("root");
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::os::unix::fs::symlink("a", root.join("in")).unwrap();
        std::os::unix::fs::symlink("..", root.join("out")).unwrap();
        let below = |text: &str| Folder::parse(text).unwrap().below(&root).map_err(|error| error.to_string());
        assert_eq!(below("in").unwrap(), root.join("a"));
        assert!(below("out").unwrap_err().contains("outside of the repository"));
        assert!(below("missing").unwrap_err().contains("cannot read"));
    }

    proptest::proptest! {
        #[test]
        fn accepted_paths_stay_inside(text in "[a./\\\\]{0,12}") {
            if let Ok(folder) = Folder::parse(&text) {
                proptest::prop_assert!(!folder.0.starts_with('/') && folder.0.split('/').all(|part| part != ".."));
            }
        }
    }
}
