//! Mode `file`: replaces the kubelet's `--config` and keeps the provisioned file.

use std::path::Path;

use super::record::Record;
use super::{MAX_FILE, PlacementError, regular, text};
use crate::disk::Disk;
use crate::disk::durable;

/// Permission bits of a configuration that is missing and was never kept; the same as kubeadm's.
const USUAL_MODE: u32 = 0o644;

/// Checks that the kubelet's file or a kept local configuration exists.
pub(super) fn check(disk: &dyn Disk, config: &Path, local: &Path) -> Result<(), PlacementError> {
    if regular(disk, config)?.is_none() && regular(disk, local)?.is_none() {
        return Err(PlacementError::NoConfig(config.to_owned()));
    }
    Ok(())
}

/// Saves the kubelet's file as the local configuration if the agent did not place it. Returns content and mode of the
/// kubelet's file. `None` if it is missing.
pub(super) fn adopt_local(
    disk: &dyn Disk,
    config: &Path,
    local: &Path,
    record: &Record,
) -> Result<Option<(Vec<u8>, u32)>, PlacementError> {
    let found = regular(disk, config)?;
    if let Some((content, mode)) = &found
        && !record.contains(content)
        && durable::read(disk, local, MAX_FILE)?.as_ref() != Some(content)
    {
        durable::folder(disk, durable::folder_of(local))?;
        durable::replace(disk, local, content, *mode)?;
        tracing::info!(config = %config.display(), "saved the kubelet's configuration as the local configuration");
    }
    Ok(found)
}

/// Local configuration: the kept file, or the kubelet's current one.
pub(super) fn local_text(disk: &dyn Disk, config: &Path, local: &Path) -> Result<String, PlacementError> {
    if let Some(content) = durable::read(disk, local, MAX_FILE)? {
        return text(local, content);
    }
    match regular(disk, config)? {
        Some((content, _)) => text(config, content),
        None => Err(PlacementError::NoConfig(config.to_owned())),
    }
}

/// Permission bits of the kubelet's file, or of the kept local file if the former is missing.
pub(super) fn mode(disk: &dyn Disk, found: Option<&(Vec<u8>, u32)>, local: &Path) -> Result<u32, PlacementError> {
    match found {
        Some((_, mode)) => Ok(*mode),
        None => Ok(durable::stat(disk, local)?.map_or(USUAL_MODE, |entry| entry.mode)),
    }
}
