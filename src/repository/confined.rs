//! Opens files and folders below a folder without leaving it: links out of it, and what is neither a file nor a folder,
//! are refused.
//!
//! Opens one part of a path after the other and follows no link through the file system, so that a concurrent change of
//! the folder leads nowhere else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, openat, readlinkat, statat};

use super::error::OpenError;
use super::links::{LinkError, MAX_HOPS};

/// An open folder.
#[derive(Debug)]
pub(super) struct Confined {
    /// The path without links.
    path: PathBuf,
    folder: OwnedFd,
}

/// What a path leads to.
enum Found {
    File(File),
    Folder(Confined),
}

impl Confined {
    /// Opens a folder, also through links.
    pub(super) fn at(path: &Path) -> Result<Self, OpenError> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(&path, flags, Mode::empty())?;
        Ok(Self { path, folder })
    }

    /// The path without links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file below the folder.
    pub(super) fn file(&self, below: &Path) -> Result<File, OpenError> {
        match self.find(below)? {
            Found::File(file) => Ok(file),
            Found::Folder(_) => Err(OpenError::Folder),
        }
    }

    /// Opens a folder below the folder.
    pub(super) fn folder(&self, below: &Path) -> Result<Self, OpenError> {
        match self.find(below) {
            Ok(Found::Folder(folder)) => Ok(folder),
            Ok(Found::File(_)) | Err(OpenError::Special) => Err(OpenError::NotAFolder),
            Err(error) => Err(error),
        }
    }

    fn find(&self, below: &Path) -> Result<Found, OpenError> {
        let mut pending = parts(below);
        // The open folders below this one on the way, without links.
        let mut opened: Vec<(OsString, OwnedFd)> = Vec::new();
        // The target of the last link.
        let mut linked: Option<String> = None;
        let (mut hops, flags) = (0, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC);
        while let Some(part) = pending.pop() {
            let stopped = |problem| OpenError::Link { target: linked.clone().unwrap_or_default(), problem };
            if part == ".." {
                opened.pop().ok_or_else(|| stopped(LinkError::Outside))?;
                continue;
            }
            // A commit contains no `.git`, but its links may lead there, where actions/checkout keeps a token. Some file
            // systems ignore case.
            if hops > 0 && part.eq_ignore_ascii_case(".git") {
                return Err(stopped(LinkError::Outside));
            }
            let folder = opened.last().map_or(&self.folder, |(_, folder)| folder);
            let kind = match statat(folder, &part, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => FileType::from_raw_mode(found.st_mode),
                Err(rustix::io::Errno::NOENT) if hops > 0 => return Err(stopped(LinkError::Missing)),
                Err(error) => return Err(error.into()),
            };
            match kind {
                FileType::Symlink => {
                    let target = PathBuf::from(OsString::from_vec(readlinkat(folder, &part, Vec::new())?.into_bytes()));
                    linked = Some(target.to_string_lossy().into_owned());
                    hops += 1;
                    let problem = match (target.is_absolute(), hops > MAX_HOPS) {
                        (true, _) => LinkError::Outside,
                        (false, true) => LinkError::Cycle,
                        (false, false) => {
                            pending.append(&mut parts(&target));
                            continue;
                        }
                    };
                    return Err(OpenError::Link { target: linked.unwrap_or_default(), problem });
                }
                FileType::Directory => {
                    let next = openat(folder, &part, flags | OFlags::DIRECTORY, Mode::empty())?;
                    opened.push((part, next));
                }
                FileType::RegularFile if pending.is_empty() => {
                    // Does not wait for a pipe that has taken the place of the file.
                    let waiting = OFlags::NONBLOCK | OFlags::NOCTTY;
                    let file = File::from(openat(folder, &part, flags | waiting, Mode::empty())?);
                    return if file.metadata()?.is_file() { Ok(Found::File(file)) } else { Err(OpenError::Special) };
                }
                FileType::RegularFile => return Err(OpenError::NotAFolder),
                _ => return Err(OpenError::Special),
            }
        }
        let path = opened.iter().fold(self.path.clone(), |path, (part, _)| path.join(part));
        let folder = match opened.pop() {
            Some((_, folder)) => folder,
            None => openat(&self.folder, OsStr::new("."), flags | OFlags::DIRECTORY, Mode::empty())?,
        };
        Ok(Found::Folder(Self { path, folder }))
    }
}

/// The names of a relative path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).rev().collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn opens_only_files_below_the_folder() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("top");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::write(root.join(".git/config"), "token").unwrap();
        std::fs::write(root.join("a/one"), "one").unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        for (target, link) in [
            ("a/b", "in"),
            ("../one", "a/b/two"),
            ("../../top/a/one", "a/around"),
            ("../secret", "out"),
            ("out", "chained"),
            ("..", "up"),
            ("/proc/self/environ", "absolute"),
            ("loop", "loop"),
            ("missing", "dangling"),
            (".git/config", "token"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let root = Confined::at(&root).unwrap();
        let read = |path: &str| match root.file(Path::new(path)) {
            Ok(mut file) => {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                text
            }
            Err(OpenError::Link { problem, .. }) => format!("{problem:?}"),
            Err(error) => error.to_string(),
        };
        for (path, found) in [
            ("a/one", "one"),
            ("./a//b/../one", "one"),
            ("in/two", "one"),
            ("a/around", "Outside"),
            ("out", "Outside"),
            ("chained", "Outside"),
            ("up/secret", "Outside"),
            ("../secret", "Outside"),
            ("absolute", "Outside"),
            ("loop", "Cycle"),
            ("dangling", "Missing"),
            ("token", "Outside"),
            (".git/config", "token"),
            ("a", "is a folder"),
            ("a/one/x", "is not a folder"),
            ("socket", "is neither a file nor a folder"),
        ] {
            assert_eq!(read(path), found, "{path}");
        }
        assert_eq!(root.folder(Path::new("in/..")).unwrap().path(), root.path().join("a"));
        assert_eq!(root.folder(Path::new("")).unwrap().path(), root.path());
        assert!(matches!(root.folder(Path::new("socket")), Err(OpenError::NotAFolder)));
        assert!(matches!(root.folder(Path::new("a/one")), Err(OpenError::NotAFolder)));
    }
}
