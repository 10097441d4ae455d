//! Checkpoints: every key of a downloaded ConfigMap as a file in `checkpoints/<uid>/<resourceVersion>/`. A kubelet
//! 1.21 uses the same paths.
//!
//! A folder gets its name only after all of its files are durable, because a kubelet treats an existing folder as
//! complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::StoreError;
use super::names::check_plain;
use super::source::Resolved;
use crate::disk::durable::{self, DiskError, FILE_MODE, FOLDER_MODE, UNFINISHED};
use crate::disk::{Disk, Entry, EntryKind};
use crate::events::Download;
use nodecfg_contract::ConfigSource;

/// Size limit of a checkpoint file, in bytes. The API server's limit for a ConfigMap is 1 MiB.
pub(super) const MAX_FILE: u64 = 2 << 20;
/// Maximum number of keys that are read.
const MAX_KEYS: usize = 4096;
/// Maximum total size that is read, in bytes.
const MAX_TOTAL: usize = 8 << 20;

/// Folder name of a checkpoint while it is written or removed.
const STAGING_FOLDER: &str = "tmp_nodecfg";

/// Keys and texts of a checkpoint.
pub type Payload = BTreeMap<String, String>;

/// Folder of all checkpoints, `<dir>/store/checkpoints`.
#[derive(Debug, Clone)]
pub(super) struct Checkpoints {
    pub(super) folder: PathBuf,
}

impl Checkpoints {
    fn of(&self, source: &Resolved<'_>) -> PathBuf {
        self.folder.join(source.uid).join(source.resource_version)
    }

    /// Saves a download, or repairs its existing checkpoint. On success it is durable and complete.
    pub(super) fn save(&self, disk: &dyn Disk, download: &Download) -> Result<(), StoreError> {
        let source = resolved(&download.source)?;
        for key in download.payload.keys() {
            check_plain("the key", key).map_err(StoreError::Source)?;
        }
        let folder = self.of(&source);
        let uid = durable::folder_of(&folder);
        let above = [self.folder.ancestors().nth(2), self.folder.ancestors().nth(1), Some(&self.folder), Some(uid)];
        for path in above.into_iter().flatten() {
            durable::folder(disk, path)?;
        }
        match durable::stat(disk, &folder)? {
            None => {
                let made = uid.join(STAGING_FOLDER);
                clear(disk, &made)?;
                disk.make_folder(&made, FOLDER_MODE).map_err(DiskError::at("create folder", &made))?;
                for (key, text) in &download.payload {
                    durable::write_synced(disk, &made.join(key), text.as_bytes(), FILE_MODE)?;
                }
                durable::sync(disk, &made)?;
                disk.rename(&made, &folder).map_err(DiskError::at("rename a folder to", &folder))?;
            }
            // Differences are repaired file by file, whoever wrote the files, so that none is ever missing or
            // partial.
            Some(Entry { kind: EntryKind::Folder, .. }) => repair(disk, &folder, &download.payload)?,
            Some(_) => return Err(StoreError::UnexpectedEntry(folder)),
        }
        durable::sync(disk, uid)?;
        if self.load(disk, &source)?.as_ref() == Some(&download.payload) {
            return Ok(());
        }
        Err(StoreError::NotPersisted(folder))
    }

    /// Content of a checkpoint. `None` if it is missing.
    pub(super) fn load(&self, disk: &dyn Disk, source: &Resolved<'_>) -> Result<Option<Payload>, StoreError> {
        let folder = self.of(source);
        match durable::stat(disk, &folder)? {
            None => return Ok(None),
            Some(Entry { kind: EntryKind::Folder, .. }) => {}
            Some(_) => return Err(StoreError::UnexpectedEntry(folder)),
        }
        let keys = durable::list(disk, &folder)?;
        let too_large = || StoreError::TooLarge(folder.clone());
        if keys.len() > MAX_KEYS {
            return Err(too_large());
        }
        let (mut payload, mut total) = (Payload::new(), 0_usize);
        for key in keys {
            let path = folder.join(&key);
            let content = durable::read(disk, &path, MAX_FILE)?;
            let content = content.ok_or_else(|| StoreError::UnexpectedEntry(path.clone()))?;
            total = total.saturating_add(content.len());
            if total > MAX_TOTAL {
                return Err(too_large());
            }
            let text = String::from_utf8(content).map_err(|_| StoreError::NotUtf8(path))?;
            payload.insert(key, text);
        }
        Ok(Some(payload))
    }

    /// Removes all checkpoints but those in `keep`, and unfinished folders. A folder is renamed before its files are
    /// removed, so that a partial checkpoint never looks complete.
    pub(super) fn prune(&self, disk: &dyn Disk, keep: &[&ConfigSource]) -> Result<(), StoreError> {
        let keep: BTreeSet<(&str, &str)> = keep
            .iter()
            .map(|source| resolved(source).map(|source| (source.uid, source.resource_version)))
            .collect::<Result<_, _>>()?;
        for uid in durable::list(disk, &self.folder)? {
            let folder = self.folder.join(&uid);
            if !is_folder(disk, &folder)? {
                continue;
            }
            let mut left = false;
            for version in durable::list(disk, &folder)? {
                let path = folder.join(&version);
                if keep.contains(&(uid.as_str(), version.as_str())) || !is_folder(disk, &path)? {
                    left = true;
                } else if version.starts_with(UNFINISHED) {
                    clear(disk, &path)?;
                } else {
                    let removed = folder.join(STAGING_FOLDER);
                    clear(disk, &removed)?;
                    disk.rename(&path, &removed).map_err(DiskError::at("remove", &path))?;
                    durable::sync(disk, &folder)?;
                    clear(disk, &removed)?;
                }
            }
            if !left {
                disk.remove_folder(&folder).map_err(DiskError::at("remove", &folder))?;
            }
        }
        Ok(durable::sync(disk, &self.folder)?)
    }
}

/// Resolves the source of a checkpoint.
pub(super) fn resolved(source: &ConfigSource) -> Result<Resolved<'_>, StoreError> {
    Resolved::of(source)
        .map_err(|problem| StoreError::Source(format!("the source {source} cannot have a checkpoint: {problem}")))
}

fn is_folder(disk: &dyn Disk, path: &Path) -> Result<bool, DiskError> {
    Ok(durable::stat(disk, path)?.is_some_and(|entry| entry.kind == EntryKind::Folder))
}

/// Removes a folder if it exists.
fn clear(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    if durable::stat(disk, path)?.is_some() {
        durable::remove_flat(disk, path)?;
    }
    Ok(())
}

fn repair(disk: &dyn Disk, folder: &Path, payload: &Payload) -> Result<(), StoreError> {
    let unfinished = folder.with_file_name(format!("{STAGING_FOLDER}_file"));
    for (key, text) in payload {
        let path = folder.join(key);
        let same = match disk.read(&path, MAX_FILE) {
            Ok(found) => found.as_deref() == Some(text.as_bytes()),
            Err(_) => false,
        };
        if !same {
            durable::write_synced(disk, &unfinished, text.as_bytes(), FILE_MODE)?;
            durable::rename_verified(disk, &unfinished, &path, text.as_bytes())?;
        }
    }
    for name in durable::list(disk, folder)? {
        if !payload.contains_key(&name) {
            let path = folder.join(name);
            disk.remove_file(&path).map_err(DiskError::at("remove", &path))?;
        }
    }
    Ok(durable::sync(disk, folder)?)
}
