//! Placement of the kubelet's configuration. Files are replaced as a whole and durably. The content for a rollback,
//! the fallback, is prepared in advance, so that the rollback needs no disk space.
//!
//! The placement says what the kubelet gets of a reviewed text: the text alone (replace), or the text merged over the
//! node's own configuration (overlay). The activation says how. `file` writes the kubelet's `--config`, and keeps the
//! node's own file. `drop-in` adds a file to the kubelet's `--config-dir` (1.28 on), which the kubelet merges itself, so
//! it carries overlays only.
//!
//! With `file`, the own configuration is the file as it was before the activation, kept until the kubelet's file is the
//! same again. A file that another program writes is the new one.
//!
//! Must not make decisions: the runtime chooses the content and checks that a kubelet accepts it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::content;
use super::content::Underneath;
use super::disk::durable::{DiskError, FILE_MODE};
use super::disk::{Disk, Entry, EntryKind, durable};
use super::proof::{KubeletFiles, Unproven};
use nodecfg_contract::{KubeletVersion, Placement};

mod drop_in;
#[cfg(test)]
mod drop_in_tests;
mod file;
#[cfg(test)]
mod own_file_tests;
mod record;
#[cfg(test)]
mod tests;

pub(crate) use drop_in::{DropIns, texts as kubelet_texts};
use file::OwnFile;
use record::Record;

/// Name of the file in the kubelet's `--config-dir`. Kubelets merge it over the files with earlier names.
pub const DROP_IN_NAME: &str = "90-nodecfg.conf";
/// File in the agent's folder with the node's own configuration, while the kubelet's file is the agent's.
const LOCAL: &str = "local";

/// Size limit of a kubelet configuration, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// How the kubelet gets its configuration, with the paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "mode")]
pub enum Activation {
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
         the file itself, or use --activation drop-in",
        .0.display()
    )]
    NotRegular(PathBuf),
    /// The kubelet's configuration is missing, and no local configuration was kept.
    #[error("{} does not exist: name the file of the kubelet's --config, or use --activation drop-in", .0.display())]
    NoConfig(PathBuf),
    /// The folder of the kubelet's `--config-dir` is missing.
    #[error(
        "{} is not a folder: create it and set it as the kubelet's --config-dir, or use --activation file",
        .0.display()
    )]
    NoFolder(PathBuf),
    /// The folder of the kubelet's `--config-dir` is a link, which kubelets do not follow.
    #[error(
        "{} is a link, and a kubelet reads no file below it: name the folder itself in the kubelet's --config-dir and in \
         --kubelet-config-dir, or end both with a slash",
        .0.display()
    )]
    LinkedFolder(PathBuf),
    /// The kubelet cannot read one of its drop-ins, and does not start.
    #[error("{0}: the kubelet does not start with its --config-dir; correct or remove the file")]
    Unread(String),
    /// The folders below the folder of the kubelet's `--config-dir` are nested too deeply.
    #[error("{} is nested too deeply: move its files up", .0.display())]
    TooDeep(PathBuf),
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
    /// A file of the kubelet is not UTF-8.
    #[error("{} is not UTF-8 text", .0.display())]
    NotUtf8(PathBuf),
    /// The node's own file is no KubeletConfiguration, so nothing can be merged over it. Its content is not published.
    #[error("the node's own configuration {} cannot be read as a KubeletConfiguration: correct the file", .0.display())]
    NotAConfiguration(PathBuf),
    /// Another program writes the node's own file at this moment.
    #[error("{} changes while it is read", .0.display())]
    Changing(PathBuf),
    /// The placement needs another activation.
    #[error(
        "placement replace needs an agent with --activation file, because the kubelet merges drop-ins over its other files"
    )]
    NeedsFile,
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
    OtherActivation {
        /// Previous mode and path.
        was: String,
    },
}

