//! Placement of the kubelet's configuration. Files are replaced as a whole and durably. The content for a rollback,
//! the fallback, is prepared in advance, so that the rollback needs no disk space.
//!
//! Two modes: `file` replaces the kubelet's `--config` and keeps the provisioned file as the local configuration.
//! `drop-in` adds a file to the kubelet's `--config-dir` (1.28 on), merged over the provisioned configuration.
//!
//! Must not make decisions: the runtime chooses the content and checks that a kubelet accepts it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::content;
use super::disk::durable::{self, DiskError, FILE_MODE};
use super::disk::{Disk, Entry, EntryKind};
use nodecfg_contract::nodeconfig::{DROP_IN, FILE};

mod drop_in;
mod file;
mod record;
#[cfg(test)]
mod tests;

pub(crate) use drop_in::texts as kubelet_texts;
use record::Record;

/// Name of the file in the kubelet's `--config-dir`. Kubelets merge it over the files with earlier names.
pub const DROP_IN_NAME: &str = "90-nodecfg.conf";
/// File in the agent's folder with the provisioned configuration, in the mode `file`.
const LOCAL: &str = "local";

/// Size limit of a kubelet configuration, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// Mode and path by which the kubelet gets its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "mode")]
pub enum Placement {
    /// Replaces the file of the kubelet's `--config`.
    #[serde(rename_all = "camelCase")]
    File {
        /// Path of the file.
        config: PathBuf,
    },
    /// Adds a file to the folder of the kubelet's `--config-dir`.
    #[serde(rename_all = "camelCase")]
    DropIn {
        /// Path of the folder.
        config_dir: PathBuf,
        /// File of the kubelet's `--config`, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        config: Option<PathBuf>,
    },
}

/// Error of placing or reading a configuration.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// Disk error.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A file to replace, or the kept local file, is not a regular file.
    #[error(
        "{} is not a regular file, and nodecfg follows no links when it replaces the kubelet's configuration: name \
         the file itself, or use the mode drop-in",
        .0.display()
    )]
    NotRegular(PathBuf),
    /// The kubelet's configuration is missing, and no local configuration was kept.
    #[error("{} does not exist: name the file of the kubelet's --config, or use the mode drop-in", .0.display())]
    NoConfig(PathBuf),
    /// The folder of the kubelet's `--config-dir` is missing.
    #[error(
        "{} is not a folder: create it and set it as the kubelet's --config-dir, or use the mode file",
        .0.display()
    )]
    NoFolder(PathBuf),
    /// The folder of the kubelet's `--config-dir` has more files than the agent reads.
    #[error(
        "{} has {count} files that the kubelet reads, and nodecfg reads at most {}: merge some of them",
        folder.display(), drop_in::MAX_FILES
    )]
    TooManyFiles {
        /// The folder.
        folder: PathBuf,
        /// Number of files.
        count: usize,
    },
    /// A file that the drop-in is merged over is not UTF-8.
    #[error("{} is not UTF-8 text", .0.display())]
    NotUtf8(PathBuf),
    /// The record of placements is invalid.
    #[error("{} cannot be read: {problem}; verify the kubelet's configuration, then remove the file", path.display())]
    Unreadable {
        /// Path of the record.
        path: PathBuf,
        /// What is wrong with the content.
        problem: String,
    },
    /// The agent used another mode or path before, and the kubelet does not run its local configuration.
    #[error(
        "this agent ran before with {was}, and the kubelet still uses that configuration: run the agent with {was} \
         again, remove spec.configSource, and switch once the node runs its local configuration"
    )]
    OtherPlacement {
        /// Previous mode and path.
        was: String,
    },
}

/// Configuration to place. `None` is the local configuration.
pub type Content<'a> = Option<&'a str>;

/// Placement of configurations, with a record of earlier ones.
#[derive(Debug)]
pub struct Placer {
    placement: Placement,
    /// The agent's folder.
    folder: PathBuf,
    record: Record,
}

impl Placer {
    /// Loads the record of placements and checks the paths. Only reads. `on_local`: the kubelet runs its local
    /// configuration and no change is in progress.
    ///
    /// # Errors
    /// The record is invalid, an earlier placement is still in use, or the kubelet's file or folder is missing or of
    /// the wrong kind.
    pub fn open(disk: &dyn Disk, folder: &Path, placement: Placement, on_local: bool) -> Result<Self, PlacementError> {
        let record = Record::load(disk, folder)?;
        let was = record.placement().filter(|was| !was.is_same_target(&placement)).map(Placement::describe);
        let record = match was {
            Some(was) if !on_local => return Err(PlacementError::OtherPlacement { was }),
            Some(_) => Record::default(),
            None => record,
        };
        let placer = Self { placement, folder: folder.to_owned(), record };
        match &placer.placement {
            Placement::File { config } => file::check(disk, config, &placer.local_path())?,
            Placement::DropIn { config_dir, .. } => drop_in::check(disk, config_dir)?,
        }
        Ok(placer)
    }

