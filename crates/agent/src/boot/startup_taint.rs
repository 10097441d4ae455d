//! Startup taint of a node whose kubelet starts without the configuration of its pool: a drop-in that makes the
//! kubelet register its Node with the taint, so that no ordinary pods start.
//!
//! A list in a drop-in replaces the list below it. So the drop-in repeats the other taints.

use std::path::Path;

use serde_json::{Value, json};

use super::BootError;
use crate::content::{self, Underneath};
use crate::disk::Disk;
use crate::placement::{DropIns, kubelet_texts, remove_drop_in, write_drop_in};
use kubelet_config::document::{Document, apply_merge_patch};
use nodecfg_contract::pool_pointer::{STARTUP_TAINT, STARTUP_TAINT_EFFECT};

/// Name of the file in the kubelet's `--config-dir`.
pub const DROP_IN: &str = "99-nodecfg-startup-taint.conf";
/// Field with the taints of a new Node.
const FIELD: &str = "registerWithTaints";

/// Adds the taint to those in effect. `config`: the kubelet's `--config`.
///
/// # Errors
/// A configuration of the kubelet is unreadable, a later drop-in replaces the taints, or the disk failed.
pub fn add(disk: &dyn Disk, config_dir: &Path, config: Option<&Path>) -> Result<(), BootError> {
    let later = kubelet_texts(disk, config_dir, None, DropIns::After(DROP_IN))?;
    if !taints(&later)?.is_null() {
        let message = format!("a drop-in with a name after {DROP_IN} sets {FIELD}, which replaces the taint");
        return Err(BootError::StartupTaint(message));
    }
    let others = taints(&kubelet_texts(disk, config_dir, config, DropIns::Before(DROP_IN))?)?;
    let mut all = others.as_array().cloned().unwrap_or_default();
    all.retain(|taint| !(taint["key"] == STARTUP_TAINT && taint["effect"] == STARTUP_TAINT_EFFECT));
    all.push(json!({"key": STARTUP_TAINT, "effect": STARTUP_TAINT_EFFECT}));
    let header = ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration");
    let text = json!({"apiVersion": header.0, "kind": header.1, FIELD: all}).to_string();
    // The kubelet reads JSON, too.
    let text = content::canonical(&text).unwrap_or(text);
    Ok(write_drop_in(disk, &config_dir.join(DROP_IN), &text)?)
}

/// Removes the drop-in. A missing one is no error.
///
/// # Errors
/// The disk failed.
pub fn remove(disk: &dyn Disk, config_dir: &Path) -> Result<(), BootError> {
    let path = config_dir.join(DROP_IN);
    match crate::disk::durable::stat(disk, &path)? {
        Some(_) => Ok(remove_drop_in(disk, &path)?),
        None => Ok(()),
    }
}

/// Taints in the merged texts; null if none sets them.
fn taints(texts: &Underneath) -> Result<Value, BootError> {
    let mut whole = None;
    for text in texts.texts() {
        let parsed = Document::parse("kubelet", text);
        let document = parsed.document.ok_or_else(|| {
            let why = parsed.findings.into_iter().next().map_or_else(String::new, |finding| finding.message);
            BootError::StartupTaint(format!("a configuration of the kubelet cannot be read: {why}"))
        })?;
        whole = Some(apply_merge_patch(whole, &document.root));
    }
    Ok(whole.and_then(|whole| whole.to_json().get_mut(FIELD).map(Value::take)).unwrap_or_default())
}
