//! Activation `file`: replaces the kubelet's `--config` and keeps the node's own file.

use std::path::{Path, PathBuf};

use super::record::Record;
use super::{Content, LOCAL, MAX_FILE, PlacementError, regular, text};
use crate::content::{self, Underneath};
use crate::disk::Disk;
use crate::disk::durable::{self, DiskError};
use nodecfg_contract::Placement;

/// Permission bits of a configuration that is missing and was never kept; the same as kubeadm's.
const USUAL_MODE: u32 = 0o644;

/// Checks that the kubelet's file or a kept own configuration exists. What is wrong with an existing file is the answer to an
/// assignment: an agent that stopped here could not report it.
pub(super) fn check(disk: &dyn Disk, config: &Path, local: &Path) -> Result<(), PlacementError> {
    match (regular(disk, config), regular(disk, local)) {
        (Ok(None), Ok(None)) => Err(PlacementError::NoConfig(config.to_owned())),
        _ => Ok(()),
    }
}

/// Removes the kept own configuration and the record, durably, if the kubelet's file is the same. Otherwise the kept file
/// may be the only copy.
pub(super) fn remove_kept(disk: &dyn Disk, config: &Path, folder: &Path, record: &mut Record) -> Result<(), DiskError> {
    let local = folder.join(LOCAL);
    match (durable::read(disk, &local, MAX_FILE), regular(disk, config)) {
        (Ok(Some(kept)), Ok(Some((found, _)))) if kept == found => {}
        _ => return Ok(()),
    }
    // A rollback ignores failed syncs.
    durable::sync(disk, config)?;
    durable::sync(disk, durable::folder_of(config))?;
    // First, since a recorded text without a kept file would count as placed by the agent.
    record.forget(disk, folder)?;
    disk.remove_file(&local).map_err(DiskError::at("remove", &local))?;
    durable::sync(disk, folder)
}

/// The node's own configuration: the kubelet's file if the agent did not place it, or else the kept one.
#[derive(Debug)]
pub(super) struct OwnFile {
    /// Path of the kubelet's file.
    config: PathBuf,
    /// Path of the kept file.
    local: PathBuf,
    /// Content and mode of the kubelet's file. `None` if it is missing.
    found: Option<(Vec<u8>, u32)>,
    /// Content and path of the own configuration. `None` if the kubelet's file is from the agent and none was kept.
    own: Option<(Vec<u8>, PathBuf)>,
    /// Whether the own configuration is not kept yet.
    is_new: bool,
}

impl OwnFile {
    /// Reads both files.
    pub(super) fn read(disk: &dyn Disk, config: &Path, local: &Path, record: &Record) -> Result<Self, PlacementError> {
        let found = regular(disk, config)?;
        let kept = durable::read(disk, local, MAX_FILE)?;
        let written_by_others = found.as_ref().map(|(found, _)| found).filter(|found| !record.contains(found));
        let is_new = written_by_others.is_some_and(|found| kept.as_ref() != Some(found));
        let own = match written_by_others {
            Some(found) if is_new => Some((found.clone(), config.to_owned())),
            _ => kept.map(|kept| (kept, local.to_owned())),
        };
        Ok(Self { config: config.to_owned(), local: local.to_owned(), found, own, is_new })
    }

    /// Text that the kubelet's file has with this content.
    pub(super) fn with(&self, content: Content<'_>) -> Result<String, PlacementError> {
        match content {
            Some(content) if content.placement == Placement::Replace => Ok(content.text.to_owned()),
            Some(content) => {
                let own = Underneath::file(self.configuration()?);
                // The reviewed text was read before.
                let merged = content::merged_text(&own, Some(content.text), None);
                merged.ok_or_else(|| PlacementError::NotAConfiguration(self.config.clone()))
            }
            None => self.text(),
        }
    }

    /// The own configuration as a text.
    fn text(&self) -> Result<String, PlacementError> {
        match &self.own {
            Some((content, path)) => text(path, content.clone()),
            None => Err(PlacementError::NoConfig(self.config.clone())),
        }
    }

    /// The own configuration as a text over which another one can be merged. A file that another program has emptied or
    /// cut is none.
    pub(super) fn configuration(&self) -> Result<String, PlacementError> {
        let own = self.text()?;
        match content::is_configuration(&own) {
            true => Ok(own),
            false => Err(PlacementError::NotAConfiguration(self.config.clone())),
        }
    }

    /// Checks that a kubelet can start with the own configuration, unless it did so before: another program may have damaged
    /// the file.
    pub(super) fn check_start(&self) -> Result<(), PlacementError> {
        if self.is_new { self.configuration().map(drop) } else { Ok(()) }
    }

    /// Keeps a new own configuration, durably. A file that another program has emptied or cut does not replace what is kept.
    pub(super) fn keep(&self, disk: &dyn Disk) -> Result<(), PlacementError> {
        let Some(((content, _), (_, mode))) = self.own.as_ref().zip(self.found.as_ref()).filter(|_| self.is_new) else {
            return Ok(());
        };
        self.still_there(disk)?;
        if self.configuration().is_err() && durable::stat(disk, &self.local)?.is_some() {
            tracing::warn!(config = %self.config.display(), "another program has damaged the kubelet's configuration");
            return Ok(());
        }
        durable::folder(disk, durable::folder_of(&self.local))?;
        durable::replace(disk, &self.local, content, *mode)?;
        tracing::info!(config = %self.config.display(), "saved the kubelet's configuration as the node's own");
        Ok(())
    }

    /// Checks that the kubelet's file is the one that was read. Another program may be writing it.
    pub(super) fn still_there(&self, disk: &dyn Disk) -> Result<(), PlacementError> {
        let now = regular(disk, &self.config)?;
        match now.map(|(content, _)| content).as_ref() == self.found.as_ref().map(|(content, _)| content) {
            true => Ok(()),
            false => Err(PlacementError::Changing(self.config.clone())),
        }
    }

    /// Permission bits of the kubelet's file, or of the kept file if the former is missing.
    pub(super) fn mode(&self, disk: &dyn Disk) -> Result<u32, PlacementError> {
        match &self.found {
            Some((_, mode)) => Ok(*mode),
            None => Ok(durable::stat(disk, &self.local)?.map_or(USUAL_MODE, |entry| entry.mode)),
        }
    }
}
