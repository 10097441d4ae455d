//! Where the kubelet reads its configuration, and putting one there: replaced as a whole, durably, with what a fall back
//! needs made ready beforehand, so that it needs no room on the disk.
//!
//! Two ways: `file`, the kubelet's `--config` itself, of which the one that the node was provisioned with is kept as the
//! local configuration; and `drop-in`, a file in its `--config-dir` (1.28 on), which is laid over what the node was
//! provisioned with. Decides nothing: what is placed, and that a kubelet accepts it, is the runtime's business.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::content;
use super::disk::durable::{self, DiskError, FILE_MODE};
use super::disk::{Disk, Entry, EntryKind};

mod drop_in;
mod file;
mod record;
#[cfg(test)]
mod tests;

use record::Record;

/// The name of the file in the kubelet's `--config-dir`: after what others put there with lower numbers.
pub const DROP_IN_NAME: &str = "90-nodecfg.conf";
/// The configuration that the node was provisioned with, in the agent's folder.
const LOCAL: &str = "local";

/// The largest configuration of a kubelet that is read.
const MAX_FILE: u64 = 4 << 20;

/// Where the kubelet reads its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "mode")]
pub enum Placement {
    /// The file of its `--config` is replaced.
    #[serde(rename_all = "camelCase")]
    File {
        /// That file.
        config: PathBuf,
    },
    /// A file is put into the folder of its `--config-dir`.
    #[serde(rename_all = "camelCase")]
    DropIn {
        /// That folder.
        config_dir: PathBuf,
        /// The file of its `--config`, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        config: Option<PathBuf>,
    },
}

/// Why a configuration cannot be placed, or what is placed not be read.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A link, a folder or something else where the kubelet's configuration should be.
    #[error(
        "{} is no regular file: nodecfg replaces the kubelet's configuration and follows no link; name the file itself, or \
         use the mode drop-in",
        .0.display()
    )]
    NotRegular(PathBuf),
    /// Nothing where the kubelet's configuration should be.
    #[error("{} does not exist: name the file of the kubelet's --config, or use the mode drop-in", .0.display())]
    NoConfig(PathBuf),
    /// No folder where the kubelet's `--config-dir` should be.
    #[error("{} is no folder: make it and name it to the kubelet with --config-dir, or use the mode file", .0.display())]
    NoFolder(PathBuf),
    /// A file that is laid under ours and cannot be read as text.
    #[error("{} is no UTF-8 text", .0.display())]
    NoText(PathBuf),
    /// The agent's record of what it placed cannot be understood.
    #[error("{} cannot be read: {problem}; see to it that the kubelet has the right configuration, then remove it", path.display())]
    Unreadable {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The agent worked another way before, and what it placed there is still in use.
    #[error(
        "this agent was run before with {was} and the kubelet is still on what it placed there; run it so again, remove \
         spec.configSource, and change over once the node is on its local configuration"
    )]
    OtherPlacement {
        /// How.
        was: String,
    },
}

/// What is to be placed. `None` is the local configuration.
pub type Content<'a> = Option<&'a str>;

/// A way of placing, with what it knows.
#[derive(Debug)]
pub struct Placer {
    placement: Placement,
    /// The agent's folder.
    folder: PathBuf,
    record: Record,
}

impl Placer {
    /// Reads what was placed before; touches nothing. `on_local`: the kubelet runs its local configuration and nothing else
    /// is under way.
    ///
    /// # Errors
    /// What stands in the way of ever placing anything.
    pub fn open(disk: &dyn Disk, folder: &Path, placement: Placement, on_local: bool) -> Result<Self, PlacementError> {
        let record = Record::load(disk, folder)?;
        let was = record.placement().filter(|was| !was.same_place(&placement)).map(Placement::describe);
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

    /// The configuration that the kubelet starts with when this is placed: in drop-in mode laid over what is underneath.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn effective(&self, disk: &dyn Disk, content: Content<'_>) -> Result<String, PlacementError> {
        let under = self.underneath(disk)?;
        match (&self.placement, content, under.split_last()) {
            (Placement::File { .. }, Some(own), _) => Ok(own.to_owned()),
            (Placement::DropIn { .. }, Some(own), _) => {
                Ok(content::whole(&under, own).unwrap_or_else(|| own.to_owned()))
            }
            (Placement::File { config }, None, _) => file::local_text(disk, config, &self.local_path()),
            (Placement::DropIn { .. }, None, Some((last, rest))) => {
                Ok(content::whole(rest, last).unwrap_or_else(|| last.clone()))
            }
            (Placement::DropIn { .. }, None, None) => Ok(String::new()),
        }
    }

