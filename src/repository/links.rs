//! Resolves symbolic links within a set of entries, for commits and folders alike. Works on names, never on the file
//! system, and stays within the root.

use std::collections::BTreeMap;

use super::text::{is_candidate, unusable};
use super::{MAX_TOTAL, SnapshotFile};

/// Maximum number of links in one resolution. More count as a cycle.
pub(super) const MAX_HOPS: usize = 32;

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

/// Reason why a link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkError {
    /// The target is outside of the repository, or absolute.
    Outside,
    /// The link leads to itself, or to more than 32 others.
    Cycle,
    /// The target is missing or unreadable.
    Missing,
    /// A file would be written through the link.
    Written,
}

impl LinkError {
    /// The end of a sentence about the target.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Outside => "which is outside of the repository; nodecfg does not read it",
            Self::Cycle => "which links back to itself",
            Self::Missing => "which does not exist or is not readable",
            Self::Written => "and files are not written through links",
        }
    }

    /// How to fix the link.
    pub(super) fn help(self) -> &'static str {
        match self {
            Self::Outside => "copy the file into the repository",
            Self::Cycle => "link to a file",
            Self::Missing => "remove the link, or commit its target",
            Self::Written => "remove the link",
        }
    }
}

/// The names that may still be made for links, in bytes. A few links to large folders, or to each other, make more
/// names than a machine can hold.
struct Budget(u64);

/// What a name costs beside its bytes, so that short names take no long time either.
const NAME: u64 = 64;

impl Budget {
    /// Counts a name. Reports whether it is within the limit.
    fn take(&mut self, name: &str) -> bool {
        let bytes = u64::try_from(name.len()).unwrap_or(u64::MAX).saturating_add(NAME);
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

/// Resolves all links. Returns configuration files and unusable entries, and drops other files. `None` if the links
/// make too many names.
pub(super) fn resolve_links<T: Clone>(entries: &BTreeMap<String, Entry<T>>) -> Option<Resolved<T>> {
    let (mut files, mut refused) = (Vec::new(), Vec::new());
    let mut budget = Budget(MAX_TOTAL);
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
            Entry::Link(target) => match resolve(entries, path, &mut budget)? {
                Ok(real) => add_link(entries, path, &real, &mut files, &mut refused, &mut budget)?,
                Err(problem) => refused.push((path.clone(), bad_link(path, target, problem))),
            },
        }
    }
    Some(Resolved { files, refused })
}

/// Adds the files that a link leads to. `None` if the links make too many names.
fn add_link<T: Clone>(
    entries: &BTreeMap<String, Entry<T>>,
    path: &str,
    real: &str,
    files: &mut Vec<(String, T)>,
    refused: &mut Vec<(String, SnapshotFile)>,
    budget: &mut Budget,
) -> Option<()> {
    if let Some(Entry::File(file)) = entries.get(real) {
        if is_candidate(path) {
            files.push((path.to_owned(), file.clone()));
        }
        return Some(());
    }
    let within = if real.is_empty() { String::new() } else { format!("{real}/") };
    if path.starts_with(&within) {
        refused.push((path.to_owned(), bad_link(path, real, LinkError::Cycle)));
        return Some(());
    }
    let mut found = false;
    for (below, entry) in entries.range(within.clone()..).take_while(|(below, _)| below.starts_with(&within)) {
        found = true;
        let rest = below.get(within.len()..).unwrap_or_default();
        let name = format!("{path}/{rest}");
        budget.take(&name).then_some(())?;
        let real = match entry {
            Entry::File(_) => Ok(below.clone()),
            Entry::Link(_) => resolve(entries, below, budget)?,
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
        refused.push((path.to_owned(), bad_link(path, real, LinkError::Missing)));
    }
    Some(())
}

fn bad_link(path: &str, target: &str, problem: LinkError) -> SnapshotFile {
    let message = format!("{path} is a symbolic link to {target:?}, {}", problem.text());
    unusable(path, "bad-link", message, problem.help())
}

/// Resolves a path to one without links. `None` if the links make too many names.
fn resolve<T>(
    entries: &BTreeMap<String, Entry<T>>,
    path: &str,
    budget: &mut Budget,
) -> Option<Result<String, LinkError>> {
    let mut pending: Vec<&str> = path.split('/').rev().collect();
    let mut at: Vec<&str> = Vec::new();
    let mut hops = 0;
    while let Some(part) = pending.pop() {
        match part {
            "" | "." => {}
            ".." => {
                if at.pop().is_none() {
                    return Some(Err(LinkError::Outside));
                }
            }
            part => {
                at.push(part);
                let name = at.join("/");
                budget.take(&name).then_some(())?;
                if let Some(Entry::Link(target)) = entries.get(&name) {
                    budget.take(target).then_some(())?;
                    hops += 1;
                    if hops > MAX_HOPS {
                        return Some(Err(LinkError::Cycle));
                    }
                    if target.starts_with('/') {
                        return Some(Err(LinkError::Outside));
                    }
                    at.pop();
                    pending.extend(target.split('/').rev());
                }
            }
        }
    }
    Some(Ok(at.join("/")))
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
        let Resolved { files, refused } = resolve_links(&entries).unwrap();
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
    fn links_make_a_bounded_number_of_names() {
        let long = "n".repeat(200);
        // Links to one folder: 2,000 times 2,000 names.
        let files = (0..2_000).map(|at| (format!("a/{at}{long}"), Entry::File(())));
        let links = (0..2_000).map(|at| (format!("l{at}"), Entry::Link("a".to_owned())));
        assert!(resolve_links(&files.chain(links).collect()).is_none());
        // Long targets, one after the other.
        let links = (0..2_000).map(|at| {
            let target = format!("{}{}", "./a/../".repeat(500), at + 1);
            (at.to_string(), Entry::Link::<()>(target))
        });
        assert!(resolve_links(&links.collect()).is_none());
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