    /// Configuration that the kubelet loads for this content. In drop-in mode, the merged result.
    ///
    /// # Errors
    /// A file is unreadable.
    pub fn effective(&self, disk: &dyn Disk, content: Content<'_>) -> Result<String, PlacementError> {
        let under = self.underneath(disk)?;
        match (&self.placement, content, under.split_last()) {
            (Placement::File { .. }, Some(own), _) => Ok(own.to_owned()),
            (Placement::DropIn { .. }, Some(own), _) => {
                Ok(content::merged_text(&under, own).unwrap_or_else(|| own.to_owned()))
            }
            (Placement::File { config }, None, _) => file::local_text(disk, config, &self.local_path()),
            (Placement::DropIn { .. }, None, Some((last, rest))) => {
                Ok(content::merged_text(rest, last).unwrap_or_else(|| last.clone()))
            }
            (Placement::DropIn { .. }, None, None) => Ok(String::new()),
        }
    }

    /// Texts that the drop-in is merged over, in order. Empty in the mode `file`.
    ///
    /// # Errors
    /// A file is unreadable.
    pub fn underneath(&self, disk: &dyn Disk) -> Result<Vec<String>, PlacementError> {
        match &self.placement {
            Placement::File { .. } => Ok(Vec::new()),
            Placement::DropIn { config_dir, config } => drop_in::underneath(disk, config_dir, config.as_deref()),
        }
    }

    /// Reports whether the kubelet's configuration on disk has this content. In the mode `file`, first saves a file
    /// that the agent did not place as the local configuration.
    ///
    /// # Errors
    /// A file could not be read or saved.
    pub fn is_in_place(&self, disk: &dyn Disk, content: Content<'_>) -> Result<bool, PlacementError> {
        match &self.placement {
            Placement::File { config } => {
                let local = self.local_path();
                let found = file::adopt_local(disk, config, &local, &self.record)?;
                let wanted = match content {
                    Some(text) => Some(text.as_bytes().to_vec()),
                    None => durable::read(disk, &local, MAX_FILE)?,
                };
                Ok(found.is_some_and(|(found, _)| Some(found) == wanted))
            }
            Placement::DropIn { config_dir, .. } => {
                let found = regular(disk, &config_dir.join(DROP_IN_NAME))?;
                Ok(found.as_ref().map(|(found, _)| found.as_slice()) == content.map(str::as_bytes))
            }
        }
    }

    /// Reports whether the kubelet's configuration on disk has this content. Only reads.
    ///
    /// # Errors
    /// The file could not be read.
    pub fn holds(&self, disk: &dyn Disk, content: &str) -> Result<bool, PlacementError> {
        let found = match &self.placement {
            Placement::File { config } => regular(disk, config)?,
            Placement::DropIn { config_dir, .. } => regular(disk, &config_dir.join(DROP_IN_NAME))?,
        };
        Ok(found.is_some_and(|(found, _)| found == content.as_bytes()))
    }

    /// Puts a content in place, durably. `fallback`: content for a later rollback, which is prepared first; `None`
    /// prepares none.
    ///
    /// `rollback` is set for the rollback itself. It uses the prepared fallback, which needs no disk space, and
    /// ignores failed syncs. A failing disk must not keep the kubelet on a failed configuration.
    ///
    /// # Errors
    /// A step failed. The old or the new content is then in place, never a part.
    pub fn place(
        &mut self,
        disk: &dyn Disk,
        content: Content<'_>,
        fallback: Option<Content<'_>>,
        rollback: bool,
    ) -> Result<(), PlacementError> {
        let texts = [content, fallback.flatten()].into_iter().flatten();
        match self.placement.clone() {
            Placement::File { config } => {
                let local = self.local_path();
                let found = file::adopt_local(disk, &config, &local, &self.record)?;
                self.record.remember(disk, &self.folder, &self.placement, texts)?;
                let mode = file::mode(disk, found.as_ref(), &local)?;
                let own = file::local_text(disk, &config, &local);
                let own = match (content, fallback) {
                    (Some(_), None | Some(Some(_))) => String::new(),
                    _ => own?,
                };
                match fallback {
                    Some(fallback) => write_fallback(disk, &config, fallback.unwrap_or(&own).as_bytes(), mode)?,
                    None if !rollback => remove_fallback(disk, &config)?,
                    None => {}
                }
                Ok(replace_target(disk, &config, content.unwrap_or(&own).as_bytes(), mode, rollback)?)
            }
            Placement::DropIn { config_dir, .. } => {
                let target = config_dir.join(DROP_IN_NAME);
                regular(disk, &target)?;
                self.record.remember(disk, &self.folder, &self.placement, texts)?;
                match fallback {
                    Some(Some(fallback)) => write_fallback(disk, &target, fallback.as_bytes(), FILE_MODE)?,
                    _ if !rollback => remove_fallback(disk, &target)?,
                    _ => {}
                }
                match content {
                    Some(content) => Ok(replace_target(disk, &target, content.as_bytes(), FILE_MODE, rollback)?),
                    None => Ok(drop_in::remove(disk, &target, rollback)?),
                }
            }
        }
    }

