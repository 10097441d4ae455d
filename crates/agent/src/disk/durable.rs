//! File operations that survive crashes: a replaced file holds its old or its new content, and a reported success is
//! permanent. Operations that are not durable say so. Must not know names or formats.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, Entry, EntryKind};

/// Mode of the agent's files.
pub(crate) const FILE_MODE: u32 = 0o600;
/// Mode of the agent's folders.
pub(crate) const FOLDER_MODE: u32 = 0o700;
/// Prefix of unfinished files, as kubelets use it (`pkg/kubelet/kubeletconfig/util/files`, 1.21).
pub(crate) const UNFINISHED: &str = "tmp_";

/// Failed operation on a path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {source}{}", path.display(), fix(source))]
pub struct DiskError {
    /// Verb of the operation, as `write`.
    pub operation: &'static str,
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

impl DiskError {
    pub(crate) fn at(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { operation, path, source }
    }
}

fn fix(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free space on its file system",
        io::ErrorKind::ReadOnlyFilesystem => "; mount its file system writable",
        io::ErrorKind::PermissionDenied => "; run the agent as a user with permission",
        _ => "",
    }
}

/// Reads a file. `None` if it is missing.
///
/// # Errors
/// Every other I/O error. Also if the file is larger than `limit` bytes or is not a regular file.
pub fn read(disk: &dyn Disk, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiskError> {
    disk.read(path, limit).map_err(DiskError::at("read", path))
}

/// Kind and mode of the entry at a path. `None` if it is missing.
///
/// # Errors
/// An I/O error.
pub fn stat(disk: &dyn Disk, path: &Path) -> Result<Option<Entry>, DiskError> {
    disk.stat(path).map_err(DiskError::at("stat", path))
}

/// Names in a folder; empty if the folder is missing.
///
/// # Errors
/// An I/O error.
pub fn list(disk: &dyn Disk, path: &Path) -> Result<Vec<String>, DiskError> {
    disk.list(path).map_err(DiskError::at("list", path))
}

/// Makes the content of a file, or the entries of a folder, durable.
///
/// # Errors
/// An I/O error.
pub fn sync(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    disk.sync(path).map_err(DiskError::at("sync", path))
}

/// Parent folder of a path; `.` if the path has none.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates an unpublished file and makes its content durable. Its name may be lost in a crash.
///
/// A file of this name is removed, not overwritten: if a power failure kept both names of an earlier rename, the
/// name also denotes the published file.
///
/// # Errors
/// An I/O error. The file may exist partially.
pub(crate) fn write_synced(disk: &dyn Disk, path: &Path, content: &[u8], mode: u32) -> Result<(), DiskError> {
    let written = disk.remove_file(path).and_then(|()| disk.write(path, content, mode));
    written.map_err(DiskError::at("write", path))?;
    sync(disk, path)
}

/// Renames a file and verifies the content under the new name, since some file systems lose renames. Not durable.
///
/// # Errors
/// An I/O error, or other content under the new name.
pub(crate) fn rename_verified(disk: &dyn Disk, from: &Path, to: &Path, content: &[u8]) -> Result<(), DiskError> {
    disk.rename(from, to).map_err(DiskError::at("replace", to))?;
    let limit = u64::try_from(content.len()).unwrap_or(u64::MAX);
    match disk.read(to, limit) {
        Ok(Some(found)) if found == content => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::FileTooLarge => Err(DiskError::at("read", to)(error)),
        _ => Err(DiskError::at("replace", to)(io::Error::other("it holds other content after the rename"))),
    }
}

/// Replaces a file as a whole: after a crash it holds the old or the new content. Its folder must exist.
///
/// # Errors
/// An I/O error, or other content after the rename. The file then holds the old or the new content, and either may
/// not be durable.
pub fn replace(disk: &dyn Disk, path: &Path, content: &[u8], mode: u32) -> Result<(), DiskError> {
    let unfinished = path.with_file_name(unfinished_name(path));
    write_synced(disk, &unfinished, content, mode)?;
    rename_verified(disk, &unfinished, path, content)?;
    sync(disk, folder_of(path))
}

/// Name of a file while it is written.
fn unfinished_name(path: &Path) -> OsString {
    let mut name = OsString::from(UNFINISHED);
    name.push(path.file_name().unwrap_or_default());
    name
}

/// Creates a folder and its missing parents durably. An existing folder is made durable too, since a killed agent may
/// not have done so. Existing parents are assumed to be durable.
///
/// # Errors
/// An I/O error, or another kind of entry exists at the path.
pub fn folder(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    match stat(disk, path)? {
        Some(Entry { kind: EntryKind::Folder, .. }) => {}
        Some(_) => return Err(DiskError::at("create folder", path)(io::Error::from(io::ErrorKind::NotADirectory))),
        None => {
            let above = folder_of(path);
            if stat(disk, above)?.is_none() {
                folder(disk, above)?;
            }
            disk.make_folder(path, FOLDER_MODE).map_err(DiskError::at("create folder", path))?;
        }
    }
    sync(disk, folder_of(path))
}

/// Removes a folder and its files, not durably. Fails if the folder holds another folder.
///
/// # Errors
/// An I/O error.
pub(crate) fn remove_flat(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    for name in list(disk, path)? {
        let file = path.join(name);
        disk.remove_file(&file).map_err(DiskError::at("remove", &file))?;
    }
    disk.remove_folder(path).map_err(DiskError::at("remove", path))
}
