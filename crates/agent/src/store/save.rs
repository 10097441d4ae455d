//! Saving and loading the ledger: the kubelet's two files and `agent.json`. The latter distinguishes an interrupted
//! save from another writer.
//!
//! `agent.json` is replaced first. It holds the whole ledger and the previous content of the kubelet's files. Then
//! the kubelet's files are replaced if they differ.
//!
//! On load, each kubelet file may hold the content that `agent.json` names as new or as previous. Then a save was
//! completed or interrupted, and `agent.json` takes precedence. Any other content was written by a kubelet or a
//! person and takes precedence. Of the agent's own state, only the active configuration and the counters then stay,
//! and the agent activates the new content.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AGENT, ASSIGNED, CHECKPOINTS, LAST_KNOWN_GOOD, META, STORE, StoreError, source};
use crate::disk::Disk;
use crate::disk::durable::{self, FILE_MODE};
use crate::ledger::{AgentState, Ledger, Phase};
use nodecfg_contract::ConfigSource;

/// Format of `agent.json`. A higher format comes from a later nodecfg and is refused.
const FORMAT: u64 = 1;
/// Size limit of each file, in bytes.
const MAX_FILE: u64 = 256 << 10;

/// Content of `agent.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Saved {
    format: u64,
    /// Target content of the kubelet's files.
    now: MetaFiles,
    /// Content of the kubelet's files when this was written.
    before: MetaFiles,
    #[serde(rename = "beyond")]
    agent_state: AgentState,
}

/// Content of the kubelet's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaFiles {
    assigned: Option<ConfigSource>,
    last_known_good: Option<ConfigSource>,
}

fn meta(folder: &Path) -> PathBuf {
    folder.join(STORE).join(META)
}

pub(super) fn load(disk: &dyn Disk, folder: &Path) -> Result<Ledger, StoreError> {
    let saved = read_saved(disk, &folder.join(AGENT))?;
    let assigned = read_source(disk, &meta(folder).join(ASSIGNED))?;
    let last_known_good = read_source(disk, &meta(folder).join(LAST_KNOWN_GOOD))?;
    let Some(saved) = saved else {
        // A kubelet creates both files. An interrupted first save leaves none or one.
        let found = MetaFiles { assigned: assigned.flatten(), last_known_good: last_known_good.flatten() };
        return Ok(ledger_from_files(found, AgentState::default()));
    };
    let missing = |name: &str| StoreError::Unreadable {
        path: meta(folder).join(name),
        problem: format!("it is missing although {AGENT} exists"),
    };
    let found = MetaFiles {
        assigned: assigned.ok_or_else(|| missing(ASSIGNED))?,
        last_known_good: last_known_good.ok_or_else(|| missing(LAST_KNOWN_GOOD))?,
    };
    let Saved { now, before, agent_state, .. } = saved;
    let ours = [&now.assigned, &before.assigned].contains(&&found.assigned)
        && [&now.last_known_good, &before.last_known_good].contains(&&found.last_known_good);
    if ours {
        return Ok(Ledger { assigned: now.assigned, last_known_good: now.last_known_good, agent_state });
    }
    Ok(ledger_from_files(found, agent_state))
}

/// Ledger for files from another writer. Keeps the active configuration and the counters of the known state.
fn ledger_from_files(found: MetaFiles, known: AgentState) -> Ledger {
    let MetaFiles { assigned, last_known_good } = found;
    let nothing = assigned.is_none() && last_known_good.is_none() && known.active.is_none();
    let phase = if nothing { Phase::Settled } else { Phase::Activating { before: None } };
    let AgentState { active, restarts, rollbacks, .. } = known;
    Ledger {
        assigned,
        last_known_good,
        agent_state: AgentState { phase, active, restarts, rollbacks, ..AgentState::default() },
    }
}

pub(super) fn save(disk: &dyn Disk, folder: &Path, ledger: &Ledger, synced: bool) -> Result<(), StoreError> {
    let Ledger { assigned, last_known_good, agent_state } = ledger;
    let refused = |problem| StoreError::Source(format!("the assignment cannot be saved: {problem}"));
    let assigned_text = source::encode(assigned.as_ref()).map_err(refused)?;
    let good_text = source::encode(last_known_good.as_ref()).map_err(refused)?;
    let meta = meta(folder);
    let (assigned_path, good_path) = (meta.join(ASSIGNED), meta.join(LAST_KNOWN_GOOD));
    if !synced {
        // A kubelet does the same at start. The files to compare with must be durable, and those of an earlier
        // process may not be.
        for path in [folder, &folder.join(STORE), &meta, &folder.join(STORE).join(CHECKPOINTS)] {
            durable::folder(disk, path)?;
        }
        for path in [&assigned_path, &good_path] {
            if durable::stat(disk, path)?.is_none() {
                durable::write_synced(disk, path, b"", FILE_MODE)?;
            }
        }
        durable::sync(disk, &meta)?;
    }
    let before = MetaFiles {
        assigned: read_source(disk, &assigned_path)?.flatten(),
        last_known_good: read_source(disk, &good_path)?.flatten(),
    };
    let now = MetaFiles { assigned: assigned.clone(), last_known_good: last_known_good.clone() };
    let changed = (before.assigned != now.assigned, before.last_known_good != now.last_known_good);
    let path = folder.join(AGENT);
    let saved = Saved { format: FORMAT, now, before, agent_state: agent_state.clone() };
    let mut text = serde_json::to_vec_pretty(&saved)
        .map_err(|error| StoreError::Unreadable { path: path.clone(), problem: error.to_string() })?;
    text.push(b'\n');
    durable::replace(disk, &path, &text, FILE_MODE)?;
    // The last known good comes first: if a kubelet takes over in between, it can roll back.
    if changed.1 {
        durable::replace(disk, &good_path, good_text.as_bytes(), FILE_MODE)?;
    }
    if changed.0 {
        durable::replace(disk, &assigned_path, assigned_text.as_bytes(), FILE_MODE)?;
    }
    Ok(())
}

fn read_saved(disk: &dyn Disk, path: &Path) -> Result<Option<Saved>, StoreError> {
    let Some(content) = durable::read(disk, path, MAX_FILE)? else { return Ok(None) };
    let unreadable = |problem: String| StoreError::Unreadable { path: path.to_owned(), problem };
    let value: Value = serde_json::from_slice(&content).map_err(|error| unreadable(error.to_string()))?;
    match value.get("format").and_then(Value::as_u64) {
        Some(FORMAT) => {}
        Some(format) if format > FORMAT => {
            return Err(StoreError::UnsupportedFormat { path: path.to_owned(), format, known: FORMAT });
        }
        _ => return Err(unreadable("its format is unknown".to_owned())),
    }
    let saved: Saved = serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))?;
    // A name edited by hand must not lead out of the agent's folder.
    let named = [&saved.now.assigned, &saved.now.last_known_good, &saved.agent_state.active];
    for source in named.into_iter().flatten() {
        source::Resolved::of(source).map_err(unreadable)?;
    }
    Ok(Some(saved))
}

/// Reads a source; the inner `None` is the local configuration. `None` if the file is missing.
fn read_source(disk: &dyn Disk, path: &Path) -> Result<Option<Option<ConfigSource>>, StoreError> {
    let Some(content) = durable::read(disk, path, MAX_FILE)? else { return Ok(None) };
    let source = source::decode(&content);
    source.map(Some).map_err(|problem| StoreError::Unreadable { path: path.to_owned(), problem })
}