/// A reviewed text with its placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reviewed<'a> {
    /// The text.
    pub text: &'a str,
    /// What the kubelet gets of it.
    pub placement: Placement,
}

/// Configuration to place. `None` is the node's own configuration.
pub type Content<'a> = Option<Reviewed<'a>>;

/// Placement of configurations, with a record of earlier ones.
#[derive(Debug)]
pub struct Placer {
    activation: Activation,
    /// The agent's folder.
    folder: PathBuf,
    record: Record,
}

impl Placer {
    /// Loads the record of placed texts and checks the paths. Only reads. `on_local`: the kubelet runs its own
    /// configuration and no change is in progress.
    ///
    /// # Errors
    /// The record is invalid, an earlier activation is still in use, or the kubelet's file or folder is missing or of
    /// the wrong kind.
    pub fn open(
        disk: &dyn Disk,
        folder: &Path,
        activation: Activation,
        on_local: bool,
    ) -> Result<Self, PlacementError> {
        let record = Record::load(disk, folder)?;
        let was = record.activation().filter(|was| !was.is_same_target(&activation)).map(Activation::describe);
        let record = match was {
            Some(was) if !on_local => return Err(PlacementError::OtherActivation { was }),
            Some(_) => Record::default(),
            None => record,
        };
        let placer = Self { activation, folder: folder.to_owned(), record };
        match &placer.activation {
            Activation::File { config } => file::check(disk, config, &placer.local_path())?,
            Activation::DropIn { config_dir, .. } => drop_in::check(disk, config_dir)?,
        }
        Ok(placer)
    }

    /// Placement of an assignment that names none: what agents did before placements existed.
    #[must_use]
    pub fn default_placement(&self) -> Placement {
        self.activation.default_placement()
    }

    /// Reports whether the activation can do this.
    ///
    /// # Errors
    /// [`PlacementError::NeedsFile`].
    pub fn supports(&self, placement: Placement) -> Result<(), PlacementError> {
        match (&self.activation, placement) {
            (Activation::DropIn { .. }, Placement::Replace) => Err(PlacementError::NeedsFile),
            _ => Ok(()),
        }
    }

    /// Configuration that the kubelet loads for this content, merged. If the kubelet merges it, and its version is known,
    /// the version's defaults are written out.
    ///
    /// # Errors
    /// A file is unreadable.
    pub fn effective(
        &self,
        disk: &dyn Disk,
        content: Content<'_>,
        kubelet: Option<KubeletVersion>,
    ) -> Result<String, PlacementError> {
        match &self.activation {
            Activation::File { config } => self.own_file(disk, config)?.with(content),
            Activation::DropIn { config_dir, config } => {
                let under = drop_in::underneath(disk, config_dir, config.as_deref())?;
                let reviewed = content.map(|content| content.text);
                let merged = content::merged_text(&under, reviewed, kubelet);
                Ok(merged.unwrap_or_else(|| reviewed.map(str::to_owned).or(under.config).unwrap_or_default()))
            }
        }
    }

    /// The node's own texts that a reviewed text is laid over.
    ///
    /// # Errors
    /// A file is unreadable.
    pub(crate) fn underneath(&self, disk: &dyn Disk, placement: Placement) -> Result<Underneath, PlacementError> {
        match (&self.activation, placement) {
            (Activation::File { .. }, Placement::Replace) => Ok(Underneath::default()),
            (Activation::File { config }, Placement::Overlay) => {
                Ok(Underneath::file(self.own_file(disk, config)?.configuration()?))
            }
            (Activation::DropIn { config_dir, config }, _) => drop_in::underneath(disk, config_dir, config.as_deref()),
        }
    }

