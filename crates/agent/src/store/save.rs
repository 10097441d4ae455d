//! The ledger on disk: the kubelet's two files, and one of the agent's own that can tell an interrupted save from another
//! writer.
//!
//! `agent.json` is replaced first. It holds the whole ledger and what the kubelet's files held at that moment. Then those are
//! replaced, where they differ. When the three are read, each of the kubelet's holds what `agent.json` says of now or of
//! before: a save was interrupted, and `agent.json` counts. Or it holds something else: a kubelet, or a person, has written
//! it since, and it counts; what the agent knew beyond it says nothing about that, and the kubelet is put on it anew.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AGENT, ASSIGNED, CHECKPOINTS, LAST_KNOWN_GOOD, META, STORE, StoreError, source};
use crate::disk::Disk;
use crate::disk::durable::{self, FILE_MODE};
use crate::state::{AgentState, Ledger, Phase};
use nodecfg_contract::ConfigSource;

/// The format of `agent.json`. One that is higher is of a later nodecfg, and not read.
const FORMAT: u64 = 1;
/// The largest file that is read.
const MAX_FILE: u64 = 256 << 10;

/// `agent.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Saved {
    format: u64,
    /// What the kubelet's files are to hold.
    now: Pair,
    /// What they held when this was written.
    before: Pair,
    beyond: AgentState,
}

/// What the kubelet's files hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pair {
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
        // A kubelet makes both; of an agent's first save, none or one may have been made.
        let found = Pair { assigned: assigned.flatten(), last_known_good: last_known_good.flatten() };
        return Ok(taken_over(found, AgentState::default()));
    };
    let gone = |name: &str| StoreError::Unreadable {
        path: meta(folder).join(name),
        problem: format!("it is not there although {AGENT} is"),
    };
    let found = Pair {
        assigned: assigned.ok_or_else(|| gone(ASSIGNED))?,
        last_known_good: last_known_good.ok_or_else(|| gone(LAST_KNOWN_GOOD))?,
    };
    let Saved { now, before, beyond, .. } = saved;
    let ours = [&now.assigned, &before.assigned].contains(&&found.assigned)
        && [&now.last_known_good, &before.last_known_good].contains(&&found.last_known_good);
    if ours {
        return Ok(Ledger { assigned: now.assigned, last_known_good: now.last_known_good, beyond });
    }
    Ok(taken_over(found, beyond))
}

/// The ledger of somebody else's files. What the kubelet runs is what it ran, as far as is known.
fn taken_over(found: Pair, known: AgentState) -> Ledger {
    let Pair { assigned, last_known_good } = found;
    let nothing = assigned.is_none() && last_known_good.is_none() && known.active.is_none();
    let phase = if nothing { Phase::Settled } else { Phase::Activating { before: None } };
    let AgentState { active, restarts, rollbacks, .. } = known;
    Ledger {
        assigned,
        last_known_good,
        beyond: AgentState { phase, active, restarts, rollbacks, ..AgentState::default() },
    }
}

pub(super) fn save(disk: &dyn Disk, folder: &Path, ledger: &Ledger, settled: bool) -> Result<(), StoreError> {
    let Ledger { assigned, last_known_good, beyond } = ledger;
    let refused = |problem| StoreError::Source(format!("what is assigned cannot be saved: {problem}"));
    let assigned_text = source::encode(assigned.as_ref()).map_err(refused)?;
    let good_text = source::encode(last_known_good.as_ref()).map_err(refused)?;
    let meta = meta(folder);
    let (assigned_path, good_path) = (meta.join(ASSIGNED), meta.join(LAST_KNOWN_GOOD));
    if !settled {
        // As a kubelet does when it starts. What is there may not be durable, and what is compared with must be.
        for path in [folder, &folder.join(STORE), &meta, &folder.join(STORE).join(CHECKPOINTS)] {
            durable::folder(disk, path)?;
        }
        for path in [&assigned_path, &good_path] {
            if durable::look(disk, path)?.is_none() {
                durable::stage(disk, path, b"", FILE_MODE)?;
            }
        }
        durable::sync(disk, &meta)?;
    }
    let before = Pair {
        assigned: read_source(disk, &assigned_path)?.flatten(),
        last_known_good: read_source(disk, &good_path)?.flatten(),
    };
    let now = Pair { assigned: assigned.clone(), last_known_good: last_known_good.clone() };
    let changed = (before.assigned != now.assigned, before.last_known_good != now.last_known_good);
    let path = folder.join(AGENT);
    let saved = Saved { format: FORMAT, now, before, beyond: beyond.clone() };
    let mut text = serde_json::to_vec_pretty(&saved)
        .map_err(|error| StoreError::Unreadable { path: path.clone(), problem: error.to_string() })?;
    text.push(b'\n');
    durable::replace(disk, &path, &text, FILE_MODE)?;
    // The last known good first: a kubelet that takes over between the two has then something to fall back to.
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
            return Err(StoreError::Newer { path: path.to_owned(), format, known: FORMAT });
        }
        _ => return Err(unreadable("it names no format that is known".to_owned())),
    }
    let saved: Saved = serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))?;
    // What was edited by hand must not lead anywhere else either.
    let named = [&saved.now.assigned, &saved.now.last_known_good, &saved.beyond.active];
    for source in named.into_iter().flatten() {
        source::Resolved::of(source).map_err(unreadable)?;
    }
    Ok(Some(saved))
}

/// `None`: there is no such file.
fn read_source(disk: &dyn Disk, path: &Path) -> Result<Option<Option<ConfigSource>>, StoreError> {
    let Some(content) = durable::read(disk, path, MAX_FILE)? else { return Ok(None) };
    let source = source::decode(&content);
    source.map(Some).map_err(|problem| StoreError::Unreadable { path: path.to_owned(), problem })
}
