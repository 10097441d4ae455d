//! Disk in memory with fault injection, for tests and for the sandbox's simulated nodes. It can be killed at each
//! operation, filled, made to fail, and crashed with loss of data that is not durable.
//!
//! It is more pessimistic than file systems: a new name is durable only after a sync of its folder, and either half
//! of a rename may survive alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::real::too_large;
use super::{Disk, Entry, EntryKind};

/// Disk in memory. Clones share the content.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    inner: Arc<Mutex<Inner>>,
}

/// Injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process is dead and every operation fails. The write at which it dies is half done.
    Killed,
    /// Writing and creating fail with ENOSPC. Removing and renaming work.
    Full,
    /// Every change fails with EROFS.
    ReadOnly,
    /// Sync fails with EIO.
    SyncFails,
    /// A write stores half of the content and fails with ENOSPC.
    ShortWrite,
    /// A rename reports success without effect.
    RenameLost,
    /// A rename fails with EIO.
    RenameFails,
}

/// Number of an inode.
type Id = usize;

#[derive(Debug, Default)]
struct Inner {
    /// Inodes by number; the root is 0. A sync of a folder and a crash drop inodes without a name.
    inodes: BTreeMap<Id, Inode>,
    next: Id,
    operations: u64,
    faults: Vec<(Fault, Range<u64>)>,
    /// Times of the last changes, as far as a test has set them.
    changed_at: BTreeMap<PathBuf, Timestamp>,
}

#[derive(Debug, Clone)]
enum Inode {
    File {
        content: Arc<[u8]>,
        durable: Arc<[u8]>,
        mode: u32,
    },
    Folder {
        entries: BTreeMap<String, Id>,
        durable: BTreeMap<String, Id>,
        mode: u32,
    },
    /// Symbolic link without a target.
    Link,
}

/// Kind of operation, for faults.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Write,
    Sync,
    Rename,
    Remove,
    Make,
}

impl MemoryDisk {
    /// Creates an empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a file durably, as provisioning does. Is not counted, never fails, and replaces what exists.
    pub fn put(&self, path: &Path, content: &[u8], mode: u32) {
        let content: Arc<[u8]> = content.into();
        self.put_inode(path, Inode::File { durable: Arc::clone(&content), content, mode });
    }

    /// Sets the time of the last change of a file or folder. Without it, the time is unknown.
    pub fn touch(&self, path: &Path, at: Timestamp) {
        self.lock().changed_at.insert(path.to_owned(), at);
    }

    /// Creates a symbolic link without a target.
    pub fn put_link(&self, path: &Path) {
        self.put_inode(path, Inode::Link);
    }

