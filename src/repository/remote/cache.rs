//! The cache of fetched repositories: a folder per repository, with a bare repository per commit and one with the
//! whole history.
//!
//! An entry is built under a temporary name and renamed when complete, so that a killed run leaves no broken entry.
//! Every run holds a shared lock while it uses the cache. Only a run with an exclusive lock removes leftovers and old
//! entries; any run removes a damaged entry that it needs.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use git2::Oid;
use walkdir::WalkDir;

use super::RemoteError;

/// The maximum size of the cache, in bytes. The least recently used entries are removed first.
pub const MAX_CACHE: u64 = 1 << 30;
/// The marker file of an entry. Its modification time is the time of last use.
const USED: &str = "nodecfg-used";
/// The prefix of unfinished entries.
const DRAFT_PREFIX: &str = "tmp-";

/// The locked cache.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    /// Held until the cache is dropped.
    _lock: File,
}

/// The part of the cache for one repository.
#[derive(Debug)]
pub struct RepositoryCache {
    folder: PathBuf,
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RemoteError {
    let path = path.to_owned();
    move |source| RemoteError::Cache { operation, path, source }
}

impl Cache {
    /// Opens the cache below `folder`. Creates a missing cache, and cleans it if no other run uses it.
    ///
    /// # Errors
    /// When the cache cannot be created or locked.
    pub fn open(folder: &Path) -> Result<Self, RemoteError> {
        let root = folder.join("git");
        private_folder(&root).map_err(failed("create", &root))?;
        let path = root.join("lock");
        let lock = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(failed("lock", &path))?;
        match lock.try_lock() {
            Ok(()) => {
                clean(&root, MAX_CACHE);
                // Another run may take the lock in between; the result is the same.
                lock.unlock().map_err(failed("lock", &path))?;
            }
            Err(TryLockError::WouldBlock) => tracing::debug!("another run uses the git cache; it is not cleaned"),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
        }
        // Waits for another run to finish cleaning.
        lock.lock_shared().map_err(failed("lock", &path))?;
        Ok(Self { root, _lock: lock })
    }

    /// The cache of the repository with this key.
    ///
    /// # Errors
    /// When its folder cannot be created.
    pub fn repository(&self, key: &str) -> Result<RepositoryCache, RemoteError> {
        let hash = blake3::hash(key.as_bytes()).to_hex();
        let folder = self.root.join(hash.get(..32).unwrap_or_default());
        private_folder(&folder).map_err(failed("create", &folder))?;
        Ok(RepositoryCache { folder })
    }
}

impl RepositoryCache {
    /// The path of a commit without history, if cached. Marks the entry as used now.
    #[must_use]
    pub fn commit(&self, id: Oid) -> Option<PathBuf> {
        let path = self.folder.join(id.to_string());
        path.join(USED).exists().then(|| {
            touch(&path);
            path
        })
    }

    /// The path of the whole history, cached or not.
    #[must_use]
    pub fn history(&self) -> PathBuf {
        self.folder.join("history")
    }

    /// Locks the history for writing. `None` if another run holds the lock.
    ///
    /// # Errors
    /// When locking fails.
    pub fn lock_history(&self) -> Result<Option<File>, RemoteError> {
        let path = self.folder.join("history.lock");
        let lock = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(failed("lock", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
        }
    }

    /// Creates a folder for a new entry.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn draft(&self) -> Result<PathBuf, RemoteError> {
        let name = format!("{DRAFT_PREFIX}{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let path = self.folder.join(name);
        private_folder(&path).map_err(failed("create a folder in", &path))?;
        Ok(path)
    }

    /// Turns a draft into the entry of a commit. If another run was faster, keeps its equivalent entry.
    ///
    /// # Errors
    /// When the draft cannot be renamed.
    pub fn keep(&self, draft: &Path, id: Oid) -> Result<PathBuf, RemoteError> {
        self.keep_as(draft, self.folder.join(id.to_string()))
    }

    /// Turns a draft into the entry of the history.
    ///
    /// # Errors
    /// When the draft cannot be renamed.
    pub fn keep_history(&self, draft: &Path) -> Result<PathBuf, RemoteError> {
        self.keep_as(draft, self.history())
    }

    fn keep_as(&self, draft: &Path, path: PathBuf) -> Result<PathBuf, RemoteError> {
        touch(draft);
        match fs::rename(draft, &path) {
            Ok(()) => Ok(path),
            Err(_) if path.join(USED).exists() => {
                discard(draft);
                Ok(path)
            }
            Err(error) => Err(failed("add an entry to", &path)(error)),
        }
    }
}

/// Removes an entry or a draft. Ignores errors, because the next cleaning retries.
pub fn discard(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!("cannot remove {}: {error}", path.display());
    }
}

/// Marks an entry as used now.
pub fn touch(entry: &Path) {
    let _ = fs::write(entry.join(USED), b"");
}

/// Creates a folder that only its owner can access.
fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let permissions = fs::metadata(path)?.permissions();
        if permissions.mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

/// An entry with its size and last use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CacheEntry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Removes entries that are unfinished or without marker, then the least recently used ones until the rest fits into
/// `bound` bytes.
fn clean(root: &Path, bound: u64) {
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
    };
    let mut kept = Vec::new();
    for path in folders(root).iter().flat_map(|entries| folders(entries)) {
        match fs::metadata(path.join(USED)).and_then(|mark| mark.modified()) {
            Ok(used) if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DRAFT_PREFIX)) => {
                let files = WalkDir::new(&path).into_iter().flatten();
                let bytes = files.filter_map(|file| file.metadata().ok()).filter(|file| file.is_file());
                kept.push(CacheEntry { bytes: bytes.map(|file| file.len()).sum(), path, used });
            }
            _ => discard(&path),
        }
    }
    for entry in excess(kept, bound) {
        tracing::debug!("removing {} from the git cache, which is full", entry.display());
        discard(&entry);
    }
}

