//! File system of this host, with the lock that prevents two agents on one folder.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::OFlags;

use super::durable::FOLDER_MODE;
use super::{Disk, Entry, EntryKind};

/// Maximum number of names read from a folder.
const MAX_NAMES: usize = 10_000;

/// File system of this host.
#[derive(Debug)]
pub struct RealDisk {
    /// Keeps the lock on the agent's folder, if there is one; the system releases it when the process ends.
    _lock: Option<File>,
}

/// Reason why an agent cannot use its folder.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another agent holds the lock.
    #[error(
        "another agent uses {}: stop that agent, or use another folder",
        .0.display()
    )]
    Held(PathBuf),
    /// The folder cannot be created or opened.
    #[error("cannot open the agent's folder {}: {source}", path.display())]
    Unusable {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl RealDisk {
    /// Creates the agent's folder if missing, and locks it. The lock is on the folder itself, so it works on a full
    /// or read-only disk and leaves no file.
    ///
    /// # Errors
    /// Another agent holds the lock, or the folder cannot be created or opened.
    pub fn open(folder: &Path) -> Result<Self, LockError> {
        let unusable = |source| LockError::Unusable { path: folder.to_owned(), source };
        // An existing folder is not created again, since a read-only file system would refuse.
        if !fs::metadata(folder).is_ok_and(|found| found.is_dir()) {
            make_folder(folder, FOLDER_MODE).map_err(unusable)?;
        }
        let file = File::open(folder).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held(folder.to_owned())),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// Opens the file system without a lock, for reading the folder of a running agent.
    #[must_use]
    pub fn unlocked() -> Self {
        Self { _lock: None }
    }
}

/// Flags of `open` in addition to those of the standard library.
fn flags(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or_default()
}

fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Reports whether `open` met a link that it must not follow.
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Maps a missing entry to `None`.
fn none_if_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Disk for RealDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        // Another program may replace the entry at any moment, so what was opened is checked. A pipe does not block.
        let opened = OpenOptions::new().read(true).custom_flags(flags(OFlags::NONBLOCK)).open(path);
        let Some(file) = none_if_missing(opened)? else { return Ok(None) };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut content = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
        if u64::try_from(content.len()).is_ok_and(|length| length <= limit) {
            return Ok(Some(content));
        }
        Err(too_large(limit))
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let not_regular = || io::Error::other("an entry that is not a regular file has this name");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(mode);
        let opened = options.custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)).open(path);
        let mut file = opened.map_err(|error| if is_link(&error) { not_regular() } else { error })?;
        if !file.metadata()?.is_file() {
            return Err(not_regular());
        }
        // Sets the exact mode, regardless of the umask and of the previous mode.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(content)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        none_if_missing(fs::remove_file(path)).map(drop)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        none_if_missing(fs::remove_dir(path)).map(drop)
    }

    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        make_folder(path, mode)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in none_if_missing(fs::read_dir(path))?.into_iter().flatten() {
            if names.len() == MAX_NAMES {
                return Err(io::Error::other(format!("it holds more than {MAX_NAMES} names")));
            }
            let name = entry?.file_name().into_string();
            names.push(name.map_err(|_| io::Error::other("it holds a name that is not UTF-8"))?);
        }
        names.sort_unstable();
        Ok(names)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Entry>> {
        Ok(none_if_missing(fs::symlink_metadata(path))?.map(|found| Entry {
            kind: match found.file_type() {
                kind if kind.is_file() => EntryKind::File,
                kind if kind.is_dir() => EntryKind::Folder,
                _ => EntryKind::Other,
            },
            mode: found.permissions().mode() & 0o7777,
        }))
    }

    fn changed_at(&self, path: &Path) -> io::Result<Option<Timestamp>> {
        let found = none_if_missing(fs::metadata(path))?;
        // Not the time of modification, which programs set, and which a moved file keeps.
        Ok(found.and_then(|found| Timestamp::from_second(found.ctime()).ok()))
    }
}

/// Error for a file above the size limit.
pub(super) fn too_large(limit: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::durable;

    #[test]
    fn locks_folder_for_one_agent() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("agent");
        let first = RealDisk::open(&folder).expect("the first gets it");
        let second = RealDisk::open(&folder).expect_err("the second does not");
        assert!(matches!(second, LockError::Held(_)), "{second}");
        assert_eq!(first.stat(&folder).expect("looks").expect("exists").mode, 0o700);
        drop(first);
        RealDisk::open(&folder).expect("the lock ends with its holder");
    }

    #[test]
    fn old_time_of_modification_hides_no_change() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("file");
        let file = File::create(&path).expect("creates");
        let before = RealDisk::unlocked().changed_at(&path).expect("looks").expect("exists");
        file.set_modified(std::time::UNIX_EPOCH).expect("sets the time");
        let after = RealDisk::unlocked().changed_at(&path).expect("looks").expect("exists");
        assert!(after >= before && before > Timestamp::UNIX_EPOCH, "{before} {after}");
        assert_eq!(RealDisk::unlocked().changed_at(&parent.path().join("none")).expect("looks"), None);
    }

    #[test]
    fn sets_exact_modes_and_rejects_links() {
        let parent = tempfile::tempdir().expect("a folder");
        let disk = RealDisk::unlocked();
        let (file, link) = (parent.path().join("file"), parent.path().join("link"));
        durable::replace(&disk, &file, b"one", 0o600).expect("replaces");
        durable::replace(&disk, &file, b"two", 0o646).expect("replaces");
        assert_eq!(disk.stat(&file).expect("looks"), Some(Entry { kind: EntryKind::File, mode: 0o646 }));
        assert_eq!(disk.read(&file, 3).expect("reads"), Some(b"two".to_vec()));
        assert_eq!(disk.read(&file, 2).expect_err("is larger").kind(), io::ErrorKind::FileTooLarge);
        std::os::unix::fs::symlink(&file, &link).expect("links");
        assert_eq!(disk.stat(&link).expect("looks").expect("exists").kind, EntryKind::Other);
        disk.write(&link, b"x", 0o600).expect_err("is a link");
        assert_eq!(disk.read(&file, 3).expect("reads"), Some(b"two".to_vec()));
        assert_eq!(disk.list(parent.path()).expect("lists"), ["file", "link"]);
        assert_eq!(disk.list(&parent.path().join("none")).expect("lists"), [""; 0]);
        disk.read(parent.path(), 9).expect_err("is a folder");
        let pipe = parent.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
        disk.read(&pipe, 9).expect_err("is a pipe");
        disk.write(&pipe, b"x", 0o600).expect_err("is a pipe");
    }

    /// A program with rights to the kubelet's folder must not lead the agent's write to another file.
    #[test]
    fn writes_to_no_file_behind_a_swapped_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, victim] = ["file", "link", "victim"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").expect("written");
        let (disk, end) = (RealDisk::unlocked(), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = std::os::unix::fs::symlink(&victim, &link);
                    let _ = fs::rename(&link, &file);
                }
            });
            for _ in 0..5000 {
                let _ = disk.write(&file, b"content", 0o600);
                let _ = fs::remove_file(&file);
            }
            end.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(fs::read_to_string(&victim).expect("exists"), "precious");
    }
}
