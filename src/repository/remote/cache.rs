//! What was fetched, kept for the next run: a folder per repository, and in it a bare repository per commit, or one with
//! the whole history.
//!
//! An entry is made under a name of its own and renamed when it is complete, so that a run that is killed leaves nothing
//! that another could mistake for an entry. Every run holds a shared lock on the whole while it uses it; what was left
//! behind, and what is too much, is removed only by a run that is alone.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use git2::Oid;
use walkdir::WalkDir;

use super::RemoteError;

/// The most bytes that are kept, over all repositories. What was used least recently goes first.
pub const MAX_CACHE: u64 = 1 << 30;
/// The mark of an entry, whose time says when it was used last.
const USED: &str = "nodecfg-used";
/// What names of entries that are being made begin with.
const MAKING: &str = "tmp-";

/// The cache, held.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    /// Held until the process ends or the cache is dropped.
    _lock: File,
}

/// The part of the cache that belongs to one repository.
#[derive(Debug)]
pub struct RepositoryCache {
    folder: PathBuf,
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RemoteError {
    let path = path.to_owned();
    move |source| RemoteError::Cache { operation, path, source }
}

impl Cache {
    /// Opens the cache below `folder`, makes it when there is none, and cleans it when nobody else uses it.
    ///
    /// # Errors
    /// When it cannot be made or locked.
    pub fn open(folder: &Path) -> Result<Self, RemoteError> {
        let root = folder.join("git");
        private_folder(&root).map_err(failed("make", &root))?;
        let path = root.join("lock");
        let lock = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(failed("lock", &path))?;
        match lock.try_lock() {
            Ok(()) => {
                clean(&root, MAX_CACHE);
                // Others may come in between; they find the same as after.
                lock.unlock().map_err(failed("lock", &path))?;
            }
            Err(TryLockError::WouldBlock) => tracing::debug!("another run uses the git cache; it is not cleaned"),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
        }
        // Waits for a run that cleans, which takes no longer than removing files does.
        lock.lock_shared().map_err(failed("lock", &path))?;
        Ok(Self { root, _lock: lock })
    }

    /// The shelf of the repository with this key.
    ///
    /// # Errors
    /// When its folder cannot be made.
    pub fn shelf(&self, key: &str) -> Result<RepositoryCache, RemoteError> {
        let hash = blake3::hash(key.as_bytes()).to_hex();
        let folder = self.root.join(hash.get(..32).unwrap_or_default());
        private_folder(&folder).map_err(failed("make", &folder))?;
        Ok(RepositoryCache { folder })
    }
}

impl RepositoryCache {
    /// Where a commit without its history is, when it is there.
    #[must_use]
    pub fn commit(&self, id: Oid) -> Option<PathBuf> {
        let path = self.folder.join(id.to_string());
        path.join(USED).exists().then(|| {
            touch(&path);
            path
        })
    }

    /// Where the whole history is or is to be.
    #[must_use]
    pub fn history(&self) -> PathBuf {
        self.folder.join("history")
    }

    /// Locks the history for writing, or says that another run has it.
    ///
    /// # Errors
    /// When it cannot be locked at all.
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

    /// A folder to make an entry in.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn draft(&self) -> Result<PathBuf, RemoteError> {
        let name = format!("{MAKING}{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let path = self.folder.join(name);
        private_folder(&path).map_err(failed("make a folder in", &path))?;
        Ok(path)
    }

    /// Turns a draft into the entry of a commit. When another run was faster its entry stays, and is as good.
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

/// Removes an entry or a draft. One that resists is in nobody's way: it is found again when the cache is cleaned.
pub fn discard(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!("cannot remove {}: {error}", path.display());
    }
}

/// Marks an entry as just used.
pub fn touch(entry: &Path) {
    let _ = fs::write(entry.join(USED), b"");
}

/// A folder that only its owner may enter.
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

/// An entry, with what decides whether it stays.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Removes what was never finished, and then what was used least recently until the rest is within the bound.
fn clean(root: &Path, bound: u64) {
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
    };
    let mut kept = Vec::new();
    for path in folders(root).iter().flat_map(|shelf| folders(shelf)) {
        match fs::metadata(path.join(USED)).and_then(|mark| mark.modified()) {
            Ok(used) if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(MAKING)) => {
                let files = WalkDir::new(&path).into_iter().flatten();
                let bytes = files.filter_map(|file| file.metadata().ok()).filter(|file| file.is_file());
                kept.push(Kept { bytes: bytes.map(|file| file.len()).sum(), path, used });
            }
            _ => discard(&path),
        }
    }
    for entry in excess(kept, bound) {
        tracing::debug!("removing {} from the git cache, which is full", entry.display());
        discard(&entry);
    }
}

/// The entries that have to go, least recently used first.
fn excess(mut kept: Vec<Kept>, bound: u64) -> Vec<PathBuf> {
    kept.sort_by(|a, b| (b.used, &a.path).cmp(&(a.used, &b.path)));
    let mut total = 0_u64;
    let mut going: Vec<PathBuf> = kept
        .into_iter()
        .filter_map(|entry| {
            total = total.saturating_add(entry.bytes);
            (total > bound).then_some(entry.path)
        })
        .collect();
    going.reverse();
    going
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn entry(shelf: &Path, name: &str, bytes: usize, minutes_ago: u64) -> PathBuf {
        let path = shelf.join(name);
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
    fn what_is_unfinished_and_what_is_too_much_goes() {
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
    fn nothing_is_removed_while_another_run_uses_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let first = Cache::open(folder.path()).unwrap();
        let draft = first.shelf("x").unwrap().draft().unwrap();
        let second = Cache::open(folder.path()).unwrap();
        assert!(draft.exists());
        drop((first, second));
        drop(Cache::open(folder.path()).unwrap());
        assert!(!draft.exists());
    }

    #[test]
    #[cfg(unix)]
    fn only_the_owner_may_enter() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("git")).unwrap();
        fs::set_permissions(folder.path().join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let shelf = cache.shelf("x").unwrap();
        for path in [&cache.root, &shelf.folder] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700, "{}", path.display());
        }
    }

    #[test]
    fn of_two_that_fetch_the_same_one_entry_stays() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Cache::open(folder.path()).unwrap().shelf("x").unwrap();
        let id = Oid::from_str(&"a".repeat(40)).unwrap();
        assert_eq!(shelf.commit(id), None);
        let (one, two) = (shelf.draft().unwrap(), shelf.draft().unwrap());
        let kept = shelf.keep(&one, id).unwrap();
        assert_eq!(shelf.keep(&two, id).unwrap(), kept);
        assert_eq!(shelf.commit(id), Some(kept));
        assert!(!one.exists() && !two.exists());
    }

    proptest! {
        #[test]
        fn what_stays_is_within_the_bound_and_newer_than_what_goes(
            sizes in proptest::collection::vec((0_u64..100, 0_u64..50), 0..12),
            bound in 0_u64..400,
        ) {
            let kept: Vec<Kept> = sizes.iter().enumerate().map(|(index, (bytes, age))| Kept {
                path: PathBuf::from(format!("{index:02}")),
                bytes: *bytes,
                used: SystemTime::UNIX_EPOCH + Duration::from_secs(*age),
            }).collect();
            let going = excess(kept.clone(), bound);
            let (gone, stay): (Vec<_>, Vec<_>) = kept.into_iter().partition(|entry| going.contains(&entry.path));
            prop_assert!(stay.iter().map(|entry| entry.bytes).sum::<u64>() <= bound);
            for entry in &stay {
                prop_assert!(gone.iter().all(|other| other.used <= entry.used));
            }
        }
    }
}
