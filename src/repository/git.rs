//! Reads a snapshot of a commit through libgit2, from objects only. Reads the working tree only to report uncommitted
//! changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Commit, ErrorCode, ObjectType, Odb, Oid, Repository, StatusOptions, Tree};

use super::folder::relative;
use super::links::{Entry, Resolved, resolve_links};
use super::signature::Signers;
use super::text::{has_controls, is_candidate, name_with_controls, normalized, too_large, unreadable_name, unusable};
use super::{
    Enclosing, MAX_ENTRIES, MAX_FILE, MAX_FILES, MAX_TOTAL, OpenOptions, RepositoryError, Snapshot, SnapshotFile,
    Source,
};
use kubelet_config::finding::Finding;
use nodecfg_contract::names::CommitId;
use nodecfg_fleet::snapshot::Signer;

/// The maximum depth of folders.
const MAX_DEPTH: usize = 32;
/// Time limit of the comparison of the folder with the commit, which only warns.
const STATUS_LIMIT: Duration = Duration::from_secs(10);
/// The file mode of a symbolic link.
const LINK_MODE: i32 = 0o120_000;
/// The maximum length of the target of a link, in bytes: that of a path on Linux.
const MAX_TARGET: usize = 4096;
/// Maximum number of names in an error.
const MAX_NAMES: usize = 8;

/// The folder to read, with links resolved. A link out of the repository around it is refused.
pub(super) fn root_of(options: &OpenOptions) -> Result<PathBuf, RepositoryError> {
    Enclosing::with(options.checkout.clone()).folder(&options.path).map_err(|error| error.of(&options.path))
}

/// The repository of a folder, if any.
///
/// A commit can contain the files of a bare repository, but no `.git`. So a bare repository inside a checkout may be
/// content of a pull request. It is refused before its configuration is read, as git does with
/// `safe.bareRepository=explicit` (git 2.38).
pub(super) fn discover(root: &Path) -> Result<Option<Repository>, RepositoryError> {
    let found = match Repository::discover_path(root, None::<&Path>) {
        Ok(found) => found,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
        Err(source) => {
            return Err(RepositoryError::Git { operation: "find the repository", path: root.to_owned(), source });
        }
    };
    if root.starts_with(&found)
        && let Some(checkout) = checkout_around(&found)
    {
        return Err(RepositoryError::EmbeddedRepository { path: found.components().collect(), checkout });
    }
    match Repository::open(&found) {
        Ok(repository) => Ok(Some(repository)),
        Err(error) if error.code() == ErrorCode::Owner => {
            // Git's setting safe.directory needs the top folder of the repository.
            let top = root.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(root);
            Err(RepositoryError::NotTrusted { path: top.to_owned() })
        }
        Err(source) => Err(RepositoryError::Git { operation: "open the repository", path: root.to_owned(), source }),
    }
}

/// The top folder of the checkout whose files contain `repository`.
fn checkout_around(repository: &Path) -> Option<PathBuf> {
    let top = repository.ancestors().skip(1).find(|folder| folder.join(".git").exists())?;
    // A file `.git` may name a bare repository beside it, which then belongs to no other repository.
    let owns = |found: PathBuf| found == repository;
    let is_own =
        repository.starts_with(top.join(".git")) || Repository::discover_path(top, None::<&Path>).is_ok_and(owns);
    (!is_own).then(|| top.to_owned())
}

/// Reads `folder` below `root` from a commit, by default HEAD. For HEAD, warns about uncommitted changes.
pub(super) fn read(
    repository: &Repository,
    root: &Path,
    folder: &str,
    revision: Option<&str>,
    signers: Option<&Signers>,
) -> Result<Snapshot, RepositoryError> {
    let commit = commit(repository, root, revision)?;
    let prefix = folder_within(repository, root, folder);
    let mut snapshot = read_commit(repository, root, &prefix, commit.id(), revision, signers)?;
    if revision.is_none() {
        let changed = uncommitted_files(repository, &prefix);
        snapshot.uncommitted = changed.len();
        snapshot.findings.extend(uncommitted(changed, &short(commit.id())));
    }
    Ok(snapshot)
}

