//! Checkpoints: every key of a ConfigMap that was downloaded, as a file in `checkpoints/<uid>/<resourceVersion>/`, where a
//! kubelet 1.21 keeps and looks for them too.
//!
//! A folder gets that name when all of it is durable: to a kubelet, one that is there is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::StoreError;
use super::names::check_plain;
use super::source::Resolved;
use crate::disk::durable::{self, DiskError, FILE_MODE, FOLDER_MODE, UNFINISHED};
use crate::disk::{Disk, Entry, EntryKind};
use crate::events::Download;
use nodecfg_contract::ConfigSource;

/// The largest file of a checkpoint that is read. An API server takes a ConfigMap of 1 MiB.
pub(super) const MAX_FILE: u64 = 2 << 20;
/// The most keys of a checkpoint that are read.
const MAX_KEYS: usize = 4096;
/// The most bytes of a checkpoint that are read.
const MAX_TOTAL: usize = 8 << 20;

/// The folder of a checkpoint while it is written or removed, beside its own.
const BEING_MADE: &str = "tmp_nodecfg";

/// All keys of a checkpoint.
pub type Payload = BTreeMap<String, String>;

/// The folder of checkpoints, `<dir>/store/checkpoints`.
#[derive(Debug, Clone)]
pub(super) struct Checkpoints {
    pub(super) folder: PathBuf,
}

impl Checkpoints {
    fn of(&self, source: &Resolved<'_>) -> PathBuf {
        self.folder.join(source.uid).join(source.resource_version)
    }

    /// Keeps a download. Once it is there it is durable and complete.
    pub(super) fn keep(&self, disk: &dyn Disk, download: &Download) -> Result<(), StoreError> {
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
        match durable::look(disk, &folder)? {
            None => {
                let made = uid.join(BEING_MADE);
                clear(disk, &made)?;
                disk.make_folder(&made, FOLDER_MODE).map_err(DiskError::at("make folder", &made))?;
                for (key, text) in &download.payload {
                    durable::stage(disk, &made.join(key), text.as_bytes(), FILE_MODE)?;
                }
                durable::sync(disk, &made)?;
                disk.rename(&made, &folder).map_err(DiskError::at("name", &folder))?;
            }
            // Whoever wrote it: what differs is made right, file by file, so that no file is ever missing or torn.
            Some(Entry { kind: EntryKind::Folder, .. }) => mend(disk, &folder, &download.payload)?,
            Some(_) => return Err(StoreError::InTheWay(folder)),
        }
        durable::sync(disk, uid)?;
        if self.load(disk, &source)?.as_ref() == Some(&download.payload) {
            return Ok(());
        }
        Err(StoreError::NotKept(folder))
    }

    /// What a checkpoint holds. `None`: there is none.
    pub(super) fn load(&self, disk: &dyn Disk, source: &Resolved<'_>) -> Result<Option<Payload>, StoreError> {
        let folder = self.of(source);
        match durable::look(disk, &folder)? {
            None => return Ok(None),
            Some(Entry { kind: EntryKind::Folder, .. }) => {}
            Some(_) => return Err(StoreError::InTheWay(folder)),
        }
        let keys = durable::list(disk, &folder)?;
        let too_much = || StoreError::TooMuch(folder.clone());
        if keys.len() > MAX_KEYS {
            return Err(too_much());
        }
        let (mut payload, mut total) = (Payload::new(), 0_usize);
        for key in keys {
            let path = folder.join(&key);
            let content = durable::read(disk, &path, MAX_FILE)?;
            let content = content.ok_or_else(|| StoreError::InTheWay(path.clone()))?;
            total = total.saturating_add(content.len());
            if total > MAX_TOTAL {
                return Err(too_much());
            }
            let text = String::from_utf8(content).map_err(|_| StoreError::NoText(path))?;
            payload.insert(key, text);
        }
        Ok(Some(payload))
    }

    /// Removes every checkpoint but these, and what was left unfinished. A folder loses its name before it loses a file.
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
                    let removed = folder.join(BEING_MADE);
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

/// A source as a checkpoint is found by.
pub(super) fn resolved(source: &ConfigSource) -> Result<Resolved<'_>, StoreError> {
    Resolved::of(source).map_err(|problem| StoreError::Source(format!("the source {source} cannot be kept: {problem}")))
}

fn is_folder(disk: &dyn Disk, path: &Path) -> Result<bool, DiskError> {
    Ok(durable::look(disk, path)?.is_some_and(|entry| entry.kind == EntryKind::Folder))
}

/// Makes a folder go.
fn clear(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    if durable::look(disk, path)?.is_some() {
        durable::remove_flat(disk, path)?;
    }
    Ok(())
}

fn mend(disk: &dyn Disk, folder: &Path, payload: &Payload) -> Result<(), StoreError> {
    let unfinished = folder.with_file_name(format!("{BEING_MADE}_file"));
    for (key, text) in payload {
        let path = folder.join(key);
        let same = match disk.read(&path, MAX_FILE) {
            Ok(found) => found.as_deref() == Some(text.as_bytes()),
            Err(_) => false,
        };
        if !same {
            durable::stage(disk, &unfinished, text.as_bytes(), FILE_MODE)?;
            durable::move_in(disk, &unfinished, &path, text.as_bytes())?;
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
