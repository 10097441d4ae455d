//! Comparison of the files of a pool in two revisions.

use std::collections::BTreeSet;

use super::{FileChange, FileChangeKind};
use kubelet_config::document::Document;
use nodecfg_planning::snapshot::Snapshot;

/// The changes of files. Omits unchanged ones.
pub(super) fn changes(paths: &BTreeSet<&str>, old: &Snapshot, new: &Snapshot) -> Vec<FileChange> {
    let change = |path: &&str| Some(FileChange { path: (*path).to_owned(), change: change(path, old, new)? });
    paths.iter().filter_map(change).collect()
}

fn change(path: &str, old: &Snapshot, new: &Snapshot) -> Option<FileChangeKind> {
    match (old.files.contains_key(path), new.files.contains_key(path)) {
        (false, false) => None,
        (false, true) => Some(FileChangeKind::Added),
        (true, false) => Some(FileChangeKind::Removed),
        (true, true) => match (old.text(path), new.text(path)) {
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) if has_same_content(path, old, new) => Some(FileChangeKind::Formatting),
            // Unusable files have no text to compare.
            (None, None) => None,
            _ => Some(FileChangeKind::Modified),
        },
    }
}

fn has_same_content(path: &str, old: &str, new: &str) -> bool {
    let read = |text: &str| Document::parse(path, text).document;
    read(old).zip(read(new)).is_some_and(|(old, new)| old.root.same_content(&new.root))
}
