//! The mode `file`: the kubelet's `--config` is replaced, and the one that the node was provisioned with is kept.

use std::path::Path;

use super::record::Record;
use super::{MAX_FILE, PlacementError, regular, text};
use crate::disk::Disk;
use crate::disk::durable;

/// The mode of a configuration that is gone and was never kept: what kubeadm gives it.
const USUAL_MODE: u32 = 0o644;

/// Whether there is something to replace and to come back to.
pub(super) fn check(disk: &dyn Disk, config: &Path, local: &Path) -> Result<(), PlacementError> {
    if regular(disk, config)?.is_none() && regular(disk, local)?.is_none() {
        return Err(PlacementError::NoConfig(config.to_owned()));
    }
    Ok(())
}

/// Keeps the kubelet's configuration as the local one when somebody else wrote it. Gives what is there, and its mode.
pub(super) fn adopt(
    disk: &dyn Disk,
    config: &Path,
    local: &Path,
    record: &Record,
) -> Result<Option<(Vec<u8>, u32)>, PlacementError> {
    let found = regular(disk, config)?;
    if let Some((content, mode)) = &found
        && !record.knows(content)
        && durable::read(disk, local, MAX_FILE)?.as_ref() != Some(content)
    {
        durable::folder(disk, durable::folder_of(local))?;
        durable::replace(disk, local, content, *mode)?;
        tracing::info!(config = %config.display(), "kept the kubelet's configuration as the node's local one");
    }
    Ok(found)
}

/// The local configuration: the one that is kept, or that would be.
pub(super) fn local_text(disk: &dyn Disk, config: &Path, local: &Path) -> Result<String, PlacementError> {
    if let Some(content) = durable::read(disk, local, MAX_FILE)? {
        return text(local, content);
    }
    match regular(disk, config)? {
        Some((content, _)) => text(config, content),
        None => Err(PlacementError::NoConfig(config.to_owned())),
    }
}

/// The mode that the kubelet's configuration has, or had when it was kept.
pub(super) fn mode(disk: &dyn Disk, found: Option<&(Vec<u8>, u32)>, local: &Path) -> Result<u32, PlacementError> {
    match found {
        Some((_, mode)) => Ok(*mode),
        None => Ok(durable::look(disk, local)?.map_or(USUAL_MODE, |entry| entry.mode)),
    }
}
