//! Comparison of the files that a pool uses in two revisions.

use std::collections::BTreeSet;

use super::{FileChange, FileChangeKind};
use kubelet_config::document::Document;
use nodecfg_fleet::snapshot::Snapshot;

/// Compares the files at `paths` in two revisions. Omits files without change.
pub(super) fn changes(paths: &BTreeSet<&str>, old: &Snapshot, new: &Snapshot) -> Vec<FileChange> {
    let file_change = |path: &&str| Some(FileChange { path: (*path).to_owned(), change: change_kind(path, old, new)? });
    paths.iter().filter_map(file_change).collect()
}

/// The kind of change of one file. `None` for an unchanged file, and for one missing in both revisions.
fn change_kind(path: &str, old: &Snapshot, new: &Snapshot) -> Option<FileChangeKind> {
    match (old.files.contains_key(path), new.files.contains_key(path)) {
        (false, false) => None,
        (false, true) => Some(FileChangeKind::Added),
        (true, false) => Some(FileChangeKind::Removed),
        (true, true) => match (old.text(path), new.text(path)) {
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) if has_same_content(path, old, new) => Some(FileChangeKind::Formatting),
            // A file without usable text in both revisions counts as unchanged.
            (None, None) => None,
            _ => Some(FileChangeKind::Modified),
        },
    }
}

fn has_same_content(path: &str, old: &str, new: &str) -> bool {
    let read = |text: &str| Document::parse(path, text).document;
    read(old).zip(read(new)).is_some_and(|(old, new)| old.root.same_content(&new.root))
}