/// The path of `folder` within the repository.
pub(super) fn folder_within(repository: &Repository, root: &Path, folder: &str) -> String {
    let parts = [prefix(repository, root), folder.to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

pub(super) fn short(id: Oid) -> String {
    id.to_string().chars().take(10).collect()
}

/// Reads the folder `prefix` of a commit. Errors show `root` and `revision`.
pub(super) fn read_commit(
    repository: &Repository,
    root: &Path,
    prefix: &str,
    id: Oid,
    revision: Option<&str>,
    signers: Option<&Signers>,
) -> Result<Snapshot, RepositoryError> {
    let failed = |operation: &'static str| {
        move |source: git2::Error| RepositoryError::Git { operation, path: root.to_owned(), source }
    };
    let commit = repository.find_commit(id).map_err(failed("find the commit"))?;
    // Verifies the signature before reading the content.
    let signer = signers.map(|signers| signer(repository, root, &commit, signers)).transpose()?;
    let mut tree = commit.tree().map_err(failed("read the commit's tree"))?;
    if !prefix.is_empty() {
        let name = || revision.map_or_else(|| format!("HEAD ({})", short(id)), str::to_owned);
        tree = match folder_of(repository, &tree, prefix).map_err(failed("read the folder's tree"))? {
            FolderLookup::Folder(tree) => tree,
            FolderLookup::Submodule(submodule) => {
                return Err(RepositoryError::FolderInSubmodule {
                    revision: name(),
                    folder: prefix.to_owned(),
                    submodule,
                });
            }
            FolderLookup::Missing => {
                return Err(RepositoryError::NoSuchFolder { revision: name(), folder: prefix.to_owned() });
            }
        };
    }
    let odb = repository.odb().map_err(failed("open the object database"))?;
    let mut walk = Walk {
        repository,
        odb: &odb,
        entries: BTreeMap::new(),
        candidates: 0,
        seen: 0,
        names: 0,
        findings: Vec::new(),
    };
    walk.tree(&tree, "", 0).map_err(failed("read a folder of the commit"))?;
    let too_large = || RepositoryError::TooLarge { path: root.to_owned(), files: MAX_FILES, bytes: MAX_TOTAL };
    if walk.is_too_large() {
        return Err(too_large());
    }
    let Resolved { files: found, refused } = resolve_links(&walk.entries).ok_or_else(too_large)?;
    if found.len() > MAX_FILES {
        return Err(too_large());
    }
    let mut files: BTreeMap<String, SnapshotFile> = refused.into_iter().collect();
    let mut total = 0;
    for (path, id) in found {
        let file = blob(&odb, &path, id, &mut total).map_err(failed("read a file of the commit"))?;
        if total > MAX_TOTAL {
            return Err(too_large());
        }
        files.insert(path, file);
    }
    let mut findings = walk.findings;
    let signed = |signer: &Signer| format!("commit {} is signed by {signer}", short(id));
    findings.extend(signer.iter().map(|signer| Finding::note("verified-commit", signed(signer))));
    let commit = CommitId::new(id.to_string()).ok();
    Ok(Snapshot { files, commit, uncommitted: 0, signer, source: Source::Commit, findings })
}

/// Result of a folder lookup.
pub(super) enum FolderLookup<'r> {
    Folder(Tree<'r>),
    /// The folder is or belongs to this submodule.
    Submodule(String),
    Missing,
}

/// The tree of a folder in a commit.
pub(super) fn folder_of<'r>(
    repository: &'r Repository,
    root: &Tree<'r>,
    path: &str,
) -> Result<FolderLookup<'r>, git2::Error> {
    let mut tree = root.clone();
    let mut walked = String::new();
    for part in path.split('/') {
        if !walked.is_empty() {
            walked.push('/');
        }
        walked.push_str(part);
        let Some((kind, id)) = tree.get_name(part).map(|entry| (entry.kind(), entry.id())) else {
            return Ok(FolderLookup::Missing);
        };
        match kind {
            Some(ObjectType::Tree) => tree = repository.find_tree(id)?,
            Some(ObjectType::Commit) => return Ok(FolderLookup::Submodule(walked)),
            _ => return Ok(FolderLookup::Missing),
        }
    }
    Ok(FolderLookup::Folder(tree))
}

