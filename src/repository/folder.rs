//! Reads a snapshot of a folder on disk.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{Index, Repository};
use walkdir::WalkDir;

use super::confined::Confined;
use super::error::OpenError;
use super::links::{Entry, Resolved, resolve_links};
use super::read_file::read_limited;
use super::text::{has_controls, is_candidate, name_with_controls, normalized, too_large, unreadable_name};
use super::{MAX_ENTRIES, MAX_FILE, MAX_FILES, MAX_TOTAL, RepositoryError, Snapshot, SnapshotFile, Source};

/// The maximum depth of folders.
const MAX_DEPTH: usize = 32;

/// Reads the folder `root`, which must be absolute and contain no links. Skips hidden files. In a repository, also
/// skips the files that git ignores, unless it tracks them or ignores `root` itself.
pub(super) fn read(root: &Path, source: Source, repository: Option<&Repository>) -> Result<Snapshot, RepositoryError> {
    // An ignored folder is readable if the user names it explicitly.
    let repository = repository.filter(|repository| !repository.is_path_ignored(root).unwrap_or(false));
    let index = repository.and_then(|repository| Some((repository.workdir()?, repository.index().ok()?)));
    let opened = Confined::at(root).map_err(|error| error.of(root))?;
    let mut entries = BTreeMap::new();
    let mut walk = WalkDir::new(root).min_depth(1).max_depth(MAX_DEPTH).follow_links(false).into_iter();
    let (mut candidates, mut seen, mut names) = (0_usize, 0_usize, 0_u64);
    let mut findings = Vec::new();
    while let Some(next) = walk.next() {
        seen += 1;
        if seen > MAX_ENTRIES {
            return Err(too_much(root));
        }
        let item = match next {
            Ok(item) => item,
            Err(error) => {
                let path = error.path().unwrap_or(root).to_owned();
                let source = error.into_io_error().unwrap_or_else(|| std::io::Error::other("the folders form a loop"));
                return Err(RepositoryError::Unreadable { path, source });
            }
        };
        let kind = item.file_type();
        let hidden = item.file_name().to_string_lossy().starts_with('.');
        let tracked = || {
            let (top, index) = index.as_ref()?;
            Some(tracks(index, &relative(top, item.path())?, kind.is_dir()))
        };
        let ignored = || {
            let is_ignored = |repository: &Repository| repository.is_path_ignored(item.path()).unwrap_or(false);
            tracked() != Some(true) && repository.is_some_and(is_ignored)
        };
        if hidden || ignored() {
            if kind.is_dir() {
                walk.skip_current_dir();
            }
            continue;
        }
        let Some(path) = relative(root, item.path()) else {
            let shown = item.path().strip_prefix(root).unwrap_or(item.path()).to_string_lossy().into_owned();
            findings.extend(unreadable_name(&shown));
            continue;
        };
        if has_controls(&path) {
            findings.extend(name_with_controls(&path));
            if kind.is_dir() {
                walk.skip_current_dir();
            }
            continue;
        }
        let entry = if kind.is_dir() {
            if !item.path().join(".git").exists() {
                continue;
            }
            walk.skip_current_dir();
            Entry::Submodule
        } else if kind.is_symlink() {
            match std::fs::read_link(item.path()).ok().and_then(|target| target.to_str().map(str::to_owned)) {
                Some(target) => Entry::Link(target),
                None => Entry::Other,
            }
        } else if kind.is_file() {
            candidates += usize::from(is_candidate(&path));
            Entry::File(path.clone())
        } else {
            Entry::Other
        };
        names += u64::try_from(path.len()).unwrap_or(u64::MAX);
        if candidates > MAX_FILES || names > MAX_TOTAL {
            return Err(too_much(root));
        }
        entries.insert(path, entry);
    }
    let Resolved { files: found, refused } = resolve_links(&entries).ok_or_else(|| too_much(root))?;
    if found.len() > MAX_FILES {
        return Err(too_much(root));
    }
    let mut files: BTreeMap<String, SnapshotFile> = refused.into_iter().collect();
    let mut total = 0;
    for (path, real) in found {
        let file =
            read_on_disk(&opened, &path, &real, &mut total).unwrap_or_else(|error: OpenError| error.unusable(&path));
        if total > MAX_TOTAL {
            return Err(too_much(root));
        }
        files.insert(path, file);
    }
    Ok(Snapshot { files, commit: None, uncommitted: 0, signer: None, source, findings })
}

/// Reports whether git tracks a file, or a file in this folder. It tracks a file that was added in spite of a rule.
fn tracks(index: &Index, path: &str, is_dir: bool) -> bool {
    let prefix = if is_dir { format!("{path}/") } else { path.to_owned() };
    let first = index.find_prefix(prefix).ok().and_then(|at| index.get(at));
    first.is_some_and(|entry| is_dir || entry.path == path.as_bytes())
}

/// Reads the file `real`, which appears as `path`, and adds its size to `total`.
fn read_on_disk(root: &Confined, path: &str, real: &str, total: &mut u64) -> Result<SnapshotFile, OpenError> {
    let file = root.file(Path::new(real))?;
    let size = file.metadata()?.len();
    if size > MAX_FILE {
        return Ok(too_large(path, size));
    }
    *total += size;
    Ok(normalized(path, &read_limited(file)?))
}

fn too_much(root: &Path) -> RepositoryError {
    RepositoryError::TooLarge { path: root.to_owned(), files: MAX_FILES, bytes: MAX_TOTAL }
}

/// A path below `root` with `/` as separator. `None` if a part is not UTF-8.
pub(super) fn relative(root: &Path, path: &Path) -> Option<String> {
    let below = path.strip_prefix(root).ok()?;
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    parts.map(|parts| parts.join("/"))
}
