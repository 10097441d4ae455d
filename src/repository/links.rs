//! Resolves symbolic links within a set of entries, for commits and folders alike. Works on names, never on the file
//! system, and stays within the root.

use std::collections::BTreeMap;

use super::SnapshotFile;
use super::text::{is_candidate, unusable};

/// Maximum number of links in one resolution. More count as a cycle.
const MAX_HOPS: usize = 32;

/// An entry before link resolution.
#[derive(Debug, Clone)]
pub(super) enum Entry<T> {
    /// A file, with access to its content.
    File(T),
    /// A symbolic link with its target.
    Link(String),
    /// Another git repository.
    Submodule,
    /// A link with an unreadable target, a socket or a device.
    Other,
}

/// Result of link resolution.
pub(super) struct Resolved<T> {
    /// Files by path, with access to their content.
    pub files: Vec<(String, T)>,
    /// Unusable entries, by path.
    pub refused: Vec<(String, SnapshotFile)>,
}

enum LinkError {
    Outside,
    Cycle,
    Missing,
}

/// Resolves all links. Returns configuration files and unusable entries, and drops other files.
pub(super) fn resolve_links<T: Clone>(entries: &BTreeMap<String, Entry<T>>) -> Resolved<T> {
    let (mut files, mut refused) = (Vec::new(), Vec::new());
    for (path, entry) in entries {
        match entry {
            Entry::File(file) => {
                if is_candidate(path) {
                    files.push((path.clone(), file.clone()));
                }
            }
            Entry::Submodule => {
                let message =
                    format!("{path} is a separate git repository, for example a submodule; nodecfg does not read it");
                refused.push((
                    path.clone(),
                    unusable(path, "submodule", message, "copy the files, or specify this folder as the repository"),
                ));
            }
            Entry::Other => {
                let message = format!("{path} is neither a file nor a folder");
                refused.push((path.clone(), unusable(path, "not-a-file", message, "replace it with a file")));
            }
            Entry::Link(target) => match resolve(entries, path) {
                Ok(real) => add_link(entries, path, &real, &mut files, &mut refused),
                Err(problem) => refused.push((path.clone(), bad_link(path, target, &problem))),
            },
        }
    }
    Resolved { files, refused }
}

fn add_link<T: Clone>(
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
        refused.push((path.to_owned(), bad_link(path, real, &LinkError::Cycle)));
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
            _ => Err(LinkError::Missing),
        };
        match real.as_ref().map(|real| entries.get(real)) {
            Ok(Some(Entry::File(file))) if is_candidate(&name) => files.push((name, file.clone())),
            Ok(Some(Entry::File(_))) => {}
            _ => {
                let message = format!("{name} is in a linked folder and is not a file; nodecfg does not read it");
                refused.push((name.clone(), unusable(&name, "bad-link", message, "link the files themselves")));
            }
        }
    }
    if !found {
        refused.push((path.to_owned(), bad_link(path, real, &LinkError::Missing)));
    }
}

fn bad_link(path: &str, target: &str, problem: &LinkError) -> SnapshotFile {
    let (what, help) = match problem {
        LinkError::Outside => {
            ("which is outside of the configuration; nodecfg does not read it", "copy the file into the configuration")
        }
        LinkError::Cycle => ("which links back to itself", "link to a file"),
        LinkError::Missing => ("which does not exist or is not readable", "remove the link, or commit its target"),
    };
    unusable(path, "bad-link", format!("{path} is a symbolic link to {target:?}, {what}"), help)
}

/// Resolves a path to one without links.
fn resolve<T>(entries: &BTreeMap<String, Entry<T>>, path: &str) -> Result<String, LinkError> {
    let mut pending: Vec<&str> = path.split('/').rev().collect();
    let mut at: Vec<&str> = Vec::new();
    let mut hops = 0;
    while let Some(part) = pending.pop() {
        match part {
            "" | "." => {}
            ".." => {
                at.pop().ok_or(LinkError::Outside)?;
            }
            part => {
                at.push(part);
                if let Some(Entry::Link(target)) = entries.get(&at.join("/")) {
                    hops += 1;
                    if hops > MAX_HOPS {
                        return Err(LinkError::Cycle);
                    }
                    if target.starts_with('/') {
                        return Err(LinkError::Outside);
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

    fn resolved(entries: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
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
        let Resolved { files, refused } = resolve_links(&entries);
        let refused = refused.into_iter().map(|(path, file)| match file {
            SnapshotFile::Unusable(finding) => format!("{path}: {}", finding.code),
            SnapshotFile::Text(_) => path,
        });
        (files.into_iter().map(|(path, real)| format!("{path}={real}")).collect(), refused.collect())
    }

    #[test]
    fn resolves_links_within_the_root() {
        let (files, refused) = resolved(&[
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
    fn rejects_links_out_of_the_root_and_cycles() {
        let (files, refused) = resolved(&[
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
