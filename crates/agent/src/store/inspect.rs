//! What is in a store, for people: read without the lock, without changing anything, and as far as it can be read.

use std::path::Path;

use serde::Serialize;

use super::checkpoints::{MAX_FILE, resolved};
use super::{CHECKPOINTS, STORE, Store, StoreError};
use crate::disk::durable::{self, DiskError};
use crate::disk::{Disk, EntryKind};
use crate::state::{AgentState, Ledger};
use nodecfg_contract::ConfigSource;

/// A store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// What is assigned; `None` is the local configuration, or not known when there are problems.
    pub assigned: Option<ConfigSource>,
    /// What the kubelet falls back to.
    pub last_known_good: Option<ConfigSource>,
    /// What the kubelet's own format has no place for: what is active, the phase, the failure, and counters.
    pub beyond: AgentState,
    /// The checkpoints, by uid and resourceVersion.
    pub checkpoints: Vec<CheckpointFolder>,
    /// What is wrong with it.
    pub problems: Vec<String>,
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointFolder {
    /// The ConfigMap's uid.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// What names it: `assigned`, `lastKnownGood`, `active`.
    pub named_by: Vec<&'static str>,
    /// Its keys.
    pub files: Vec<CheckpointFile>,
}

/// A key of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointFile {
    /// The key.
    pub key: String,
    /// Its size; unset when it cannot be read.
    pub bytes: Option<u64>,
}

/// Describes the store in an agent's folder. Changes nothing; what cannot be read is among the problems.
#[must_use]
pub fn inspect(disk: &dyn Disk, folder: &Path) -> Description {
    let mut found = Description::default();
    match Store::new(folder).load(disk) {
        Ok(Ledger { assigned, last_known_good, beyond }) => {
            found = Description { assigned, last_known_good, beyond, ..found };
        }
        Err(error) => found.problems.push(error.to_string()),
    }
    if let Err(error) = checkpoints(disk, &folder.join(STORE).join(CHECKPOINTS), &mut found) {
        found.problems.push(error.to_string());
    }
    for (what, source) in named(&found) {
        let key = source.config_map.as_ref().map(|map| map.kubelet_config_key.as_str()).unwrap_or_default();
        let there = found
            .checkpoints
            .iter()
            .any(|one| one.named_by.contains(&what) && one.files.iter().any(|file| file.key == key));
        if !there {
            let problem = StoreError::Missing(source.to_string());
            found.problems.push(format!("{what}: {problem}"));
        }
    }
    found
}

fn named(found: &Description) -> Vec<(&'static str, ConfigSource)> {
    let sources =
        [("assigned", &found.assigned), ("lastKnownGood", &found.last_known_good), ("active", &found.beyond.active)];
    sources.into_iter().filter_map(|(what, source)| Some((what, source.clone()?))).collect()
}

fn checkpoints(disk: &dyn Disk, folder: &Path, found: &mut Description) -> Result<(), DiskError> {
    let named = named(found);
    for uid in durable::list(disk, folder)? {
        for version in durable::list(disk, &folder.join(&uid))? {
            let path = folder.join(&uid).join(&version);
            if durable::look(disk, &path)?.is_none_or(|entry| entry.kind != EntryKind::Folder) {
                found.problems.push(format!("{} is not what belongs there", path.display()));
                continue;
            }
            let mut files = Vec::new();
            for key in durable::list(disk, &path)? {
                let content = disk.read(&path.join(&key), MAX_FILE).ok().flatten();
                let bytes = content.and_then(|content| u64::try_from(content.len()).ok());
                if bytes.is_none() {
                    found.problems.push(format!("{} cannot be read", path.join(&key).display()));
                }
                files.push(CheckpointFile { key, bytes });
            }
            let names = |source: &ConfigSource| {
                resolved(source).is_ok_and(|source| (source.uid, source.resource_version) == (&uid, &version))
            };
            let named_by = named.iter().filter(|(_, source)| names(source)).map(|(what, _)| *what).collect();
            found.checkpoints.push(CheckpointFolder { uid: uid.clone(), resource_version: version, named_by, files });
        }
    }
    Ok(())
}
