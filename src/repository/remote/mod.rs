//! Reads a revision of a repository on a git server, through a cache on this machine.
//!
//! The server is always asked: what it no longer has is not read from the cache. A commit is fetched alone where the server
//! can; the whole history only for a revision that needs it. The `git` program fetches, and libgit2 reads what it has
//! fetched. Blocks, and is meant for a thread of its own. Writes to the cache alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{Commit, Oid, Repository};
use walkdir::WalkDir;

use super::address::RemoteAddress;
use super::signature::Signers;
use super::{Folder, RepositoryError, Snapshot, SnapshotFile, git};

mod cache;
mod environment;
mod error;
mod progress;
mod session;
mod wanted;

pub use cache::MAX_CACHE;
pub use environment::Environment;
pub use error::RemoteError;
pub use progress::{Extent, Progress};

use cache::{Cache, RepositoryCache, discard, touch};
use session::Session;
use wanted::{Listed, Wanted, hint, leading_id, wanted};

/// The most bytes that one download may have.
pub const MAX_DOWNLOAD: u64 = 512 << 20;
/// The most objects that one download may have.
pub const MAX_OBJECTS: u64 = 2_000_000;
/// What a fetched revision is called in the cache.
const FETCHED: &str = "refs/nodecfg/fetched";

/// What to read from where.
#[derive(Debug, Clone)]
pub struct Request {
    /// The repository.
    pub address: RemoteAddress,
    /// Which commit, as git spells revisions; default the server's HEAD.
    pub revision: Option<String>,
    /// The folder of the configuration within the repository.
    pub folder: Folder,
    /// Where the cache is.
    pub cache: PathBuf,
    /// Who must have signed the commit; unset: nobody need have.
    pub signers: Option<Arc<Signers>>,
    /// What git gets of the environment.
    pub environment: Environment,
}

/// Reads the revision.
///
/// # Errors
/// When the server cannot be reached or trusted, does not let us in, has no such revision, or has too much.
pub fn read(request: &Request, progress: &Progress) -> Result<Snapshot, RepositoryError> {
    Reading { request, progress }.read()
}

/// A folder that is removed when nothing became of it.
struct Draft {
    path: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        discard(&self.path);
    }
}

struct Reading<'a> {
    request: &'a Request,
    progress: &'a Progress,
}