    /// What a kubelet with these paths of `--config` and `--config-dir` reads.
    ///
    /// # Errors
    /// The kubelet does not read what the agent places, or the agent cannot read a file.
    pub(crate) fn kubelet_files(&self, disk: &dyn Disk, paths: [Option<String>; 2]) -> Result<KubeletFiles, Unproven> {
        let [config, config_dir] = paths;
        let (flag, given, wanted) = match &self.activation {
            Activation::File { config: wanted } => ("--config", config.as_deref(), wanted),
            Activation::DropIn { config_dir: wanted, .. } => ("--config-dir", config_dir.as_deref(), wanted),
        };
        if given.is_none_or(|given| Path::new(given) != wanted) {
            return Err(Unproven::OtherPath { flag, path: wanted.display().to_string() });
        }
        let drop_in = (flag == "--config-dir").then_some(DROP_IN_NAME);
        let read = |path: String| {
            let content = durable::read(disk, Path::new(&path), MAX_FILE)?;
            let content = content.ok_or_else(|| PlacementError::NoConfig(PathBuf::from(&path)))?;
            Ok::<_, PlacementError>((path.clone(), text(Path::new(&path), content)?))
        };
        let unreadable = |error: PlacementError| {
            tracing::warn!(%error, "cannot tell what the kubelet runs");
            Unproven::Unreadable
        };
        let config = config.map(read).transpose().map_err(unreadable)?;
        let config_dir = config_dir.map(|path| drop_in::folder(disk, &path)).transpose().map_err(unreadable)?;
        if config_dir.as_ref().is_some_and(|folder| folder.root.is_none()) {
            return Err(Unproven::Unreadable);
        }
        // The agent prepares its files in the folder of drop-ins, so that the folder itself changes without effect.
        let folder = config_dir.as_ref().filter(|_| drop_in.is_none()).map(|folder| folder.path.clone());
        let mut files = KubeletFiles { config, config_dir, changed_at: None, drop_in };
        for path in files.paths().into_iter().chain(folder) {
            let changed = disk.changed_at(Path::new(&path)).map_err(DiskError::at("look at", Path::new(&path)));
            files.changed_at = files.changed_at.max(changed.map_err(|error| unreadable(error.into()))?);
        }
        Ok(files)
    }

    /// Hash of the text that the kubelet's file or the drop-in has for this content.
    ///
    /// # Errors
    /// A file is unreadable.
    pub fn digest(&self, disk: &dyn Disk, content: Content<'_>) -> Result<Option<String>, PlacementError> {
        Ok(self.written(disk, content)?.map(|text| record::hash(text.as_bytes())))
    }

    /// Hash of the text that the kubelet's file or the drop-in has now. `None` if it is missing.
    ///
    /// # Errors
    /// The file is unreadable.
    pub(crate) fn found_digest(&self, disk: &dyn Disk) -> Result<Option<String>, PlacementError> {
        Ok(regular(disk, &self.target())?.map(|(found, _)| record::hash(&found)))
    }

    /// Text that the kubelet's file has now. `None` for drop-ins, whose effect depends on other files.
    #[must_use]
    pub(crate) fn found_text(&self, disk: &dyn Disk) -> Option<String> {
        match &self.activation {
            Activation::File { config } => String::from_utf8(regular(disk, config).ok()??.0).ok(),
            Activation::DropIn { .. } => None,
        }
    }

    /// Reports whether the kubelet's configuration on disk has this content. Only reads.
    ///
    /// # Errors
    /// A file could not be read.
    pub(crate) fn is_in_place(&self, disk: &dyn Disk, content: Content<'_>) -> Result<bool, PlacementError> {
        let found = regular(disk, &self.target())?;
        let written = self.written(disk, content)?;
        Ok(found.as_ref().map(|(found, _)| found.as_slice()) == written.as_deref().map(str::as_bytes))
    }

    /// Text that an activation writes for this content. `None` for the own configuration below drop-ins.
    fn written(&self, disk: &dyn Disk, content: Content<'_>) -> Result<Option<String>, PlacementError> {
        if let Some(content) = content {
            self.supports(content.placement)?;
        }
        match &self.activation {
            Activation::File { config } => self.own_file(disk, config)?.with(content).map(Some),
            Activation::DropIn { .. } => Ok(content.map(|content| content.text.to_owned())),
        }
    }

