//! Reads a revision of a repository on a git server, through a local cache.
//!
//! Always queries the server, so that commits deleted there are not served from the cache. Fetches a single commit if
//! the server supports it, otherwise the whole history. The `git` program fetches; libgit2 reads the result. Blocks,
//! so run it on a separate thread. Writes to the cache only. The caller reads the environment; arguments of programs and
//! messages contain no secret.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{Commit, Oid, Repository};
use walkdir::WalkDir;

use super::address::RemoteAddress;
use super::signature::Signers;
use super::{Folder, RemoteError, RepositoryError, Snapshot, SnapshotFile, git};

mod cache;
mod environment;
mod fetch_target;
mod progress;
mod session;

pub use cache::MAX_CACHE;
pub use environment::Environment;
pub use progress::{Extent, Progress};

use cache::{Cache, RepositoryCache, discard, touch};
use fetch_target::{FetchTarget, ListedReference, hint, leading_id, select};
use session::Session;

/// The maximum size of a download, in bytes.
pub const MAX_DOWNLOAD: u64 = 512 << 20;
/// The maximum number of objects in a download.
pub const MAX_OBJECTS: u64 = 2_000_000;
/// The reference of a fetched revision in the cache.
const FETCHED: &str = "refs/nodecfg/fetched";

/// The repository and revision to read.
#[derive(Debug, Clone)]
pub struct Request {
    /// The repository.
    pub address: RemoteAddress,
    /// The revision in git syntax. Default: the server's HEAD.
    pub revision: Option<String>,
    /// The folder of the configuration within the repository.
    pub folder: Folder,
    /// The folder of the cache.
    pub cache: PathBuf,
    /// The allowed signers of the commit. Unset: signatures are not verified.
    pub signers: Option<Arc<Signers>>,
    /// The environment of git.
    pub environment: Environment,
}

/// Reads the revision.
///
/// # Errors
/// When the server is unreachable, untrusted or denies access, or the revision is missing or too large.
pub fn read(request: &Request, progress: &Progress) -> Result<Snapshot, RepositoryError> {
    RemoteReader { request, progress }.read()
}

/// A folder that is removed on drop, unless it was renamed.
struct Draft {
    path: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        discard(&self.path);
    }
}

struct RemoteReader<'a> {
    request: &'a Request,
    progress: &'a Progress,
}

