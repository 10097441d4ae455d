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

/// Returns the path of a file of the folder, as [`files`] has it.
#[must_use]
pub fn path_in(folder: &ConfigDir, name: &str) -> String {
    format!("{}/{name}", folder.path.trim_end_matches('/'))
}

/// Returns the files that a kubelet reads, in order. The last one may be one at which the kubelet stops.
///
/// # Errors
/// The kubelet cannot enter the folder.
pub fn files(folder: &ConfigDir) -> Result<Vec<DropIn<'_>>, Refused> {
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
        Some(entry) => read(path.to_owned(), path.rsplit('/').next().unwrap_or(path), entry, &mut found),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> FolderEntry {
        FolderEntry::File(text.to_owned())
    }

    fn folder(entries: impl IntoIterator<Item = (&'static str, FolderEntry)>) -> FolderEntry {
        FolderEntry::Folder(entries.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect())
    }

    fn link(end: Option<FolderEntry>) -> FolderEntry {
        FolderEntry::Link(end.map(Box::new))
    }

    /// The texts that a kubelet reads, and the reason why it stops.
    fn read_from(path: &str, root: Option<FolderEntry>) -> String {
        match files(&ConfigDir { path: path.to_owned(), root }) {
            Err(refused) => refused.to_string(),
            Ok(files) => {
                let shown = |file: &DropIn<'_>| match &file.text {
                    Ok(text) => (*text).to_owned(),
                    Err(reason) => format!("{}: {reason}", file.path),
                };
                files.iter().map(shown).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn reads_conf_files_of_all_folders_in_order_of_bytes() {
        let root = folder([
            ("9.conf", file("b")),
            ("10.conf", file("a")),
            ("90-a", folder([("x.conf", file("c")), ("y.yaml", file("-"))])),
            ("90-a.conf", file("d")),
            (".hidden", folder([(".conf", file("0"))])),
            ("95.CONF", file("-")),
            ("95.conf.bak", file("-")),
            ("a.conf", folder([("z.conf", file("e")), ("empty", folder([]))])),
            ("gone", link(None)),
            ("shared", link(Some(folder([("x.conf", file("-"))])))),
            ("z.conf", link(Some(file("f")))),
        ]);
        assert_eq!(read_from("/d", Some(root)), "0 a b c d e f");
    }

    #[test]
    fn stops_at_an_entry_that_it_cannot_read() {
        for (entry, reason) in [
            (link(None), "/d/b.conf: is a link to nothing"),
            (link(Some(folder([]))), "/d/b.conf: is a link to a folder"),
            (FolderEntry::Unreadable("is a device".to_owned()), "/d/b.conf: is a device"),
        ] {
            let root = folder([("a.conf", file("a")), ("b.conf", entry), ("c.conf", file("c"))]);
            assert_eq!(read_from("/d", Some(root)), format!("a {reason}"));
        }
    }

    #[test]
    fn enters_a_linked_folder_only_with_a_slash() {
        let target = || Some(link(Some(folder([("a.conf", file("a"))]))));
        assert_eq!(read_from("/d", target()), "");
        assert_eq!(read_from("/d/", target()), "a");
        assert_eq!(read_from("/d.conf", target()), "/d.conf: is a link to a folder");
        assert_eq!(read_from("/d/", Some(link(None))), "--config-dir: /d/ does not exist");
        assert_eq!(read_from("/d", None), "--config-dir: /d does not exist");
        assert_eq!(read_from("/d.conf", Some(file("a"))), "a", "a file is read as a drop-in");
        assert_eq!(read_from("/d", Some(file("a"))), "");
        assert_eq!(read_from("/d/", Some(file("a"))), "--config-dir: /d/ is not a folder");
    }
}