    /// Puts a content in place, durably. `fallback`: content for a later rollback, which is prepared first; `None`
    /// prepares none. Returns the hash of the text, except for the own configuration.
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
    ) -> Result<Option<String>, PlacementError> {
        for content in [content, fallback.flatten()].into_iter().flatten() {
            self.supports(content.placement)?;
        }
        match self.activation.clone() {
            Activation::File { config } => {
                let own = self.own_file(disk, &config)?;
                // Nothing is written unless both texts can be made.
                let text = own.with(content)?;
                if content.is_none() {
                    own.check_start()?;
                }
                let prepared = fallback.map(|fallback| own.with(fallback)).transpose()?;
                own.keep(disk)?;
                // The own configuration must not count as placed by the agent.
                let texts = [content.map(|_| text.as_str()), fallback.flatten().and(prepared.as_deref())];
                self.record.remember(disk, &self.folder, &self.activation, texts.into_iter().flatten(), rollback)?;
                let mode = own.mode(disk)?;
                match &prepared {
                    Some(prepared) => write_fallback(disk, &config, prepared.as_bytes(), mode)?,
                    None if !rollback => remove_fallback(disk, &config)?,
                    None => {}
                }
                own.still_there(disk)?;
                replace_target(disk, &config, text.as_bytes(), mode, rollback)?;
                Ok(content.map(|_| record::hash(text.as_bytes())))
            }
            Activation::DropIn { config_dir, .. } => {
                let target = config_dir.join(DROP_IN_NAME);
                regular(disk, &target)?;
                let (content, fallback) = (content.map(|content| content.text), fallback.flatten());
                let texts = content.into_iter().chain(fallback.map(|fallback| fallback.text));
                self.record.remember(disk, &self.folder, &self.activation, texts, rollback)?;
                match fallback {
                    Some(fallback) => write_fallback(disk, &target, fallback.text.as_bytes(), FILE_MODE)?,
                    None if !rollback => remove_fallback(disk, &target)?,
                    None => {}
                }
                match content {
                    Some(text) => replace_target(disk, &target, text.as_bytes(), FILE_MODE, rollback)?,
                    None => drop_in::remove(disk, &target, rollback)?,
                }
                Ok(content.map(|text| record::hash(text.as_bytes())))
            }
        }
    }

    /// Removes the kept own configuration and the record, once the node runs its own configuration again: what is on disk
    /// then depends on no earlier assignment.
    ///
    /// # Errors
    /// An I/O error. What remains does no harm.
    pub(crate) fn remove_kept(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        match &self.activation {
            Activation::File { config } => file::remove_kept(disk, config, &self.folder, &mut self.record),
            Activation::DropIn { .. } => Ok(()),
        }
    }

    /// Path of the node's own configuration.
    fn local_path(&self) -> PathBuf {
        self.folder.join(LOCAL)
    }

    /// The node's own configuration with the activation `file`.
    fn own_file(&self, disk: &dyn Disk, config: &Path) -> Result<OwnFile, PlacementError> {
        OwnFile::read(disk, config, &self.local_path(), &self.record)
    }

    /// The file that an activation writes.
    fn target(&self) -> PathBuf {
        match &self.activation {
            Activation::File { config } => config.clone(),
            Activation::DropIn { config_dir, .. } => config_dir.join(DROP_IN_NAME),
        }
    }
}

impl Activation {
    /// Placement of an assignment that names none: what agents did before placements existed.
    #[must_use]
    pub fn default_placement(&self) -> Placement {
        match self {
            Self::File { .. } => Placement::Replace,
            Self::DropIn { .. } => Placement::Overlay,
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
            Self::File { config } => format!("--activation file for {}", config.display()),
            Self::DropIn { config_dir, .. } => format!("--activation drop-in for {}", config_dir.display()),
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
