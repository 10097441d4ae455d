//! The files of a kubelet on this machine, within limits. Links are followed as the kubelet follows them, except out of
//! a repository.

use std::collections::BTreeMap;
use std::fs;
use std::fs::FileType;
use std::io::Read as _;
use std::path::Path;

use crate::repository::Enclosing;
use crate::terminal::failure::CommandError;
use kubelet_config::effective::{ConfigDir, FolderEntry, is_read};
use nodecfg_fleet::snapshot::MAX_FILE;

/// Maximum number of entries below a folder.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of bytes of all files.
const MAX_TOTAL: usize = 32 << 20;
/// Maximum depth of folders.
const MAX_DEPTH: usize = 32;

/// A reader with the limits of one command.
#[derive(Default)]
pub(super) struct Files {
    enclosing: Enclosing,
    entries: usize,
    bytes: usize,
}

impl Files {
    /// The text of a file, or the reason why it cannot be read.
    pub(super) fn text(&mut self, path: &Path) -> Result<String, String> {
        let cannot = |error: std::io::Error| format!("cannot be read: {error}");
        // A pipe would block, and a device may have no end.
        match fs::metadata(path).map_err(cannot)? {
            found if found.is_dir() => return Err("is a folder".to_owned()),
            found if !found.is_file() => return Err("is neither a file nor a folder".to_owned()),
            _ => {}
        }
        let file = self.enclosing.file(path).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(cannot)?;
        self.bytes += bytes.len();
        if bytes.len() as u64 > MAX_FILE {
            return Err(format!("has more than {MAX_FILE} bytes"));
        }
        String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
    }

    /// The folder of `--config-dir`.
    pub(super) fn config_dir(&mut self, path: &Path) -> Result<ConfigDir, CommandError> {
        // A path with a slash at its end leads through a link.
        let found = fs::symlink_metadata(path).ok().map(|found| found.file_type());
        let root = found.map(|found| self.entry(path, found, 0)).transpose()?;
        Ok(ConfigDir { path: path.display().to_string(), root })
    }

    fn entry(&mut self, path: &Path, found: FileType, depth: usize) -> Result<FolderEntry, CommandError> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES || self.bytes > MAX_TOTAL || depth > MAX_DEPTH {
            return Err(CommandError::usage(
                format!(
                    "{} has more than {MAX_ENTRIES} entries, {MAX_TOTAL} bytes or {MAX_DEPTH} levels",
                    path.display()
                ),
                "name the folder of drop-ins",
            ));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if found.is_symlink() {
            let end = fs::metadata(path).ok();
            let end = match end {
                None => None,
                Some(end) if end.is_dir() => Some(FolderEntry::Folder(BTreeMap::new())),
                Some(_) => Some(self.file(path, &name)),
            };
            return Ok(FolderEntry::Link(end.map(Box::new)));
        }
        if found.is_dir() { self.folder(path, depth) } else { Ok(self.file(path, &name)) }
    }

    fn folder(&mut self, path: &Path, depth: usize) -> Result<FolderEntry, CommandError> {
        let failed = |error: std::io::Error| {
            CommandError::usage(format!("cannot read the folder {}: {error}", path.display()), "check its permissions")
        };
        let mut entries = BTreeMap::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let found = entry.file_type().map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.insert(name, self.entry(&entry.path(), found, depth + 1)?);
        }
        Ok(FolderEntry::Folder(entries))
    }

    fn file(&mut self, path: &Path, name: &str) -> FolderEntry {
        if !is_read(name) {
            return FolderEntry::File(String::new());
        }
        self.text(path).map_or_else(FolderEntry::Unreadable, FolderEntry::File)
    }
}