    /// Current content of a file, regardless of faults. `None` if it is missing.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Arc<[u8]>> {
        let inner = self.lock();
        match inner.at(path).ok().flatten().and_then(|id| inner.inodes.get(&id)) {
            Some(Inode::File { content, .. }) => Some(Arc::clone(content)),
            _ => None,
        }
    }

    /// Every file with its content, by path, regardless of faults.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Arc<[u8]>> {
        let inner = self.lock();
        let mut found = BTreeMap::new();
        let mut open = vec![(String::new(), 0)];
        while let Some((path, id)) = open.pop() {
            match inner.inodes.get(&id) {
                Some(Inode::Folder { entries, .. }) => {
                    open.extend(entries.iter().map(|(name, id)| (format!("{path}/{name}"), *id)));
                }
                Some(Inode::File { content, .. }) => drop(found.insert(path, Arc::clone(content))),
                Some(Inode::Link) | None => {}
            }
        }
        found
    }

    /// Number of operations that change the disk or make it durable, including failed ones. Reads are not counted.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Makes every operation from this number on fail; a write with this number stores half of its content. The first
    /// operation is 0.
    pub fn kill_at(&self, operation: u64) {
        self.inject(Fault::Killed, operation..u64::MAX);
    }

    /// Injects a fault into the operations with these numbers, if the fault applies to them.
    pub fn inject(&self, fault: Fault, operations: Range<u64>) {
        self.lock().faults.push((fault, operations));
    }

    /// Ends all faults. Content that is not durable stays, as after the end of a process.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// Simulates a power loss and ends all faults. Content that is not durable may be lost, fully or in part. Names
    /// that are not durable may be lost, and removed or renamed ones may return. The result depends only on the seed.
    pub fn crash(&self, seed: u64) {
        let mut inner = self.lock();
        inner.faults.clear();
        let mut random = fastrand::Rng::with_seed(seed);
        for inode in inner.inodes.values_mut() {
            match inode {
                Inode::File { content, durable, .. } => {
                    if content != durable {
                        let kept = match random.u8(..4) {
                            0 => Arc::clone(durable),
                            1 => Arc::clone(content),
                            2 => Arc::from([]),
                            _ => content.get(..random.usize(..=content.len())).unwrap_or_default().into(),
                        };
                        (*content, *durable) = (Arc::clone(&kept), kept);
                    }
                }
                Inode::Folder { entries, durable, .. } => {
                    let mut kept = BTreeMap::new();
                    for name in entries.keys().chain(durable.keys()) {
                        let (now, then) = (entries.get(name), durable.get(name));
                        if kept.contains_key(name) {
                            continue;
                        }
                        let survivor = if now == then || random.bool() { now } else { then };
                        if let Some(id) = survivor {
                            kept.insert(name.clone(), *id);
                        }
                    }
                    (*entries, *durable) = (kept.clone(), kept);
                }
                Inode::Link => {}
            }
        }
        inner.drop_unlinked();
    }

    fn put_inode(&self, path: &Path, inode: Inode) {
        let mut inner = self.lock();
        let mut parent = inner.root();
        let names = components(path);
        let Some((last, above)) = names.split_last() else { return };
        for name in above {
            parent = match inner.child(parent, name) {
                Some(id) if matches!(inner.inodes.get(&id), Some(Inode::Folder { .. })) => id,
                _ => inner.add_durably(parent, name, Inode::folder(0o755)),
            };
        }
        inner.add_durably(parent, last, inode);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation and returns the fault that applies to it.
    fn begin(&self, operation: Operation) -> io::Result<(MutexGuard<'_, Inner>, Option<Fault>)> {
        let mut inner = self.lock();
        inner.root();
        let number = inner.operations;
        if operation != Operation::Read {
            inner.operations += 1;
        }
        let matching_fault = |(fault, range): &(Fault, Range<u64>)| {
            let applies = match fault {
                Fault::Killed => true,
                Fault::Full => matches!(operation, Operation::Write | Operation::Make),
                Fault::ReadOnly => !matches!(operation, Operation::Read | Operation::Sync),
                Fault::SyncFails => operation == Operation::Sync,
                Fault::ShortWrite => operation == Operation::Write,
                Fault::RenameLost | Fault::RenameFails => operation == Operation::Rename,
            };
            // A read fails only because of earlier faults.
            let in_range = range.contains(&number) && (operation != Operation::Read || range.start < number);
            (applies && in_range).then_some((*fault, range.start == number))
        };
        match inner.faults.iter().find_map(matching_fault) {
            Some((Fault::Killed, true)) if operation == Operation::Write => Ok((inner, Some(Fault::Killed))),
            Some((Fault::Killed, _)) => Err(killed()),
            Some((Fault::Full, _)) => Err(full()),
            Some((Fault::ReadOnly, _)) => Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
            Some((Fault::SyncFails | Fault::RenameFails, _)) => Err(io::Error::other("input/output error")),
            Some((fault @ (Fault::ShortWrite | Fault::RenameLost), _)) => Ok((inner, Some(fault))),
            None => Ok((inner, None)),
        }
    }
}

fn killed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the process was killed")
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

/// Components of a path.
fn components(path: &Path) -> Vec<String> {
    let name = |part: &OsStr| part.to_string_lossy().into_owned();
    path.components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(name(part)),
            _ => None,
        })
        .collect()
}

