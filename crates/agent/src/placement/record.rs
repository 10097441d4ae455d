//! What the agent placed, so that a kubelet's file that it did not write is known for what it is: a new provisioned one.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Placement, PlacementError};
use crate::disk::Disk;
use crate::disk::durable::{self, FILE_MODE};

/// The file in the agent's folder.
const NAME: &str = "placement.json";
/// Its format.
const FORMAT: u64 = 1;
/// The largest one that is read.
const MAX_FILE: u64 = 64 << 10;
/// How many contents it remembers. Two are in use at a time.
const REMEMBERED: usize = 16;

/// What was placed, or was about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    format: u64,
    placement: Option<Placement>,
    /// BLAKE3 of the contents, in hexadecimal, the latest last.
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
        Err(unreadable(&path, format!("it has format {} where only {FORMAT} is known", record.format)))
    }

    /// How the agent placed what it placed.
    pub(super) fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    /// Whether the agent placed this.
    pub(super) fn knows(&self, content: &[u8]) -> bool {
        self.placed.contains(&name(content))
    }

    /// Remembers contents before they are placed. Writes nothing when they are known.
    pub(super) fn note<'a>(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        placement: &Placement,
        texts: impl Iterator<Item = &'a str>,
    ) -> Result<(), PlacementError> {
        let mut next = Self { placement: Some(placement.clone()), ..self.clone() };
        let names: Vec<String> = texts.map(|text| name(text.as_bytes())).collect();
        // Known ones are not even moved: falling back must not need to write.
        if !names.iter().all(|name| next.placed.contains(name)) {
            next.placed.retain(|known| !names.contains(known));
            next.placed.extend(names);
            let surplus = next.placed.len().saturating_sub(REMEMBERED);
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
