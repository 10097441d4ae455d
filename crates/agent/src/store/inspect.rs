//! Read-only description of the agent's folder for `nodecfg-agent status`, without the lock. Missing checkpoints and
//! unreadable parts become problems.

use std::path::Path;

use serde::Serialize;

use super::checkpoints::{MAX_FILE, resolved};
use super::{CHECKPOINTS, STORE, Store, StoreError};
use crate::disk::durable::{self, DiskError};
use crate::disk::{Disk, EntryKind};
use crate::ledger::{AgentState, Ledger};
use nodecfg_contract::ConfigSource;

/// Description of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Assignment. `None` is the local configuration, or unknown if there are problems.
    pub assigned: Option<ConfigSource>,
    /// Configuration that the kubelet falls back to.
    pub last_known_good: Option<ConfigSource>,
    /// State that the kubelet's format lacks: active configuration, phase, failure and counters.
    #[serde(rename = "beyond")]
    pub agent_state: AgentState,
    /// Checkpoints, by uid and resourceVersion.
    pub checkpoints: Vec<CheckpointFolder>,
    /// Problems found.
    pub problems: Vec<String>,
}

/// Folder of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointFolder {
    /// Uid of the ConfigMap.
    pub uid: String,
    /// ResourceVersion of the ConfigMap.
    pub resource_version: String,
    /// References to the checkpoint: `assigned`, `lastKnownGood`, `active`.
    pub named_by: Vec<&'static str>,
    /// Keys of the checkpoint.
    pub files: Vec<CheckpointFile>,
}

/// Key of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointFile {
    /// Name of the key.
    pub key: String,
    /// Size in bytes; unset if unreadable.
    pub bytes: Option<u64>,
}

/// Describes the store in an agent's folder.
#[must_use]
pub fn inspect(disk: &dyn Disk, folder: &Path) -> Description {
    let mut found = Description::default();
    match Store::new(folder).load(disk) {
        Ok(Ledger { assigned, last_known_good, agent_state }) => {
            found = Description { assigned, last_known_good, agent_state, ..found };
        }
        Err(error) => found.problems.push(error.to_string()),
    }
    if let Err(error) = add_checkpoints(disk, &folder.join(STORE).join(CHECKPOINTS), &mut found) {
        found.problems.push(error.to_string());
    }
    for (what, source) in named_sources(&found) {
        let key = source.config_map.as_ref().map(|map| map.kubelet_config_key.as_str()).unwrap_or_default();
        let exists = found
            .checkpoints
            .iter()
            .any(|one| one.named_by.contains(&what) && one.files.iter().any(|file| file.key == key));
        if !exists {
            let problem = StoreError::Missing(source.to_string());
            found.problems.push(format!("{what}: {problem}"));
        }
    }
    found
}

fn named_sources(found: &Description) -> Vec<(&'static str, ConfigSource)> {
    let sources = [
        ("assigned", &found.assigned),
        ("lastKnownGood", &found.last_known_good),
        ("active", &found.agent_state.active),
    ];
    sources.into_iter().filter_map(|(what, source)| Some((what, source.clone()?))).collect()
}

fn add_checkpoints(disk: &dyn Disk, folder: &Path, found: &mut Description) -> Result<(), DiskError> {
    let named = named_sources(found);
    for uid in durable::list(disk, folder)? {
        for version in durable::list(disk, &folder.join(&uid))? {
            let path = folder.join(&uid).join(&version);
            if durable::stat(disk, &path)?.is_none_or(|entry| entry.kind != EntryKind::Folder) {
                found.problems.push(format!("{} is not a folder", path.display()));
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