    /// The texts that ours is laid over, in this order. None in the mode `file`.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn underneath(&self, disk: &dyn Disk) -> Result<Vec<String>, PlacementError> {
        match &self.placement {
            Placement::File { .. } => Ok(Vec::new()),
            Placement::DropIn { config_dir, config } => drop_in::underneath(disk, config_dir, config.as_deref()),
        }
    }

    /// Whether the kubelet's configuration on disk is this. A provisioned one that was changed meanwhile is kept as the local
    /// configuration first.
    ///
    /// # Errors
    /// What cannot be read or kept.
    pub fn is_in_place(&self, disk: &dyn Disk, content: Content<'_>) -> Result<bool, PlacementError> {
        match &self.placement {
            Placement::File { config } => {
                let local = self.local_path();
                let found = file::adopt(disk, config, &local, &self.record)?;
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

    /// Puts a content in place, durably. `ready` is what may have to be placed in a hurry afterwards; it is made ready first.
    /// `hurry`: that is what happens now. The kubelet leaves a content that failed, and a disk that is full, or does not say
    /// what is durable, must not keep it there.
    ///
    /// # Errors
    /// What could not be done. Either content may be in place then; the kubelet reads neither in part.
    pub fn place(
        &mut self,
        disk: &dyn Disk,
        content: Content<'_>,
        ready: Option<Content<'_>>,
        hurry: bool,
    ) -> Result<(), PlacementError> {
        let texts = [content, ready.flatten()].into_iter().flatten();
        match self.placement.clone() {
            Placement::File { config } => {
                let local = self.local_path();
                let found = file::adopt(disk, &config, &local, &self.record)?;
                self.record.note(disk, &self.folder, &self.placement, texts)?;
                let mode = file::mode(disk, found.as_ref(), &local)?;
                let own = file::local_text(disk, &config, &local);
                let own = match (content, ready) {
                    (Some(_), None | Some(Some(_))) => String::new(),
                    _ => own?,
                };
                match ready {
                    Some(ready) => make_ready(disk, &config, ready.unwrap_or(&own).as_bytes(), mode)?,
                    None if !hurry => remove_ready(disk, &config)?,
                    None => {}
                }
                Ok(put(disk, &config, content.unwrap_or(&own).as_bytes(), mode, hurry)?)
            }
            Placement::DropIn { config_dir, .. } => {
                let target = config_dir.join(DROP_IN_NAME);
                regular(disk, &target)?;
                self.record.note(disk, &self.folder, &self.placement, texts)?;
                match ready {
                    Some(Some(ready)) => make_ready(disk, &target, ready.as_bytes(), FILE_MODE)?,
                    _ if !hurry => remove_ready(disk, &target)?,
                    _ => {}
                }
                match content {
                    Some(content) => Ok(put(disk, &target, content.as_bytes(), FILE_MODE, hurry)?),
                    None => Ok(drop_in::remove(disk, &target, hurry)?),
                }
            }
        }
    }

    /// Where the configuration is kept that the node was provisioned with.
    fn local_path(&self) -> PathBuf {
        self.folder.join(LOCAL)
    }
}

impl Placement {
    fn same_place(&self, other: &Self) -> bool {
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
    String::from_utf8(content).map_err(|_| PlacementError::NoText(path.to_owned()))
}

/// A regular file with its mode. `None`: nothing is there.
fn regular(disk: &dyn Disk, path: &Path) -> Result<Option<(Vec<u8>, u32)>, PlacementError> {
    match durable::look(disk, path)? {
        None => Ok(None),
        Some(Entry { kind: EntryKind::File, mode }) => {
            let content = durable::read(disk, path, MAX_FILE)?;
            Ok(content.map(|content| (content, mode)))
        }
        Some(_) => Err(PlacementError::NotRegular(path.to_owned())),
    }
}

/// A name beside the kubelet's file for what is not in place yet. Hidden, and with an ending that a kubelet does not read in
/// its `--config-dir` (`.conf` alone counts there).
fn beside(target: &Path, ending: &str) -> PathBuf {
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    target.with_file_name(format!(".{name}.nodecfg-{ending}"))
}

/// Makes a content ready beside the target, unless it is.
fn make_ready(disk: &dyn Disk, target: &Path, content: &[u8], mode: u32) -> Result<(), DiskError> {
    let ready = beside(target, "ready");
    // Neither its name nor its content may be lost while the target is on trial.
    let same = matches!(disk.read(&ready, MAX_FILE), Ok(Some(found)) if found == content)
        && matches!(disk.look(&ready), Ok(Some(Entry { mode: found, .. })) if found == mode);
    if !same {
        // Written apart: a file that was ready and is torn now would be worse than none.
        let unfinished = beside(target, "unfinished");
        durable::stage(disk, &unfinished, content, mode)?;
        durable::move_in(disk, &unfinished, &ready, content)?;
    }
    durable::sync(disk, durable::folder_of(target))
}

/// Puts a content in place of the target: what is ready is only renamed.
fn put(disk: &dyn Disk, target: &Path, content: &[u8], mode: u32, hurry: bool) -> Result<(), DiskError> {
    let ready = beside(target, "ready");
    let is_ready = hurry && matches!(disk.read(&ready, MAX_FILE), Ok(Some(found)) if found == content);
    let in_place = matches!(disk.read(target, MAX_FILE), Ok(Some(found)) if found == content);
    if in_place {
        // Perhaps by an agent that was killed before it was durable.
        durable::sync(disk, target).or_else(|error| if hurry { Ok(()) } else { Err(error) })?;
    } else {
        let from = if is_ready { ready } else { beside(target, "unfinished") };
        if !is_ready {
            durable::stage(disk, &from, content, mode)?;
        }
        durable::move_in(disk, &from, target, content)?;
    }
    durable_in_time(durable::sync(disk, durable::folder_of(target)), hurry)
}

/// In a hurry, what cannot be made durable is placed all the same: if it is lost, the agent finds that out when it starts.
fn durable_in_time(result: Result<(), DiskError>, hurry: bool) -> Result<(), DiskError> {
    match result {
        Err(error) if hurry => {
            tracing::warn!(%error, "the configuration that the kubelet falls back to may not survive a power failure");
            Ok(())
        }
        result => result,
    }
}

/// What is ready is needed no more.
fn remove_ready(disk: &dyn Disk, target: &Path) -> Result<(), DiskError> {
    let ready = beside(target, "ready");
    disk.remove_file(&ready).map_err(DiskError::at("remove", &ready))
}
