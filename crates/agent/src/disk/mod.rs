//! File system interface of the agent. Its few operations let tests kill the agent at each of them, fill the disk, or
//! lose content that is not durable.

use std::io;
use std::path::Path;

use jiff::Timestamp;

pub mod durable;
pub mod memory;
#[cfg(test)]
mod memory_tests;
pub mod real;

/// File system operations, each as small as a system call. Paths are used as given.
pub trait Disk: Send {
    /// Reads a file. `None` if it is missing.
    ///
    /// # Errors
    /// Every other I/O error. Also if the file is larger than `limit` bytes or is not a regular file.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>>;
    /// Creates or truncates a file with this mode and writes the content. Not durable.
    ///
    /// # Errors
    /// An I/O error, or another kind of entry exists at the path. The content may be written partially.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;
    /// Makes the content of a file, or the entries of a folder, durable.
    ///
    /// # Errors
    /// An I/O error. Durability is then unknown.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Renames a file or folder, replacing the target.
    ///
    /// # Errors
    /// An I/O error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; a missing file is no error.
    ///
    /// # Errors
    /// An I/O error.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder; a missing folder is no error.
    ///
    /// # Errors
    /// An I/O error.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Creates a folder and its parents with this mode. An existing folder is no error.
    ///
    /// # Errors
    /// An I/O error.
    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Names in a folder, sorted; empty if the folder is missing.
    ///
    /// # Errors
    /// An I/O error, or a name that is not UTF-8.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Kind and mode of the entry at a path, without following a link. `None` if it is missing.
    ///
    /// # Errors
    /// An I/O error.
    fn stat(&self, path: &Path) -> io::Result<Option<Entry>>;
    /// Time of the last change of a file or folder, behind links: its content, its entries, its mode or its name. `None` if it
    /// is missing or unknown.
    ///
    /// # Errors
    /// An I/O error.
    fn changed_at(&self, path: &Path) -> io::Result<Option<Timestamp>>;
}

/// Entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
}

/// Kind of a folder entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Link or another kind of entry, which the agent never writes to.
    Other,
}