impl RemoteReader<'_> {
    fn read(&self) -> Result<Snapshot, RepositoryError> {
        self.progress.start("opening the cache");
        let cache = Cache::open(&self.request.cache).map_err(|error| self.failed(error))?;
        let entries = cache.repository(&self.request.address.key()).map_err(|error| self.failed(error))?;
        match self.read_from(&entries) {
            // A push may have happened between listing and download.
            Err(error) if is_inconsistent(&error) => self.read_from(&entries),
            result => result,
        }
    }

    fn read_from(&self, entries: &RepositoryCache) -> Result<Snapshot, RepositoryError> {
        let draft = Draft { path: entries.draft().map_err(|error| self.failed(error))? };
        let repository = self.init(&draft.path).map_err(|error| self.failed(error))?;
        let session = self.session(&draft.path)?;
        let listed = session.list().map_err(|error| self.failed(error))?;
        let (source, expected, cached) = match select(self.request.revision.as_deref(), &listed) {
            FetchTarget::Empty => return Err(self.failed(RemoteError::Empty)),
            FetchTarget::Unknown => return Err(self.failed(self.unknown(&listed))),
            FetchTarget::Reference { name, commit } => {
                (name, commit, entries.commit(commit).map(|path| (path, commit)))
            }
            FetchTarget::Commit(id) => (id.to_string(), id, None),
            FetchTarget::History => return self.with_history(entries),
        };
        if let Some((path, commit)) = cached {
            match Repository::open_bare(&path).map(|repository| self.snapshot(&repository, commit)) {
                Ok(Ok(snapshot)) if is_whole(&snapshot) => {
                    tracing::info!("{} is still at {commit}, which is in the cache", self.request.address);
                    return Ok(snapshot);
                }
                Ok(Err(error)) if !is_damage(&error) => return Err(error),
                _ => {
                    tracing::info!("the cached copy of {commit} is damaged; fetching it again");
                    discard(&path);
                }
            }
        }
        let refspec = format!("+{source}:{FETCHED}");
        match session.fetch(&[refspec], true) {
            Ok(()) => {}
            // The server does not serve single commits, or not this unreferenced one.
            Err(RemoteError::Git { message, .. }) => {
                tracing::debug!("cannot fetch {source} alone ({message}); fetching the history");
                return self.with_history(entries);
            }
            Err(error) => return Err(self.failed(error)),
        }
        let commit = self.commit(&repository, FETCHED).map_err(|error| self.failed(error))?.id();
        check_commit(&repository, expected, commit).map_err(|error| self.failed(error))?;
        let path = entries.keep(&draft.path, commit).map_err(|error| self.failed(error))?;
        let kept = Repository::open_bare(path).map_err(|error| self.failed(broken(&error)))?;
        tracing::info!("fetched {commit} of {}", self.request.address);
        self.snapshot(&kept, commit)
    }

    /// Reads a revision that needs the whole history. Fetches a damaged history again, once.
    fn with_history(&self, entries: &RepositoryCache) -> Result<Snapshot, RepositoryError> {
        self.progress.start("waiting for another run");
        let lock = entries.lock_history().map_err(|error| self.failed(error))?;
        let path = entries.history();
        if lock.is_some() && path.exists() {
            remove_leftovers(&path);
            match self.read_history(&path) {
                Ok(snapshot) if is_whole(&snapshot) => return Ok(snapshot),
                Err(error) if !is_damage(&error) || !self.progress.is_active() => return Err(error),
                _ => {
                    tracing::debug!("the cached history is damaged or too large; fetching it again");
                    discard(&path);
                }
            }
        }
        // If another run holds the lock, this run uses its own copy instead of waiting.
        let draft = Draft { path: entries.draft().map_err(|error| self.failed(error))? };
        self.init(&draft.path).map_err(|error| self.failed(error))?;
        let snapshot = self.read_history(&draft.path)?;
        if lock.is_some() {
            entries.keep_history(&draft.path).map_err(|error| self.failed(error))?;
        }
        Ok(snapshot)
    }

    /// Updates a repository with the whole history and reads the revision.
    fn read_history(&self, path: &Path) -> Result<Snapshot, RepositoryError> {
        let repository = Repository::open_bare(path).map_err(|error| self.failed(broken(&error)))?;
        let session = self.session(path)?;
        let listed = session.list().map_err(|error| self.failed(error))?;
        // References may have changed on the server since the first listing.
        let target = select(self.request.revision.as_deref(), &listed);
        let mut refspecs = vec!["+refs/heads/*:refs/heads/*".to_owned(), "+refs/tags/*:refs/tags/*".to_owned()];
        if let FetchTarget::Reference { name, .. } = &target {
            refspecs.push(format!("+{name}:{FETCHED}"));
        }
        session.fetch(&refspecs, false).map_err(|error| self.failed(error))?;
        sync_references(&repository, &listed).map_err(|error| self.failed(broken(&error)))?;
        touch(path);
        let revision = match &target {
            FetchTarget::Empty => return Err(self.failed(RemoteError::Empty)),
            FetchTarget::Unknown => return Err(self.failed(self.unknown(&listed))),
            FetchTarget::Reference { .. } => FETCHED.to_owned(),
            FetchTarget::Commit(id) => id.to_string(),
            FetchTarget::History => self.request.revision.clone().unwrap_or_else(|| "HEAD".to_owned()),
        };
        let commit = match self.commit(&repository, &revision) {
            Ok(commit) => commit.id(),
            // An incomplete history must report damage instead of an unknown revision.
            Err(_) => match is_reachable(&repository, None, &listed) {
                Ok(_) => return Err(self.failed(self.unknown(&listed))),
                Err(error) => return Err(self.failed(broken(&error))),
            },
        };
        if let FetchTarget::Reference { commit: expected, .. } | FetchTarget::Commit(expected) = &target {
            check_commit(&repository, *expected, commit).map_err(|error| self.failed(error))?;
        }
        let reached = matches!(target, FetchTarget::Reference { .. })
            || is_reachable(&repository, Some(commit), &listed).map_err(|error| self.failed(broken(&error)))?;
        if !reached {
            return Err(self.failed(self.unknown(&listed)));
        }
        tracing::info!("fetched {commit} of {} with its history", self.request.address);
        self.snapshot(&repository, commit)
    }

    fn session<'s>(&'s self, folder: &'s Path) -> Result<Session<'s>, RepositoryError> {
        let session = Session::new(folder, &self.request.address, &self.request.environment, self.progress);
        session.map_err(|error| self.failed(error))
    }

    fn init(&self, path: &Path) -> Result<Repository, RemoteError> {
        Repository::init_bare(path).map_err(|error| RemoteError::Broken {
            operation: "create a repository in the git cache",
            message: error.message().to_owned(),
        })
    }

    fn commit<'r>(&self, repository: &'r Repository, revision: &str) -> Result<Commit<'r>, RemoteError> {
        if let Some(id) = leading_id(revision) {
            // A missing commit must fail here: otherwise libgit2 searches for a branch of that name.
            repository.find_object(id, None).map_err(|error| broken(&error))?;
        }
        let found = repository.revparse_single(revision).and_then(|object| object.peel_to_commit());
        found.map_err(|error| broken(&error))
    }

    fn snapshot(&self, repository: &Repository, commit: Oid) -> Result<Snapshot, RepositoryError> {
        self.progress.start("reading the revision");
        let name = PathBuf::from(self.request.address.to_string());
        let (revision, signers) = (self.request.revision.as_deref(), self.request.signers.as_deref());
        git::read_commit(repository, &name, self.request.folder.as_str(), commit, revision, signers)
    }

    fn unknown(&self, listed: &[ListedReference]) -> RemoteError {
        let revision = self.request.revision.clone().unwrap_or_else(|| "HEAD".to_owned());
        RemoteError::UnknownRevision { hint: hint(&revision, listed), revision }
    }

    fn failed(&self, source: RemoteError) -> RepositoryError {
        RepositoryError::Remote { address: self.request.address.to_string(), source: Box::new(source) }
    }
}

