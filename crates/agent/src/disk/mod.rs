//! The seam to the file system: the few operations that the agent's files are made of, so that tests can kill it at each
//! of them, fill the disk, or lose what was not made durable.

use std::io;
use std::path::Path;

pub mod durable;
pub mod memory;
#[cfg(test)]
mod memory_tests;
pub mod real;

/// File system operations, each as small as the system call behind it. Paths are whole. Errors are the system's.
pub trait Disk: Send {
    /// The content of a file. `None`: there is none.
    ///
    /// # Errors
    /// Everything but a file that does not exist; one larger than `limit` bytes.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>>;
    /// Makes or empties a file with this mode and writes all of it. Not durable.
    ///
    /// # Errors
    /// The system's; part of the content may have been written.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;
    /// Makes the content of a file, or the entries of a folder, durable.
    ///
    /// # Errors
    /// The system's; nothing is known of what is durable then.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, replacing what has it.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. One that does not exist is no error.
    ///
    /// # Errors
    /// The system's.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder. One that does not exist is no error.
    ///
    /// # Errors
    /// The system's.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder with this mode and those above it. One that exists is no error.
    ///
    /// # Errors
    /// The system's.
    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// The names in a folder, sorted. A folder that does not exist is empty.
    ///
    /// # Errors
    /// The system's; a name that is not UTF-8.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// What is under this path, without following a link. `None`: nothing.
    ///
    /// # Errors
    /// The system's.
    fn look(&self, path: &Path) -> io::Result<Option<Entry>>;
}

/// What is under a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Which kind it is.
    pub kind: EntryKind,
    /// Its permission bits.
    pub mode: u32,
}

/// The kinds that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, or something else that the agent does not touch.
    Other,
}