/// The entries to remove, least recently used first.
fn excess(mut kept: Vec<CacheEntry>, bound: u64) -> Vec<PathBuf> {
    kept.sort_by(|a, b| (b.used, &a.path).cmp(&(a.used, &b.path)));
    let mut total = 0_u64;
    let mut to_remove: Vec<PathBuf> = kept
        .into_iter()
        .filter_map(|entry| {
            total = total.saturating_add(entry.bytes);
            (total > bound).then_some(entry.path)
        })
        .collect();
    to_remove.reverse();
    to_remove
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn entry(entries: &Path, name: &str, bytes: usize, minutes_ago: u64) -> PathBuf {
        let path = entries.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("pack"), vec![0; bytes]).unwrap();
        touch(&path);
        let mark = File::options().write(true).open(path.join(USED)).unwrap();
        mark.set_modified(
            SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30) - Duration::from_secs(60 * minutes_ago),
        )
        .unwrap();
        path
    }

    #[test]
    fn removes_unfinished_and_excess_entries() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let (old, new, middle) = (entry(&one, "a", 40, 9), entry(&one, "b", 40, 1), entry(&other, "c", 40, 5));
        let draft = entry(&one, "tmp-1-2", 1, 0);
        let unmarked = other.join("d");
        fs::create_dir_all(&unmarked).unwrap();
        clean(folder.path(), 100);
        let there = |paths: &[&PathBuf]| paths.iter().map(|path| path.exists()).collect::<Vec<_>>();
        assert_eq!(there(&[&old, &new, &middle, &draft, &unmarked]), [false, true, true, false, false]);
    }

    #[test]
    fn removes_nothing_while_another_run_uses_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let first = Cache::open(folder.path()).unwrap();
        let draft = first.repository("x").unwrap().draft().unwrap();
        let second = Cache::open(folder.path()).unwrap();
        assert!(draft.exists());
        drop((first, second));
        drop(Cache::open(folder.path()).unwrap());
        assert!(!draft.exists());
    }

    #[test]
    #[cfg(unix)]
    fn only_the_owner_has_access() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("git")).unwrap();
        fs::set_permissions(folder.path().join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let entries = cache.repository("x").unwrap();
        for path in [&cache.root, &entries.folder] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700, "{}", path.display());
        }
    }

    #[test]
    fn concurrent_fetches_keep_one_entry() {
        let folder = tempfile::tempdir().unwrap();
        let entries = Cache::open(folder.path()).unwrap().repository("x").unwrap();
        let id = Oid::from_str(&"a".repeat(40)).unwrap();
        assert_eq!(entries.commit(id), None);
        let (one, two) = (entries.draft().unwrap(), entries.draft().unwrap());
        let kept = entries.keep(&one, id).unwrap();
        assert_eq!(entries.keep(&two, id).unwrap(), kept);
        assert_eq!(entries.commit(id), Some(kept));
        assert!(!one.exists() && !two.exists());
    }

    proptest! {
        #[test]
        fn kept_entries_fit_and_are_newer_than_removed_ones(
            sizes in proptest::collection::vec((0_u64..100, 0_u64..50), 0..12),
            bound in 0_u64..400,
        ) {
            let kept: Vec<CacheEntry> = sizes.iter().enumerate().map(|(index, (bytes, age))| CacheEntry {
                path: PathBuf::from(format!("{index:02}")),
                bytes: *bytes,
                used: SystemTime::UNIX_EPOCH + Duration::from_secs(*age),
            }).collect();
            let to_remove = excess(kept.clone(), bound);
            let (gone, stay): (Vec<_>, Vec<_>) = kept.into_iter().partition(|entry| to_remove.contains(&entry.path));
            prop_assert!(stay.iter().map(|entry| entry.bytes).sum::<u64>() <= bound);
            for entry in &stay {
                prop_assert!(gone.iter().all(|other| other.used <= entry.used));
            }
        }
    }
}