fn broken(error: &git2::Error) -> RemoteError {
    RemoteError::Broken { operation: "read the git cache", message: error.message().to_owned() }
}

/// Checks that a commit is the listed or requested one, or the target of the listed tag.
fn check_commit(repository: &Repository, expected: Oid, commit: Oid) -> Result<(), RemoteError> {
    let leads_to = repository.find_object(expected, None).and_then(|object| object.peel_to_commit());
    if leads_to.is_ok_and(|there| there.id() == commit) {
        return Ok(());
    }
    Err(RemoteError::Inconsistent { expected: expected.to_string(), sent: commit.to_string() })
}

fn is_inconsistent(error: &RepositoryError) -> bool {
    matches!(error, RepositoryError::Remote { source, .. } if matches!(**source, RemoteError::Inconsistent { .. }))
}

/// Reports whether all files of the snapshot have their content.
fn is_whole(snapshot: &Snapshot) -> bool {
    let missing =
        |file: &SnapshotFile| matches!(file, SnapshotFile::Unusable(finding) if finding.code == "missing-object");
    !snapshot.files.values().any(missing)
}

/// Reports whether an error may come from a damaged cache instead of the revision or the server.
fn is_damage(error: &RepositoryError) -> bool {
    match error {
        RepositoryError::Git { .. } | RepositoryError::UnknownRevision { .. } | RepositoryError::NoCommits { .. } => {
            true
        }
        RepositoryError::Remote { source, .. } => {
            matches!(**source, RemoteError::Broken { .. } | RemoteError::Git { operation: "download the revision", .. })
        }
        _ => false,
    }
}

/// Deletes references that the server no longer lists, except [`FETCHED`], and updates HEAD.
fn sync_references(repository: &Repository, listed: &[ListedReference]) -> Result<(), git2::Error> {
    for reference in repository.references()? {
        let mut reference = reference?;
        let gone = match reference.name() {
            Ok(FETCHED) => false,
            Ok(name) => !listed.iter().any(|there| there.name == name),
            Err(_) => false,
        };
        if gone {
            reference.delete()?;
        }
    }
    if let Some(head) = listed.iter().find(|reference| reference.name == "HEAD") {
        match &head.target {
            Some(target) => repository.set_head(target)?,
            // A detached HEAD may refer to a commit that was not fetched.
            None => drop(repository.set_head_detached(head.id)),
        }
    }
    Ok(())
}

/// Reports whether a listed reference reaches a commit. With `None`, walks the whole history to detect missing
/// commits and returns false.
fn is_reachable(repository: &Repository, commit: Option<Oid>, listed: &[ListedReference]) -> Result<bool, git2::Error> {
    let mut walk = repository.revwalk()?;
    for reference in listed {
        let pushed = walk.push(reference.id);
        // Tags may refer to objects that were not fetched.
        if reference.name.starts_with("refs/heads/") {
            pushed?;
        }
    }
    for id in walk {
        if Some(id?) == commit {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes temporary files of a killed run from a cached repository. The caller must hold its lock.
fn remove_leftovers(path: &Path) {
    for file in WalkDir::new(path).into_iter().flatten().filter(|file| file.file_type().is_file()) {
        let name = file.file_name().to_string_lossy();
        // Git names temporary objects and packs tmp_…, and locks of references and configuration ….lock.
        if name.ends_with(".lock") || name.starts_with("tmp_") {
            let _ = fs::remove_file(file.path());
        }
    }
}