/// The commit of a revision, by default HEAD.
pub(super) fn commit<'r>(
    repository: &'r Repository,
    root: &Path,
    revision: Option<&str>,
) -> Result<Commit<'r>, RepositoryError> {
    let name = revision.unwrap_or("HEAD");
    match repository.revparse_single(name).and_then(|object| object.peel_to_commit()) {
        Ok(commit) => Ok(commit),
        Err(_) if revision.is_none() => Err(RepositoryError::NoCommits { path: root.to_owned() }),
        Err(error) => Err(RepositoryError::UnknownRevision {
            path: root.to_owned(),
            revision: name.to_owned(),
            hint: hint(repository, &error),
        }),
    }
}

/// The id of the commit of a revision.
pub(super) fn resolve(
    repository: &Repository,
    root: &Path,
    revision: Option<&str>,
) -> Result<Option<CommitId>, RepositoryError> {
    Ok(CommitId::new(commit(repository, root, revision)?.id().to_string()).ok())
}

/// Verifies the signature of a commit and returns its signer.
fn signer(
    repository: &Repository,
    root: &Path,
    commit: &Commit<'_>,
    signers: &Signers,
) -> Result<Signer, RepositoryError> {
    let odb = repository.odb().and_then(|odb| odb.read(commit.id()).map(|object| object.data().to_vec()));
    let object =
        odb.map_err(|source| RepositoryError::Git { operation: "read the commit", path: root.to_owned(), source })?;
    signers.verify(&object, commit.time().seconds()).map_err(|why| RepositoryError::Unverified {
        path: root.to_owned(),
        commit: commit.id().to_string().chars().take(10).collect(),
        why: Box::new(why),
    })
}

/// How to fix an unknown revision.
fn hint(repository: &Repository, error: &git2::Error) -> String {
    if error.code() == ErrorCode::Ambiguous {
        return "several objects start with these digits; use more digits".to_owned();
    }
    if repository.is_shallow() {
        return "run `git fetch --unshallow`: the clone is shallow".to_owned();
    }
    let mut names: Vec<String> = Vec::new();
    if let Ok(references) = repository.references() {
        names.extend(references.flatten().filter_map(|reference| reference.shorthand().ok().map(str::to_owned)));
    }
    names.retain(|name| name != "HEAD");
    names.sort();
    let more = if names.len() > MAX_NAMES { format!(" and {} more", names.len() - MAX_NAMES) } else { String::new() };
    names.truncate(MAX_NAMES);
    if names.is_empty() {
        return "create a commit: the repository has no branches or tags".to_owned();
    }
    format!("use {}{more} or another revision that git rev-parse accepts", names.join(", "))
}

/// The path of `root` within the repository.
fn prefix(repository: &Repository, root: &Path) -> String {
    let top = repository.workdir().unwrap_or_else(|| repository.path());
    let top = top.canonicalize().unwrap_or_else(|_| top.to_owned());
    relative(&top, root).unwrap_or_default()
}

