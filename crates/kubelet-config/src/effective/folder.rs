//! The files of `--config-dir` that a kubelet reads, in their order (`cmd/kubelet/app/server.go`,
//! `mergeKubeletConfigurations`, which walks with Go's `filepath.WalkDir`).
//!
//! The kubelet reads each entry below the folder whose name ends with `.conf` and that is no folder, in the order of
//! bytes within each folder. It enters folders, hidden ones too, but follows no link to one. It opens a link with such a
//! name, and stops if there is no file behind it. If the folder itself is a link, it is not entered, unless the flag
//! ends with a slash.

use std::collections::BTreeMap;

use super::{Origin, Refused};

/// The end of the name of a drop-in.
const SUFFIX: &str = ".conf";

/// The folder of `--config-dir`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDir {
    /// The value of the flag.
    pub path: String,
    /// What is at the path. A link is not followed here. `None` if nothing is there.
    pub root: Option<FolderEntry>,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderEntry {
    /// A regular file with its text. A text that the kubelet does not read ([`is_read`]) may be empty.
    File(String),
    /// A folder with its entries by name.
    Folder(BTreeMap<String, FolderEntry>),
    /// A link, and what is at its end. `None` if nothing is there.
    Link(Option<Box<FolderEntry>>),
    /// Something that cannot be read, with the reason: `is a device`.
    Unreadable(String),
}

/// A drop-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIn<'f> {
    /// The path: that of the folder, and the path below it.
    pub path: String,
    /// The text. `Err`: the kubelet stops here, with the reason.
    pub text: Result<&'f str, String>,
}

/// Reports whether the kubelet reads an entry of this name that is no folder.
#[must_use]
pub fn is_read(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

/// Returns the files that a kubelet reads, in order. The last one may be one at which the kubelet stops.
///
/// # Errors
/// The kubelet cannot enter the folder.
pub(super) fn files(folder: &ConfigDir) -> Result<Vec<DropIn<'_>>, Refused> {
    let stop = |reason: &str| {
        let flag = Origin::Flag("--config-dir".to_owned());
        Err(Refused::new(flag, format!("{} {reason}", folder.path)))
    };
    let path = folder.path.trim_end_matches('/');
    let follows = folder.path.ends_with('/');
    let root = match &folder.root {
        Some(FolderEntry::Link(end)) if follows => end.as_deref(),
        root => root.as_ref(),
    };
    let mut found = Vec::new();
    match root {
        None => return stop("does not exist"),
        Some(FolderEntry::Folder(entries)) => walk(path, entries, &mut found),
        Some(_) if follows => return stop("is not a folder"),
        Some(entry) => read(path.to_owned(), path, entry, &mut found),
    }
    Ok(found)
}

/// Collects the files below a folder. Stops after one that cannot be read.
fn walk<'f>(path: &str, entries: &'f BTreeMap<String, FolderEntry>, found: &mut Vec<DropIn<'f>>) {
    for (name, entry) in entries {
        if found.last().is_some_and(|last| last.text.is_err()) {
            return;
        }
        let path = format!("{path}/{name}");
        match entry {
            FolderEntry::Folder(entries) => walk(&path, entries, found),
            entry => read(path, name, entry, found),
        }
    }
}

/// Reads an entry that is no folder.
fn read<'f>(path: String, name: &str, entry: &'f FolderEntry, found: &mut Vec<DropIn<'f>>) {
    if !is_read(name) {
        return;
    }
    let text = match entry {
        FolderEntry::File(text) => Ok(text.as_str()),
        FolderEntry::Folder(_) => Err("is a folder".to_owned()),
        FolderEntry::Link(None) => Err("is a link to nothing".to_owned()),
        FolderEntry::Link(Some(end)) => match &**end {
            FolderEntry::File(text) => Ok(text.as_str()),
            FolderEntry::Unreadable(reason) => Err(reason.clone()),
            FolderEntry::Link(_) | FolderEntry::Folder(_) => Err("is a link to a folder".to_owned()),
        },
        FolderEntry::Unreadable(reason) => Err(reason.clone()),
    };
    found.push(DropIn { path, text });
}
