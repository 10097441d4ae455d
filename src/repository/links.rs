//! Follows symbolic links within a set of entries, the same way for a commit and for a folder: by name alone, never
//! through the file system, and never out of the root.

use std::collections::BTreeMap;

use super::SnapshotFile;
use super::text::{is_candidate, unusable};

/// The most links on the way to one file.
const MAX_HOPS: usize = 32;

/// What stands at a path, before links are followed.
#[derive(Debug, Clone)]
pub(super) enum Entry<T> {
    /// A file, and how to get at its bytes.
    File(T),
    /// A symbolic link, and what it says.
    Link(String),
    /// Another git repository.
    Submodule,
    /// A link that says nothing readable, a socket, a device.
    Other,
}

/// What following links came to: the files that nodecfg could use, and the entries that it cannot.
pub(super) struct Followed<T> {
    /// Files by path, and how to get at their bytes.
    pub files: Vec<(String, T)>,
    /// What cannot be used, by path.
    pub refused: Vec<(String, SnapshotFile)>,
}

enum Problem {
    Leaves,
    Cycle,
    Nowhere,
}

/// Follows every link among the entries.
pub(super) fn follow<T: Clone>(entries: &BTreeMap<String, Entry<T>>) -> Followed<T> {
    let (mut files, mut refused) = (Vec::new(), Vec::new());
    for (path, entry) in entries {
        match entry {
            Entry::File(file) => {
                if is_candidate(path) {
                    files.push((path.clone(), file.clone()));
                }
            }
            Entry::Submodule => {
                let message = format!(
                    "{path} is a git repository of its own, a submodule perhaps; nodecfg does not read into it"
                );
                refused.push((
                    path.clone(),
                    unusable(path, "submodule", message, "copy the files, or name the folder itself as the repository"),
                ));
            }
            Entry::Other => {
                let message = format!("{path} is neither a file nor a folder");
                refused.push((path.clone(), unusable(path, "not-a-file", message, "put a file in its place")));
            }
            Entry::Link(target) => match resolve(entries, path) {
                Ok(real) => link(entries, path, &real, &mut files, &mut refused),
                Err(problem) => refused.push((path.clone(), broken(path, target, &problem))),
            },
        }
    }
    Followed { files, refused }
}

fn link<T: Clone>(
    entries: &BTreeMap<String, Entry<T>>,
    path: &str,
    real: &str,
    files: &mut Vec<(String, T)>,
    refused: &mut Vec<(String, SnapshotFile)>,
) {
    if let Some(Entry::File(file)) = entries.get(real) {
        if is_candidate(path) {
            files.push((path.to_owned(), file.clone()));
        }
        return;
    }
    let within = if real.is_empty() { String::new() } else { format!("{real}/") };
    if path.starts_with(&within) {
        refused.push((path.to_owned(), broken(path, real, &Problem::Cycle)));
        return;
    }
    let mut found = false;
    for (below, entry) in entries.range(within.clone()..).take_while(|(below, _)| below.starts_with(&within)) {
        found = true;
        let rest = below.get(within.len()..).unwrap_or_default();
        let name = format!("{path}/{rest}");
        let real = match entry {
            Entry::File(_) => Ok(below.clone()),
            Entry::Link(_) => resolve(entries, below),
            _ => Err(Problem::Nowhere),
        };
        match real.as_ref().map(|real| entries.get(real)) {
            Ok(Some(Entry::File(file))) if is_candidate(&name) => files.push((name, file.clone())),
            Ok(Some(Entry::File(_))) => {}
            _ => {
                let message =
                    format!("{name} is reached through a linked folder and is no file; nodecfg does not read it");
                refused.push((name.clone(), unusable(&name, "bad-link", message, "link the files themselves")));
            }
        }
    }
    if !found {
        refused.push((path.to_owned(), broken(path, real, &Problem::Nowhere)));
    }
}

fn broken(path: &str, target: &str, problem: &Problem) -> SnapshotFile {
    let (what, help) = match problem {
        Problem::Leaves => (
            "which is outside of the configuration; nodecfg does not follow it",
            "copy the file into the configuration",
        ),
        Problem::Cycle => ("which leads back to itself", "link to a file"),
        Problem::Nowhere => {
            ("where there is nothing that nodecfg reads", "remove the link, or commit what it points at")
        }
    };
    unusable(path, "bad-link", format!("{path} is a symbolic link to {target:?}, {what}"), help)
}

/// The path without links that a path stands for.
fn resolve<T>(entries: &BTreeMap<String, Entry<T>>, path: &str) -> Result<String, Problem> {
    let mut pending: Vec<&str> = path.split('/').rev().collect();
    let mut at: Vec<&str> = Vec::new();
    let mut hops = 0;
    while let Some(part) = pending.pop() {
        match part {
            "" | "." => {}
            ".." => {
                at.pop().ok_or(Problem::Leaves)?;
            }
            part => {
                at.push(part);
                if let Some(Entry::Link(target)) = entries.get(&at.join("/")) {
                    hops += 1;
                    if hops > MAX_HOPS {
                        return Err(Problem::Cycle);
                    }
                    if target.starts_with('/') {
                        return Err(Problem::Leaves);
                    }
                    at.pop();
                    pending.extend(target.split('/').rev());
                }
            }
        }
    }
    Ok(at.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(entries: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let entries = entries
            .iter()
            .map(|(path, target)| {
                let entry = match *target {
                    "" => Entry::File((*path).to_owned()),
                    "submodule" => Entry::Submodule,
                    target => Entry::Link(target.to_owned()),
                };
                ((*path).to_owned(), entry)
            })
            .collect();
        let Followed { files, refused } = follow(&entries);
        let refused = refused.into_iter().map(|(path, file)| match file {
            SnapshotFile::Unusable(finding) => format!("{path}: {}", finding.code),
            SnapshotFile::Text(_) => path,
        });
        (files.into_iter().map(|(path, real)| format!("{path}={real}")).collect(), refused.collect())
    }

    #[test]
    fn links_within_the_root_are_followed() {
        let (files, refused) = followed(&[
            ("base/a.yaml", ""),
            ("pools/x/kubelet.yaml", "../../base/a.yaml"),
            ("pools/y", "x"),
            ("pools/z/one.yaml", "./two.yaml"),
            ("pools/z/two.yaml", "../y/kubelet.yaml"),
            ("readme", "README.md"),
            ("README.md", ""),
        ]);
        assert_eq!(
            files,
            [
                "base/a.yaml=base/a.yaml",
                "pools/x/kubelet.yaml=base/a.yaml",
                "pools/y/kubelet.yaml=base/a.yaml",
                "pools/z/one.yaml=base/a.yaml",
                "pools/z/two.yaml=base/a.yaml",
            ]
        );
        assert_eq!(refused, Vec::<String>::new());
    }

    #[test]
    fn what_leaves_the_root_or_turns_in_circles_is_refused() {
        let (files, refused) = followed(&[
            ("a.yaml", "../secret.yaml"),
            ("b.yaml", "/etc/passwd"),
            ("c.yaml", "d.yaml"),
            ("d.yaml", "c.yaml"),
            ("e", "."),
            ("f.yaml", "missing.yaml"),
            ("g/h/i.yaml", "../../../x.yaml"),
            ("sub", "submodule"),
        ]);
        assert_eq!(files, Vec::<String>::new());
        let expected = ["a.yaml", "b.yaml", "c.yaml", "d.yaml", "e", "f.yaml", "g/h/i.yaml"]
            .map(|path| format!("{path}: bad-link"));
        assert_eq!(refused[..7], expected);
        assert_eq!(refused[7], "sub: submodule");
    }
}
