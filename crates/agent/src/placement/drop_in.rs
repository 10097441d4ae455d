//! Activation `drop-in`: a file in the kubelet's `--config-dir`. `kubelet_config::effective::folder` has the files that
//! kubelets read there, and their order.

use std::collections::BTreeMap;
use std::path::Path;

use super::{DROP_IN_NAME, MAX_FILE, PlacementError, regular, text, tolerate_sync_error};
use crate::content::Underneath;
use crate::disk::durable::{self, DiskError};
use crate::disk::{Disk, Entry, EntryKind};
use kubelet_config::effective::folder::{self, ConfigDir, FolderEntry};

/// Maximum number of other files that are read.
pub(super) const MAX_FILES: usize = 64;
/// Maximum depth of folders below the folder of `--config-dir`.
const MAX_DEPTH: usize = 16;

/// Drop-ins that count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DropIns<'a> {
    /// Those that the kubelet reads before this file of the folder.
    Before(&'a str),
    /// Those that the kubelet reads after it.
    After(&'a str),
}

/// Checks that the kubelet reads the folder, and that the drop-in is a regular file or missing.
pub(super) fn check(disk: &dyn Disk, config_dir: &Path) -> Result<(), PlacementError> {
    match durable::stat(disk, config_dir)? {
        Some(Entry { kind: EntryKind::File, .. }) | None => Err(PlacementError::NoFolder(config_dir.to_owned())),
        Some(Entry { kind: EntryKind::Other, .. }) if !follows(config_dir) => {
            Err(PlacementError::LinkedFolder(config_dir.to_owned()))
        }
        Some(_) => regular(disk, &config_dir.join(DROP_IN_NAME)).map(drop),
    }
}

/// Reports whether a kubelet follows a link at this path.
fn follows(config_dir: &Path) -> bool {
    config_dir.to_string_lossy().ends_with('/')
}

/// Texts that the drop-in is merged over: the kubelet's `--config`, then the files that it reads before the drop-in.
pub(super) fn underneath(
    disk: &dyn Disk,
    config_dir: &Path,
    config: Option<&Path>,
) -> Result<Underneath, PlacementError> {
    texts(disk, config_dir, config, DropIns::Before(DROP_IN_NAME))
}

/// Texts that the kubelet merges, in order: its `--config`, then these drop-ins. A missing file of `--config` is skipped.
///
/// # Errors
/// A file is unreadable, or there are too many.
pub(crate) fn texts(
    disk: &dyn Disk,
    config_dir: &Path,
    config: Option<&Path>,
    wanted: DropIns<'_>,
) -> Result<Underneath, PlacementError> {
    let mut found = Underneath { by_kubelet: true, ..Underneath::default() };
    if let Some(config) = config
        && let Some(content) = durable::read(disk, config, MAX_FILE)?
    {
        found.config = Some(text(config, content)?);
    }
    let (DropIns::Before(name) | DropIns::After(name)) = wanted;
    let folder = read_folder(disk, config_dir, name)?;
    let files = folder::files(&folder).map_err(|refused| PlacementError::Unread(refused.to_string()))?;
    let end = folder::path_in(&folder, name);
    let at = files.iter().position(|file| file.path == end).unwrap_or(files.len());
    let counted = match wanted {
        DropIns::Before(_) => files.get(..at),
        DropIns::After(_) => files.get(at.saturating_add(1)..),
    };
    let counted = counted.unwrap_or_default();
    if counted.len() > MAX_FILES {
        return Err(PlacementError::TooManyFiles { folder: config_dir.to_owned(), count: counted.len() });
    }
    for file in counted {
        match &file.text {
            Ok(text) => found.drop_ins.push((*text).to_owned()),
            Err(reason) => return Err(PlacementError::Unread(format!("{} {reason}", file.path))),
        }
    }
    Ok(found)
}

/// Reads a folder, with an empty file of this name in it.
fn read_folder(disk: &dyn Disk, config_dir: &Path, name: &str) -> Result<ConfigDir, PlacementError> {
    let mut entries = read_entries(disk, config_dir, MAX_DEPTH)?;
    entries.insert(name.to_owned(), FolderEntry::File(String::new()));
    let root = FolderEntry::Folder(entries);
    let path = config_dir.to_string_lossy().into_owned();
    let root = if follows(config_dir) { FolderEntry::Link(Some(Box::new(root))) } else { root };
    Ok(ConfigDir { path, root: Some(root) })
}

/// Reads a folder of `--config-dir` as the kubelet finds it.
pub(super) fn folder(disk: &dyn Disk, path: &str) -> Result<ConfigDir, PlacementError> {
    let folder = Path::new(path);
    let root = match durable::stat(disk, folder)?.map(|entry| entry.kind) {
        None => None,
        Some(EntryKind::File) => read_file(disk, folder),
        Some(EntryKind::Folder) => Some(FolderEntry::Folder(read_entries(disk, folder, MAX_DEPTH)?)),
        Some(EntryKind::Other) => {
            let end = FolderEntry::Folder(read_entries(disk, folder, MAX_DEPTH)?);
            Some(FolderEntry::Link(Some(Box::new(end))))
        }
    };
    Ok(ConfigDir { path: path.to_owned(), root })
}

fn read_entries(disk: &dyn Disk, path: &Path, depth: usize) -> Result<BTreeMap<String, FolderEntry>, PlacementError> {
    let names = durable::list(disk, path)?;
    let count = names.iter().filter(|name| folder::is_read(name)).count();
    if depth == 0 {
        return Err(PlacementError::TooDeep(path.to_owned()));
    }
    // Only as many are read as can count on both sides.
    if count > 2 * MAX_FILES {
        return Err(PlacementError::TooManyFiles { folder: path.to_owned(), count });
    }
    let mut entries = BTreeMap::new();
    for name in names {
        let path = path.join(&name);
        let Some(entry) = durable::stat(disk, &path)? else { continue };
        let found = match entry.kind {
            EntryKind::Folder => FolderEntry::Folder(read_entries(disk, &path, depth - 1)?),
            _ if !folder::is_read(&name) => continue,
            EntryKind::File => match read_file(disk, &path) {
                Some(file) => file,
                None => continue,
            },
            EntryKind::Other => FolderEntry::Link(read_file(disk, &path).map(Box::new)),
        };
        entries.insert(name, found);
    }
    Ok(entries)
}

/// Reads a file, or the file behind a link. `None` if nothing is there.
fn read_file(disk: &dyn Disk, path: &Path) -> Option<FolderEntry> {
    match disk.read(path, MAX_FILE) {
        Ok(Some(content)) => Some(match String::from_utf8(content) {
            Ok(text) => FolderEntry::File(text),
            Err(_) => FolderEntry::Unreadable("is not UTF-8 text".to_owned()),
        }),
        Ok(None) => None,
        Err(error) => Some(FolderEntry::Unreadable(format!("cannot be read: {error}"))),
    }
}

/// Removes the drop-in, which puts the local configuration in place.
pub(super) fn remove(disk: &dyn Disk, target: &Path, rollback: bool) -> Result<(), DiskError> {
    disk.remove_file(target).map_err(DiskError::at("remove", target))?;
    tolerate_sync_error(durable::sync(disk, durable::folder_of(target)), rollback)
}
