//! Files and folders that survive a crash: what is written is complete or not there, and where it is said to be written it
//! stays written. Knows no name and no format.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, Entry, EntryKind};

/// The mode of the agent's files.
pub const FILE_MODE: u32 = 0o600;
/// The mode of the agent's folders.
pub const FOLDER_MODE: u32 = 0o700;
/// Begins the names of what is not finished, as kubelets name it (`pkg/kubelet/kubeletconfig/util/files`, 1.21).
pub const UNFINISHED: &str = "tmp_";

/// What could not be done to which path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {source}{}", path.display(), way_out(source))]
pub struct DiskError {
    /// As `write`.
    pub operation: &'static str,
    /// The path.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl DiskError {
    pub(crate) fn at(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { operation, path, source }
    }
}

fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room on its file system",
        io::ErrorKind::ReadOnlyFilesystem => "; mount its file system writable",
        io::ErrorKind::PermissionDenied => "; run the agent as a user that may",
        _ => "",
    }
}

/// The content of a file, `None` when there is none.
///
/// # Errors
/// Everything but that; one larger than `limit` bytes.
pub fn read(disk: &dyn Disk, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiskError> {
    disk.read(path, limit).map_err(DiskError::at("read", path))
}

/// What is under a path.
///
/// # Errors
/// The system's.
pub fn look(disk: &dyn Disk, path: &Path) -> Result<Option<Entry>, DiskError> {
    disk.look(path).map_err(DiskError::at("look at", path))
}

/// The names in a folder; none when there is no folder.
///
/// # Errors
/// The system's.
pub fn list(disk: &dyn Disk, path: &Path) -> Result<Vec<String>, DiskError> {
    disk.list(path).map_err(DiskError::at("list", path))
}

/// Makes the content of a file, or the entries of a folder, durable.
///
/// # Errors
/// The system's.
pub fn sync(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    disk.sync(path).map_err(DiskError::at("sync", path))
}

/// The folder that holds this path.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a file of which nobody knows yet, and makes its content durable. Its name may be lost in a crash.
///
/// # Errors
/// The system's; the file may be there in part.
pub fn stage(disk: &dyn Disk, path: &Path, content: &[u8], mode: u32) -> Result<(), DiskError> {
    disk.write(path, content, mode).map_err(DiskError::at("write", path))?;
    sync(disk, path)
}

/// Gives a file another name, and looks whether the content is there: a file system that loses a rename must not be
/// believed. Not durable.
///
/// # Errors
/// The system's; other content under the new name.
pub fn move_in(disk: &dyn Disk, from: &Path, to: &Path, content: &[u8]) -> Result<(), DiskError> {
    disk.rename(from, to).map_err(DiskError::at("replace", to))?;
    let limit = u64::try_from(content.len()).unwrap_or(u64::MAX);
    match disk.read(to, limit) {
        Ok(Some(found)) if found == content => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::FileTooLarge => Err(DiskError::at("read", to)(error)),
        _ => Err(DiskError::at("replace", to)(io::Error::other("it was renamed and holds other content all the same"))),
    }
}

/// Replaces a file as a whole: after a crash it holds what it held before, or all of this. Its folder must exist.
///
/// # Errors
/// The system's. The file then holds the one or the other, and nothing is known of what is durable.
pub fn replace(disk: &dyn Disk, path: &Path, content: &[u8], mode: u32) -> Result<(), DiskError> {
    let unfinished = path.with_file_name(unfinished_name(path));
    stage(disk, &unfinished, content, mode)?;
    move_in(disk, &unfinished, path, content)?;
    sync(disk, folder_of(path))
}

/// Where a file is written before it gets its name.
fn unfinished_name(path: &Path) -> OsString {
    let mut name = OsString::from(UNFINISHED);
    name.push(path.file_name().unwrap_or_default());
    name
}

/// Makes a folder, and those above it that are missing, durably. One that is there is made durable too: an agent that was
/// killed may not have come to it. Those above it that are there are taken to be.
///
/// # Errors
/// The system's; something else is there.
pub fn folder(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    match look(disk, path)? {
        Some(Entry { kind: EntryKind::Folder, .. }) => {}
        Some(_) => return Err(DiskError::at("make folder", path)(io::Error::from(io::ErrorKind::NotADirectory))),
        None => {
            let above = folder_of(path);
            if look(disk, above)?.is_none() {
                folder(disk, above)?;
            }
            disk.make_folder(path, FOLDER_MODE).map_err(DiskError::at("make folder", path))?;
        }
    }
    sync(disk, folder_of(path))
}

/// Removes a folder with the files in it; not durable. What is a folder in it is left, and then so is it.
///
/// # Errors
/// The system's.
pub fn remove_flat(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    for name in list(disk, path)? {
        let file = path.join(name);
        disk.remove_file(&file).map_err(DiskError::at("remove", &file))?;
    }
    disk.remove_folder(path).map_err(DiskError::at("remove", path))
}
