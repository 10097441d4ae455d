//! The mode `drop-in`: a file in the kubelet's `--config-dir`, of which kubelets from 1.28 on read every `*.conf`, in the order
//! of their names, each laid over those before (`loadDropinConfigFileIntoJSON`, cmd/kubelet/app/server.go).

use std::path::Path;

use super::{DROP_IN_NAME, MAX_FILE, PlacementError, durable_in_time, regular, text};
use crate::disk::durable::{self, DiskError};
use crate::disk::{Disk, Entry, EntryKind};

/// How a file is called that the kubelet reads.
const ENDING: &str = ".conf";
/// The most files of others that are read.
const MAX_FILES: usize = 64;

/// Whether the folder is there and the name of ours free for it.
pub(super) fn check(disk: &dyn Disk, config_dir: &Path) -> Result<(), PlacementError> {
    match durable::look(disk, config_dir)? {
        Some(Entry { kind: EntryKind::File, .. }) => Err(PlacementError::NoFolder(config_dir.to_owned())),
        // A link to a folder is followed, by the kubelet and by us.
        Some(_) => regular(disk, &config_dir.join(DROP_IN_NAME)).map(drop),
        None => Err(PlacementError::NoFolder(config_dir.to_owned())),
    }
}

/// What ours is laid over: the kubelet's `--config`, and the files whose names come before ours. Those in folders within the
/// folder are not looked for.
pub(super) fn underneath(
    disk: &dyn Disk,
    config_dir: &Path,
    config: Option<&Path>,
) -> Result<Vec<String>, PlacementError> {
    let mut texts = Vec::new();
    let before = durable::list(disk, config_dir)?
        .into_iter()
        .filter(|name| name.ends_with(ENDING) && name.as_str() < DROP_IN_NAME)
        .take(MAX_FILES)
        .map(|name| config_dir.join(name));
    for path in config.map(Path::to_owned).into_iter().chain(before) {
        if durable::look(disk, &path)?.is_some_and(|entry| entry.kind == EntryKind::Folder) {
            continue;
        }
        if let Some(content) = durable::read(disk, &path, MAX_FILE)? {
            texts.push(text(&path, content)?);
        }
    }
    Ok(texts)
}

/// Takes ours away.
pub(super) fn remove(disk: &dyn Disk, target: &Path, hurry: bool) -> Result<(), DiskError> {
    disk.remove_file(target).map_err(DiskError::at("remove", target))?;
    durable_in_time(durable::sync(disk, durable::folder_of(target)), hurry)
}