struct Walk<'r> {
    repository: &'r Repository,
    odb: &'r Odb<'r>,
    entries: BTreeMap<String, Entry<Oid>>,
    /// The number of configuration files.
    candidates: usize,
    /// The number of visited entries. A few nested trees that repeat each other can form an enormous folder, so it is
    /// limited.
    seen: usize,
    /// The bytes of all paths and targets of links. Git limits neither their length nor their repetition.
    names: u64,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn is_too_large(&self) -> bool {
        self.seen > MAX_ENTRIES || self.candidates > MAX_FILES || self.names > MAX_TOTAL
    }

    fn tree(&mut self, tree: &Tree<'_>, prefix: &str, depth: usize) -> Result<(), git2::Error> {
        for entry in tree {
            self.seen += 1;
            if self.is_too_large() {
                return Ok(());
            }
            let Ok(name) = entry.name() else {
                self.findings
                    .extend(unreadable_name(&format!("{prefix}{}", String::from_utf8_lossy(entry.name_bytes()))));
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{prefix}{name}");
            self.names += u64::try_from(path.len()).unwrap_or(u64::MAX);
            if has_controls(name) {
                self.findings.extend(name_with_controls(&path));
                continue;
            }
            let found = match entry.kind() {
                Some(ObjectType::Tree) => {
                    if depth < MAX_DEPTH {
                        let below = self.repository.find_tree(entry.id())?;
                        self.tree(&below, &format!("{path}/"), depth + 1)?;
                    }
                    continue;
                }
                Some(ObjectType::Commit) => Entry::Submodule,
                Some(ObjectType::Blob) if entry.filemode() == LINK_MODE => {
                    let (size, _) = self.odb.read_header(entry.id())?;
                    if size > MAX_TARGET {
                        Entry::Other
                    } else {
                        self.names += u64::try_from(size).unwrap_or(u64::MAX);
                        let blob = self.repository.find_blob(entry.id())?;
                        std::str::from_utf8(blob.content())
                            .map_or(Entry::Other, |target| Entry::Link(target.to_owned()))
                    }
                }
                Some(ObjectType::Blob) => {
                    self.candidates += usize::from(is_candidate(&path));
                    Entry::File(entry.id())
                }
                _ => Entry::Other,
            };
            self.entries.insert(path, found);
        }
        Ok(())
    }
}

fn blob(odb: &Odb<'_>, path: &str, id: Oid, total: &mut u64) -> Result<SnapshotFile, git2::Error> {
    let size = match odb.read_header(id) {
        Ok((size, _)) => u64::try_from(size).unwrap_or(u64::MAX),
        Err(error) if error.code() == ErrorCode::NotFound => {
            let message = format!("{path} is in the commit, but its content is missing in this clone");
            return Ok(unusable(
                path,
                "missing-object",
                message,
                "the clone is partial; fetch all objects: git fetch --refetch",
            ));
        }
        Err(error) => return Err(error),
    };
    if size > MAX_FILE {
        return Ok(too_large(path, size));
    }
    *total += size;
    Ok(normalized(path, odb.read(id)?.data()))
}

/// The configuration files with uncommitted changes, by path, as `git status` counts them: a staged rename is one file. None
/// if that takes too long: libgit2 takes exponential time for some patterns of `.gitattributes` and `.gitignore`, which a
/// pull request can write, and a warning is not worth a wait.
fn uncommitted_files(repository: &Repository, prefix: &str) -> Vec<String> {
    let Some(folder) = repository.workdir().map(Path::to_owned) else { return Vec::new() };
    let (prefix, (sender, receiver)) = (prefix.to_owned(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let changed = Repository::open(folder).map(|repository| files_with_changes(&repository, &prefix));
        // The receiver may have given up.
        let _ = sender.send(changed.unwrap_or_default());
    });
    receiver.recv_timeout(STATUS_LIMIT).unwrap_or_else(|_| {
        tracing::warn!("git takes too long to compare the folder with the commit; uncommitted changes are not listed");
        Vec::new()
    })
}

fn files_with_changes(repository: &Repository, prefix: &str) -> Vec<String> {
    let mut options = StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(true).include_ignored(false).exclude_submodules(true);
    options.disable_pathspec_match(true).renames_head_to_index(true);
    if !prefix.is_empty() {
        options.pathspec(prefix);
    }
    let Ok(statuses) = repository.statuses(Some(&mut options)) else { return Vec::new() };
    let below = |path: &str| {
        let rest = if prefix.is_empty() { Some(path) } else { path.strip_prefix(prefix)?.strip_prefix('/') };
        rest.filter(|rest| is_candidate(rest)).map(str::to_owned)
    };
    let mut changed: Vec<String> = statuses.iter().filter_map(|status| below(status.path().ok()?)).collect();
    changed.sort();
    changed
}

/// The warning about uncommitted changes of configuration files.
fn uncommitted(changed: Vec<String>, short: &str) -> Option<Finding> {
    let count = changed.len();
    let first = changed.into_iter().next()?;
    let what = if count == 1 { first } else { format!("{first} and {} more", count - 1) };
    Some(
        Finding::warning("uncommitted-changes", format!("uncommitted changes are not used: {what}; HEAD is {short}"))
            .help("commit them, or read the files of the folder with --worktree"),
    )
}
