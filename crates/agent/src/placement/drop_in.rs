//! Mode `drop-in`: a file in the kubelet's `--config-dir`. Kubelets from 1.28 on read every `*.conf` there in the
//! order of names and merge each over the previous ones (`loadDropinConfigFileIntoJSON`, cmd/kubelet/app/server.go).

use std::path::Path;

use super::{DROP_IN_NAME, MAX_FILE, PlacementError, regular, text, tolerate_sync_error};
use crate::disk::durable::{self, DiskError};
use crate::disk::{Disk, Entry, EntryKind};

/// Suffix of the files that the kubelet reads.
const SUFFIX: &str = ".conf";
/// Maximum number of other files that are read.
pub(super) const MAX_FILES: usize = 64;

/// Checks that the folder exists and the drop-in is a regular file or missing.
pub(super) fn check(disk: &dyn Disk, config_dir: &Path) -> Result<(), PlacementError> {
    match durable::stat(disk, config_dir)? {
        Some(Entry { kind: EntryKind::File, .. }) => Err(PlacementError::NoFolder(config_dir.to_owned())),
        // The kubelet and the agent follow a link to a folder.
        Some(_) => regular(disk, &config_dir.join(DROP_IN_NAME)).map(drop),
        None => Err(PlacementError::NoFolder(config_dir.to_owned())),
    }
}

/// Texts that the drop-in is merged over: the kubelet's `--config`, then the files with earlier names.
pub(super) fn underneath(
    disk: &dyn Disk,
    config_dir: &Path,
    config: Option<&Path>,
) -> Result<Vec<String>, PlacementError> {
    texts(disk, config_dir, config, |name| name < DROP_IN_NAME)
}

/// Texts that the kubelet merges, in order: its `--config`, then the drop-ins whose names are accepted. Subfolders are
/// not searched, and missing files are skipped.
///
/// # Errors
/// A file is unreadable, or there are too many.
pub(crate) fn texts(
    disk: &dyn Disk,
    config_dir: &Path,
    config: Option<&Path>,
    accepts: impl Fn(&str) -> bool,
) -> Result<Vec<String>, PlacementError> {
    let mut texts = Vec::new();
    let mut names = durable::list(disk, config_dir)?;
    names.retain(|name| name.ends_with(SUFFIX) && accepts(name));
    if names.len() > MAX_FILES {
        return Err(PlacementError::TooManyFiles { folder: config_dir.to_owned(), count: names.len() });
    }
    let drop_ins = names.into_iter().map(|name| config_dir.join(name));
    for path in config.map(Path::to_owned).into_iter().chain(drop_ins) {
        if durable::stat(disk, &path)?.is_some_and(|entry| entry.kind == EntryKind::Folder) {
            continue;
        }
        if let Some(content) = durable::read(disk, &path, MAX_FILE)? {
            texts.push(text(&path, content)?);
        }
    }
    Ok(texts)
}

/// Removes the drop-in, which puts the local configuration in place.
pub(super) fn remove(disk: &dyn Disk, target: &Path, rollback: bool) -> Result<(), DiskError> {
    disk.remove_file(target).map_err(DiskError::at("remove", target))?;
    tolerate_sync_error(durable::sync(disk, durable::folder_of(target)), rollback)
}