impl Inode {
    fn folder(mode: u32) -> Self {
        Self::Folder { entries: BTreeMap::new(), durable: BTreeMap::new(), mode }
    }
}

impl Inner {
    fn root(&mut self) -> Id {
        self.inodes.entry(0).or_insert_with(|| Inode::folder(0o755));
        self.next = self.next.max(1);
        0
    }

    fn child(&self, folder: Id, name: &str) -> Option<Id> {
        match self.inodes.get(&folder)? {
            Inode::Folder { entries, .. } => entries.get(name).copied(),
            _ => None,
        }
    }

    /// Inode at a path. A file as parent is an error.
    fn at(&self, path: &Path) -> io::Result<Option<Id>> {
        let mut id = 0;
        for name in components(path) {
            match self.inodes.get(&id) {
                Some(Inode::Folder { entries, .. }) => match entries.get(&name) {
                    Some(next) => id = *next,
                    None => return Ok(None),
                },
                Some(_) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }

    /// Parent folder and name of a path.
    fn parent_and_name(&self, path: &Path) -> io::Result<(Id, String)> {
        let mut names = components(path);
        let Some(last) = names.pop() else { return Err(io::Error::from(io::ErrorKind::InvalidInput)) };
        let above: PathBuf = names.iter().collect();
        let parent = self.at(&above)?.ok_or_else(missing)?;
        match self.inodes.get(&parent) {
            Some(Inode::Folder { .. }) => Ok((parent, last)),
            _ => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        }
    }

    fn entries(&mut self, folder: Id) -> Option<&mut BTreeMap<String, Id>> {
        match self.inodes.get_mut(&folder)? {
            Inode::Folder { entries, .. } => Some(entries),
            _ => None,
        }
    }

    fn add(&mut self, folder: Id, name: &str, inode: Inode) -> Id {
        let id = self.next;
        self.next += 1;
        self.inodes.insert(id, inode);
        if let Some(entries) = self.entries(folder) {
            entries.insert(name.to_owned(), id);
        }
        id
    }

    fn add_durably(&mut self, folder: Id, name: &str, inode: Inode) -> Id {
        let id = self.add(folder, name, inode);
        if let Some(Inode::Folder { durable, .. }) = self.inodes.get_mut(&folder) {
            durable.insert(name.to_owned(), id);
        }
        id
    }

    fn is_folder(&self, id: Id) -> bool {
        matches!(self.inodes.get(&id), Some(Inode::Folder { .. }))
    }

    /// Removes a name. Its inode is kept until the folder is synced, since a crash may restore the name.
    fn unlink(&mut self, folder: Id, name: &str) {
        if let Some(entries) = self.entries(folder) {
            entries.remove(name);
        }
    }

    fn drop_unlinked(&mut self) {
        let mut named = BTreeSet::new();
        let mut open = vec![0];
        while let Some(id) = open.pop() {
            if let (true, Some(Inode::Folder { entries, durable, .. })) = (named.insert(id), self.inodes.get(&id)) {
                open.extend(entries.values().chain(durable.values()));
            }
        }
        self.inodes.retain(|id, _| named.contains(id));
    }
}

impl Disk for MemoryDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let (inner, _) = self.begin(Operation::Read)?;
        let Some(id) = inner.at(path)? else { return Ok(None) };
        match inner.inodes.get(&id) {
            Some(Inode::File { content, .. }) if u64::try_from(content.len()).is_ok_and(|length| length <= limit) => {
                Ok(Some(content.to_vec()))
            }
            Some(Inode::File { .. }) => Err(too_large(limit)),
            Some(Inode::Link) | None => Ok(None),
            Some(Inode::Folder { .. }) => Err(io::Error::other("it is not a regular file")),
        }
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let (mut inner, fault) = self.begin(Operation::Write)?;
        let (folder, name) = inner.parent_and_name(path)?;
        let content: Arc<[u8]> = match fault {
            None => content.into(),
            Some(_) => content.get(..content.len() / 2).unwrap_or_default().into(),
        };
        match inner.child(folder, &name) {
            Some(id) => match inner.inodes.get_mut(&id) {
                Some(Inode::File { content: old, mode: old_mode, .. }) => (*old, *old_mode) = (content, mode),
                _ => return Err(io::Error::other("an entry that is not a regular file has this name")),
            },
            None => drop(inner.add(folder, &name, Inode::File { content, durable: Arc::from([]), mode })),
        }
        match fault {
            None => Ok(()),
            Some(Fault::Killed) => Err(killed()),
            Some(_) => Err(full()),
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let (mut inner, _) = self.begin(Operation::Sync)?;
        let id = inner.at(path)?.ok_or_else(missing)?;
        let mut unlinked = false;
        match inner.inodes.get_mut(&id) {
            Some(Inode::File { content, durable, .. }) => *durable = Arc::clone(content),
            Some(Inode::Folder { entries, durable, .. }) => {
                unlinked = durable != entries;
                durable.clone_from(entries);
            }
            Some(Inode::Link) | None => return Err(missing()),
        }
        if unlinked {
            inner.drop_unlinked();
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut inner, fault) = self.begin(Operation::Rename)?;
        let (source, old) = inner.parent_and_name(from)?;
        let (target, new) = inner.parent_and_name(to)?;
        let id = inner.child(source, &old).ok_or_else(missing)?;
        let replaced = inner.child(target, &new);
        if replaced == Some(id) || fault.is_some() {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            match (inner.is_folder(id), inner.is_folder(replaced)) {
                (true, true) if inner.entries(replaced).is_some_and(|entries| !entries.is_empty()) => {
                    return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
                }
                (true, false) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
                (false, true) => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
                _ => inner.unlink(target, &new),
            }
        }
        if let Some(entries) = inner.entries(source) {
            entries.remove(&old);
        }
        if let Some(entries) = inner.entries(target) {
            entries.insert(new, id);
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (mut inner, _) = self.begin(Operation::Remove)?;
        let Some(id) = inner.at(path)? else { return Ok(()) };
        if inner.is_folder(id) {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let (folder, name) = inner.parent_and_name(path)?;
        inner.unlink(folder, &name);
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (mut inner, _) = self.begin(Operation::Remove)?;
        let Some(id) = inner.at(path)? else { return Ok(()) };
        match inner.entries(id) {
            None => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
            Some(entries) if !entries.is_empty() => return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty)),
            Some(_) => {}
        }
        let (folder, name) = inner.parent_and_name(path)?;
        inner.unlink(folder, &name);
        Ok(())
    }

    fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (mut inner, _) = self.begin(Operation::Make)?;
        let mut folder = 0;
        for name in components(path) {
            folder = match inner.child(folder, &name) {
                Some(id) if inner.is_folder(id) => id,
                Some(_) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
                None => inner.add(folder, &name, Inode::folder(mode)),
            };
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let (inner, _) = self.begin(Operation::Read)?;
        let Some(id) = inner.at(path)? else { return Ok(Vec::new()) };
        match inner.inodes.get(&id) {
            Some(Inode::Folder { entries, .. }) => Ok(entries.keys().cloned().collect()),
            _ => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        }
    }

    fn changed_at(&self, path: &Path) -> io::Result<Option<Timestamp>> {
        let (inner, _) = self.begin(Operation::Read)?;
        Ok(inner.changed_at.get(path).copied())
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Entry>> {
        let (inner, _) = self.begin(Operation::Read)?;
        let id = inner.at(path)?;
        Ok(id.and_then(|id| inner.inodes.get(&id)).map(|inode| match inode {
            Inode::File { mode, .. } => Entry { kind: EntryKind::File, mode: *mode },
            Inode::Folder { mode, .. } => Entry { kind: EntryKind::Folder, mode: *mode },
            Inode::Link => Entry { kind: EntryKind::Other, mode: 0o777 },
        }))
    }
}
