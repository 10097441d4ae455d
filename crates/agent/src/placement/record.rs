//! Record of placed contents. It distinguishes the agent's files from a new provisioned file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Activation, PlacementError};
use crate::disk::Disk;
use crate::disk::durable::{self, DiskError, FILE_MODE};

/// File name in the agent's folder.
const NAME: &str = "placement.json";
/// Format of the file.
const FORMAT: u64 = 1;
/// Size limit of the file, in bytes.
const MAX_FILE: u64 = 64 << 10;
/// Maximum number of recorded contents. Two are in use at a time.
const MAX_REMEMBERED: usize = 16;

/// Hashes of the contents that were placed or about to be placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    format: u64,
    #[serde(rename = "placement")]
    activation: Option<Activation>,
    /// BLAKE3 hashes of the contents, in hexadecimal, latest last.
    placed: Vec<String>,
    /// Whether this process knows that the file is durable. An earlier one may have been killed before its sync.
    #[serde(skip)]
    is_synced: bool,
}

impl Default for Record {
    fn default() -> Self {
        Self { format: FORMAT, activation: None, placed: Vec::new(), is_synced: false }
    }
}

impl Record {
    pub(super) fn load(disk: &dyn Disk, folder: &Path) -> Result<Self, PlacementError> {
        let path = folder.join(NAME);
        let Some(content) = durable::read(disk, &path, MAX_FILE)? else { return Ok(Self::default()) };
        let record: Self = serde_json::from_slice(&content).map_err(|error| unreadable(&path, error.to_string()))?;
        if record.format == FORMAT {
            return Ok(record);
        }
        Err(unreadable(&path, format!("it has format {}, expected {FORMAT}", record.format)))
    }

    /// Activation that the recorded contents belong to.
    pub(super) fn activation(&self) -> Option<&Activation> {
        self.activation.as_ref()
    }

    /// Reports whether a content is recorded: the agent placed it or was about to.
    pub(super) fn contains(&self, content: &[u8]) -> bool {
        self.placed.contains(&hash(content))
    }

    /// Forgets all contents, durably.
    pub(super) fn forget(&mut self, disk: &dyn Disk, folder: &Path) -> Result<(), DiskError> {
        let path = folder.join(NAME);
        disk.remove_file(&path).map_err(DiskError::at("remove", &path))?;
        durable::sync(disk, folder)?;
        *self = Self::default();
        Ok(())
    }

    /// Records contents before they are placed. Writes nothing if all are recorded for this activation.
    pub(super) fn remember<'a>(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        activation: &Activation,
        texts: impl Iterator<Item = &'a str>,
        rollback: bool,
    ) -> Result<(), PlacementError> {
        let mut next = Self { activation: Some(activation.clone()), ..self.clone() };
        let hashes: Vec<String> = texts.map(|text| hash(text.as_bytes())).collect();
        // If all contents are known, the record stays as it is, so that a rollback need not write it.
        if !hashes.iter().all(|hash| next.placed.contains(hash)) {
            next.placed.retain(|known| !hashes.contains(known));
            next.placed.extend(hashes);
            let surplus = next.placed.len().saturating_sub(MAX_REMEMBERED);
            next.placed.drain(..surplus);
        }
        let path = folder.join(NAME);
        if next == *self {
            if !self.is_synced && !self.placed.is_empty() {
                let synced = durable::sync(disk, &path).and_then(|()| durable::sync(disk, folder));
                self.is_synced = synced.is_ok();
                // A failed configuration is worse than a record that a power failure may lose.
                return synced.or_else(|error| if rollback { Ok(()) } else { Err(error.into()) });
            }
            return Ok(());
        }
        let mut text = serde_json::to_vec_pretty(&next).map_err(|error| unreadable(&path, error.to_string()))?;
        text.push(b'\n');
        durable::folder(disk, folder)?;
        durable::replace(disk, &path, &text, FILE_MODE)?;
        *self = Self { is_synced: true, ..next };
        Ok(())
    }
}

/// BLAKE3 hash of a content, in hexadecimal.
pub(super) fn hash(content: &[u8]) -> String {
    nodecfg_contract::digest(content)
}

fn unreadable(path: &Path, problem: String) -> PlacementError {
    PlacementError::Unreadable { path: PathBuf::from(path), problem }
}