    /// Path of the provisioned configuration.
    fn local_path(&self) -> PathBuf {
        self.folder.join(LOCAL)
    }
}

impl Placement {
    /// The activation that the agent reports.
    #[must_use]
    pub fn activation(&self) -> &'static str {
        match self {
            Self::File { .. } => FILE,
            Self::DropIn { .. } => DROP_IN,
        }
    }

    fn is_same_target(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { config: one }, Self::File { config: other }) => one == other,
            (Self::DropIn { config_dir: one, .. }, Self::DropIn { config_dir: other, .. }) => one == other,
            _ => false,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::File { config } => format!("the mode file for {}", config.display()),
            Self::DropIn { config_dir, .. } => format!("the mode drop-in for {}", config_dir.display()),
        }
    }
}

fn text(path: &Path, content: Vec<u8>) -> Result<String, PlacementError> {
    String::from_utf8(content).map_err(|_| PlacementError::NotUtf8(path.to_owned()))
}

/// Content and mode of a regular file. `None` if it is missing.
fn regular(disk: &dyn Disk, path: &Path) -> Result<Option<(Vec<u8>, u32)>, PlacementError> {
    match durable::stat(disk, path)? {
        None => Ok(None),
        Some(Entry { kind: EntryKind::File, mode }) => {
            let content = durable::read(disk, path, MAX_FILE)?;
            Ok(content.map(|content| (content, mode)))
        }
        Some(_) => Err(PlacementError::NotRegular(path.to_owned())),
    }
}

/// Hidden file name beside the kubelet's file, for content that is not in place yet. A kubelet ignores the suffix in
/// its `--config-dir`, where it reads only `.conf`.
fn sibling_path(target: &Path, suffix: &str) -> PathBuf {
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    target.with_file_name(format!(".{name}.nodecfg-{suffix}"))
}

/// Prepares the fallback beside the target, unless it is already prepared.
fn write_fallback(disk: &dyn Disk, target: &Path, content: &[u8], mode: u32) -> Result<(), DiskError> {
    let fallback = sibling_path(target, "ready");
    // The name of the fallback must survive while the target is on trial; its content was synced before the rename.
    let same = matches!(disk.read(&fallback, MAX_FILE), Ok(Some(found)) if found == content)
        && matches!(disk.stat(&fallback), Ok(Some(Entry { mode: found, .. })) if found == mode);
    if !same {
        // Written under another name, since a partially written fallback would be worse than none.
        let unfinished = sibling_path(target, "unfinished");
        durable::write_synced(disk, &unfinished, content, mode)?;
        durable::rename_verified(disk, &unfinished, &fallback, content)?;
    }
    durable::sync(disk, durable::folder_of(target))
}

/// Puts a content in place of the target. In a rollback, a prepared fallback is only renamed.
fn replace_target(disk: &dyn Disk, target: &Path, content: &[u8], mode: u32, rollback: bool) -> Result<(), DiskError> {
    let fallback = sibling_path(target, "ready");
    let is_prepared = rollback && matches!(disk.read(&fallback, MAX_FILE), Ok(Some(found)) if found == content);
    let in_place = matches!(disk.read(target, MAX_FILE), Ok(Some(found)) if found == content);
    if in_place {
        // An agent that was killed before the sync may have left this file.
        durable::sync(disk, target).or_else(|error| if rollback { Ok(()) } else { Err(error) })?;
    } else {
        let from = if is_prepared { fallback } else { sibling_path(target, "unfinished") };
        if !is_prepared {
            durable::write_synced(disk, &from, content, mode)?;
        }
        durable::rename_verified(disk, &from, target, content)?;
    }
    tolerate_sync_error(durable::sync(disk, durable::folder_of(target)), rollback)
}

/// Writes a drop-in durably and as a whole. After a crash, the kubelet reads the old file or the new one.
///
/// # Errors
/// An I/O error.
pub(crate) fn write_drop_in(disk: &dyn Disk, path: &Path, content: &str) -> Result<(), DiskError> {
    replace_target(disk, path, content.as_bytes(), FILE_MODE, false)
}

/// Removes a drop-in durably. A missing one is no error.
///
/// # Errors
/// An I/O error.
pub(crate) fn remove_drop_in(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    drop_in::remove(disk, path, false)
}

/// Ignores a failed sync during a rollback. If the change is lost, the agent detects that at its next start.
fn tolerate_sync_error(result: Result<(), DiskError>, rollback: bool) -> Result<(), DiskError> {
    match result {
        Err(error) if rollback => {
            tracing::warn!(%error, "the fallback configuration may not survive a power failure");
            Ok(())
        }
        result => result,
    }
}

/// Removes a fallback that is no longer needed.
fn remove_fallback(disk: &dyn Disk, target: &Path) -> Result<(), DiskError> {
    let fallback = sibling_path(target, "ready");
    disk.remove_file(&fallback).map_err(DiskError::at("remove", &fallback))
}