impl Reading<'_> {
    fn read(&self) -> Result<Snapshot, RepositoryError> {
        self.progress.start("opening the cache");
        let cache = Cache::open(&self.request.cache).map_err(|error| self.failed(error))?;
        let shelf = cache.shelf(&self.request.address.key()).map_err(|error| self.failed(error))?;
        match self.read_from(&shelf) {
            // Somebody may have pushed between the list and the download.
            Err(error) if is_inconsistent(&error) => self.read_from(&shelf),
            result => result,
        }
    }

    fn read_from(&self, shelf: &RepositoryCache) -> Result<Snapshot, RepositoryError> {
        let draft = Draft { path: shelf.draft().map_err(|error| self.failed(error))? };
        let repository = self.init(&draft.path).map_err(|error| self.failed(error))?;
        let session = self.session(&draft.path)?;
        let listed = session.list().map_err(|error| self.failed(error))?;
        let (source, told, cached) = match wanted(self.request.revision.as_deref(), &listed) {
            Wanted::Empty => return Err(self.failed(RemoteError::Empty)),
            Wanted::Unknown => return Err(self.failed(self.unknown(&listed))),
            Wanted::Reference { name, commit } => (name, commit, shelf.commit(commit).map(|path| (path, commit))),
            Wanted::Commit(id) => (id.to_string(), id, None),
            Wanted::History => return self.with_history(shelf),
        };
        if let Some((path, commit)) = cached {
            match Repository::open_bare(&path).map(|repository| self.snapshot(&repository, commit)) {
                Ok(Ok(snapshot)) if is_whole(&snapshot) => {
                    tracing::info!("{} is still at {commit}, which is in the cache", self.request.address);
                    return Ok(snapshot);
                }
                Ok(Err(error)) if !is_damage(&error) => return Err(error),
                _ => {
                    tracing::info!("the cache of {commit} is damaged; it is made anew");
                    discard(&path);
                }
            }
        }
        let refspec = format!("+{source}:{FETCHED}");
        match session.fetch(&[refspec], true) {
            Ok(()) => {}
            // A server that gives no single commits, or none that no reference points at.
            Err(RemoteError::Git { message, .. }) => {
                tracing::debug!("cannot fetch {source} alone ({message}); fetching the history");
                return self.with_history(shelf);
            }
            Err(error) => return Err(self.failed(error)),
        }
        let commit = self.commit(&repository, FETCHED).map_err(|error| self.failed(error))?.id();
        is_as_told(&repository, told, commit).map_err(|error| self.failed(error))?;
        let path = shelf.keep(&draft.path, commit).map_err(|error| self.failed(error))?;
        let kept = Repository::open_bare(path).map_err(|error| self.failed(broken(&error)))?;
        tracing::info!("fetched {commit} of {}", self.request.address);
        self.snapshot(&kept, commit)
    }

    /// Reads a revision that needs the history, or whose server gives no less. A history that turns out damaged is
    /// fetched anew, once.
    fn with_history(&self, shelf: &RepositoryCache) -> Result<Snapshot, RepositoryError> {
        self.progress.start("waiting for another run");
        let lock = shelf.lock_history().map_err(|error| self.failed(error))?;
        let path = shelf.history();
        if lock.is_some() && path.exists() {
            remove_leftovers(&path);
            match self.read_history(&path) {
                Ok(snapshot) if is_whole(&snapshot) => return Ok(snapshot),
                Err(error) if !is_damage(&error) || !self.progress.is_awaited() => return Err(error),
                _ => {
                    tracing::debug!("the cached history is damaged or too large; it is made anew");
                    discard(&path);
                }
            }
        }
        // Where another run is at it, this one makes its own rather than wait.
        let draft = Draft { path: shelf.draft().map_err(|error| self.failed(error))? };
        self.init(&draft.path).map_err(|error| self.failed(error))?;
        let snapshot = self.read_history(&draft.path)?;
        if lock.is_some() {
            shelf.keep_history(&draft.path).map_err(|error| self.failed(error))?;
        }
        Ok(snapshot)
    }

    /// Brings a repository with the whole history up to date and reads the revision from it.
    fn read_history(&self, path: &Path) -> Result<Snapshot, RepositoryError> {
        let repository = Repository::open_bare(path).map_err(|error| self.failed(broken(&error)))?;
        let session = self.session(path)?;
        let listed = session.list().map_err(|error| self.failed(error))?;
        // What the server had before may have moved meanwhile.
        let want = wanted(self.request.revision.as_deref(), &listed);
        let mut refspecs = vec!["+refs/heads/*:refs/heads/*".to_owned(), "+refs/tags/*:refs/tags/*".to_owned()];
        if let Wanted::Reference { name, .. } = &want {
            refspecs.push(format!("+{name}:{FETCHED}"));
        }
        session.fetch(&refspecs, false).map_err(|error| self.failed(error))?;
        forget(&repository, &listed).map_err(|error| self.failed(broken(&error)))?;
        touch(path);
        let revision = match &want {
            Wanted::Empty => return Err(self.failed(RemoteError::Empty)),
            Wanted::Unknown => return Err(self.failed(self.unknown(&listed))),
            Wanted::Reference { .. } => FETCHED.to_owned(),
            Wanted::Commit(id) => id.to_string(),
            Wanted::History => self.request.revision.clone().unwrap_or_else(|| "HEAD".to_owned()),
        };
        let commit = match self.commit(&repository, &revision) {
            Ok(commit) => commit.id(),
            // A history with a hole in it cannot tell.
            Err(_) => match is_reached(&repository, None, &listed) {
                Ok(_) => return Err(self.failed(self.unknown(&listed))),
                Err(error) => return Err(self.failed(broken(&error))),
            },
        };
        if let Wanted::Reference { commit: told, .. } | Wanted::Commit(told) = &want {
            is_as_told(&repository, *told, commit).map_err(|error| self.failed(error))?;
        }
        let reached = matches!(want, Wanted::Reference { .. })
            || is_reached(&repository, Some(commit), &listed).map_err(|error| self.failed(broken(&error)))?;
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
            operation: "make a repository in the git cache",
            message: error.message().to_owned(),
        })
    }

    fn commit<'r>(&self, repository: &'r Repository, revision: &str) -> Result<Commit<'r>, RemoteError> {
        if let Some(id) = leading_id(revision) {
            // Without it libgit2 would look for a branch of that name.
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

    fn unknown(&self, listed: &[Listed]) -> RemoteError {
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

/// Whether a commit is the one that the server listed or the user named. Where that is a tag, it must be of this commit.
fn is_as_told(repository: &Repository, told: Oid, commit: Oid) -> Result<(), RemoteError> {
    let leads_to = repository.find_object(told, None).and_then(|object| object.peel_to_commit());
    if leads_to.is_ok_and(|there| there.id() == commit) {
        return Ok(());
    }
    Err(RemoteError::Inconsistent { told: told.to_string(), sent: commit.to_string() })
}

fn is_inconsistent(error: &RepositoryError) -> bool {
    matches!(error, RepositoryError::Remote { source, .. } if matches!(**source, RemoteError::Inconsistent { .. }))
}

/// Whether every file that the commit names has its content.
fn is_whole(snapshot: &Snapshot) -> bool {
    let missing =
        |file: &SnapshotFile| matches!(file, SnapshotFile::Unusable(finding) if finding.code == "missing-object");
    !snapshot.files.values().any(missing)
}

/// Whether an error may come from a cache that is damaged, rather than from the revision or the server.
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

/// Makes the references of a repository those that the server lists: what was deleted there is deleted here.
fn forget(repository: &Repository, listed: &[Listed]) -> Result<(), git2::Error> {
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
            // A HEAD that is on no branch may be of a commit that was not fetched.
            None => drop(repository.set_head_detached(head.id)),
        }
    }
    Ok(())
}

/// Whether any branch or tag of the server leads to a commit. Without one, walks it all.
fn is_reached(repository: &Repository, commit: Option<Oid>, listed: &[Listed]) -> Result<bool, git2::Error> {
    let mut walk = repository.revwalk()?;
    for reference in listed {
        let pushed = walk.push(reference.id);
        // What was not fetched cannot be walked, and tags may be of anything.
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

/// Removes what a run that was killed left in a repository of the cache, which nobody else writes to.
fn remove_leftovers(path: &Path) {
    for file in WalkDir::new(path).into_iter().flatten().filter(|file| file.file_type().is_file()) {
        let name = file.file_name().to_string_lossy();
        // git writes objects and packs as tmp_…, and references and the configuration through ….lock.
        if name.ends_with(".lock") || name.starts_with("tmp_") {
            let _ = fs::remove_file(file.path());
        }
    }
}
