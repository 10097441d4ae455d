//! Record of placed contents. It distinguishes the agent's files from a new provisioned file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Placement, PlacementError};
use crate::disk::Disk;
use crate::disk::durable::{self, FILE_MODE};

/// File name in the agent's folder.
const NAME: &str = "placement.json";
/// Format of the file.
const FORMAT: u64 = 1;
/// Size limit of the file.
const MAX_FILE: u64 = 64 << 10;
/// Maximum number of recorded contents. Two are in use at a time.
const MAX_REMEMBERED: usize = 16;

/// Contents that were placed or about to be placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    format: u64,
    placement: Option<Placement>,
    /// BLAKE3 hashes of the contents, in hexadecimal, latest last.
    placed: Vec<String>,
}

impl Default for Record {
    fn default() -> Self {
        Self { format: FORMAT, placement: None, placed: Vec::new() }
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

    /// Placement of the recorded contents.
    pub(super) fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    /// Reports whether the agent placed this content.
    pub(super) fn contains(&self, content: &[u8]) -> bool {
        self.placed.contains(&name(content))
    }

    /// Records contents before they are placed. Writes nothing if they are already recorded.
    pub(super) fn remember<'a>(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        placement: &Placement,
        texts: impl Iterator<Item = &'a str>,
    ) -> Result<(), PlacementError> {
        let mut next = Self { placement: Some(placement.clone()), ..self.clone() };
        let names: Vec<String> = texts.map(|text| name(text.as_bytes())).collect();
        // Known contents keep their position, so that a rollback does not need to write.
        if !names.iter().all(|name| next.placed.contains(name)) {
            next.placed.retain(|known| !names.contains(known));
            next.placed.extend(names);
            let surplus = next.placed.len().saturating_sub(MAX_REMEMBERED);
            next.placed.drain(..surplus);
        }
        if next == *self {
            return Ok(());
        }
        let path = folder.join(NAME);
        let mut text = serde_json::to_vec_pretty(&next).map_err(|error| unreadable(&path, error.to_string()))?;
        text.push(b'\n');
        durable::folder(disk, folder)?;
        durable::replace(disk, &path, &text, FILE_MODE)?;
        *self = next;
        Ok(())
    }
}

fn name(content: &[u8]) -> String {
    nodecfg_contract::digest(content)
}

fn unreadable(path: &Path, problem: String) -> PlacementError {
    PlacementError::Unreadable { path: PathBuf::from(path), problem }
}
